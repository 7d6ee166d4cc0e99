//! Real skill files, from `RUNCONTEXT_DATA` or `../shared/data`: every one of them loads, or is refused for a stated reason.

#![cfg(not(target_family = "wasm"))]
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use runcontext::context::LoadedSkill;
use runcontext::skills::{
    Catalog, ParseOutcome, Severity, SkillEntry, parse_skill_bytes, render_skills, select, skill_spans,
};

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

fn read(path: &Path) -> (Vec<u8>, ParseOutcome) {
    let bytes = std::fs::read(path).unwrap();
    let outcome = parse_skill_bytes(&bytes, path.to_str());
    (bytes, outcome)
}

/// Prints how many files there are, how many load, and how often each diagnostic occurs.
fn print(title: &str, outcomes: &[ParseOutcome]) {
    let loaded = outcomes.iter().filter(|outcome| outcome.skill.is_some()).count();
    let mut counts: BTreeMap<(Severity, &str), usize> = BTreeMap::new();
    for diagnostic in outcomes.iter().flat_map(|outcome| &outcome.diagnostics) {
        *counts
            .entry((diagnostic.severity, diagnostic.code.as_str()))
            .or_default() += 1;
    }
    let counts: Vec<String> = counts
        .iter()
        .rev()
        .map(|((_, code), count)| format!("{code} {count}"))
        .collect();
    say(&format!(
        "{title}: {} files, {loaded} load; {}",
        outcomes.len(),
        counts.join(", ")
    ));
}

#[test]
fn real_skill_files_load_or_are_refused_for_a_stated_reason() {
    let Some(files) = data("skills") else { return };
    let mut catalog = Catalog::default();
    let (mut outcomes, mut refused) = (Vec::new(), Vec::new());
    for path in files {
        let (bytes, outcome) = read(&path);
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
        catalog.add(SkillEntry::from_bytes("project", path.to_str().unwrap(), &bytes).unwrap());
        if outcome.skill.is_none() {
            let folder = path.parent().and_then(Path::file_name).unwrap();
            refused.push(folder.to_str().unwrap().to_owned());
        }
        outcomes.push(outcome);
    }
    print("skills", &outcomes);
    // The two files that no YAML reader accepts, and the one without a description, are fixtures made to be refused.
    assert_eq!(refused, ["invalid-yaml", "missing-description", "no-frontmatter"]);
    assert_eq!(catalog.list().len(), outcomes.len());

    // All of them at once: each block is where its span says, and none can close its own tag.
    let ids: Vec<String> = catalog.list().iter().map(|entry| entry.id.clone()).collect();
    let loaded: Vec<LoadedSkill> = select(&catalog, &[], &ids).unwrap();
    assert_eq!(loaded.len(), outcomes.len() - refused.len());
    let rendered = render_skills(&loaded);
    assert_eq!(rendered.content.matches("</skill>").count(), loaded.len());
    let spans: Vec<_> = skill_spans(&rendered.content, &loaded)
        .into_iter()
        .flatten()
        .collect();
    assert_eq!(spans, rendered.spans);
}

#[test]
fn broken_skill_files_are_never_dropped_silently() {
    let Some(files) = data("skills-broken") else {
        return;
    };
    let mut outcomes = Vec::new();
    for path in files {
        let (_, outcome) = read(&path);
        assert!(!outcome.diagnostics.is_empty(), "{} says nothing", path.display());
        outcomes.push(outcome);
    }
    print("skills-broken", &outcomes);
}
