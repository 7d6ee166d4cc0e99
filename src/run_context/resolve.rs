//! Which run context a session begins with: what was given, or else what its ticket, its project or the configuration says; in a
//! project with the project's directory and description on top.

use serde_json::{Map, Value};

use super::{RunContext, Work, WorkKind, grant_path};
use crate::{
    Result,
    paths::PathStyle,
    skills::configuration,
    untyped::{Numbered, Reader, join, object, optional},
};

/// What the model is told about the data directory.
const DATA_DIRECTORY: &str = " (writable; for what belongs to the user and not to the project)";

/// The source whose default has a section of its own.
const TIC: &str = "tic";

/// What sessions run as that are given nothing else, from configuration: by agent, or else by source.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Defaults {
    config: Value,
    entries: Vec<Entry>,
    unknown: Vec<String>,
}

/// The default of one agent or source.
#[derive(Clone, Debug, PartialEq)]
struct Entry {
    is_agents: bool,
    name: String,
    path: String,
    /// None where the configuration says that there is none.
    run_context: Option<RunContext>,
}

impl Defaults {
    /// Reads the object `{ agents: { <id>: { run_context } }, sources: { <name>: { run_context } }, tic: { run_context } }`, all of it
    /// optional, or the text of a `config.yml` that says it. `tic` counts where `sources` says nothing of that source.
    ///
    /// # Errors
    /// `invalid_argument` with the `field`; for a text that is no YAML with its `line` and `column` too.
    pub fn parse(given: &Value, path: &str) -> Result<Self> {
        let config = match given {
            Value::Null => Value::Object(Map::new()),
            Value::String(text) => configuration(text, path)?,
            _ => given.clone(),
        };
        let mut defaults = Self {
            config: config.clone(),
            ..Self::default()
        };
        let config = object(&config, path)?;
        for (name, value) in config {
            let path = join(path, name);
            match name.as_str() {
                TIC => {}
                "agents" | "sources" if value.is_null() => {}
                "agents" | "sources" => {
                    for (of, section) in object(value, &path)? {
                        defaults.add(name == "agents", of, section, &join(&path, of))?;
                    }
                }
                _ => defaults.unknown.push(path),
            }
        }
        if let Some(section) = optional(config, TIC) {
            defaults.add(false, TIC, section, &join(path, TIC))?;
        }
        Ok(defaults)
    }

    fn add(&mut self, is_agents: bool, name: &str, section: &Value, path: &str) -> Result<()> {
        if section.is_null() {
            return Ok(());
        }
        let known = ["run_context"];
        let mut section = Reader::new(section, path);
        section.no_misspelt(&known);
        for name in section.others(&known).keys() {
            self.unknown.push(join(path, name));
        }
        // Absent is not null here: null says that there is none.
        let says = section.get("run_context").is_some();
        let run_context: Option<RunContext> = section.read("run_context");
        section.finish(())?;
        let path = join(path, "run_context");
        if let Some(context) = &run_context {
            self.unknown.append(&mut context.unknown_fields(&path));
        }
        if says {
            self.entries.push(Entry {
                is_agents,
                name: name.to_owned(),
                path,
                run_context,
            });
        }
        Ok(())
    }

    /// What the configuration says of an agent, or else of a source. None where it says nothing, and where it says that there is none.
    pub fn of(&self, agent: Option<&str>, source: Option<&str>) -> Option<&RunContext> {
        let find = |is_agents: bool, name: Option<&str>| {
            let is_it = |entry: &&Entry| entry.is_agents == is_agents && name == Some(entry.name.as_str());
            self.entries.iter().find(is_it)
        };
        let found = find(true, agent).or_else(|| find(false, source))?;
        found.run_context.as_ref()
    }

    /// What is wrong with them on a host that writes paths like this.
    ///
    /// # Errors
    /// As [`RunContext::check`].
    pub fn check(&self, style: PathStyle) -> Result<()> {
        let check = |entry: &Entry| match &entry.run_context {
            Some(context) => context.check(style, &entry.path),
            None => Ok(()),
        };
        self.entries.iter().try_for_each(check)
    }

    /// Members that are kept and not looked at, as paths.
    pub fn unknown_fields(&self) -> &[String] {
        &self.unknown
    }

    /// All of the configuration, as an object.
    pub fn config(&self) -> &Value {
        &self.config
    }
}

