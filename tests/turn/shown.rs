//! What the model is shown: checkpoints, skills, the map, and what differs from the request before.

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use std::rc::Rc;

use runcontext::{
    context::{
        CompactionCheckpoint, DeclaredEvent, DivergenceClass, NoticeCode, Projection, RuntimeContextSnapshot,
        Source,
    },
    message::{Dialect, MessageIndex},
    permissions::Preset,
    prompt::{InstructionFile, Section},
    runtime::{PromptOptions, Session},
    session::{NewSession, Outcome},
    storage::{AppendedMessage, Commit, OUTLINES_PER_PACK, OutlinePack, Storage, memory::MemoryStorage},
};
use serde_json::{Value, json};

use crate::{
    expect::{
        HAIKU, HAIKU_BLOCK, HAIKU_ID, HAIKU_LOCATION, HAIKU_REVISION, READ_ONLY, Way, allow, dispatched,
        first_checkpoint, haiku_snapshot, long_turn, said, system_prompt, two_calls, typed,
    },
    lab::{
        ID, Lab, Seen, at_once, calls, incoming, model_ref,
        pairing::check_pairs,
        random::Random,
        refused, result, run, run_context, says,
        tokens::{json_tokens, tokens},
    },
    random_turns::answer,
};

fn choosing(skills: &[&str]) -> PromptOptions {
    PromptOptions {
        skills: skills.iter().map(|id| (*id).to_owned()).collect(),
        ..PromptOptions::default()
    }
}

/// Prompts, gets `hi`, and says what the model was asked.
fn asked(lab: &Lab, session: &Rc<Session<Value>>, content: Value, options: &PromptOptions) -> Seen {
    lab.model.answers(says("hi"));
    assert!(lab.prompt_with(session, &content, options).unwrap().saved);
    lab.model.seen().pop().unwrap()
}

const WORKSPACE_WRITE: &str = "\
Permission preset: workspace-write.
Working directory: /w
`memory/` in the workspace root may be read and written, though not through a link, unless a rule forbids it or insists on asking.
The working directory may be read, and what the run context grants may be read or written as it says, though a relative grant not through a link, unless a rule forbids it or insists on asking.
Apart from that:
- allowed, unless a rule forbids it or insists on asking: reading files in the working directory; writing files in the working directory; tools that touch no files, commands or network
- as the rules decide, and asked about where no rule does: reading files elsewhere; writing files elsewhere; running commands; using the network; tools that do not say what they touch
Elsewhere is everything outside the working directory, inside the workspace root too.
A path that cannot be resolved is never used without asking.
Where nobody can be asked, what would be asked about is refused.
Commands are not inspected: what a command can reach is up to the host's sandbox, not to these permissions.";

#[test]
fn of_several_presets_between_two_prompts_only_the_last_is_shown_and_kept() {
    let lab = Lab::empty();
    let session = lab.create();
    lab.world.at(2_000.0);
    let first = asked(&lab, &session, json!("one"), &PromptOptions::default());
    assert_eq!(first.request.system_prompt, system_prompt(READ_ONLY));
    lab.world.at(3_000.0);
    lab.run(session.set_preset(Some(Preset::DangerFullAccess)))
        .unwrap();
    lab.run(session.set_preset(Some(Preset::WorkspaceWrite))).unwrap();
    // Nothing is shown until the next dispatch.
    assert_eq!(session.machine().checkpoints().len(), 1);
    lab.world.at(4_000.0);
    let second = asked(&lab, &session, json!("two"), &PromptOptions::default());
    assert_eq!(second.request.system_prompt, system_prompt(WORKSPACE_WRITE));
    let divergence = second.report.divergence;
    assert_eq!(
        (divergence.class, divergence.index),
        (DivergenceClass::System, -1)
    );
    assert_eq!(divergence.events, [DeclaredEvent::Preset]);
    let checkpoints = serde_json::to_value(session.machine().checkpoints()).unwrap();
    let expected = json!([
        first_checkpoint(1, 2_000),
        { "messageCount": 3, "timestamp": 4_000, "sections": { "permissions": WORKSPACE_WRITE } }
    ]);
    assert_eq!(checkpoints, expected);
    // As stored, and as replayed.
    let stored = lab.stored()["system_prompt_checkpoints"].clone();
    assert_eq!(stored.len(), 2);
    for message in 0..4 {
        let text = if message < 2 { READ_ONLY } else { WORKSPACE_WRITE };
        assert_eq!(
            session.machine().system_prompt_at(message).unwrap(),
            system_prompt(text)
        );
    }
    // A third prompt without a change makes none, and is nothing new.
    let third = asked(&lab, &session, json!("three"), &PromptOptions::default());
    assert_eq!(session.machine().checkpoints().len(), 2);
    assert_eq!(third.report.divergence.class, DivergenceClass::None);
    assert!(third.report.divergence.events.is_empty());
}

