//! Sections, checkpoints, replay, and taking prompts apart.

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;
#[cfg(target_family = "wasm")]
wasm_bindgen_test::wasm_bindgen_test_configure!(run_in_browser);

use runcontext::prompt::{
    Changes, Checkpoint, InstructionFile, Section, diff_system_prompt, neutralise, project_instructions_body,
    render_system_prompt, replay_system_prompt, split_system_prompt, system_prompt_at,
    validate_host_sections,
};
use runcontext::{Error, ErrorCode};
use serde_json::{Value, json};

fn vectors(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn cases<'a>(vectors: &'a Value, key: &str) -> &'a Vec<Value> {
    let cases = vectors[key].as_array().unwrap();
    assert!(!cases.is_empty(), "no cases under {key}");
    cases
}

fn sections(value: &Value) -> Vec<Section> {
    serde_json::from_value(value.clone()).unwrap()
}

fn field(error: &Error) -> &str {
    assert_eq!(error.code(), ErrorCode::InvalidArgument);
    let field = error.data()["field"].as_str().unwrap();
    assert!(
        error.message().contains(&format!("`{field}`")) || error.data().contains_key("section"),
        "{error}"
    );
    field
}

const CHECKPOINTS: &str = include_str!("vectors/checkpoints.json");
const NEUTRALISE: &str = include_str!("vectors/neutralise.json");

#[test]
fn bodies_are_neutralised_as_the_vectors_say_and_twice_is_as_good_as_once() {
    for case in cases(&vectors(NEUTRALISE), "cases") {
        let once = neutralise(case["input"].as_str().unwrap());
        assert_eq!(once, case["output"].as_str().unwrap(), "{}", case["name"]);
        assert_eq!(neutralise(&once), once, "{}", case["name"]);
    }
}

#[test]
fn prompts_are_rendered_as_the_vectors_say_in_whatever_order_the_sections_come() {
    for case in cases(&vectors(CHECKPOINTS), "render") {
        let mut sections = sections(&case["sections"]);
        for _ in 0..2 {
            match render_system_prompt(&sections) {
                Ok(prompt) => assert_eq!(Some(prompt.as_str()), case["prompt"].as_str(), "{}", case["name"]),
                Err(error) => {
                    assert_eq!(error.code(), ErrorCode::InvalidArgument);
                    assert_eq!(
                        error.data().get("section"),
                        case.get("section"),
                        "{}",
                        case["name"]
                    );
                }
            }
            sections.reverse();
        }
    }
}

#[test]
fn checkpoints_record_what_the_vectors_say() {
    for case in cases(&vectors(CHECKPOINTS), "diff") {
        let retained = Checkpoint::parse_list(&case["retained"]).unwrap();
        let result = diff_system_prompt(
            &retained,
            &sections(&case["sections"]),
            u32::try_from(case["messageCount"].as_u64().unwrap()).unwrap(),
            case["timestamp"].as_f64().unwrap(),
        );
        match result {
            Ok(checkpoints) => {
                assert!(case.get("field").is_none(), "{} was not refused", case["name"]);
                let (before, added) = checkpoints.split_at(retained.len());
                assert_eq!(before, retained);
                assert_eq!(json!(added.first()), case["added"], "{}", case["name"]);
                assert!(added.len() < 2);
            }
            Err(error) => assert_eq!(Some(field(&error)), case["field"].as_str(), "{}", case["name"]),
        }
    }
}

#[test]
fn replay_gives_the_sections_and_the_prompt_the_vectors_say() {
    for case in cases(&vectors(CHECKPOINTS), "replay") {
        let checkpoints = Checkpoint::parse_list(&case["checkpoints"]).unwrap();
        let count = u32::try_from(case["messageCount"].as_u64().unwrap()).unwrap();
        let replayed = replay_system_prompt(&checkpoints, count).unwrap();
        assert_eq!(replayed, sections(&case["sections"]), "{}", case["name"]);
        assert_eq!(
            Some(render_system_prompt(&replayed).unwrap().as_str()),
            case["prompt"].as_str(),
            "{}",
            case["name"]
        );
        if count > 0 {
            assert_eq!(
                Some(system_prompt_at(&checkpoints, count - 1).unwrap().as_str()),
                case["prompt"].as_str()
            );
        }
    }
}

#[test]
fn malformed_checkpoints_are_refused_and_the_field_is_named() {
    let vectors = vectors(CHECKPOINTS);
    for case in cases(&vectors, "malformed") {
        let error = Checkpoint::parse_list(&case["checkpoints"]).expect_err(&case["name"].to_string());
        assert_eq!(Some(field(&error)), case["field"].as_str(), "{}", case["name"]);
    }
    for case in cases(&vectors, "wellFormed") {
        assert!(
            Checkpoint::parse_list(&case["checkpoints"]).is_ok(),
            "{}",
            case["name"]
        );
    }
}

