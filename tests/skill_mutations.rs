//! Files that look like real ones, broken at random: what nobody touched is read as before, what is refused says why, and
//! nothing makes the parser stumble.

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;
#[cfg(target_family = "wasm")]
wasm_bindgen_test::wasm_bindgen_test_configure!(run_in_browser);

#[path = "lab/random.rs"]
mod random;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use random::Random;
use runcontext::context::LoadedSkill;
use runcontext::skills::{DiagnosticCode, ParseOutcome, Severity, parse_skill, render_skills, revision};
use serde_json::{Map, Value, json};

const TIMES: usize = if cfg!(target_family = "wasm") {
    1_000
} else {
    3_000
};

fn times() -> usize {
    match std::env::var_os("RUNCONTEXT_DEEP") {
        Some(_) => TIMES * 50,
        None => TIMES,
    }
}

/// Writes past the test harness, which shows what a test prints only when it fails.
fn say(line: &str) {
    std::io::stdout()
        .write_all(format!("{line}\n").as_bytes())
        .unwrap();
}

/// Codes of files that are not as the format says and load all the same.
const REPAIRS: [DiagnosticCode; 9] = [
    DiagnosticCode::TextBeforeFrontmatter,
    DiagnosticCode::FencedFrontmatter,
    DiagnosticCode::WrongDelimiter,
    DiagnosticCode::UnclosedFrontmatter,
    DiagnosticCode::FormattedFrontmatter,
    DiagnosticCode::InvalidYaml,
    DiagnosticCode::NotAMapping,
    DiagnosticCode::DuplicateField,
    DiagnosticCode::FieldRepaired,
];
/// Codes of what is refused on purpose, in whatever file.
const REFUSED: [DiagnosticCode; 5] = [
    DiagnosticCode::AnchorRefused,
    DiagnosticCode::AliasRefused,
    DiagnosticCode::TagRefused,
    DiagnosticCode::DirectiveRefused,
    DiagnosticCode::TooDeep,
];

fn has(outcome: &ParseOutcome, codes: &[DiagnosticCode]) -> bool {
    outcome
        .diagnostics
        .iter()
        .any(|diagnostic| codes.contains(&diagnostic.code))
}

/// A field: its lines, and what they mean.
#[derive(Clone)]
struct Field {
    name: &'static str,
    lines: Vec<String>,
    value: Value,
}

impl Field {
    fn new(name: &'static str, text: &str, value: Value) -> Self {
        let lines = text.lines().map(str::to_owned).collect();
        Self { name, lines, value }
    }

    /// A text, in one of the ways in which texts are written.
    fn text(name: &'static str, random: &mut Random) -> Self {
        const WORDS: [&str; 12] = [
            "use",
            "when",
            "asked",
            "für",
            "\u{1f600}",
            "C#",
            "it's",
            "a-b",
            "(x)",
            "50%",
            "v1.2",
            "http://x/y",
        ];
        let mut some = || {
            let words: Vec<&str> = (0..1 + random.below(4))
                .map(|_| WORDS[random.below(WORDS.len())])
                .collect();
            format!("read {}", words.join(" "))
        };
        let (one, two) = (some(), some());
        match random.below(8) {
            0 | 1 => Self::new(name, &format!("{name}: {one}"), json!(one)),
            2 => Self::new(
                name,
                &format!("{name}: {one}\n  {two}"),
                json!(format!("{one} {two}")),
            ),
            3 => Self::new(
                name,
                &format!("{name}: '{}'", one.replace('\'', "''")),
                json!(one),
            ),
            4 => Self::new(name, &format!("{name}: \"{one}\""), json!(one)),
            5 => Self::new(
                name,
                &format!("{name}: >\n  {one}\n  {two}"),
                json!(format!("{one} {two}\n")),
            ),
            6 => Self::new(
                name,
                &format!("{name}: |-\n  {one}\n  {two}"),
                json!(format!("{one}\n{two}")),
            ),
            _ => Self::new(name, &format!("{name}:\n  {one}"), json!(one)),
        }
    }
}

