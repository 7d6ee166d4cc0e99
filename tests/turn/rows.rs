//! The rows of the design's table, but failing writes, aborts and restarts, which have files of their own.

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use std::rc::Rc;

use runcontext::{
    ErrorCode,
    runtime::PromptOptions,
    session::{Outcome, TurnEnd},
};
use serde_json::{Value, json};

use crate::{
    expect::{
        BOTH, Expected, HAIKU, HAIKU_BLOCK, HAIKU_ID, HAIKU_LOCATION, Way, allow, answered, called_twice,
        cut_off, dispatched, failed, first_checkpoint, haiku_record, haiku_snapshot, long_turn,
        long_turn_after, offering_haiku, open_turn, said, two_calls, typed,
    },
    lab::{
        ID, Lab, Step, at_once, calls, incoming, refused, says,
        tokens::{json_tokens, tokens},
    },
};

fn choosing(skills: &[&str]) -> PromptOptions {
    PromptOptions {
        skills: skills.iter().map(|id| (*id).to_owned()).collect(),
        ..PromptOptions::default()
    }
}

fn ended(outcome: Outcome, error: Option<&str>) -> TurnEnd {
    TurnEnd {
        outcome,
        error: error.map(str::to_owned),
    }
}

#[test]
fn a_created_session_is_stored_before_anything_is_said() {
    let lab = Lab::empty();
    let session = lab.create();
    assert_eq!(lab.stored(), Expected::created().stored());
    assert_eq!(lab.events(), [] as [&str; 0]);
    assert_eq!(session.machine().message_count(), 0);
}

#[test]
fn a_tool_runs_in_the_working_directory_of_its_session() {
    let lab = Lab::empty();
    let session = lab.create();
    long_turn(&lab, &session, Way::Prompt);
    assert_eq!(lab.tools.directories(), ["/w", "/w"]);
}

#[test]
fn an_answer_with_a_call_without_an_id_is_kept_as_one_that_failed() {
    for way in BOTH {
        let lab = Lab::empty();
        let session = lab.create();
        let call = json!({ "role": "assistant", "content": [{ "type": "toolCall", "name": "add", "arguments": {} }] });
        let report = match way {
            Way::Prompt => {
                lab.model.answers(call);
                lab.prompt(&session, "hello").unwrap()
            }
            Way::Begin => {
                let turn = at_once(session.begin(&json!("hello"), &PromptOptions::default())).unwrap();
                turn.request().unwrap();
                lab.run(turn.dispatched()).unwrap();
                lab.run(turn.append(vec![incoming(call)])).unwrap();
                assert!(turn.open_calls().is_empty());
                lab.run(turn.finish(Outcome::Success, None)).unwrap()
            }
        };
        let text = "the answer has a tool call without an `id`; ask the model again";
        assert_eq!(report.end, ended(Outcome::Error, Some(text)));
        assert_eq!(lab.tools.calls(), 0);
        let stored = session.machine().bodies()[1].clone();
        assert_eq!(
            (&stored["stopReason"], &stored["errorMessage"]),
            (&json!("error"), &json!(text))
        );
        let turn = at_once(session.begin(&json!("again"), &PromptOptions::default())).unwrap();
        let (request, _) = turn.request().unwrap();
        assert!(request.messages().iter().all(|message| message["role"] == "user"));
    }
}

#[test]
fn an_unknown_skill_keeps_nothing() {
    for way in BOTH {
        let lab = Lab::empty();
        let session = lab.create();
        let options = choosing(&["project:nowhere"]);
        let error = match way {
            Way::Prompt => refused(lab.prompt_with(&session, &json!("hello"), &options)),
            Way::Begin => refused(at_once(session.begin(&json!("hello"), &options))),
        };
        assert_eq!(error.code(), ErrorCode::SkillUnavailable);
        assert_eq!(error.data()["id"], "project:nowhere");
        assert_eq!(lab.stored(), Expected::created().stored());
        assert_eq!((lab.model.calls(), lab.model.checks()), (0, 0));
        assert_eq!(lab.events(), [] as [&str; 0]);
        assert!(!session.machine().is_running());
        // It is as ready as before.
        let report = long_turn(&lab, &session, way);
        assert!(report.saved);
        assert_eq!(lab.stored(), long_turn_after(6).stored());
    }
}

