//! `SkillCatalog`: the skills to choose from, and the host's sources of them.

use std::rc::Rc;

use js_sys::{Function, Promise};
use wasm_bindgen::{
    closure::Closure,
    prelude::{JsValue, wasm_bindgen},
};

use super::{
    foreign::{self, Abort, Foreign, text},
    host,
    plain::{self, error_text, field, list, object, to_js},
    promised,
    session::signal_of,
};
use crate::{
    Error, Result,
    runtime::{ListedFile, Progress, Refreshing, Runtime, SkillChange, SkillFile, SkillSource, load_tool},
    skills::SkillEntry,
    storage::LocalFuture,
};

/// Skills to choose from. Those that are added are kept in storage; those of sources are listed, and read when they are chosen.
#[wasm_bindgen]
#[derive(Debug)]
pub struct SkillCatalog {
    inner: Rc<Runtime<JsValue>>,
}

impl SkillCatalog {
    pub(super) fn new(inner: Rc<Runtime<JsValue>>) -> Self {
        Self { inner }
    }
}

#[wasm_bindgen]
impl SkillCatalog {
    /// Adds a skill from the text or the bytes of its `SKILL.md`, or replaces the one that was added with the same scope and
    /// location.
    #[wasm_bindgen(unchecked_return_type = "Promise<SkillInfo>")]
    pub fn add(
        &self,
        #[wasm_bindgen(
            unchecked_param_type = "{ content: string | Uint8Array; location: string; scope?: string }"
        )]
        skill: JsValue,
    ) -> Promise {
        self.change(Self::file(&skill))
    }

    /// Lists the skills of a source from now on. Rejects where it cannot be listed; then it is not added.
    #[wasm_bindgen(js_name = "addSource", unchecked_return_type = "Promise<void>")]
    pub fn add_source(
        &self,
        #[wasm_bindgen(unchecked_param_type = "SkillSource")] source: JsValue,
        #[wasm_bindgen(unchecked_optional_param_type = "RefreshOptions")] options: JsValue,
    ) -> Promise {
        self.read(JsSource::new(&source).map(Some), &options)
    }

    /// All skills, in catalogue order: scope, name, location.
    #[wasm_bindgen(unchecked_return_type = "SkillInfo[]")]
    pub fn list(&self) -> JsValue {
        list(self.inner.skills().iter().map(skill_info))
    }

    /// Switches a skill on or off, wherever it comes from; that is kept in storage.
    #[wasm_bindgen(js_name = "setEnabled", unchecked_return_type = "Promise<void>")]
    pub fn set_enabled(
        &self,
        #[wasm_bindgen(unchecked_param_type = "string")] id: JsValue,
        #[wasm_bindgen(unchecked_param_type = "boolean")] enabled: JsValue,
    ) -> Promise {
        self.change(text(&id, "id").and_then(|id| {
            let enabled = enabled.as_bool();
            let enabled = enabled.ok_or_else(|| Error::invalid("`enabled` must be true or false"))?;
            Ok(SkillChange::Enable(id, enabled))
        }))
    }

    /// Removes a skill that was added. What was said with it stays.
    #[wasm_bindgen(unchecked_return_type = "Promise<void>")]
    pub fn remove(&self, #[wasm_bindgen(unchecked_param_type = "string")] id: JsValue) -> Promise {
        self.change(text(&id, "id").map(SkillChange::Remove))
    }

    /// Lists everything anew: what is stored, also by other tabs, and every source. Rejects where a source cannot be listed; what
    /// that one listed before stays.
    #[wasm_bindgen(unchecked_return_type = "Promise<void>")]
    pub fn refresh(
        &self,
        #[wasm_bindgen(unchecked_optional_param_type = "RefreshOptions")] options: JsValue,
    ) -> Promise {
        self.read(Ok(None), &options)
    }

    /// The tool `load_skill`, for hosts with a loop of their own: `execute` gives the text of its result. `Session.prompt` runs it by
    /// itself.
    #[wasm_bindgen(js_name = "loadTool", unchecked_return_type = "Tool")]
    pub fn load_tool(&self) -> JsValue {
        let inner = self.inner.clone();
        let execute = move |arguments: JsValue| {
            let inner = inner.clone();
            let given = plain::json_in(&arguments, "arguments");
            promised(given.map(|given| async move {
                let name = given
                    .get("name")
                    .and_then(|name| name.as_str())
                    .map(str::to_owned);
                let text = inner.load_skill(name.as_deref()).await?;
                Ok(JsValue::from_str(&text))
            }))
        };
        let execute = Closure::<dyn Fn(JsValue) -> Promise>::new(execute).into_js_value();
        let declaration = load_tool::<JsValue>().declaration;
        object(&[
            ("name", field(&declaration, "name")),
            ("description", field(&declaration, "description")),
            ("parameters", field(&declaration, "parameters")),
            ("access", JsValue::from_str("none")),
            ("execute", execute),
        ])
    }
}