/// The fields of a file, in some order.
fn fields(random: &mut Random) -> Vec<Field> {
    let mut fields = vec![
        Field::new("name", "name: pdf-tools", json!("pdf-tools")),
        Field::text("description", random),
    ];
    let more = [
        Field::text("license", random),
        Field::text("argument-hint", random),
        Field::new("version", "version: 1.10", json!("1.10")),
        Field::new("tags", "tags: [a b, 'c, d']", json!(["a b", "c, d"])),
        Field::new("triggers", "triggers:\n  - a b\n  - \"c\"", json!(["a b", "c"])),
        Field::new(
            "metadata",
            "metadata:\n  kind: \"1\"\n  deep:\n    er: [x]",
            json!({"kind": "1", "deep": {"er": ["x"]}}),
        ),
        Field::new(
            "allowed-tools",
            "allowed-tools: Bash(git:*), Read",
            json!("Bash(git:*), Read"),
        ),
        Field::new("user-invocable", "user-invocable: false", json!("false")),
        Field::new(
            "disable-model-invocation",
            "disable-model-invocation: true",
            json!("true"),
        ),
    ];
    fields.extend(more.into_iter().filter(|_| random.one_in(2)));
    for at in (1..fields.len()).rev() {
        fields.swap(at, random.below(at + 1));
    }
    fields
}

const BODY: &str = "# PDF\n\nRead.\n\nname: other\n\n---\n\n    code: x\n";
const BODY_ALONE: &str = "# PDF\n\nRead.\n\nname: other\n\n---\n\n    code: x";

fn file(fields: &[Field]) -> String {
    let lines: Vec<&str> = fields
        .iter()
        .flat_map(|field| &field.lines)
        .map(String::as_str)
        .collect();
    format!("---\n{}\n---\n\n{BODY}", lines.join("\n"))
}

fn values(fields: &[Field]) -> Map<String, Value> {
    fields
        .iter()
        .map(|field| (field.name.to_owned(), field.value.clone()))
        .collect()
}

#[test]
fn a_file_as_the_format_says_is_never_repaired() {
    let mut random = Random::new(5);
    for _ in 0..times() {
        let fields = fields(&mut random);
        let text = file(&fields);
        let outcome = parse_skill(&text, None);
        assert!(!has(&outcome, &REPAIRS), "{text}\n{outcome:?}");
        let skill = outcome.skill.unwrap();
        assert_eq!(skill.fields, values(&fields), "{text}");
        assert_eq!(skill.body, BODY_ALONE, "{text}");
        let crlf = parse_skill(&text.replace('\n', "\r\n"), None);
        assert_eq!(crlf.skill.unwrap().fields, skill.fields, "{text} with CRLF");
    }
}

/// A way to break one field. None of them writes a line that begins another.
const WAYS: [&str; 16] = [
    "a colon",
    "a quote",
    "an apostrophe",
    "a bracket",
    "a brace",
    "an at",
    "a backtick",
    "a percent",
    "a backslash",
    "a control character",
    "a list behind it",
    "an anchor",
    "an alias",
    "a tag",
    "a tab before a line",
    "twice",
];

fn break_field(field: &mut Field, way: &str, random: &mut Random) {
    let line = random.below(field.lines.len());
    let begin = if line == 0 { field.name.len() + 2 } else { 2 };
    let text = field.lines[line].clone();
    if text.len() < begin {
        // The value stands on the lines below.
        return;
    }
    let places: Vec<usize> = (begin..=text.len())
        .filter(|at| text.is_char_boundary(*at))
        .collect();
    let anywhere = places[random.below(places.len())];
    let (at, new) = match way {
        "a colon" => (anywhere, ": "),
        "a quote" => ([begin, anywhere][random.below(2)], "\""),
        "an apostrophe" => ([begin, anywhere][random.below(2)], "'"),
        "a bracket" => (begin, "["),
        "a brace" => (begin, "{"),
        "an at" => (begin, "@"),
        "a backtick" => (begin, "`"),
        "a percent" => (begin, "%"),
        "a backslash" => (anywhere, "\\"),
        "a control character" => (anywhere, "\u{1}"),
        "a list behind it" => (text.len(), "      - x"),
        "an anchor" => (begin, "&a "),
        "an alias" => (begin, "*a "),
        "a tag" => (begin, "!a "),
        "a tab before a line" => {
            let last = field.lines.len() - 1;
            if last == 0 {
                return;
            }
            let text = field.lines[last].trim_start().to_owned();
            field.lines[last] = format!("\t{text}");
            return;
        }
        _ => {
            field.lines.extend(field.lines.clone());
            return;
        }
    };
    field.lines[line].insert_str(at, new);
}

