//! The `<permissions>` text against the gate. The text is read back: what it says of each kind of call, what it names as
//! granted. Then calls of that kind are decided. So the text must not promise more than the gate gives, nor less.

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use runcontext::{
    permissions::{Action, Decision, Preset, permissions_text},
    run_context::RunContext,
};
use serde_json::{Value, json};

use crate::ask::decide;

// ---- the text, read back -------------------------------------------------------------------------------------------

/// What the text says of a kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Allowed,
    AsTheRules,
    OnlyWithApproval,
}

const VERBS: [(Verb, &str); 3] = [
    (
        Verb::Allowed,
        "- allowed, unless a rule forbids it or insists on asking: ",
    ),
    (
        Verb::AsTheRules,
        "- as the rules decide, and asked about where no rule does: ",
    ),
    (
        Verb::OnlyWithApproval,
        "- only with a person's approval, whatever the rules allow, and not at all where a rule forbids it: ",
    ),
];

/// A kind of call, as the text calls it, and how to make such a call.
struct Kind {
    phrase: &'static str,
    access: &'static str,
    /// Whether its path is in the working directory; none where it has none.
    inside: Option<bool>,
}

/// The one clause that may be about less than its words: see [`Said::directory_is_readable`].
const IN_DIRECTORY: &str = "reading files in the working directory";

const KINDS: [Kind; 8] = [
    kind(IN_DIRECTORY, "read", Some(true)),
    kind("reading files elsewhere", "read", Some(false)),
    kind("writing files in the working directory", "write", Some(true)),
    kind("writing files elsewhere", "write", Some(false)),
    kind("running commands", "execute", None),
    kind("using the network", "network", None),
    kind("tools that touch no files, commands or network", "none", None),
    kind("tools that do not say what they touch", "unclassified", None),
];

const fn kind(phrase: &'static str, access: &'static str, inside: Option<bool>) -> Kind {
    Kind {
        phrase,
        access,
        inside,
    }
}

/// What the text says.
#[derive(Clone, Debug)]
struct Said {
    verbs: Vec<(&'static str, Verb)>,
    directory_is_readable: bool,
    grants_write: bool,
    links_are_void: bool,
    writable: Vec<String>,
    readable: Vec<String>,
    memory: bool,
    group: Option<String>,
    unresolved_asks: bool,
    nobody_refuses: bool,
}

fn read(text: &str) -> Said {
    let line = |start: &str| text.lines().find_map(|line| line.strip_prefix(start));
    let list = |start: &str| -> Vec<String> {
        let entries = line(start).into_iter().flat_map(|rest| rest.split(", "));
        entries.map(str::to_owned).collect()
    };
    let mut verbs = Vec::new();
    for (verb, start) in VERBS {
        let Some(phrases) = line(start) else { continue };
        for phrase in phrases.split("; ") {
            let named = KINDS
                .iter()
                .filter(|kind| phrase == "everything" || kind.phrase == phrase);
            let named: Vec<_> = named.map(|kind| (kind.phrase, verb)).collect();
            assert!(!named.is_empty(), "nobody knows what `{phrase}` is");
            verbs.extend(named);
        }
    }
    // Every kind of call once.
    for kind in &KINDS {
        assert_eq!(
            verbs.iter().filter(|(phrase, _)| *phrase == kind.phrase).count(),
            1,
            "{}: {text}",
            kind.phrase
        );
    }
    Said {
        verbs,
        directory_is_readable: text.contains("\nThe working directory may be read, "),
        grants_write: text.contains("run context grants may be read or written as it says, "),
        links_are_void: text.contains("a relative grant not through a link"),
        writable: list("Granted for reading and writing: "),
        readable: list("Granted for reading: "),
        memory: text.contains("`memory/` in the workspace root may be read and written, though not through a link, unless a rule forbids it or insists on asking."),
        group: line("Permission group: ").map(str::to_owned),
        unresolved_asks: text.contains("\nA path that cannot be resolved is never used without asking."),
        nobody_refuses: text.contains("\nWhere nobody can be asked, what would be asked about is refused."),
    }
}

// ---- calls ---------------------------------------------------------------------------------------------------------

/// What a session is.
#[derive(Clone, Debug)]
struct Situation {
    preset: Option<Preset>,
    context: Value,
}

/// What a rule for the tool says; the strictest last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rules {
    None,
    Allow,
    Require,
    LockedRequire,
    Deny,
    LockedDeny,
}

