//! How long it takes in a long session: printed, not judged. What is judged is that a commit costs what is new.

use std::{fmt::Debug, rc::Rc, time::Instant};

use runcontext::{
    context::project,
    message::{Dialect, MessageIndex},
    runtime::PromptOptions,
    session::Outcome,
    storage::{AppendedMessage, Commit, OUTLINES_PER_PACK, OutlinePack, Storage},
};
use serde_json::{Value, json};

use crate::lab::{ID, Lab, at_once, calls, incoming, result, run, says, user};

fn timed<T>(what: impl Debug, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let done = work();
    println!("{what:?}: {:?}", start.elapsed());
    done
}

#[test]
fn in_a_session_of_twenty_thousand_messages_a_commit_holds_what_is_new() {
    let lab = Lab::lenient();
    let session = lab.create();
    let origin = session.machine().origin().to_owned();
    session.dispose().unwrap();
    let messages: Vec<Value> = (0..20_000_u32)
        .map(|at| match at % 4 {
            0 => user("some words", u64::from(at)),
            1 => calls(&[("c", "add", json!({ "n": at }))]),
            2 => result("c", "add", "more words"),
            _ => says("an answer in words"),
        })
        .collect();
    let outlines: Vec<_> = messages
        .iter()
        .map(|message| Dialect::Loop.outline(message, true).unwrap())
        .collect();
    let commit = Commit {
        session_id: ID.to_owned(),
        operation_id: "imported".to_owned(),
        timestamp: 1.0,
        create: None,
        origin,
        expected: Some(1),
        messages: messages
            .into_iter()
            .zip(0..)
            .map(|(body, index)| AppendedMessage {
                index: MessageIndex(index),
                body,
            })
            .collect(),
        outline_packs: outlines
            .chunks(OUTLINES_PER_PACK as usize)
            .zip(0..)
            .map(|(outlines, pack)| OutlinePack {
                pack,
                outlines: outlines.to_vec(),
            })
            .collect(),
        snapshots: Vec::new(),
        checkpoints: Vec::new(),
        approvals: Vec::new(),
        compactions: Vec::new(),
        settings: Default::default(),
    };
    let stored = lab.storage.memory.session(ID);
    run(&lab.world, stored.commit(Rc::new(commit))).unwrap();
    let session = timed("open", || lab.open());
    let turn = timed("begin", || {
        at_once(session.begin(&json!("hello"), &PromptOptions::default())).unwrap()
    });
    timed("first request", || turn.request().unwrap());
    timed("second request", || turn.request().unwrap());
    timed("the plan of it alone", || {
        project(session.machine().outlines(), &[], None).unwrap()
    });
    timed("the bodies of it alone", || session.machine().bodies().to_vec());
    timed("dispatched", || lab.run(turn.dispatched()).unwrap());
    let message = calls(&[("a", "add", json!({}))]);
    timed("append", || {
        lab.run(turn.append(vec![incoming(message)])).unwrap()
    });
    timed("append a result", || {
        lab.run(turn.append(vec![incoming(result("a", "add", "x"))]))
            .unwrap();
    });
    timed("continuation", || turn.request().unwrap());
    timed("finish", || lab.run(turn.finish(Outcome::Success, None)).unwrap());
    let sizes: Vec<(usize, usize, usize)> = lab.storage.applied()[1..]
        .iter()
        .map(|commit| {
            let outlines = commit.outline_packs.iter().map(|pack| pack.outlines.len()).sum();
            (commit.messages.len(), commit.outline_packs.len(), outlines)
        })
        .collect();
    // 20,000 is 156 packs of 128 and 32 more.
    assert_eq!(sizes, [(1, 1, 33), (1, 1, 34), (1, 1, 35), (0, 0, 0)]);
}

#[test]
fn an_answer_with_two_thousand_calls_is_no_more_than_that() {
    let lab = Lab::empty();
    let session = lab.create();
    let ids: Vec<String> = (0..2_000).map(|at| format!("c{at}")).collect();
    let many: Vec<(&str, &str, Value)> = ids
        .iter()
        .zip(0..)
        .map(|(id, at)| (id.as_str(), "add", json!({ "n": at })))
        .collect();
    lab.model.answers(calls(&many)).answers(says("done"));
    timed("two thousand calls", || lab.prompt(&session, "go").unwrap());
    assert_eq!(session.machine().message_count(), 2_003);
    let called = lab.tools.called();
    assert_eq!(called.len(), 2_000);
    assert_eq!(
        called[1_999],
        ("c1999".to_owned(), "add".to_owned(), json!({ "n": 1_999 }))
    );
}
