//! The small outline of a message: all that the core needs to know of it once it is stored.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::MessageView;
use crate::{
    Result,
    list::Listed,
    untyped::{self, FromJson, Reader},
};

/// Who a message is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Role {
    /// A person, or text in a person's place.
    User,
    /// The model.
    Assistant,
    /// A tool's answer.
    ToolResult,
    /// Any other role: kept and projected by reference.
    Other,
}

/// How an assistant message ended, as far as the core tells endings apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StopKind {
    /// The model failed.
    Error,
    /// A person stopped it.
    Aborted,
}

/// A tool call inside an assistant message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// The call's id; empty where the message gives none that could be used.
    pub id: String,
    /// The tool's name.
    pub name: String,
}

impl Call {
    /// The call that a block makes, by the names of the members with its id and its tool.
    pub(super) fn of<M: MessageView>(block: &M, id: &str, name: &str) -> Self {
        Self {
            id: block.field_text(id).unwrap_or_default(),
            name: block.field_text(name).unwrap_or_default(),
        }
    }
}

/// A tool result: which call it answers, as it names it, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// The call's id.
    pub id: String,
    /// The tool's name; empty where the result does not say.
    pub name: String,
    /// Whether it says that the tool failed.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_error: bool,
}

/// What a provider reported of the request that a message answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the whole request and of its answer.
    pub total: u32,
    /// Estimated tokens of the system prompt and the tools of that request.
    pub overhead: u32,
    /// The session's model then, as `provider/id`; empty where it had none.
    pub model: String,
}

/// What the core keeps of a message beside its opaque body.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MessageOutline {
    /// Who it is from.
    pub role: Role,
    /// Whether it came in through `prompt` or `begin`, or counts as such by the dialect's import rule.
    #[serde(default, skip_serializing_if = "is_false")]
    pub user_turn: bool,
    /// Tool calls of an assistant message, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<Call>,
    /// The tool results in it, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<Answer>,
    /// Set where an assistant message failed or was aborted: it is stored, but not projected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<StopKind>,
    /// UTF-16 units of text that the core understands.
    pub text_len: u32,
    /// Estimated tokens. A message that was stored by an earlier version keeps the figure that it was stored with.
    pub tokens: u32,
    /// What the provider reported of an answer, where it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Whether the body holds byte strings, which are handed out as copies.
    #[serde(default, skip_serializing_if = "is_false")]
    pub bytes: bool,
}

fn is_false(value: &bool) -> bool {
    !*value
}

impl MessageOutline {
    /// An assistant message that failed or was aborted is stored, but the model does not see it again. Neither does it
    /// see one with a call that nothing could answer.
    pub fn is_projected(&self) -> bool {
        self.stop.is_none() && self.is_answerable()
    }

    /// Whether every call has an id.
    pub fn is_answerable(&self) -> bool {
        self.calls.iter().all(|call| !call.id.is_empty())
    }
}

/// Calls that have no result yet, with their positions among the calls of their message.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenCalls(pub(crate) Vec<(usize, Call)>);

impl OpenCalls {
    /// Those of a message that nothing has answered.
    pub(crate) fn of(message: &MessageOutline) -> Self {
        if message.role != Role::Assistant || !message.is_projected() {
            return Self::default();
        }
        Self(message.calls.iter().cloned().enumerate().listed())
    }

    /// Those of the message at `at`, after the results that follow it.
    pub(crate) fn after(outlines: &[MessageOutline], at: usize) -> Self {
        let mut rest = outlines.iter().skip(at);
        let mut open = rest.next().map(Self::of).unwrap_or_default();
        for next in rest {
            for answer in &next.answers {
                open.take(answer);
            }
            // What was typed beside results ends them.
            if next.role != Role::ToolResult {
                break;
            }
        }
        open
    }

    /// Whether a result may mean a call: one with its id, and of its tool where there is one of that tool.
    pub(crate) fn is_meant(&self, call: &Call, answer: &Answer) -> bool {
        let is_of = |call: &Call| call.id == answer.id && call.name == answer.name;
        call.id == answer.id && (is_of(call) || !self.0.iter().any(|(_, call)| is_of(call)))
    }

