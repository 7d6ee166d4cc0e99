//! Real sessions of other programs, natively: they come out as they went in, and every projection of them is valid.
//!
//! The files are not part of the repository: where they are absent the tests say so.
#![cfg(not(target_family = "wasm"))]
#[path = "lab/converted.rs"]
pub mod converted;
#[path = "lab/mod.rs"]
pub mod lab;

use std::{collections::HashSet, io::Write, path::PathBuf, rc::Rc};

use runcontext::{
    ErrorCode,
    context::{DivergenceClass, NoticeCode, Source, materialise, project},
    message::{
        Dialect::{self, AiSdk, Anthropic, Loop, OpenAiChat},
        MessageIndex, MessageOutline,
    },
    runtime::{PromptOptions, Session, Turn},
    session::{NewSession, Outcome, RequestReport},
};
use serde_json::{Value, json};

use converted::{Grouping, converted};
use lab::{
    Lab, Summaries, at_once, incoming,
    pairing::{Pairs, answers_in, call_ids, call_ids_in, check_pairs, check_pairs_in, is_results},
    refused,
    spoken::{ALL, CUT_OFF, result, typed},
};

/// A file of the data folder, where it is there.
fn data(name: &str) -> Option<String> {
    let folder = match std::env::var_os("RUNCONTEXT_DATA") {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/data"),
    };
    let text = std::fs::read_to_string(folder.join("sessions").join(name)).ok();
    if text.is_none() {
        say(&format!(
            "SKIPPED: `sessions/{name}` is not there; set RUNCONTEXT_DATA to the folder that has it\n"
        ));
    }
    text
}

/// Past the test harness, which shows what a test prints only when it fails.
fn say(line: &str) {
    std::io::stdout().write_all(line.as_bytes()).unwrap();
}

/// The messages of a session in lines.
fn messages_of_lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|line| line["type"] == "message")
        .map(|line| line["message"].clone())
        .collect()
}

fn is(message: &Value, role: &str) -> bool {
    message["role"] == role
}

fn failed(message: &Value) -> bool {
    is(message, "assistant") && (message["stopReason"] == "error" || message["stopReason"] == "aborted")
}

fn finish(lab: &Lab, turn: &Turn<Value>) {
    lab.run(turn.finish(Outcome::Success, None)).unwrap();
}

/// What one request showed.
struct Shown {
    system_prompt: String,
    messages: Vec<Value>,
}

/// Replays a conversation turn by turn, asking for a request wherever the model must have been asked.
fn replay(session: &Rc<Session<Value>>, lab: &Lab, messages: &[Value]) -> (usize, usize) {
    let dialect = session.machine().dialect();
    let is_typed = |message: &Value| is(message, "user") && !is_results(dialect, message);
    let (mut turns, mut requests) = (0, 0);
    let mut before: Option<Shown> = None;
    let mut see = |request: runcontext::session::ModelRequest<Value>, report: RequestReport| {
        requests += 1;
        check_pairs_in(dialect, &request.messages()).unwrap();
        assert_eq!(report.divergence.class, DivergenceClass::None);
        assert_eq!(report.tokens().len(), request.messages().len());
        if let Some(before) = &before {
            assert_eq!(before.system_prompt, request.system_prompt);
            assert!(
                request.messages().starts_with(&before.messages),
                "request {requests}"
            );
        }
        before = Some(Shown {
            messages: request.messages(),
            system_prompt: request.system_prompt,
        });
    };
    let mut rest = messages.iter().peekable();
    while let Some(message) = rest.next() {
        assert!(is_typed(message));
        turns += 1;
        let turn = at_once(session.begin(message, &PromptOptions::default())).unwrap();
        let (request, report) = turn.request().unwrap();
        see(request, report);
        lab.run(turn.dispatched()).unwrap();
        while let Some(message) = rest.next_if(|message| !is_typed(message)) {
            if is(message, "assistant") {
                let (request, report) = turn.request().unwrap();
                see(request, report);
                lab.run(turn.dispatched()).unwrap();
            }
            lab.run(turn.append(vec![incoming(message.clone())])).unwrap();
        }
        assert!(turn.open_calls().is_empty());
        let report = lab.run(turn.finish(Outcome::Success, None)).unwrap();
        assert!(report.saved);
    }
    (turns, requests)
}

