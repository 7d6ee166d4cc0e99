//! Checkpoints: what of the system prompt changed at which message, so that it can be replayed exactly.

use std::borrow::Cow;

use serde::{Serialize, Serializer};
use serde_json::Value;

use super::section::{self, Section, check_name, check_sections, render_system_prompt};
use crate::untyped::{self, FromJson, field_error, insert_sorted, join};
use crate::{Error, Result, untyped::Reader};

/// What changed in the system prompt when a user message was dispatched. The first checkpoint of a session holds
/// every section.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(
    target_family = "wasm",
    derive(tsify::Tsify),
    tsify(rename = "SystemPromptCheckpoint")
)]
pub struct Checkpoint {
    /// The number of stored messages, the new user message included; from 1 up.
    pub message_count: u32,
    /// When it was dispatched, in milliseconds since the epoch; an integer from 0 up.
    #[serde(serialize_with = "untyped::serialize_milliseconds")]
    pub timestamp: f64,
    /// The neutralised body of each section that is new or changed, without tags; `null` for a removed one. The
    /// preamble stands under `preamble`.
    #[cfg_attr(target_family = "wasm", tsify(type = "Record<string, string | null>"))]
    pub sections: Changes,
}

/// What became of sections, by name and in the order of names; `None` is one that is gone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes(Vec<(String, Option<String>)>);

impl Changes {
    /// Puts what became of a section in the place of what was said of it before.
    fn set(&mut self, name: &str, body: Option<String>) {
        match self.0.binary_search_by(|(other, _)| other.as_str().cmp(name)) {
            Ok(at) => {
                if let Some((_, value)) = self.0.get_mut(at) {
                    *value = body;
                }
            }
            Err(at) => self.0.insert(at, (name.to_owned(), body)),
        }
    }

    /// Every section that is new, changed or gone.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.0.iter().map(|(name, body)| (name.as_str(), body.as_deref()))
    }

    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(String, Option<String>)> for Changes {
    fn from_iter<I: IntoIterator<Item = (String, Option<String>)>>(items: I) -> Self {
        let mut changes = Self::default();
        for (name, body) in items {
            changes.set(&name, body);
        }
        changes
    }
}

impl Serialize for Changes {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl Checkpoint {
    /// Reads one checkpoint from untyped JSON. Members it does not know are ignored.
    ///
    /// # Errors
    /// `invalid_argument` with the path of the offending `field`: a `messageCount` that is no integer from 1 up, a
    /// `timestamp` that is no integer from 0 up, `sections` that are empty or no object, a bad section name, a value
    /// that is neither string nor null.
    pub fn parse(value: &Value) -> Result<Self> {
        Self::from_json(value, "checkpoint")
    }

    /// Reads a list of checkpoints from untyped JSON, as [`Checkpoint::parse`] does, and checks it as a whole.
    ///
    /// # Errors
    /// `invalid_argument` with the path of the offending `field`, such as `checkpoints[2].messageCount`; also where
    /// a `messageCount` is below the one before it (an equal one is fine).
    pub fn parse_list(value: &Value) -> Result<Vec<Self>> {
        let list = Vec::from_json(value, "checkpoints")?;
        check_list(&list)?;
        Ok(list)
    }
}

impl FromJson for Checkpoint {
    fn from_json(value: &Value, path: &str) -> Result<Self> {
        let mut object = Reader::new(value, path);
        let message_count = object.integer("messageCount", 1);
        let timestamp = object.milliseconds("timestamp");
        let stored = object.get("sections").unwrap_or(&Value::Null);
        object.finish(())?;
        let sections_path = join(path, "sections");
        let mut sections = Changes::default();
        for (name, value) in untyped::object(stored, &sections_path)? {
            let body = match value {
                Value::String(body) => Some(body.clone()),
                Value::Null => None,
                _ => {
                    let problem = "must be a string, or null for a removed section";
                    return Err(field_error(&join(&sections_path, name), problem));
                }
            };
            sections.set(name, body);
        }
        let checkpoint = Self {
            message_count,
            timestamp,
            sections,
        };
        checkpoint.check(path)?;
        Ok(checkpoint)
    }
}

impl Checkpoint {
    /// What the types leave open.
    fn check(&self, path: &str) -> Result<()> {
        if self.message_count == 0 {
            return Err(field_error(
                &join(path, "messageCount"),
                "must be an integer from 1 up",
            ));
        }
        untyped::check_milliseconds(self.timestamp, &join(path, "timestamp"))?;
        let sections = join(path, "sections");
        if self.sections.is_empty() {
            return Err(field_error(
                &sections,
                "must not be empty; record no checkpoint where nothing changed",
            ));
        }
        self.sections.iter().try_for_each(|(name, _)| {
            check_name(name).map_err(|error| error.with("field", join(&sections, name)))
        })
    }
}

fn path_of(index: usize) -> String {
    format!("checkpoints[{index}]")
}

fn falling(path: &str, last: u32) -> Error {
    field_error(
        path,
        &format!("must not be below {last}, the one of the checkpoint before it"),
    )
}

/// Refuses a list that could not have been recorded.
fn check_list(checkpoints: &[Checkpoint]) -> Result<()> {
    let mut last = 0;
    for (index, checkpoint) in checkpoints.iter().enumerate() {
        let path = path_of(index);
        checkpoint.check(&path)?;
        if checkpoint.message_count < last {
            return Err(falling(&join(&path, "messageCount"), last));
        }
        last = checkpoint.message_count;
    }
    Ok(())
}

/// Bodies of sections, by name in the order of names.
type Bodies<'a> = Vec<(&'a str, Cow<'a, str>)>;

fn body_of<'b>(bodies: &'b Bodies<'_>, name: &str) -> Option<&'b str> {
    let at = bodies.binary_search_by(|(other, _)| (*other).cmp(name)).ok()?;
    bodies.get(at).map(|(_, body)| body.as_ref())
}

fn set_body<'a>(bodies: &mut Bodies<'a>, name: &'a str, body: Option<Cow<'a, str>>) {
    let at = match bodies.binary_search_by(|(other, _)| (*other).cmp(name)) {
        Ok(at) => {
            bodies.remove(at);
            at
        }
        Err(at) => at,
    };
    if let Some(body) = body {
        bodies.insert(at, (name, body));
    }
}

