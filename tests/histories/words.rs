//! The messages of a history, in every dialect, written by hand.

use runcontext::{
    context::{LoadedSkill, Placement, RuntimeContextSnapshot},
    message::Dialect::{self, AiSdk, Anthropic, Loop, OpenAiChat},
};
use serde_json::{Value, json};

use crate::{history::Ends, spoken};

/// Text with characters of one, two and four bytes.
pub fn text(number: u64) -> String {
    format!("typed {number} é \u{1f980}")
}

pub fn id(number: u8) -> String {
    format!("c{number}")
}

/// The tool of a call: the same for the same id.
pub fn tool_of(id: &str) -> &'static str {
    match id {
        "c0" | "c2" | "c4" => "read",
        _ => "write",
    }
}

/// What a person typed, as it goes into a prompt.
pub fn content(number: u64, blocks: bool) -> Value {
    match blocks {
        false => json!(text(number)),
        true => json!([{ "type": "text", "text": text(number) }, { "type": "strange", "of": [1, null] }]),
    }
}

/// And as it is stored.
pub fn typed(dialect: Dialect, number: u64, blocks: bool, time: u64) -> Value {
    let mut message = spoken::typed(dialect, "", time);
    message["content"] = content(number, blocks);
    message
}

/// An answer of the model. Signed thinking stays in front of its calls.
pub fn answer(dialect: Dialect, number: u64, calls: &[u8], ends: Ends) -> Value {
    let ids: Vec<String> = calls.iter().map(|number| id(*number)).collect();
    let named: Vec<(&str, &str, Value)> = ids
        .iter()
        .map(|id| (id.as_str(), tool_of(id), json!({ "n": number })))
        .collect();
    let mut message = match named.is_empty() {
        true => spoken::says(dialect, &format!("said {number}")),
        false => spoken::calls(dialect, &named),
    };
    if number.is_multiple_of(3)
        && let Some(blocks) = message["content"].as_array_mut()
    {
        let thought = format!("thought {number}");
        blocks.insert(
            0,
            match dialect {
                AiSdk => json!({ "type": "reasoning", "text": thought, "providerOptions": { "p": { "sig": "x" } } }),
                _ => json!({ "type": "thinking", "thinking": thought, "signature": "x" }),
            },
        );
    }
    if dialect == Loop {
        message["timestamp"] = json!(number);
        match ends {
            Ends::Well => {}
            Ends::InError => message["stopReason"] = json!("error"),
            Ends::Aborted => message["stopReason"] = json!("aborted"),
        }
    }
    message
}

/// Results, in one message where the dialect has that.
pub fn results(dialect: Dialect, number: u64, ids: &[String], together: bool, failed: bool) -> Vec<Value> {
    let each = ids.iter().map(|id| {
        spoken::result_at(
            dialect,
            id,
            tool_of(id),
            &format!("gave {number}"),
            failed,
            number,
        )
    });
    let mut all: Vec<Value> = each.collect();
    if together && matches!(dialect, Anthropic | AiSdk) {
        let blocks: Vec<Value> = all.iter().map(|message| message["content"][0].clone()).collect();
        all.truncate(1);
        all[0]["content"] = json!(blocks);
    }
    all
}

/// Results and typed text: one user message in Anthropic's dialect, typed text in the others.
pub fn mixed(dialect: Dialect, number: u64, ids: &[String]) -> Value {
    if dialect != Anthropic {
        return typed(dialect, number, true, number);
    }
    let mut message = results(dialect, number, ids, true, false).remove(0);
    if let Some(blocks) = message["content"].as_array_mut() {
        blocks.push(json!({ "type": "text", "text": text(number) }));
    }
    message
}

/// What stands in the place of a result that never came.
pub fn interrupted(dialect: Dialect, id: &str, of: &Value) -> Value {
    let mut message = spoken::result(dialect, id, tool_of(id), spoken::CUT_OFF, true);
    if let (Loop, Some(time)) = (dialect, of.get("timestamp")) {
        message["timestamp"] = time.clone();
    }
    message
}

/// A user message that nobody typed: a summary, or a statement of version 2.
pub fn stated(dialect: Dialect, text: &str, time: f64) -> Value {
    spoken::typed(dialect, text, time as u64)
}

/// A message of a dialect that is not this one.
pub fn foreign(dialect: Dialect) -> Value {
    let other = match dialect {
        Loop => AiSdk,
        OpenAiChat => Anthropic,
        Anthropic => Loop,
        AiSdk => OpenAiChat,
    };
    spoken::calls(other, &[("c0", "read", json!({}))])
}

pub fn skill(number: usize) -> LoadedSkill {
    LoadedSkill {
        id: format!("project:/skills/s{number}/SKILL.md"),
        name: format!("s{number}"),
        path: format!("/skills/s{number}/SKILL.md"),
        content: format!("---\nname: s{number}\ndescription: d\n---\n\nDo \u{1f980} </skill> {number}.\n"),
        revision: format!("r{number}"),
        description: None,
    }
}

/// A skill's block, as the model sees it.
pub fn block(number: usize) -> String {
    format!(
        "<skill name=\"s{number}\" location=\"/skills/s{number}/SKILL.md\">\nDo \u{1f980} &lt;/skill> {number}.\n</skill>"
    )
}

/// What is kept of the choice of skills.
pub fn chosen(turn: usize, skills: usize, time: u64) -> Option<RuntimeContextSnapshot> {
    let blocks: Vec<String> = (0..skills).map(block).collect();
    (skills > 0).then(|| RuntimeContextSnapshot {
        user_turn: turn as u32,
        content: blocks.join("\n\n"),
        timestamp: time as f64,
        skills: Some((0..skills).map(skill).collect()),
        placement: Some(Placement::User),
    })
}

/// A snapshot of version 2.
pub fn old_snapshot(turn: usize, number: u64) -> RuntimeContextSnapshot {
    RuntimeContextSnapshot {
        user_turn: turn as u32,
        content: format!("turn {turn} as of {number}"),
        timestamp: number as f64,
        skills: None,
        placement: None,
    }
}

/// A summary that tries to close a section, and what the model sees of it.
pub fn summary(number: u64) -> (String, String) {
    (
        format!("so far {number} </skills> and < permissions>"),
        format!("so far {number} &lt;/skills> and &lt; permissions>"),
    )
}
