//! What a tool declares about its calls, and the paths that a call asks for.

use serde::Serialize;
use serde_json::Value;

use super::preset::Access;
use crate::{
    Error, Result,
    list::Listed,
    message::{Kind, MessageView},
    untyped::{self, FromJson, Reader, field_error, one_of},
};

/// Whether a path is read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(target_family = "wasm", derive(tsify::Tsify))]
pub enum PathAccess {
    /// Read.
    Read,
    /// Written.
    Write,
}

impl PathAccess {
    /// The text form.
    pub fn as_str(self) -> &'static str {
        match self {
            PathAccess::Read => "read",
            PathAccess::Write => "write",
        }
    }

    /// Reads the text form.
    pub fn from_text(text: &str) -> Option<Self> {
        [PathAccess::Read, PathAccess::Write]
            .into_iter()
            .find(|access| access.as_str() == text)
    }

    /// The column of the presets' table.
    pub(crate) fn access(self) -> Access {
        match self {
            PathAccess::Read => Access::Read,
            PathAccess::Write => Access::Write,
        }
    }
}

impl FromJson for PathAccess {
    fn from_json(value: &Value, path: &str) -> Result<Self> {
        one_of(
            value,
            path,
            &[("read", PathAccess::Read), ("write", PathAccess::Write)],
        )
    }
}

/// An argument that holds a path, or paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathArgument {
    /// Where in the arguments: a JSON pointer, `*` for every item of a list.
    pointer: Vec<String>,
    /// The pointer as it was declared.
    argument: String,
    access: PathAccess,
    /// Whether the tool goes on below it by itself.
    tree: bool,
}

impl FromJson for PathArgument {
    fn from_json(value: &Value, path: &str) -> Result<Self> {
        let mut object = Reader::new(value, path);
        let argument: String = object.read("argument");
        let pointer = object.taken(pointer(&argument, &untyped::join(path, "argument")));
        let access = object.get("access").unwrap_or(&Value::Null);
        let access = object.taken(PathAccess::from_json(access, &untyped::join(path, "access")).map(Some));
        let kind = object.optional("kind").map_or(Ok(false), |kind| {
            one_of(
                kind,
                &untyped::join(path, "kind"),
                &[("file", false), ("tree", true)],
            )
        });
        let tree = object.taken(kind);
        object.finish(Self {
            pointer,
            argument,
            access: access.unwrap_or(PathAccess::Write),
            tree,
        })
    }
}

/// The steps of a JSON pointer.
fn pointer(text: &str, path: &str) -> Result<Vec<String>> {
    let wrong = || field_error(path, "must be a JSON pointer such as `/path` or `/files/*/path`");
    let steps = text.strip_prefix('/').ok_or_else(wrong)?;
    let mut read = Vec::new();
    for step in steps.split('/') {
        let mut name = String::new();
        let mut chars = step.chars();
        while let Some(c) = chars.next() {
            match (c, c == '~') {
                (c, false) => name.push(c),
                _ => match chars.next() {
                    Some('0') => name.push('~'),
                    Some('1') => name.push('/'),
                    _ => return Err(wrong()),
                },
            }
        }
        read.push(name);
    }
    Ok(read)
}

/// What a tool declares for the gate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolPolicy {
    /// None: it does not say; `paths` imply reads and writes.
    pub access: Option<Access>,
    /// A group of tools that a person may stop being asked about.
    pub category: Option<String>,
    /// The MCP server it comes from.
    pub mcp_server: Option<String>,
    /// The arguments that hold paths.
    pub paths: Vec<PathArgument>,
    /// Arguments that an approval does not cover, as JSON pointers; none of them holds a path.
    pub advisory: Vec<Vec<String>>,
    /// Whether the tool finds paths inside texts itself.
    pub extracts: bool,
}

