//! A session file on its way in: a header line, then one message to a line. Bytes go in, commits come out.
//!
//! What does not fit into one commit is staged: the session is stored with a time before all times, under which no list shows
//! it and nothing opens it, until the last commit gives it its own.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    Header, ModelRef,
    export::{ABORTED, APART, APPENDED, FAILED, FORMAT, IMPORTED, OWN, OWN_SETTINGS, TAGGED, Texts, VERSION},
    header::check_id,
    lines::{Lines, invalid, look, time},
    machine::numbered_from,
};
use crate::{
    Error, Result,
    message::{MessageData, MessageIndex, MessageOutline, Role, StopKind},
    paths::PathStyle,
    permissions::Preset,
    prompt::{Checkpoint, validate_host_sections},
    storage::{
        AppendedMessage, COUNTS, Commit, Counters, ORIGIN, OUTLINES_PER_PACK, OutlinePack, SessionRecord,
        StoredSession, counts, staged_time,
    },
    untyped::{self, FromJson, Numbered, Reader, ToJson, field_error, join},
};

/// So many messages make a commit, or so many bytes of their lines.
const FULL: usize = 256;
const FULL_BYTES: usize = 1024 * 1024;

/// A session file on its way in.
#[derive(Debug)]
pub struct Import<M> {
    texts: Texts<M>,
    style: PathStyle,
    /// The id that the session gets instead of its own.
    new_id: Option<String>,
    lines: Lines,
    begun: Option<Begun>,
    /// Messages that are in no commit yet, and how long their lines were.
    messages: Vec<M>,
    bytes: usize,
    /// Of these messages, and of those before them in the same pack.
    outlines: Vec<MessageOutline>,
    /// How many commits there were, and the operation of the first.
    commits: u64,
    origin: String,
}

/// What the header line said.
#[derive(Debug)]
struct Begun {
    line: u32,
    /// The session, but for its messages: as many as were read are counted.
    stored: StoredSession,
    header: Header,
    tagged: bool,
    /// What the header says of messages that are still to come, the next one last.
    apart: Vec<Value>,
    unread: u32,
    came: Came,
    /// What the export needs of it, at the end.
    kept: Option<Value>,
}

/// A header line as it came.
#[derive(Debug)]
pub(super) struct Came {
    pub(super) value: Value,
    /// Each field with its JSON text.
    pub(super) texts: Vec<(String, String)>,
}

/// What is wrong with what a line says.
fn in_line(line: u32, error: &Error) -> Error {
    let mut told = invalid(line, &format!("cannot be used: {error}"));
    for (name, value) in error.data() {
        told = told.with(name, value.clone());
    }
    told
}

impl<M: MessageData> Import<M> {
    /// Nothing yet. The session keeps its id, or gets a new one; `style` is how the host writes paths.
    pub fn new(texts: Texts<M>, style: PathStyle, new_id: Option<String>) -> Self {
        Self {
            texts,
            style,
            new_id,
            lines: Lines::default(),
            begun: None,
            messages: Vec::new(),
            bytes: 0,
            outlines: Vec::new(),
            commits: 0,
            origin: String::new(),
        }
    }

    /// Takes the next bytes of the file.
    ///
    /// # Errors
    /// `import_invalid` with the `line`.
    pub fn take(&mut self, bytes: &[u8]) -> Result<()> {
        let mut lines = std::mem::take(&mut self.lines);
        let taken = lines.take(bytes, &mut |line, text| self.take_line(line, text));
        self.lines = lines;
        taken
    }

    /// The file has ended.
    ///
    /// # Errors
    /// `import_invalid` with the `line`, also where the header speaks of messages that did not come.
    pub fn end(&mut self) -> Result<()> {
        let mut lines = std::mem::take(&mut self.lines);
        lines.end(&mut |line, text| self.take_line(line, text))?;
        let begun = self.begun.as_mut().ok_or_else(|| {
            let what = "is missing; a session file begins with its header, one line of JSON";
            invalid(1, what)
        })?;
        begun.check().map_err(|error| in_line(begun.line, &error))?;
        let count = begun.stored.record.message_count;
        begun.header.read_count = count.saturating_sub(begun.unread);
        begun.kept = self
            .texts
            .kept(&begun.stored, &begun.header, &begun.came, begun.tagged);
        Ok(())
    }

