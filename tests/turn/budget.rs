//! What a request is estimated at, what becomes of one that does not fit, and what a provider's own report makes of the estimate.

use std::{cell::RefCell, future::ready, rc::Rc};

use runcontext::{
    ErrorCode,
    context::{BudgetParts, CompactionCheckpoint, ContextBudget},
    message::{Dialect, MessageIndex},
    runtime::{PromptOptions, Session, SessionEvent},
    session::{ModelRef, NewSession, Outcome},
    storage::Commit,
};
use serde_json::{Value, json};

use crate::{
    lab::{
        ID, Lab, at_once, calls, incoming, model_ref, refused, result, says, spoken,
        tokens::{json_tokens, tokens},
    },
    shown::store,
};

fn model(window: u32) -> ModelRef {
    ModelRef {
        context_window: Some(window),
        max_tokens: Some(100),
        ..model_ref("m")
    }
}

/// Every budget that listeners hear of.
fn heard(session: &Session<Value>) -> Rc<RefCell<Vec<ContextBudget>>> {
    let budgets = Rc::new(RefCell::new(Vec::new()));
    let heard = budgets.clone();
    session.subscribe(Rc::new(move |event| {
        if let SessionEvent::Budget { budget } = event {
            heard.borrow_mut().push(*budget);
        }
        Ok(())
    }));
    budgets
}

/// The budget of the next request, and what it costs per source.
fn next(lab: &Lab, session: &Rc<Session<Value>>, text: &str) -> (ContextBudget, Vec<u32>) {
    let turn = at_once(session.begin(&json!(text), &PromptOptions::default())).unwrap();
    let (_, report) = turn.request().unwrap();
    lab.run(turn.cancel()).unwrap();
    (report.budget, report.tokens())
}

fn sum(parts: BudgetParts) -> u32 {
    parts.system_prompt + parts.tools + parts.messages + parts.skills + parts.legacy_context + parts.summary
}

// ---- what does not fit -------------------------------------------------------------------------------------------

#[test]
fn a_prompt_that_does_not_fit_is_refused_before_anything_is_stored_or_sent() {
    let lab = Lab::empty();
    let session = lab.create();
    lab.run(session.configure(Some(Some(model(2_000))), None, None))
        .unwrap();
    let (before, budgets) = (lab.stored(), heard(&session));
    let long = "word ".repeat(2_000);
    let error = refused(lab.prompt(&session, &long));
    assert_eq!(error.code(), ErrorCode::BudgetExceeded);
    let budget = session.machine().budget().unwrap();
    // Each word is 1,235 thousandths.
    assert_eq!(budget.parts.messages, 2_470);
    let needed = 2_470 + budget.parts.system_prompt + budget.parts.tools;
    assert_eq!(
        error.message(),
        format!(
            "the request needs about {needed} tokens, and 1900 of the model's 2000 are left for it; shorten it, compact the session, or choose a model with a larger window"
        )
    );
    let data = json!({ "contextWindow": 2_000, "inputLimit": 1_900, "reservedOutputTokens": 100, "estimatedInputTokens": needed });
    assert_eq!(json!(error.data()), data);
    assert_eq!((lab.stored(), lab.model.calls()), (before, 0));
    assert!(!session.machine().is_running());
    assert_eq!(*budgets.borrow(), [budget]);
    assert!(!budget.fits);
    // What fits is sent.
    lab.model.answers(says("hi"));
    lab.prompt(&session, "short").unwrap();
    assert_eq!(budgets.borrow().len(), 2);
    assert!(budgets.borrow()[1].fits);
    assert_eq!(session.machine().budget(), Some(budgets.borrow()[1]));
}

