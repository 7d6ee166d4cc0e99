//! Turns of every kind, the same for the same seed.

use std::rc::Rc;

use runcontext::{
    permissions::Preset,
    runtime::{PromptOptions, Session},
    session::Outcome,
};
use serde_json::{Value, json};

use crate::{
    expect::{HAIKU, HAIKU_ID, HAIKU_LOCATION, allow},
    lab::{Lab, at_once, calls, incoming, random::Random, result, says},
};

/// An answer of a random kind. Ids are not always new.
pub fn answer(random: &mut Random, number: &mut usize) -> Value {
    let names: Vec<String> = (0..random.below(4))
        .map(|_| {
            *number += 1;
            format!("c{}", *number - random.below(2))
        })
        .collect();
    let named: Vec<(&str, &str, Value)> = names.iter().map(|id| (id.as_str(), "add", json!({}))).collect();
    let mut message = if named.is_empty() {
        says(&format!("words {}", random.below(9)))
    } else {
        calls(&named)
    };
    match random.below(8) {
        0 => message["stopReason"] = json!("error"),
        1 => message["stopReason"] = json!("aborted"),
        _ => {}
    }
    message
}

/// Runs six turns, and changes settings between them. `at_rest` is called before each change and each turn.
pub fn random_turns(lab: &Lab, session: &Rc<Session<Value>>, seed: u64, at_rest: &mut dyn FnMut()) {
    let mut random = Random::new(seed);
    let mut number = 0;
    lab.run(lab.runtime.add_skill(HAIKU, HAIKU_LOCATION, "project"))
        .unwrap();
    for turn in 0..6 {
        at_rest();
        lab.world.at(f64::from(turn) * 1_000.0 + 2_000.0);
        // A write that fails is pending, and reported; the change holds.
        let _pending = match random.below(4) {
            0 => lab.run(session.set_preset(Some(Preset::WorkspaceWrite))),
            1 => lab.run(session.set_preset(None)),
            2 => lab.run(session.set_title(format!("title {turn}"))),
            _ => Ok(()),
        };
        at_rest();
        let skills = match random.one_in(3) {
            true => vec![HAIKU_ID.to_owned()],
            false => Vec::new(),
        };
        let options = PromptOptions {
            skills,
            ..PromptOptions::default()
        };
        let turn = at_once(session.begin(&json!("typed"), &options)).unwrap();
        loop {
            turn.request().unwrap();
            if random.one_in(12) {
                lab.run(turn.cancel()).unwrap();
                break;
            }
            lab.run(turn.dispatched()).unwrap();
            if random.one_in(10) {
                lab.run(turn.finish(Outcome::Error, Some("overloaded".to_owned())))
                    .unwrap();
                break;
            }
            lab.run(turn.append(vec![incoming(answer(&mut random, &mut number))]))
                .unwrap();
            let mut open = turn.open_calls();
            while !open.is_empty() && !random.one_in(6) {
                let call = open.remove(random.below(open.len()));
                lab.run(allow(session, &[call.id.as_str()]));
                lab.run(turn.append(vec![incoming(result(&call.id, "add", "done"))]))
                    .unwrap();
                open = turn.open_calls();
            }
            if !open.is_empty() || random.one_in(3) {
                lab.run(turn.finish(Outcome::Success, None)).unwrap();
                break;
            }
        }
    }
}
