//! Compaction of a session: on demand, by itself, and what is left where it fails. The summaries are scripted: nobody reads
//! anything here.

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use std::rc::Rc;

use runcontext::{
    Error, ErrorCode, Result,
    context::{
        CompactionCheckpoint, DeclaredEvent, Divergence, DivergenceClass, RuntimeContextSnapshot, Source,
        Summary,
    },
    message::{CountTokens, MessageIndex},
    permissions::Preset,
    runtime::{CompactionOptions, PromptOptions, Session, Signal},
    session::{ModelRef, NewSession, Outcome, Pending},
    storage::memory::MemoryStorage,
};
use serde_json::{Value, json};

use crate::{
    expect::{HAIKU, HAIKU_ID, HAIKU_LOCATION, dispatched},
    lab::{
        Browser, Fault, ID, Lab, Seen, Stored, Summaries, at_once, calls, pairing::check_pairs_in, refused,
        says, spoken, tokens::tokens, user, waits,
    },
    shown::store,
};

/// A text of about so many tokens, by any estimate.
fn long(words: usize) -> String {
    "words ".repeat(words)
}

/// A page with a session of three long turns that was not compacted yet.
fn three_turns() -> (Rc<Summaries>, Lab, Rc<Session<Value>>) {
    let summaries = Rc::<Summaries>::default();
    let lab = Lab::compacting(MemoryStorage::new(), summaries.options());
    let session = lab.create_with(NewSession {
        model: Some(model(None)),
        ..Lab::options()
    });
    for number in 1..=3 {
        lab.world.at(f64::from(number) * 1_000.0);
        lab.model.answers(says(&long(200)));
        lab.prompt(&session, &format!("question {number}")).unwrap();
    }
    lab.world.at(9_000.0);
    lab.events();
    (summaries, lab, session)
}

fn model(context_window: Option<u32>) -> ModelRef {
    ModelRef {
        provider: "p".to_owned(),
        id: "m".to_owned(),
        context_window,
        max_tokens: None,
    }
}

/// Compacts all but the newest turn.
fn compact(lab: &Lab, session: &Rc<Session<Value>>) -> Result<CompactionCheckpoint> {
    lab.run(session.compact(Some(0), None))
}

/// The next request.
fn asked(lab: &Lab, session: &Rc<Session<Value>>, text: &str) -> Seen {
    lab.model.answers(says("so"));
    lab.prompt(session, text).unwrap();
    lab.model.seen().pop().unwrap()
}

/// Everything that could have changed.
fn all(lab: &Lab, session: &Session<Value>) -> (Stored, Vec<Value>, usize, usize) {
    let machine = session.machine();
    (
        lab.stored(),
        machine.bodies().to_vec(),
        machine.compactions().len(),
        lab.storage.attempts(),
    )
}

fn summary_message(text: &str, timestamp: u64) -> Value {
    json!({ "role": "user", "content": text, "timestamp": timestamp })
}

fn divergence(class: DivergenceClass, index: i64, events: &[DeclaredEvent]) -> Divergence {
    Divergence {
        class,
        index,
        events: events.to_vec(),
    }
}

#[test]
fn a_summary_stands_for_older_turns_from_the_next_request_on() {
    let (summaries, lab, session) = three_turns();
    let before = session.machine().bodies().to_vec();
    let made = compact(&lab, &session).unwrap();
    assert_eq!(lab.events(), ["compacting 4", "compacted 4", "saved"]);
    assert_eq!(
        made,
        CompactionCheckpoint {
            id: made.id.clone(),
            first_kept_message_index: MessageIndex(4),
            history_message_count: 6,
            summary: "scripted summary 1".to_owned(),
            timestamp: 9_000.0,
            provider: "p".to_owned(),
            model: "m".to_owned(),
            usage: None,
        }
    );
    // What was to be summarised is what the model saw, and what is stored is what it was.
    assert_eq!(summaries.seen(), [before[..4].to_vec()]);
    assert_eq!(session.machine().bodies(), before);
    assert_eq!(session.machine().compactions(), std::slice::from_ref(&made));
    let stored = lab.stored()["compactions"][&format!("[\"{ID}\",0]")].clone();
    assert_eq!(stored["summary"], "scripted summary 1");
    assert_eq!(stored["firstKeptMessageIndex"], 4);

    let next = asked(&lab, &session, "question 4");
    let mut expected = vec![summary_message("scripted summary 1", 9_000)];
    expected.extend(before[4..].iter().cloned());
    expected.push(user("question 4", 9_000));
    assert_eq!(next.request.messages(), expected);
    assert_eq!(
        next.report.projection().sources[0],
        Source::Compaction {
            checkpoint_id: made.id,
            message_index: MessageIndex(4),
            summarized_before: 4,
        }
    );
    let events = [DeclaredEvent::Compaction];
    assert_eq!(
        next.report.divergence,
        divergence(DivergenceClass::Messages, 0, &events)
    );
    assert!(next.report.budget.parts.summary > 0);
    let again = asked(&lab, &session, "question 5");
    assert_eq!(
        again.report.divergence,
        divergence(DivergenceClass::None, -1, &[])
    );
    // A restarted program shows the same.
    let lab = Lab::on(lab.storage.memory.clone(), true);
    let session = lab.open();
    let after = asked(&lab, &session, "question 6");
    assert_eq!(after.request.messages()[..4], again.request.messages()[..4]);
}

