//! The projection: which stored messages the model sees, in which order, and where every one of them comes from.
//!
//! The plan is made over outlines alone and is itself the source map; [`materialise`] then looks the bodies up.
//! In every plan each tool call is answered exactly once, by results directly after it, and no result stands
//! without its call.

use std::{borrow::Cow, cell::RefCell, rc::Rc};

use serde::{Deserialize, Serialize};

use super::{CompactionCheckpoint, Placement, RuntimeContextSnapshot};
use crate::{
    Error, Result,
    list::{Listed, TryListed},
    message::{
        Answer, Call, Dialect, MessageData, MessageIndex, MessageOutline, OpenCalls, Role, UserTurn,
        turn_count,
    },
    skills::{self, Span},
    untyped::insert_sorted,
};

/// A skill in exactly one revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(target_family = "wasm", derive(tsify::Tsify))]
pub struct SkillRevision {
    /// `scope:location`.
    pub id: String,
    /// SHA-256 of the file's text.
    pub revision: String,
}

/// What one message of the model's input is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "camelCase")]
#[cfg_attr(target_family = "wasm", derive(tsify::Tsify))]
pub enum Source {
    /// A stored message.
    History {
        /// Which one.
        message_index: MessageIndex,
        /// Which of its tool results are taken out because they answer no call: the first is 0.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        results_left_out: Vec<u32>,
    },
    /// A snapshot without placement, as a user message of its own.
    RuntimeContext {
        /// Which snapshot.
        snapshot_index: u32,
        /// The turn it belongs to.
        user_turn: UserTurn,
        /// That turn's user message.
        message_index: MessageIndex,
        /// What it renders.
        skills: Vec<SkillRevision>,
    },
    /// A summary of everything before the first kept message.
    Compaction {
        /// Which compaction.
        checkpoint_id: String,
        /// The first kept message.
        message_index: MessageIndex,
        /// How many stored messages it stands for.
        summarized_before: u32,
    },
    /// The answer to a call that has none.
    InterruptedToolResult {
        /// The message that holds the call.
        message_index: MessageIndex,
        /// The call.
        tool_call_id: String,
    },
}

impl Source {
    /// The stored message that it is, or that it belongs to.
    pub fn message_index(&self) -> MessageIndex {
        match self {
            Self::History { message_index, .. }
            | Self::RuntimeContext { message_index, .. }
            | Self::Compaction { message_index, .. }
            | Self::InterruptedToolResult { message_index, .. } => *message_index,
        }
    }
}

/// Where a skill's block stands in the text in front of a user message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(target_family = "wasm", derive(tsify::Tsify))]
pub struct SkillSpan {
    /// `scope:location`.
    pub id: String,
    /// SHA-256 of the file's text.
    pub revision: String,
    /// First UTF-16 unit of the block within the message's (first) text.
    pub start: u32,
    /// One past the last.
    pub end: u32,
}

/// A user message that is shown with a snapshot in front of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(target_family = "wasm", derive(tsify::Tsify))]
pub struct SkillExpansion {
    /// The user message.
    pub message_index: MessageIndex,
    /// The snapshot.
    pub snapshot_index: u32,
    /// Its skills.
    pub skills: Vec<SkillSpan>,
}

/// The source map of one model input.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(
    target_family = "wasm",
    derive(tsify::Tsify),
    tsify(rename = "ModelInputProjection")
)]
pub struct Projection {
    /// How many messages are stored.
    pub history_message_count: u32,
    /// What each message of the model's input is.
    pub sources: Vec<Source>,
    /// Which user messages are shown with skills in front.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skill_expansions: Vec<SkillExpansion>,
}

impl Projection {
    /// What stands before a message that begins a turn.
    #[must_use]
    pub fn before(mut self, message: MessageIndex) -> Self {
        let before = |source: &Source| source.message_index() < message;
        self.sources.truncate(self.sources.partition_point(before));
        self
    }