/// Keeps a conversation turn by turn, as if the model had been asked once in each.
fn keep_all(session: &Rc<Session<Value>>, lab: &Lab, messages: &[Value]) {
    let dialect = session.machine().dialect();
    let is_typed = |message: &Value| is(message, "user") && !is_results(dialect, message);
    for turn_messages in messages.chunk_by(|_, next| !is_typed(next)) {
        let (typed, rest) = turn_messages.split_first().unwrap();
        let turn = at_once(session.begin(typed, &PromptOptions::default())).unwrap();
        turn.request().unwrap();
        lab.run(turn.dispatched()).unwrap();
        let rest = rest.iter().cloned().map(incoming).collect();
        lab.run(turn.append(rest)).unwrap();
        lab.run(turn.finish(Outcome::Success, None)).unwrap();
    }
}

/// The conversation as a restarted program reads it from storage.
fn read_back(lab: &Lab) -> Vec<Value> {
    let lab = Lab::on(lab.storage.memory.clone(), false);
    let session = lab.open();
    assert_eq!(session.machine().interrupted(), None);
    let mut all = Vec::new();
    // Page by page from the end, as a host would.
    let mut before = session.machine().message_count();
    while before > 0 {
        let mut page = lab.run(session.read_messages(Some(before), 100)).unwrap();
        before -= page.len() as u32;
        page.append(&mut all);
        all = page;
    }
    all
}

#[test]
fn a_large_session_comes_out_of_storage_identical() {
    let Some(text) = data("pi-large-session.jsonl") else {
        return;
    };
    let messages = messages_of_lines(&text);
    assert_eq!(messages.len(), 914);
    let lab = Lab::lenient();
    let session = lab.create();
    let (turns, requests) = replay(&session, &lab, &messages);
    assert_eq!(turns, 88);
    assert_eq!(session.machine().bodies(), messages);
    assert_eq!(read_back(&lab), messages);
    println!(
        "{turns} turns, {requests} requests, {} messages identical",
        messages.len()
    );

    // What the model sees next: everything but what failed, every call answered right behind it.
    let turn = at_once(session.begin(&json!("next"), &PromptOptions::default())).unwrap();
    let (request, report) = turn.request().unwrap();
    let shown: Vec<&Value> = messages.iter().filter(|message| !failed(message)).collect();
    assert_eq!(messages.len() - shown.len(), 22);
    assert_eq!(request.messages().len(), shown.len() + 1);
    assert!(
        request
            .messages()
            .iter()
            .zip(&shown)
            .all(|(is, expected)| is == *expected)
    );
    let calls: usize = shown.iter().map(|message| call_ids(message).len()).sum();
    let pairs = check_pairs(&request.messages()).unwrap();
    assert_eq!(
        pairs,
        Pairs {
            calls,
            interrupted: 0
        }
    );
    assert!(report.notices.is_empty());
    println!(
        "{calls} calls answered, {} answers not shown",
        messages.len() - shown.len()
    );
}

/// What the model sees of a conversation of the `loop` dialect, all user messages counting.
fn projected(messages: &[Value]) -> (Vec<Value>, usize, Vec<usize>) {
    projected_in(Loop, messages)
}

fn projected_in(dialect: Dialect, messages: &[Value]) -> (Vec<Value>, usize, Vec<usize>) {
    let outlines: Vec<MessageOutline> = messages
        .iter()
        .map(|message| dialect.outline(message, true).unwrap())
        .collect();
    let (projection, notices) = project(&outlines, &[], None).unwrap();
    let body = |index: MessageIndex| messages.get(index.offset()).cloned();
    let shown = materialise(dialect, &projection, body, &outlines, &[], None).unwrap();
    let made_up = projection
        .sources
        .iter()
        .filter(|source| matches!(source, Source::InterruptedToolResult { .. }))
        .count();
    assert!(
        notices
            .iter()
            .all(|notice| notice.code == NoticeCode::ResultLeftOut)
    );
    let left_out = notices
        .iter()
        .map(|notice| notice.message_index.unwrap().offset())
        .collect();
    (shown, made_up, left_out)
}

