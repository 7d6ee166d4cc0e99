//! Reading `SKILL.md` files.

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;
#[cfg(target_family = "wasm")]
wasm_bindgen_test::wasm_bindgen_test_configure!(run_in_browser);

use std::collections::BTreeSet;

use runcontext::skills::{DiagnosticCode, ParseOutcome, Severity, parse_skill, parse_skill_bytes, revision};
use serde_json::{Value, json};

fn cases() -> Vec<Value> {
    let vectors: Value = serde_json::from_str(include_str!("vectors/frontmatter.json")).unwrap();
    let cases = vectors["cases"].as_array().unwrap().clone();
    assert!(!cases.is_empty());
    cases
}

/// What a diagnostic says to a program; a place that the vector leaves open is left open.
fn compared(outcome: &ParseOutcome, expected: &Value) -> Value {
    let diagnostics = outcome.diagnostics.iter().enumerate().map(|(index, diagnostic)| {
        let open = |key: &str| {
            expected["diagnostics"][index]
                .get(key)
                .is_some_and(Value::is_null)
        };
        json!({
            "code": diagnostic.code,
            "severity": diagnostic.severity,
            "line": if open("line") { None } else { Some(diagnostic.line) },
            "column": if open("column") { None } else { Some(diagnostic.column) },
        })
    });
    json!({ "skill": outcome.skill, "diagnostics": diagnostics.collect::<Vec<_>>() })
}

#[test]
fn files_are_read_as_the_vectors_say() {
    for case in cases() {
        let text = case["text"].as_str().unwrap();
        let location = case.get("location").and_then(Value::as_str);
        let outcome = parse_skill(text, location);
        let expected = json!({ "skill": case["skill"], "diagnostics": case["diagnostics"] });
        assert_eq!(compared(&outcome, &case), expected, "{}", case["name"]);
        assert_eq!(
            parse_skill_bytes(text.as_bytes(), location),
            outcome,
            "{} as bytes",
            case["name"]
        );
    }
}

#[test]
fn there_is_a_skill_exactly_where_no_diagnostic_is_an_error() {
    for case in cases() {
        let outcome = parse_skill(
            case["text"].as_str().unwrap(),
            case.get("location").and_then(Value::as_str),
        );
        let refused = outcome
            .diagnostics
            .iter()
            .any(|diagnostic| diagnostic.severity == Severity::Error);
        assert_eq!(outcome.skill.is_none(), refused, "{}", case["name"]);
    }
}

#[test]
fn the_vectors_show_every_diagnostic() {
    // Two come with bytes, and two are what the catalogue says of a file.
    let mut shown: BTreeSet<&str> = BTreeSet::from([
        "invalid_utf8",
        "frontmatter_too_large",
        "unreadable",
        "listed_twice",
    ]);
    let cases = cases();
    for case in &cases {
        shown.extend(
            case["diagnostics"]
                .as_array()
                .unwrap()
                .iter()
                .map(|diagnostic| diagnostic["code"].as_str().unwrap()),
        );
    }
    let all: BTreeSet<&str> = DiagnosticCode::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(shown, all);
}

#[test]
fn no_message_holds_text_of_the_file() {
    let marked = [
        "---\nname: zqx\nzqx: 1\ndescription: zqx\n---\n",
        "---\nname: ZQX\ndescription: zqx\nmetadata: zqx\nlicense: [zqx]\n---\nzqx",
        "---\nname: zqx\ndescription: a: zqx\n---\n",
        "---\nname: &zqx n\n---\n",
        "---\nname: *zqx\n---\n",
        "---\nname: !zqx n\n---\n",
        "---\n%zqx\n---\n",
        "---\nzqx: 1\nzqx: 2\n---\n",
        "---\nzqx\n---\n",
        "---\n`zqx`: @zqx\n---\n",
        "---\nname: \"\\zqx\"\n---\n",
        "---\nname: zqx\ndescription: \"zqx\nzqx: zqx: zqx\nallowed-tools: zqx\n---\n",
        "<!-- zqx -->\n```zqx\n----\nname: zqx\nname: zqx\n```\n",
        "___\n\n## name: zqx description: zqx: zqx\n",
        "zqx",
    ];
    for text in marked {
        let outcome = parse_skill(text, Some("zqx/zqx.md"));
        assert!(!outcome.diagnostics.is_empty(), "{text}");
        for diagnostic in outcome.diagnostics {
            assert!(
                !diagnostic.message.to_lowercase().contains("zqx"),
                "{text}: {}",
                diagnostic.message
            );
            assert!(
                diagnostic
                    .message
                    .starts_with(|c: char| c.is_lowercase() || c == '`'),
                "{}",
                diagnostic.message
            );
            assert!(!diagnostic.message.ends_with('.'), "{}", diagnostic.message);
        }
    }
}

