//! `Runtime`: everything that the sessions of one page or worker share.

use std::rc::Rc;

use js_sys::Promise;
use wasm_bindgen::{
    closure::Closure,
    prelude::{JsValue, wasm_bindgen},
};

use super::{
    approvals::ApprovalInbox,
    foreign::{Foreign, callback, optional_text, text},
    host::{self, JsHost, JsModel, JsSummarizer, JsTools, JsWorld},
    http::{Authorize, fetched},
    permissions::PermissionStore,
    plain::{self, fold, list, object, to_js},
    projects::{JobStore, ProjectStore},
    promised,
    session::Session,
    skills::SkillCatalog,
    tabs::JsTabs,
    transfer::{Importing, exported},
};
use crate::{
    Result,
    list::Listed,
    message::{CountTokens, MessageView},
    permissions::protected_names,
    run_context::Defaults,
    runtime::{self, CompactionOptions, Parts, RuntimeEvent, SkillOptions, Tabs},
    session::NewSession,
    storage::{
        ListFilter, SessionRecord, Storage, StorageEvent, StorageInfo,
        host::HostStorage,
        indexed_db::{Durability, IndexedDb, is_unavailable},
    },
    untyped::{FromJson, field_error},
};

/// The name of the database where the caller gives none.
const DATABASE: &str = "runcontext";

/// Opens and lists sessions, and holds what they share: storage, skills, model, tools.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Runtime {
    inner: Rc<runtime::Runtime<JsValue>>,
    default_cwd: Option<String>,
    reason: Option<String>,
    authorize: Option<Authorize>,
}

/// Where the caller wants sessions kept.
#[derive(Debug)]
enum Place {
    Default,
    Memory,
    IndexedDb { name: String, durability: Durability },
    Host(HostStorage),
}

impl Place {
    fn parse(option: Option<&JsValue>, path: &str) -> Result<Self> {
        let named = |name: &str, durability| Self::IndexedDb {
            name: name.to_owned(),
            durability,
        };
        let Some(option) = option else {
            return Ok(Self::Default);
        };
        match option.text().as_deref() {
            Some("memory") => return Ok(Self::Memory),
            Some("indexeddb") => return Ok(named(DATABASE, Durability::Strict)),
            _ => {}
        }
        let wrong = || {
            let text =
                "must be `indexeddb`, `memory`, an object with the kind `indexeddb`, or a `StorageAdapter`";
            field_error(path, text)
        };
        let storage = Foreign::record(option, path).map_err(|_| wrong())?;
        for part in ["session", "shared", "directory"] {
            if storage.get(part)?.is_some() {
                return HostStorage::new(option, path).map(Self::Host);
            }
        }
        if storage.text("kind")?.as_deref() != Some("indexeddb") {
            return Err(wrong());
        }
        let name = storage.text("name")?;
        if name.as_deref() == Some("") {
            return Err(storage.wrong("name", "must be a text that is not empty"));
        }
        let durability = match storage.text("durability")?.as_deref() {
            None | Some("strict") => Durability::Strict,
            Some("relaxed") => Durability::Relaxed,
            Some(_) => return Err(storage.wrong("durability", "must be `strict` or `relaxed`")),
        };
        Ok(named(name.as_deref().unwrap_or(DATABASE), durability))
    }

    /// Opens it. Memory stands in for IndexedDB only where nobody named IndexedDB and there is none; then the reason
    /// comes with it.
    async fn open(self) -> Result<Opened> {
        let (name, durability, by_default) = match self {
            Self::Memory => return Opened::memory(None),
            Self::Host(storage) => return Ok(Opened::host(storage, None)),
            Self::IndexedDb { name, durability } => (name, durability, false),
            Self::Default => (DATABASE.to_owned(), Durability::Strict, true),
        };
        match IndexedDb::open(&name, durability).await {
            Ok(database) => Ok(Opened {
                storage: Rc::new(database),
                tabs: Some(Rc::new(JsTabs::new(&name))),
                reason: None,
            }),
            Err(error) if by_default && is_unavailable(&error) => Opened::memory(Some(error.to_string())),
            Err(error) => Err(error),
        }
    }
}

/// A storage, with those who share it.
struct Opened {
    storage: Rc<dyn Storage<JsValue>>,
    tabs: Option<Rc<dyn Tabs>>,
    reason: Option<String>,
}

impl Opened {
    fn memory(reason: Option<String>) -> Result<Self> {
        Ok(Self::host(HostStorage::memory()?, reason))
    }

    fn host(storage: HostStorage, reason: Option<String>) -> Self {
        Self {
            storage: Rc::new(storage),
            tabs: None,
            reason,
        }
    }
}