/// Ids of calls that the model sees.
fn shown_calls(messages: &[Value]) -> Vec<String> {
    let shown = messages.iter().filter(|message| !failed(message));
    shown.flat_map(call_ids).collect()
}

#[test]
fn a_large_session_that_is_damaged_in_three_ways_is_shown_whole() {
    let Some(text) = data("pi-large-session.jsonl") else {
        return;
    };
    let messages = messages_of_lines(&text);
    let ids: HashSet<String> = messages.iter().flat_map(call_ids).collect();
    assert_eq!(
        ids.len(),
        messages
            .iter()
            .map(|message| call_ids(message).len())
            .sum::<usize>(),
        "every call has an id of its own, so that counting by id is right"
    );

    // Every seventh result is lost.
    let mut results = 0;
    let mut lost = HashSet::new();
    let mut damaged = messages.clone();
    damaged.retain(|message| {
        if !is(message, "toolResult") {
            return true;
        }
        results += 1;
        let gone = results % 7 == 0;
        if gone {
            lost.insert(message["toolCallId"].as_str().unwrap().to_owned());
        }
        !gone
    });
    let expected = shown_calls(&messages)
        .iter()
        .filter(|id| lost.contains(*id))
        .count();
    let (shown, made_up, left_out) = projected(&damaged);
    println!("every 7th of {results} results lost: {expected} interrupted");
    assert_eq!(expected, 53);
    assert_eq!((made_up, left_out.len()), (expected, 0));
    let pairs = check_pairs(&shown).unwrap();
    assert_eq!(
        (pairs.calls, pairs.interrupted),
        (shown_calls(&messages).len(), expected)
    );

    // The errored turn with its sixteen calls had not failed.
    let mut damaged = messages.clone();
    let errored: Vec<usize> = (0..damaged.len())
        .filter(|at| damaged[*at]["stopReason"] == "error")
        .collect();
    assert_eq!(errored.len(), 1);
    damaged[errored[0]]["stopReason"] = json!("toolUse");
    let answered: HashSet<&str> = messages
        .iter()
        .filter(|message| is(message, "toolResult"))
        .map(|message| message["toolCallId"].as_str().unwrap())
        .collect();
    let expected = call_ids(&damaged[errored[0]])
        .iter()
        .filter(|id| !answered.contains(id.as_str()))
        .count();
    let (shown, made_up, left_out) = projected(&damaged);
    println!("the errored turn set to toolUse: {expected} interrupted");
    assert_eq!(expected, 16);
    assert_eq!((made_up, left_out.len()), (expected, 0));
    assert_eq!(check_pairs(&shown).unwrap().interrupted, expected);

    // Results stand behind the next user message, those of the last turn where they were.
    let mut damaged = Vec::new();
    let mut waiting: Vec<Value> = Vec::new();
    let mut moved = HashSet::new();
    for message in &messages {
        if is(message, "toolResult") {
            waiting.push(message.clone());
            continue;
        }
        damaged.push(message.clone());
        if is(message, "user") {
            for result in waiting.drain(..) {
                moved.insert(result["toolCallId"].as_str().unwrap().to_owned());
                damaged.push(result);
            }
        }
    }
    // Nobody typed after the last ones.
    let last_user = messages.iter().rposition(|message| is(message, "user")).unwrap();
    let unmoved: Vec<Value> = messages[last_user + 1..].to_vec();
    assert_eq!(
        waiting.len(),
        unmoved.iter().filter(|message| is(message, "toolResult")).count()
    );
    let tail = damaged.iter().rposition(|message| is(message, "user")).unwrap();
    let keep = damaged[tail + 1..]
        .iter()
        .take_while(|it| is(it, "toolResult"))
        .count();
    damaged.truncate(tail + 1 + keep);
    damaged.extend(unmoved);
    assert_eq!(damaged.len(), messages.len());
    let expected = shown_calls(&messages)
        .iter()
        .filter(|id| moved.contains(*id))
        .count();
    let (shown, made_up, left_out) = projected(&damaged);
    println!(
        "results behind the next user message: {expected} interrupted, {} left out",
        moved.len()
    );
    assert!(expected > 300);
    assert_eq!((made_up, left_out.len()), (expected, moved.len()));
    let pairs = check_pairs(&shown).unwrap();
    assert_eq!(
        (pairs.calls, pairs.interrupted),
        (shown_calls(&messages).len(), expected)
    );
}