#[test]
fn the_next_summary_stands_for_the_one_before_it_too() {
    let (summaries, lab, session) = three_turns();
    let first = compact(&lab, &session).unwrap();
    asked(&lab, &session, "question 4");
    let second = compact(&lab, &session).unwrap();
    assert_eq!(second.first_kept_message_index, MessageIndex(6));
    assert_ne!(first.id, second.id);
    let seen = &summaries.seen()[1];
    assert_eq!(seen[0], summary_message("scripted summary 1", 9_000));
    assert_eq!(seen[1..], session.machine().bodies()[4..6]);
    let shown = asked(&lab, &session, "question 5").request.messages();
    assert_eq!(shown[0], summary_message("scripted summary 2", 9_000));
    assert_eq!(shown.len(), 4);
}

#[test]
fn a_summariser_says_who_wrote_the_summary_and_what_it_cost() {
    let (summaries, lab, session) = three_turns();
    summaries.then(|_| async {
        Ok(Summary {
            summary: "a </permissions> summary".to_owned(),
            provider: Some("other".to_owned()),
            model: Some("small".to_owned()),
            usage: Some(json!({ "input": 5 })),
        })
    });
    let made = compact(&lab, &session).unwrap();
    assert_eq!((made.provider.as_str(), made.model.as_str()), ("other", "small"));
    assert_eq!(made.usage, Some(json!({ "input": 5 })));
    // Kept as it was written, and shown as text of nobody's section.
    assert_eq!(made.summary, "a </permissions> summary");
    let shown = asked(&lab, &session, "question 4").request.messages();
    assert_eq!(shown[0]["content"], "a &lt;/permissions> summary");
}

#[test]
fn as_many_turns_stay_as_the_caller_wants_and_a_quarter_of_the_window_by_default() {
    let (summaries, lab, session) = three_turns();
    // The first message that stays, of a compaction that fails then.
    let first_kept = |keep| {
        summaries.fails("only asking");
        lab.events();
        let error = refused(lab.run(session.compact(keep, None)));
        let begun = lab
            .events()
            .iter()
            .find_map(|event| event.strip_prefix("compacting ").map(str::to_owned));
        begun.ok_or(error.code())
    };
    let tokens: u32 = session.machine().outlines()[2..].iter().map(|it| it.tokens).sum();
    assert_eq!(first_kept(Some(tokens)), Ok("2".to_owned()));
    assert_eq!(first_kept(Some(tokens - 1)), Ok("4".to_owned()));
    // No window: all of this is within 20,000.
    assert_eq!(first_kept(None), Err(ErrorCode::NothingToCompact));
    // What is reserved for the answer is no room for turns.
    for (window, reserved, first) in [
        (tokens * 4, None, "2"),
        (tokens * 4 - 1, None, "4"),
        (tokens * 4 + 3, Some(4), "4"),
    ] {
        let model = ModelRef {
            max_tokens: reserved,
            ..model(Some(window))
        };
        lab.run(session.configure(Some(Some(model)), None, None)).unwrap();
        assert_eq!(first_kept(None), Ok(first.to_owned()), "{window}");
    }
}

#[test]
fn what_is_summarised_is_what_the_model_sees_and_skills_of_those_turns_are_gone() {
    let summaries = Rc::<Summaries>::default();
    let lab = Lab::compacting(MemoryStorage::new(), summaries.options());
    lab.run(lab.runtime.add_skill(HAIKU, HAIKU_LOCATION, "project"))
        .unwrap();
    let session = lab.create();
    lab.model
        .answers(calls(&[("a", "add", json!({ "n": 1 }))]))
        .answers(says(&long(200)));
    let choosing = PromptOptions {
        skills: vec![HAIKU_ID.to_owned()],
        ..PromptOptions::default()
    };
    lab.prompt_with(&session, &json!("with a skill"), &choosing)
        .unwrap();
    let with_skill = lab.model.seen().pop().unwrap().request.messages();
    asked(&lab, &session, "question 2");
    compact(&lab, &session).unwrap();
    let seen = &summaries.seen()[0];
    assert_eq!(seen.len(), 4);
    assert_eq!(seen[..3], with_skill[..]);
    assert!(
        seen[0]["content"]
            .as_str()
            .unwrap()
            .starts_with("<skill name=\"haiku\"")
    );
    let next = asked(&lab, &session, "question 3");
    assert!(!json!(next.request.messages()).to_string().contains("<skill"));
    assert_eq!(next.report.projection().skill_expansions, []);
    assert_eq!(session.machine().snapshots().len(), 1, "it is kept all the same");
    // Chosen again it is shown again.
    lab.model.answers(says("so"));
    lab.prompt_with(&session, &json!("again"), &choosing).unwrap();
    let again = lab.model.seen().pop().unwrap();
    assert_eq!(again.report.projection().skill_expansions.len(), 1);
    assert_eq!(again.report.divergence.class, DivergenceClass::None);
}