    /// The session as it will be stored, once the header was read: without its messages, of which as many as were read are counted.
    pub fn record(&self) -> Option<&SessionRecord> {
        self.begun.as_ref().map(|begun| &begun.stored.record)
    }

    /// Whether there are enough messages for a commit.
    pub fn is_full(&self) -> bool {
        self.messages.len() >= FULL || self.bytes >= FULL_BYTES
    }

    /// The next commit: the messages that were read since the one before. The last one shows the session, and brings what belongs
    /// to it. None before the header was read.
    pub fn commit(&mut self, operation_id: String, now: f64, is_last: bool) -> Option<Commit<M>> {
        let Begun {
            stored, header, kept, ..
        } = self.begun.as_mut()?;
        let is_first = self.commits == 0;
        if is_first {
            self.origin.clone_from(&operation_id);
        }
        let record = &mut stored.record;
        record.settings = header.to_settings();
        record
            .settings
            .insert(ORIGIN.to_owned(), Value::from(self.origin.as_str()));
        if let Some(kept) = kept {
            record.settings.insert(IMPORTED.to_owned(), kept.clone());
        }
        if is_last {
            let lists = [
                stored.snapshots.len(),
                stored.checkpoints.len(),
                stored.compactions.len(),
            ];
            record.settings.insert(COUNTS.to_owned(), counts(lists));
        }
        let timestamp = if is_last {
            record.updated_at
        } else {
            staged_time(now)
        };
        let first = record.message_count - u32::try_from(self.messages.len()).unwrap_or(record.message_count);
        let pack = first / OUTLINES_PER_PACK;
        let mut commit = Commit {
            session_id: record.id.clone(),
            operation_id,
            timestamp,
            create: is_first.then(|| SessionRecord {
                updated_at: timestamp,
                message_count: 0,
                ..record.clone()
            }),
            origin: self.origin.clone(),
            expected: Some(self.commits),
            messages: Vec::new(),
            outline_packs: Vec::new(),
            snapshots: Vec::new(),
            checkpoints: Vec::new(),
            compactions: Vec::new(),
            approvals: Vec::new(),
            settings: BTreeMap::new(),
        };
        self.commits += 1;
        for (body, at) in std::mem::take(&mut self.messages).into_iter().zip(first..) {
            commit.messages.push(AppendedMessage {
                index: MessageIndex(at),
                body,
            });
        }
        self.bytes = 0;
        if !commit.messages.is_empty() {
            for (outlines, pack) in self.outlines.chunks(OUTLINES_PER_PACK as usize).zip(pack..) {
                let outlines = outlines.to_vec();
                commit.outline_packs.push(OutlinePack { pack, outlines });
            }
            let whole = record.message_count / OUTLINES_PER_PACK - pack;
            self.outlines.drain(..(whole * OUTLINES_PER_PACK) as usize);
        }
        if is_last {
            commit.snapshots = numbered_from(&stored.snapshots, 0);
            commit.checkpoints = numbered_from(&stored.checkpoints, 0);
            commit.compactions = numbered_from(&stored.compactions, 0);
            if !is_first {
                // The others were there at first; these are known at the end alone.
                for name in ["readCount", IMPORTED, COUNTS] {
                    if let Some(value) = record.settings.get(name) {
                        commit.settings.insert(name.to_owned(), value.clone());
                    }
                }
            }
        }
        Some(commit)
    }

