//! What has to hold after every step. Nothing here asks the crate: a plan, its messages and spans are made anew from the stored
//! messages, by the words of the design.

use std::rc::Rc;

use runcontext::{
    context::{
        CompactionCheckpoint, ContextBudget, Divergence, DivergenceClass, Notice, Placement, Projection,
        RuntimeContextSnapshot, Source,
    },
    message::{Dialect, MessageIndex, UserTurn},
};
use serde_json::{Value, json};

use crate::{
    pairing::{answers_in, call_ids_in, check_pairs_in, is_results},
    words,
};

/// A message that was put in.
#[derive(Clone, Debug)]
pub struct Put {
    pub body: Rc<Value>,
    /// Whether it began a turn.
    pub turn: bool,
    /// Whether it is an answer that failed or was stopped.
    pub failed: bool,
}

/// What was put in, as the test knows it.
#[derive(Clone, Debug)]
pub struct Truth {
    pub dialect: Dialect,
    pub messages: Vec<Put>,
    pub snapshots: Vec<RuntimeContextSnapshot>,
    pub cut: Option<CompactionCheckpoint>,
    /// The system prompts that were sent, each with the message it was sent with first.
    pub prompts: Vec<(usize, String)>,
    /// The request that was dispatched last since the session was opened.
    pub before: Option<Rc<Request>>,
    /// Whether something was declared since then that may change what the model sees.
    pub declared: bool,
}

/// What goes to the model.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    pub system_prompt: String,
    pub tools: Vec<Value>,
    pub messages: Vec<Value>,
}

/// What is told of a request, but where it differs from the one before.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    pub request: Request,
    pub projection: Projection,
    pub tokens: Vec<u32>,
    pub budget: ContextBudget,
    pub notices: Vec<Notice>,
}

/// What the crate gave.
#[derive(Clone, Debug)]
pub struct View {
    pub request: Request,
    pub projection: Projection,
    /// Of a request; not of a projection at rest.
    pub divergence: Option<Divergence>,
    /// What is told of it, and what a session that was only just opened would tell. Of a request.
    pub told: Option<(Told, Told)>,
    /// Whether the system prompt has to be the one of the turn's first request.
    pub continues: bool,
    /// What is kept; not looked at while a user message is prepared that is not.
    pub kept: Option<Kept>,
}

/// What the session and its storage hold.
#[derive(Clone, Debug)]
pub struct Kept {
    pub loaded_from: usize,
    pub messages: Vec<Value>,
    /// All that is in storage, where that was read.
    pub saved: Option<(Vec<Value>, usize)>,
    pub snapshots: Vec<RuntimeContextSnapshot>,
    /// Messages, each with the system prompt that the model saw there.
    pub prompts: Vec<(usize, String)>,
}

/// What a check looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// Each call is answered once directly behind it, and no result stands without its call.
    Pairs,
    /// User messages stay, in order, and snapshots with them.
    Turns,
    /// Stored messages are what was put in.
    Stored,
    /// The sources are those that the design says.
    Plan,
    /// The source map makes the model messages from the stored ones.
    Map,
    /// Each block of a skill stands where its span says.
    Spans,
    /// What was sent is the beginning of what is sent next, unless something was declared; the report says so.
    Prefix,
    /// The system prompt at each message is the one that was sent.
    Prompts,
    /// What goes on from the request before is what would be made anew.
    Anew,
}

impl Truth {
    fn first(&self) -> usize {
        self.cut
            .as_ref()
            .map_or(0, |cut| cut.first_kept_message_index.offset())
    }

    /// The messages that began turns.
    pub fn turns(&self) -> Vec<usize> {
        let all = self.messages.iter().enumerate();
        all.filter(|(_, put)| put.turn).map(|(at, _)| at).collect()
    }