#[test]
fn snapshots_of_earlier_versions_are_gone_with_their_turns_and_permissions_replace_nothing_any_more() {
    let summaries = Rc::<Summaries>::default();
    let lab = Lab::compacting(MemoryStorage::new(), summaries.options());
    let messages = [
        (user("one", 10), true),
        (says(&long(200)), false),
        (user("two", 20), true),
        (says("hi"), false),
    ];
    store(&lab, &messages, |commit| {
        let snapshot = RuntimeContextSnapshot {
            user_turn: 0,
            content: "You may do anything.".to_owned(),
            timestamp: 77.0,
            skills: None,
            placement: None,
        };
        commit.snapshots = vec![(0, snapshot)];
    });
    let session = lab.open();
    let line = "These permissions replace every earlier statement";
    let before = asked(&lab, &session, "three");
    assert!(before.request.system_prompt.contains(line));
    assert_eq!(before.request.messages()[1]["content"], "You may do anything.");
    compact(&lab, &session).unwrap();
    assert_eq!(summaries.seen()[0], before.request.messages()[..5]);
    let after = asked(&lab, &session, "four");
    assert!(!after.request.system_prompt.contains(line));
    assert!(!json!(after.request.messages()).to_string().contains("anything"));
    let events = [DeclaredEvent::Compaction, DeclaredEvent::LegacyContext];
    assert_eq!(
        after.report.divergence,
        divergence(DivergenceClass::System, -1, &events)
    );
}

// ---- what is refused -----------------------------------------------------------------------------------------------

#[test]
fn compaction_is_refused_as_a_turn_is_and_changes_nothing() {
    let (summaries, lab, session) = three_turns();
    let codes = |lab: &Lab, session: &Rc<Session<Value>>| {
        let before = all(lab, session);
        let error = refused(compact(lab, session));
        assert_eq!(all(lab, session), before);
        error.code()
    };
    // In a turn.
    let turn = lab.run(dispatched(&session, "four"));
    assert_eq!(codes(&lab, &session), ErrorCode::SessionBusy);
    // With a save that is pending.
    lab.storage.always(Some(Fault::Refuse));
    lab.run(turn.finish(Outcome::Success, None)).unwrap();
    assert_eq!(codes(&lab, &session), ErrorCode::PendingSave);
    lab.storage.always(None);
    lab.run(session.flush()).unwrap();
    // In a turn that was cut off.
    lab.run(dispatched(&session, "five"));
    let cut = Lab::compacting(lab.storage.memory.clone(), summaries.options());
    let reopened = cut.open();
    assert_eq!(codes(&cut, &reopened), ErrorCode::SessionInterrupted);
    // Let go of.
    cut.run(reopened.abandon()).unwrap();
    reopened.dispose().unwrap();
    assert_eq!(codes(&cut, &reopened), ErrorCode::Disposed);
    assert_eq!(summaries.calls(), 0);
}

#[test]
fn compaction_without_a_summariser_or_without_older_turns_is_refused() {
    let lab = Lab::empty();
    let session = lab.create();
    let error = refused(compact(&lab, &session));
    assert_eq!(error.code(), ErrorCode::InvalidArgument);
    assert_eq!(
        error.message(),
        "`compact` needs a summariser; pass `summarize`, or open the runtime with `compaction.summarize`"
    );
    let summaries = Rc::<Summaries>::default();
    let error = refused(lab.run(session.compact(None, Some(summaries.clone()))));
    assert_eq!(error.code(), ErrorCode::NothingToCompact);
    for text in ["one", "two"] {
        asked(&lab, &session, text);
    }
    assert_eq!(
        lab.events()
            .iter()
            .filter(|event| event.contains("compact"))
            .count(),
        0
    );
    // One that is passed counts, whatever the runtime has.
    summaries.says("x");
    let made = lab
        .run(session.compact(Some(0), Some(summaries.clone())))
        .unwrap();
    assert_eq!(made.summary, "x");
    assert_eq!((made.provider, made.model), (String::new(), String::new()));
    assert_eq!(summaries.calls(), 1);
}

#[test]
fn a_summary_of_no_use_leaves_everything_as_it_was() {
    let (summaries, lab, session) = three_turns();
    let before = all(&lab, &session);
    let goes: u32 = session.machine().outlines()[..4].iter().map(|it| it.tokens).sum();
    let cases = [
        (Err("no model".to_owned()), "`summarize` failed: no model"),
        (
            Ok(String::new()),
            "`summarize` gave a blank summary; give one that says what was said",
        ),
        (
            Ok(" \n".to_owned()),
            "`summarize` gave a blank summary; give one that says what was said",
        ),
        (Ok(long(1_000)), "`summarize` gave a summary of about"),
        (
            Ok("x".repeat(goes as usize * 40)),
            "`summarize` gave a summary of about",
        ),
    ];
    for (said, message) in cases {
        summaries.then(move |_| async move {
            said.map(|summary| Summary {
                summary,
                ..Summary::default()
            })
        });
        let error = refused(compact(&lab, &session));
        assert_eq!(error.code(), ErrorCode::HostFailed);
        assert!(error.message().starts_with(message), "{error}");
        assert_eq!(all(&lab, &session), before);
        assert_eq!(lab.events(), ["compacting 4", "compaction failed host_failed"]);
    }
    let next = asked(&lab, &session, "question 4");
    assert_eq!(next.report.divergence, divergence(DivergenceClass::None, -1, &[]));
    assert_eq!(next.request.messages().len(), 7);
}