/// What decides which run context a session begins with, but for the configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunContextInput {
    /// What was given for the session alone: absent, none, or a run context.
    pub explicit: Option<Option<RunContext>>,
    /// The session's agent.
    pub agent_id: Option<String>,
    /// Where the session comes from.
    pub source: Option<String>,
    /// The project that the session is opened for.
    pub project: Option<Work>,
    /// The ticket that it is opened for.
    pub ticket: Option<Work>,
    /// The person's data directory.
    pub data_dir: Option<String>,
}

impl RunContextInput {
    /// Reads it as a caller gives it, with the configuration.
    ///
    /// # Errors
    /// `invalid_argument` with the `field`.
    pub fn parse(input: &Value) -> Result<(Self, Defaults)> {
        let mut reader = Reader::new(input, "input");
        let mut work = |kind: WorkKind| {
            let given = reader.optional(kind.as_str());
            let path = join("input", kind.as_str());
            let read = given.map(|row| Work::read(kind, row, &path)).transpose();
            reader.taken(read)
        };
        let (project, ticket) = (work(WorkKind::Project), work(WorkKind::Ticket));
        let defaults = Defaults::parse(reader.get("defaults").unwrap_or(&Value::Null), "input.defaults");
        let defaults = reader.taken(defaults);
        // Absent is not null here: null is a choice.
        let given = reader.get("explicit").is_some();
        let read = Self {
            explicit: given.then(|| reader.read("explicit")),
            agent_id: reader.read("agentId"),
            source: reader.read("source"),
            project,
            ticket,
            data_dir: reader.read("dataDir"),
        };
        reader.finish((read, defaults))
    }

    /// What was given; or else the ticket's, the project's or the configuration's, the first that there is, whole, and in a project
    /// what [`build_runtime_run_context`] makes of it.
    pub fn resolve(&self, defaults: &Defaults) -> Option<RunContext> {
        if let Some(explicit) = &self.explicit {
            return explicit.clone();
        }
        let works = [&self.ticket, &self.project];
        let of_work = works
            .into_iter()
            .flatten()
            .find_map(|work| work.run_context.as_ref());
        let of_config = || defaults.of(self.agent_id.as_deref(), self.source.as_deref());
        let stored = of_work.or_else(of_config).cloned();
        match &self.project {
            Some(project) => {
                let (ticket, data_dir) = (self.ticket.as_ref(), self.data_dir.as_deref());
                Some(build_runtime_run_context(project, ticket, data_dir, stored))
            }
            None => stored,
        }
    }
}

/// What a session of a project runs as: what is stored for it, in the project's directory, which may be written with the person's data
/// directory, and with a fragment first that says what is worked on. Nothing is there twice.
pub fn build_runtime_run_context(
    project: &Work,
    ticket: Option<&Work>,
    data_dir: Option<&str>,
    stored: Option<RunContext>,
) -> RunContext {
    let directory = project.home.clone().unwrap_or_default();
    let mut header = String::new();
    for (what, work) in [("Project: ", Some(project)), ("\nTicket: ", ticket)] {
        let Some(work) = work else { continue };
        header.push_str(what);
        header.push_str(work.name.trim());
        if let Some(text) = work.description.as_deref().map(str::trim)
            && !text.is_empty()
        {
            header.push('\n');
            header.push_str(text);
        }
    }
    let mut writes = vec![directory.clone()];
    if let Some(data_dir) = data_dir {
        let hint = ["\nData directory: ", data_dir, DATA_DIRECTORY].concat();
        header.push_str(&hint);
        writes.push(data_dir.to_owned());
    }
    let mut context = stored.unwrap_or_default();
    context.system_prompt = in_front(vec![header], context.system_prompt, |text| text);
    context.allow_fs_writes = in_front(writes, context.allow_fs_writes, |entry| {
        grant_path(PathStyle::Posix, entry)
    });
    context.working_directory = Some(directory);
    context
}

/// The texts of both lists, each once: two that say the same are one.
fn in_front(first: Vec<String>, then: Vec<String>, says: fn(&str) -> &str) -> Vec<String> {
    let mut said = Numbered::default();
    let mut texts = Vec::new();
    for text in first.into_iter().chain(then) {
        if said.add(says(&text), 0) {
            texts.push(text);
        }
    }
    texts
}