#[test]
fn bytes_that_are_not_utf_8_are_a_diagnostic_with_a_place() {
    let outcome = parse_skill_bytes(b"---\nname: \xc3\xa9\xff\n---\n", None);
    assert_eq!(outcome.skill, None);
    let [diagnostic] = outcome.diagnostics.as_slice() else {
        panic!("one diagnostic")
    };
    assert_eq!(
        (diagnostic.code, diagnostic.severity),
        (DiagnosticCode::InvalidUtf8, Severity::Error)
    );
    assert_eq!((diagnostic.line, diagnostic.column), (2, 8));
    let at_once = parse_skill_bytes(&[0xff, 0xfe], None).diagnostics;
    assert_eq!((at_once[0].line, at_once[0].column), (1, 1));
}

#[test]
fn sixteen_kibibytes_of_frontmatter_are_read_and_one_byte_more_is_not() {
    const MAX: usize = 16 * 1024;
    let file = |block: usize| {
        let fields = "name: n\ndescription: d\n#";
        format!("---\n{fields}{}\n---\nb", "x".repeat(block - fields.len() - 1))
    };
    assert_eq!(parse_skill(&file(MAX), None).diagnostics, []);
    let outcome = parse_skill(&file(MAX + 1), None);
    assert_eq!(outcome.skill, None);
    assert_eq!(outcome.diagnostics[0].code, DiagnosticCode::FrontmatterTooLarge);
    assert_eq!(outcome.diagnostics.len(), 1);
}

#[test]
fn a_revision_is_the_sha_256_of_the_whole_text() {
    // From FIPS 180-4's examples, and for the byte order mark from `printf '\xef\xbb\xbf' | sha256sum`.
    assert_eq!(
        revision("abc"),
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    );
    assert_eq!(
        revision(""),
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    );
    assert_eq!(
        revision("\u{feff}"),
        "f1945cd6c19e56b3c1c78943ef5ec18116907a4ca1efc40a57d48ab1db7adfc5"
    );
}

#[test]
fn flags_restrict_who_may_invoke_a_skill() {
    let flags = |line: &str| {
        let text = format!("---\nname: n\ndescription: d\n{line}\n---\nb");
        let skill = parse_skill(&text, None).skill.unwrap();
        (skill.user_invocable(), skill.model_invocable())
    };
    assert_eq!(flags("license: MIT"), (true, true));
    for yes in [
        "true", "True", "TRUE", "yes", "on", "y", "1", "'true'", "\"Yes \"",
    ] {
        assert_eq!(
            flags(&format!("disable-model-invocation: {yes}")),
            (true, false),
            "{yes}"
        );
        assert_eq!(flags(&format!("user-invocable: {yes}")), (true, true), "{yes}");
    }
    for no in ["false", "False", "no", "off", "n", "0", "'false'"] {
        assert_eq!(
            flags(&format!("disable-model-invocation: {no}")),
            (true, true),
            "{no}"
        );
        assert_eq!(flags(&format!("user-invocable: {no}")), (false, true), "{no}");
        assert_eq!(flags(&format!("user-invokable: {no}")), (false, true), "{no}");
    }
    assert_eq!(
        flags("user-invocable: true\nuser-invokable: false"),
        (false, true)
    );
    for unclear in ["maybe", "[true]", "[false]", "{}", "", "~", "2", "true, really"] {
        assert_eq!(
            flags(&format!("disable-model-invocation: {unclear}")),
            (true, false),
            "{unclear}"
        );
        assert_eq!(
            flags(&format!("user-invocable: {unclear}")),
            (false, true),
            "{unclear}"
        );
    }
}