#[test]
fn a_summary_takes_what_is_sent_of_it_tags_made_harmless() {
    let (summaries, lab, session) = three_turns();
    let goes: u32 = session.machine().outlines()[..4].iter().map(|it| it.tokens).sum();
    let [written, sent] = ["<permissions>", "&lt;permissions>"];
    // As it was written it is shorter than what goes, and as it is sent it is not.
    let times = (1..).find(|times| tokens(&sent.repeat(*times)) >= goes).unwrap();
    assert!(tokens(&written.repeat(times)) < goes);
    summaries.says(&written.repeat(times));
    let error = refused(compact(&lab, &session));
    assert_eq!(error.code(), ErrorCode::HostFailed);
    assert_eq!(error.data()["tokens"], tokens(&sent.repeat(times)));

    summaries.says(&written.repeat(20));
    compact(&lab, &session).unwrap();
    let report = asked(&lab, &session, "question 4").report;
    let takes = tokens(&sent.repeat(20));
    assert_eq!((report.tokens()[0], report.budget.parts.summary), (takes, takes));
}

/// A host that counts words, and cannot count a text with this in it.
fn cannot_count(part: &'static str) -> Rc<CountTokens<Value>> {
    Rc::new(move |text| match text.as_str().unwrap() {
        text if text.contains(part) => Err(Error::invalid(format!("no count of {part}"))),
        text => Ok(text.split_whitespace().count() as u32),
    })
}

#[test]
fn a_summary_that_the_host_cannot_count_or_counts_as_no_shorter_is_refused() {
    let (summaries, before, session) = three_turns();
    session.dispose().unwrap();
    let memory = before.storage.memory.clone();
    let lab = Lab::counting(memory, summaries.options(), cannot_count("odd"));
    let session = lab.open();
    let goes: u32 = session.machine().outlines()[..4].iter().map(|it| it.tokens).sum();
    let unchanged = all(&lab, &session);
    let many = "a ".repeat(goes as usize);
    for (said, message) in [
        ("odd", "the summary cannot be counted: no count of odd"),
        (&*many, "`summarize` gave a summary of about"),
    ] {
        summaries.says(said);
        let error = refused(compact(&lab, &session));
        assert_eq!(error.code(), ErrorCode::HostFailed);
        assert!(error.message().starts_with(message), "{error}");
        assert_eq!(all(&lab, &session), unchanged);
        assert_eq!(lab.events(), ["compacting 4", "compaction failed host_failed"]);
    }
    // By itself, the turn goes on without.
    let next = asked(&lab, &session, "question 4");
    let used = next.report.budget.estimated_input_tokens;
    fits(&lab, &session, f64::from(used) * 1.05);
    summaries.says("odd");
    let next = asked(&lab, &session, "question 5");
    assert_eq!(next.request.messages().len(), 9);
    assert_eq!(
        summaries_of(&lab),
        ["compacting 6", "compaction failed host_failed"]
    );
    assert_eq!(session.machine().compactions(), []);
}

#[test]
fn a_stored_summary_that_the_host_cannot_count_is_estimated_and_that_is_said_once() {
    let (summaries, before, session) = three_turns();
    summaries.says("an odd summary");
    compact(&before, &session).unwrap();
    session.dispose().unwrap();
    let memory = before.storage.memory.clone();
    let lab = Lab::counting(memory, summaries.options(), cannot_count("odd"));
    let session = lab.open();
    for text in ["question 4", "question 5"] {
        let report = asked(&lab, &session, text).report;
        assert_eq!(report.budget.parts.summary, tokens("an odd summary"));
        assert_eq!(session.listener_errors().all(), ["no count of odd"]);
    }
}

#[test]
fn while_a_summary_is_written_everything_exclusive_is_refused() {
    let (summaries, lab, session) = three_turns();
    summaries.is_silent();
    let before = all(&lab, &session);
    let mut compaction = waits(&lab.world, session.compact(Some(0), None));
    assert!(!compaction.go_on());
    let errors: Vec<Error> = vec![
        refused(compact(&lab, &session)),
        refused(lab.prompt(&session, "more")),
        refused(at_once(session.begin(&json!("more"), &PromptOptions::default()))),
        refused(lab.run(session.set_preset(Some(Preset::WorkspaceWrite)))),
        refused(lab.run(session.flush())),
        refused(lab.run(session.reload(None))),
        refused(lab.run(session.reload(Some(Pending::Discard)))),
        refused(session.dispose()),
        refused(lab.runtime.close()),
    ];
    for error in errors {
        assert_eq!(error.code(), ErrorCode::SessionBusy, "{error}");
    }
    assert_eq!(all(&lab, &session), before);
    // What may be done at any time may be done now.
    lab.run(session.set_title("title".to_owned())).unwrap();
    // It waits for the end, which comes below.
    drop(waits(&lab.world, session.abort()));
    assert_eq!(refused(compaction.done()).code(), ErrorCode::Aborted);
    asked(&lab, &session, "more");
}

