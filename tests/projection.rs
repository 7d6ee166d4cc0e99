//! The projection: vectors written by hand, and properties of any conversation.
#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;
#[cfg(target_family = "wasm")]
wasm_bindgen_test::wasm_bindgen_test_configure!(run_in_browser);

use runcontext::{
    Result,
    context::{
        BudgetParts, CompactionCheckpoint, ContextBudget, DeclaredEvent, DivergenceClass, Notice, NoticeCode,
        Projection, RequestTrace, RuntimeContextSnapshot, SkillExpansion, Source, SourceMap, divergence,
        materialise, project,
    },
    message::{Dialect, MessageIndex, MessageOutline},
};
use serde_json::{Value, json};

#[path = "lab/pairing.rs"]
pub mod pairing;
#[path = "lab/random.rs"]
pub mod random;

use pairing::{Pairs, call_ids, check_pairs};
use random::Random;

type Shown = (Vec<Value>, Projection, Vec<Notice>);

/// What the model sees; every user message counts as one that began a turn.
fn shown(
    messages: &[Value],
    snapshots: &[RuntimeContextSnapshot],
    compaction: Option<&CompactionCheckpoint>,
) -> Result<Shown> {
    let outlines: Vec<MessageOutline> = messages
        .iter()
        .map(|message| Dialect::Loop.outline(message, true))
        .collect::<Result<_>>()?;
    let (projection, notices) = project(&outlines, snapshots, compaction)?;
    let body = |index: MessageIndex| messages.get(index.offset()).cloned();
    let bodies = materialise(Dialect::Loop, &projection, body, &outlines, snapshots, compaction)?;
    Ok((bodies, projection, notices))
}

#[test]
fn every_vector_is_shown_as_it_says() {
    let vectors: Vec<Value> = serde_json::from_str(include_str!("vectors/projection.json")).unwrap();
    let mut failed = Vec::new();
    for vector in &vectors {
        let messages = vector["messages"].as_array().unwrap();
        let snapshots = match vector.get("snapshots") {
            Some(snapshots) => RuntimeContextSnapshot::parse_list(snapshots).unwrap(),
            None => Vec::new(),
        };
        let compaction: Option<CompactionCheckpoint> = vector
            .get("compaction")
            .map(|compaction| serde_json::from_value(compaction.clone()).unwrap());
        let (is, expected) = match shown(messages, &snapshots, compaction.as_ref()) {
            Ok((messages, projection, notices)) => (
                json!({ "messages": messages, "projection": projection, "notices": notices }),
                vector["expected"].clone(),
            ),
            Err(error) => (json!(error.code().as_str()), vector["error"].clone()),
        };
        if is != expected {
            failed.push(format!(
                "{}\n  is       {is}\n  expected {expected}",
                vector["name"]
            ));
        }
    }
    println!("{} vectors", vectors.len());
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(vectors.len() >= 50);
}

/// A message of any kind, often a result of a call just before.
fn any_message(random: &mut Random, before: &[Value]) -> Value {
    let id = |random: &mut Random| format!("c{}", random.below(6));
    let recent: Vec<String> = before.iter().rev().take(3).flat_map(call_ids).collect();
    if !recent.is_empty() && !random.one_in(3) {
        let id = &recent[random.below(recent.len())];
        return json!({ "role": "toolResult", "toolCallId": id, "content": [] });
    }
    match random.below(10) {
        0 | 1 => json!({ "role": "user", "content": "typed", "timestamp": 1 }),
        2 => json!({ "role": "user", "content": [{ "type": "text", "text": "typed" }] }),
        3..=5 => {
            let calls: Vec<Value> = (0..random.below(4))
                .map(|_| json!({ "type": "toolCall", "id": id(random), "name": "n", "arguments": {} }))
                .collect();
            let mut message = json!({ "role": "assistant", "content": calls, "timestamp": 2 });
            match random.below(6) {
                0 => message["stopReason"] = json!("error"),
                1 => message["stopReason"] = json!("aborted"),
                _ => message["stopReason"] = json!("toolUse"),
            }
            message
        }
        6..=8 => json!({ "role": "toolResult", "toolCallId": id(random), "content": [] }),
        _ => json!({ "role": "note" }),
    }
}