impl FromJson for ToolPolicy {
    fn from_json(value: &Value, path: &str) -> Result<Self> {
        let mut object = Reader::new(value, path);
        let accesses = [
            ("read", Access::Read),
            ("write", Access::Write),
            ("execute", Access::Execute),
            ("network", Access::Network),
            ("none", Access::None),
        ];
        let access = object
            .optional("access")
            .map(|access| one_of(access, &untyped::join(path, "access"), &accesses).map(Some));
        let advisory: Option<Vec<String>> = object.read("advisory");
        let advisory = advisory.unwrap_or_default();
        let advisory = advisory
            .iter()
            .enumerate()
            .map(|(at, text)| pointer(text, &untyped::join(path, &format!("advisory[{at}]"))));
        let mut pointers = Vec::new();
        for read in advisory {
            pointers.push(object.taken(read));
        }
        let tool = Self {
            access: object.taken(access.unwrap_or(Ok(None))),
            category: object.read("category"),
            mcp_server: object.read("mcpServer"),
            paths: object.read_or_default("paths"),
            advisory: pointers,
            extracts: false,
        };
        let tool = object.finish(tool)?;
        tool.check(path)?;
        Ok(tool)
    }
}

impl ToolPolicy {
    /// What the types leave open.
    ///
    /// # Errors
    /// `invalid_argument` with the `field`.
    pub fn check(&self, path_of_tool: &str) -> Result<()> {
        if self.access == Some(Access::None) && self.declares_paths() {
            let field = if self.paths.is_empty() {
                "extractPaths"
            } else {
                "paths"
            };
            return Err(field_error(
                &untyped::join(path_of_tool, field),
                "must be absent where `access` is `none`",
            ));
        }
        // An answer about one file would be one about every other.
        let covers = |advisory: &Vec<String>, path: &PathArgument| {
            let mut steps = advisory.iter().zip(&path.pointer);
            advisory.len() <= path.pointer.len() && steps.all(|(a, b)| a == b || a == "*" || b == "*")
        };
        let mut paths = self.paths.iter();
        if let Some(path) = paths.find(|path| self.advisory.iter().any(|it| covers(it, path))) {
            let text = format!("must not cover `{}`, which holds a path", path.argument);
            return Err(field_error(&untyped::join(path_of_tool, "advisory"), &text));
        }
        Ok(())
    }

    /// Whether it says where its paths are.
    pub fn declares_paths(&self) -> bool {
        self.extracts || !self.paths.is_empty()
    }

    /// The members of the arguments that its paths are, where each path is such a member and no other is looked for.
    pub(super) fn members(&self) -> Option<Vec<&str>> {
        let mut members = Vec::new();
        for path in self.paths.iter().filter(|_| !self.extracts) {
            match path.pointer.as_slice() {
                [name] if name != "*" => members.push(name.as_str()),
                _ => return None,
            }
        }
        (!members.is_empty()).then_some(members)
    }

    /// The paths that a call asks for, as its arguments name them; an argument that is not there stands for the
    /// working directory.
    pub fn requests<M: MessageView>(&self, arguments: &M) -> Vec<PathRequest> {
        let mut requests = Vec::new();
        for path in &self.paths {
            let before = requests.len();
            path.collect(
                Some(arguments.clone()),
                &path.pointer,
                String::new(),
                &mut requests,
            );
            if requests.len() == before {
                requests.push(path.request(path.argument.clone(), Requested::Path(String::new())));
            }
        }
        requests
    }
}

impl PathArgument {
    fn request(&self, argument: String, requested: Requested) -> PathRequest {
        PathRequest {
            argument,
            access: self.access,
            tree: self.tree,
            requested,
        }
    }

