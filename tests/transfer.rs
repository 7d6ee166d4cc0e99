//! Session files: what comes in goes out, what is wrong is refused with its line, and nothing is ever half there.
#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;
#[cfg(target_family = "wasm")]
wasm_bindgen_test::wasm_bindgen_test_configure!(run_in_browser);

#[path = "lab/mod.rs"]
pub mod lab;

use std::{cell::RefCell, rc::Rc};

use runcontext::{
    Error, ErrorCode, Result,
    message::{Dialect::Loop, StopKind},
    permissions::Preset,
    runtime::{ImportOptions, Part, Signal, Source},
    session::{NewSession, Texts},
    storage::{ListFilter, LocalFuture, SessionRecord, memory::MemoryStorage},
};
use serde_json::{Value, json};

use lab::{Browser, Fault, Lab, spoken::says, waits};

const TEXTS: Texts<Value> = Texts {
    read: |text, _| {
        let read: Value = serde_json::from_str(text).ok()?;
        let members = member_count(&read);
        Some((read, members))
    },
    value: Value::clone,
    lists: |stored| {
        [
            json!(stored.snapshots),
            json!(stored.compactions),
            json!(stored.checkpoints),
        ]
    },
    written: |value| value.to_string(),
    iso: |time| {
        // Times of these tests are those of one day.
        let (seconds, rest) = (time as u64 / 1000 % 86_400, time as u64 % 1000);
        let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        format!("2026-01-31T{hours:02}:{minutes:02}:{seconds:02}.{rest:03}Z")
    },
};

fn member_count(value: &Value) -> u32 {
    match value {
        Value::Array(items) => items.iter().map(member_count).sum(),
        Value::Object(members) => members.values().map(|inner| 1 + member_count(inner)).sum(),
        _ => 0,
    }
}

/// 2026-01-31T12:00:00.000Z.
const NOON: f64 = 1_769_860_800_000.0;

/// Bytes in parts. Each can be held up.
struct Parts(RefCell<Vec<(Vec<u8>, Signal)>>);

impl Parts {
    fn of(parts: Vec<Vec<u8>>) -> Self {
        let ready = || {
            let ready = Signal::default();
            ready.fire();
            ready
        };
        Self(RefCell::new(
            parts.into_iter().rev().map(|part| (part, ready())).collect(),
        ))
    }

    fn text(text: &str) -> Self {
        Self::of(vec![text.as_bytes().to_vec()])
    }

    /// The last part comes when the signal fires.
    fn holding_back(text: &str, last: Signal) -> Self {
        let (first, rest) = text.split_at(text.len() - 10);
        let parts = Self::of(vec![first.as_bytes().to_vec(), rest.as_bytes().to_vec()]);
        parts.0.borrow_mut()[0].1 = last;
        parts
    }
}

impl Source for Parts {
    fn next(&self) -> LocalFuture<'_, Result<Option<Vec<u8>>>> {
        Box::pin(async move {
            let next = self.0.borrow_mut().pop();
            let Some((part, ready)) = next else {
                return Ok(None);
            };
            ready.fired().await;
            Ok(Some(part))
        })
    }
}

fn import(lab: &Lab, text: &str) -> Result<SessionRecord> {
    import_with(lab, &Parts::text(text), &ImportOptions::default())
}

fn import_with(lab: &Lab, source: &Parts, options: &ImportOptions) -> Result<SessionRecord> {
    lab.run(lab.runtime.import_session(source, TEXTS, options))
}

fn export(lab: &Lab, id: &str) -> Vec<Value> {
    let mut lines = Vec::new();
    lab.run(async {
        let mut export = lab.runtime.export_session(id, TEXTS).await.unwrap();
        while let Some(part) = export.next().await.unwrap() {
            match part {
                Part::Header(line) => lines.push(serde_json::from_str(&line).unwrap()),
                Part::Messages(mut messages) => lines.append(&mut messages),
            }
        }
    });
    lines
}

fn listed(lab: &Lab) -> Vec<String> {
    let filter = ListFilter {
        limit: 10,
        ..ListFilter::default()
    };
    let found = lab.run(lab.runtime.list_sessions(filter)).unwrap();
    found.into_iter().map(|record| record.id).collect()
}