/// What must hold of any conversation's projection.
fn check(messages: &[Value], first: usize, shown: &Shown) -> Pairs {
    let (bodies, projection, notices) = shown;
    let pairs = check_pairs(bodies).unwrap_or_else(|error| panic!("{error} in {messages:?}"));
    assert_eq!(projection.sources.len(), bodies.len());
    assert_eq!(projection.history_message_count as usize, messages.len());
    let failed = |message: &Value| message["stopReason"] == "error" || message["stopReason"] == "aborted";
    let mut history = Vec::new();
    let mut made_up = 0;
    for (source, body) in projection.sources.iter().zip(bodies) {
        match source {
            Source::History { message_index, .. } => {
                history.push(message_index.offset());
                let stored = &messages[message_index.offset()];
                if stored["role"] != "user" {
                    assert_eq!(body, stored);
                }
            }
            Source::InterruptedToolResult {
                message_index,
                tool_call_id,
            } => {
                made_up += 1;
                let call = &messages[message_index.offset()];
                assert!(call_ids(call).contains(tool_call_id));
                assert_eq!(body.get("timestamp"), call.get("timestamp"));
                assert_eq!(body["isError"], true);
            }
            Source::RuntimeContext { .. } | Source::Compaction { .. } => {}
        }
    }
    assert!(history.windows(2).all(|pair| pair[0] < pair[1]));
    assert_eq!(pairs.interrupted, made_up);
    // Each message is shown, or failed, or is a result that a notice tells of.
    let left_out: Vec<usize> = notices
        .iter()
        .filter(|notice| notice.code == NoticeCode::ResultLeftOut)
        .map(|notice| notice.message_index.unwrap().offset())
        .collect();
    for (at, message) in messages.iter().enumerate().skip(first) {
        let times = history.iter().filter(|index| **index == at).count();
        let told = left_out.iter().filter(|index| **index == at).count();
        let expected = if failed(message) {
            (0, 0)
        } else if message["role"] == "toolResult" {
            assert_eq!(times + told, 1);
            continue;
        } else {
            (1, 0)
        };
        assert_eq!((times, told), expected, "message {at} of {messages:?}");
    }
    assert!(history.iter().chain(&left_out).all(|index| *index >= first));
    pairs
}

#[test]
fn in_any_conversation_every_call_is_answered_once_directly_behind_it() {
    let (mut calls, mut interrupted, mut left_out) = (0, 0, 0);
    for seed in 1..=1_000 {
        let mut random = Random::new(seed);
        let length = random.below(16);
        let mut messages = Vec::new();
        for _ in 0..length {
            let next = any_message(&mut random, &messages);
            messages.push(next);
        }
        let first = random.below(length + 1);
        let compaction = CompactionCheckpoint {
            id: "k".to_owned(),
            first_kept_message_index: MessageIndex(first as u32),
            history_message_count: length as u32,
            summary: "so far".to_owned(),
            timestamp: 3.0,
            provider: String::new(),
            model: String::new(),
            usage: None,
        };
        for compaction in [None, Some(&compaction)] {
            let shown = shown(&messages, &[], compaction).unwrap();
            let pairs = check(&messages, compaction.map_or(0, |_| first), &shown);
            calls += pairs.calls;
            interrupted += pairs.interrupted;
            left_out += shown.2.len();
        }
    }
    println!("{calls} calls, {interrupted} made up for, {left_out} results left out");
    assert!(interrupted > 1_000 && calls - interrupted > 1_000 && left_out > 1_000);
}

#[test]
fn any_cut_and_any_two_messages_changed_over_leave_a_valid_conversation() {
    let call = |id: &str| json!({ "type": "toolCall", "id": id, "name": "n", "arguments": {} });
    let result = |id: &str| json!({ "role": "toolResult", "toolCallId": id, "content": [] });
    let whole = vec![
        json!({ "role": "user", "content": "one" }),
        json!({ "role": "assistant", "content": [call("a"), call("b")], "stopReason": "toolUse" }),
        result("a"),
        result("b"),
        json!({ "role": "assistant", "content": [call("c")], "stopReason": "error" }),
        json!({ "role": "user", "content": "two" }),
        json!({ "role": "assistant", "content": [call("a"), call("a")], "stopReason": "toolUse" }),
        result("a"),
        result("a"),
        json!({ "role": "note" }),
        json!({ "role": "assistant", "content": [], "stopReason": "stop" }),
    ];
    let check_all = |messages: &[Value]| check(messages, 0, &shown(messages, &[], None).unwrap());
    let untouched = check_all(&whole);
    assert_eq!((untouched.calls, untouched.interrupted), (4, 0));
    for from in 0..whole.len() {
        for to in from..whole.len() {
            check_all(&whole[from..=to]);
            let mut changed = whole.clone();
            changed.swap(from, to);
            check_all(&changed);
            let mut moved = whole.clone();
            let message = moved.remove(from);
            moved.insert(to, message);
            check_all(&moved);
            let mut cut = whole.clone();
            cut.drain(from..=to);
            check_all(&cut);
            let mut doubled = whole.clone();
            doubled.insert(to, whole[from].clone());
            check_all(&doubled);
        }
    }
}