#[test]
fn a_failed_preflight_keeps_nothing() {
    let lab = Lab::empty();
    let session = lab.create();
    lab.model
        .on_check(Rc::new(|| Box::pin(async { Err("no key".to_owned()) })));
    let error = refused(lab.prompt(&session, "hello"));
    assert_eq!(error.code(), ErrorCode::ModelFailed);
    assert_eq!(error.message(), "the model is not ready: no key");
    assert_eq!(lab.stored(), Expected::created().stored());
    assert_eq!((lab.model.calls(), lab.model.checks()), (0, 1));
    assert_eq!(lab.events(), [] as [&str; 0]);
    assert!(session.machine().snapshots().is_empty() && session.machine().checkpoints().is_empty());
    lab.model.on_check(Rc::new(|| Box::pin(async { Ok(()) })));
    long_turn(&lab, &session, Way::Prompt);
    assert_eq!(lab.stored(), long_turn_after(6).stored());
}

#[test]
fn a_turn_that_was_prepared_and_not_dispatched_keeps_nothing() {
    let lab = Lab::empty();
    let session = lab.create();
    lab.run(lab.runtime.add_skill(HAIKU, HAIKU_LOCATION, "project"))
        .unwrap();
    let before = lab.stored();
    let turn = at_once(session.begin(&json!("hello"), &choosing(&[HAIKU_ID]))).unwrap();
    turn.request().unwrap();
    assert!(session.machine().snapshots().is_empty() && session.machine().checkpoints().is_empty());
    assert_eq!(session.machine().message_count(), 0);
    for outcome in [Outcome::Success, Outcome::Error] {
        let error = refused(lab.run(turn.finish(outcome, None)));
        assert_eq!(error.code(), ErrorCode::InvalidArgument);
        assert_eq!(error.message(), "nothing was dispatched; call `cancel()`");
        assert!(session.machine().is_running());
    }
    let report = lab.run(turn.cancel()).unwrap();
    assert_eq!(report.end, ended(Outcome::Cancelled, None));
    assert!(report.saved);
    assert_eq!(lab.stored(), before);
    assert!(session.machine().snapshots().is_empty() && session.machine().checkpoints().is_empty());
    assert_eq!(session.machine().projection(), None);
}

#[test]
fn the_dispatch_keeps_message_snapshot_and_checkpoint_in_one_commit() {
    for way in BOTH {
        let lab = Lab::empty();
        let session = lab.create();
        lab.run(lab.runtime.add_skill(HAIKU, HAIKU_LOCATION, "project"))
            .unwrap();
        lab.world.at(2_000.0);
        // Nobody answers: what is stored now is what the dispatch stored.
        let options = choosing(&[HAIKU_ID]);
        let content = json!("hello");
        lab.model.then(Step::silence());
        let mut waiting = None;
        match way {
            Way::Prompt => {
                let prompt = session.prompt(&content, &options);
                waiting = Some(crate::lab::waits(&lab.world, prompt));
            }
            Way::Begin => {
                let turn = at_once(session.begin(&content, &options)).unwrap();
                turn.request().unwrap();
                lab.run(turn.dispatched()).unwrap();
            }
        }
        let expected = Expected::created().with(|it| {
            it.updated_at = 2_000.0;
            (it.commits, it.conversation, it.settings) = (2, 2, 1);
            it.changed = json!({ "openTurn": open_turn(0) });
            it.messages = vec![typed("hello", 2_000)];
            it.snapshots = vec![haiku_snapshot(0, 2_000)];
            it.checkpoints = vec![offering_haiku(first_checkpoint(1, 2_000))];
            it.shared = vec![haiku_record()];
        });
        assert_eq!(lab.stored(), expected.stored(), "{way:?}");
        let commit = &lab.storage.applied()[1];
        assert_eq!(
            (
                commit.messages.len(),
                commit.snapshots.len(),
                commit.checkpoints.len()
            ),
            (1, 1, 1)
        );
        assert_eq!(lab.events(), ["started 0", "message 0 user", "saved"]);
        drop(waiting);
    }
}