#[test]
fn a_host_is_told_of_each_request_once_and_ends_a_turn_that_does_not_fit_itself() {
    let lab = Lab::lenient();
    let session = lab.create();
    lab.run(session.configure(Some(Some(model(2_000))), None, None))
        .unwrap();
    let budgets = heard(&session);
    let options = PromptOptions::default();
    let before = lab.stored();
    let turn = at_once(session.begin(&json!("word ".repeat(2_000)), &options)).unwrap();
    for _ in 0..2 {
        assert_eq!(refused(turn.request()).code(), ErrorCode::BudgetExceeded);
    }
    assert_eq!(
        refused(lab.run(turn.dispatched())).code(),
        ErrorCode::InvalidArgument
    );
    lab.run(turn.cancel()).unwrap();
    assert_eq!((lab.stored(), budgets.borrow().len()), (before, 2));
    let turn = at_once(session.begin(&json!("short"), &options)).unwrap();
    assert_eq!(turn.request().unwrap(), turn.request().unwrap());
    lab.run(turn.dispatched()).unwrap();
    assert_eq!(budgets.borrow().len(), 3);
    lab.run(turn.append(vec![incoming(calls(&[("c1", "add", json!({}))]))]))
        .unwrap();
    lab.run(turn.append(vec![incoming(result("c1", "add", &"word ".repeat(2_000)))]))
        .unwrap();
    // Too large now: what arrived is kept, and the turn waits for its end.
    assert_eq!(refused(turn.request()).code(), ErrorCode::BudgetExceeded);
    let report = lab
        .run(turn.finish(Outcome::Error, Some("too long".to_owned())))
        .unwrap();
    assert_eq!((report.end.outcome, report.saved), (Outcome::Error, true));
    assert_eq!(session.machine().message_count(), 3);
}

#[test]
fn a_turn_that_does_not_fit_any_more_ends_as_an_error_and_keeps_what_arrived() {
    let lab = Lab::empty();
    let session = lab.create();
    lab.run(session.configure(Some(Some(model(2_000))), None, None))
        .unwrap();
    let long = "word ".repeat(2_000);
    lab.model.answers(calls(&[("c1", "add", json!({ "n": 1 }))]));
    lab.tools
        .on("c1", move |_, _| ready(Ok(json!("word ".repeat(2_000)))));
    let report = lab.prompt(&session, "add").unwrap();
    assert_eq!((report.end.outcome, report.saved), (Outcome::Error, true));
    let error = report.end.error.unwrap();
    assert!(
        error.contains("the request needs about ") && error.contains("1900 of the model's 2000"),
        "{error}"
    );
    assert_eq!((lab.model.calls(), lab.tools.calls()), (1, 1));
    assert_eq!(session.machine().message_count(), 3);
    assert_eq!(
        lab.open().machine().bodies()[2]["content"][0]["text"],
        json!(long)
    );
}

#[test]
fn a_model_that_leaves_no_room_for_a_request_is_refused() {
    let lab = Lab::empty();
    for reserved in [1_000, 1_001] {
        let model = ModelRef {
            context_window: Some(1_000),
            max_tokens: Some(reserved),
            ..model_ref("m")
        };
        let options = NewSession {
            model: Some(model.clone()),
            ..NewSession::default()
        };
        let created = refused(lab.run(lab.runtime.create_session(options)).map(|_| ()));
        let session = lab
            .run(lab.runtime.create_session(NewSession::default()))
            .unwrap();
        let configured = refused(lab.run(session.configure(Some(Some(model)), None, None)));
        for error in [created, configured] {
            assert_eq!(
                error.message(),
                "`model.maxTokens` must be less than `contextWindow`, which holds the request and the answer"
            );
        }
        assert_eq!(session.machine().header().model, None);
    }
}

// ---- what a provider reported --------------------------------------------------------------------------------------

/// An answer in words that carries what its provider reported, as each dialect's providers name it.
fn reporting(dialect: Dialect, text: &str, input: u32, cached: u32, output: u32) -> Value {
    let mut message = spoken::says(dialect, text);
    message["usage"] = match dialect {
        Dialect::Loop => {
            json!({ "input": input, "cacheRead": cached, "cacheWrite": 0, "output": output, "totalTokens": 0 })
        }
        Dialect::OpenAiChat => json!({
            "prompt_tokens": input + cached, "completion_tokens": output, "total_tokens": input + cached + output,
            "prompt_tokens_details": { "cached_tokens": cached }
        }),
        Dialect::Anthropic => json!({
            "input_tokens": input, "cache_creation_input_tokens": 0, "cache_read_input_tokens": cached, "output_tokens": output
        }),
        Dialect::AiSdk => {
            json!({ "inputTokens": input + cached, "cachedInputTokens": cached, "outputTokens": output })
        }
    };
    message
}

