//! A turn in every dialect: tools, refusals, aborts, failures, restarts, skills, and what is refused.

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use std::rc::Rc;

use runcontext::{
    ErrorCode,
    context::{NoticeCode, Source},
    message::{
        Dialect::{self, AiSdk, Anthropic, Loop, OpenAiChat},
        Role, StopKind,
    },
    permissions::Action,
    runtime::{Answer, PromptOptions, Session, Signal},
    session::{NewSession, Outcome, ToolCall},
};
use serde_json::{Value, json};

use crate::{
    expect::{HAIKU, HAIKU_BLOCK, HAIKU_ID, HAIKU_LOCATION, allow, dispatched},
    lab::{
        Lab, Step, at_once, incoming,
        pairing::check_pairs_in,
        refused,
        spoken::{ALL, CUT_OFF, calls, result, result_at, says, typed},
        waits,
    },
};

/// A session of the dialect, at 2,000.
fn session_of(lab: &Lab, dialect: Dialect) -> Rc<Session<Value>> {
    lab.world.at(2_000.0);
    lab.create_with(NewSession {
        dialect: Some(dialect),
        ..Lab::options()
    })
}

fn add(id: &'static str, n: u32) -> (&'static str, &'static str, Value) {
    (id, "add", json!({ "n": n }))
}

/// What the model was shown in its last call.
fn last_shown(lab: &Lab) -> Vec<Value> {
    lab.model.seen().pop().unwrap().request.messages()
}

/// The session as a program finds it that is started again.
fn again(lab: &Lab) -> (Lab, Rc<Session<Value>>) {
    let next = Lab::on(lab.storage.memory.clone(), true);
    next.world.at(2_000.0);
    let session = next.open();
    (next, session)
}

#[test]
fn a_prompt_with_tools_is_stored_and_shown_in_the_words_of_the_dialect() {
    for dialect in ALL {
        let lab = Lab::empty();
        let session = session_of(&lab, dialect);
        lab.tools
            .on("c2", |_, _| async { Err("no such number".to_owned()) });
        let both = calls(dialect, &[add("c1", 1), add("c2", 2)]);
        lab.model.answers(both.clone()).answers(says(dialect, "three"));
        let report = lab.prompt(&session, "add one and two").unwrap();
        assert_eq!((report.end.outcome, report.saved), (Outcome::Success, true));
        let expected = [
            typed(dialect, "add one and two", 2_000),
            both,
            result_at(dialect, "c1", "add", "add done", false, 2_000),
            result_at(dialect, "c2", "add", "no such number", true, 2_000),
            says(dialect, "three"),
        ];
        assert_eq!(session.machine().bodies(), expected, "{dialect:?}");
        assert_eq!(last_shown(&lab), expected[..4]);
        let arguments: Vec<Value> = lab.tools.called().into_iter().map(|called| called.2).collect();
        assert_eq!(arguments, [json!({ "n": 1 }), json!({ "n": 2 })]);
        assert_eq!(session.machine().title_inputs(), ["add one and two"]);

        // Stored, it is the same, and in the same dialect.
        let (lab, session) = again(&lab);
        assert_eq!(session.machine().dialect(), dialect);
        assert_eq!(session.machine().bodies(), expected);
        lab.model.answers(says(dialect, "hello"));
        lab.prompt(&session, "hi").unwrap();
        let mut shown = expected.to_vec();
        shown.push(typed(dialect, "hi", 2_000));
        assert_eq!(last_shown(&lab), shown);
        check_pairs_in(dialect, &shown).unwrap();
    }
}

#[test]
fn a_skill_is_shown_in_front_of_what_was_typed_in_every_dialect() {
    for dialect in ALL {
        let lab = Lab::empty();
        let session = session_of(&lab, dialect);
        lab.run(lab.runtime.add_skill(HAIKU, HAIKU_LOCATION, "project"))
            .unwrap();
        lab.model
            .answers(says(dialect, "one"))
            .answers(says(dialect, "two"));
        lab.prompt(&session, "write $haiku").unwrap();
        let options = PromptOptions {
            skills: vec![HAIKU_ID.to_owned()],
            ..PromptOptions::default()
        };
        let blocks = json!([{ "type": "text", "text": "another" }]);
        lab.prompt_with(&session, &blocks, &options).unwrap();
        let shown = last_shown(&lab);
        let front = format!("{HAIKU_BLOCK}\n\nwrite $haiku");
        assert_eq!(shown[0], typed(dialect, &front, 2_000), "{dialect:?}");
        let expected =
            json!([{ "type": "text", "text": HAIKU_BLOCK }, { "type": "text", "text": "another" }]);
        assert_eq!(shown[2]["content"], expected);
        assert_eq!(
            session.machine().bodies()[0],
            typed(dialect, "write $haiku", 2_000)
        );
        assert_eq!(session.machine().bodies()[2]["content"], blocks);
    }
}