#[test]
fn sessions_of_a_web_chat_come_out_of_storage_identical() {
    for name in [
        "web-ui-session-longSession.json",
        "web-ui-session-simpleHtml.json",
    ] {
        let Some(text) = data(name) else {
            return;
        };
        let file: Value = serde_json::from_str(&text).unwrap();
        let messages = file["messages"].as_array().unwrap().clone();
        // Their user messages have no time; `begin` gives them one, and adds nothing else.
        let lab = Lab::lenient();
        let session = lab.create();
        lab.world.at(4_000.0);
        let mut expected = messages.clone();
        for message in expected.iter_mut().filter(|message| is(message, "user")) {
            message["timestamp"] = json!(4_000);
        }
        let (turns, requests) = replay(&session, &lab, &messages);
        assert_eq!(read_back(&lab), expected);
        // The older results, with `output` instead of content, count as well.
        let machine = session.machine();
        for (outline, message) in machine.outlines().iter().zip(&messages) {
            if let Some(output) = message["output"].as_str() {
                assert!(outline.tokens as usize >= output.encode_utf16().count() / 4);
            }
        }
        println!(
            "{name}: {turns} turns, {requests} requests, {} messages",
            messages.len()
        );
    }
}

#[test]
fn a_session_about_prompt_caches_keeps_its_prefix() {
    let Some(text) = data("prompt-cache-replay-session.jsonl") else {
        return;
    };
    let messages = messages_of_lines(&text);
    let lab = Lab::lenient();
    let session = lab.create();
    assert_eq!(replay(&session, &lab, &messages), (2, 5));
    assert_eq!(read_back(&lab), messages);
}

#[test]
fn lines_that_are_no_messages_are_refused_and_change_nothing() {
    let Some(text) = data("hostile-lines.jsonl") else {
        return;
    };
    let lab = Lab::lenient();
    let session = lab.create();
    let turn = at_once(session.begin(&json!("hello"), &PromptOptions::default())).unwrap();
    turn.request().unwrap();
    lab.run(turn.dispatched()).unwrap();
    let (before, attempts) = (lab.stored(), lab.storage.attempts());
    let mut lines = 0;
    for line in text.lines() {
        let value: Value = serde_json::from_str(line).unwrap();
        assert!(value.get("role").is_none());
        lines += 1;
        // As an answer.
        let error = refused(lab.run(turn.append(vec![incoming(value.clone())])));
        assert_eq!(error.code(), ErrorCode::InvalidArgument, "{line}");
        // As a message to look at.
        let error = Loop.outline(&value, true).unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidArgument, "{line}");
    }
    assert_eq!(lines, 19);
    assert_eq!((lab.stored(), lab.storage.attempts()), (before, attempts));
    lab.run(turn.cancel()).unwrap();
    // As what a person typed, all but text.
    let before = lab.stored();
    for line in text.lines() {
        let value: Value = serde_json::from_str(line).unwrap();
        if !value.is_string() {
            let error = refused(at_once(session.begin(&value, &PromptOptions::default())));
            assert_eq!(error.code(), ErrorCode::InvalidArgument, "{line}");
        }
    }
    assert_eq!(lab.stored(), before);
}

/// Every object inside a value.
fn objects(value: &Value, found: &mut Vec<Value>) {
    match value {
        Value::Object(members) => {
            found.push(value.clone());
            members.values().for_each(|member| objects(member, found));
        }
        Value::Array(items) => items.iter().for_each(|item| objects(item, found)),
        _ => {}
    }
}