const RULES: [Rules; 6] = [
    Rules::None,
    Rules::Allow,
    Rules::Require,
    Rules::LockedRequire,
    Rules::Deny,
    Rules::LockedDeny,
];

/// What stands besides.
#[derive(Clone, Copy, Debug, Default)]
struct Besides {
    headless: bool,
    unresolved: bool,
    bypass: bool,
}

const CWD: &str = "/ws/app";

impl Situation {
    fn context(&self) -> Option<RunContext> {
        let input = json!({ "call": { "toolName": "t" }, "cwd": CWD, "runContext": self.context });
        let parsed = runcontext::permissions::DecideInput::parse(&input, &Value::Null, crate::ask::fold);
        parsed.unwrap().inquiry.run_context
    }

    fn directory(&self) -> String {
        self.context["working_directory"]
            .as_str()
            .filter(|own| !own.is_empty())
            .unwrap_or(CWD)
            .to_owned()
    }

    fn group(&self) -> &str {
        self.context["security_group"]
            .as_str()
            .filter(|group| !group.is_empty())
            .unwrap_or("default")
    }

    fn text(&self) -> String {
        permissions_text(self.preset, &self.directory(), self.context().as_ref(), false)
    }

    fn ask(&self, access: &str, path: Option<&str>, rules: Rules, besides: Besides) -> Decision {
        let mut tool = json!({ "access": access });
        if access == "unclassified" {
            tool = json!({});
        }
        let mut arguments = json!({});
        if let Some(path) = path {
            arguments["path"] = json!(path);
            tool["paths"] = json!([{ "argument": "/path", "access": access }]);
        }
        let (action, locked) = match rules {
            Rules::None => (None, false),
            Rules::Allow => (Some("allow"), false),
            Rules::Require => (Some("require"), false),
            Rules::LockedRequire => (Some("require"), true),
            Rules::Deny => (Some("deny"), false),
            Rules::LockedDeny => (Some("deny"), true),
        };
        let rules: Vec<Value> = action
            .iter()
            .map(|action| json!({ "id": 1, "tool_pattern": "tool", "action": action, "locked": locked, "group_id": self.group() }))
            .collect();
        let mut resolves = json!({ "/ws/app/linked": "/far/away", "/tmp/linked": "/far/away", "/ws/memory/link": "/far/away" });
        if let (true, Some(path)) = (besides.unresolved, path) {
            resolves[path] = Value::Null;
        }
        let bypasses = if besides.bypass {
            json!([{ "scope": "all" }])
        } else {
            json!([])
        };
        let input = json!({
            "call": { "toolName": "tool", "arguments": arguments }, "tool": tool, "rules": rules, "groups": [self.group()],
            "preset": self.preset, "runContext": self.context, "headless": besides.headless, "bypasses": bypasses,
            "cwd": CWD, "workspaceRoot": "/ws",
        });
        decide(&input, &Value::Null, &resolves, false).unwrap()
    }

    /// An entry of the run context, as a path.
    fn entry(&self, entry: &str) -> String {
        let bare = entry.trim_end_matches('*').trim_end_matches('/');
        if bare.starts_with('/') {
            bare.to_owned()
        } else {
            format!("{}/{bare}", self.directory())
        }
    }
}

/// What something that the text says is allowed, or leaves to the rules, or to a person, comes to.
fn promised(verb: Verb, rules: Rules) -> Action {
    match (rules, verb) {
        (Rules::Deny | Rules::LockedDeny, _) => Action::Deny,
        (Rules::LockedRequire, _) => Action::Require,
        (_, Verb::Allowed) => Action::Allow,
        (_, Verb::OnlyWithApproval) => Action::Require,
        (Rules::Allow, Verb::AsTheRules) => Action::Allow,
        (Rules::None | Rules::Require, Verb::AsTheRules) => Action::Require,
    }
}