/// How many records of any store there are.
fn record_count(lab: &Lab) -> usize {
    let dump = lab.storage.memory.dump(Clone::clone);
    let of_sessions = runcontext::storage::keys::OF_SESSIONS;
    of_sessions.iter().map(|store| dump[*store].len()).sum()
}

fn header() -> Value {
    json!({
        "format": "loop-session", "version": 2, "id": "s1",
        "cwd": "/w", "createdAt": "2026-01-31T12:00:00.000Z", "updatedAt": "2026-01-31T12:00:01.500Z",
    })
}

fn with(name: &str, value: Value) -> Value {
    let mut header = header();
    header[name] = value;
    header
}

fn user(text: &str) -> Value {
    json!({ "role": "user", "content": text, "timestamp": 5 })
}

fn file(header: &Value, messages: &[Value]) -> String {
    let lines = std::iter::once(header).chain(messages);
    lines.map(|line| format!("{line}\n")).collect()
}

fn many(count: usize) -> Vec<Value> {
    (0..count).map(|at| user(&format!("message {at}"))).collect()
}

/// A header with every field, most of them in ways that are not ours.
fn full_header() -> Value {
    json!({
        "format": "loop-session", "version": 2, "id": "s1",
        "cwd": "/w", "createdAt": "2026-01-31T13:00:00+01:00", "updatedAt": "2026-01-31T12:00:01.5Z",
        "permissionPreset": "workspace-write", "unread": true, "pinnedAt": "2026-01-31T11:00:00Z",
        "title": "A title", "model": { "provider": "p", "id": "m", "contextWindow": 1000, "api": "responses" },
        "runtimeContexts": [
            { "userTurn": 0, "content": "old", "timestamp": 3 },
            { "userTurn": 7, "content": "no anchor", "timestamp": 4, "placement": "user", "extra": [1.5],
              "skills": [{ "id": "a", "name": "b", "path": "c", "content": "d", "revision": "e", "size": 4 }] },
        ],
        "promptTimings": [{ "userTurn": 0, "milliseconds": 12.25 }],
        "compactions": [{
            "id": "k", "firstKeptMessageIndex": 0, "historyMessageCount": 1, "summary": "s", "timestamp": 6,
            "provider": "p", "model": "m", "usage": { "input": 1 },
        }],
        "systemPromptCheckpoints": [{ "messageCount": 1, "timestamp": 2, "sections": { "preamble": "Be.", "cwd": null } }],
        "somebody": { "else's": [null, true] },
    })
}

#[test]
fn what_came_in_goes_out_as_it_came() {
    let sparse = header();
    let empty = json!({
        "format": "loop-session", "version": 2, "id": "s1", "createdAt": 5, "pinnedAt": null, "unread": false,
        "title": null, "model": "m-1", "runtimeContexts": null, "compactions": [], "permissionPreset": null,
    });
    for header in [full_header(), sparse, empty] {
        let lab = Lab::lenient();
        let messages = [
            user("one"),
            json!({ "role": "assistant", "content": [], "odd": { "deep": [1] } }),
        ];
        let record = import(&lab, &file(&header, &messages)).unwrap();
        assert_eq!(record.message_count, 2);
        let mut lines = vec![header];
        lines.extend(messages);
        assert_eq!(export(&lab, "s1"), lines);
    }
}

#[test]
fn a_session_means_what_its_header_said() {
    let lab = Lab::lenient();
    let messages = [user("one"), user("two"), user("three")];
    let record = import(&lab, &file(&full_header(), &messages)).unwrap();
    assert_eq!((record.created_at, record.updated_at), (NOON, NOON + 1500.0));
    let info = record.info();
    assert_eq!((info.unread, info.pinned, info.message_count), (1, true, 3));
    assert_eq!(info.title.as_deref(), Some("A title"));

    let session = lab.open();
    let machine = session.machine();
    assert_eq!(machine.bodies(), messages);
    assert_eq!(machine.header().preset(), Some(Preset::WorkspaceWrite));
    assert_eq!(
        machine.header().model.as_ref().unwrap().context_window,
        Some(1000)
    );
    assert_eq!(machine.snapshots()[0].placement, None);
    assert_eq!(machine.snapshots()[1].skills.as_ref().unwrap()[0].revision, "e");
    assert_eq!(machine.compactions()[0].summary, "s");
    assert_eq!(machine.system_prompt_at(0).unwrap(), "Be.");
    assert!(machine.outlines().iter().all(|outline| outline.user_turn));
}

