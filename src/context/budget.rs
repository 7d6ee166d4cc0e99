//! How much of the model's context window a request is estimated to use.

use serde::{Deserialize, Serialize};

/// Estimated tokens by part of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(target_family = "wasm", derive(tsify::Tsify))]
pub struct BudgetParts {
    /// The system prompt.
    pub system_prompt: u32,
    /// Tool declarations.
    pub tools: u32,
    /// Stored messages, and answers made up for interrupted calls.
    pub messages: u32,
    /// Skill blocks in front of user messages.
    pub skills: u32,
    /// Snapshots without placement.
    pub legacy_context: u32,
    /// A compaction's summary.
    pub summary: u32,
}

/// The estimate of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(target_family = "wasm", derive(tsify::Tsify))]
pub struct ContextBudget {
    /// Tokens; 0 where the model's window is not known.
    pub context_window: u32,
    /// What is left for input.
    pub input_limit: u32,
    /// What is kept free for the answer.
    pub reserved_output_tokens: u32,
    /// The sum of the parts.
    pub estimated_input_tokens: u32,
    /// Whether the estimate is within the limit; true where the window is not known.
    pub fits: bool,
    /// By part.
    pub parts: BudgetParts,
}

impl ContextBudget {
    /// The budget of a request with these parts.
    pub fn new(context_window: Option<u32>, reserved_output_tokens: Option<u32>, parts: BudgetParts) -> Self {
        let (context_window, reserved) = (context_window.unwrap_or(0), reserved_output_tokens.unwrap_or(0));
        let input_limit = context_window.saturating_sub(reserved);
        let all = [
            parts.system_prompt,
            parts.tools,
            parts.messages,
            parts.skills,
            parts.legacy_context,
            parts.summary,
        ];
        let estimated_input_tokens = all.into_iter().fold(0, u32::saturating_add);
        Self {
            context_window,
            input_limit,
            reserved_output_tokens: reserved,
            estimated_input_tokens,
            fits: context_window == 0 || estimated_input_tokens <= input_limit,
            parts,
        }
    }
}