#[test]
fn abort_stops_a_compaction_at_once_and_a_late_summary_comes_to_nothing() {
    let (summaries, lab, session) = three_turns();
    let (told, come) = (Signal::default(), Signal::default());
    let (stops, comes) = (told.clone(), come.clone());
    summaries.then(move |abort| async move {
        abort.fired().await;
        stops.fire();
        comes.fired().await;
        Ok(Summary {
            summary: "late".to_owned(),
            ..Summary::default()
        })
    });
    let before = all(&lab, &session);
    let mut compaction = waits(&lab.world, session.compact(Some(0), None));
    assert!(!compaction.go_on());
    // It waits for the end, which comes below.
    drop(waits(&lab.world, session.abort()));
    let error = refused(compaction.done());
    assert!(told.has_fired(), "the summariser hears of it");
    assert_eq!(error.code(), ErrorCode::Aborted);
    assert_eq!(error.message(), "the compaction was aborted; nothing was changed");
    come.fire();
    assert_eq!(all(&lab, &session), before);
    assert_eq!(lab.events(), ["compacting 4", "compaction failed aborted"]);
    // The next one is none of its business.
    summaries.says("in time");
    assert_eq!(compact(&lab, &session).unwrap().summary, "in time");
}

// ---- what is saved -------------------------------------------------------------------------------------------------

#[test]
fn a_compaction_that_cannot_be_saved_is_shown_and_flush_saves_it_without_another_summary() {
    for fault in [Fault::Refuse, Fault::LoseAcknowledgement] {
        let (summaries, lab, session) = three_turns();
        lab.storage.fail(1, fault);
        assert_eq!(refused(compact(&lab, &session)).code(), ErrorCode::StorageFailed);
        assert_eq!(
            lab.events(),
            ["compacting 4", "compacted 4", "save failed storage_failed"]
        );
        assert_eq!(session.machine().compactions().len(), 1);
        assert_eq!(
            refused(lab.prompt(&session, "more")).code(),
            ErrorCode::PendingSave
        );
        lab.run(session.flush()).unwrap();
        assert_eq!(summaries.calls(), 1);
        assert_eq!(lab.stored()["compactions"].len(), 1);
        let shown = asked(&lab, &session, "question 4").request.messages();
        assert_eq!(shown[0], summary_message("scripted summary 1", 9_000));
    }
}

#[test]
fn a_page_that_dies_before_the_summary_is_saved_leaves_the_conversation_as_it_was() {
    for hangs in [true, false] {
        let (summaries, lab, session) = three_turns();
        let before = lab.stored();
        if hangs {
            lab.storage.fail(1, Fault::Wait(Signal::default()));
        } else {
            summaries.is_silent();
        }
        let mut compaction = waits(&lab.world, session.compact(Some(0), None));
        assert!(!compaction.go_on());
        assert_eq!(session.machine().compactions().len(), usize::from(hangs));
        let again = Lab::compacting(lab.storage.memory.clone(), summaries.options());
        let session = again.open();
        assert_eq!(again.stored(), before);
        assert_eq!(session.machine().compactions(), []);
        assert_eq!(session.machine().interrupted(), None);
        compact(&again, &session).unwrap();
        assert_eq!(again.stored()["compactions"].len(), 1);
    }
}

#[test]
fn where_another_page_wrote_meanwhile_the_compaction_conflicts_and_can_be_forked_or_dropped() {
    for pending in [Pending::Fork, Pending::Discard] {
        let (summaries, lab, session) = three_turns();
        let other = Lab::on(lab.storage.memory.clone(), true);
        let theirs = other.open();
        let come = Signal::default();
        let comes = come.clone();
        summaries.then(move |_| async move {
            comes.fired().await;
            Ok(Summary {
                summary: "ours".to_owned(),
                ..Summary::default()
            })
        });
        let mut compaction = waits(&lab.world, session.compact(Some(0), None));
        assert!(!compaction.go_on());
        asked(&other, &theirs, "meanwhile");
        come.fire();
        assert_eq!(refused(compaction.done()).code(), ErrorCode::Conflict);
        assert_eq!(refused(compact(&lab, &session)).code(), ErrorCode::PendingSave);
        let forked = lab.run(session.reload(Some(pending))).unwrap();
        assert_eq!(session.machine().compactions(), []);
        assert_eq!(session.machine().message_count(), 8);
        assert_eq!(forked.is_some(), pending == Pending::Fork);
        if let Some(id) = forked {
            let fork = lab.run(lab.runtime.open_session(&id)).unwrap();
            assert_eq!(fork.machine().compactions()[0].summary, "ours");
            let shown = asked(&lab, &fork, "on").request.messages();
            assert_eq!(shown[0], summary_message("ours", 9_000));
            assert_eq!(shown.len(), 4);
        }
    }
}