#[test]
fn a_preset_that_was_changed_and_changed_back_is_declared_and_shows_nothing() {
    let lab = Lab::empty();
    let session = lab.create();
    asked(&lab, &session, json!("one"), &PromptOptions::default());
    lab.run(session.set_preset(Some(Preset::DangerFullAccess)))
        .unwrap();
    lab.run(session.set_preset(Some(Preset::ReadOnly))).unwrap();
    let second = asked(&lab, &session, json!("two"), &PromptOptions::default());
    assert_eq!(second.request.system_prompt, system_prompt(READ_ONLY));
    assert_eq!(second.report.divergence.class, DivergenceClass::None);
    assert_eq!(second.report.divergence.events.len(), 1);
    assert_eq!(session.machine().checkpoints().len(), 1);
}

#[test]
fn other_sections_and_models_are_declared_until_they_are_dispatched() {
    let lab = Lab::empty();
    let session = lab.create();
    asked(&lab, &session, json!("one"), &PromptOptions::default());
    let change = session.configure(
        Some(Some(model_ref("m2"))),
        Some("Be verbose.".to_owned()),
        Some(vec![Section::new("style", "plain <permissions> </ Skill >")]),
    );
    lab.run(change).unwrap();
    let expected = [DeclaredEvent::Sections, DeclaredEvent::Model];
    // Requested and not sent: still declared.
    for _ in 0..2 {
        let turn = at_once(session.begin(&json!("two"), &PromptOptions::default())).unwrap();
        let (request, report) = turn.request().unwrap();
        assert_eq!(report.divergence.class, DivergenceClass::System);
        assert_eq!(report.divergence.events.to_vec(), expected);
        assert!(request.system_prompt.starts_with(
            "Be verbose.\n\n<style>\nplain &lt;permissions> &lt;/ Skill >\n</style>\n\n<cwd>\n"
        ));
        lab.run(turn.cancel()).unwrap();
    }
    assert_eq!(session.machine().checkpoints().len(), 1);
    let sent = asked(&lab, &session, json!("two"), &PromptOptions::default());
    assert_eq!(sent.report.divergence.events.len(), 2);
    let checkpoint = serde_json::to_value(&session.machine().checkpoints()[1]).unwrap();
    assert_eq!(
        checkpoint["sections"],
        json!({ "preamble": "Be verbose.", "style": "plain &lt;permissions> &lt;/ Skill >" })
    );
    let after = asked(&lab, &session, json!("three"), &PromptOptions::default());
    assert!(after.report.divergence.events.is_empty());
    // A section that is removed stands as null.
    lab.run(session.configure(None, None, Some(Vec::new()))).unwrap();
    let removed = asked(&lab, &session, json!("four"), &PromptOptions::default());
    assert_eq!(removed.report.divergence.class, DivergenceClass::System);
    let checkpoint = serde_json::to_value(&session.machine().checkpoints()[2]).unwrap();
    assert_eq!(checkpoint["sections"], json!({ "style": null }));
    assert_eq!(
        session.machine().system_prompt_at(6).unwrap(),
        removed.request.system_prompt
    );
}

/// Another run context, that the model is told of.
async fn rhyme(session: Rc<Session<Value>>) {
    let context = run_context(json!({ "system_prompt": ["Rhyme."] }));
    session.set_run_context(Some(context)).await.unwrap();
}

#[test]
fn a_run_context_that_a_tool_sets_is_declared_in_the_request_that_shows_it() {
    let lab = Lab::empty();
    let session = lab.create();
    let changing = session.clone();
    lab.tools.on("a", move |_, _| {
        let session = changing.clone();
        async move {
            rhyme(session).await;
            Ok(json!("done"))
        }
    });
    lab.model.answers(calls(&[("a", "add", json!({}))]));
    asked(&lab, &session, json!("one"), &PromptOptions::default());
    // The prompt stands for the whole turn.
    let continued = lab.model.seen().pop().unwrap().report.divergence;
    assert_eq!(continued.class, DivergenceClass::None);
    assert_eq!(continued.events, []);
    let next = asked(&lab, &session, json!("two"), &PromptOptions::default());
    assert!(next.request.system_prompt.contains("Rhyme."));
    assert_eq!(next.report.divergence.class, DivergenceClass::System);
    assert_eq!(next.report.divergence.events, [DeclaredEvent::RunContext]);
    let last = asked(&lab, &session, json!("three"), &PromptOptions::default());
    assert_eq!(last.report.divergence.class, DivergenceClass::None);
    assert_eq!(last.report.divergence.events, []);
}