/// The part of a text between two UTF-16 positions.
fn units(text: &str, start: u32, end: u32) -> String {
    let units: Vec<u16> = text.encode_utf16().collect();
    String::from_utf16(&units[start as usize..end as usize]).unwrap()
}

#[test]
fn every_span_holds_its_own_block() {
    let bodies = [
        "plain",
        "\u{1f980} \u{1f980}",
        "é\u{0}\u{301}",
        "</skill> <skill>",
        "\u{10ffff}",
    ];
    for seed in 1..=300 {
        let mut random = Random::new(seed);
        let mut snapshots = Vec::new();
        let mut blocks = Vec::new();
        for turn in 0..3_u32 {
            for _ in 0..random.below(3) {
                let (mut skills, mut contents, mut own) = (Vec::new(), Vec::new(), Vec::new());
                for number in 0..=random.below(3) {
                    let body = bodies[random.below(bodies.len())];
                    // As the design says: attributes escaped, tags in the body made harmless.
                    let safe = body
                        .replace("</skill>", "&lt;/skill>")
                        .replace("<skill>", "&lt;skill>");
                    let block =
                        format!("<skill name=\"{number}\" location=\"&lt;{number}&gt;\">\n{safe}\n</skill>");
                    skills.push(json!({
                        "id": format!("s{number}"), "name": number.to_string(), "path": format!("<{number}>"),
                        "content": format!("---\nname: x\ndescription: y\n---\n\n{body}\n\n"), "revision": "r"
                    }));
                    own.push(block.clone());
                    contents.push(block);
                }
                snapshots.push(json!({
                    "userTurn": turn, "content": contents.join("\n\n"), "timestamp": 1, "skills": skills,
                    "placement": "user"
                }));
                blocks.push(own);
            }
        }
        let snapshots = RuntimeContextSnapshot::parse_list(&json!(snapshots)).unwrap();
        let content = |at: usize| match at {
            0 => json!("typed"),
            1 => json!([{ "type": "text", "text": "typed" }]),
            _ => json!(""),
        };
        let messages: Vec<Value> = (0..3)
            .map(|at| json!({ "role": "user", "content": content(at) }))
            .collect();
        let (shown, projection, _) = shown(&messages, &snapshots, None).unwrap();
        assert_eq!(projection.skill_expansions.len(), snapshots.len());
        for SkillExpansion {
            message_index,
            snapshot_index,
            skills,
        } in &projection.skill_expansions
        {
            let content = &shown[message_index.offset()]["content"];
            let text = content.as_str().or_else(|| content[0]["text"].as_str()).unwrap();
            let own = &blocks[*snapshot_index as usize];
            assert_eq!(skills.len(), own.len());
            for (span, block) in skills.iter().zip(own) {
                assert_eq!(&units(text, span.start, span.end), block, "seed {seed}");
            }
        }
    }
}

#[test]
fn a_body_that_is_not_loaded_is_not_found() {
    let messages = [json!({ "role": "user", "content": "one" })];
    let outlines = [Dialect::Loop.outline(&messages[0], true).unwrap()];
    let (projection, _) = project(&outlines, &[], None).unwrap();
    let error = materialise::<Value>(Dialect::Loop, &projection, |_| None, &outlines, &[], None).unwrap_err();
    assert_eq!(error.code().as_str(), "not_found");
    assert_eq!(error.message(), "message 0 is not loaded; open the session again");
}