/// A session whose first turn was answered so.
fn answered(lab: &Lab, dialect: Dialect, answer: Value) -> Rc<Session<Value>> {
    let session = lab
        .run(lab.runtime.create_session(NewSession {
            id: Some(ID.to_owned()),
            dialect: Some(dialect),
            system_prompt: "Be brief.".to_owned(),
            model: Some(model_ref("m")),
            ..NewSession::default()
        }))
        .unwrap();
    let turn = at_once(session.begin(&json!("hello"), &PromptOptions::default())).unwrap();
    turn.request().unwrap();
    lab.run(turn.dispatched()).unwrap();
    lab.run(turn.append(vec![incoming(answer)])).unwrap();
    lab.run(turn.finish(Outcome::Success, None)).unwrap();
    session
}

#[test]
fn what_a_provider_reported_counts_and_only_what_stands_behind_it_is_estimated() {
    for dialect in spoken::ALL {
        let lab = Lab::lenient();
        let session = answered(&lab, dialect, reporting(dialect, "hi", 4_000, 1_000, 50));
        let (budget, costs) = next(&lab, &session, "and then");
        assert_eq!(
            budget.estimated_input_tokens,
            5_050 + tokens("and then"),
            "{dialect:?}"
        );
        assert_eq!(sum(budget.parts), budget.estimated_input_tokens);
        // The sources cost what they say, whatever was reported.
        assert_eq!(costs, [tokens("hello"), tokens("hi"), tokens("and then")]);
        // After a restart it is the same.
        let lab = Lab::on(lab.storage.memory.clone(), false);
        let (again, _) = next(&lab, &lab.open(), "and then");
        assert_eq!(again, budget);
    }
}

#[test]
fn the_parts_share_what_was_reported_as_they_share_the_estimate() {
    let lab = Lab::lenient();
    let session = answered(
        &lab,
        Dialect::Loop,
        reporting(Dialect::Loop, "hi", 4_000, 1_000, 50),
    );
    let (budget, costs) = next(&lab, &session, "and then");
    let other = Lab::lenient();
    let unreported = answered(&other, Dialect::Loop, spoken::says(Dialect::Loop, "hi"));
    let (estimate, _) = next(&other, &unreported, "and then");
    let own: u32 = costs.iter().sum();
    assert_eq!(estimate.parts.messages, own);
    let (total, parts, unreported) = (
        u64::from(budget.estimated_input_tokens),
        budget.parts,
        estimate.parts,
    );
    let sum = u64::from(sum(unreported));
    let share = |part: u32| (u64::from(part) * total / sum) as u32;
    assert_eq!(parts.system_prompt, share(unreported.system_prompt));
    assert_eq!(parts.tools, share(unreported.tools));
    assert_eq!(
        parts.messages,
        budget.estimated_input_tokens - parts.system_prompt - parts.tools
    );
}

#[test]
fn parts_of_any_size_share_out_any_total() {
    let parts = |system_prompt, tools, messages| BudgetParts {
        system_prompt,
        tools,
        messages,
        ..BudgetParts::default()
    };
    assert_eq!(parts(100, 50, 50).shared_out(1_001), parts(500, 250, 251));
    assert_eq!(parts(0, 0, 0).shared_out(7), parts(0, 0, 7));
    assert_eq!(parts(3, 3, 3).shared_out(1), parts(0, 0, 1));
    let most = u32::MAX;
    assert_eq!(parts(most, 0, 0).shared_out(most), parts(most, 0, 0));
}