#[test]
fn a_restriction_in_a_broken_file_is_never_lost() {
    let flags = |text: &str| {
        let outcome = parse_skill(text, None);
        let skill = outcome.skill.unwrap();
        let names_it = |flag: &str| outcome.diagnostics.iter().any(|it| it.message.contains(flag));
        if !skill.model_invocable() {
            assert!(names_it("`disable-model-invocation`"), "{text}");
        }
        if !skill.user_invocable() {
            assert!(names_it("`user-invocable`"), "{text}");
        }
        (skill.user_invocable(), skill.model_invocable())
    };
    let broken = |lines: &str| format!("---\nname: n\ndescription: Use when: asked{lines}\n---\nb");
    for lines in [
        "\n'disable-model-invocation': true",
        "\ndisable-model-invocation: true# never",
        "\ndisable-model-invocation: true, really",
        "\ndisable-model-invocation: false, or true",
        "\n? disable-model-invocation\n: true",
        "\n\u{a0}disable-model-invocation: true",
        "\n\u{200b}disable-model-invocation: true",
        "\u{2028}disable-model-invocation: true",
        "\rdisable-model-invocation: true",
        "\nmetadata: {a: b}, disable-model-invocation: true",
        "\ndisable-model-invocation: false\rdisable-model-invocation: true",
    ] {
        assert_eq!(flags(&broken(lines)), (true, false), "{lines:?}");
    }
    assert_eq!(
        flags("---\nname: n\ndescription: d\nuser-invocable: true\nuser-invocable: >-\n  false\n---\nb"),
        (false, true)
    );
    for lines in [
        "",
        "\ndisable-model-invocation: false\nuser-invocable: yes",
        "\r\ndisable-model-invocation: 'off' # yet\r\nuser-invokable: 1\r",
        "\n\"disable-model-invocation\" : n",
    ] {
        assert_eq!(flags(&broken(lines)), (true, true), "{lines:?}");
    }
    assert_eq!(
        flags("___\n\n## name: n description: d disable-model-invocation: false version: 1.0\n\nb"),
        (true, false),
        "what stands behind the value is part of it: nothing tells it from prose"
    );
}

#[test]
fn long_files_are_read_in_one_go() {
    // Each is a megabyte; whoever looked at a part of one again for each line would not come to an end.
    let long = |before: &str, piece: &str, behind: &str| {
        format!("{before}{}{behind}", piece.repeat(1_000_000 / piece.len()))
    };
    let fields = "---\nname: n\ndescription: a: b\n---\nb";
    for (text, loads) in [
        (long("", "\n", fields), true),
        (long("", "<!-- -->\n", fields), true),
        (long("<!--", "-", &format!("-->\n{fields}")), true),
        (long("", "```\n", fields), true),
        (long("---\nname: n\ndescription: d\n", "\n", "b"), true),
        (long("---\nname: n\ndescription: d\n\n", "# b\n\n", ""), true),
        (long("---\nname: n\ndescription: d\n---\n", "---\n", ""), true),
        (long("---\nname: n\n", "description: a: b\n", ""), false),
        (long("___\n\n## name: n ", "description: a ", ""), false),
        (long("---\n", "# \n", ""), false),
        (long("", "#\n", ""), false),
    ] {
        let outcome = parse_skill(&text, None);
        assert_eq!(
            outcome.skill.is_some(),
            loads,
            "{:?}",
            outcome.diagnostics.first()
        );
        assert!(outcome.diagnostics.len() < 6, "{}", outcome.diagnostics.len());
    }
}