#[test]
fn an_imported_session_says_how_many_records_it_has_so_that_a_lost_one_is_missed() {
    for count in [1, 1_000] {
        let lab = Lab::lenient();
        import(&lab, &file(&full_header(), &many(count))).unwrap();
        let settings = &lab.stored()["chat_sessions"][&json!("s1").to_string()]["settings"];
        assert_eq!(settings["counts"], json!([2, 1, 1]));
    }
}

#[test]
fn what_changed_since_is_written_anew_and_the_rest_as_it_came() {
    let lab = Lab::lenient();
    let header = full_header();
    import(&lab, &file(&header, &[user("one")])).unwrap();
    let session = lab.open();
    lab.world.at(NOON + 7_000.0);
    lab.run(session.set_title("Another".to_owned())).unwrap();
    lab.run(session.mark_read(1)).unwrap();
    lab.model.answers(says(Loop, "Yes."));
    lab.prompt(&session, "two").unwrap();

    let lines = export(&lab, "s1");
    assert_eq!(lines.len(), 4);
    let out = &lines[0];
    assert_eq!(out["title"], "Another");
    assert_eq!(out["unread"], 2, "the prompt and its answer");
    assert_eq!(out["updatedAt"], "2026-01-31T12:00:07.000Z");
    for name in [
        "createdAt",
        "model",
        "runtimeContexts",
        "promptTimings",
        "compactions",
        "somebody",
        "permissionPreset",
    ] {
        assert_eq!(out[name], header[name], "{name}");
    }
    let checkpoints = out["systemPromptCheckpoints"].as_array().unwrap();
    assert_eq!(checkpoints.len(), 2);
    assert_eq!(checkpoints[0], header["systemPromptCheckpoints"][0]);
    assert_eq!(checkpoints[1]["messageCount"], 2);
}

#[test]
fn a_session_of_ours_comes_back_with_all_of_its_settings() {
    let lab = Lab::lenient();
    lab.world.at(NOON);
    let options = json!({
        "id": "s1", "cwd": "/w", "agentId": "agent", "source": "tic", "headless": true, "systemPrompt": "Be brief.",
        "runContext": { "security_group": "default", "allow_fs_reads": ["/docs"] },
        "sections": [{ "name": "style", "content": "Plain." }],
        "projectInstructions": [{ "path": "AGENTS.md", "content": "Test first." }],
    });
    let session = lab.create_with(NewSession::parse(&options).unwrap());
    lab.model.answers(says(Loop, "Yes."));
    lab.prompt(&session, "Hello").unwrap();
    let out = export(&lab, "s1");
    let settings = session.machine().header().clone();

    let other = Lab::lenient();
    import(&other, &file(&out[0], &out[1..])).unwrap();
    let again = other.open();
    let mut expected = settings;
    expected.open_turn = None;
    expected.read_count = again.machine().header().read_count;
    assert_eq!(*again.machine().header(), expected);
    assert_eq!(again.machine().snapshots(), session.machine().snapshots());
    assert_eq!(again.machine().checkpoints(), session.machine().checkpoints());
    assert_eq!(export(&other, "s1"), out);
}

fn refusal(file: &str) -> Error {
    let lab = Lab::lenient();
    let error = import(&lab, file).unwrap_err();
    assert_eq!(record_count(&lab), 0, "{error}");
    assert_eq!(error.code(), ErrorCode::ImportInvalid, "{error}");
    error
}