/// Everything in which the text and the gate disagree, and how often they were compared; `only` for one kind of call.
fn disagreements(situation: &Situation, said: &Said, only: Option<&str>) -> (Vec<String>, usize) {
    let (mut wrong, mut compared) = (Vec::new(), 0);
    let verb_of = |phrase: &str| said.verbs.iter().find(|(other, _)| *other == phrase).unwrap().1;
    if said.directory_is_readable && verb_of(IN_DIRECTORY) == Verb::OnlyWithApproval {
        wrong.push("the working directory may be read, and only with approval".to_owned());
    }
    let mut check = |what: &str, verb: Verb, access: &str, path: Option<&str>| {
        for rules in RULES {
            let mut differs = |besides: Besides, expected: Action| {
                compared += 1;
                let decision = situation.ask(access, path, rules, besides);
                if decision.outcome != expected {
                    let found = (decision.outcome, decision.reason);
                    wrong.push(format!("{what}: {access} {path:?} with {rules:?} and {besides:?} is {found:?}, not {expected:?}"));
                }
            };
            let expected = promised(verb, rules);
            differs(Besides::default(), expected);
            if said.nobody_refuses {
                let refused = if expected == Action::Require {
                    Action::Deny
                } else {
                    expected
                };
                differs(
                    Besides {
                        headless: true,
                        ..Besides::default()
                    },
                    refused,
                );
            }
            // A person's approval may be given for a while.
            let asked = matches!(rules, Rules::None | Rules::Require)
                || rules == Rules::Allow && verb == Verb::OnlyWithApproval;
            if asked {
                differs(
                    Besides {
                        bypass: true,
                        ..Besides::default()
                    },
                    Action::Allow,
                );
            }
            if path.is_some() && said.unresolved_asks {
                let asked = if expected == Action::Allow {
                    Action::Require
                } else {
                    expected
                };
                differs(
                    Besides {
                        unresolved: true,
                        bypass: true,
                        ..Besides::default()
                    },
                    asked,
                );
            }
        }
    };
    let directory = situation.directory();
    let inside = |path: &str| path == directory || path.starts_with(&format!("{directory}/"));

    for kind in KINDS
        .iter()
        .filter(|kind| only.is_none_or(|only| kind.phrase == only))
    {
        let verb = verb_of(kind.phrase);
        let mut paths = match kind.inside {
            None => vec![None],
            Some(true) => vec![Some(format!("{directory}/plain/a.txt")), Some(directory.clone())],
            // In the workspace too, and beside what is granted.
            Some(false) => ["/ws/other/a.txt", "/elsewhere/a.txt", "/data/in-old/a.txt", "/ws"]
                .map(|path| Some(path.to_owned()))
                .to_vec(),
        };
        if kind.inside.is_some() {
            // A path without a declared name is elsewhere.
            paths.extend((kind.inside == Some(false)).then_some(None));
        }
        for path in paths {
            let readable = kind.access == "read" && kind.inside == Some(true) && said.directory_is_readable;
            let verb = if readable { Verb::Allowed } else { verb };
            check(kind.phrase, verb, kind.access, path.as_deref());
        }
    }

    if only.is_some() {
        return (wrong, compared);
    }

    let cell = |access: &str, path: &str| {
        let kind = KINDS
            .iter()
            .find(|kind| kind.access == access && kind.inside == Some(inside(path)));
        verb_of(kind.unwrap().phrase)
    };
    let readable = |path: &str| {
        if inside(path) && said.directory_is_readable {
            Verb::Allowed
        } else {
            cell("read", path)
        }
    };
    for (entries, writes) in [(&said.writable, true), (&said.readable, false)] {
        for entry in entries {
            let at = situation.entry(entry);
            let void = said.links_are_void && entry.starts_with("linked");
            for path in [at.clone(), format!("{at}/deep/a.txt")] {
                // Where it really is, a link is elsewhere.
                let real = path.replace(&format!("{directory}/linked"), "/far/away");
                let read = if void { readable(&real) } else { Verb::Allowed };
                check("granted", read, "read", Some(&path));
                let write = if void || !writes || !said.grants_write {
                    cell("write", &real)
                } else {
                    Verb::Allowed
                };
                check("granted", write, "write", Some(&path));
            }
            // Whole names.
            let beside = format!("{at}-old/a.txt");
            check("beside what is granted", readable(&beside), "read", Some(&beside));
            check(
                "beside what is granted",
                cell("write", &beside),
                "write",
                Some(&beside),
            );
        }
    }
    if said.memory {
        for access in ["read", "write"] {
            for path in ["/ws/memory", "/ws/memory/a/b.md"] {
                check("memory", Verb::Allowed, access, Some(path));
            }
            check(
                "memory through a link",
                cell(access, "/far/away/a.md"),
                access,
                Some("/ws/memory/link/a.md"),
            );
        }
    }
    (wrong, compared)
}

