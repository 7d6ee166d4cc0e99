//! The dialects: how the messages of providers and frameworks are read, and how the few that the core makes up are
//! written. What is the same for all of them is here, what is not is in one file each; nobody else asks which one it is.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    Answer, Call, Kind, MessageData, MessageOutline, MessageView, Role, StopKind, ai_sdk, anthropic,
    loop_dialect, openai_chat,
};
use crate::{
    Error, ErrorCode, Result,
    list::Listed,
    untyped::{self, FromJson, ToJson},
};

/// The shape of a session's messages, fixed when it is created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(target_family = "wasm", derive(tsify::Tsify))]
pub enum Dialect {
    /// Roles `user`, `assistant` and `toolResult`.
    #[default]
    #[serde(rename = "loop")]
    Loop,
    /// Messages of OpenAI's Chat Completions.
    #[serde(rename = "openai-chat")]
    OpenAiChat,
    /// Messages of Anthropic's Messages API.
    #[serde(rename = "anthropic")]
    Anthropic,
    /// `ModelMessage` of the AI SDK.
    #[serde(rename = "ai-sdk")]
    AiSdk,
}

/// By the names that callers use.
const NAMES: [(&str, Dialect); 4] = [
    ("loop", Dialect::Loop),
    ("openai-chat", Dialect::OpenAiChat),
    ("anthropic", Dialect::Anthropic),
    ("ai-sdk", Dialect::AiSdk),
];

/// What a picture costs, whatever its size in bytes: the most that Anthropic's documentation names, which scales larger ones down
/// to about 1,600 tokens. OpenAI's says up to 1,445 for GPT-4o.
const IMAGE_TOKENS: u32 = 1_600;

/// What any other attachment costs: a page of a PDF by Anthropic's documentation, which says 1,500 to 3,000. How many pages there
/// are nobody here knows.
const FILE_TOKENS: u32 = 3_000;

/// What the model is told of a call that never got its result.
pub(crate) const INTERRUPTED: &str = "The tool call was interrupted before it finished. It may be retried.";

/// A block of a message's content, as far as it is understood.
pub(super) enum Block<M> {
    /// Text that was typed or said, in this member.
    Text(&'static str),
    /// Text that the model thought, in this member.
    Thinking(&'static str),
    /// A picture.
    Image,
    /// Another attachment.
    File,
    /// A call that is answered here, and not by the provider.
    Call(Call),
    /// A result, and what it says.
    Result(Answer, Option<M>),
    /// Anything else. It costs what its JSON does.
    Other,
}

/// What a tool gave.
pub(super) struct Given<M> {
    pub(super) value: M,
    /// Its blocks, where it gave some.
    pub(super) blocks: Option<M>,
    /// What is for the host alone.
    pub(super) details: Option<M>,
    pub(super) failed: bool,
    pub(super) time: Option<M>,
}

impl<M: MessageData> Given<M> {
    fn new(value: &M, failed: bool, time: Option<M>) -> Self {
        let blocks = value.field("content").filter(|it| it.kind() == Kind::List);
        Self {
            value: value.clone(),
            details: blocks.as_ref().and_then(|_| value.field("details")),
            failed: failed || blocks.is_some() && value.flag("isError"),
            blocks,
            time,
        }
    }

    /// What it says in words: text as it is, nothing for nothing, anything else as JSON.
    pub(super) fn text(&self) -> M {
        match self.value.kind() {
            Kind::String => self.value.clone(),
            Kind::Null => M::string(""),
            _ => self.value.to_json_text(),
        }
    }
}

/// Says how many tokens a text has.
pub type CountTokens<M> = dyn Fn(&M) -> Result<u32>;

/// The size of a message.
struct Size<'a, M> {
    count: &'a CountTokens<M>,
    /// UTF-16 units of text that was typed or said.
    text_len: usize,
    tokens: u32,
}

impl<M: MessageData> Size<'_, M> {
    fn add(&mut self, tokens: u32) {
        self.tokens = self.tokens.saturating_add(tokens);
    }