#[test]
fn whatever_providers_answer_can_be_looked_at_and_shown() {
    let names = [
        "anthropic-claude-opus-5-reasoning-high.1.json",
        "anthropic-clear-thinking.1.json",
        "anthropic-clear-tool-uses.1.json",
        "anthropic-compaction.1.chunks.txt",
        "anthropic-compaction.1.json",
        "anthropic-programmatic-tool-calling.1.json",
        "anthropic-web-search-tool.1.json",
        "google-reasoning-gemini3.json",
        "google-tool-call-gemini3.chunks.txt",
        "openai-compaction.1.json",
        "openai-mcp-tool-approval.2.chunks.txt",
        "openai-reasoning-encrypted-content.1.chunks.txt",
    ];
    let (mut all, mut read, mut foreign) = (0, 0, 0);
    for name in names {
        let Some(text) = data(&format!("vercel-ai/{name}")) else {
            return;
        };
        let mut found = Vec::new();
        match serde_json::from_str::<Value>(&text) {
            Ok(value) => objects(&value, &mut found),
            Err(_) => {
                for value in text
                    .lines()
                    .filter_map(|line| serde_json::from_str::<Value>(line).ok())
                {
                    objects(&value, &mut found);
                }
            }
        }
        assert!(!found.is_empty(), "{name}");
        for dialect in ALL {
            let mut messages = Vec::new();
            for object in &found {
                all += 1;
                // As it is, and in the clothes of a message, one for each role.
                let mut dressed = vec![object.clone()];
                for role in ["user", "assistant", "toolResult", "tool", "anything"] {
                    let mut message = object.clone();
                    message["role"] = json!(role);
                    dressed.push(message);
                }
                for message in dressed {
                    match dialect.outline(&message, true) {
                        Ok(_) => messages.push(message),
                        Err(error) if error.code() == ErrorCode::DialectMismatch => foreign += 1,
                        Err(error) => {
                            assert_eq!(error.code(), ErrorCode::InvalidArgument);
                            let own = [(Loop, "toolResult"), (OpenAiChat, "tool")];
                            let is_result = own.iter().any(|(it, role)| *it == dialect && is(&message, role));
                            assert!(is_result || message["role"].as_str().is_none(), "{message}");
                        }
                    }
                }
            }
            read += messages.len();
            let (shown, _, _) = projected_in(dialect, &messages);
            check_pairs_in(dialect, &shown).unwrap();
        }
    }
    assert!(foreign > 0);
    println!("{all} objects, shown as {read} messages, {foreign} of another dialect");
}

/// The dialects that are not the one of the files.
const OTHERS: [Dialect; 3] = [OpenAiChat, Anthropic, AiSdk];

#[test]
fn a_large_session_is_shown_as_it_is_in_every_dialect() {
    let Some(text) = data("pi-large-session.jsonl") else {
        return;
    };
    let messages = messages_of_lines(&text);
    let calls = shown_calls(&messages).len();
    for dialect in OTHERS {
        for grouping in [Grouping::One, Grouping::All] {
            let stored = converted(dialect, &messages, grouping);
            let (shown, made_up, left_out) = projected_in(dialect, &stored);
            assert!(shown == stored, "{dialect:?} {grouping:?}");
            assert_eq!((made_up, left_out.len()), (0, 0));
            let pairs = check_pairs_in(dialect, &shown).unwrap();
            assert_eq!(
                (pairs.calls, pairs.interrupted),
                (calls, 0),
                "{dialect:?} {grouping:?}"
            );
            println!(
                "{dialect:?} {grouping:?}: {} messages, {calls} calls",
                stored.len()
            );
        }
        // Every seventh message with results is lost.
        let mut lost = Vec::new();
        let mut damaged = converted(dialect, &messages, Grouping::All);
        let mut results = 0;
        damaged.retain(|message| {
            results += usize::from(is_results(dialect, message));
            let gone = is_results(dialect, message) && results % 7 == 0;
            if gone {
                lost.push(message.clone());
            }
            !gone
        });
        let expected: usize = lost
            .iter()
            .map(|message| answers_in(dialect, message).len())
            .sum();
        let (shown, made_up, left_out) = projected_in(dialect, &damaged);
        let pairs = check_pairs_in(dialect, &shown).unwrap();
        assert!(expected > 40);
        assert_eq!(
            (made_up, pairs.interrupted, left_out.len()),
            (expected, expected, 0)
        );
    }
}