#[test]
fn malformed_checkpoints_are_refused_by_every_function_that_takes_some() {
    let good =
        Checkpoint::parse(&json!({"messageCount": 2, "timestamp": 5, "sections": {"cwd": "/w"}})).unwrap();
    let falling = Checkpoint {
        message_count: 1,
        ..good.clone()
    };
    let lists = [
        vec![good.clone(), falling],
        vec![Checkpoint {
            message_count: 0,
            ..good.clone()
        }],
        vec![Checkpoint {
            timestamp: f64::NAN,
            ..good.clone()
        }],
        vec![Checkpoint {
            timestamp: f64::INFINITY,
            ..good.clone()
        }],
        vec![Checkpoint {
            sections: Default::default(),
            ..good.clone()
        }],
        vec![Checkpoint {
            sections: Changes::from_iter([("Cwd".to_owned(), None)]),
            ..good.clone()
        }],
    ];
    for list in lists {
        assert!(diff_system_prompt(&list, &[], 9, 0.0).is_err(), "{list:?}");
        assert!(replay_system_prompt(&list, 0).is_err(), "{list:?}");
        assert!(system_prompt_at(&list, 9).is_err(), "{list:?}");
    }
    assert!(diff_system_prompt(std::slice::from_ref(&good), &[], 9, f64::NAN).is_err());
    assert!(diff_system_prompt(&[good], &[Section::new("a", ""), Section::new("a", "")], 9, 0.0).is_err());
}

#[test]
fn a_checkpoint_is_written_the_way_it_was_read() {
    let text = r#"{"messageCount":3,"timestamp":1767225600000,"sections":{"cwd":null,"permissions":"ask"}}"#;
    let checkpoint = Checkpoint::parse(&serde_json::from_str(text).unwrap()).unwrap();
    assert_eq!(serde_json::to_string(&checkpoint).unwrap(), text);
}

#[test]
fn an_error_about_one_checkpoint_says_what_to_do() {
    let error = Checkpoint::parse(&json!({"messageCount": "2"})).unwrap_err();
    assert_eq!(
        error.message(),
        "`checkpoint.messageCount` must be an integer from 1 up, below 2 to the power of 32"
    );
    let error =
        Checkpoint::parse_list(&json!([{"messageCount": 1, "timestamp": 0, "sections": {"Cwd": "x"}}]))
            .unwrap_err();
    assert_eq!(
        error.message(),
        "`Cwd` is no section name; use a to z, 0 to 9, `_` and `-`, beginning with a letter"
    );
    assert_eq!(error.data()["field"], "checkpoints[0].sections.Cwd");
}

#[test]
fn a_host_section_must_not_be_called_like_a_built_in_one() {
    let check = |names: &[&str]| {
        let sections: Vec<Section> = names.iter().map(|name| Section::new(*name, "x")).collect();
        validate_host_sections(&sections).map_err(|error| error.data()["section"].clone())
    };
    assert_eq!(check(&["house_rules", "a", "a-1"]), Ok(()));
    assert_eq!(check(&[]), Ok(()));
    for name in [
        "preamble",
        "project_instructions",
        "skills",
        "cwd",
        "run_context",
        "permissions",
        "skill",
    ] {
        assert_eq!(check(&["house", name]), Err(json!(name)));
    }
    for name in ["", "Permissions", "1", "-a", "_a", "a b", "a.b", "é", "a\n", "a>"] {
        assert_eq!(check(&[name]), Err(json!(name)));
    }
    assert_eq!(check(&["a", "b", "a"]), Err(json!("a")));
}

#[test]
fn instruction_files_stand_in_the_given_order_and_blank_ones_are_left_out() {
    let file = |path: &str, content: &str| InstructionFile {
        path: path.into(),
        content: content.into(),
    };
    assert_eq!(
        project_instructions_body(&[
            file("b/AGENTS.md", "Two.\n"),
            file("empty.md", " \n"),
            file("AGENTS.md", "One.")
        ]),
        "# b/AGENTS.md\n\nTwo.\n\n\n# AGENTS.md\n\nOne."
    );
    assert_eq!(project_instructions_body(&[]), "");
}

#[test]
fn a_rendered_prompt_splits_into_its_sections() {
    let sections = [
        Section::new("preamble", "Be brief.\n\nAnd kind."),
        Section::new("a", "\n<b>\nnot closed\n"),
        Section::new("cwd", "/w"),
        Section::new("permissions", "</permissions> <skill>"),
    ];
    let split = split_system_prompt(&render_system_prompt(&sections).unwrap());
    assert_eq!(split[..3], sections[..3]);
    assert_eq!(
        split[3],
        Section::new("permissions", "&lt;/permissions> &lt;skill>")
    );
    assert_eq!(split.len(), 4);
}