    fn take_line(&mut self, line: u32, text: &str) -> Result<()> {
        let Texts { read, value, .. } = self.texts;
        let number = |number: &str| read(number, false).map(|(number, _)| number.number_text());
        let looked = look(text, &number).map_err(|number| {
            let number: &str = number.get(..64).unwrap_or(number);
            let what = format!("has the number `{number}`, which a double does not hold; write it as text");
            invalid(line, &what)
        })?;
        let has_tags = self.begun.as_ref().is_some_and(|begun| begun.tagged);
        let (said, members) = read(text, has_tags).ok_or_else(|| {
            let what =
                "is no JSON, is cut off, or is nested deeper than 128 levels; correct it, or leave it out";
            invalid(line, what)
        })?;
        if members != looked.members {
            let what = "has two members of one name in one object; leave one of them out";
            return Err(invalid(line, what));
        }
        let Some(begun) = &mut self.begun else {
            let mut came = Came {
                value: value(&said),
                texts: Vec::new(),
            };
            for (name, text) in looked.fields {
                let name = read(name, false).and_then(|(name, _)| name.text_lossy());
                came.texts.push((name.unwrap_or_default(), text.to_owned()));
            }
            let begun = self.begin(line, came).map_err(|error| in_line(line, &error))?;
            self.begun = Some(begun);
            return Ok(());
        };
        // Whoever wrote the file did not say who typed: the dialect's rule does.
        let outline = begun.header.dialect.outline(&said, true);
        let outline = outline.map(|outline| begun.apart(outline));
        self.outlines
            .push(outline.map_err(|error| in_line(line, &error))?);
        self.messages.push(said);
        self.bytes += text.len();
        begun.stored.record.message_count += 1;
        Ok(())
    }

    /// Reads the header.
    fn begin(&self, line: u32, came: Came) -> Result<Begun> {
        let mut object = Reader::new(&came.value, "header");
        let wrong = |name: &str, problem: &str| Err(field_error(&join("header", name), problem));
        if object.get("format").and_then(Value::as_str) != Some(FORMAT) {
            return wrong(
                "format",
                "must be `loop-session`; import a session file, header first",
            );
        }
        if object.get("version").and_then(Value::as_f64) != Some(f64::from(VERSION)) {
            return wrong(
                "version",
                "must be 2; save the session again by a program that writes version 2",
            );
        }
        let own = object
            .optional(OWN)
            .map(|own| untyped::object(own, "header.runcontext"));
        let own = object.taken(own.transpose());
        let apart = own.and_then(|own| own.get(APART)).and_then(Value::as_array);
        let mut apart = apart.cloned().unwrap_or_default();
        apart.reverse();
        let mut settings = BTreeMap::new();
        for name in OWN_SETTINGS {
            if let Some(value) = own.and_then(|own| own.get(name)) {
                settings.insert(name.to_owned(), value.clone());
            }
        }
        let preset = object.get("permissionPreset");
        let was_chosen = settings.get("presetChosen").and_then(Value::as_bool);
        let chosen = was_chosen.unwrap_or(preset.is_some());
        let preset = preset.filter(|_| chosen).cloned();
        let unchosen = (!chosen).then(|| Preset::ReadOnly.to_json());
        let pinned = optional_time(&mut object, "pinnedAt").is_some();
        // What is no model of ours is kept for the export.
        let model = object
            .optional("model")
            .filter(|model| ModelRef::from_json(model, "").is_ok());
        for (name, value) in [
            ("presetChosen", Value::from(chosen)),
            ("permissionPreset", preset.or(unchosen).unwrap_or_default()),
            ("title", object.optional("title").cloned().unwrap_or_default()),
            ("pinned", Value::from(pinned)),
            ("model", model.cloned().unwrap_or_default()),
        ] {
            settings.insert(name.to_owned(), value);
        }
        let unread = match object.optional("unread") {
            Some(Value::Bool(unread)) => u32::from(*unread),
            _ => object.read_or_default("unread"),
        };
        let (header, refusals) = Header::read(&settings);
        for (_, refusal) in refusals {
            object.taken::<()>(Err(refusal));
        }
        let created_at = optional_time(&mut object, "createdAt");
        if created_at.is_none() {
            object.taken::<()>(Err(field_error("header.createdAt", NO_TIME)));
        }
        let created_at = created_at.unwrap_or_default();
        let checkpoints = object.optional("systemPromptCheckpoints");
        let checkpoints = checkpoints.map(Checkpoint::parse_list).transpose();
        let mut stored = StoredSession {
            record: SessionRecord {
                id: object.read("id"),
                cwd: object.read_or_default("cwd"),
                created_at,
                updated_at: optional_time(&mut object, "updatedAt").unwrap_or(created_at),
                message_count: 0,
                counters: Counters::default(),
                settings: BTreeMap::new(),
            },
            outlines: Vec::new(),
            snapshots: object.read_or_default("runtimeContexts"),
            checkpoints: object.taken(checkpoints).unwrap_or_default(),
            compactions: object.read_or_default("compactions"),
            damage: Vec::new(),
        };
        object.finish(())?;
        validate_host_sections(&header.sections)?;
        if let Some(context) = header.run_context.run_context() {
            context.check(self.style, "header.runcontext.runContext")?;
        }
        match &self.new_id {
            Some(id) => stored.record.id.clone_from(id),
            None => check_id(&stored.record.id).map_err(|_| {
                let problem = "must have 1 to 128 letters, digits, `_` or `-`; import it with the id `new`";
                field_error("header.id", problem)
            })?,
        }
        Ok(Begun {
            line,
            stored,
            header,
            tagged: own.and_then(|own| own.get(TAGGED)) == Some(&Value::Bool(true)),
            apart,
            unread,
            came,
            kept: None,
        })
    }
}

