//! Real skill files, from `RUNCONTEXT_DATA` or `../shared/data`: every one of them loads, or is refused for a stated reason.

#![cfg(not(target_family = "wasm"))]
use std::collections::BTreeMap;
use std::hint::black_box;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use runcontext::context::LoadedSkill;
use runcontext::skills::{
    Catalog, DiagnosticCode, ParseOutcome, Severity, SkillEntry, parse_skill_bytes, render_skills, select,
    skill_spans,
};
use serde_json::{Value, json};

/// Writes past the test harness, which shows what a test prints only when it fails.
fn say(line: &str) {
    std::io::stdout()
        .write_all(format!("{line}\n").as_bytes())
        .unwrap();
}

fn data(folder: &str) -> Option<Vec<PathBuf>> {
    let root = std::env::var_os("RUNCONTEXT_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data"),
        PathBuf::from,
    );
    let folder = root.join(folder);
    if !folder.is_dir() {
        say(&format!(
            "SKIPPED: there is no folder {}; set RUNCONTEXT_DATA to test real files",
            folder.display()
        ));
        return None;
    }
    let mut files = Vec::new();
    let mut folders = vec![folder];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path)
            } else {
                files.push(path)
            }
        }
    }
    files.sort();
    assert!(!files.is_empty());
    Some(files)
}

fn says(outcome: &ParseOutcome, code: DiagnosticCode) -> bool {
    outcome
        .diagnostics
        .iter()
        .any(|diagnostic| diagnostic.code == code)
}

/// How many files there are, how many load, and how often each diagnostic occurs, must be what `real_skills.json` holds. Who
/// changes the numbers on purpose takes them from what is printed.
fn compare_counts(folder: &str, outcomes: &[ParseOutcome]) {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for diagnostic in outcomes.iter().flat_map(|outcome| &outcome.diagnostics) {
        let severity = json!(diagnostic.severity);
        *counts
            .entry(format!("{} {}", severity.as_str().unwrap(), diagnostic.code))
            .or_default() += 1;
    }
    let counts = json!({
        "files": outcomes.len(),
        "load": outcomes.iter().filter(|outcome| outcome.skill.is_some()).count(),
        "diagnostics": counts,
    });
    say(&format!("{folder}: {counts}"));
    let pinned: Value = serde_json::from_str(include_str!("real_skills.json")).unwrap();
    assert_eq!(counts, pinned[folder], "{folder}");
}

#[test]
fn real_skill_files_load_or_are_refused_for_a_stated_reason() {
    let Some(files) = data("skills") else { return };
    let mut entries = Vec::new();
    let (mut outcomes, mut refused) = (Vec::new(), Vec::new());
    for path in files {
        let bytes = std::fs::read(&path).unwrap();
        let outcome = parse_skill_bytes(&bytes, path.to_str());
        let says_why = outcome
            .diagnostics
            .iter()
            .any(|diagnostic| diagnostic.severity == Severity::Error);
        assert_eq!(outcome.skill.is_none(), says_why, "{}", path.display());
        if let Some(skill) = &outcome.skill {
            let text = std::str::from_utf8(&bytes).unwrap();
            assert!(text.contains(&skill.body), "{}", path.display());
            assert!(
                !skill.name.is_empty() && !skill.description.is_empty(),
                "{}",
                path.display()
            );
        }
        entries.push(SkillEntry::from_bytes("project", path.to_str().unwrap(), &bytes).unwrap());
        if outcome.skill.is_none() {
            let folder = path.parent().and_then(Path::file_name).unwrap();
            refused.push(folder.to_str().unwrap().to_owned());
        }
        outcomes.push(outcome);
    }
    compare_counts("skills", &outcomes);
    // Two fixtures that were made to be refused. The third, `invalid-yaml`, has its description after all.
    assert_eq!(refused, ["missing-description", "no-frontmatter"]);
    let mut catalog = Catalog::default();
    catalog.set_origin(1, entries);
    assert_eq!(catalog.list().len(), outcomes.len());

    // All of them at once: each block is where its span says, and none can close its own tag.
    let ids: Vec<String> = catalog.list().iter().map(|entry| entry.id.clone()).collect();
    let chosen = select(&catalog, &[], &ids).unwrap().into_iter().cloned();
    let read = |entry: SkillEntry| {
        let content = std::fs::read_to_string(&entry.location).unwrap();
        entry.load(content)
    };
    let loaded: Vec<LoadedSkill> = chosen.map(read).collect();
    assert_eq!(loaded.len(), outcomes.len() - refused.len());
    let rendered = render_skills(&loaded);
    assert_eq!(rendered.content.matches("</skill>").count(), loaded.len());
    let spans: Vec<_> = skill_spans(&rendered.content, &loaded)
        .into_iter()
        .flatten()
        .collect();
    assert_eq!(spans, rendered.spans);
}