    /// Takes the call that a result answers: the first one that it may mean.
    pub(crate) fn take(&mut self, answer: &Answer) -> Option<(usize, Call)> {
        let meant = self.0.iter().position(|(_, call)| self.is_meant(call, answer));
        meant.map(|at| self.0.remove(at))
    }
}

/// How many actual user messages there are.
pub fn turn_count(outlines: &[MessageOutline]) -> u32 {
    u32::try_from(outlines.iter().filter(|outline| outline.user_turn).count()).unwrap_or(u32::MAX)
}

impl FromJson for MessageOutline {
    fn from_json(value: &Value, path: &str) -> Result<Self> {
        let mut outline = Reader::new(value, path);
        let roles = [
            ("user", Role::User),
            ("assistant", Role::Assistant),
            ("toolResult", Role::ToolResult),
            ("other", Role::Other),
        ];
        let stops = [("error", StopKind::Error), ("aborted", StopKind::Aborted)];
        let role = outline.get("role").unwrap_or(&Value::Null);
        let role = untyped::one_of(role, path, &roles).map(Some);
        let stop = outline.optional("stop");
        let stop = stop.map(|stop| untyped::one_of(stop, path, &stops)).transpose();
        let mut answers: Vec<Answer> = outline.read_or_default("answers");
        // Said of the whole message in records of earlier versions.
        if outline.read_or_default("isError") {
            answers.iter_mut().for_each(|answer| answer.is_error = true);
        }
        let read = Self {
            role: outline.taken(role).unwrap_or(Role::Other),
            user_turn: outline.read_or_default("userTurn"),
            calls: outline.read_or_default("calls"),
            answers,
            stop: outline.taken(stop),
            text_len: outline.read("textLen"),
            tokens: outline.read("tokens"),
            usage: outline.read("usage"),
            bytes: outline.read_or_default("bytes"),
        };
        outline.finish(read)
    }
}

impl FromJson for Usage {
    fn from_json(value: &Value, path: &str) -> Result<Self> {
        let mut usage = Reader::new(value, path);
        let read = Self {
            total: usage.read("total"),
            overhead: usage.read("overhead"),
            model: usage.read("model"),
        };
        usage.finish(read)
    }
}

impl FromJson for Call {
    fn from_json(value: &Value, path: &str) -> Result<Self> {
        let mut call = Reader::new(value, path);
        let read = Self {
            id: call.read("id"),
            name: call.read("name"),
        };
        call.finish(read)
    }
}

impl FromJson for Answer {
    fn from_json(value: &Value, path: &str) -> Result<Self> {
        // It was an id alone in records of earlier versions.
        if let Value::String(id) = value {
            return Ok(Self {
                id: id.clone(),
                name: String::new(),
                is_error: false,
            });
        }
        let mut answer = Reader::new(value, path);
        let read = Self {
            id: answer.read("id"),
            name: answer.read("name"),
            is_error: answer.read_or_default("isError"),
        };
        answer.finish(read)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn outlines_of_earlier_versions_are_read() {
        let answer = |name: &str, is_error| Answer {
            id: "c1".to_owned(),
            name: name.to_owned(),
            is_error,
        };
        let cases = [
            (json!({ "answers": ["c1"] }), answer("", false)),
            (json!({ "answers": ["c1"], "isError": true }), answer("", true)),
            (
                json!({ "answers": [{ "id": "c1", "name": "f" }], "isError": true }),
                answer("f", true),
            ),
            (
                json!({ "answers": [{ "id": "c1", "name": "f" }] }),
                answer("f", false),
            ),
            (
                json!({ "answers": [{ "id": "c1", "name": "f", "isError": true }] }),
                answer("f", true),
            ),
        ];
        for (members, expected) in cases {
            let mut stored = json!({ "role": "toolResult", "textLen": 0, "tokens": 0 });
            for (name, value) in members.as_object().unwrap() {
                stored[name] = value.clone();
            }
            let read = MessageOutline::from_json(&stored, "outline").unwrap();
            assert_eq!(read.answers, [expected], "{stored}");
        }
    }
}