const NO_TIME: &str = "must be a time in ISO 8601, such as `2026-01-31T12:00:00.000Z`";

/// A time that may be absent: a text, or milliseconds since the epoch.
fn optional_time(object: &mut Reader<'_>, name: &str) -> Option<f64> {
    match object.optional(name)? {
        Value::String(text) => {
            let read = time(text).ok_or_else(|| field_error(&join("header", name), NO_TIME));
            object.taken(read.map(Some))
        }
        _ => Some(object.milliseconds(name)),
    }
}

impl Begun {
    /// The next message, with what the header says of it apart.
    fn apart(&mut self, mut outline: MessageOutline) -> MessageOutline {
        let at = self.stored.record.message_count;
        let said = self.apart.last().and_then(Value::as_array);
        let [position, what] = said.map_or(&[][..], Vec::as_slice) else {
            return outline;
        };
        if position.as_u64() != Some(u64::from(at)) {
            return outline;
        }
        match (what.as_str().unwrap_or_default(), outline.role) {
            (APPENDED, Role::User) => outline.user_turn = false,
            (FAILED, Role::Assistant) => outline.stop = Some(StopKind::Error),
            (ABORTED, Role::Assistant) => outline.stop = Some(StopKind::Aborted),
            _ => return outline,
        }
        self.apart.pop();
        outline
    }

    /// What the header says of messages has to be true of those that came.
    fn check(&self) -> Result<()> {
        let count = self.stored.record.message_count;
        if !self.apart.is_empty() {
            let problem =
                "must hold pairs of a message's position and `appended`, `failed` or `aborted`, in order";
            return Err(field_error("header.runcontext.apart", problem));
        }
        let past = |path: String| {
            let problem = format!("is past the end: the file has {count} messages");
            Err(field_error(&path, &problem))
        };
        for (at, checkpoint) in self.stored.checkpoints.iter().enumerate() {
            if checkpoint.message_count > count {
                return past(format!("header.systemPromptCheckpoints[{at}].messageCount"));
            }
        }
        let mut ids = Numbered::default();
        for (at, compaction) in self.stored.compactions.iter().enumerate() {
            let path = |name: &str| format!("header.compactions[{at}].{name}");
            if compaction.history_message_count > count {
                return past(path("historyMessageCount"));
            }
            if compaction.first_kept_message_index.0 > compaction.history_message_count {
                return past(path("firstKeptMessageIndex"));
            }
            if !ids.add(&compaction.id, at) {
                let problem = "is the id of another compaction too; give each its own";
                return Err(field_error(&path("id"), problem));
            }
        }
        Ok(())
    }
}