#[test]
fn an_outline_holds_what_is_understood_and_counts_the_rest() {
    let text = |text: &str| json!({ "type": "text", "text": text });
    let cases = [
        (
            json!({ "role": "user", "content": "12345" }),
            json!({ "role": "user", "userTurn": true, "textLen": 5, "tokens": 4 }),
        ),
        // A pair of surrogates is two units.
        (
            json!({ "role": "user", "content": "\u{1f980}ab" }),
            json!({ "role": "user", "userTurn": true, "textLen": 4, "tokens": 4 }),
        ),
        (
            json!({ "role": "user", "content": "" }),
            json!({ "role": "user", "userTurn": true, "textLen": 0, "tokens": 0 }),
        ),
        (
            json!({ "role": "user", "content": [] }),
            json!({ "role": "user", "userTurn": true, "textLen": 0, "tokens": 0 }),
        ),
        // Texts are counted one by one, a picture is a picture, thinking is no text.
        (
            json!({ "role": "user", "content": [text("123"), text("45678"), { "type": "image", "data": "AAAA" }] }),
            json!({ "role": "user", "userTurn": true, "textLen": 8, "tokens": 3 + 4 + 1_600 }),
        ),
        (
            json!({ "role": "assistant", "content": [{ "type": "thinking", "thinking": "12345" }, text("1")] }),
            json!({ "role": "assistant", "textLen": 1, "tokens": 4 + 3 }),
        ),
        // As its JSON: {"data":123,"type":"x"}
        (
            json!({ "role": "assistant", "content": [{ "type": "x", "data": 123 }] }),
            json!({ "role": "assistant", "textLen": 0, "tokens": 11 }),
        ),
        // Other content: {"a":"123456789"}; null; no content: {"role":"toolResult","toolCallId":"c","output":"12"}
        (
            json!({ "role": "user", "content": { "a": "123456789" } }),
            json!({ "role": "user", "userTurn": true, "textLen": 0, "tokens": 9 }),
        ),
        (
            json!({ "role": "user", "content": null }),
            json!({ "role": "user", "userTurn": true, "textLen": 0, "tokens": 2 }),
        ),
        (
            json!({ "role": "toolResult", "toolCallId": "c", "output": "12" }),
            json!({ "role": "toolResult", "answers": [{ "id": "c", "name": "" }], "textLen": 0, "tokens": 19 }),
        ),
        // A role that nobody knows: {"role":"note","content":"12345"}
        (
            json!({ "role": "note", "content": "12345" }),
            json!({ "role": "other", "textLen": 0, "tokens": 13 }),
        ),
        (
            json!({ "role": "toolResult", "toolCallId": "c", "content": "1", "isError": true }),
            json!({ "role": "toolResult", "answers": [{ "id": "c", "name": "", "isError": true }], "textLen": 1, "tokens": 3 }),
        ),
        (
            json!({ "role": "toolResult", "toolCallId": "", "content": "1", "isError": "yes" }),
            json!({ "role": "toolResult", "answers": [{ "id": "", "name": "" }], "textLen": 1, "tokens": 3 }),
        ),
        // {"type":"toolCall","id":"c","name":"n"}
        (
            json!({ "role": "assistant", "stopReason": "aborted", "content": [{ "type": "toolCall", "id": "c", "name": "n" }] }),
            json!({
                "role": "assistant", "stop": "aborted", "calls": [{ "id": "c", "name": "n" }], "textLen": 0, "tokens": 14
            }),
        ),
        (
            json!({ "role": "assistant", "stopReason": "error", "content": [] }),
            json!({ "role": "assistant", "stop": "error", "textLen": 0, "tokens": 0 }),
        ),
    ];
    for (message, expected) in cases {
        let outline = Dialect::Loop.outline(&message, true).unwrap();
        assert_eq!(serde_json::to_value(&outline).unwrap(), expected, "{message}");
        // What did not come in through a prompt is no turn.
        assert!(!Dialect::Loop.outline(&message, false).unwrap().user_turn);
    }
}

#[test]
fn a_request_fits_up_to_what_is_left_for_input() {
    let parts = |messages| BudgetParts {
        system_prompt: 10,
        tools: 10,
        messages,
        skills: 5,
        legacy_context: 3,
        summary: 2,
    };
    let fits = |window, reserved, messages| {
        let budget = ContextBudget::new(window, reserved, parts(messages));
        assert_eq!(budget.estimated_input_tokens, 30_u32.saturating_add(messages));
        budget.fits
    };
    assert!(fits(Some(100), Some(30), 40));
    assert!(!fits(Some(100), Some(30), 41));
    assert!(fits(Some(100), None, 70));
    assert!(!fits(Some(100), None, 71));
    // More is reserved than there is: nothing fits.
    assert!(!fits(Some(100), Some(200), 0));
    // No window is known.
    assert!(fits(None, Some(30), u32::MAX));
}