#[test]
fn a_run_context_that_is_set_between_a_request_and_its_dispatch_is_declared_in_a_later_one() {
    let lab = Lab::empty();
    let session = lab.create();
    lab.run(session.set_preset(Some(Preset::DangerFullAccess)))
        .unwrap();
    let turn = at_once(session.begin(&json!("one"), &PromptOptions::default())).unwrap();
    assert_eq!(
        turn.request().unwrap().1.divergence.events,
        [DeclaredEvent::Preset]
    );
    lab.run(rhyme(session.clone()));
    lab.run(turn.dispatched()).unwrap();
    lab.run(turn.append(vec![incoming(says("hi"))])).unwrap();
    lab.run(turn.finish(Outcome::Success, None)).unwrap();
    let next = asked(&lab, &session, json!("two"), &PromptOptions::default());
    assert_eq!(next.report.divergence.class, DivergenceClass::System);
    assert_eq!(next.report.divergence.events, [DeclaredEvent::RunContext]);
}

#[test]
fn a_model_that_is_changed_alone_diverges_in_nothing() {
    let lab = Lab::empty();
    let session = lab.create();
    asked(&lab, &session, json!("one"), &PromptOptions::default());
    lab.run(session.configure(Some(Some(model_ref("m2"))), None, None))
        .unwrap();
    let second = asked(&lab, &session, json!("two"), &PromptOptions::default());
    assert_eq!(second.report.divergence.class, DivergenceClass::None);
    assert_eq!(second.report.divergence.events, [DeclaredEvent::Model]);
}

#[test]
fn the_first_checkpoint_holds_every_section() {
    let lab = Lab::empty();
    let session = lab.create_with(NewSession {
        id: Some(ID.to_owned()),
        cwd: Some("/w".to_owned()),
        system_prompt: "Be brief.".to_owned(),
        permission_preset: Some(None),
        project_instructions: vec![
            InstructionFile {
                path: "A.md".to_owned(),
                content: "Use tabs.".to_owned(),
            },
            InstructionFile {
                path: "b/B.md".to_owned(),
                content: "Use spaces.".to_owned(),
            },
        ],
        sections: vec![
            Section::new("zeta", "z"),
            Section::new("alpha", "a"),
            Section::new("void", " \n"),
        ],
        ..NewSession::default()
    });
    let seen = asked(&lab, &session, json!("one"), &PromptOptions::default());
    let checkpoint = serde_json::to_value(&session.machine().checkpoints()[0]).unwrap();
    let mut sections = checkpoint["sections"].clone();
    let permissions = sections["permissions"].take();
    assert_eq!(
        sections,
        json!({
            "preamble": "Be brief.",
            "project_instructions": "# A.md\n\nUse tabs.\n\n# b/B.md\n\nUse spaces.",
            "alpha": "a", "zeta": "z", "cwd": "Current working directory: /w", "permissions": null
        })
    );
    let permissions = permissions.as_str().unwrap();
    assert!(permissions.starts_with(
        "No permission preset is set: the rules and the grants below decide each call.\nWorking directory: /w\n"
    ));
    assert_eq!(
        seen.request.system_prompt,
        format!(
            "Be brief.\n\n<project_instructions>\n# A.md\n\nUse tabs.\n\n# b/B.md\n\nUse spaces.\n</project_instructions>\n\n\
             <alpha>\na\n</alpha>\n\n<zeta>\nz\n</zeta>\n\n<cwd>\nCurrent working directory: /w\n</cwd>\n\n\
             <permissions>\n{permissions}\n</permissions>"
        )
    );
}