#[test]
fn a_turn_with_tools_commits_at_dispatch_and_after_each_answer_and_each_batch() {
    for way in BOTH {
        let lab = Lab::empty();
        let session = lab.create();
        let report = long_turn(&lab, &session, way);
        assert_eq!(report.end, ended(Outcome::Success, None));
        assert_eq!((report.saved, report.save_error), (true, None));
        assert!(report.degraded.is_empty());
        assert_eq!(lab.stored(), long_turn_after(6).stored(), "{way:?}");
        let sizes: Vec<usize> = lab
            .storage
            .applied()
            .iter()
            .map(|commit| commit.messages.len())
            .collect();
        assert_eq!(sizes, [0, 1, 1, 2, 1, 0]);
        assert_eq!(
            lab.events(),
            [
                "started 0",
                "message 0 user",
                "saved",
                "message 1 assistant",
                "saved",
                "message 2 toolResult",
                "message 3 toolResult",
                "saved",
                "message 4 assistant",
                "saved",
                "saved",
                "ended success"
            ],
            "{way:?}"
        );
        if way == Way::Prompt {
            assert_eq!(
                (lab.model.calls(), lab.model.checks(), lab.tools.calls()),
                (2, 1, 2)
            );
            let call = |id: &str, n: u32| (id.to_owned(), "add".to_owned(), json!({ "n": n }));
            assert_eq!(lab.tools.called(), [call("c1", 1), call("c2", 2)]);
        } else {
            assert_eq!(
                (lab.model.calls(), lab.model.checks(), lab.tools.calls()),
                (0, 0, 0)
            );
        }
    }
}

/// The store after a turn that kept the user message, then these.
fn after_one_turn(messages: Vec<(Value, Value)>, commits: usize, outcome: &str, error: Value) -> Expected {
    Expected::created().with(|it| {
        it.updated_at = 2_000.0;
        (it.commits, it.conversation, it.settings) = (commits, commits as u64, 2);
        it.changed = json!({ "outcome": outcome, "error": error });
        it.messages = [vec![typed("add one and two", 2_000)], messages].concat();
        it.checkpoints = vec![first_checkpoint(1, 2_000)];
    })
}

#[test]
fn a_model_that_fails_without_a_word_leaves_the_user_message() {
    let lab = Lab::empty();
    let session = lab.create();
    lab.world.at(2_000.0);
    lab.model.then(Step::fail("overloaded"));
    let report = lab.prompt(&session, "add one and two").unwrap();
    assert_eq!(report.end, ended(Outcome::Error, Some("overloaded")));
    assert!(report.saved);
    assert_eq!((lab.model.calls(), lab.tools.calls()), (1, 0));
    let expected = after_one_turn(Vec::new(), 3, "error", json!("overloaded"));
    assert_eq!(lab.stored(), expected.stored());
    assert_eq!(
        lab.events(),
        ["started 0", "message 0 user", "saved", "saved", "ended error"]
    );
}

#[test]
fn a_model_that_fails_in_mid_answer_leaves_its_last_partial_with_the_reason() {
    let lab = Lab::empty();
    let session = lab.create();
    lab.world.at(2_000.0);
    let partial = |text: &str| json!({ "role": "assistant", "content": [{ "type": "text", "text": text }] });
    let partials = vec![partial("th"), partial("thre")];
    lab.model
        .then(Step::updates(partials, Step::fail("connection lost")));
    let report = lab.prompt(&session, "add one and two").unwrap();
    assert_eq!(report.end, ended(Outcome::Error, Some("connection lost")));
    let kept = json!({
        "role": "assistant", "content": [{ "type": "text", "text": "thre" }],
        "stopReason": "error", "errorMessage": "connection lost"
    });
    let outline = json!({ "role": "assistant", "stop": "error", "textLen": 4, "tokens": tokens("thre") });
    let expected = after_one_turn(vec![(kept, outline)], 3, "error", json!("connection lost"));
    assert_eq!(lab.stored(), expected.stored());
    assert_eq!(
        lab.events(),
        [
            "started 0",
            "message 0 user",
            "saved",
            "update th",
            "update thre",
            "message 1 assistant",
            "saved",
            "ended error"
        ]
    );
    // It is stored, and not shown again.
    lab.model.answers(says("three"));
    lab.prompt(&session, "again").unwrap();
    let shown: Vec<Value> = lab.model.seen()[1].request.messages();
    assert_eq!(
        shown,
        [typed("add one and two", 2_000).0, typed("again", 2_000).0]
    );
}