#[test]
fn a_page_at_rest_takes_the_compaction_of_another_and_declares_it() {
    let browser = Rc::<Browser>::default();
    let memory = MemoryStorage::new();
    let open = |make: bool| {
        let lab = Lab::in_browser(memory.clone(), &browser.page());
        let session = if make { lab.create() } else { lab.open() };
        (lab, session)
    };
    let (one, ours) = open(true);
    for _ in 0..2 {
        asked(&one, &ours, &long(100));
    }
    let (two, theirs) = open(false);
    let summaries = Rc::<Summaries>::default();
    two.run(theirs.compact(Some(0), Some(summaries))).unwrap();
    one.run(async {});
    assert_eq!(ours.machine().compactions(), theirs.machine().compactions());
    let next = asked(&one, &ours, "on");
    let events = [DeclaredEvent::Compaction];
    assert_eq!(
        next.report.divergence,
        divergence(DivergenceClass::Messages, 0, &events)
    );
    assert_eq!(next.request.messages().len(), 4);
}

#[test]
fn a_long_session_that_was_compacted_is_loaded_from_there_and_compacted_again() {
    let summaries = Rc::<Summaries>::default();
    let lab = Lab::compacting(MemoryStorage::new(), summaries.options());
    let messages: Vec<(Value, bool)> = (0..1_100)
        .map(|at| match at % 2 {
            0 => (user(&format!("message {at}"), at), true),
            _ => (says(&format!("message {at}")), false),
        })
        .collect();
    store(&lab, &messages, |_| {});
    let session = lab.open();
    assert_eq!(session.machine().loaded_from(), 0);
    compact(&lab, &session).unwrap();
    // What is loaded stays loaded until it is opened again.
    assert_eq!(session.machine().loaded_from(), 0);
    let lab = Lab::compacting(lab.storage.memory.clone(), summaries.options());
    let session = lab.open();
    assert_eq!(session.machine().loaded_from(), 1_098);
    asked(&lab, &session, "on");
    let again = compact(&lab, &session).unwrap();
    assert_eq!(again.first_kept_message_index, MessageIndex(1_100));
    assert_eq!(summaries.seen()[1].len(), 3);
}

#[test]
fn in_every_dialect_the_summary_comes_first_and_calls_stay_with_their_results() {
    for dialect in spoken::ALL {
        let summaries = Rc::<Summaries>::default();
        let lab = Lab::compacting(MemoryStorage::new(), summaries.options());
        let session = lab.create_with(NewSession {
            dialect: Some(dialect),
            ..Lab::options()
        });
        for number in 0..3 {
            let id = format!("c{number}");
            lab.model
                .answers(spoken::calls(dialect, &[(&id, "add", json!({ "n": number }))]))
                .answers(spoken::says(dialect, &long(100)));
            lab.prompt(&session, "go").unwrap();
        }
        let before = session.machine().bodies().to_vec();
        compact(&lab, &session).unwrap();
        assert_eq!(summaries.seen()[0], before[..8]);
        lab.model.answers(spoken::says(dialect, "so"));
        lab.prompt(&session, "on").unwrap();
        let shown = lab.model.seen().pop().unwrap().request.messages();
        assert_eq!(shown[0], spoken::typed(dialect, "scripted summary 1", 1_000));
        assert_eq!(shown[1..5], before[8..]);
        check_pairs_in(dialect, &shown).unwrap();
    }
}

// ---- by itself -----------------------------------------------------------------------------------------------------

/// Three long turns, and a window of which the next request takes about this part.
fn pressed(part: f64) -> (Rc<Summaries>, Lab, Rc<Session<Value>>) {
    let (summaries, lab, session) = three_turns();
    let used = session.machine().budget().unwrap().estimated_input_tokens;
    let last = session.machine().outlines()[5].tokens;
    fits(&lab, &session, f64::from(used + last) / part);
    (summaries, lab, session)
}

/// Gives the session a window of so many tokens.
fn fits(lab: &Lab, session: &Session<Value>, window: f64) {
    let model = model(Some(window as u32));
    lab.run(session.configure(Some(Some(model)), None, None)).unwrap();
    lab.events();
}

fn summaries_of(lab: &Lab) -> Vec<String> {
    let mut events = lab.events();
    events.retain(|event| event.contains("compact"));
    events
}