#[test]
fn a_header_that_is_wrong_is_refused_and_nothing_is_stored() {
    let cases = [
        (with("version", json!(1)), "header.version"),
        (with("version", json!(3)), "header.version"),
        (with("version", json!("2")), "header.version"),
        (with("format", json!("other-session")), "header.format"),
        (with("format", Value::Null), "header.format"),
        (with("id", Value::Null), "header.id"),
        (with("id", json!("a/b")), "header.id"),
        (with("cwd", json!(7)), "header.cwd"),
        (with("createdAt", Value::Null), "header.createdAt"),
        (with("createdAt", json!("yesterday")), "header.createdAt"),
        (
            with("createdAt", json!("2026-02-29T12:00:00Z")),
            "header.createdAt",
        ),
        (
            with("createdAt", json!("2026-01-31T12:00:00")),
            "header.createdAt",
        ),
        (
            with("createdAt", json!("2026-01-31T24:00:00Z")),
            "header.createdAt",
        ),
        (
            with("updatedAt", json!("2026-13-01T12:00:00Z")),
            "header.updatedAt",
        ),
        (with("updatedAt", json!(-1)), "header.updatedAt"),
        (with("pinnedAt", json!("x")), "header.pinnedAt"),
        (with("permissionPreset", json!("root")), "permissionPreset"),
        (with("title", json!([])), "title"),
        (with("unread", json!("many")), "header.unread"),
        (with("runtimeContexts", json!({})), "header.runtimeContexts"),
        (
            with(
                "runtimeContexts",
                json!([{ "userTurn": 0, "content": " ", "timestamp": 1 }]),
            ),
            "header.runtimeContexts[0].content",
        ),
        (
            with(
                "systemPromptCheckpoints",
                json!([{ "messageCount": 3, "timestamp": 1, "sections": { "cwd": "x" } }]),
            ),
            "header.systemPromptCheckpoints[0].messageCount",
        ),
        (with("runcontext", json!([])), "header.runcontext"),
        (
            with(
                "runcontext",
                json!({ "runContext": { "allow_fs_writes": ["/"] } }),
            ),
            "header.runcontext.runContext.allow_fs_writes[0]",
        ),
        (with("runcontext", json!({ "dialect": "other" })), "dialect"),
    ];
    for (header, field) in cases {
        let error = refusal(&file(&header, &[user("one"), user("two")]));
        assert_eq!(error.data()["line"], 1, "{error}");
        assert_eq!(error.data()["field"], field, "{error}");
        assert!(error.message().starts_with("line 1 cannot be used: "), "{error}");
        assert!(error.message().ends_with("; nothing was imported"), "{error}");
    }
}

#[test]
fn compactions_are_of_messages_that_came_and_have_ids_of_their_own() {
    let compaction = |id: &str, kept: u32, history: u32| {
        json!({
            "id": id, "firstKeptMessageIndex": kept, "historyMessageCount": history, "summary": "s", "timestamp": 1,
            "provider": "p", "model": "m",
        })
    };
    let cases = [
        (
            json!([compaction("a", 1, 2), compaction("b", 1, 3)]),
            "header.compactions[1].historyMessageCount",
        ),
        (
            json!([compaction("a", 2, 1)]),
            "header.compactions[0].firstKeptMessageIndex",
        ),
        (
            json!([compaction("a", 0, 1), compaction("a", 1, 2)]),
            "header.compactions[1].id",
        ),
    ];
    for (compactions, field) in cases {
        let error = refusal(&file(&with("compactions", compactions), &many(2)));
        assert_eq!(
            (&error.data()["line"], &error.data()["field"]),
            (&json!(1), &json!(field)),
            "{error}"
        );
    }
    let fine = with("compactions", json!([compaction("a", 1, 2)]));
    import(&Lab::lenient(), &file(&fine, &many(2))).unwrap();
}