/// The bodies in force after every checkpoint up to `message_count`.
fn bodies_at(checkpoints: &[Checkpoint], message_count: u32) -> Bodies<'_> {
    let mut bodies = Vec::new();
    for checkpoint in checkpoints
        .iter()
        .take_while(|checkpoint| checkpoint.message_count <= message_count)
    {
        for (name, value) in checkpoint.sections.iter() {
            set_body(
                &mut bodies,
                name,
                value.and_then(|value| section::body(name, value)),
            );
        }
    }
    bodies
}

/// Records what a prompt changes: the retained checkpoints, and at most one more.
///
/// The first checkpoint holds every section that is not empty, a later one only what differs from the replay of those
/// before it, with `None` for a section that is gone. Where nothing differs there is none. `message_count` is the number
/// of stored messages including the new user message, `timestamp` is in milliseconds since the epoch.
///
/// # Errors
/// `invalid_argument` for malformed retained checkpoints, a `message_count` that is 0 or below the last retained one (an
/// equal one is fine), a `timestamp` that is no integer from 0 up, and what
/// [`render_system_prompt`] refuses.
pub fn diff_system_prompt(
    retained: &[Checkpoint],
    sections: &[Section],
    message_count: u32,
    timestamp: f64,
) -> Result<Vec<Checkpoint>> {
    check_list(retained)?;
    check_sections(sections)?;
    let timestamp = untyped::check_milliseconds(timestamp, "timestamp")?;
    let last = retained.last().map_or(1, |checkpoint| checkpoint.message_count);
    if message_count == 0 {
        return Err(field_error("messageCount", "must be an integer from 1 up"));
    }
    if message_count < last {
        return Err(falling("messageCount", last));
    }

    let before = bodies_at(retained, message_count);
    let mut after = Bodies::new();
    for section in sections {
        set_body(
            &mut after,
            &section.name,
            section::body(&section.name, &section.content),
        );
    }
    let mut changes = Changes::default();
    for (name, _) in &before {
        if body_of(&after, name).is_none() {
            changes.set(name, None);
        }
    }
    for (name, body) in &after {
        if body_of(&before, name) != Some(body.as_ref()) {
            changes.set(name, Some(body.clone().into_owned()));
        }
    }

    let mut checkpoints = retained.to_vec();
    if !changes.is_empty() {
        checkpoints.push(Checkpoint {
            message_count,
            timestamp,
            sections: changes,
        });
    }
    Ok(checkpoints)
}

/// The sections in force once `message_count` messages were stored, in the order in which they are rendered: the replay
/// of every checkpoint with that `messageCount` or a smaller one.
///
/// # Errors
/// `invalid_argument` for malformed checkpoints.
pub fn replay_system_prompt(checkpoints: &[Checkpoint], message_count: u32) -> Result<Vec<Section>> {
    check_list(checkpoints)?;
    let mut sections = Vec::new();
    for (name, body) in bodies_at(checkpoints, message_count) {
        insert_sorted(&mut sections, Section::new(name, body), &|a, b| {
            section::order(&a.name, &b.name)
        });
    }
    Ok(sections)
}

/// The system prompt the model saw at the stored message with this zero-based index; `""` before the first
/// checkpoint. Whether there is such a message, only the caller knows.
///
/// # Errors
/// `invalid_argument` for malformed checkpoints.
pub fn system_prompt_at(checkpoints: &[Checkpoint], message_index: u32) -> Result<String> {
    render_system_prompt(&replay_system_prompt(
        checkpoints,
        message_index.saturating_add(1),
    )?)
}