#[wasm_bindgen]
impl Runtime {
    /// Opens a runtime. Sessions are kept in IndexedDB where there is one and nothing else is asked for, else in
    /// memory; `storageInfo` says which.
    #[wasm_bindgen(unchecked_return_type = "Promise<Runtime>")]
    pub fn open(
        #[wasm_bindgen(unchecked_optional_param_type = "RuntimeOptions")] options: JsValue,
    ) -> Promise {
        promised(
            Self::parts(&options).map(|(place, parts, default_cwd, authorize)| async move {
                let Opened {
                    storage,
                    tabs,
                    reason,
                } = place.open().await?;
                let inner = runtime::Runtime::open(parts(storage, tabs)).await?;
                Ok(JsValue::from(Self {
                    inner,
                    default_cwd,
                    reason,
                    authorize,
                }))
            }),
        )
    }

    /// What kind of storage is used, and why, where it is not the kind that would be used by default.
    #[wasm_bindgen(getter, js_name = "storageInfo", unchecked_return_type = "StorageInfo")]
    pub fn storage_info(&self) -> JsValue {
        to_js(&StorageInfo {
            reason: self.reason.clone(),
            ..self.inner.storage_info()
        })
    }

    /// Creates a session; it is saved when this resolves.
    #[wasm_bindgen(js_name = "createSession", unchecked_return_type = "Promise<Session>")]
    pub fn create_session(
        &self,
        #[wasm_bindgen(unchecked_optional_param_type = "SessionOptions")] options: JsValue,
    ) -> Promise {
        let inner = self.inner.clone();
        let options = plain::json_in(&options, "options").and_then(|options| NewSession::parse(&options));
        let cwd = self.default_cwd.clone();
        promised(options.map(|mut options| async move {
            options.cwd = options.cwd.or(cwd);
            let session = inner.create_session(options).await?;
            Ok(Session::new(session).into())
        }))
    }

    /// Opens a stored session. Opening one that is open gives another handle on it.
    #[wasm_bindgen(js_name = "openSession", unchecked_return_type = "Promise<Session>")]
    pub fn open_session(&self, #[wasm_bindgen(unchecked_param_type = "string")] id: JsValue) -> Promise {
        let inner = self.inner.clone();
        promised(
            text(&id, "id").map(|id| async move { Ok(Session::new(inner.open_session(&id).await?).into()) }),
        )
    }

    /// Opens the session that was used last, of a working directory or of all; creates one where there is none. A session that
    /// is damaged is passed over, and stays in the list.
    #[wasm_bindgen(js_name = "continueRecent", unchecked_return_type = "Promise<Session>")]
    pub fn continue_recent(
        &self,
        #[wasm_bindgen(unchecked_optional_param_type = "string")] cwd: JsValue,
    ) -> Promise {
        let inner = self.inner.clone();
        let new = NewSession {
            cwd: self.default_cwd.clone(),
            ..NewSession::default()
        };
        promised(optional_text(&cwd, "cwd").map(|cwd| async move {
            let session = inner.continue_recent(cwd, new).await?;
            Ok(Session::new(session).into())
        }))
    }

    /// Lists stored sessions, newest first: 50, or `limit` up to 500. `before` is the last entry's `cursor`.
    #[wasm_bindgen(js_name = "listSessions", unchecked_return_type = "Promise<SessionInfo[]>")]
    pub fn list_sessions(
        &self,
        #[wasm_bindgen(unchecked_optional_param_type = "{ cwd?: string; limit?: number; before?: string }")]
        filter: JsValue,
    ) -> Promise {
        let inner = self.inner.clone();
        let filter = plain::json_in(&filter, "filter").and_then(|filter| ListFilter::parse(&filter));
        promised(filter.map(|filter| async move {
            let records = inner.list_sessions(filter).await?;
            let infos = records.iter().map(SessionRecord::info).listed();
            Ok(list(to_js(&infos).items()))
        }))
    }

    /// Deletes a session for good.
    #[wasm_bindgen(js_name = "deleteSession", unchecked_return_type = "Promise<void>")]
    pub fn delete_session(&self, #[wasm_bindgen(unchecked_param_type = "string")] id: JsValue) -> Promise {
        let inner = self.inner.clone();
        promised(text(&id, "id").map(|id| async move {
            inner.delete_session(&id).await?;
            Ok(JsValue::UNDEFINED)
        }))
    }