    /// The snapshots of a message, with their positions.
    fn snapshots_at(&self, message: usize) -> impl Iterator<Item = (usize, &RuntimeContextSnapshot)> {
        let turn = match self.messages[message].turn {
            true => self.turns().iter().position(|at| *at == message),
            false => None,
        };
        let all = self.snapshots.iter().enumerate();
        all.filter(move |(_, snapshot)| Some(snapshot.user_turn as usize) == turn)
    }
}

/// Which checks fail, and why.
pub fn check(truth: &Truth, view: &View) -> Vec<(Check, String)> {
    let checks = [
        (Check::Pairs, pairs(truth, view)),
        (Check::Turns, turns(truth, view)),
        (Check::Stored, stored(truth, view)),
        (Check::Plan, plan(truth, view)),
        (Check::Map, map(truth, view)),
        (Check::Spans, spans(truth, view)),
        (Check::Prefix, prefix(truth, view)),
        (Check::Prompts, prompts(truth, view)),
        (Check::Anew, anew(view)),
    ];
    let failed = checks.into_iter();
    failed
        .filter_map(|(check, result)| Some((check, result.err()?)))
        .collect()
}

fn alike<T: PartialEq + std::fmt::Debug>(what: &str, is: &T, expected: &T) -> Result<(), String> {
    match is == expected {
        true => Ok(()),
        false => Err(format!("{what}\n    is       {is:?}\n    expected {expected:?}")),
    }
}

fn pairs(truth: &Truth, view: &View) -> Result<(), String> {
    check_pairs_in(truth.dialect, &view.request.messages).map(|_| ())
}

fn turns(truth: &Truth, view: &View) -> Result<(), String> {
    let turns = truth.turns();
    let shown = view.projection.sources.iter().zip(&view.request.messages);
    let mut found = Vec::new();
    for (source, message) in shown {
        match source {
            Source::History { message_index, .. } if turns.contains(&message_index.offset()) => {
                let at = message_index.offset();
                found.push(at);
                let (is, typed) = (&message["content"], &truth.messages[at].body["content"]);
                let stays = match (typed.as_array(), is.as_array()) {
                    (Some(typed), Some(is)) => typed.last() == is.last(),
                    _ => is
                        .as_str()
                        .zip(typed.as_str())
                        .is_some_and(|(is, typed)| is.ends_with(typed)),
                };
                if !stays || message["role"] != "user" {
                    return Err(format!("the user message {at} is shown as {message}"));
                }
            }
            Source::RuntimeContext {
                user_turn,
                message_index,
                ..
            } => {
                let anchor = turns.get(user_turn.0 as usize);
                alike(
                    "the anchor of a statement",
                    &Some(&message_index.offset()),
                    &anchor,
                )?;
            }
            _ => {}
        }
    }
    for expansion in &view.projection.skill_expansions {
        let snapshot = &truth.snapshots[expansion.snapshot_index as usize];
        let anchor = turns.get(snapshot.user_turn as usize);
        alike(
            "the anchor of skills",
            &Some(&expansion.message_index.offset()),
            &anchor,
        )?;
    }
    let kept: Vec<usize> = turns.iter().copied().filter(|at| *at >= truth.first()).collect();
    alike("the user turns", &found, &kept)
}

fn stored(truth: &Truth, view: &View) -> Result<(), String> {
    let Some(kept) = &view.kept else { return Ok(()) };
    let put = |from: usize, to: usize| truth.messages[from..to].iter().map(|put| &*put.body);
    if !kept
        .messages
        .iter()
        .eq(put(kept.loaded_from, truth.messages.len()))
    {
        return Err(format!("the session holds {:?}", kept.messages));
    }
    if let Some((saved, count)) = &kept.saved
        && !saved.iter().eq(put(0, *count))
    {
        return Err(format!("the storage holds {saved:?}"));
    }
    alike("the snapshots", &kept.snapshots, &truth.snapshots)
}