    fn text(&mut self, text: Option<M>) -> Result<()> {
        if let Some(text) = text.filter(|text| text.kind() == Kind::String) {
            self.add((self.count)(&text)?);
        }
        Ok(())
    }

    fn said(&mut self, text: Option<M>) -> Result<()> {
        self.text_len += text.as_ref().map_or(0, M::text_len);
        self.text(text)
    }

    fn json(&mut self, value: &M) -> Result<()> {
        let tokens = match value.has_bytes() {
            true => FILE_TOKENS,
            false => (self.count)(&value.to_json_text())?,
        };
        self.add(tokens);
        Ok(())
    }

    fn content(&mut self, role: Role, content: &M) -> Result<()> {
        match content.kind() {
            Kind::String => self.said(Some(content.clone()))?,
            Kind::List => {
                for block in content.items() {
                    self.block(role, &block)?;
                }
            }
            _ => self.json(content)?,
        }
        Ok(())
    }

    fn block(&mut self, role: Role, block: &M) -> Result<()> {
        match read(role, block) {
            Block::Text(member) => self.said(block.field(member))?,
            Block::Thinking(member) => self.text(block.field(member))?,
            Block::Image => self.add(IMAGE_TOKENS),
            Block::File => self.add(FILE_TOKENS),
            Block::Result(_, Some(content)) => self.content(role, &content)?,
            Block::Result(_, None) => {}
            Block::Call(_) | Block::Other => self.json(block)?,
        }
        Ok(())
    }
}