    /// The expansions of one message. They stand in the order of messages.
    pub fn shown_in_front(&self, message: MessageIndex) -> &[SkillExpansion] {
        let all = self.skill_expansions.as_slice();
        let from = all.partition_point(|expansion| expansion.message_index < message);
        let to = all.partition_point(|expansion| expansion.message_index <= message);
        all.get(from..to).unwrap_or_default()
    }
}

/// The source map of a request, as it was then. Requests of which each begins with the one before share one, which grows.
#[derive(Clone, Debug)]
pub struct SourceMap {
    pub(super) plan: Rc<RefCell<Plan>>,
    pub(super) sources: usize,
    messages: u32,
}

impl SourceMap {
    /// All of a plan, as far as it is made now.
    pub(crate) fn of(plan: &Rc<RefCell<Plan>>) -> Self {
        let made = plan.borrow();
        Self {
            plan: Rc::clone(plan),
            sources: made.projection.sources.len(),
            messages: made.projection.history_message_count,
        }
    }

    /// The map: made anew, over all messages of the request.
    pub fn projection(&self) -> Projection {
        let made = &self.plan.borrow().projection;
        let shown = |expansion: &SkillExpansion| expansion.message_index.0 < self.messages;
        let shown = made.skill_expansions.partition_point(shown);
        Projection {
            history_message_count: self.messages,
            sources: first(&made.sources, self.sources).to_vec(),
            skill_expansions: first(&made.skill_expansions, shown).to_vec(),
        }
    }

    /// Estimated tokens per source: of what it says alone, whatever a provider reported.
    pub fn tokens(&self) -> Vec<u32> {
        first(&self.plan.borrow().tokens, self.sources).to_vec()
    }
}

/// The first items of a list that has grown since.
fn first<T>(list: &[T], count: usize) -> &[T] {
    list.get(..count).unwrap_or(list)
}

impl From<Projection> for SourceMap {
    /// A map without tokens.
    fn from(projection: Projection) -> Self {
        Self::of(&Rc::new(RefCell::new(Plan {
            projection,
            ..Plan::default()
        })))
    }
}

impl PartialEq for SourceMap {
    fn eq(&self, other: &Self) -> bool {
        self.projection() == other.projection() && self.tokens() == other.tokens()
    }
}

/// What a notice is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(target_family = "wasm", derive(tsify::Tsify))]
pub enum NoticeCode {
    /// The user turn of a snapshot is not stored.
    AnchorMissing,
    /// A tool result has no call that it could answer, or an answer of the model has a call without an id, which no
    /// result could answer.
    ResultLeftOut,
    /// `$name` names no skill.
    MentionUnknown,
    /// `$name` names several skills.
    MentionAmbiguous,
    /// A user message holds tool results and typed text.
    UserMessageMixed,
}

/// Something that was left out of the model's input, or not understood, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(target_family = "wasm", derive(tsify::Tsify))]
pub struct Notice {
    /// What it is about.
    pub code: NoticeCode,
    /// The stored message it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_index: Option<MessageIndex>,
    /// An id or a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// Plans what the model sees.
///
/// # Errors
/// `invalid_argument` where the compaction is of more than there is.
pub fn project(
    outlines: &[MessageOutline],
    snapshots: &[RuntimeContextSnapshot],
    compaction: Option<&CompactionCheckpoint>,
) -> Result<(Projection, Vec<Notice>)> {
    let mut plan = Plan::begin(outlines, compaction)?;
    plan.go_on(outlines, snapshots);
    plan.end_results();
    let notices = plan.notices();
    Ok((plan.projection, notices))
}

/// A plan as far as it is made: a left fold over outlines, which goes on where more are stored. What it holds already never
/// changes then, so that every plan it was before is a beginning of it.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) projection: Projection,
    /// Estimated tokens per source, as far as they were measured.
    pub(crate) tokens: Vec<u32>,
    notices: Vec<Notice>,
    /// The assistant message that results stand behind now, and its calls that have none yet.
    answering: Option<(MessageIndex, OpenCalls)>,
    /// How many user turns have begun.
    turns: u32,
    /// Snapshots by the turn that they belong to, then in stored order.
    anchors: Vec<(u32, u32)>,
}