#[test]
fn another_system_prompt_adds_the_difference_to_what_was_reported() {
    let lab = Lab::lenient();
    let session = answered(&lab, Dialect::Loop, reporting(Dialect::Loop, "hi", 5_000, 0, 50));
    let (short, long) = ("Be brief.".to_owned(), "Be brief. ".repeat(100));
    lab.run(session.configure(None, Some(long.clone()), None))
        .unwrap();
    let (budget, _) = next(&lab, &session, "and then");
    // The prompt ends in the same way, so that the difference is about that of the two texts.
    let difference = tokens(&long) - tokens(&short);
    let expected = 5_050 + tokens("and then") + difference;
    assert!(
        budget.estimated_input_tokens.abs_diff(expected) <= 1,
        "{budget:?} {expected}"
    );
    // A shorter one takes it away, and never more than there was.
    lab.run(session.configure(None, Some(String::new()), None))
        .unwrap();
    let (budget, _) = next(&lab, &session, "and then");
    assert!(budget.estimated_input_tokens < 5_050 + tokens("and then"));
}

#[test]
fn what_was_reported_by_another_model_or_of_nothing_does_not_count() {
    let estimate = |lab: &Lab, session: &Rc<Session<Value>>| {
        let (budget, costs) = next(lab, session, "and then");
        assert_eq!(budget.parts.messages, costs.iter().sum::<u32>());
        budget.estimated_input_tokens
    };
    let lab = Lab::lenient();
    let session = answered(&lab, Dialect::Loop, reporting(Dialect::Loop, "hi", 5_000, 0, 50));
    lab.run(session.configure(Some(Some(model_ref("other"))), None, None))
        .unwrap();
    let expected = estimate(&lab, &session);
    assert!(expected < 5_000);
    for usage in [
        json!(null),
        json!(7),
        json!({}),
        json!({ "input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0 }),
        json!({ "input": "5000", "output": 50 }),
        json!({ "input": -5_000, "output": 50 }),
        json!({ "input": 5_000, "output": -1 }),
        json!({ "input": 1e300, "output": 50 }),
        json!({ "prompt_tokens": 5_000, "completion_tokens": 50 }),
    ] {
        let lab = Lab::lenient();
        let mut answer = spoken::says(Dialect::Loop, "hi");
        answer["usage"] = usage.clone();
        let session = answered(&lab, Dialect::Loop, answer);
        assert_eq!(estimate(&lab, &session), expected, "{usage}");
    }
}

#[test]
fn a_usage_with_one_member_that_is_no_count_is_not_believed_and_null_counts_as_absent() {
    for (dialect, members) in [
        (Dialect::Loop, &["input", "cacheRead", "cacheWrite", "output"][..]),
        (Dialect::OpenAiChat, &["prompt_tokens", "completion_tokens"]),
        (
            Dialect::Anthropic,
            &[
                "input_tokens",
                "cache_read_input_tokens",
                "cache_creation_input_tokens",
                "output_tokens",
            ],
        ),
        (Dialect::AiSdk, &["inputTokens", "outputTokens"]),
    ] {
        let total = |member: &str, value: &Value| {
            let mut answer = reporting(dialect, "hi", 3, 2, 5);
            answer["usage"][member] = value.clone();
            dialect.usage(&answer)
        };
        for member in members {
            for bad in [
                json!("3"),
                json!(-1),
                json!(2.5),
                json!(1e300),
                json!(4_294_967_295u32),
                json!(true),
                json!({}),
            ] {
                assert_eq!(total(member, &bad), None, "{dialect:?} {member} {bad}");
            }
        }
        assert_eq!(total("more", &json!("x")), Some(10), "{dialect:?}");
        let output = members.last().unwrap();
        assert_eq!(total(output, &Value::Null), Some(5), "{dialect:?}");
    }
    let cached = reporting(Dialect::Anthropic, "hi", 3, 2, 5);
    let mut uncached = cached.clone();
    uncached["usage"]["cache_read_input_tokens"] = Value::Null;
    let totals = [cached, uncached].map(|answer| Dialect::Anthropic.usage(&answer));
    assert_eq!(totals, [Some(10), Some(8)]);
    // Too much in all is no count either.
    let much = reporting(Dialect::Anthropic, "hi", 4_294_967_294, 2, 5);
    assert_eq!(Dialect::Anthropic.usage(&much), None);
}

#[test]
fn an_answer_that_failed_anchors_nothing_and_the_one_before_it_does() {
    for stop in ["error", "aborted"] {
        let lab = Lab::lenient();
        let session = answered(&lab, Dialect::Loop, reporting(Dialect::Loop, "hi", 5_000, 0, 50));
        let turn = at_once(session.begin(&json!("more"), &PromptOptions::default())).unwrap();
        turn.request().unwrap();
        lab.run(turn.dispatched()).unwrap();
        let mut failed = reporting(Dialect::Loop, "half", 90_000, 0, 1);
        failed["stopReason"] = json!(stop);
        lab.run(turn.append(vec![incoming(failed)])).unwrap();
        lab.run(turn.finish(Outcome::Success, None)).unwrap();
        let (budget, _) = next(&lab, &session, "and then");
        assert_eq!(
            budget.estimated_input_tokens,
            5_050 + tokens("more") + tokens("and then"),
            "{stop}"
        );
    }
}

#[test]
fn what_was_reported_before_a_compaction_does_not_count() {
    let lab = Lab::lenient();
    let session = answered(&lab, Dialect::Loop, reporting(Dialect::Loop, "hi", 5_000, 0, 50));
    let compacted = |first: u32, count: u32| {
        let lab = Lab::lenient();
        let messages: Vec<(Value, bool)> = session
            .machine()
            .bodies()
            .iter()
            .map(|body| (body.clone(), body["role"] == "user"))
            .collect();
        let outlines = session.machine().outlines().to_vec();
        store(&lab, &messages, |commit: &mut Commit<Value>| {
            commit.outline_packs[0].outlines = outlines;
            commit.compactions = vec![(
                0,
                CompactionCheckpoint {
                    id: "k".to_owned(),
                    first_kept_message_index: MessageIndex(first),
                    history_message_count: count,
                    summary: "so far".to_owned(),
                    timestamp: 1.0,
                    provider: "p".to_owned(),
                    model: "m".to_owned(),
                    usage: None,
                },
            )];
        });
        let session = lab.open();
        lab.run(session.configure(Some(Some(model_ref("m"))), None, None))
            .unwrap();
        let (budget, costs) = next(&lab, &session, "and then");
        (budget, costs)
    };
    // It was compacted when the answer was there: what the provider saw is gone.
    let (budget, costs) = compacted(1, 2);
    assert_eq!(costs, [tokens("so far"), tokens("hi"), tokens("and then")]);
    assert_eq!(
        budget.parts.messages + budget.parts.summary,
        costs.iter().sum::<u32>()
    );
    // The answer came after it.
    let (budget, _) = compacted(1, 1);
    assert!(budget.estimated_input_tokens >= 5_050, "{budget:?}");
}

#[test]
fn the_costs_of_the_sources_are_those_of_their_parts() {
    let lab = Lab::empty();
    let session = lab.create();
    lab.model
        .answers(calls(&[("c1", "add", json!({ "n": 1 }))]))
        .answers(says("three"));
    lab.tools.on("c1", |_, _| ready(Ok(json!("3"))));
    lab.prompt(&session, "add").unwrap();
    let call = json!({ "type": "toolCall", "id": "c1", "name": "add", "arguments": { "n": 1 } });
    let (budget, costs) = next(&lab, &session, "more");
    assert_eq!(
        costs,
        [
            tokens("add"),
            json_tokens(&call),
            tokens("3"),
            tokens("three"),
            tokens("more")
        ]
    );
    assert_eq!(budget.parts.messages, costs.iter().sum::<u32>());
    assert_eq!(sum(budget.parts), budget.estimated_input_tokens);
}