impl Dialect {
    /// The name that callers use.
    pub fn as_str(self) -> &'static str {
        let own = NAMES.iter().find(|(_, dialect)| *dialect == self);
        own.map_or("", |(name, _)| name)
    }

    fn role(self, name: &str) -> Role {
        match (name, self) {
            ("user", _) => Role::User,
            ("assistant", _) => Role::Assistant,
            ("toolResult", Self::Loop) | ("tool", Self::OpenAiChat | Self::AiSdk) => Role::ToolResult,
            _ => Role::Other,
        }
    }

    /// Whether a message with this role may have an outline with that one: results of tools may come in a person's place.
    pub fn fits(self, name: &str, role: Role) -> bool {
        let named = self.role(name);
        named == role || named == Role::User && role == Role::ToolResult
    }

    /// The blocks of a message's content, and the calls that stand beside it.
    fn blocks<M: MessageView>(self, role: Role, message: &M) -> Vec<(M, Block<M>)> {
        let mut blocks = Vec::new();
        for block in items(message) {
            let is = read(role, &block);
            blocks.push((block, is));
        }
        for call in self.calls_beside(message) {
            let is = Block::Call(openai_chat::call(&call));
            blocks.push((call, is));
        }
        blocks
    }

    fn calls_beside<M: MessageView>(self, message: &M) -> Vec<M> {
        match self {
            Self::OpenAiChat => openai_chat::calls(message),
            Self::Loop | Self::Anthropic | Self::AiSdk => Vec::new(),
        }
    }

    /// Refuses what is plainly of another dialect: it would be shown as it is, but its calls and results would not be seen.
    fn check<M: MessageView>(self, role: &str, message: &M) -> Result<()> {
        match role {
            "toolResult" => self.check_is(Self::Loop, role)?,
            "tool" if message.field("tool_call_id").is_some() => self.check_is(Self::OpenAiChat, role)?,
            "tool" if self != Self::OpenAiChat => self.check_is(Self::AiSdk, role)?,
            "assistant" if !openai_chat::calls(message).is_empty() => {
                self.check_is(Self::OpenAiChat, "tool_calls")?;
            }
            _ if self.role(role) == Role::Other => return Ok(()),
            _ => {}
        }
        for block in items(message) {
            let kind = block.field_text("type").unwrap_or_default();
            let dialect = match kind.as_str() {
                "toolCall" => Self::Loop,
                "tool_use" | "tool_result" => Self::Anthropic,
                "tool-call" | "tool-result" => Self::AiSdk,
                _ => continue,
            };
            self.check_is(dialect, &kind)?;
        }
        Ok(())
    }

    fn check_is(self, found: Self, by: &str) -> Result<()> {
        if found == self {
            return Ok(());
        }
        let (own, other) = (self.as_str(), found.as_str());
        let text = format!(
            "a message with `{by}` is one of the dialect `{other}`, not of `{own}`; pass it as one of `{own}`, or create the session with the dialect `{other}`"
        );
        let error = Error::new(ErrorCode::DialectMismatch, text);
        Err(error.with("found", by).with("dialect", own))
    }

    /// Reads a message once. Fails where it has no role, or a role's own fields are missing.
    ///
    /// `user_turn` says that the message came in through `prompt` or `begin`. What the outline does not understand
    /// (unknown roles and blocks, other content or none) is left in the body, counts no text, and costs tokens as its
    /// JSON does.
    ///
    /// # Errors
    /// `invalid_argument`; `dialect_mismatch` for a message of another dialect.
    pub fn outline<M: MessageData>(self, message: &M, user_turn: bool) -> Result<MessageOutline> {
        if message.kind() != Kind::Object {
            return Err(Error::invalid("a message must be an object with a `role`"));
        }
        let Some(name) = message.field_text("role") else {
            return Err(Error::invalid(
                "a message must have a `role`, for example `user` or `assistant`",
            ));
        };
        self.check(&name, message)?;
        let mut outline = MessageOutline {
            role: self.role(&name),
            user_turn: false,
            calls: Vec::new(),
            answers: Vec::new(),
            stop: None,
            text_len: 0,
            tokens: 0,
            usage: None,
            bytes: message.has_bytes(),
        };
        let size = self.size(outline.role, message, &|text| Ok(text.tokens()))?;
        outline.text_len = u32::try_from(size.text_len).unwrap_or(u32::MAX);
        outline.tokens = size.tokens;
        if outline.role == Role::Other {
            return Ok(outline);
        }
        let blocks = self.blocks(outline.role, message);
        let count = blocks.len();
        if outline.role == Role::Assistant {
            outline.calls = open_calls(blocks).into_iter().map(|(call, _)| call).listed();
            outline.stop = match self {
                Self::Loop => loop_dialect::stop(message),
                Self::OpenAiChat | Self::Anthropic | Self::AiSdk => None,
            };
        } else {
            for (_, block) in blocks {
                if let Block::Result(answer, _) = block {
                    outline.answers.push(answer);
                }
            }
        }
        match (outline.role, self) {
            (Role::ToolResult, Self::Loop) => outline.answers.push(loop_dialect::answer(message)?),
            (Role::ToolResult, Self::OpenAiChat) => outline.answers.push(openai_chat::answer(message)?),
            // Nobody typed results.
            (Role::User, _) if count > 0 && outline.answers.len() == count => outline.role = Role::ToolResult,
            _ => {}
        }
        outline.user_turn = user_turn && outline.role == Role::User;
        Ok(outline)
    }

    /// Tokens of a message, where `count` says what a text has.
    ///
    /// # Errors
    /// Those of `count`.
    pub fn tokens<M: MessageData>(self, message: &M, count: &CountTokens<M>) -> Result<u32> {
        let role = self.role(&message.field_text("role").unwrap_or_default());
        Ok(self.size(role, message, count)?.tokens)
    }

    /// What a provider reported of a request and its answer, in tokens, where the message carries that as its `usage`. One that
    /// reports no input reports nothing, and one with a count that is no count is not believed.
    pub fn usage<M: MessageView>(self, message: &M) -> Option<u32> {
        let usage = message.field("usage")?;
        let (input, output): (&[&str], _) = match self {
            Self::Loop => (&["input", "cacheRead", "cacheWrite"], "output"),
            Self::OpenAiChat => (&["prompt_tokens"], "completion_tokens"),
            Self::Anthropic => (
                &[
                    "input_tokens",
                    "cache_read_input_tokens",
                    "cache_creation_input_tokens",
                ],
                "output_tokens",
            ),
            Self::AiSdk => (&["inputTokens"], "outputTokens"),
        };
        let tokens = |member: &str| {
            let reported = usage.field(member).filter(|it| it.kind() != Kind::Null);
            let count = reported.map_or(Some(0.0), |it| it.number())?;
            (count.fract() == 0.0 && (0.0..f64::from(u32::MAX)).contains(&count)).then_some(count as u32)
        };
        let mut read = 0u32;
        for member in input {
            read = read.checked_add(tokens(member)?)?;
        }
        let all = read.checked_add(tokens(output)?)?;
        (read > 0).then_some(all)
    }

    fn size<'a, M: MessageData>(
        self,
        role: Role,
        message: &M,
        count: &'a CountTokens<M>,
    ) -> Result<Size<'a, M>> {
        let mut size = Size {
            count,
            text_len: 0,
            tokens: 0,
        };
        if role == Role::Other {
            size.json(message)?;
            return Ok(size);
        }
        let calls = self.calls_beside(message);
        match message.field("content") {
            Some(content) => size.content(role, &content)?,
            // Whatever it says, it says elsewhere.
            None if calls.is_empty() => size.json(message)?,
            None => {}
        }
        for call in calls {
            size.json(&call)?;
        }
        Ok(size)
    }

    /// The arguments of every call of an assistant message, where they are there, in the order of the outline's calls.
    pub fn call_arguments<M: MessageData>(self, message: &M) -> Vec<Option<M>> {
        let calls = open_calls(self.blocks(Role::Assistant, message));
        calls
            .into_iter()
            .map(|(_, block)| match self {
                Self::Loop => block.field("arguments"),
                Self::OpenAiChat => openai_chat::arguments(&block),
                Self::Anthropic | Self::AiSdk => block.field("input"),
            })
            .listed()
    }

    /// The message with text in front of its content: a string stays a string, blocks get one text block first, behind the
    /// tool results that they begin with, and whatever else stands there gets one too.
    pub fn with_text_before<M: MessageData>(self, message: &M, text: &M) -> M {
        let content = match message.field("content") {
            Some(content) if content.kind() == Kind::String => M::joined(&[text.clone(), content], "\n\n"),
            Some(content) if content.kind() == Kind::List => {
                let mut blocks = content.items();
                let mut results = blocks.iter();
                let first = results.position(|block| !is_result(Role::User, block));
                blocks.insert(first.unwrap_or(blocks.len()), text_block(text.clone()));
                M::list(blocks)
            }
            Some(content) if content.kind() != Kind::Null => M::list(vec![text_block(text.clone()), content]),
            _ => text.clone(),
        };
        message.with_field("content", content)
    }

    /// The message without some of its tool results; the first is 0.
    pub fn without_results<M: MessageData>(self, message: &M, left_out: &[u32]) -> M {
        let role = self.role(&message.field_text("role").unwrap_or_default());
        let (mut kept, mut number) = (Vec::new(), 0);
        for block in items(message) {
            let is_result = is_result(role, &block);
            if !is_result || !left_out.contains(&number) {
                kept.push(block);
            }
            number += u32::from(is_result);
        }
        message.with_field("content", M::list(kept))
    }

    /// A user message that holds one text.
    pub fn user_message<M: MessageData>(self, text: M, timestamp: f64) -> M {
        self.timed(user(text), timestamp)
    }

    fn timed<M: MessageData>(self, message: M, timestamp: f64) -> M {
        match self {
            Self::Loop => message.with_field("timestamp", M::from_number(timestamp)),
            Self::OpenAiChat | Self::Anthropic | Self::AiSdk => message,
        }
    }

    /// The user message that was typed: given as its content, or whole. Gets `timestamp` where the dialect has one and the
    /// message has none.
    ///
    /// # Errors
    /// `invalid_argument`.
    pub fn typed_message<M: MessageData>(self, content: &M, timestamp: f64) -> Result<M> {
        let message = match content.kind() {
            Kind::String | Kind::List => user(content.clone()),
            Kind::Object => content.clone(),
            _ => {
                return Err(Error::invalid(
                    "a prompt must be text, a list of content blocks or a user message",
                ));
            }
        };
        if message.field_text("role").as_deref() != Some("user") {
            return Err(Error::invalid(
                "a prompt given as a message must have the role `user`",
            ));
        }
        match message.field("content") {
            Some(content) if content.kind() == Kind::String => {}
            Some(content) if content.kind() == Kind::List => {
                let mut blocks = content.items().into_iter();
                if let Some(at) = blocks.position(|block| block.kind() != Kind::Object) {
                    return Err(Error::invalid(format!(
                        "content block {at} must be an object with a `type`"
                    )));
                }
            }
            _ => {
                return Err(Error::invalid(
                    "a user message must have `content`: text or a list of content blocks",
                ));
            }
        }
        match self {
            Self::Loop if !loop_dialect::has_time(&message)? => Ok(self.timed(message, timestamp)),
            Self::Loop | Self::OpenAiChat | Self::Anthropic | Self::AiSdk => Ok(message),
        }
    }

    /// The error result for a call that was cut off. Its time is that of the message that holds the call.
    pub fn interrupted_result<M: MessageData>(self, call: &Call, call_message: &M) -> M {
        let time = call_message.field("timestamp");
        self.tool_result(call, &M::string(INTERRUPTED), true, time)
    }

    /// A tool's answer as a message. Text becomes the result's text; an object with a list `content` gives its `content`,
    /// `isError` and, where the dialect has it, `details`; anything else is shown as JSON.
    pub fn tool_result<M: MessageData>(self, call: &Call, value: &M, failed: bool, time: Option<M>) -> M {
        let given = Given::new(value, failed, time);
        match self {
            Self::Loop => loop_dialect::result(call, given),
            Self::OpenAiChat => openai_chat::result(call, given),
            Self::Anthropic => anthropic::result(call, given),
            Self::AiSdk => ai_sdk::result(call, given),
        }
    }

    /// A place in what a tool gave as a place in the message that is made of it, where that holds it.
    pub fn place_in_result(self, place: String) -> Option<String> {
        let whole = match self {
            Self::Loop => return Some(place),
            _ if place.starts_with("details") => return None,
            Self::OpenAiChat => "content",
            Self::Anthropic => "content[0].content",
            Self::AiSdk => "content[0].output",
        };
        Some(whole.to_owned())
    }

    /// The last partial answer with the reason why it is the last, where the dialect has a member for that.
    pub fn stopped<M: MessageData>(self, partial: &M, stop: StopKind, error: Option<&str>) -> M {
        match self {
            Self::Loop => loop_dialect::stopped(partial, stop, error),
            Self::OpenAiChat | Self::Anthropic | Self::AiSdk => partial.clone(),
        }
    }

    /// Why an answer failed, where the message says so.
    pub fn failure<M: MessageView>(self, message: &M) -> Option<String> {
        match self {
            Self::Loop => message.field_text("errorMessage"),
            Self::OpenAiChat | Self::Anthropic | Self::AiSdk => None,
        }
    }
}