#[test]
fn what_a_person_refused_is_told_the_model_and_what_was_agreed_to_runs_in_every_dialect() {
    for dialect in ALL {
        let lab = Lab::empty();
        let session = session_of(&lab, dialect);
        let write = |id, text| (id, "write_file", json!({ "text": text }));
        let both = calls(dialect, &[write("c1", "x"), write("c2", "y")]);
        lab.model.answers(both).answers(says(dialect, "half of it"));
        let content = json!("write");
        let options = PromptOptions::default();
        let prompt = waits(&lab.world, session.prompt(&content, &options));
        let asked = lab.run(lab.runtime.pending_approvals()).unwrap();
        let answers = [Answer::Reject(Some("not now".to_owned())), Answer::Approve];
        for ((_, approval), answer) in asked.iter().zip(answers) {
            lab.run(lab.runtime.answer(&approval.id, answer, None)).unwrap();
        }
        let arguments: Vec<Value> = asked.into_iter().map(|(_, it)| it.call.arguments).collect();
        assert_eq!(arguments, [json!({ "text": "x" }), json!({ "text": "y" })]);
        assert_eq!(
            prompt.done().unwrap().end.outcome,
            Outcome::Success,
            "{dialect:?}"
        );
        let text = "User rejected this tool call. Reason: not now";
        let expected = [
            result_at(dialect, "c1", "write_file", text, true, 2_000),
            result_at(dialect, "c2", "write_file", "write_file done", false, 2_000),
        ];
        assert_eq!(session.machine().bodies()[2..4], expected);
        let ran: Vec<String> = lab.tools.called().into_iter().map(|called| called.0).collect();
        assert_eq!(ran, ["c2"]);
    }
}

#[test]
fn a_call_that_is_stopped_is_answered_as_interrupted_in_every_dialect() {
    for dialect in ALL {
        let lab = Lab::empty();
        let session = session_of(&lab, dialect);
        lab.tools.on("c2", |_, _| std::future::pending());
        let mut both = calls(dialect, &[add("c1", 1), add("c2", 2)]);
        if dialect == Loop {
            both["timestamp"] = json!(6);
        }
        lab.model.answers(both.clone());
        let content = json!("add");
        let options = PromptOptions::default();
        let prompt = waits(&lab.world, session.prompt(&content, &options));
        let stopping = waits(&lab.world, session.abort());
        assert_eq!(prompt.done().unwrap().end.outcome, Outcome::Cancelled);
        stopping.done();
        let expected = [
            typed(dialect, "add", 2_000),
            both,
            result_at(dialect, "c1", "add", "add done", false, 2_000),
            result_at(dialect, "c2", "add", CUT_OFF, true, 6),
        ];
        assert_eq!(session.machine().bodies(), expected, "{dialect:?}");
    }
}

#[test]
fn an_answer_that_was_cut_off_is_stored_and_not_shown_again_in_any_dialect() {
    for dialect in ALL {
        for stop in [StopKind::Error, StopKind::Aborted] {
            let lab = Lab::empty();
            let session = session_of(&lab, dialect);
            // With a call that nobody runs.
            let partial = calls(dialect, &[add("c1", 1)]);
            let content = json!("hello");
            let options = PromptOptions::default();
            let then = match stop {
                StopKind::Error => Step::fail("no network"),
                StopKind::Aborted => Step::silence(),
            };
            lab.model.then(Step::updates(vec![partial.clone()], then));
            let prompt = waits(&lab.world, session.prompt(&content, &options));
            let stopping = waits(&lab.world, session.abort());
            let outcome = prompt.done().unwrap().end.outcome;
            stopping.done();
            assert_eq!(outcome == Outcome::Error, stop == StopKind::Error);
            assert_eq!((session.machine().message_count(), lab.tools.calls()), (2, 0));
            if dialect != Loop {
                assert_eq!(session.machine().bodies()[1], partial, "{dialect:?}");
            }
            let (lab, session) = again(&lab);
            let outline = session.machine().outlines()[1].clone();
            assert_eq!((outline.role, outline.stop), (Role::Assistant, Some(stop)));
            lab.model.answers(says(dialect, "hi"));
            lab.prompt(&session, "again").unwrap();
            let expected = [typed(dialect, "hello", 2_000), typed(dialect, "again", 2_000)];
            assert_eq!(last_shown(&lab), expected, "{dialect:?}");
        }
    }
}

