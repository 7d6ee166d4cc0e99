//! Seeded faults: what a wrong crate would give. Each changes one thing in what the crate really gave, between it and the checks,
//! and the check that is meant for it has to say so. The crate itself is not touched, and nothing of this ships.

use runcontext::{
    context::{DivergenceClass, Source},
    message::MessageIndex,
};
use serde_json::{Value, json};

use crate::{
    check::{Check, Truth, View},
    pairing::{answers_in, is_results},
};

/// A fault, the check that finds it, and how it is made; `None` where there is nothing to make it of.
pub type Fault = (&'static str, Check, fn(&Truth, &mut View) -> Option<()>);

pub const ALL: [Fault; 17] = [
    (
        "a source is dropped, and its message shown",
        Check::Map,
        |_, view| view.projection.sources.pop().map(|_| ()),
    ),
    ("a result is left out", Check::Pairs, |truth, view| {
        let at = a_result(truth, view)?;
        remove(view, at);
        Some(())
    }),
    ("a call is answered twice", Check::Pairs, |truth, view| {
        let at = a_result(truth, view)?;
        repeat(view, at, at + 1);
        Some(())
    }),
    ("a result is shown late", Check::Pairs, |truth, view| {
        let at = a_result(truth, view)?;
        let end = view.request.messages.len();
        let next = view.request.messages.get(at + 1)?;
        (!is_results(truth.dialect, next)).then(|| {
            repeat(view, at, end);
            remove(view, at);
        })
    }),
    ("a result that answers nothing is kept", Check::Plan, |_, view| {
        view.projection
            .sources
            .iter_mut()
            .find_map(|source| match source {
                Source::History { results_left_out, .. } => results_left_out.pop().map(|_| ()),
                _ => None,
            })
    }),
    ("an answer that failed is shown", Check::Plan, |truth, view| {
        let at = truth.messages.iter().rposition(|put| put.failed)?;
        view.projection.sources.push(history(at));
        view.request.messages.push((*truth.messages[at].body).clone());
        Some(())
    }),
    ("the index of a message is one too high", Check::Map, |_, view| {
        view.projection
            .sources
            .iter_mut()
            .find_map(|source| match source {
                Source::History { message_index, .. } => {
                    message_index.0 += 1;
                    Some(())
                }
                _ => None,
            })
    }),
    ("a user message is missing", Check::Turns, |truth, view| {
        let at = a_turn(truth, view)?;
        remove(view, at);
        Some(())
    }),
    (
        "the role of a user message is another",
        Check::Turns,
        |truth, view| {
            let at = a_turn(truth, view)?;
            view.request.messages[at]["role"] = json!("developer");
            Some(())
        },
    ),
    (
        "skills stand in front of another turn's message",
        Check::Turns,
        |truth, view| {
            let turns = truth.turns();
            let expansion = view.projection.skill_expansions.first_mut()?;
            let other = turns.iter().find(|at| **at != expansion.message_index.offset())?;
            expansion.message_index = MessageIndex(*other as u32);
            Some(())
        },
    ),
    ("a span begins one unit late", Check::Spans, |_, view| {
        let expansion = view.projection.skill_expansions.last_mut()?;
        expansion.skills.last_mut().map(|span| span.start += 1)
    }),
    ("a summary does not come first", Check::Plan, |_, view| {
        let is_first = matches!(view.projection.sources.first()?, Source::Compaction { .. });
        (is_first && view.projection.sources.len() > 1).then(|| {
            view.projection.sources.rotate_left(1);
            view.request.messages.rotate_left(1);
        })
    }),
    ("a stored message is changed", Check::Stored, |_, view| {
        let message = view.kept.as_mut()?.messages.last_mut()?;
        message["seen"] = Value::Bool(true);
        Some(())
    }),
    ("a snapshot is lost", Check::Stored, |_, view| {
        view.kept.as_mut()?.snapshots.pop().map(|_| ())
    }),
    (
        "a checkpoint of the system prompt is lost",
        Check::Prompts,
        |truth, view| {
            let (_, sent) = truth.prompts.last()?;
            let (_, earlier) = truth.prompts.iter().rev().find(|(_, prompt)| prompt != sent)?;
            view.kept.as_mut()?.prompts.last_mut()?.1 = earlier.clone();
            Some(())
        },
    ),
    (
        "a request goes on from a stale one: a message that was added is not in it",
        Check::Anew,
        |_, view| {
            let (told, _) = view.told.as_mut()?;
            told.tokens.pop()?;
            told.projection.sources.pop()?;
            told.request.messages.pop().map(|_| ())
        },
    ),
    (
        "what was sent is changed, and the report says nothing",
        Check::Prefix,
        |truth, view| {
            let divergence = view.divergence.as_ref()?;
            let same = divergence.class == DivergenceClass::None && truth.before.is_some();
            let first = view.request.messages.first_mut().filter(|_| same)?;
            first["content"] = json!("something else");
            Some(())
        },
    ),
];

fn history(at: usize) -> Source {
    Source::History {
        message_index: MessageIndex(at as u32),
        results_left_out: Vec::new(),
    }
}

/// A model message that is one result.
fn a_result(truth: &Truth, view: &View) -> Option<usize> {
    let messages = view.request.messages.iter();
    let mut single = messages
        .map(|message| is_results(truth.dialect, message) && answers_in(truth.dialect, message).len() == 1);
    single.position(|single| single)
}

/// A model message that began a turn.
fn a_turn(truth: &Truth, view: &View) -> Option<usize> {
    let turns = truth.turns();
    view.projection.sources.iter().position(|source| {
        matches!(source, Source::History { message_index, .. } if turns.contains(&message_index.offset()))
    })
}

fn remove(view: &mut View, at: usize) {
    view.projection.sources.remove(at);
    view.request.messages.remove(at);
}

fn repeat(view: &mut View, at: usize, to: usize) {
    view.projection
        .sources
        .insert(to, view.projection.sources[at].clone());
    view.request
        .messages
        .insert(to, view.request.messages[at].clone());
}