impl Plan {
    /// Begins at the first message that a compaction keeps.
    ///
    /// # Errors
    /// `invalid_argument` where the compaction is of more than there is.
    pub(crate) fn begin(
        outlines: &[MessageOutline],
        compaction: Option<&CompactionCheckpoint>,
    ) -> Result<Self> {
        let mut plan = Self::default();
        let Some(checkpoint) = compaction else {
            return Ok(plan);
        };
        let first = checkpoint.end_in(outlines)?;
        plan.projection.history_message_count = first;
        plan.turns = turn_count(outlines.get(..first as usize).unwrap_or_default());
        plan.projection.sources.push(Source::Compaction {
            checkpoint_id: checkpoint.id.clone(),
            message_index: checkpoint.first_kept_message_index,
            summarized_before: first,
        });
        Ok(plan)
    }

    /// Whether going on is all that these ask for, after those that it has gone over: nothing was taken away, and every new
    /// snapshot belongs to a turn to come.
    pub(crate) fn is_of(&self, outlines: &[MessageOutline], snapshots: &[RuntimeContextSnapshot]) -> bool {
        let new = snapshots.get(self.anchors.len()..);
        outlines.len() >= self.projection.history_message_count as usize
            && new.is_some_and(|new| new.iter().all(|snapshot| snapshot.user_turn >= self.turns))
    }

    /// Goes over what was not gone over yet.
    pub(crate) fn go_on(&mut self, outlines: &[MessageOutline], snapshots: &[RuntimeContextSnapshot]) {
        let known = self.anchors.len();
        for (snapshot, at) in snapshots.iter().zip(0u32..).skip(known) {
            insert_sorted(&mut self.anchors, (snapshot.user_turn, at), &|a, b| a.cmp(b));
        }
        let from = self.projection.history_message_count;
        let new = outlines.get(from as usize..).unwrap_or_default();
        for (outline, at) in new.iter().zip(from..) {
            let index = MessageIndex(at);
            let turn = outline.user_turn.then_some(self.turns);
            self.turns += u32::from(outline.user_turn);
            self.projection.history_message_count = at.saturating_add(1);
            match outline.role {
                Role::ToolResult => self.results(index, outline),
                Role::Assistant => {
                    self.end_results();
                    if outline.is_projected() {
                        self.history(index, Vec::new());
                        self.answering = Some((index, OpenCalls::of(outline)));
                    } else if outline.stop.is_none() {
                        self.leave_out(index, None);
                    }
                }
                Role::User | Role::Other => {
                    let left_out = self.unanswering(outline);
                    // What was typed ends the results, those beside it included.
                    self.end_results();
                    if !outline.answers.is_empty() {
                        self.notice(NoticeCode::UserMessageMixed, index, None);
                    }
                    self.history_without(index, outline, left_out);
                    if let Some(turn) = turn {
                        self.snapshots(index, turn, snapshots);
                    }
                }
            }
        }
    }

    /// What was left out or not understood. Snapshots whose turn is not there come last.
    pub(crate) fn notices(&self) -> Vec<Notice> {
        let mut notices = self.notices.clone();
        let missing = self.anchors.get(self.anchored_before(self.turns)..);
        for (turn, at) in missing.unwrap_or_default() {
            notices.push(Notice {
                code: NoticeCode::AnchorMissing,
                message_index: None,
                detail: Some(format!("snapshot {at} belongs to user turn {turn}")),
            });
        }
        notices
    }

    /// How many anchors are of earlier turns.
    fn anchored_before(&self, turn: u32) -> usize {
        self.anchors.partition_point(|(anchor, _)| *anchor < turn)
    }

    fn history(&mut self, message_index: MessageIndex, results_left_out: Vec<u32>) {
        self.projection.sources.push(Source::History {
            message_index,
            results_left_out,
        });
    }