#[test]
fn a_turn_that_a_restart_cut_off_goes_on_in_every_dialect() {
    for dialect in ALL {
        let lab = Lab::empty();
        let session = session_of(&lab, dialect);
        let mut both = calls(dialect, &[add("c1", 1), add("c2", 2)]);
        if dialect == Loop {
            both["timestamp"] = json!(6);
        }
        lab.run(async {
            let turn = dispatched(&session, "add").await;
            turn.append(vec![incoming(both.clone())]).await.unwrap();
            allow(&session, &["c1"]).await;
            let one = result(dialect, "c1", "add", "done", false);
            turn.append(vec![incoming(one)]).await.unwrap();
        });
        let (lab, session) = again(&lab);
        let interrupted = session.machine().interrupted().unwrap();
        let open = ToolCall {
            id: "c2".to_owned(),
            name: "add".to_owned(),
            arguments: json!({ "n": 2 }),
        };
        assert_eq!(interrupted.unanswered, [open], "{dialect:?}");
        lab.model.answers(says(dialect, "one of two"));
        let report = lab.run(session.resume_prompt(&Signal::default())).unwrap();
        assert_eq!(report.end.outcome, Outcome::Success);
        let expected = [
            typed(dialect, "add", 2_000),
            both,
            result(dialect, "c1", "add", "done", false),
            result_at(dialect, "c2", "add", CUT_OFF, true, 6),
            says(dialect, "one of two"),
        ];
        assert_eq!(session.machine().bodies(), expected, "{dialect:?}");
        assert_eq!(last_shown(&lab), expected[..4]);
    }
}

#[test]
fn results_count_only_for_calls_that_were_allowed_in_every_dialect() {
    for dialect in ALL {
        let lab = Lab::empty();
        let session = session_of(&lab, dialect);
        let write = ToolCall {
            id: "c1".to_owned(),
            name: "write_file".to_owned(),
            arguments: json!({}),
        };
        let turn = lab.run(dispatched(&session, "write"));
        let message = calls(
            dialect,
            &[("c1", "write_file", json!({})), ("c2", "add", json!({}))],
        );
        lab.run(turn.append(vec![incoming(message)])).unwrap();
        let decided = lab.run(turn.gate(&write)).unwrap();
        assert_eq!(decided.decision.outcome, Action::Require);
        lab.run(allow(&session, &["c2"]));
        let done = |id: &str, name: &str| result(dialect, id, name, "done", false);
        let error = refused(lab.run(turn.append(vec![incoming(done("c1", "write_file"))])));
        assert_eq!(error.code(), ErrorCode::ToolNotGated, "{dialect:?}");
        // That it may not run can be told, in the words of the gate where nothing else says so.
        let told = result(dialect, "c1", "write_file", &decided.decision.message, true);
        let mut results = vec![told, done("c2", "add")];
        if matches!(dialect, Anthropic | AiSdk) {
            // In one message, each result stands for itself.
            let ran = json!([done("c1", "write_file")["content"][0], results[1]["content"][0]]);
            let mut message = results[0].clone();
            message["content"] = ran;
            let error = refused(lab.run(turn.append(vec![incoming(message.clone())])));
            assert_eq!(error.code(), ErrorCode::ToolNotGated, "{dialect:?}");
            message["content"] = json!([results[0]["content"][0], results[1]["content"][0]]);
            results = vec![message];
        }
        for message in results {
            lab.run(turn.append(vec![incoming(message)])).unwrap();
        }
        assert!(turn.open_calls().is_empty(), "{dialect:?}");
        let (request, report) = turn.request().unwrap();
        check_pairs_in(dialect, &request.messages()).unwrap();
        assert!(report.notices.is_empty());
        assert!(
            report
                .projection()
                .sources
                .iter()
                .all(|it| matches!(it, Source::History { .. }))
        );
    }
}

