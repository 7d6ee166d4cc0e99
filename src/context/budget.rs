//! How much of the model's context window a request is estimated to use.

use serde::{Deserialize, Serialize};

use crate::{Error, ErrorCode, Result};

/// Estimated tokens by part of a request. Where a provider reported what an earlier request took, the parts share what is known by
/// that as they would share an estimate of it all.
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

impl BudgetParts {
    fn each(&mut self) -> [&mut u32; 6] {
        [
            &mut self.messages,
            &mut self.system_prompt,
            &mut self.tools,
            &mut self.skills,
            &mut self.legacy_context,
            &mut self.summary,
        ]
    }

    fn sum(mut self) -> u32 {
        self.each()
            .into_iter()
            .fold(0, |sum, part| sum.saturating_add(*part))
    }

    /// The same parts of another sum: each has its share, and what rounding leaves is in the messages.
    pub fn shared_out(mut self, total: u32) -> Self {
        let sum = u64::from(self.sum()).max(1);
        let mut left = total;
        for part in self.each() {
            // No more than the total, whose share it is.
            *part = u32::try_from(u64::from(*part) * u64::from(total) / sum).unwrap_or(total);
            left = left.saturating_sub(*part);
        }
        self.messages = self.messages.saturating_add(left);
        self
    }
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
        let estimated_input_tokens = parts.sum();
        Self {
            context_window,
            input_limit,
            reserved_output_tokens: reserved,
            estimated_input_tokens,
            fits: context_window == 0 || estimated_input_tokens <= input_limit,
            parts,
        }
    }

    /// Fails where the request does not fit.
    ///
    /// # Errors
    /// `budget_exceeded` with every number.
    pub fn check(&self) -> Result<()> {
        if self.fits {
            return Ok(());
        }
        let text = format!(
            "the request needs about {} tokens, and {} of the model's {} are left for it; shorten it, compact the session, or choose a model with a larger window",
            self.estimated_input_tokens, self.input_limit, self.context_window
        );
        let mut error = Error::new(ErrorCode::BudgetExceeded, text);
        for (name, tokens) in [
            ("contextWindow", self.context_window),
            ("inputLimit", self.input_limit),
            ("reservedOutputTokens", self.reserved_output_tokens),
            ("estimatedInputTokens", self.estimated_input_tokens),
        ] {
            error = error.with(name, tokens);
        }
        Err(error)
    }
}