#[test]
fn under_pressure_a_prompt_is_compacted_before_it_is_sent() {
    for (part, compacts) in [(0.8, false), (0.95, true), (1.2, true)] {
        let (summaries, lab, session) = pressed(part);
        let next = asked(&lab, &session, "question 4");
        assert_eq!(summaries.calls(), usize::from(compacts), "{part}");
        assert_eq!(session.machine().compactions().len(), usize::from(compacts));
        if !compacts {
            assert_eq!(next.request.messages().len(), 7);
            continue;
        }
        assert!(next.report.budget.fits);
        assert_eq!(
            next.request.messages()[0],
            summary_message("scripted summary 1", 9_000)
        );
        let events = [DeclaredEvent::Compaction, DeclaredEvent::Model];
        assert_eq!(
            next.report.divergence,
            divergence(DivergenceClass::Messages, 0, &events)
        );
        // The summary is saved before the prompt is on its way.
        let events = lab.events();
        let at = |name: &str| events.iter().position(|event| event.starts_with(name)).unwrap();
        assert!(
            at("compacted") < at("saved") && at("saved") < at("started"),
            "{events:?}"
        );
        assert_eq!(lab.stored()["compactions"].len(), 1);
    }
}

#[test]
fn the_host_says_at_which_pressure() {
    for (pressure, compacts) in [(0.7, true), (0.9, false)] {
        let summaries = Rc::<Summaries>::default();
        let options = CompactionOptions {
            pressure,
            ..summaries.options()
        };
        let (_, before, session) = pressed(0.8);
        session.dispose().unwrap();
        let lab = Lab::compacting(before.storage.memory.clone(), options);
        let session = lab.open();
        asked(&lab, &session, "question 4");
        assert_eq!(summaries.calls(), usize::from(compacts), "{pressure}");
    }
}

#[test]
fn between_continuations_older_turns_are_compacted_and_the_running_one_is_not() {
    let (summaries, lab, session) = pressed(0.85);
    lab.model
        .answers(calls(&[("a", "add", json!({ "text": long(400) }))]))
        .answers(says("so"));
    let report = lab.prompt(&session, "question 4").unwrap();
    assert_eq!((report.end.outcome, report.saved), (Outcome::Success, true));
    assert_eq!(summaries.calls(), 1);
    let seen = lab.model.seen();
    let (first, second) = (&seen[3], &seen[4]);
    assert_eq!(first.request.messages().len(), 7);
    let events = [DeclaredEvent::Compaction];
    assert_eq!(
        second.report.divergence,
        divergence(DivergenceClass::Messages, 0, &events)
    );
    assert_eq!(second.request.system_prompt, first.request.system_prompt);
    let kept = session.machine().compactions()[0]
        .first_kept_message_index
        .offset();
    let stored = session.machine().bodies().to_vec();
    assert!((2..=6).contains(&kept), "{kept}");
    assert_eq!(second.request.messages()[1..], stored[kept..9]);
    // What was to be summarised ends before the running turn.
    assert_eq!(summaries.seen()[0], stored[..kept]);
}

#[test]
fn at_most_two_summaries_are_written_in_a_row_the_second_of_all_but_the_newest_turn() {
    let summaries = Rc::<Summaries>::default();
    let options = CompactionOptions {
        pressure: 0.01,
        ..summaries.options()
    };
    let (_, before, session) = three_turns();
    session.dispose().unwrap();
    let lab = Lab::compacting(before.storage.memory.clone(), options);
    let session = lab.open();
    // A quarter has room for the newest turn that is stored, so that the first summary leaves it.
    let newest: u32 = session.machine().outlines()[4..].iter().map(|it| it.tokens).sum();
    fits(&lab, &session, f64::from(newest) * 5.0);
    summaries.says(&long(190)).says("short");
    lab.model
        .answers(calls(&[("a", "add", json!({ "n": 1 }))]))
        .answers(says("so"));
    lab.prompt(&session, "question 4").unwrap();
    assert_eq!(summaries.calls(), 2);
    let firsts: Vec<u32> = session
        .machine()
        .compactions()
        .iter()
        .map(|it| it.first_kept_message_index.0)
        .collect();
    assert_eq!(firsts, [4, 6]);
    assert_eq!(summaries.seen()[1][0], summary_message(&long(190), 1_000));
    // It is under pressure still, and so is its continuation: nobody is asked a third time.
    let lengths: Vec<usize> = lab
        .model
        .seen()
        .iter()
        .map(|seen| seen.request.messages().len())
        .collect();
    assert_eq!(lengths, [2, 4]);
}

#[test]
fn where_compaction_fails_by_itself_it_is_said_and_the_turn_goes_on() {
    let (summaries, lab, session) = pressed(0.95);
    summaries.fails("no model");
    let next = asked(&lab, &session, "question 4");
    assert_eq!(
        summaries_of(&lab),
        ["compacting 4", "compaction failed host_failed"]
    );
    assert_eq!(next.request.messages().len(), 7);
    assert_eq!(session.machine().compactions(), []);
    assert_eq!(
        next.report.divergence,
        divergence(DivergenceClass::None, -1, &[DeclaredEvent::Model])
    );
    // A later request tries again.
    asked(&lab, &session, "question 5");
    assert_eq!(session.machine().compactions().len(), 1);
}