#[test]
fn a_denied_call_is_told_in_the_words_of_the_gate_where_results_cannot_fail() {
    let lab = Lab::empty();
    let session = session_of(&lab, OpenAiChat);
    let rule = json!({ "tool_pattern": "add", "action": "deny", "priority": 1 });
    let change = runcontext::permissions::PermissionChange::AddRule(rule);
    lab.run(lab.runtime.permissions().change(&change)).unwrap();
    let turn = lab.run(dispatched(&session, "add"));
    let message = calls(OpenAiChat, &[add("c1", 1), add("c2", 2)]);
    lab.run(turn.append(vec![incoming(message)])).unwrap();
    let call = session.machine().open_tool_calls()[0].clone();
    let decided = lab.run(turn.gate(&call)).unwrap();
    assert_eq!(decided.decision.outcome, Action::Deny);
    let told = |id: &str, text: &str| incoming(result(OpenAiChat, id, "add", text, false));
    let text = decided.decision.message.as_str();
    // Not of another call, and not with more.
    for wrong in [
        told("c2", text),
        told("c1", &format!("{text} But 3.")),
        told("c1", ""),
    ] {
        let error = refused(lab.run(turn.append(vec![wrong])));
        assert_eq!(error.code(), ErrorCode::ToolNotGated);
    }
    lab.run(turn.append(vec![told("c1", text)])).unwrap();
    assert_eq!(turn.open_calls().len(), 1);
}

#[test]
fn what_a_person_refused_is_told_in_those_words_where_results_cannot_fail() {
    let lab = Lab::empty();
    let session = session_of(&lab, OpenAiChat);
    let turn = lab.run(dispatched(&session, "write"));
    let message = calls(OpenAiChat, &[("c1", "write_file", json!({}))]);
    lab.run(turn.append(vec![incoming(message)])).unwrap();
    let call = session.machine().open_tool_calls()[0].clone();
    let id = lab.run(turn.gate(&call)).unwrap().decision.request_id.unwrap();
    let no = Answer::Reject(Some("not now".to_owned()));
    lab.run(lab.runtime.answer(&id, no, None)).unwrap();
    let told = |text: &str| incoming(result(OpenAiChat, "c1", "write_file", text, false));
    let error = refused(lab.run(turn.append(vec![told("User rejected this tool call.")])));
    assert_eq!(error.code(), ErrorCode::ToolNotGated);
    let text = "User rejected this tool call. Reason: not now";
    lab.run(turn.append(vec![told(text)])).unwrap();
    assert!(turn.open_calls().is_empty());
}

#[test]
fn a_tool_that_is_not_there_is_told_the_model_in_every_dialect() {
    for dialect in ALL {
        let lab = Lab::empty();
        let session = session_of(&lab, dialect);
        lab.model
            .answers(calls(dialect, &[("c1", "fly", json!({}))]))
            .answers(says(dialect, "then not"));
        let report = lab.prompt(&session, "fly").unwrap();
        assert_eq!(report.end.outcome, Outcome::Success, "{dialect:?}");
        let text = "there is no tool named `fly`";
        let expected = result_at(dialect, "c1", "fly", text, true, 2_000);
        assert_eq!(session.machine().bodies()[2], expected);
    }
}

#[test]
fn an_answer_with_a_call_without_an_id_is_kept_as_one_that_failed_in_every_dialect() {
    for dialect in ALL {
        let lab = Lab::empty();
        let session = session_of(&lab, dialect);
        let nameless = calls(dialect, &[("", "add", json!({}))]);
        lab.model.answers(nameless.clone());
        let report = lab.prompt(&session, "add").unwrap();
        let text = "the answer has a tool call without an `id`; ask the model again";
        assert_eq!(report.end.outcome, Outcome::Error);
        assert_eq!(report.end.error.as_deref(), Some(text), "{dialect:?}");
        assert_eq!(lab.tools.calls(), 0);
        if dialect != Loop {
            assert_eq!(session.machine().bodies()[1], nameless);
        }
        lab.model.answers(says(dialect, "hi"));
        lab.prompt(&session, "again").unwrap();
        let expected = [typed(dialect, "add", 2_000), typed(dialect, "again", 2_000)];
        assert_eq!(last_shown(&lab), expected);
    }
}