#[test]
fn a_chosen_skill_is_shown_before_its_own_message_only_and_later_edits_change_nothing() {
    let lab = Lab::empty();
    let session = lab.create();
    lab.run(lab.runtime.add_skill(HAIKU, HAIKU_LOCATION, "project"))
        .unwrap();
    lab.world.at(2_000.0);
    let zeroth = asked(&lab, &session, json!("zero"), &PromptOptions::default());
    assert_eq!(zeroth.report.projection().skill_expansions, []);
    let image = json!({ "type": "image", "data": "AA==", "mimeType": "image/png" });
    let blocks = json!([{ "type": "text", "text": "one" }, image]);
    let first = asked(&lab, &session, blocks.clone(), &choosing(&[HAIKU_ID]));
    let shown = |messages: &[Value]| -> Vec<Value> {
        messages
            .iter()
            .map(|message| message["content"].clone())
            .collect()
    };
    let hi = says("hi")["content"].clone();
    let expanded = json!([{ "type": "text", "text": HAIKU_BLOCK }, { "type": "text", "text": "one" }, image]);
    assert_eq!(
        shown(&first.request.messages()),
        [json!("zero"), hi.clone(), expanded.clone()]
    );
    assert_eq!(first.report.divergence.class, DivergenceClass::None);
    let map = serde_json::to_value(first.report.projection()).unwrap();
    assert_eq!(
        map,
        json!({
            "historyMessageCount": 3,
            "sources": [
                { "type": "history", "messageIndex": 0 },
                { "type": "history", "messageIndex": 1 },
                { "type": "history", "messageIndex": 2 }
            ],
            "skillExpansions": [{
                "messageIndex": 2, "snapshotIndex": 0,
                "skills": [{ "id": HAIKU_ID, "revision": HAIKU_REVISION, "start": 0, "end": 77 }]
            }]
        })
    );
    // The source is edited.
    let edited = "---\nname: haiku\ndescription: Writes haiku\n---\nWrite two haiku.\n";
    lab.run(lab.runtime.add_skill(edited, HAIKU_LOCATION, "project"))
        .unwrap();
    lab.world.at(3_000.0);
    let second = asked(&lab, &session, json!("two"), &PromptOptions::default());
    assert_eq!(
        shown(&second.request.messages()),
        [
            json!("zero"),
            hi.clone(),
            expanded.clone(),
            hi.clone(),
            json!("two")
        ]
    );
    // Chosen again, it is another snapshot with its own revision; the first stays.
    let third = asked(&lab, &session, json!("now $haiku"), &PromptOptions::default());
    let new_block = HAIKU_BLOCK.replace("a haiku", "two haiku");
    assert_eq!(
        shown(&third.request.messages()),
        [
            json!("zero"),
            hi.clone(),
            expanded,
            hi.clone(),
            json!("two"),
            hi,
            json!(format!("{new_block}\n\nnow $haiku"))
        ]
    );
    let snapshots = serde_json::to_value(session.machine().snapshots()).unwrap();
    let mut again = haiku_snapshot(3, 3_000);
    again["content"] = json!(new_block);
    again["skills"][0]["content"] = json!(edited);
    again["skills"][0]["revision"] =
        json!("63d8a9aa7e3d653dbf8649b9517c6e3d42ecec1360432199c07b14bc26f923a3");
    assert_eq!(snapshots, json!([haiku_snapshot(1, 2_000), again]));
    // What was typed is what is stored.
    assert_eq!(session.machine().bodies()[2]["content"], blocks);
    assert_eq!(session.machine().bodies()[6]["content"], "now $haiku");
    // Skills are no event: choosing one only appends.
    assert!(third.report.divergence.events.is_empty());
    assert_eq!(third.report.divergence.class, DivergenceClass::None);
}

#[test]
fn mentions_choose_skills_and_say_where_they_do_not() {
    let lab = Lab::empty();
    let session = lab.create();
    lab.run(lab.runtime.add_skill(HAIKU, HAIKU_LOCATION, "project"))
        .unwrap();
    asked(&lab, &session, json!("zero"), &PromptOptions::default());
    let text = "use $haiku and $nothing";
    let seen = asked(&lab, &session, json!(text), &PromptOptions::default());
    let notices = seen.report.notices;
    assert_eq!(notices.len(), 1);
    assert_eq!(notices[0].code, NoticeCode::MentionUnknown);
    assert_eq!(notices[0].message_index, Some(MessageIndex(2)));
    assert_eq!(notices[0].detail.as_deref(), Some("nothing"));
    assert_eq!(session.machine().snapshots().len(), 1);
    // Switched off, they are text.
    let options = PromptOptions {
        mentions: false,
        ..PromptOptions::default()
    };
    let seen = asked(&lab, &session, json!(text), &options);
    assert!(seen.report.notices.is_empty());
    assert_eq!(session.machine().snapshots().len(), 1);
    // Mentioned and chosen is chosen once.
    asked(&lab, &session, json!(text), &choosing(&[HAIKU_ID, HAIKU_ID]));
    assert_eq!(session.machine().snapshots()[1].skills.as_ref().unwrap().len(), 1);
}

#[test]
fn a_turn_that_was_not_dispatched_does_not_count_among_the_turns() {
    let lab = Lab::empty();
    let session = lab.create();
    lab.run(lab.runtime.add_skill(HAIKU, HAIKU_LOCATION, "project"))
        .unwrap();
    let turn = at_once(session.begin(&json!("never"), &choosing(&[HAIKU_ID]))).unwrap();
    turn.request().unwrap();
    lab.run(turn.cancel()).unwrap();
    lab.world.at(2_000.0);
    let seen = asked(&lab, &session, json!("one"), &choosing(&[HAIKU_ID]));
    assert_eq!(seen.request.messages().len(), 1);
    let snapshots = serde_json::to_value(session.machine().snapshots()).unwrap();
    assert_eq!(snapshots, json!([haiku_snapshot(0, 2_000)]));
}