#[test]
fn a_broken_field_leaves_the_others_as_they_are() {
    let mut random = Random::new(7);
    let mut coverage: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for _ in 0..times() * 3 {
        let mut fields = fields(&mut random);
        let broken = random.below(fields.len());
        let way = WAYS[random.below(WAYS.len())];
        break_field(&mut fields[broken], way, &mut random);
        let name = fields[broken].name;
        let text = file(&fields);
        let outcome = parse_skill(&text, None);
        let repaired = has(&outcome, &REPAIRS);
        let Some(skill) = &outcome.skill else {
            // It is refused on purpose, or what is broken is the name or the description itself.
            let on_purpose = has(&outcome, &REFUSED);
            assert!(
                on_purpose || matches!(name, "name" | "description"),
                "{way} in {name}: {text}\n{outcome:?}"
            );
            *coverage
                .entry((way, if on_purpose { "refused" } else { "without" }))
                .or_default() += 1;
            continue;
        };
        *coverage
            .entry((way, if repaired { "repaired" } else { "harmless" }))
            .or_default() += 1;
        for field in fields.iter().filter(|field| field.name != name) {
            let expected = (field.name != "allowed-tools" || !repaired).then_some(&field.value);
            assert_eq!(
                skill.fields.get(field.name),
                expected,
                "{way} in {name}: {text}\n{outcome:?}"
            );
        }
        // What restricts is in force, broken or not.
        for field in &fields {
            assert!(
                field.name != "user-invocable" || !skill.user_invocable(),
                "{text}"
            );
            assert!(
                field.name != "disable-model-invocation" || !skill.model_invocable(),
                "{text}"
            );
        }
        if repaired {
            assert_eq!(skill.fields.get("allowed-tools"), None, "{text}");
        }
        assert_eq!(skill.body, BODY_ALONE, "{text}");
    }
    say(&format!("broken fields: {coverage:?}"));
    for way in WAYS {
        let result = match way {
            "an anchor" | "an alias" | "a tag" => "refused",
            _ => "repaired",
        };
        assert!(
            coverage
                .get(&(way, result))
                .is_some_and(|count| *count > times() / 200),
            "{way}"
        );
    }
}

#[test]
fn a_flawed_frame_leaves_the_fields_and_the_body_as_they_are() {
    let mut random = Random::new(11);
    for _ in 0..times() {
        let mut fields = fields(&mut random);
        let broken = random.one_in(2).then(|| {
            let description = fields
                .iter_mut()
                .find(|field| field.name == "description")
                .unwrap();
            *description = Field::new("description", "description: read: it", json!("read: it"));
        });
        let text = file(&fields);
        let (flaw, text) = match random.below(5) {
            0 => (
                DiagnosticCode::TextBeforeFrontmatter,
                format!("<!-- a: b -->\n\n{text}"),
            ),
            1 => (DiagnosticCode::WrongDelimiter, format!("--{text}")),
            2 => (
                DiagnosticCode::WrongDelimiter,
                text.replacen("\n---\n", "\n-----\n", 1),
            ),
            3 => (
                DiagnosticCode::FencedFrontmatter,
                format!("```yaml\n{}", text.replacen("\n---\n", "\n---\n```\n", 1)),
            ),
            _ => (
                DiagnosticCode::UnclosedFrontmatter,
                text.replacen("\n---\n", "\n", 1),
            ),
        };
        let outcome = parse_skill(&text, None);
        assert!(has(&outcome, &[flaw]), "{text}\n{outcome:?}");
        assert_eq!(
            has(&outcome, &[DiagnosticCode::InvalidYaml]),
            broken.is_some(),
            "{text}\n{outcome:?}"
        );
        let skill = outcome.skill.unwrap();
        let mut expected = values(&fields);
        expected.remove("allowed-tools");
        assert_eq!(skill.fields, expected, "{text}");
        assert_eq!(skill.body, BODY_ALONE, "{text}");
    }
}