fn trace(tools: &str, system_prompt: &str, sources: &[u32], snapshots: &[(u32, u32)]) -> RequestTrace {
    RequestTrace {
        tools: tools.to_owned(),
        system_prompt: system_prompt.to_owned(),
        map: SourceMap::from(Projection {
            history_message_count: 9,
            sources: sources
                .iter()
                .map(|index| Source::History {
                    message_index: MessageIndex(*index),
                    results_left_out: Vec::new(),
                })
                .collect(),
            skill_expansions: snapshots
                .iter()
                .map(|(message, snapshot)| SkillExpansion {
                    message_index: MessageIndex(*message),
                    snapshot_index: *snapshot,
                    skills: Vec::new(),
                })
                .collect(),
        }),
    }
}

#[test]
fn divergence_names_the_first_of_tools_system_prompt_and_messages() {
    use DivergenceClass::{Messages, None as Nothing, System, Tools};
    let before = trace("t", "s", &[0, 1], &[(0, 0)]);
    let made_up = |at: usize| {
        let trace = trace("t", "s", &[0, 1], &[(0, 0)]);
        let mut projection = trace.map.projection();
        projection.sources[at] = Source::InterruptedToolResult {
            message_index: MessageIndex(0),
            tool_call_id: "c".to_owned(),
        };
        RequestTrace {
            map: SourceMap::from(projection),
            ..trace
        }
    };
    let cases = [
        (before.clone(), Nothing, -1),
        (trace("t", "s", &[0, 1, 2, 3], &[(0, 0), (2, 1)]), Nothing, -1),
        (trace("u", "x", &[5], &[]), Tools, -1),
        (trace("t", "x", &[5], &[]), System, -1),
        (trace("t", "s", &[5, 1], &[(0, 0)]), Messages, 0),
        (trace("t", "s", &[0, 5], &[(0, 0)]), Messages, 1),
        (trace("t", "s", &[0], &[(0, 0)]), Messages, 1),
        (trace("t", "s", &[], &[]), Messages, 0),
        // Other skills in front of a message, or in another order, or none.
        (trace("t", "s", &[0, 1], &[]), Messages, 0),
        (trace("t", "s", &[0, 1], &[(0, 1)]), Messages, 0),
        (trace("t", "s", &[0, 1], &[(0, 0), (0, 1)]), Messages, 0),
        (trace("t", "s", &[0, 1], &[(0, 0), (1, 1)]), Messages, 1),
        (made_up(1), Messages, 1),
    ];
    let events = [DeclaredEvent::Preset];
    for (now, class, index) in cases {
        let found = divergence(Some(&before), &now, &events);
        assert_eq!((found.class, found.index), (class, index), "{now:?}");
        assert_eq!(found.events, events);
        // The first request differs from nothing.
        let first = divergence(None, &now, &events);
        assert_eq!((first.class, first.index), (Nothing, -1));
    }
}

#[test]
fn names_in_the_report_are_those_of_the_contract() {
    let found = divergence(
        None,
        &trace("", "", &[], &[]),
        &[
            DeclaredEvent::Preset,
            DeclaredEvent::Sections,
            DeclaredEvent::Model,
        ],
    );
    assert_eq!(
        serde_json::to_value(found).unwrap(),
        json!({ "class": "none", "index": -1, "events": ["preset", "sections", "model"] })
    );
    let classes = [
        DivergenceClass::Tools,
        DivergenceClass::System,
        DivergenceClass::Messages,
    ];
    assert_eq!(
        serde_json::to_value(classes).unwrap(),
        json!(["tools", "system", "messages"])
    );
    let codes = [
        NoticeCode::AnchorMissing,
        NoticeCode::ResultLeftOut,
        NoticeCode::MentionUnknown,
        NoticeCode::MentionAmbiguous,
        NoticeCode::UserMessageMixed,
    ];
    assert_eq!(
        serde_json::to_value(codes).unwrap(),
        json!([
            "anchor_missing",
            "result_left_out",
            "mention_unknown",
            "mention_ambiguous",
            "user_message_mixed"
        ])
    );
}