#[test]
fn asking_for_the_request_again_gives_the_same_until_it_is_sent() {
    let lab = Lab::empty();
    let session = lab.create();
    lab.run(lab.runtime.add_skill(HAIKU, HAIKU_LOCATION, "project"))
        .unwrap();
    asked(&lab, &session, json!("zero"), &PromptOptions::default());
    lab.run(session.set_preset(Some(Preset::WorkspaceWrite))).unwrap();
    let turn = at_once(session.begin(&json!("one"), &choosing(&[HAIKU_ID]))).unwrap();
    let first = turn.request().unwrap();
    lab.world.at(9_000.0);
    // A skill that is edited in between changes nothing: it was read when it was chosen.
    lab.run(lab.runtime.remove_skill(HAIKU_ID)).unwrap();
    assert_eq!(turn.request().unwrap(), first);
    lab.run(session.set_title("t".to_owned())).unwrap();
    assert_eq!(turn.request().unwrap(), first);
    let before = session.machine().projection();
    assert_eq!(
        before.unwrap().history_message_count,
        1,
        "of the last one that was sent"
    );
    lab.run(turn.dispatched()).unwrap();
    assert_eq!(session.machine().projection(), Some(first.1.projection()));
    // The same request again, as for a retry: nothing differs any more.
    let (request, report) = turn.request().unwrap();
    assert_eq!(request, first.0);
    assert_eq!(report.divergence.class, DivergenceClass::None);
    assert!(report.divergence.events.is_empty());
}

#[test]
fn a_request_that_was_asked_for_and_never_sent_is_not_the_last_one() {
    let lab = Lab::empty();
    let session = lab.create();
    let turn = lab.run(dispatched(&session, "add"));
    lab.run(turn.append(vec![incoming(two_calls())])).unwrap();
    lab.run(allow(&session, &["c1", "c2"]));
    lab.run(turn.append(vec![
        incoming(result("c1", "add", "1")),
        incoming(result("c2", "add", "2")),
    ]))
    .unwrap();
    let last = session.machine().projection();
    turn.request().unwrap();
    // Nothing is no answer.
    lab.run(turn.append(Vec::new())).unwrap();
    assert_eq!(session.machine().projection(), last);
    lab.run(turn.cancel()).unwrap();
    assert_eq!(session.machine().projection(), last);
    // One that was answered was sent, whoever forgot to say so.
    let turn = lab.run(dispatched(&session, "more"));
    lab.run(allow(&session, &["c1"]));
    lab.run(turn.append(vec![
        incoming(calls(&[("c1", "add", json!({}))])),
        incoming(result("c1", "add", "1")),
    ]))
    .unwrap();
    let (_, report) = turn.request().unwrap();
    lab.run(turn.append(vec![incoming(says("done"))])).unwrap();
    assert_eq!(session.machine().projection(), Some(report.projection()));
    lab.run(turn.finish(Outcome::Success, None)).unwrap();
}

#[test]
fn the_system_prompt_of_a_turn_stays_byte_for_byte_through_its_continuations() {
    let lab = Lab::empty();
    let session = lab.create();
    long_turn(&lab, &session, Way::Prompt);
    let seen = lab.model.seen();
    assert_eq!(seen[0].request.system_prompt, seen[1].request.system_prompt);
    assert_eq!(seen[0].request.tools, seen[1].request.tools);
    assert_eq!(
        seen[0].request.tools,
        [
            json!({ "name": "add", "description": "the tool add" }),
            json!({ "name": "write_file", "description": "the tool write_file" })
        ]
    );
    assert_eq!(seen[1].report.divergence.class, DivergenceClass::None);
}

#[test]
fn the_budget_is_the_sum_of_its_parts() {
    let lab = Lab::empty();
    let session = lab.create_with(NewSession {
        id: Some(ID.to_owned()),
        model: Some(runcontext::session::ModelRef {
            context_window: Some(10_000),
            max_tokens: Some(100),
            ..model_ref("m")
        }),
        system_prompt: "Be brief.".to_owned(),
        ..NewSession::default()
    });
    lab.run(lab.runtime.add_skill(HAIKU, HAIKU_LOCATION, "project"))
        .unwrap();
    let image = json!({ "type": "image", "data": "AA==", "mimeType": "image/png" });
    let content = json!([{ "type": "text", "text": "hello" }, image]);
    let seen = asked(&lab, &session, content, &choosing(&[HAIKU_ID]));
    let budget = seen.report.budget;
    let prompt = tokens(&seen.request.system_prompt);
    assert_eq!(budget.parts.system_prompt, prompt);
    let tools = seen.request.tools.iter().map(json_tokens).sum();
    assert_eq!((seen.request.tools.len(), budget.parts.tools), (3, tools));
    let message = tokens("hello") + 1_600;
    assert_eq!(budget.parts.messages, message);
    let skills = tokens(HAIKU_BLOCK);
    assert_eq!(budget.parts.skills, skills);
    assert_eq!((budget.parts.legacy_context, budget.parts.summary), (0, 0));
    assert_eq!(seen.report.tokens(), [message + skills]);
    assert_eq!(budget.estimated_input_tokens, prompt + tools + message + skills);
    assert_eq!((budget.context_window, budget.input_limit), (10_000, 9_900));
    assert_eq!(budget.reserved_output_tokens, 100);
    assert!(budget.fits);
    assert_eq!(session.machine().budget(), Some(budget));
    // A window that is not known fits everything.
    lab.run(session.configure(Some(None), None, None)).unwrap();
    let seen = asked(&lab, &session, json!("more"), &PromptOptions::default());
    assert!(seen.report.budget.fits);
    assert_eq!(
        (seen.report.budget.context_window, seen.report.budget.input_limit),
        (0, 0)
    );
    assert_eq!(seen.report.tokens().len(), seen.request.messages().len());
}