/// A call's results are those between its message and the next message that is not a result; any other result is left out; what
/// is not answered then is made up for. Answers that failed are not shown.
fn planned(truth: &Truth) -> Vec<Source> {
    let mut sources = Vec::new();
    if let Some(cut) = &truth.cut {
        sources.push(Source::Compaction {
            checkpoint_id: cut.id.clone(),
            message_index: cut.first_kept_message_index,
            summarized_before: cut.first_kept_message_index.0,
        });
    }
    let end = |sources: &mut Vec<Source>, open: Option<(usize, Vec<String>)>| {
        let Some((at, ids)) = open else { return };
        sources.extend(ids.into_iter().map(|tool_call_id| Source::InterruptedToolResult {
            message_index: MessageIndex(at as u32),
            tool_call_id,
        }));
    };
    let mut open: Option<(usize, Vec<String>)> = None;
    for (at, put) in truth.messages.iter().enumerate().skip(truth.first()) {
        let message_index = MessageIndex(at as u32);
        let answers = answers_in(truth.dialect, &put.body);
        let mut results_left_out = Vec::new();
        for (number, (id, _)) in answers.iter().enumerate() {
            let ids = open.as_mut().map(|(_, ids)| ids);
            match ids.and_then(|ids| Some((ids.iter().position(|open| open == id)?, ids))) {
                Some((call, ids)) => drop(ids.remove(call)),
                None => results_left_out.push(number as u32),
            }
        }
        if is_results(truth.dialect, &put.body) {
            if results_left_out.len() < answers.len() {
                sources.push(Source::History {
                    message_index,
                    results_left_out,
                });
            }
            continue;
        }
        end(&mut sources, open.take());
        if put.failed {
            continue;
        }
        sources.push(Source::History {
            message_index,
            results_left_out,
        });
        if put.body["role"] == "assistant" {
            open = Some((at, call_ids_in(truth.dialect, &put.body)));
        }
        for (snapshot, it) in truth.snapshots_at(at) {
            if it.placement.is_none() {
                sources.push(Source::RuntimeContext {
                    snapshot_index: snapshot as u32,
                    user_turn: UserTurn(it.user_turn),
                    message_index,
                    skills: Vec::new(),
                });
            }
        }
    }
    end(&mut sources, open);
    sources
}

fn plan(truth: &Truth, view: &View) -> Result<(), String> {
    alike(
        "messages of the history",
        &(view.projection.history_message_count as usize),
        &truth.messages.len(),
    )?;
    alike("the sources", &view.projection.sources, &planned(truth))
}

/// A model message, made from what is stored by what its source says.
fn made(truth: &Truth, source: &Source) -> Option<Value> {
    let dialect = truth.dialect;
    let stored = |index: &MessageIndex| Some(&*truth.messages.get(index.offset())?.body);
    Some(match source {
        Source::Compaction { .. } => {
            let time = truth.cut.as_ref()?.timestamp;
            words::stated(dialect, &words::summary(time as u64).1, time)
        }
        Source::RuntimeContext { snapshot_index, .. } => {
            let snapshot = truth.snapshots.get(*snapshot_index as usize)?;
            words::stated(dialect, &snapshot.content, snapshot.timestamp)
        }
        Source::InterruptedToolResult {
            message_index,
            tool_call_id,
        } => words::interrupted(dialect, tool_call_id, stored(message_index)?),
        Source::History {
            message_index,
            results_left_out,
        } => {
            let mut message = stored(message_index)?.clone();
            if let Some(blocks) = message.get_mut("content").and_then(Value::as_array_mut) {
                let mut number = 0;
                blocks.retain(|block| {
                    let result = block["type"] == "tool_result" || block["type"] == "tool-result";
                    number += u32::from(result);
                    !result || !results_left_out.contains(&(number - 1))
                });
            }
            let shown = truth.snapshots_at(message_index.offset());
            let shown = shown.filter(|(_, it)| it.placement == Some(Placement::User));
            let texts: Vec<&str> = shown.map(|(_, it)| it.content.as_str()).collect();
            if !texts.is_empty() {
                let text = texts.join("\n\n");
                if let Some(typed) = message["content"].as_str() {
                    message["content"] = json!(format!("{text}\n\n{typed}"));
                } else if let Some(blocks) = message["content"].as_array_mut() {
                    blocks.insert(0, json!({ "type": "text", "text": text }));
                }
            }
            message
        }
    })
}