/// The blocks of a message's content.
fn items<M: MessageView>(message: &M) -> Vec<M> {
    let content = message.field("content");
    content.map(|content| content.items()).unwrap_or_default()
}

/// What a block is in the content of a message of this role. Dialects give their blocks the same names or names of their own,
/// and no call or result of another dialect comes this far: so this is for all of them.
fn read<M: MessageView>(role: Role, block: &M) -> Block<M> {
    let kind = block.field_text("type").unwrap_or_default();
    match (kind.as_str(), role) {
        ("text", _) => Block::Text("text"),
        ("refusal", _) => Block::Text("refusal"),
        ("thinking", _) => Block::Thinking("thinking"),
        ("reasoning", _) => Block::Thinking("text"),
        ("image" | "image_url" | "image-data" | "image-url", _) => Block::Image,
        ("file" | "file-data" | "media", _) if ai_sdk::holds(block, "image") => Block::Image,
        ("file" | "file-data" | "file-url" | "media" | "input_audio", _) if !ai_sdk::holds(block, "text") => {
            Block::File
        }
        ("document", _) if anthropic::is_file(block) => Block::File,
        ("toolCall" | "tool_use", Role::Assistant) => Block::Call(Call::of(block, "id", "name")),
        ("tool-call", Role::Assistant) if !block.flag("providerExecuted") => {
            Block::Call(Call::of(block, "toolCallId", "toolName"))
        }
        ("tool_result", Role::User) => anthropic::answer(block),
        ("tool-result", Role::Assistant | Role::ToolResult) => ai_sdk::answer(block),
        _ => Block::Other,
    }
}