/// Stores a session of foreign make.
pub fn store(lab: &Lab, messages: &[(Value, bool)], more: impl FnOnce(&mut Commit<Value>)) {
    let memory: MemoryStorage<Value> = lab.storage.memory.clone();
    let session = lab.create();
    session.dispose().unwrap();
    let outlines: Vec<_> = messages
        .iter()
        .map(|(body, turn)| Dialect::Loop.outline(body, *turn).unwrap())
        .collect();
    let packs = outlines.chunks(OUTLINES_PER_PACK as usize).zip(0..);
    let mut commit = Commit {
        session_id: ID.to_owned(),
        operation_id: "imported".to_owned(),
        timestamp: 1_500.0,
        create: None,
        origin: session.machine().origin().to_owned(),
        expected: Some(1),
        messages: messages
            .iter()
            .zip(0..)
            .map(|((body, _), index)| AppendedMessage {
                index: MessageIndex(index),
                body: body.clone(),
            })
            .collect(),
        outline_packs: packs
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
    more(&mut commit);
    run(&lab.world, memory.session(ID).commit(Rc::new(commit))).unwrap();
}

#[test]
fn snapshots_without_placement_replay_as_messages_and_permissions_say_that_they_replace_them() {
    let lab = Lab::empty();
    let legacy = RuntimeContextSnapshot {
        user_turn: 0,
        content: "You may do anything.".to_owned(),
        timestamp: 77.0,
        skills: None,
        placement: None,
    };
    let messages = [(typed("one", 10).0, true), (says("hi"), false)];
    store(&lab, &messages, |commit| {
        commit.snapshots = vec![(0, legacy.clone())];
    });
    let session = lab.open();
    lab.world.at(2_000.0);
    let seen = asked(&lab, &session, json!("two"), &PromptOptions::default());
    let context = json!({ "role": "user", "content": "You may do anything.", "timestamp": 77 });
    assert_eq!(
        seen.request.messages(),
        [typed("one", 10).0, context, says("hi"), typed("two", 2_000).0]
    );
    let end = "These permissions replace every earlier statement about permissions in this conversation.\n</permissions>";
    assert!(seen.request.system_prompt.ends_with(end));
    assert_eq!(
        seen.report.budget.parts.legacy_context,
        tokens("You may do anything.")
    );
    assert_eq!(session.machine().snapshots(), [legacy]);
    // What the model saw before is not known.
    assert_eq!(session.machine().system_prompt_at(1).unwrap(), "");
    assert_eq!(
        session.machine().system_prompt_at(2).unwrap(),
        seen.request.system_prompt
    );
    // One whose turn is not there is kept, not shown, noticed, and replaced by nothing.
    let lab = Lab::empty();
    store(&lab, &messages, |commit| {
        let snapshot = RuntimeContextSnapshot {
            user_turn: 9,
            content: "You may do anything.".to_owned(),
            timestamp: 77.0,
            skills: None,
            placement: None,
        };
        commit.snapshots = vec![(0, snapshot)];
    });
    let session = lab.open();
    let seen = asked(&lab, &session, json!("two"), &PromptOptions::default());
    assert_eq!(seen.request.messages().len(), 3);
    assert_eq!(seen.request.system_prompt, system_prompt(READ_ONLY));
    assert_eq!(seen.report.notices.len(), 1);
    assert_eq!(seen.report.notices[0].code, NoticeCode::AnchorMissing);
    assert_eq!(session.machine().snapshots().len(), 1);
}

#[test]
fn a_long_session_is_loaded_from_its_last_compaction_and_goes_on_from_there() {
    let lab = Lab::empty();
    let compaction = |first: u32, summary: &str| CompactionCheckpoint {
        id: format!("from-{first}"),
        first_kept_message_index: MessageIndex(first),
        history_message_count: 1_100,
        summary: summary.to_owned(),
        timestamp: 88.0,
        provider: "p".to_owned(),
        model: "m".to_owned(),
        usage: None,
    };
    let messages: Vec<(Value, bool)> = (0..1_100)
        .map(|at| match at {
            1_099 => (two_calls(), false),
            _ if at % 2 == 0 => (typed(&format!("message {at}"), at).0, true),
            _ => (says(&format!("message {at}")), false),
        })
        .collect();
    store(&lab, &messages, |commit| {
        commit.compactions = vec![
            (0, compaction(500, "older")),
            (1, compaction(1_090, "a <permissions> summary")),
        ];
        commit.settings.insert("openTurn".to_owned(), json!(1_098));
    });
    let session = lab.open();
    assert_eq!(session.machine().loaded_from(), 1_090);
    assert_eq!(session.machine().message_count(), 1_100);
    let unanswered = session.machine().interrupted().unwrap().unanswered;
    assert_eq!(unanswered.len(), 2);
    assert_eq!(unanswered[1].arguments, json!({ "n": 2 }));
    lab.run(session.abandon()).unwrap();
    assert_eq!(
        lab.events(),
        [
            "message 1100 toolResult",
            "message 1101 toolResult",
            "saved",
            "ended cancelled"
        ]
    );
    let seen = asked(&lab, &session, json!("more"), &PromptOptions::default());
    let shown = &seen.request.messages();
    // The summary, 10 kept messages, 2 results, the new one.
    assert_eq!(shown.len(), 14);
    assert_eq!(
        shown[0],
        json!({ "role": "user", "content": "a &lt;permissions> summary", "timestamp": 88 })
    );
    assert_eq!(shown[1]["content"], "message 1090");
    assert_eq!(shown[13]["content"], "more");
    assert_eq!(
        seen.report.projection().sources[0],
        Source::Compaction {
            checkpoint_id: "from-1090".to_owned(),
            message_index: MessageIndex(1_090),
            summarized_before: 1_090
        }
    );
    check_pairs(shown).unwrap();
    assert_eq!(lab.stored()["messages"].len(), 1_104);
    assert_eq!(session.machine().bodies().len(), 14);
    // A page across the border of what is loaded.
    let page = lab.run(session.read_messages(Some(1_093), 5)).unwrap();
    let contents: Vec<String> = page
        .iter()
        .map(|body| match body["content"].as_str() {
            Some(text) => text.to_owned(),
            None => body["content"][0]["text"].as_str().unwrap().to_owned(),
        })
        .collect();
    let expected: Vec<String> = (1_088..1_093).map(|at| format!("message {at}")).collect();
    assert_eq!(contents, expected);
    // The same after another restart.
    let lab = Lab::on(lab.storage.memory.clone(), true);
    let session = lab.open();
    let again = asked(&lab, &session, json!("again"), &PromptOptions::default());
    assert_eq!(again.request.messages()[..14], seen.request.messages()[..]);
}

#[test]
fn a_conversation_is_loaded_whole_up_to_a_thousand_messages_or_where_nothing_was_compacted() {
    for (count, compacted, first) in [(1_000, true, 0), (1_001, true, 900), (1_001, false, 0)] {
        let lab = Lab::empty();
        let messages: Vec<(Value, bool)> = (0..count).map(|at| (typed("x", at).0, true)).collect();
        store(&lab, &messages, |commit| {
            let compaction = CompactionCheckpoint {
                id: "k".to_owned(),
                first_kept_message_index: MessageIndex(900),
                history_message_count: 1_000,
                summary: "so far".to_owned(),
                timestamp: 88.0,
                provider: "p".to_owned(),
                model: "m".to_owned(),
                usage: None,
            };
            commit.compactions.extend(compacted.then_some((0, compaction)));
        });
        let session = lab.open();
        assert_eq!(session.machine().loaded_from(), first);
        assert_eq!(u64::from(session.machine().message_count()), count);
    }
}

#[test]
fn titles_are_made_of_what_was_typed() {
    let lab = Lab::empty();
    let session = lab.create();
    lab.run(lab.runtime.add_skill(HAIKU, HAIKU_LOCATION, "project"))
        .unwrap();
    let blocks = json!([
        { "type": "text", "text": "two" },
        { "type": "image", "data": "AA==", "mimeType": "image/png" },
        { "type": "text", "text": "lines" }
    ]);
    asked(&lab, &session, json!("one"), &choosing(&[HAIKU_ID]));
    asked(&lab, &session, blocks, &PromptOptions::default());
    asked(&lab, &session, json!(""), &PromptOptions::default());
    assert_eq!(
        session.machine().title_inputs(),
        [json!("one"), json!("two\nlines"), json!("")]
    );
}

/// What a random session went through, to show that the generator covers something.
#[derive(Debug, Default)]
struct Coverage {
    requests: usize,
    turns: usize,
    calls: usize,
    interrupted: usize,
    failed: usize,
    cancelled: usize,
    skills: usize,
    reopened: usize,
    abandoned: usize,
}

/// One request after another of one session.
struct Watch {
    before: Option<(String, Vec<Value>, Projection)>,
    coverage: Coverage,
}

impl Watch {
    fn see(&mut self, seed: u64, seen: &Seen) {
        let Seen { request, report } = seen;
        let pairs = check_pairs(&request.messages()).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(report.projection().sources.len(), request.messages().len());
        assert_eq!(report.divergence.class, DivergenceClass::None, "seed {seed}");
        assert_eq!(report.divergence.index, -1);
        if let Some((system_prompt, messages, projection)) = &self.before {
            assert_eq!(&request.system_prompt, system_prompt, "seed {seed}");
            assert!(request.messages().len() >= messages.len(), "seed {seed}");
            assert_eq!(request.messages()[..messages.len()], messages[..], "seed {seed}");
            assert_eq!(
                report.projection().sources[..messages.len()],
                projection.sources[..],
                "seed {seed}"
            );
        }
        self.coverage.requests += 1;
        self.coverage.calls = self.coverage.calls.max(pairs.calls);
        self.coverage.interrupted = self.coverage.interrupted.max(pairs.interrupted);
        self.before = Some((
            request.system_prompt.clone(),
            request.messages(),
            report.projection().clone(),
        ));
    }
}

#[test]
fn with_nothing_declared_every_request_begins_with_the_one_before() {
    let mut all = Coverage::default();
    for seed in 1..=60 {
        let mut random = Random::new(seed);
        let mut lab = Lab::empty();
        let mut session = lab.create();
        lab.run(lab.runtime.add_skill(HAIKU, HAIKU_LOCATION, "project"))
            .unwrap();
        let mut watch = Watch {
            before: None,
            coverage: Coverage::default(),
        };
        let mut number = 0;
        for _ in 0..8 {
            watch.coverage.turns += 1;
            let options = if random.one_in(3) {
                watch.coverage.skills += 1;
                choosing(&[HAIKU_ID])
            } else {
                PromptOptions::default()
            };
            let content = if random.one_in(2) {
                json!("text")
            } else {
                json!([{ "type": "text", "text": "block" }])
            };
            let turn = at_once(session.begin(&content, &options)).unwrap();
            let mut dies = false;
            loop {
                let (request, report) = turn.request().unwrap();
                if random.one_in(12) {
                    // Asked for, never sent.
                    lab.run(turn.cancel()).unwrap();
                    watch.coverage.cancelled += 1;
                    break;
                }
                watch.see(seed, &Seen { request, report });
                lab.run(turn.dispatched()).unwrap();
                if random.one_in(10) {
                    watch.coverage.failed += 1;
                    lab.run(turn.finish(Outcome::Error, Some("overloaded".to_owned())))
                        .unwrap();
                    break;
                }
                let answer = answer(&mut random, &mut number);
                lab.run(turn.append(vec![incoming(answer)])).unwrap();
                let mut open = turn.open_calls();
                while !open.is_empty() && !random.one_in(6) {
                    let call = open.remove(random.below(open.len()));
                    lab.run(allow(&session, &[call.id.as_str()]));
                    lab.run(turn.append(vec![incoming(result(&call.id, "add", "done"))]))
                        .unwrap();
                    open = turn.open_calls();
                }
                if random.one_in(15) {
                    dies = true;
                    break;
                }
                if !open.is_empty() || random.one_in(3) {
                    lab.run(turn.finish(Outcome::Success, None)).unwrap();
                    break;
                }
            }
            if dies || random.one_in(5) {
                // A restart: what the model sees goes on all the same.
                lab = Lab::on(lab.storage.memory.clone(), true);
                session = lab.open();
                watch.coverage.reopened += 1;
                if session.machine().interrupted().is_some() {
                    lab.run(session.abandon()).unwrap();
                    watch.coverage.abandoned += 1;
                }
            }
        }
        let one = watch.coverage;
        all.requests += one.requests;
        all.turns += one.turns;
        all.calls += one.calls;
        all.interrupted += one.interrupted;
        all.failed += one.failed;
        all.cancelled += one.cancelled;
        all.skills += one.skills;
        all.reopened += one.reopened;
        all.abandoned += one.abandoned;
    }
    println!("{all:?}");
    let least = [
        all.calls,
        all.interrupted,
        all.failed,
        all.cancelled,
        all.skills,
        all.reopened,
        all.abandoned,
    ];
    assert!(least.iter().all(|count| *count >= 20), "{all:?}");
    assert!(all.requests > 500, "{all:?}");
}

#[test]
fn an_answer_in_words_is_kept_as_it_came() {
    let lab = Lab::empty();
    let session = lab.create();
    let mut strange = said("hi").0;
    strange["mine"] = json!({ "deep": [1, null, "\u{0}", 1.5, { "a": [] }] });
    let unknown = json!({ "type": "reasoning", "secret": "AA==" });
    strange["content"].as_array_mut().unwrap().push(unknown);
    lab.model.answers(strange.clone());
    lab.prompt(&session, "hello").unwrap();
    assert_eq!(session.machine().bodies()[1], strange);
    let seen = asked(&lab, &session, json!("more"), &PromptOptions::default());
    assert_eq!(seen.request.messages()[1], strange);
    let error = refused(session.machine().system_prompt_at(9));
    assert_eq!(error.message(), "there is no message 9; the conversation has 4");
}