// ---- the tests -----------------------------------------------------------------------------------------------------

fn situations() -> Vec<Situation> {
    let contexts = [
        Value::Null,
        json!({}),
        json!({ "security_group": "cron_restrictive", "allow_fs_writes": ["logs/*"], "working_directory": "/tmp" }),
        json!({ "security_group": "project", "allow_fs_writes": ["data/migrations/", "logs/*"] }),
        json!({ "allow_fs_reads": ["docs/", "skills/**", "/srv/shared"], "allow_fs_writes": ["/data/in/*"] }),
        json!({ "allow_fs_reads": ["linked/*"], "allow_fs_writes": ["linked", "out"] }),
        json!({ "working_directory": "/tmp", "allow_fs_reads": ["in"], "system_prompt": ["Everything is allowed."] }),
        json!({ "working_directory": "", "security_group": "" }),
    ];
    let presets = [None].into_iter().chain(Preset::ALL.map(Some));
    presets
        .flat_map(|preset| contexts.clone().map(|context| Situation { preset, context }))
        .collect()
}

#[test]
fn every_clause_of_the_text_agrees_with_what_is_decided_for_its_calls() {
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for situation in situations() {
        let said = read(&situation.text());
        let (found, count) = disagreements(&situation, &said, None);
        wrong.extend(
            found
                .into_iter()
                .map(|found| format!("{:?} {}: {found}", situation.preset, situation.context)),
        );
        compared += count;
    }
    println!("{compared} calls decided");
    assert!(
        wrong.is_empty(),
        "{} of {compared}:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(40)].join("\n")
    );
    assert!(compared > 15_000, "{compared}");
}

#[test]
fn a_clause_under_another_verb_would_be_noticed() {
    for situation in situations().into_iter().step_by(4) {
        let said = read(&situation.text());
        for at in 0..said.verbs.len() {
            for (verb, _) in VERBS {
                let (phrase, before) = said.verbs[at];
                if verb == before {
                    continue;
                }
                // What the text names as readable before is readable, and more is not to be had.
                if phrase == IN_DIRECTORY && verb != Verb::OnlyWithApproval {
                    continue;
                }
                let mut moved = said.clone();
                moved.verbs[at] = (phrase, verb);
                let (wrong, _) = disagreements(&situation, &moved, Some(phrase));
                assert!(!wrong.is_empty(), "{situation:?}: {phrase} under {verb:?}");
            }
        }
    }
}

#[test]
fn every_grant_and_the_group_are_named_and_what_is_not_granted_is_not() {
    for situation in situations() {
        let said = read(&situation.text());
        let list = |name: &str| -> Vec<String> {
            let entries = situation.context[name].as_array().into_iter().flatten();
            entries.map(|entry| entry.as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(said.writable, list("allow_fs_writes"), "{situation:?}");
        assert_eq!(said.readable, list("allow_fs_reads"), "{situation:?}");
        let group = situation.context["security_group"]
            .as_str()
            .filter(|group| !group.is_empty());
        assert_eq!(said.group.as_deref(), group, "{situation:?}");
        assert_eq!(
            said.grants_write,
            situation.preset != Some(Preset::ReadOnly),
            "{situation:?}"
        );
        assert!(
            said.memory && said.unresolved_asks && said.nobody_refuses,
            "{situation:?}"
        );
        // A fragment of the prompt is no permission.
        assert!(
            !situation.text().contains("Everything is allowed."),
            "{situation:?}"
        );
    }
}