    /// Stores a session file, loop-session version 2: a header line, then one message to a line. Nothing of it is seen before all of it
    /// is stored. The session keeps its id (`conflict` where that is taken), or gets a new one. `import_invalid` has the `line` that is
    /// wrong. A file brings its permissions: import only what you trust.
    #[wasm_bindgen(js_name = "importSession", unchecked_return_type = "Promise<SessionInfo>")]
    pub fn import_session(
        &self,
        #[wasm_bindgen(unchecked_param_type = "string | Uint8Array | Blob | ReadableStream<Uint8Array>")]
        source: JsValue,
        #[wasm_bindgen(unchecked_optional_param_type = "ImportOptions")] options: JsValue,
    ) -> Promise {
        let inner = self.inner.clone();
        let importing = Importing::new(&source, &options, inner.listener_errors());
        promised(importing.map(|importing| async move {
            let record = importing.run(&inner).await?;
            Ok(to_js(&record.info()))
        }))
    }

    /// A stored session as a session file. It is read as the stream is; what is wrong is an error of the stream. What is pending is
    /// not in it, nor are approvals.
    #[wasm_bindgen(
        js_name = "exportSession",
        unchecked_return_type = "ReadableStream<Uint8Array>"
    )]
    pub fn export_session(
        &self,
        #[wasm_bindgen(unchecked_param_type = "string")] id: JsValue,
    ) -> Result<JsValue> {
        Ok(exported(self.inner.clone(), text(&id, "id")?))
    }

    /// Asks the browser to clear nothing that is saved by itself; it may ask a person. Says what came of it, and how many bytes
    /// this site uses and may use, as far as the browser says. Where there is no browser to ask: `persisted` is false.
    #[wasm_bindgen(
        js_name = "requestPersistence",
        unchecked_return_type = "Promise<Persistence>"
    )]
    pub fn request_persistence(&self) -> Promise {
        let inner = self.inner.clone();
        promised(Ok(async move { Ok(to_js(&inner.request_persistence().await?)) }))
    }

    /// The skills to choose from.
    #[wasm_bindgen(getter)]
    pub fn skills(&self) -> SkillCatalog {
        SkillCatalog::new(self.inner.clone())
    }

    /// The calls that people are asked about.
    #[wasm_bindgen(getter)]
    pub fn approvals(&self) -> ApprovalInbox {
        ApprovalInbox::new(self.inner.clone())
    }

    /// Permission groups and approval rules.
    #[wasm_bindgen(getter)]
    pub fn permissions(&self) -> PermissionStore {
        PermissionStore::new(self.inner.clone())
    }

    /// Answers a request to one of the HTTP routes, which `openapi.json` of the package describes. `authorize` of the options is asked
    /// first. Whatever a client sends is answered; the promise rejects for what is no `Request`. Where the request is aborted before its
    /// body is read, nothing is changed; after that it is done all the same.
    #[wasm_bindgen(unchecked_return_type = "Promise<Response>")]
    pub fn fetch(&self, #[wasm_bindgen(unchecked_param_type = "Request")] request: JsValue) -> Promise {
        let (inner, authorize) = (self.inner.clone(), self.authorize.clone());
        promised(Ok(async move { fetched(&inner, authorize, &request).await }))
    }

    /// Projects and their tickets.
    #[wasm_bindgen(getter)]
    pub fn projects(&self) -> ProjectStore {
        ProjectStore::new(self.inner.clone())
    }

    /// Scheduled jobs.
    #[wasm_bindgen(getter)]
    pub fn jobs(&self) -> JobStore {
        JobStore::new(self.inner.clone())
    }

    /// Members of the option `defaults` that are kept and not looked at, as paths.
    #[wasm_bindgen(getter, js_name = "unknownFields", unchecked_return_type = "string[]")]
    pub fn unknown_fields(&self) -> JsValue {
        to_js(self.inner.defaults().unknown_fields())
    }

    /// Calls `listener` with what happens to the runtime. Returns a function that ends it.
    #[wasm_bindgen(unchecked_return_type = "() => void")]
    pub fn subscribe(
        &self,
        #[wasm_bindgen(unchecked_param_type = "(event: RuntimeEvent) => void")] listener: JsValue,
    ) -> Result<JsValue> {
        let function = callback(listener)?;
        let errors = self.inner.listener_errors();
        let number = self
            .inner
            .subscribe(host::listener(function, errors, runtime_event));
        let inner = self.inner.clone();
        Ok(Closure::<dyn Fn()>::new(move || inner.unsubscribe(number)).into_js_value())
    }

    /// Texts of errors of listeners and of `authorize`, the first hundred.
    #[wasm_bindgen(getter, js_name = "listenerErrors", unchecked_return_type = "string[]")]
    pub fn listener_errors(&self) -> JsValue {
        to_js(&self.inner.listener_errors().all())
    }

    /// Lets go of every session and of the storage, once what is on its way is saved. An import that runs ends with `disposed`, and
    /// leaves nothing.
    #[wasm_bindgen(unchecked_return_type = "Promise<void>")]
    pub fn close(&self) -> Promise {
        let inner = self.inner.clone();
        promised(Ok(async move {
            inner.at_rest().await;
            inner.close()?;
            inner.gone().await;
            Ok(JsValue::UNDEFINED)
        }))
    }
}