#[test]
fn a_line_that_is_no_message_is_refused_with_its_number() {
    let long = "[".repeat(200);
    let cases = [
        "\"a bare string\"",
        "42",
        "[1]",
        "null",
        "{}",
        "\u{c}",
        "{\"type\":\"user\"}",
        "{\"role\":\"user\",\"content\":\"cut o",
        "{\"role\":\"user\"}}",
        "{\"role\":\"user\" \"content\":\"\"}",
        "{\"role\":\"toolResult\",\"content\":[]}",
        "{\"role\":\"tool\",\"tool_call_id\":\"c\"}",
        "{\"role\":\"user\",\"content\":\"\u{0}\"}",
        "{\"role\":\"user\",\"role\":\"assistant\"}",
        "{\"role\":\"user\",\"content\":[{\"a\":1,\"\\u0061\":2}]}",
        "{\"role\":\"user\",\"content\":\"\\ud800\"x}",
        &long,
    ];
    for line in cases {
        let file = format!("\u{feff}{}\r\n\r\n{}\r\n{line}", header(), user("one"));
        let error = refusal(&file);
        assert_eq!(error.data()["line"], 4, "{line}: {error}");
        assert!(error.message().starts_with("line 4 "), "{error}");
    }
    assert_eq!(refusal("").data()["line"], 1);
    assert_eq!(refusal("\n\n").data()["line"], 1);
}

#[test]
fn bytes_that_are_no_utf_8_are_refused_with_their_line() {
    let lab = Lab::lenient();
    let mut bytes = file(&header(), &many(2)).into_bytes();
    bytes.extend_from_slice(b"{\"role\":\"user\",\"content\":\"\xed\xa0\x80\"}\n");
    let error = import_with(&lab, &Parts::of(vec![bytes]), &ImportOptions::default()).unwrap_err();
    assert_eq!(
        error.message(),
        "line 4 is not UTF-8; save the file as UTF-8; nothing was imported"
    );
    assert_eq!(record_count(&lab), 0);
}

#[test]
fn a_number_that_a_double_does_not_hold_is_refused() {
    let line = |number: &str| format!("{}\n{{\"role\":\"x\",\"n\":[{number}]}}\n", header());
    for number in [
        "9007199254740993",
        "-9007199254740993",
        "12345678901234567890",
        "1e400",
        "-1e400",
        "1e-400",
        "1e99999999999999999999",
        "0.1234567890123456789",
        "0.1000000000000000055511151231257827",
        "-0",
        "-0.0",
        "-0e5",
    ] {
        let error = refusal(&line(number));
        assert_eq!(error.data()["line"], 2);
        assert!(error.message().contains(&format!("`{number}`")), "{error}");
    }
    for number in [
        "0",
        "0.0",
        "0e400",
        "1",
        "-1",
        "1.0",
        "1.50",
        "100e-2",
        "1E+2",
        "9007199254740992",
        "9007199254740991",
        "0.30000000000000004",
        "0.018607500000000003",
        "1e300",
        "1e308",
        "5e-324",
        "1.7976931348623157e308",
        "123456789012345000000000000",
        "0.000001",
        "-2.5e-7",
    ] {
        import(&Lab::lenient(), &line(number)).unwrap_or_else(|error| panic!("{number}: {error}"));
    }
}

#[test]
fn one_name_stands_once_in_an_object_however_it_is_written() {
    let line = |object: &str| format!("{}\n{{\"role\":\"x\",\"o\":{object}}}\n", header());
    for object in [
        r#"{"a":1,"b":{},"a":2}"#,
        r#"{"\n":1,"\u000A":2}"#,
        r#"{"\ud83d\ude00":1,"😀":2}"#,
        r#"{"":1, "" :2}"#,
        r#"[[{"a\"":1,"a\u0022":2}]]"#,
    ] {
        let error = refusal(&line(object));
        assert_eq!(error.data()["line"], 2, "{object}");
        assert!(error.message().contains("two members"), "{object}: {error}");
    }
    for object in [
        r#"{"a":{"a":{"a":1}},"b":[{"a":1},{"a":1}]}"#,
        r#"{"a":"\"a\":","b":"a"}"#,
        r#"{"a":1,"A":2,"a ":3}"#,
        r#"{"\u0000":1,"\u0000\u0000":2}"#,
    ] {
        import(&Lab::lenient(), &line(object)).unwrap_or_else(|error| panic!("{object}: {error}"));
    }
}