/// What holds for every text.
fn check(text: &str, location: Option<&str>) -> ParseOutcome {
    let outcome = parse_skill(text, location);
    let last = u32::try_from(text.lines().count() + 1).unwrap();
    let mut errors = 0;
    for diagnostic in &outcome.diagnostics {
        assert!(diagnostic.line >= 1 && diagnostic.column >= 1, "{text:?}");
        // The YAML parser ends lines at these too.
        let odd_lines = text.contains(['\r', '\u{85}']);
        assert!(odd_lines || diagnostic.line <= last, "{text:?}: {diagnostic:?}");
        errors += usize::from(diagnostic.severity == Severity::Error);
    }
    assert_eq!(outcome.skill.is_none(), errors > 0, "{text:?}\n{outcome:?}");
    if let Some(skill) = &outcome.skill {
        assert!(
            !skill.name.is_empty() && !skill.description.is_empty(),
            "{text:?}"
        );
        if has(&outcome, &REPAIRS) {
            assert_eq!(skill.fields.get("allowed-tools"), None, "{text:?}");
        }
        // What is shown is the body that was reported.
        let loaded = |content: &str| LoadedSkill {
            id: "project:/x".into(),
            name: "x".into(),
            path: "/x".into(),
            content: content.into(),
            revision: revision(content),
            description: None,
        };
        let plain = format!("---\nname: x\ndescription: x\n---\n{}", skill.body);
        assert_eq!(
            render_skills(&[loaded(text)]).content,
            render_skills(&[loaded(&plain)]).content,
            "{text:?}"
        );
    }
    outcome
}

const PIECES: [&str; 46] = [
    "name",
    "description",
    ": ",
    ":",
    "\n",
    "\n",
    "\n  ",
    "\n- ",
    "- ",
    "  ",
    "\t",
    "'",
    "\"",
    "[",
    "]",
    "{",
    "}",
    ",",
    "#",
    "? ",
    "|",
    ">",
    "|2-",
    "&a ",
    "*a",
    "!x ",
    "!!str ",
    "%YAML 1.2\n",
    "---",
    "\n---\n",
    "----\n",
    "```\n",
    "<!--",
    "-->",
    "\n___\n",
    "\n## name: ",
    "...",
    "\\",
    "\\u12",
    "\r\n",
    "\r",
    "\u{feff}",
    "\u{85}",
    "é",
    "\u{1f600}",
    "\0",
];

#[test]
fn no_text_makes_the_parser_stumble() {
    let mut random = Random::new(3);
    let (mut skills, mut codes) = (0, BTreeSet::new());
    for number in 0..times() * 3 {
        let mut some = |most: usize| -> String {
            (0..random.below(most))
                .map(|_| PIECES[random.below(PIECES.len())])
                .collect()
        };
        let text = match number % 3 {
            0 => format!("---\nname: n\ndescription: d\nmetadata: {}\n---\nb", some(14)),
            1 => format!("---\n{}\n---\nb", some(14)),
            _ => some(20),
        };
        let outcome = check(&text, Some("f/SKILL.md"));
        skills += usize::from(outcome.skill.is_some());
        codes.extend(outcome.diagnostics.iter().map(|diagnostic| diagnostic.code));
    }
    say(&format!("pieces: {skills} skills, {} codes", codes.len()));
    assert!(skills > times() / 10, "{skills} skills");
    assert!(codes.len() >= 15, "{codes:?}");
}

#[test]
fn no_edit_of_a_real_looking_file_makes_the_parser_stumble() {
    let mut random = Random::new(13);
    let mut coverage: BTreeMap<&str, usize> = BTreeMap::new();
    for _ in 0..times() * 3 {
        let mut text: Vec<char> = file(&fields(&mut random)).chars().collect();
        for _ in 0..1 + random.below(4) {
            let from = random.below(text.len());
            let to = (from + random.below(12)).min(text.len());
            match random.below(3) {
                0 => drop(text.drain(from..to)),
                1 => drop(text.splice(from..from, PIECES[random.below(PIECES.len())].chars())),
                _ => {
                    let copy = text[from..to].to_vec();
                    let at = random.below(text.len());
                    drop(text.splice(at..at, copy));
                }
            }
        }
        let outcome = check(&String::from_iter(text), None);
        let what = match &outcome.skill {
            None if has(&outcome, &REFUSED) => "refused",
            None => "without a name or a description",
            Some(_) if has(&outcome, &REPAIRS) => "repaired",
            Some(_) => "harmless",
        };
        *coverage.entry(what).or_default() += 1;
    }
    say(&format!("edits: {coverage:?}"));
    assert_eq!(coverage.len(), 4, "{coverage:?}");
    assert!(coverage["repaired"] > times() / 2, "{coverage:?}");
}