type MakeParts = Box<dyn FnOnce(Rc<dyn Storage<JsValue>>, Option<Rc<dyn Tabs>>) -> Parts<JsValue>>;

impl Runtime {
    /// Reads the options, before anything is opened.
    fn parts(given: &JsValue) -> Result<(Place, MakeParts, Option<String>, Option<Authorize>)> {
        let nothing = object(&[]);
        let options = match Foreign::options(given, "options")? {
            Some(options) => options,
            None => Foreign::new(&nothing, "options")?,
        };
        let authorize = options.method("authorize")?;
        let authorize = authorize.map(|function| Rc::new((options.clone(), function)));
        let defaults = plain::json_in(&options.get_as_is("defaults")?, "options.defaults")?;
        let defaults = Defaults::parse(&defaults, "options.defaults")?;
        let place = Place::parse(options.get("storage")?.as_ref(), "options.storage")?;
        let (host, default_cwd, data_dir) = match options.object("host")? {
            Some(host) => (JsHost::new(&host)?, host.text("cwd")?, host.text("dataDir")?),
            None => (None, None, None),
        };
        let names = plain::json_in(&options.get_as_is("protectedNames")?, "options.protectedNames")?;
        let names = FromJson::from_json(&names, "options.protectedNames")?;
        let protected = protected_names(names, fold)?;
        let skills = match options.get("skills")? {
            Some(skills) => {
                FromJson::from_json(&plain::json_in(&skills, "options.skills")?, "options.skills")?
            }
            None => SkillOptions::default(),
        };
        let mut compaction = CompactionOptions::default();
        if let Some(given) = Foreign::options(&options.get_as_is("compaction")?, "options.compaction")? {
            compaction.summarizer = JsSummarizer::of(&given)?;
            if let Some(pressure) = given.get("pressure")? {
                let pressure = pressure.as_f64().filter(|it| *it > 0.0 && *it <= 1.0);
                let wrong = || given.wrong("pressure", "must be a number over 0, up to 1");
                compaction.pressure = pressure.ok_or_else(wrong)?;
            }
        }
        let tools = match options.get("tools")? {
            Some(tools) => JsTools::new(&tools, "options.tools")?,
            None => JsTools::default(),
        };
        let model = match options.object("model")? {
            Some(client) => Some(Rc::new(JsModel::new(client)?) as Rc<dyn runtime::Model<JsValue>>),
            None => None,
        };
        let count = options.method("countTokens")?;
        let now = options.method("now")?;
        let strict = options.flag("strict")?.unwrap_or(true);
        let parts = move |storage, tabs| Parts {
            storage,
            tabs,
            world: Rc::new(JsWorld { now }),
            model,
            declarations: tools.declarations(),
            tools: Rc::new(tools),
            strict,
            host: host.map(|host| Rc::new(host) as Rc<dyn runtime::Host>),
            fold,
            protected,
            defaults,
            data_dir,
            skills,
            count_tokens: count.map(|count| -> Rc<CountTokens<JsValue>> {
                Rc::new(move |text| host::counted(&count, text))
            }),
            compaction,
        };
        Ok((place, Box::new(parts), default_cwd, authorize))
    }
}

fn runtime_event(event: &RuntimeEvent) -> JsValue {
    let text = |name, text: &str| Some((name, JsValue::from_str(text)));
    let (kind, more) = match event {
        RuntimeEvent::SessionCreated(id) => ("session-created", text("sessionId", id)),
        RuntimeEvent::SessionDeleted(id) => ("session-deleted", text("sessionId", id)),
        RuntimeEvent::SessionChanged(id) => ("session-changed", text("sessionId", id)),
        RuntimeEvent::SkillsChanged => ("skills-changed", None),
        RuntimeEvent::PermissionsChanged => ("permissions-changed", None),
        RuntimeEvent::Storage(StorageEvent::Upgraded) => ("storage-closed", text("reason", "upgraded")),
        RuntimeEvent::Storage(StorageEvent::Deleted) => ("storage-closed", text("reason", "deleted")),
        RuntimeEvent::Storage(StorageEvent::Lost) => ("storage-closed", text("reason", "lost")),
        RuntimeEvent::Storage(StorageEvent::Blocked) => ("storage-blocked", None),
        RuntimeEvent::Storage(StorageEvent::LeftOut(error)) => {
            ("list-incomplete", Some(("error", JsValue::from(error.clone()))))
        }
    };
    let mut members = vec![("type", JsValue::from_str(kind))];
    members.extend(more);
    object(&members)
}