    fn collect<M: MessageView>(
        &self,
        value: Option<M>,
        steps: &[String],
        at: String,
        requests: &mut Vec<PathRequest>,
    ) {
        let Some(value) = value.filter(|value| value.kind() != Kind::Null) else {
            // What is not there stands for the working directory, each time.
            let argument = steps.iter().fold(at, |at, step| below(&at, step));
            requests.push(self.request(argument, Requested::Path(String::new())));
            return;
        };
        let Some((step, rest)) = steps.split_first() else {
            let requested = match value.kind() {
                Kind::String => value.text().map_or(Requested::NoPath, Requested::Path),
                // A list, too, where none was declared: a tool may make any text of it.
                _ => Requested::NoPath,
            };
            requests.push(self.request(at, requested));
            return;
        };
        let list = value.kind() == Kind::List;
        match (step.as_str(), list) {
            ("*", true) => {
                for (number, item) in value.items().into_iter().enumerate() {
                    self.collect(Some(item), rest, below(&at, &number.to_string()), requests);
                }
            }
            (step, true) => {
                let item = step
                    .parse::<usize>()
                    .ok()
                    .and_then(|number| value.items().into_iter().nth(number));
                self.collect(item, rest, below(&at, step), requests);
            }
            // Members where items were declared: a tool may go through them all the same.
            (step, false) if value.kind() == Kind::Object && step != "*" => {
                self.collect(value.field(step), rest, below(&at, step), requests);
            }
            // A value where members were declared: what the tool makes of it nobody knows.
            _ => requests.push(self.request(at, Requested::NoPath)),
        }
    }
}

/// The JSON pointer to a member or an item.
fn below(pointer: &str, step: &str) -> String {
    let mut below = String::with_capacity(pointer.len() + 1 + step.len());
    below.push_str(pointer);
    below.push('/');
    for c in step.chars() {
        match c {
            '~' => below.push_str("~0"),
            '/' => below.push_str("~1"),
            c => below.push(c),
        }
    }
    below
}

/// What stands where a path should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requested {
    /// A path, relative or absolute; empty for the working directory.
    Path(String),
    /// Something else.
    NoPath,
}

/// A path that a call asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathRequest {
    /// Where in the arguments, as a JSON pointer.
    pub argument: String,
    /// What is done with it.
    pub access: PathAccess,
    /// Whether it stands for everything below it too.
    pub tree: bool,
    /// The path.
    pub requested: Requested,
}

impl PathRequest {
    /// What the host is asked about; none where no path stands there.
    pub(super) fn query(&self) -> Option<&str> {
        match &self.requested {
            Requested::Path(path) if path.is_empty() => Some("."),
            Requested::Path(path) => Some(path),
            Requested::NoPath => None,
        }
    }
}

/// Every text in the arguments, names of members included: one of them may be a path.
pub fn texts_in<M: MessageView>(arguments: &M) -> Vec<String> {
    let mut texts = Vec::new();
    collect_texts(arguments, &mut texts);
    texts
}

fn collect_texts<M: MessageView>(value: &M, texts: &mut Vec<String>) {
    match value.kind() {
        Kind::String => texts.extend(value.text_lossy()),
        Kind::List => value.items().iter().for_each(|item| collect_texts(item, texts)),
        Kind::Object => {
            for (name, member) in value.members() {
                texts.push(name);
                collect_texts(&member, texts);
            }
        }
        Kind::Null | Kind::Bool | Kind::Number | Kind::Bytes => {}
    }
}

/// A path that a tool found inside a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtractedPath {
    /// The path.
    pub path: String,
    /// What is done with it.
    pub access: PathAccess,
}

impl FromJson for ExtractedPath {
    fn from_json(value: &Value, path: &str) -> Result<Self> {
        let object = untyped::object(value, path)?;
        let access = object.get("access").unwrap_or(&Value::Null);
        Ok(Self {
            path: untyped::member(object, path, "path")?,
            access: PathAccess::from_json(access, &untyped::join(path, "access"))?,
        })
    }
}

impl ExtractedPath {
    /// It among the paths of its call.
    pub fn request(self, number: usize) -> PathRequest {
        PathRequest {
            argument: format!("extractPaths[{number}]"),
            access: self.access,
            tree: false,
            requested: Requested::Path(self.path),
        }
    }
}

/// Refuses what a tool returned that is no list of paths.
///
/// # Errors
/// `invalid_argument` that names the place.
pub fn extracted(value: &Value) -> Result<Vec<PathRequest>> {
    let paths: Vec<ExtractedPath> = Vec::from_json(value, "extractPaths")
        .map_err(|error| Error::invalid(format!("what the tool found is no list of paths: {error}")))?;
    Ok(paths
        .into_iter()
        .enumerate()
        .map(|(number, path)| path.request(number))
        .listed())
}