#[test]
fn messages_of_another_dialect_are_refused_and_change_nothing() {
    for dialect in ALL {
        for other in ALL.into_iter().filter(|other| *other != dialect) {
            let lab = Lab::empty();
            let session = session_of(&lab, dialect);
            let foreign = calls(other, &[add("c1", 1)]);
            let turn = lab.run(dispatched(&session, "add"));
            let before = lab.stored();
            let error = refused(lab.run(turn.append(vec![incoming(foreign.clone())])));
            assert_eq!(error.code(), ErrorCode::DialectMismatch, "{dialect:?} {other:?}");
            assert_eq!(lab.stored(), before);
            // A result before its call, and one twice.
            let own = incoming(calls(dialect, &[add("c1", 1)]));
            let done = incoming(result(dialect, "c1", "add", "done", false));
            for batch in [vec![done.clone(), own.clone()], vec![own, done.clone(), done]] {
                let lenient = Lab::lenient();
                let session = session_of(&lenient, dialect);
                let turn = lenient.run(dispatched(&session, "add"));
                let error = refused(lenient.run(turn.append(batch)));
                assert_eq!(error.code(), ErrorCode::InvalidArgument);
                assert_eq!(session.machine().message_count(), 1);
            }
            lab.run(turn.cancel()).unwrap();
            // What the model answers in another dialect ends the turn, and says so.
            lab.model.answers(foreign);
            let end = lab.prompt(&session, "again").unwrap().end;
            assert_eq!(end.outcome, Outcome::Error);
            assert!(end.error.unwrap().contains(other.as_str()));
        }
    }
}

#[test]
fn two_calls_with_one_id_are_each_answered_in_every_dialect() {
    for dialect in ALL {
        let lab = Lab::empty();
        let session = session_of(&lab, dialect);
        lab.model
            .answers(calls(dialect, &[add("c1", 1), add("c1", 2)]))
            .answers(says(dialect, "three"));
        lab.prompt(&session, "add").unwrap();
        let arguments: Vec<Value> = lab.tools.called().into_iter().map(|called| called.2).collect();
        assert_eq!(arguments, [json!({ "n": 1 }), json!({ "n": 2 })]);
        check_pairs_in(dialect, &last_shown(&lab)).unwrap();
        assert_eq!(last_shown(&lab).len(), 4);
    }
}

#[test]
fn results_that_somebody_typed_answer_nothing_that_is_over() {
    let lab = Lab::empty();
    let session = session_of(&lab, Anthropic);
    let stray = result(Anthropic, "c1", "add", "done", false);
    let error = refused(at_once(session.begin(&stray, &PromptOptions::default())));
    assert_eq!(error.code(), ErrorCode::InvalidArgument);
    let mut mixed = stray;
    let text = json!({ "type": "text", "text": "and now?" });
    mixed["content"].as_array_mut().unwrap().push(text.clone());
    lab.model.answers(says(Anthropic, "hm"));
    lab.prompt_with(&session, &mixed, &PromptOptions::default())
        .unwrap();
    let seen = lab.model.seen().pop().unwrap();
    assert_eq!(
        seen.request.messages(),
        [json!({ "role": "user", "content": [text] })]
    );
    let codes: Vec<NoticeCode> = seen.report.notices.iter().map(|notice| notice.code).collect();
    assert_eq!(codes, [NoticeCode::UserMessageMixed, NoticeCode::ResultLeftOut]);
    assert_eq!(session.machine().bodies()[0], mixed);
    // In a turn, what was typed has no place.
    let turn = lab.run(dispatched(&session, "more"));
    let error = refused(lab.run(turn.append(vec![incoming(mixed)])));
    assert_eq!(error.code(), ErrorCode::InvalidArgument);
}

#[test]
fn arguments_that_are_no_json_reach_the_gate_and_the_tool_as_they_are() {
    let lab = Lab::empty();
    let session = session_of(&lab, OpenAiChat);
    let mut cut = calls(OpenAiChat, &[add("c1", 1)]);
    cut["tool_calls"][0]["function"]["arguments"] = json!("{\"n\": 1");
    lab.model.answers(cut.clone()).answers(says(OpenAiChat, "hm"));
    lab.prompt(&session, "add").unwrap();
    assert_eq!(lab.tools.called()[0].2, json!("{\"n\": 1"));
    assert_eq!(session.machine().bodies()[1], cut);
}