#[test]
fn where_only_the_newest_turn_is_left_nobody_is_asked_for_a_summary() {
    let summaries = Rc::<Summaries>::default();
    let lab = Lab::compacting(MemoryStorage::new(), summaries.options());
    let session = lab.create();
    asked(&lab, &session, &long(100));
    let used = session.machine().budget().unwrap().estimated_input_tokens;
    let lab = Lab::compacting(MemoryStorage::new(), summaries.options());
    let session = lab.create_with(NewSession {
        model: Some(model(Some(used * 100 / 95))),
        ..Lab::options()
    });
    asked(&lab, &session, &long(100));
    assert_eq!(summaries.calls(), 0);
    assert_eq!(summaries_of(&lab), [] as [&str; 0]);
}

#[test]
fn where_a_prompt_alone_does_not_fit_nobody_is_asked_for_a_summary_and_nothing_is_stored() {
    let (summaries, lab, session) = three_turns();
    let parts = session.machine().budget().unwrap().parts;
    let alone = parts.system_prompt + parts.tools + tokens(&long(3_000));
    // With a token less than that, and with all of it and what a short summary takes.
    for (window, helps) in [(alone - 1, false), (alone + 50, true)] {
        fits(&lab, &session, f64::from(window));
        let before = all(&lab, &session);
        lab.model.answers(says("so"));
        let prompted = lab.prompt(&session, &long(3_000));
        assert_eq!(summaries.calls() > 0, helps);
        if !helps {
            assert_eq!(refused(prompted).code(), ErrorCode::BudgetExceeded);
            assert_eq!(all(&lab, &session), before);
            assert_eq!(summaries_of(&lab), [] as [&str; 0]);
        } else {
            assert_eq!(prompted.unwrap().end.outcome, Outcome::Success);
        }
    }
}

#[test]
fn abort_while_a_prompt_is_compacted_keeps_nothing_of_the_prompt() {
    let (summaries, lab, session) = pressed(0.95);
    summaries.is_silent();
    let before = all(&lab, &session);
    let (content, options) = (json!("question 4"), PromptOptions::default());
    let mut prompt = waits(&lab.world, session.prompt(&content, &options));
    assert!(!prompt.go_on());
    assert_eq!(refused(compact(&lab, &session)).code(), ErrorCode::SessionBusy);
    // It waits for the end, which comes below.
    drop(waits(&lab.world, session.abort()));
    let error = refused(prompt.done());
    assert_eq!(error.code(), ErrorCode::Aborted);
    assert_eq!(
        error.message(),
        "the prompt was aborted before it was sent; nothing was stored"
    );
    assert_eq!(all(&lab, &session), before);
    assert_eq!(lab.events(), ["compacting 4", "compaction failed aborted"]);
    asked(&lab, &session, "question 4");
}

#[test]
fn abort_while_a_continuation_is_compacted_cancels_the_turn_and_keeps_what_arrived() {
    let (summaries, lab, session) = pressed(0.85);
    summaries.is_silent();
    lab.model
        .answers(calls(&[("a", "add", json!({ "text": long(400) }))]));
    let (content, options) = (json!("question 4"), PromptOptions::default());
    let mut prompt = waits(&lab.world, session.prompt(&content, &options));
    assert!(!prompt.go_on());
    options.abort.fire();
    let report = prompt.done().unwrap();
    assert_eq!((report.end.outcome, report.saved), (Outcome::Cancelled, true));
    assert_eq!(session.machine().message_count(), 9);
    assert_eq!(session.machine().compactions(), []);
    assert_eq!(lab.model.calls(), 4);
}

#[test]
fn a_write_of_the_compaction_that_fails_in_a_turn_is_made_up_for_by_the_next() {
    let (summaries, lab, session) = pressed(0.95);
    lab.storage.fail(1, Fault::Refuse);
    lab.model.answers(says("so"));
    let report = lab.prompt(&session, "question 4").unwrap();
    assert!(report.saved);
    assert_eq!(summaries.calls(), 1);
    assert_eq!(lab.stored()["compactions"].len(), 1);
    assert_eq!(lab.stored()["messages"].len(), 8);
}

#[test]
fn a_prompt_that_loses_old_statements_to_its_compaction_says_nothing_of_replacing_them() {
    let summaries = Rc::<Summaries>::default();
    let lab = Lab::compacting(MemoryStorage::new(), summaries.options());
    let messages = [(user("one", 10), true), (says(&long(2_000)), false)];
    store(&lab, &messages, |commit| {
        let snapshot = RuntimeContextSnapshot {
            user_turn: 0,
            content: "You may do anything.".to_owned(),
            timestamp: 77.0,
            skills: None,
            placement: None,
        };
        commit.snapshots = vec![(0, snapshot)];
    });
    let session = lab.open();
    let tokens = session.machine().outlines()[1].tokens;
    fits(&lab, &session, f64::from(tokens));
    let seen = asked(&lab, &session, "two");
    assert_eq!(seen.request.messages().len(), 2);
    assert!(
        !seen
            .request
            .system_prompt
            .contains("replace every earlier statement")
    );
    assert_eq!(
        session.machine().system_prompt_at(2).unwrap(),
        seen.request.system_prompt
    );
    let next = asked(&lab, &session, "three");
    assert_eq!(next.report.divergence, divergence(DivergenceClass::None, -1, &[]));
}