#[test]
fn a_partial_answer_that_says_itself_why_it_ended_keeps_its_words() {
    let lab = Lab::empty();
    let session = lab.create();
    let partial = json!({
        "role": "assistant", "content": [], "stopReason": "stop", "errorMessage": "its own words", "mine": 1
    });
    lab.model
        .then(Step::updates(vec![partial], Step::fail("connection lost")));
    let report = lab.prompt(&session, "hello").unwrap();
    assert_eq!(report.end, ended(Outcome::Error, Some("connection lost")));
    assert_eq!(
        session.machine().bodies()[1],
        json!({
            "role": "assistant", "content": [], "stopReason": "error", "errorMessage": "its own words", "mine": 1
        })
    );
}

#[test]
fn calls_in_a_partial_answer_of_a_failed_model_are_not_open() {
    let lab = Lab::empty();
    let session = lab.create();
    lab.world.at(2_000.0);
    lab.model
        .then(Step::updates(vec![two_calls()], Step::fail("connection lost")));
    let report = lab.prompt(&session, "add one and two").unwrap();
    assert_eq!(report.end.outcome, Outcome::Error);
    assert_eq!(lab.tools.calls(), 0);
    let (mut kept, mut outline) = called_twice();
    kept["stopReason"] = json!("error");
    kept["errorMessage"] = json!("connection lost");
    outline["stop"] = json!("error");
    let expected = after_one_turn(vec![(kept, outline)], 3, "error", json!("connection lost"));
    assert_eq!(lab.stored(), expected.stored());
    assert!(session.machine().open_tool_calls().is_empty());
}

#[test]
fn an_answer_that_says_it_failed_ends_the_turn_and_its_calls_are_not_open() {
    for way in BOTH {
        for (reason, outcome, text, error) in [
            ("error", Outcome::Error, "error", Some("quota")),
            ("aborted", Outcome::Cancelled, "cancelled", None),
        ] {
            let lab = Lab::empty();
            let session = lab.create();
            lab.world.at(2_000.0);
            let (mut message, mut outline) = called_twice();
            message["stopReason"] = json!(reason);
            message["errorMessage"] = json!("quota");
            outline["stop"] = json!(reason);
            let report = match way {
                Way::Prompt => {
                    lab.model.answers(message.clone());
                    lab.prompt(&session, "add one and two").unwrap()
                }
                Way::Begin => lab.run(async {
                    let turn = dispatched(&session, "add one and two").await;
                    turn.append(vec![incoming(message.clone())]).await.unwrap();
                    assert!(turn.open_calls().is_empty());
                    turn.finish(outcome, error.map(str::to_owned)).await.unwrap()
                }),
            };
            assert_eq!(report.end, ended(outcome, error), "{way:?}");
            assert_eq!(lab.tools.calls(), 0);
            let expected = after_one_turn(vec![(message, outline)], 4, text, json!(error));
            assert_eq!(lab.stored(), expected.stored(), "{way:?} {reason}");
        }
    }
}

#[test]
fn an_answer_that_failed_without_saying_why_still_has_a_reason() {
    let lab = Lab::empty();
    let session = lab.create();
    lab.model
        .answers(json!({ "role": "assistant", "content": [], "stopReason": "error" }));
    let report = lab.prompt(&session, "hello").unwrap();
    assert_eq!(report.end, ended(Outcome::Error, Some("the model failed")));
}

#[test]
fn an_answer_that_is_no_assistant_message_ends_the_turn_with_an_error() {
    for answer in [
        json!({ "role": "user", "content": "I am you" }),
        json!({ "role": "system", "content": "obey" }),
        json!({ "content": "no role" }),
        json!("words"),
        json!(null),
    ] {
        let lab = Lab::empty();
        let session = lab.create();
        lab.world.at(2_000.0);
        lab.model.answers(answer.clone());
        let report = lab.prompt(&session, "add one and two").unwrap();
        assert_eq!(report.end.outcome, Outcome::Error, "{answer}");
        assert!(report.saved && report.end.error.is_some());
        let expected = after_one_turn(Vec::new(), 3, "error", json!(report.end.error));
        assert_eq!(lab.stored(), expected.stored(), "{answer}");
    }
}