#[test]
fn a_large_session_comes_out_of_storage_identical_in_every_dialect() {
    let Some(text) = data("pi-large-session.jsonl") else {
        return;
    };
    let messages = messages_of_lines(&text);
    for dialect in OTHERS {
        let stored = converted(dialect, &messages, Grouping::All);
        let lab = Lab::lenient();
        let session = lab.create_with(NewSession {
            dialect: Some(dialect),
            ..Lab::options()
        });
        let (turns, requests) = replay(&session, &lab, &stored);
        assert_eq!(turns, 88);
        assert!(session.machine().bodies() == stored, "{dialect:?}");
        assert!(read_back(&lab) == stored, "{dialect:?}");
        println!(
            "{dialect:?}: {turns} turns, {requests} requests, {} messages",
            stored.len()
        );
    }
}

#[test]
fn answers_of_a_provider_are_messages_of_its_dialect() {
    // Calls that the provider answered itself are none of ours.
    let files = [
        ("anthropic-claude-opus-5-reasoning-high.1.json", 0),
        ("anthropic-clear-thinking.1.json", 0),
        ("anthropic-clear-tool-uses.1.json", 0),
        ("anthropic-compaction.1.json", 0),
        ("anthropic-programmatic-tool-calling.1.json", 4),
        ("anthropic-web-search-tool.1.json", 0),
    ];
    for (name, calls) in files {
        let Some(text) = data(&format!("vercel-ai/{name}")) else {
            return;
        };
        let answer: Value = serde_json::from_str(&text).unwrap();
        let messages = [typed(Anthropic, "hi", 1), answer.clone()];
        let (shown, made_up, _) = projected_in(Anthropic, &messages);
        assert_eq!(shown[..2], messages, "{name}");
        assert_eq!((made_up, shown.len()), (calls, 2 + calls), "{name}");
        for (shown, id) in shown[2..].iter().zip(call_ids_in(Anthropic, &answer)) {
            assert_eq!(*shown, result(Anthropic, &id, "", CUT_OFF, true));
        }
        check_pairs_in(Anthropic, &shown).unwrap();
        // What has calls is seen to be foreign elsewhere; what has none is shown as it is.
        for dialect in [Loop, OpenAiChat, AiSdk] {
            assert_eq!(
                dialect.outline(&answer, false).is_err(),
                calls > 0,
                "{name} {dialect:?}"
            );
        }
    }
}

/// What the provider says that the model read for an answer.
fn reported_input(message: &Value) -> f64 {
    let tokens = |member: &str| message["usage"][member].as_f64().unwrap_or(0.0);
    tokens("input") + tokens("cacheRead") + tokens("cacheWrite")
}

#[test]
fn no_request_is_estimated_a_twentieth_under_what_its_provider_then_reported() {
    let (mut compared, mut sum, mut least) = (0, 0.0, f64::INFINITY);
    for name in [
        "pi-large-session.jsonl",
        "prompt-cache-replay-session.jsonl",
        "web-ui-session-longSession.json",
        "web-ui-session-simpleHtml.json",
    ] {
        let Some(text) = data(name) else {
            return;
        };
        let messages = match name.ends_with("l") {
            true => messages_of_lines(&text),
            false => serde_json::from_str::<Value>(&text).unwrap()["messages"]
                .as_array()
                .unwrap()
                .clone(),
        };
        let lab = Lab::lenient();
        let session = lab.create();
        let (mut turn, mut anchored) = (None, false);
        for message in &messages {
            if is(message, "user") {
                if let Some(turn) = turn.take() {
                    finish(&lab, &turn);
                }
                turn = Some(at_once(session.begin(message, &PromptOptions::default())).unwrap());
                continue;
            }
            let turn = turn.as_ref().unwrap();
            // Results of an answer that failed were never sent.
            if is(message, "toolResult")
                && !turn
                    .open_calls()
                    .iter()
                    .any(|call| message["toolCallId"] == call.id.as_str())
            {
                continue;
            }
            if is(message, "assistant") {
                let budget = turn.request().unwrap().1.budget;
                lab.run(turn.dispatched()).unwrap();
                let reported = reported_input(message);
                // Before the first report nobody knows the system prompt and the tools that these sessions had.
                if anchored && reported > 0.0 {
                    let ratio = f64::from(budget.estimated_input_tokens) / reported;
                    assert!(ratio >= 0.95, "{name}: {ratio} of {reported}");
                    compared += 1;
                    sum += ratio;
                    least = least.min(ratio);
                }
                anchored |= reported > 0.0 && !failed(message);
            }
            lab.run(turn.append(vec![incoming(message.clone())])).unwrap();
        }
        finish(&lab, &turn.unwrap());
    }
    assert_eq!(compared, 487);
    say(&format!(
        "{compared} requests: least {least:.3} of what was reported, mean {:.3}\n",
        sum / f64::from(compared)
    ));
}