/// What a person takes for a field: the rest of the first line that begins with its name.
fn seen<'a>(text: &'a str, field: &str) -> Option<&'a str> {
    let mut lines = text.lines().take_while(|line| !line.starts_with("# "));
    lines
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))
        .map(str::trim)
}

#[test]
fn broken_skill_files_give_the_name_and_the_description_that_a_person_sees_in_them() {
    let Some(files) = data("skills-broken") else {
        return;
    };
    let mut outcomes = Vec::new();
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap();
        let outcome = parse_skill_bytes(text.as_bytes(), None);
        let file = path.display();
        match (&outcome.skill, seen(&text, "name"), seen(&text, "description")) {
            (Some(skill), Some(name), Some(description)) => {
                assert_eq!(skill.name, name, "{file}");
                if description != ">" {
                    assert_eq!(skill.description, description, "{file}");
                }
                assert!(skill.description.len() > 20, "{file}");
                assert!(!skill.body.is_empty() && text.contains(&skill.body), "{file}");
                // Why the file counts as broken is said, and what grants is not taken from it.
                assert!(
                    says(&outcome, DiagnosticCode::InvalidYaml)
                        || says(&outcome, DiagnosticCode::FencedFrontmatter),
                    "{file}"
                );
                assert_eq!(skill.fields.get("allowed-tools"), None, "{file}");
                assert_eq!(
                    says(&outcome, DiagnosticCode::FieldIgnored),
                    seen(&text, "allowed-tools").is_some(),
                    "{file}"
                );
            }
            (None, None, None) => assert!(says(&outcome, DiagnosticCode::MissingFrontmatter), "{file}"),
            (_, name, description) => panic!("{file}: {name:?}, {description:?}, {outcome:?}"),
        }
        outcomes.push(outcome);
    }
    compare_counts("skills-broken", &outcomes);
}

/// The best of several runs: what else runs on the machine only ever adds to one.
fn best_of(runs: usize, path: &Path) -> Duration {
    let bytes = std::fs::read(path).unwrap();
    let run = |_| {
        let begin = Instant::now();
        black_box(parse_skill_bytes(black_box(&bytes), None));
        begin.elapsed()
    };
    (0..runs).map(run).min().unwrap()
}

#[test]
fn no_real_file_takes_twenty_times_as_long_as_the_median() {
    let (Some(skills), Some(broken)) = (data("skills"), data("skills-broken")) else {
        return;
    };
    let files: Vec<PathBuf> = skills.into_iter().chain(broken).collect();
    let mut times: Vec<Duration> = files.iter().map(|path| best_of(9, path)).collect();
    times.sort();
    let median = times[times.len() / 2];
    let mut most: f64 = 0.0;
    for path in &files {
        // Long runs are interrupted more often, so that files that seem slow get more of them.
        let mut ratio = f64::INFINITY;
        for runs in [9, 90, 900] {
            ratio = ratio.min(best_of(runs, path).as_secs_f64() / median.as_secs_f64());
            if ratio < 10.0 {
                break;
            }
        }
        assert!(
            ratio < 20.0,
            "{} takes {ratio:.1} times the median",
            path.display()
        );
        most = most.max(ratio);
    }
    say(&format!(
        "median {median:?}, the longest {most:.1} times the median"
    ));
}