#[test]
fn a_file_is_the_same_however_its_bytes_are_cut() {
    let messages = [user("ä😀\u{2028}"), user("b"), user("c")];
    let text = format!("\u{feff}{}", file(&full_header(), &messages)).replace('\n', "\r\n");
    for size in [1, 2, 3, 7, 64] {
        let lab = Lab::lenient();
        let parts = text.as_bytes().chunks(size).map(<[u8]>::to_vec).collect();
        import_with(&lab, &Parts::of(parts), &ImportOptions::default()).unwrap();
        assert_eq!(export(&lab, "s1")[1..], messages);
    }
}

#[test]
fn a_long_session_is_stored_in_parts_and_opens_whole() {
    for count in [255, 256, 257, 384, 1_000] {
        let lab = Lab::lenient();
        let messages = many(count);
        let parts = file(&header(), &messages);
        let parts = parts.as_bytes().chunks(999).map(<[u8]>::to_vec).collect();
        import_with(&lab, &Parts::of(parts), &ImportOptions::default()).unwrap();
        let commits = lab.storage.applied();
        let lengths: Vec<usize> = commits.iter().map(|commit| commit.messages.len()).collect();
        assert!(lengths.iter().all(|length| *length < 300), "{lengths:?}");
        assert_eq!(lengths.iter().sum::<usize>(), count);
        let session = lab.open();
        assert_eq!(session.machine().bodies(), messages);
        assert!(session.machine().damage().is_empty());
        assert_eq!(session.machine().updated_at(), NOON + 1500.0);
    }
}

#[test]
fn what_is_on_its_way_in_is_nowhere_to_be_seen() {
    let lab = Lab::lenient();
    let text = file(&header(), &many(600));
    let last = Signal::default();
    let source = Parts::holding_back(&text, last.clone());
    let options = ImportOptions::default();
    let mut importing = waits(&lab.world, lab.runtime.import_session(&source, TEXTS, &options));
    assert!(!importing.go_on());
    assert!(record_count(&lab) > 500, "it is there already");
    assert_eq!(listed(&lab), [""; 0]);
    let missing = lab.run(lab.runtime.open_session("s1")).unwrap_err();
    assert_eq!(missing.code(), ErrorCode::NotFound);
    let missing = lab.run(lab.runtime.export_session("s1", TEXTS)).unwrap_err();
    assert_eq!(missing.code(), ErrorCode::NotFound);
    last.fire();
    importing.done().unwrap();
    assert_eq!(listed(&lab), ["s1"]);
    assert_eq!(lab.open().machine().message_count(), 600);
}

#[test]
fn an_import_that_is_aborted_leaves_nothing() {
    let text = file(&header(), &many(600));
    let lab = Lab::lenient();
    let source = Parts::holding_back(&text, Signal::default());
    let options = ImportOptions::default();
    let mut importing = waits(&lab.world, lab.runtime.import_session(&source, TEXTS, &options));
    assert!(!importing.go_on());
    options.abort.fire();
    assert_eq!(importing.done().unwrap_err().code(), ErrorCode::Aborted);
    assert_eq!(record_count(&lab), 0);

    let fired = ImportOptions::default();
    fired.abort.fire();
    let error = import_with(&lab, &Parts::text(&text), &fired).unwrap_err();
    assert_eq!((error.code(), record_count(&lab)), (ErrorCode::Aborted, 0));
}

#[test]
fn a_runtime_that_is_closed_ends_its_imports_and_what_they_staged_goes() {
    let text = file(&header(), &many(600));
    let lab = Lab::lenient();
    let source = Parts::holding_back(&text, Signal::default());
    let options = ImportOptions::default();
    let mut importing = waits(&lab.world, lab.runtime.import_session(&source, TEXTS, &options));
    assert!(!importing.go_on());
    assert!(record_count(&lab) > 500, "it is there already");
    lab.runtime.close().unwrap();
    let mut gone = waits(&lab.world, lab.runtime.gone());
    assert!(!gone.go_on(), "it waits for the import");
    assert_eq!(importing.done().unwrap_err().code(), ErrorCode::Disposed);
    gone.done();
    assert_eq!(record_count(&lab), 0);
}

