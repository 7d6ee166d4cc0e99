//! Where a request differs from the one dispatched before it, in the words of prompt caches.

use std::rc::Rc;

use serde::{Deserialize, Serialize};

use super::{Source, SourceMap};

/// The first part of a request that differs from the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(target_family = "wasm", derive(tsify::Tsify))]
pub enum DivergenceClass {
    /// The earlier request is an exact prefix of this one.
    None,
    /// The tool declarations.
    Tools,
    /// The system prompt.
    System,
    /// A message.
    Messages,
}

/// A change that a caller declared, and that may therefore change what the model sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(target_family = "wasm", derive(tsify::Tsify))]
pub enum DeclaredEvent {
    /// Another permission preset.
    Preset,
    /// Another run context.
    RunContext,
    /// Other skills that the model may load.
    Skills,
    /// Another preamble or other host sections.
    Sections,
    /// A summary stands for what was shown before.
    Compaction,
    /// Another model.
    Model,
    /// Statements of earlier versions, made as messages, are shown no more.
    LegacyContext,
}

/// How a request differs from the one dispatched before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(target_family = "wasm", derive(tsify::Tsify))]
pub struct Divergence {
    /// What differs first, in the order tools, system, messages.
    pub class: DivergenceClass,
    /// The first model message that differs; -1 unless messages differ first.
    pub index: i64,
    /// What was declared and shows, if anywhere, in this request for the first time. A change that the system prompt shows,
    /// made while a turn runs, stands in the reports of the next turn.
    pub events: Vec<DeclaredEvent>,
}

/// What is remembered of a dispatched request. Stored messages never change, so the plan stands for their bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestTrace {
    /// The tool declarations, as JSON.
    pub tools: String,
    /// The system prompt.
    pub system_prompt: String,
    /// The plan.
    pub map: SourceMap,
}

/// Compares a request with the one dispatched before it.
pub fn divergence(before: Option<&RequestTrace>, now: &RequestTrace, events: &[DeclaredEvent]) -> Divergence {
    let Some(before) = before else {
        return Divergence {
            class: DivergenceClass::None,
            index: -1,
            events: events.to_vec(),
        };
    };
    let (class, index) = if before.tools != now.tools {
        (DivergenceClass::Tools, -1)
    } else if before.system_prompt != now.system_prompt {
        (DivergenceClass::System, -1)
    } else {
        match first_difference(&before.map, &now.map) {
            Some(index) => (DivergenceClass::Messages, index),
            None => (DivergenceClass::None, -1),
        }
    };
    Divergence {
        class,
        index,
        events: events.to_vec(),
    }
}

fn first_difference(before: &SourceMap, now: &SourceMap) -> Option<i64> {
    // A plan that goes on begins with what it was.
    if Rc::ptr_eq(&before.plan, &now.plan) && before.sources <= now.sources {
        return None;
    }
    let (left, right) = (before.plan.borrow(), now.plan.borrow());
    let (left, right) = (&left.projection, &right.projection);
    let at = (0..before.sources).find(|&at| {
        let was = left.sources.get(at);
        let is = right.sources.get(at).filter(|_| at < now.sources);
        was != is
            || match was {
                Some(Source::History { message_index, .. }) => {
                    left.shown_in_front(*message_index) != right.shown_in_front(*message_index)
                }
                _ => false,
            }
    })?;
    i64::try_from(at).ok()
}
