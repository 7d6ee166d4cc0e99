//! A person is asked, and answers.

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use runcontext::{
    ErrorCode,
    runtime::{ApprovalOutcome, PromptOptions, Signal},
    session::{NewSession, Outcome},
};
use serde_json::{Value, json};

use super::{Page, called, conversation, known, message, told, writes_file};
use crate::lab::{ID, interrupted, refused, says, user, waits};

#[test]
fn a_prompt_waits_for_an_answer_and_another_session_goes_on_meanwhile() {
    let page = Page::empty();
    let session = page.create_with(json!({ "agentId": "main", "source": "chat" }));
    page.lab.run(session.set_title("Notes".to_owned())).unwrap();
    page.lab.events();
    page.lab
        .model
        .answers(message(&[writes_file("c1", "a.txt")]))
        .answers(says("ok"))
        .answers(says("done"));
    let mut prompting = page.prompting(&session);
    assert!(!prompting.go_on());

    let asked = page.lab.run(page.lab.runtime.pending_approvals()).unwrap();
    let [(of, approval)] = asked.as_slice() else {
        panic!("{asked:?}");
    };
    assert_eq!(
        (of.as_str(), approval.call.clone()),
        (ID, writes_file("c1", "a.txt"))
    );
    assert_eq!(
        (
            approval.agent_id.as_deref(),
            approval.source.as_deref(),
            approval.label.as_deref()
        ),
        (Some("main"), Some("chat"), Some("Notes"))
    );
    assert_eq!(
        (
            approval.category.as_deref(),
            approval.mcp_server.as_deref(),
            approval.created_at
        ),
        (Some("files"), None, 2_000.0)
    );
    assert_eq!(
        (approval.reason.as_str(), approval.message.as_str()),
        (
            "rule",
            "`write_file` on `a.txt` needs a person's approval: a rule says so"
        )
    );
    let paths: Vec<_> = approval
        .paths
        .iter()
        .map(|path| {
            (
                path.requested.as_str(),
                path.lexical.as_str(),
                path.canonical.as_deref(),
            )
        })
        .collect();
    assert_eq!(paths, [("a.txt", "/ws/a.txt", Some("/ws/a.txt"))]);

    let other = NewSession {
        id: Some("other".to_owned()),
        ..NewSession::default()
    };
    let other = page.lab.run(page.lab.runtime.create_session(other)).unwrap();
    assert!(page.lab.prompt(&other, "hello").unwrap().saved);
    assert!(!prompting.go_on());
    assert_eq!(page.ran(), [] as [&str; 0]);

    let answered = page.approve(&approval.id).unwrap();
    assert_eq!(answered.outcome, ApprovalOutcome::Approved);
    let report = prompting.done().unwrap();
    assert_eq!((report.end.outcome, report.saved), (Outcome::Success, true));
    assert_eq!(page.ran(), ["c1"]);
    assert_eq!(page.lab.tools.called()[0].2, json!({ "path": "a.txt" }));
    assert_eq!(
        conversation(&page),
        [
            user("go on", 2_000),
            message(&[writes_file("c1", "a.txt")]),
            told("c1", "write_file", "done", false),
            says("done")
        ]
    );
    assert_eq!(page.stored(), []);
    let events = page.lab.events();
    let of_approvals: Vec<_> = events
        .iter()
        .filter(|event| ["asked", "approved"].contains(&event.as_str()))
        .collect();
    assert_eq!(of_approvals, ["asked", "approved"]);
}

#[test]
fn a_call_that_is_rejected_never_runs_and_the_model_is_told_why() {
    let told_of = [
        (Some("not now"), "User rejected this tool call. Reason: not now"),
        (Some(" "), "User rejected this tool call."),
        (None, "User rejected this tool call."),
    ];
    for (note, text) in told_of {
        let page = Page::empty();
        let session = page.create();
        let call = called("c1", "run", json!({ "command": "ls" }));
        page.lab
            .model
            .answers(message(std::slice::from_ref(&call)))
            .answers(says("pity"));
        let prompting = page.prompting(&session);
        let answer = runcontext::runtime::Answer::Reject(note.map(str::to_owned));
        let answered = page.answer(&page.only(), answer).unwrap();
        assert_eq!(answered.outcome, ApprovalOutcome::Rejected);
        assert_eq!(answered.message.as_deref(), Some(text));
        let report = prompting.done().unwrap();
        assert_eq!((report.end.outcome, report.saved), (Outcome::Success, true));
        assert_eq!(page.ran(), [] as [&str; 0]);
        let refusal = told("c1", "run", text, true);
        assert_eq!(conversation(&page)[2], refusal);
        assert_eq!(page.lab.model.seen()[1].request.messages()[2], refusal);
        assert_eq!(page.stored(), []);
    }
}

#[test]
fn nobody_is_asked_where_nobody_can_answer() {
    let page = Page::empty();
    let session = page.create_with(json!({ "headless": true }));
    page.lab
        .model
        .answers(message(&[writes_file("c1", "a.txt")]))
        .answers(says("pity"));
    page.prompting(&session).done().unwrap();
    assert_eq!(page.lab.tools.calls(), 0);
    let refusal = "`write_file` on `a.txt` is denied: nobody can be asked";
    assert_eq!(conversation(&page)[2], told("c1", "write_file", refusal, true));
    assert!(!page.lab.events().contains(&"asked".to_owned()));
    let applied = page.lab.storage.applied();
    assert!(applied.iter().all(|commit| commit.approvals.is_empty()));
}

