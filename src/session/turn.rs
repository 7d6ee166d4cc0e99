//! The values of a turn: what it begins with, what the model is asked, what happens next, and how it ended.

use serde::{Deserialize, Serialize};

use super::Outcome;
use crate::{
    context::{ContextBudget, Divergence, LoadedSkill, Notice, Projection, SourceMap},
    message::MessageView,
    permissions::ToolPolicy,
};

/// What a turn begins with.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnInput<M> {
    /// The user message, whole, as it was typed.
    pub message: M,
    /// Its tokens as the host counts them, where it does.
    pub tokens: Option<u32>,
    /// The skills chosen for it, in catalogue order.
    pub skills: Vec<LoadedSkill>,
    /// The section `<skills>`; without one the model is not offered the tool to load a skill.
    pub offered_skills: String,
    /// Mentions that named no skill, or several.
    pub notices: Vec<Notice>,
}

/// A tool as the model sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolDeclaration<M> {
    /// Its name.
    pub name: String,
    /// The declaration that goes to the model.
    pub declaration: M,
    /// The declaration as JSON text.
    pub json: String,
    /// What it declares for the gate.
    pub policy: ToolPolicy,
    /// The digest of its whole definition.
    pub digest: String,
}

/// What goes to the model, and nothing else.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelRequest<M> {
    /// The rendered system prompt.
    pub system_prompt: String,
    /// The projected messages, a list.
    pub messages: M,
    /// The tool declarations.
    pub tools: Vec<M>,
}

impl<M: MessageView> ModelRequest<M> {
    /// The projected messages.
    pub fn messages(&self) -> Vec<M> {
        self.messages.items()
    }
}

/// The map and the measures of a request; it stays with the host.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RequestReport {
    /// What each message of the request is, and its tokens: whoever reads them pays for all messages, and nobody else.
    #[serde(skip)]
    pub map: SourceMap,
    /// Estimated tokens against the window.
    pub budget: ContextBudget,
    /// Where it differs from the last dispatched request.
    pub divergence: Divergence,
    /// What was left out, and why.
    pub notices: Vec<Notice>,
}

impl RequestReport {
    /// What each message of the request is.
    pub fn projection(&self) -> Projection {
        self.map.projection()
    }

    /// Estimated tokens per source: of what it says alone, whatever a provider reported.
    pub fn tokens(&self) -> Vec<u32> {
        self.map.tokens()
    }
}

/// A tool call of the model.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall<M> {
    /// Its id.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments, as the model wrote them.
    pub arguments: M,
}

/// What a running turn does next.
#[derive(Clone, Debug, PartialEq)]
pub enum Next<M> {
    /// Ask the model.
    CallModel,
    /// Run these calls, then append their results.
    RunTools(Vec<ToolCall<M>>),
    /// End the turn.
    Settle(Outcome, Option<String>),
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnEnd {
    /// How.
    pub outcome: Outcome,
    /// Why, where it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