#[test]
fn a_tool_that_throws_gives_an_error_result_and_the_turn_goes_on() {
    let lab = Lab::empty();
    let session = lab.create();
    lab.world.at(2_000.0);
    lab.tools
        .on("c1", |_, _| async { Err("no such number".to_owned()) });
    lab.model.answers(two_calls()).answers(says("three"));
    let report = lab.prompt(&session, "add one and two").unwrap();
    assert_eq!(report.end, ended(Outcome::Success, None));
    assert_eq!((lab.model.calls(), lab.tools.calls()), (2, 2));
    let messages = vec![
        called_twice(),
        failed("c1", "add", "no such number", 2_000),
        answered("c2", "add done", 2_000),
        said("three"),
    ];
    let expected = after_one_turn(messages, 6, "success", json!(null));
    assert_eq!(lab.stored(), expected.stored());
    let shown = lab.model.seen()[1].request.messages();
    assert_eq!(shown.len(), 4);
    assert_eq!(shown[2]["isError"], true);
}

#[test]
fn where_nobody_can_be_asked_what_would_be_asked_about_is_refused_and_so_is_an_unknown_tool() {
    let lab = Lab::empty();
    let session = lab.create_with(runcontext::session::NewSession {
        headless: true,
        ..Lab::options()
    });
    lab.world.at(2_000.0);
    let message = calls(&[("c1", "write_file", json!({})), ("c2", "fly", json!({}))]);
    lab.model.answers(message.clone()).answers(says("three"));
    let report = lab.prompt(&session, "add one and two").unwrap();
    assert_eq!(report.end, ended(Outcome::Success, None));
    assert_eq!((lab.model.calls(), lab.tools.calls()), (2, 0));
    let outline = json!({
        "role": "assistant", "calls": [{ "id": "c1", "name": "write_file" }, { "id": "c2", "name": "fly" }],
        "textLen": 0, "tokens": json_tokens(&message["content"][0]) + json_tokens(&message["content"][1])
    });
    let refusal = "`write_file` is denied: nobody can be asked";
    let messages = vec![
        (message, outline),
        failed("c1", "write_file", refusal, 2_000),
        failed("c2", "fly", "there is no tool named `fly`", 2_000),
        said("three"),
    ];
    let expected = after_one_turn(messages, 6, "success", json!(null));
    let mut expected = expected.stored();
    let session = expected
        .get_mut("chat_sessions")
        .and_then(|all| all.get_mut("\"s1\""))
        .unwrap();
    session["settings"]["headless"] = json!(true);
    assert_eq!(lab.stored(), expected);
}

#[test]
fn tools_of_one_answer_run_side_by_side_and_their_results_stand_in_the_order_of_the_calls() {
    let lab = Lab::empty();
    let session = lab.create();
    lab.world.at(2_000.0);
    let second_is_done = runcontext::runtime::Signal::default();
    let (wait, fire) = (second_is_done.clone(), second_is_done);
    lab.tools.on("c1", move |_, _| {
        let wait = wait.clone();
        async move {
            wait.fired().await;
            Ok(json!("add done"))
        }
    });
    lab.tools.on("c2", move |_, _| {
        let fire = fire.clone();
        async move {
            fire.fire();
            Ok(json!("add done"))
        }
    });
    lab.model.answers(two_calls()).answers(says("three"));
    lab.prompt(&session, "add one and two").unwrap();
    assert_eq!(lab.stored(), long_turn_after(6).stored());
}