fn is_result<M: MessageView>(role: Role, block: &M) -> bool {
    matches!(read(role, block), Block::Result(..))
}

/// The calls of an assistant message, each with its block, but those that are answered in the message itself.
fn open_calls<M>(blocks: Vec<(M, Block<M>)>) -> Vec<(Call, M)> {
    let mut answered = Vec::new();
    for (_, is) in &blocks {
        if let Block::Result(answer, _) = is {
            answered.push(answer.id.clone());
        }
    }
    let mut open = Vec::new();
    for (block, is) in blocks {
        if let Block::Call(call) = is {
            match answered.iter().position(|id| *id == call.id) {
                Some(at) => drop(answered.remove(at)),
                None => open.push((call, block)),
            }
        }
    }
    open
}

/// The typed texts of a message: its string, or each of its text blocks. They look alike in every dialect.
pub fn texts<M: MessageView>(message: &M) -> Vec<M> {
    match message.field("content") {
        Some(content) if content.kind() == Kind::String => vec![content],
        Some(content) => content
            .items()
            .iter()
            .filter(|block| block.field_text("type").as_deref() == Some("text"))
            .filter_map(|block| block.field("text"))
            .filter(|text| text.kind() == Kind::String)
            .listed(),
        None => Vec::new(),
    }
}

pub(super) fn user<M: MessageData>(content: M) -> M {
    M::object(vec![("role", M::string("user")), ("content", content)])
}

/// A block of this type.
pub(super) fn typed<M: MessageData>(kind: &str, members: Vec<(&str, M)>) -> M {
    let mut all = vec![("type", M::string(kind))];
    members.into_iter().append_to(&mut all);
    M::object(all)
}

/// A block of text. It looks alike in every dialect.
pub(super) fn text_block<M: MessageData>(text: M) -> M {
    typed("text", vec![("text", text)])
}

/// The data and the type of a picture as tools give it.
pub(super) fn picture<M: MessageView>(block: &M) -> Option<(M, M)> {
    let text = |member| block.field(member).filter(|it: &M| it.kind() == Kind::String);
    let is_picture = block.field_text("type").as_deref() == Some("image");
    Some((text("data")?, text("mimeType")?)).filter(|_| is_picture)
}

impl FromJson for Dialect {
    fn from_json(value: &Value, path: &str) -> Result<Self> {
        untyped::one_of(value, path, &NAMES)
    }
}

impl ToJson for Dialect {
    fn to_json(&self) -> Value {
        Value::from(self.as_str())
    }
}