#[test]
fn a_foreign_prompt_is_split_as_well_as_it_can_be() {
    let split = split_system_prompt(
        "Hello\r\n<env>\r\na\r\n</env>\r\n\r\nbetween\n<open>\n<x y>\n<Env>\n</Env>\n<env>\nb\n</env>",
    );
    assert_eq!(
        split,
        [
            Section::new("preamble", "Hello\n\nbetween\n<open>\n<x y>\n<Env>\n</Env>"),
            Section::new("env", "a\r"),
            Section::new("env", "b"),
        ]
    );
    assert_eq!(split_system_prompt(""), []);
    assert_eq!(split_system_prompt("\n\n"), []);
    assert_eq!(split_system_prompt("<a>\n</a>"), [Section::new("a", "")]);
}

/// A small generator, so that every run and every platform sees the same cases.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % bound as u64).unwrap()
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }

    fn text(&mut self, pieces: &[&str], most: usize) -> String {
        (0..self.below(most + 1)).map(|_| self.pick(pieces)).collect()
    }
}

const PIECES: [&str; 16] = [
    "<",
    ">",
    "/",
    " ",
    "\n",
    "skill",
    "SKILLS",
    "permissions",
    "cwd",
    "x",
    "-",
    "&lt;",
    "é",
    "\u{1f600}",
    "</permissions>",
    "\u{a0}",
];

#[test]
fn whatever_the_text_neutralising_leaves_no_tag_of_ours_and_changes_nothing_else() {
    let mut random = Random(1);
    let mut changed = 0;
    for _ in 0..20_000 {
        let text = random.text(&PIECES, 12);
        let safe = neutralise(&text).into_owned();
        assert_eq!(neutralise(&safe), safe, "{text:?}");
        // Undoing the escapes gives the text back, so nothing else changed.
        assert_eq!(safe.replace("&lt;", "<"), text.replace("&lt;", "<"), "{text:?}");
        let squeezed: String = safe
            .chars()
            .filter(|c| !c.is_whitespace())
            .collect::<String>()
            .to_ascii_lowercase();
        for tag in ["skill", "skills", "permissions", "cwd"] {
            for open in ["<", "</"] {
                for close in ["/", ">"] {
                    assert!(
                        !squeezed.contains(&format!("{open}{tag}{close}")),
                        "{text:?} became {safe:?}"
                    );
                }
            }
        }
        changed += usize::from(safe != text);
    }
    assert!(
        (2_000..18_000).contains(&changed),
        "the generator hits tags in {changed} of 20,000 texts"
    );
}

#[test]
fn replaying_the_checkpoints_gives_each_prompt_back_exactly() {
    const NAMES: [&str; 8] = [
        "preamble",
        "project_instructions",
        "house",
        "a-b",
        "skills",
        "cwd",
        "run_context",
        "permissions",
    ];
    let mut random = Random(2);
    let (mut recorded, mut removed) = (0, 0);
    for _ in 0..300 {
        let mut checkpoints = Vec::new();
        let mut seen: Vec<(u32, String)> = Vec::new();
        let mut count = 0;
        for _ in 0..12 {
            count += u32::try_from(random.below(4)).unwrap();
            let mut sections: Vec<Section> = Vec::new();
            for name in NAMES {
                if random.below(3) > 0 {
                    sections.push(Section::new(name, random.text(&PIECES, 3)));
                }
            }
            let at = random.below(sections.len() + 1);
            sections.rotate_left(at);
            let count = count.max(1);
            let next = diff_system_prompt(&checkpoints, &sections, count, 0.0).unwrap();
            recorded += next.len() - checkpoints.len();
            checkpoints = next;
            seen.retain(|(earlier, _)| *earlier < count);
            seen.push((count, render_system_prompt(&sections).unwrap()));
        }
        removed += checkpoints
            .iter()
            .flat_map(|c| c.sections.iter())
            .filter(|(_, body)| body.is_none())
            .count();

        let stored = json!(checkpoints);
        let checkpoints = Checkpoint::parse_list(&stored).unwrap();
        for (count, prompt) in &seen {
            assert_eq!(&system_prompt_at(&checkpoints, count - 1).unwrap(), prompt);
        }
        // A prompt that is what was replayed records nothing.
        let last = replay_system_prompt(&checkpoints, count).unwrap();
        assert_eq!(
            diff_system_prompt(&checkpoints, &last, count.max(1), 0.0).unwrap(),
            checkpoints
        );
    }
    assert!(
        recorded > 2_500 && removed > 1_000,
        "{recorded} recorded, {removed} removed"
    );
}

#[test]
fn a_megabyte_of_open_brackets_and_blanks_takes_no_time() {
    for piece in ["<", "< ", "</", "<skill", "<\n"] {
        let text = piece.repeat(1_000_000 / piece.len());
        assert!(neutralise(&text).len() >= text.len());
    }
    let lines: String = (0..100_000).map(|n| format!("<a{n}>\n")).collect();
    assert_eq!(split_system_prompt(&lines).len(), 1);
}