#[test]
fn what_a_tool_returns_becomes_blocks() {
    let image = json!({ "type": "image", "data": "AA==", "mimeType": "image/png" });
    let cases = [
        (
            json!("text"),
            json!([{ "type": "text", "text": "text" }]),
            false,
            None,
        ),
        (json!(""), json!([{ "type": "text", "text": "" }]), false, None),
        (json!(null), json!([]), false, None),
        (json!(3), json!([{ "type": "text", "text": "3" }]), false, None),
        (
            json!([1]),
            json!([{ "type": "text", "text": "[1]" }]),
            false,
            None,
        ),
        (
            json!({ "a": 1 }),
            json!([{ "type": "text", "text": "{\"a\":1}" }]),
            false,
            None,
        ),
        (
            json!({ "content": "not a list" }),
            json!([{ "type": "text", "text": "{\"content\":\"not a list\"}" }]),
            false,
            None,
        ),
        (
            json!({ "content": [image], "details": { "d": 1 }, "isError": true }),
            json!([image]),
            true,
            Some(json!({ "d": 1 })),
        ),
    ];
    for (value, content, is_error, details) in cases {
        let lab = Lab::empty();
        let session = lab.create();
        lab.world.at(2_000.0);
        let returned = value.clone();
        lab.tools.on("c1", move |_, _| {
            let returned = returned.clone();
            async move { Ok(returned) }
        });
        lab.model
            .answers(calls(&[("c1", "add", json!({}))]))
            .answers(says("three"));
        lab.prompt(&session, "add").unwrap();
        let mut expected = json!({
            "role": "toolResult", "toolCallId": "c1", "toolName": "add", "content": content,
            "isError": is_error, "timestamp": 2_000
        });
        if let Some(details) = details {
            expected["details"] = details;
        }
        assert_eq!(session.machine().bodies()[2], expected, "{value}");
    }
}

#[test]
fn two_calls_with_one_id_each_run_with_their_own_arguments() {
    let lab = Lab::empty();
    let session = lab.create();
    lab.world.at(2_000.0);
    let twins = calls(&[("c1", "add", json!({ "n": 1 })), ("c1", "add", json!({ "n": 2 }))]);
    lab.model.answers(twins.clone()).answers(says("three"));
    lab.prompt(&session, "add").unwrap();
    let arguments: Vec<Value> = lab
        .tools
        .called()
        .into_iter()
        .map(|(_, _, arguments)| arguments)
        .collect();
    assert_eq!(arguments, [json!({ "n": 1 }), json!({ "n": 2 })]);
    let roles: Vec<Value> = session
        .machine()
        .bodies()
        .iter()
        .map(|body| body["role"].clone())
        .collect();
    assert_eq!(
        roles,
        ["user", "assistant", "toolResult", "toolResult", "assistant"]
    );
    // In a host's own loop, the one that is left is the second.
    let lab = Lab::lenient();
    let session = lab.create();
    lab.run(async {
        let turn = dispatched(&session, "add").await;
        turn.append(vec![incoming(twins)]).await.unwrap();
        turn.append(vec![incoming(answered("c1", "one", 1).0)])
            .await
            .unwrap();
        let open = turn.open_calls();
        assert_eq!(open.len(), 1);
        assert_eq!(open[0].arguments, json!({ "n": 2 }));
    });
}

#[test]
fn arguments_that_are_missing_count_as_none_given() {
    let lab = Lab::empty();
    let session = lab.create();
    lab.model
        .answers(json!({
            "role": "assistant", "stopReason": "toolUse",
            "content": [{ "type": "toolCall", "id": "c1", "name": "add" }]
        }))
        .answers(says("done"));
    lab.prompt(&session, "add").unwrap();
    assert_eq!(
        lab.tools.called(),
        [("c1".to_owned(), "add".to_owned(), json!({}))]
    );
}

#[test]
fn an_answer_while_calls_are_open_first_gets_them_interrupted_results() {
    let lab = Lab::empty();
    let session = lab.create();
    lab.world.at(2_000.0);
    lab.run(async {
        let turn = dispatched(&session, "add one and two").await;
        turn.append(vec![incoming(two_calls())]).await.unwrap();
        allow(&session, &["c2"]).await;
        turn.append(vec![
            incoming(answered("c2", "add done", 2_000).0),
            incoming(says("three")),
        ])
        .await
        .unwrap();
        turn.finish(Outcome::Success, None).await.unwrap();
    });
    let messages = vec![
        called_twice(),
        answered("c2", "add done", 2_000),
        cut_off("c1", "add"),
        said("three"),
    ];
    assert_eq!(
        lab.stored(),
        after_one_turn(messages, 5, "success", json!(null)).stored()
    );
}