/// A session of the dialect `openai-chat` with an answer that failed, one that was aborted, and a user message that nobody typed.
fn with_messages_apart() -> String {
    let own = json!({ "dialect": "openai-chat", "apart": [[1, "failed"], [2, "appended"], [4, "aborted"]] });
    let header = with("runcontext", own);
    let answer = |text: &str| json!({ "role": "assistant", "content": text });
    let messages = [
        user("Go"),
        answer("Half"),
        user("By the way"),
        user("On"),
        answer("A"),
    ];
    file(&header, &messages)
}

#[test]
fn what_a_message_does_not_say_of_itself_goes_out_and_comes_in_again() {
    let lab = Lab::lenient();
    import(&lab, &with_messages_apart()).unwrap();
    let seen = |lab: &Lab| {
        let session = lab.open();
        let machine = session.machine();
        let outlines = machine.outlines();
        let turns: Vec<bool> = outlines.iter().map(|outline| outline.user_turn).collect();
        let stops: Vec<_> = outlines.iter().map(|outline| outline.stop).collect();
        (turns, stops)
    };
    let (failed, aborted) = (Some(StopKind::Error), Some(StopKind::Aborted));
    let expected = (
        vec![true, false, false, true, false],
        vec![None, failed, None, None, aborted],
    );
    assert_eq!(seen(&lab), expected);
    let lines = export(&lab, "s1");
    assert_eq!(
        lines[0]["runcontext"]["apart"],
        json!([[1, "failed"], [2, "appended"], [4, "aborted"]])
    );
    let again = Lab::lenient();
    import(&again, &file(&lines[0], &lines[1..])).unwrap();
    assert_eq!(seen(&again), expected);
}

#[test]
fn positions_of_messages_that_do_not_come_are_refused() {
    let text = with_messages_apart();
    for (was, wrong) in [
        ("[4,", "[5,"),
        ("[2,", "[1,"),
        ("[1,", "[1.5,"),
        ("[1,", "[0,"),
        ("failed", "lost"),
        ("[1,\"failed\"]", "1"),
    ] {
        let changed = text.replacen(was, wrong, 1);
        assert_ne!(changed, text);
        assert_eq!(
            refusal(&changed).data()["field"],
            "header.runcontext.apart",
            "{wrong}"
        );
    }
}

#[test]
fn a_write_that_fails_leaves_nothing() {
    let text = file(&header(), &many(600));
    let parts = || Parts::of(text.as_bytes().chunks(4096).map(<[u8]>::to_vec).collect());
    for attempt in [1, 2, 3] {
        for fault in [Fault::Refuse, Fault::Conflict] {
            let lab = Lab::lenient();
            lab.storage.fail(attempt, fault);
            import_with(&lab, &parts(), &ImportOptions::default()).unwrap_err();
            assert_eq!(record_count(&lab), 0, "attempt {attempt}");
        }
    }
    // What is not heard of: in the middle it goes again, at the end it is there.
    let lab = Lab::lenient();
    lab.storage.fail(2, Fault::LoseAcknowledgement);
    import_with(&lab, &parts(), &ImportOptions::default()).unwrap_err();
    assert_eq!(record_count(&lab), 0);
    lab.storage.fail(3, Fault::LoseAcknowledgement);
    import_with(&lab, &parts(), &ImportOptions::default()).unwrap();
    assert_eq!(lab.open().machine().message_count(), 600);
}

#[test]
fn a_late_wrong_line_leaves_nothing() {
    let lab = Lab::lenient();
    let text = format!("{}42", file(&header(), &many(900)));
    let parts = text.as_bytes().chunks(4096).map(<[u8]>::to_vec).collect();
    let error = import_with(&lab, &Parts::of(parts), &ImportOptions::default()).unwrap_err();
    assert_eq!(error.data()["line"], 902);
    assert!(lab.storage.attempts() > 2);
    assert_eq!(record_count(&lab), 0);
}