impl SkillCatalog {
    fn change(&self, change: Result<SkillChange>) -> Promise {
        let inner = self.inner.clone();
        promised(change.map(|change| async move {
            let added = inner.change_skills(change).await?;
            Ok(added.map_or(JsValue::UNDEFINED, |entry| skill_info(&entry)))
        }))
    }

    /// Reads a source that is new, or everything.
    fn read(&self, new: Result<Option<(String, JsSource)>>, options: &JsValue) -> Promise {
        let inner = self.inner.clone();
        let given = new.and_then(|new| Ok((new, self.refreshing(options)?)));
        promised(given.map(|(new, (refreshing, abort))| async move {
            let new = new.as_ref();
            let new =
                new.map(|(scope, source)| (scope.as_str(), Rc::new(source.clone()) as Rc<dyn SkillSource>));
            let read = inner.read_skills(new, &refreshing).await;
            drop(abort);
            read.map(|()| JsValue::UNDEFINED)
        }))
    }

    fn file(skill: &JsValue) -> Result<SkillChange> {
        let skill = Foreign::record(skill, "skill")?;
        let member = |name: &str| Ok::<_, Error>(skill.get(name)?.unwrap_or(JsValue::UNDEFINED));
        let location = text(&member("location")?, &skill.path("location"))?;
        let scope = skill.text("scope")?.unwrap_or_else(|| "personal".to_owned());
        let content = file_bytes(&member("content")?, &skill.path("content"))?;
        let entry = SkillEntry::from_bytes(&scope, &location, &content)?;
        // What is no text is no skill, and is refused as such.
        Ok(SkillChange::Add(
            entry,
            String::from_utf8(content).unwrap_or_default(),
        ))
    }

    /// Reads the options of whoever waits for files to be read.
    fn refreshing(&self, options: &JsValue) -> Result<(Refreshing, Abort)> {
        let abort = signal_of(options)?;
        let progress = match Foreign::options(options, "options")? {
            Some(options) => options.method("onProgress")?,
            None => None,
        };
        let told =
            |progress: &Progress| object(&[("read", progress.read.into()), ("files", progress.files.into())]);
        let errors = self.inner.listener_errors();
        let refreshing = Refreshing {
            abort: abort.signal.clone(),
            progress: progress.map(|progress| host::listener(progress, errors, told)),
        };
        Ok((refreshing, abort))
    }
}

/// The bytes of a file that is given as bytes or as text.
fn file_bytes(content: &JsValue, name: &str) -> Result<Vec<u8>> {
    match plain::bytes_in(content, name)? {
        Some(bytes) => Ok(bytes),
        None => Ok(text(content, name)?.into_bytes()),
    }
}

fn skill_info(entry: &SkillEntry) -> JsValue {
    to_js(entry)
}

/// A source of the host.
#[derive(Clone)]
struct JsSource {
    source: Foreign,
    list: Function,
}

impl JsSource {
    fn new(source: &JsValue) -> Result<(String, Self)> {
        let source = Foreign::new(source, "source")?;
        let scope = source.text("scope")?;
        let scope = scope.ok_or_else(|| source.wrong("scope", "must be the name of a scope"))?;
        let list = source.method("list")?;
        let list = list.ok_or_else(|| source.wrong("list", "must be a function"))?;
        Ok((scope, Self { source, list }))
    }
}

impl SkillSource for JsSource {
    fn list(&self) -> LocalFuture<'_, std::result::Result<Vec<ListedFile>, String>> {
        Box::pin(async move {
            let listed = self.source.call(&self.list, &[]).await;
            let listed = listed.map_err(|error| error_text(&error))?;
            JsFile::all(&listed).map_err(|error| error.to_string())
        })
    }
}

/// A file that a source lists.
struct JsFile {
    file: Foreign,
    read: Function,
}

impl JsFile {
    fn all(listed: &JsValue) -> Result<Vec<ListedFile>> {
        let mut files: Vec<ListedFile> = Vec::new();
        for item in foreign::items(listed, "files")? {
            let (path, item) = item?;
            let file = Foreign::new(&item, &path)?;
            let location = file.text("location")?;
            let location = location.ok_or_else(|| file.wrong("location", "must be a text"))?;
            let read = file.method("read")?;
            let read = read.ok_or_else(|| file.wrong("read", "must be a function"))?;
            files.push((location, Rc::new(Self { file, read })));
        }
        Ok(files)
    }
}

impl SkillFile for JsFile {
    fn read(&self) -> LocalFuture<'_, std::result::Result<Vec<u8>, String>> {
        Box::pin(async move {
            let content = self.file.call(&self.read, &[]).await;
            let content = content.map_err(|error| error_text(&error))?;
            file_bytes(&content, "content").map_err(|error| error.to_string())
        })
    }
}