#[test]
fn a_turn_that_ends_with_open_calls_gets_them_interrupted_results() {
    for (outcome, text) in [
        (Outcome::Success, "success"),
        (Outcome::Error, "error"),
        (Outcome::Cancelled, "cancelled"),
    ] {
        let lab = Lab::empty();
        let session = lab.create();
        lab.world.at(2_000.0);
        let report = lab.run(async {
            let turn = dispatched(&session, "add one and two").await;
            turn.append(vec![incoming(two_calls())]).await.unwrap();
            turn.finish(outcome, None).await.unwrap()
        });
        assert_eq!(report.end, ended(outcome, None));
        let messages = vec![called_twice(), cut_off("c1", "add"), cut_off("c2", "add")];
        assert_eq!(
            lab.stored(),
            after_one_turn(messages, 4, text, json!(null)).stored()
        );
        let events = lab.events();
        assert_eq!(
            events[events.len() - 4..],
            [
                "message 2 toolResult".to_owned(),
                "message 3 toolResult".to_owned(),
                "saved".to_owned(),
                format!("ended {text}")
            ]
        );
    }
}

#[test]
fn values_that_became_null_are_reported_at_the_end_of_the_turn() {
    let lab = Lab::empty();
    let session = lab.create();
    let report = lab.run(async {
        let turn = dispatched(&session, "hello").await;
        let mut message = incoming(says("hi"));
        message.degraded = vec!["content[0].x".to_owned()];
        turn.append(vec![message]).await.unwrap();
        turn.finish(Outcome::Success, None).await.unwrap()
    });
    assert_eq!(report.degraded.len(), 1);
    assert_eq!(report.degraded[0].message_index.0, 1);
    assert_eq!(report.degraded[0].path, "content[0].x");
}

#[test]
fn a_later_turn_adds_to_what_is_there() {
    for way in BOTH {
        let lab = Lab::empty();
        let session = lab.create();
        long_turn(&lab, &session, way);
        lab.world.at(3_000.0);
        let report = match way {
            Way::Prompt => {
                lab.model.answers(says("hi"));
                lab.prompt(&session, "hello").unwrap()
            }
            Way::Begin => lab.run(async {
                let turn = dispatched(&session, "hello").await;
                turn.append(vec![incoming(says("hi"))]).await.unwrap();
                turn.finish(Outcome::Success, None).await.unwrap()
            }),
        };
        assert!(report.saved);
        let expected = long_turn_after(6).with(|it| {
            it.updated_at = 3_000.0;
            (it.commits, it.conversation, it.settings) = (9, 9, 4);
            it.messages.extend([typed("hello", 3_000), said("hi")]);
        });
        assert_eq!(lab.stored(), expected.stored());
        assert_eq!(
            session.machine().interrupted(),
            None,
            "nothing is interrupted while it is open"
        );
    }
}

#[test]
fn a_message_that_has_a_time_keeps_it_and_one_without_gets_one() {
    for content in [
        json!({ "role": "user", "content": "hi", "timestamp": 12, "mine": { "deep": [1] } }),
        json!({ "role": "user", "content": [{ "type": "text", "text": "hi" }], "mine": 1 }),
        json!([{ "type": "text", "text": "hi" }, { "type": "image", "data": "AA==", "mimeType": "image/png" }]),
        json!([]),
        json!(""),
    ] {
        let lab = Lab::empty();
        let session = lab.create();
        lab.world.at(2_000.0);
        lab.model.answers(says("hi"));
        lab.prompt_with(&session, &content, &PromptOptions::default())
            .unwrap();
        let mut expected = match &content {
            Value::Object(_) => content.clone(),
            _ => json!({ "role": "user", "content": content }),
        };
        if expected.get("timestamp").is_none() {
            expected["timestamp"] = json!(2_000);
        }
        assert_eq!(session.machine().bodies()[0], expected);
        assert_eq!(
            lab.stored()["messages"][&format!("[\"{ID}\",0]")]["body"],
            expected
        );
    }
}

#[test]
fn the_block_of_a_chosen_skill_is_shown_and_never_stored_in_a_message() {
    let lab = Lab::empty();
    let session = lab.create();
    lab.run(lab.runtime.add_skill(HAIKU, HAIKU_LOCATION, "project"))
        .unwrap();
    lab.model.answers(says("hi"));
    lab.prompt_with(&session, &json!("hello"), &choosing(&[HAIKU_ID]))
        .unwrap();
    let shown = lab.model.seen()[0].request.messages()[0].clone();
    assert_eq!(shown["content"], format!("{HAIKU_BLOCK}\n\nhello"));
    let stored = lab.stored();
    for body in stored["messages"].values() {
        assert!(!body.to_string().contains("<skill"), "{body}");
    }
}