#[test]
fn an_id_that_is_taken_is_a_conflict_and_a_new_one_is_not() {
    let lab = Lab::lenient();
    let session = lab.create();
    let text = file(&header(), &many(600));
    let error = import(&lab, &text).unwrap_err();
    assert_eq!(error.code(), ErrorCode::Conflict);
    assert_eq!(error.data()["id"], "s1");
    assert_eq!(session.machine().message_count(), 0);

    let options = ImportOptions {
        is_new: true,
        ..ImportOptions::default()
    };
    let record = import_with(&lab, &Parts::text(&text), &options).unwrap();
    assert_ne!(record.id, "s1");
    let mut expected = header();
    expected["id"] = json!(record.id);
    assert_eq!(export(&lab, &record.id)[0], expected);
    assert_eq!(lab.open().machine().message_count(), 0);
}

/// A page that dies in mid-import.
fn die_importing(lab: Lab, text: &str) {
    let source = Parts::holding_back(text, Signal::default());
    let options = ImportOptions::default();
    let mut importing = waits(&lab.world, lab.runtime.import_session(&source, TEXTS, &options));
    assert!(!importing.go_on());
    assert!(record_count(&lab) > 500);
    drop(importing);
}

#[test]
fn what_a_dead_page_left_is_cleared_away_at_the_next_opening() {
    let memory = MemoryStorage::new();
    let browser = Rc::new(Browser::default());
    die_importing(
        Lab::in_browser(memory.clone(), &browser.page()),
        &file(&header(), &many(600)),
    );
    let lab = Lab::in_browser(memory, &browser.page());
    lab.run(async {});
    assert_eq!(record_count(&lab), 0);
    import(&lab, &file(&header(), &many(2))).unwrap();
}

#[test]
fn an_import_that_runs_in_another_page_is_left_alone() {
    let memory = MemoryStorage::new();
    let browser = Rc::new(Browser::default());
    let one = Lab::in_browser(memory.clone(), &browser.page());
    let last = Signal::default();
    let text = file(&header(), &many(600));
    let source = Parts::holding_back(&text, last.clone());
    let options = ImportOptions::default();
    let mut importing = waits(&one.world, one.runtime.import_session(&source, TEXTS, &options));
    assert!(!importing.go_on());

    let other = Lab::in_browser(memory, &browser.page());
    other.run(async {});
    let error = import(&other, &file(&header(), &many(2))).unwrap_err();
    assert_eq!(error.code(), ErrorCode::Conflict);
    last.fire();
    importing.done().unwrap();
    assert_eq!(listed(&other), ["s1"]);
}

#[test]
fn where_nobody_can_say_who_runs_what_is_left_over_goes_after_an_hour() {
    let memory = MemoryStorage::new();
    let text = file(&header(), &many(600));
    die_importing(Lab::on(memory.clone(), false), &text);
    let lab = Lab::on(memory, false);
    lab.run(async {});
    assert!(record_count(&lab) > 500, "it may still run");
    assert_eq!(import(&lab, &text).unwrap_err().code(), ErrorCode::Conflict);
    lab.world.at(1_000.0 + 3_600_001.0);
    import(&lab, &text).unwrap();
    assert_eq!(lab.open().machine().message_count(), 600);
}

#[test]
fn progress_is_told_of_what_was_stored() {
    let lab = Lab::lenient();
    let told: Rc<RefCell<Vec<(f64, u32)>>> = Rc::default();
    let hears = told.clone();
    let options = ImportOptions {
        progress: Some(Rc::new(move |progress| {
            hears.borrow_mut().push((progress.bytes, progress.messages));
            Ok(())
        })),
        ..ImportOptions::default()
    };
    let text = file(&header(), &many(600));
    let parts = text.as_bytes().chunks(1000).map(<[u8]>::to_vec).collect();
    import_with(&lab, &Parts::of(parts), &options).unwrap();
    let told = told.borrow();
    assert!(told.len() >= 3, "{told:?}");
    assert!(
        told.windows(2)
            .all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 < pair[1].1),
        "{told:?}"
    );
    assert_eq!(*told.last().unwrap(), (text.len() as f64, 600));
}