fn map(truth: &Truth, view: &View) -> Result<(), String> {
    let (sources, messages) = (&view.projection.sources, &view.request.messages);
    alike("as many messages as sources", &messages.len(), &sources.len())?;
    for (source, message) in sources.iter().zip(messages) {
        alike(
            "a message of the model's",
            &Some(message),
            &made(truth, source).as_ref(),
        )?;
    }
    Ok(())
}

fn spans(truth: &Truth, view: &View) -> Result<(), String> {
    let mut told = 0;
    for expansion in &view.projection.skill_expansions {
        let of = |source: &Source| matches!(source, Source::History { message_index, .. } if *message_index == expansion.message_index);
        let Some(at) = view.projection.sources.iter().position(of) else {
            return Err("skills of a message that is not shown".to_owned());
        };
        let content = &view.request.messages[at]["content"];
        let text = content
            .as_str()
            .or_else(|| content[0]["text"].as_str())
            .unwrap_or_default();
        let units: Vec<u16> = text.encode_utf16().collect();
        for (number, span) in expansion.skills.iter().enumerate() {
            let part = units
                .get(span.start as usize..span.end as usize)
                .unwrap_or_default();
            alike(
                "the block of a skill",
                &String::from_utf16_lossy(part),
                &words::block(number),
            )?;
            alike("its revision", &span.revision, &words::skill(number).revision)?;
            told += 1;
        }
    }
    let shown = (truth.first()..truth.messages.len()).flat_map(|at| truth.snapshots_at(at));
    let chosen: usize = shown.filter_map(|(_, it)| it.skills.as_ref()).map(Vec::len).sum();
    alike("how many skills have a span", &told, &chosen)
}

fn prefix(truth: &Truth, view: &View) -> Result<(), String> {
    let Some(divergence) = &view.divergence else {
        return Ok(());
    };
    let now = &view.request;
    let (class, index) = match &truth.before {
        None => (DivergenceClass::None, -1),
        Some(before) if before.tools != now.tools => (DivergenceClass::Tools, -1),
        Some(before) if before.system_prompt != now.system_prompt => (DivergenceClass::System, -1),
        Some(before) => {
            let differs = |at: &usize| before.messages.get(*at) != now.messages.get(*at);
            match (0..before.messages.len()).find(differs) {
                Some(at) => (DivergenceClass::Messages, at as i64),
                None => (DivergenceClass::None, -1),
            }
        }
    };
    if class != DivergenceClass::None && !truth.declared {
        return Err(format!(
            "nothing was declared, and the {class:?} differ at {index}"
        ));
    }
    alike(
        "the divergence",
        &(divergence.class, divergence.index),
        &(class, index),
    )
}

fn prompts(truth: &Truth, view: &View) -> Result<(), String> {
    if view.continues {
        let sent = truth.prompts.last().map(|(_, prompt)| prompt);
        alike(
            "the system prompt of a turn that goes on",
            &Some(&view.request.system_prompt),
            &sent,
        )?;
    }
    let Some(kept) = &view.kept else { return Ok(()) };
    for (at, prompt) in &kept.prompts {
        let sent = truth.prompts.iter().rev().find(|(from, _)| from <= at);
        if let Some((_, sent)) = sent {
            alike("the system prompt at a message", prompt, sent)?;
        }
    }
    Ok(())
}

fn anew(view: &View) -> Result<(), String> {
    let Some((told, anew)) = &view.told else {
        return Ok(());
    };
    alike("a request that goes on", told, anew)
}