    /// Which results of a message answer no call. The calls of the others are answered from here on.
    fn unanswering(&mut self, message: &MessageOutline) -> Vec<u32> {
        let mut left_out = Vec::new();
        for (answer, number) in message.answers.iter().zip(0u32..) {
            let open = self.answering.as_mut();
            if open.and_then(|(_, open)| open.take(answer)).is_none() {
                left_out.push(number);
            }
        }
        left_out
    }

    /// A message of results: all of it, those that answer a call, or none of it.
    fn results(&mut self, index: MessageIndex, message: &MessageOutline) {
        let left_out = self.unanswering(message);
        let none = match &self.answering {
            Some(_) => !left_out.is_empty() && left_out.len() == message.answers.len(),
            None => true,
        };
        match none {
            // One without results, that says what became of a question.
            true if message.answers.is_empty() => self.leave_out(index, None),
            true => message
                .answers
                .iter()
                .for_each(|answer| self.leave_out(index, Some(answer))),
            false => self.history_without(index, message, left_out),
        }
    }

    fn history_without(&mut self, index: MessageIndex, message: &MessageOutline, left_out: Vec<u32>) {
        for number in &left_out {
            self.leave_out(index, message.answers.get(*number as usize));
        }
        self.history(index, left_out);
    }

    /// Calls that have no result where their results end get one that says so.
    fn end_results(&mut self) {
        let Some((message_index, open)) = self.answering.take() else {
            return;
        };
        for (_, call) in open.0 {
            self.projection.sources.push(Source::InterruptedToolResult {
                message_index,
                tool_call_id: call.id,
            });
        }
    }

    /// A result without its call, or a message with a call that no result could answer.
    fn leave_out(&mut self, index: MessageIndex, answer: Option<&Answer>) {
        let id = answer.map(|answer| answer.id.clone());
        self.notice(NoticeCode::ResultLeftOut, index, id);
    }

    fn notice(&mut self, code: NoticeCode, index: MessageIndex, detail: Option<String>) {
        self.notices.push(Notice {
            code,
            message_index: Some(index),
            detail,
        });
    }

    /// Shows the snapshots of a turn, in stored order.
    fn snapshots(&mut self, index: MessageIndex, turn: u32, all: &[RuntimeContextSnapshot]) {
        let own = self.anchored_before(turn)..self.anchored_before(turn.saturating_add(1));
        let mut offset = 0;
        for &(_, at) in self.anchors.get(own).unwrap_or_default() {
            let Some(snapshot) = all.get(at as usize) else {
                continue;
            };
            match snapshot.placement {
                Some(Placement::User) => {
                    self.projection
                        .skill_expansions
                        .push(expansion(index, at, snapshot, offset));
                    offset += utf16_len(&snapshot.content) + utf16_len(SEPARATOR);
                }
                None => self.projection.sources.push(Source::RuntimeContext {
                    snapshot_index: at,
                    user_turn: UserTurn(snapshot.user_turn),
                    message_index: index,
                    skills: skill_revisions(snapshot),
                }),
            }
        }
    }
}

/// Between the blocks of two snapshots of one turn, and between the last block and what was typed.
const SEPARATOR: &str = "\n\n";

fn utf16_len(text: &str) -> u32 {
    u32::try_from(text.encode_utf16().count()).unwrap_or(u32::MAX)
}

fn skill_revisions(snapshot: &RuntimeContextSnapshot) -> Vec<SkillRevision> {
    let skills = snapshot.skills.iter().flatten();
    skills
        .map(|skill| SkillRevision {
            id: skill.id.clone(),
            revision: skill.revision.clone(),
        })
        .listed()
}