#[test]
fn stopping_the_prompt_ends_what_was_asked_and_answers_the_calls_as_interrupted() {
    for by_signal in [false, true] {
        let page = Page::empty();
        let session = page.create();
        let stop = Signal::default();
        let options = PromptOptions {
            abort: stop.clone(),
            ..PromptOptions::default()
        };
        let of = [writes_file("c1", "a.txt"), called("c2", "run", json!({}))];
        page.lab.model.answers(message(&of));
        page.lab.world.at(2_000.0);
        let content = json!("go on");
        let mut prompting = waits(&page.lab.world, session.prompt(&content, &options));
        assert!(!prompting.go_on());
        let asked = page.asked();
        assert_eq!(asked.len(), 2);
        if by_signal {
            stop.fire();
        } else {
            drop(waits(&page.lab.world, session.abort()));
        }
        let report = prompting.done().unwrap();
        assert_eq!((report.end.outcome, report.saved), (Outcome::Cancelled, true));
        assert_eq!(
            conversation(&page)[2..],
            [interrupted("c1", "write_file", 6), interrupted("c2", "run", 6)]
        );
        assert_eq!((page.stored(), page.asked()), (known(&[]), Vec::<String>::new()));
        assert_eq!(session.machine().approvals(), []);
        for id in asked {
            assert_eq!(refused(page.approve(&id)).code(), ErrorCode::ApprovalNotFound);
        }
        assert_eq!(page.lab.tools.calls(), 0);
    }
}

#[test]
fn two_calls_of_one_message_are_asked_at_once_and_answered_in_any_order() {
    for reject_one in [false, true] {
        let page = Page::empty();
        let session = page.create();
        let (first, second) = (writes_file("c1", "a.txt"), called("c2", "run", json!({})));
        page.lab
            .model
            .answers(message(&[first, second]))
            .answers(says("done"));
        let mut prompting = page.prompting(&session);
        assert_eq!(page.stored(), known(&[("c1", "pending"), ("c2", "pending")]));
        let of = |call: &str| {
            let machine = session.machine();
            let mut all = machine.approvals().iter();
            all.find(|it| it.call.id == call).unwrap().id.clone()
        };
        page.approve(&of("c2")).unwrap();
        assert!(!prompting.go_on());
        assert_eq!(page.ran(), ["c2"], "what is approved does not wait for the other");
        if reject_one {
            page.reject(&of("c1"), "no").unwrap();
        } else {
            page.approve(&of("c1")).unwrap();
        }
        prompting.done().unwrap();
        let results: Vec<Value> = conversation(&page)[2..4].to_vec();
        if reject_one {
            assert_eq!(page.ran(), ["c2"]);
            let refusal = "User rejected this tool call. Reason: no";
            assert_eq!(results[0], told("c1", "write_file", refusal, true));
        } else {
            assert_eq!(page.ran(), ["c2", "c1"]);
            assert_eq!(results[0], told("c1", "write_file", "done", false));
        }
        assert_eq!(results[1], told("c2", "run", "done", false));
        assert_eq!(page.stored(), []);
    }
}

#[test]
fn two_calls_of_one_message_that_share_an_id_are_asked_about_each_for_itself() {
    let page = Page::empty();
    let session = page.create();
    page.lab
        .model
        .answers(message(&[writes_file("c1", "a.txt"), writes_file("c1", "b.txt")]))
        .answers(says("done"));
    let mut prompting = page.prompting(&session);
    let asked = page.asked();
    assert_eq!(asked.len(), 2);
    assert!(!prompting.go_on());
    page.reject(&asked[1], "not that").unwrap();
    page.approve(&asked[0]).unwrap();
    prompting.done().unwrap();
    let ran: Vec<Value> = page
        .lab
        .tools
        .called()
        .into_iter()
        .map(|(.., arguments)| arguments)
        .collect();
    assert_eq!(ran, [json!({ "path": "a.txt" })]);
    let refusal = "User rejected this tool call. Reason: not that";
    assert_eq!(
        conversation(&page)[2..4],
        [
            told("c1", "write_file", "done", false),
            told("c1", "write_file", refusal, true)
        ]
    );
    assert_eq!(page.stored(), []);
}

#[test]
fn an_answer_that_was_given_cannot_be_given_again() {
    let page = Page::empty();
    let session = page.create();
    page.lab
        .model
        .answers(message(&[writes_file("c1", "a.txt"), writes_file("c2", "b.txt")]))
        .answers(says("done"));
    let prompting = page.prompting(&session);
    let asked = page.asked();
    page.approve(&asked[0]).unwrap();
    page.reject(&asked[1], "no").unwrap();
    let before = page.lab.stored();
    for id in [asked[0].as_str(), asked[1].as_str(), "unknown"] {
        assert_eq!(refused(page.approve(id)).code(), ErrorCode::ApprovalNotFound);
        let error = refused(page.reject(id, "no"));
        assert_eq!(error.code(), ErrorCode::ApprovalNotFound);
        assert_eq!(error.data()["requestId"], id);
    }
    assert_eq!(page.lab.stored(), before);
    prompting.done().unwrap();
    assert_eq!(
        refused(page.approve(&asked[0])).code(),
        ErrorCode::ApprovalNotFound
    );
    assert_eq!(page.ran(), ["c1"]);
}