#[test]
fn a_large_session_is_compacted_until_nothing_is_left_in_every_dialect() {
    let Some(text) = data("pi-large-session.jsonl") else {
        return;
    };
    for dialect in ALL {
        let messages = converted(dialect, &messages_of_lines(&text), Grouping::All);
        let lab = Lab::lenient();
        let session = lab.create_with(NewSession {
            dialect: Some(dialect),
            ..Lab::options()
        });
        keep_all(&session, &lab, &messages);
        // Nobody reads what there is to summarise: a text that says so stands for it.
        let summaries = Rc::<Summaries>::default();
        let compact = |keep: u32| lab.run(session.compact(Some(keep), Some(summaries.clone())));
        let ask = || {
            let turn = at_once(session.begin(&json!("next"), &PromptOptions::default())).unwrap();
            let asked = turn.request().unwrap();
            lab.run(turn.cancel()).unwrap();
            asked
        };
        let (request, report) = ask();
        let mut before = request.messages();
        let mut keep: u32 = report.tokens().iter().sum();
        let (mut steps, mut calls) = (0, 0);
        loop {
            // A tenth less each time, and at last nothing but the newest turn.
            keep -= keep.div_ceil(10);
            let made = match compact(keep) {
                Ok(made) => made,
                Err(error) if keep > 0 => {
                    assert_eq!(error.code(), ErrorCode::NothingToCompact);
                    continue;
                }
                Err(error) => break assert_eq!(error.code(), ErrorCode::NothingToCompact),
            };
            steps += 1;
            let (request, report) = ask();
            let shown = request.messages();
            let said = typed(dialect, &format!("scripted summary {steps}"), 1_000);
            assert_eq!(shown[0], said);
            assert!(
                matches!(&report.projection().sources[0], Source::Compaction { checkpoint_id, .. } if *checkpoint_id == made.id)
            );
            calls += check_pairs_in(dialect, &shown).unwrap().calls;
            // What stays is the end of what was shown before, and the summariser was given all the rest.
            let stays = &shown[1..];
            assert!(before.ends_with(stays) && stays.len() < before.len());
            let seen = summaries.seen();
            assert_eq!(seen.last().unwrap(), &before[..before.len() - stays.len()]);
            check_pairs_in(dialect, seen.last().unwrap()).unwrap();
            assert!(json!(shown).to_string().len() < json!(before).to_string().len());
            before = shown;
        }
        // The summary, the newest turn, and what is typed next.
        let newest = messages
            .iter()
            .rposition(|it| is(it, "user") && !is_results(dialect, it))
            .unwrap();
        assert_eq!(
            before.len(),
            messages[newest..].iter().filter(|it| !failed(it)).count() + 2
        );
        println!(
            "{dialect:?}: {steps} summaries, {calls} calls answered, {} messages left",
            before.len()
        );
        assert!(steps > 20);
        assert_eq!(session.machine().compactions().len(), steps);
        assert_eq!(read_back(&lab), messages);
    }
}