fn expansion(index: MessageIndex, at: u32, snapshot: &RuntimeContextSnapshot, offset: u32) -> SkillExpansion {
    let all = snapshot.skills.as_deref().unwrap_or_default();
    let spans = skills::skill_spans(&snapshot.content, all);
    // A block that cannot be found in a content of foreign make has the whole content as its span.
    let whole = Span {
        start: 0,
        end: utf16_len(&snapshot.content) as usize,
    };
    let skills = all
        .iter()
        .zip(spans.into_iter().map(|span| span.unwrap_or(whole)));
    SkillExpansion {
        message_index: index,
        snapshot_index: at,
        skills: skills
            .map(|(skill, span)| SkillSpan {
                id: skill.id.clone(),
                revision: skill.revision.clone(),
                start: u32::try_from(span.start)
                    .unwrap_or(u32::MAX)
                    .saturating_add(offset),
                end: u32::try_from(span.end).unwrap_or(u32::MAX).saturating_add(offset),
            })
            .listed(),
    }
}

/// Looks the bodies of a plan up. Unchanged messages are shared, not copied.
///
/// `body` gives a stored message by its position.
///
/// # Errors
/// `not_found` where a planned body is not loaded.
pub fn materialise<M: MessageData>(
    dialect: Dialect,
    projection: &Projection,
    body: impl Fn(MessageIndex) -> Option<M>,
    outlines: &[MessageOutline],
    snapshots: &[RuntimeContextSnapshot],
    compaction: Option<&CompactionCheckpoint>,
) -> Result<Vec<M>> {
    look_up(dialect, projection, 0, &body, outlines, snapshots, compaction)
}

/// The same from a source on. Apart, so that it is there once per kind of message and not once per caller.
pub(crate) fn look_up<M: MessageData>(
    dialect: Dialect,
    projection: &Projection,
    from: usize,
    body: &dyn Fn(MessageIndex) -> Option<M>,
    outlines: &[MessageOutline],
    snapshots: &[RuntimeContextSnapshot],
    compaction: Option<&CompactionCheckpoint>,
) -> Result<Vec<M>> {
    let stored = |index: MessageIndex| {
        body(index).ok_or_else(|| {
            Error::new(
                crate::ErrorCode::NotFound,
                format!("message {} is not loaded; open the session again", index.0),
            )
        })
    };
    // The made-up results of one message stand in the order of its open calls.
    let (mut holder, mut open) = (None, Vec::new().into_iter());
    let sources = projection.sources.get(from..).unwrap_or_default();
    sources
        .iter()
        .map(|source| match source {
            Source::History {
                message_index,
                results_left_out,
            } => {
                let mut message = stored(*message_index)?;
                if !results_left_out.is_empty() {
                    message = dialect.without_results(&message, results_left_out);
                }
                let mut texts = Vec::new();
                for expansion in projection.shown_in_front(*message_index) {
                    let snapshot = snapshots.get(expansion.snapshot_index as usize);
                    snapshot
                        .map(|it| M::string(&it.content))
                        .into_iter()
                        .append_to(&mut texts);
                }
                if texts.is_empty() {
                    return Ok(message);
                }
                Ok(dialect.with_text_before(&message, &M::joined(&texts, SEPARATOR)))
            }
            Source::RuntimeContext { snapshot_index, .. } => {
                let snapshot = snapshots.get(*snapshot_index as usize);
                let (content, timestamp) =
                    snapshot.map_or(("", 0.0), |it| (it.content.as_str(), it.timestamp));
                Ok(dialect.user_message(M::string(content), timestamp))
            }
            Source::Compaction { .. } => {
                let (summary, timestamp) =
                    compaction.map_or((Cow::Borrowed(""), 0.0), |it| (it.shown(), it.timestamp));
                Ok(dialect.user_message(M::string(&summary), timestamp))
            }
            Source::InterruptedToolResult {
                message_index,
                tool_call_id,
            } => {
                let message = stored(*message_index)?;
                if holder != Some(*message_index) {
                    holder = Some(*message_index);
                    open = OpenCalls::after(outlines, message_index.offset()).0.into_iter();
                }
                let call = open.next().map(|(_, call)| call).unwrap_or(Call {
                    id: tool_call_id.clone(),
                    name: String::new(),
                });
                Ok(dialect.interrupted_result(&call, &message))
            }
        })
        .try_listed()
}
