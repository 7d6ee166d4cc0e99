//! The run context: a permission group, prompt fragments, grants and a working directory, from configuration.

mod resolve;
mod work;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::{
    Result,
    list::{Listed, joined},
    paths::{AbsolutePath, PathStyle, relative_key},
    untyped::{FromJson, Reader, ToJson, field_error, join},
};

pub use resolve::{Defaults, RunContextInput, build_runtime_run_context};
pub(crate) use work::no_work;
pub use work::{Work, WorkChange, WorkKind};

/// What a session, project, ticket or job runs as. The gate and the prompt use its methods and nothing else.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(target_family = "wasm", derive(tsify::Tsify))]
pub struct RunContext {
    /// The permission group whose rules come before those of `default`.
    #[cfg_attr(target_family = "wasm", tsify(optional, type = "string | null"))]
    security_group: Option<String>,
    /// Fragments for the system prompt.
    #[cfg_attr(target_family = "wasm", tsify(optional))]
    system_prompt: Vec<String>,
    /// What may be written without a question: an entry, and everything below it.
    #[cfg_attr(target_family = "wasm", tsify(optional))]
    allow_fs_writes: Vec<String>,
    /// What may be read without a question, beside the working directory and what may be written.
    #[cfg_attr(target_family = "wasm", tsify(optional))]
    allow_fs_reads: Vec<String>,
    /// Null or empty: the session's own.
    #[cfg_attr(target_family = "wasm", tsify(optional, type = "string | null"))]
    working_directory: Option<String>,
    /// Members that nothing here looks at: they are kept, and reported.
    #[cfg_attr(target_family = "wasm", serde(skip))]
    others: Map<String, Value>,
}

const FIELDS: [&str; 5] = [
    "security_group",
    "system_prompt",
    "allow_fs_writes",
    "allow_fs_reads",
    "working_directory",
];

impl RunContext {
    /// The members that are kept and not looked at, as paths from `path`, the run context's own, on.
    pub fn unknown_fields(&self, path: &str) -> Vec<String> {
        self.others.keys().map(|name| join(path, name)).listed()
    }

    /// The permission group, where one is named.
    pub fn tool_group_id(&self) -> Option<&str> {
        self.security_group.as_deref().filter(|group| !group.is_empty())
    }

    /// The prompt fragments, joined by a blank line; empty where there is none.
    pub fn extra_system_prompt(&self) -> String {
        joined(&self.system_prompt, "\n\n")
    }

    /// The working directory: its own, or else the session's.
    pub fn effective_working_dir<'a>(&'a self, cwd: &'a str) -> &'a str {
        match self.working_directory.as_deref() {
            None | Some("") => cwd,
            Some(directory) => directory,
        }
    }

    /// The same in another working directory.
    pub(crate) fn in_directory(mut self, directory: &str) -> Self {
        self.working_directory = Some(directory.to_owned());
        self
    }

    /// Whether its grants let a path be written.
    pub fn is_write_allowed(&self, path: &AbsolutePath, grants: &Grants) -> bool {
        grants.writes.iter().any(|grant| path.is_in(grant))
    }

    /// Whether its grants let a path be read: those for writing let it be read too.
    pub fn is_read_allowed(&self, path: &AbsolutePath, grants: &Grants) -> bool {
        self.is_write_allowed(path, grants) || grants.reads.iter().any(|grant| path.is_in(grant))
    }

    /// The entries that open something, those for writing first.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&str, bool)> {
        let writes = self.allow_fs_writes.iter().map(|entry| (entry.as_str(), true));
        let reads = self.allow_fs_reads.iter().map(|entry| (entry.as_str(), false));
        writes.chain(reads)
    }

    /// What is wrong with it on a host that writes paths like this: an entry that is a file system's root.
    ///
    /// # Errors
    /// `invalid_argument` with the `field`.
    pub fn check(&self, style: PathStyle, path: &str) -> Result<()> {
        let check = |name: &str, entries: &[String]| {
            entries.iter().enumerate().try_for_each(|(at, entry)| {
                let bare = grant_path(style, entry);
                let field = format!("{path}.{name}[{at}]");
                if entry.trim().is_empty() {
                    return Err(field_error(
                        &field,
                        "is empty; name a file or directory, or leave it out",
                    ));
                }
                let directory = AbsolutePath::parse(style, &format!("{bare}/"));
                let names_nothing =
                    bare.chars().all(|c| matches!(c, '/' | '\\')) && style == PathStyle::Windows;
                if bare.is_empty() || names_nothing || directory.is_some_and(|entry| entry.is_root()) {
                    let problem = "is the root of a file system; name a directory below it";
                    return Err(field_error(&field, problem));
                }
                Ok(())
            })
        };
        check("allow_fs_writes", &self.allow_fs_writes)?;
        check("allow_fs_reads", &self.allow_fs_reads)
    }
}

/// The canonical paths that grants open, after the host was asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Grants {
    /// May be written and read.
    pub writes: Vec<AbsolutePath>,
    /// May be read.
    pub reads: Vec<AbsolutePath>,
}

/// A grant without the end that says "everything below": a directory is granted with all of it anyway.
pub(crate) fn grant_path(style: PathStyle, entry: &str) -> &str {
    let ends: &[&str] = match style {
        PathStyle::Posix => &["/**", "/*"],
        PathStyle::Windows => &["/**", "/*", "\\**", "\\*"],
    };
    let bare = ends.iter().find_map(|end| entry.strip_suffix(end));
    let bare = bare.unwrap_or(entry);
    bare.strip_suffix('/').unwrap_or(bare)
}

/// What a relative grant must canonically be: the working directory and its own segments, with no link on the way.
pub(crate) fn granted_in(directory: &AbsolutePath, style: PathStyle, entry: &str) -> Option<AbsolutePath> {
    relative_key(style, entry).map(|key| directory.join(&key))
}

fn texts(value: Option<&Value>, path: &str) -> Result<Vec<String>> {
    value.map_or_else(|| Ok(Vec::new()), |value| Vec::from_json(value, path))
}

impl FromJson for RunContext {
    fn from_json(value: &Value, path: &str) -> Result<Self> {
        let mut object = Reader::new(value, path);
        object.no_misspelt(&FIELDS);
        let mut list = |name: &str| {
            let read = texts(object.optional(name), &format!("{path}.{name}"));
            object.taken(read)
        };
        let (system_prompt, allow_fs_writes, allow_fs_reads) = (
            list("system_prompt"),
            list("allow_fs_writes"),
            list("allow_fs_reads"),
        );
        let read = Self {
            security_group: object.read("security_group"),
            system_prompt,
            allow_fs_writes,
            allow_fs_reads,
            working_directory: object.read("working_directory"),
            others: object.others(&FIELDS),
        };
        object.finish(read)
    }
}

impl ToJson for RunContext {
    fn to_json(&self) -> Value {
        let known: [&dyn ToJson; 5] = [
            &self.security_group,
            &self.system_prompt,
            &self.allow_fs_writes,
            &self.allow_fs_reads,
            &self.working_directory,
        ];
        let mut members = self.others.clone();
        for (name, value) in FIELDS.iter().zip(known) {
            members.insert((*name).to_owned(), value.to_json());
        }
        Value::Object(members)
    }
}

impl Serialize for RunContext {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        self.to_json().serialize(to)
    }
}
