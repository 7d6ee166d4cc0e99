//! Finding `$name` mentions in what a person typed.

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;
#[cfg(target_family = "wasm")]
wasm_bindgen_test::wasm_bindgen_test_configure!(run_in_browser);

#[path = "lab/random.rs"]
mod random;

use runcontext::skills::{Mentionable, find_mentions};
use serde_json::{Value, json};

fn vectors() -> Value {
    serde_json::from_str(include_str!("vectors/mentions.json")).unwrap()
}

fn skills(vectors: &Value, case: &Value) -> Vec<Mentionable> {
    serde_json::from_value(vectors["skills"][case["skills"].as_str().unwrap()].clone()).unwrap()
}

#[test]
fn mentions_are_found_as_the_vectors_say() {
    let vectors = vectors();
    for case in vectors["cases"].as_array().unwrap() {
        let text = case["text"].as_str().unwrap();
        let scan = json!(find_mentions(text, &skills(&vectors, case)));
        assert_eq!(scan["mentions"], case["mentions"], "{}: {text:?}", case["name"]);
        assert_eq!(scan["notices"], case["notices"], "{}: {text:?}", case["name"]);
    }
}

#[test]
fn long_texts_are_read_in_one_go() {
    let vectors = vectors();
    for case in vectors["long"].as_array().unwrap() {
        let times = usize::try_from(case["times"].as_u64().unwrap()).unwrap();
        let text = case["repeat"].as_str().unwrap().repeat(times) + case["then"].as_str().unwrap();
        let scan = find_mentions(&text, &skills(&vectors, case));
        assert_eq!(json!(scan.mentions.len()), case["mentions"], "{}", case["name"]);
        assert_eq!(json!(scan.notices.len()), case["notices"], "{}", case["name"]);
    }
}

#[test]
fn a_mention_spans_exactly_what_was_typed() {
    let skills = [Mentionable {
        id: "i".into(),
        name: "a-1".into(),
        location: Some("/l".into()),
        shadowed: false,
    }];
    let text = "\u{1f600}é $a-1, [$a-1]( /l ) and $a-1";
    let units: Vec<u16> = text.encode_utf16().collect();
    let typed: Vec<String> = find_mentions(text, &skills)
        .mentions
        .iter()
        .map(|mention| String::from_utf16(&units[mention.start..mention.end]).unwrap())
        .collect();
    assert_eq!(typed, ["$a-1", "[$a-1]( /l )", "$a-1"]);
}

/// What a text mentions, and the names that stay text, by a slow reading of the rules: character by character, with a look
/// at everything before and behind. Offsets are characters.
mod slowly {
    use runcontext::skills::Mentionable;

    const SHELL: [&str; 11] = [
        "path",
        "home",
        "user",
        "shell",
        "pwd",
        "tmpdir",
        "temp",
        "tmp",
        "lang",
        "term",
        "xdg_config_home",
    ];

    fn run(text: &[char], from: usize, mark: char) -> usize {
        text[from.min(text.len())..]
            .iter()
            .take_while(|c| **c == mark)
            .count()
    }

    /// What a line can stand in: a quote, or a list item whose text begins so many columns to the right.
    enum Block {
        Quote,
        Item(usize),
    }

    /// The line with blanks for its tabs, which end at each fourth column.
    fn without_tabs(line: &[char]) -> Vec<char> {
        let mut out = vec![];
        for c in line {
            out.push(if *c == '\t' { ' ' } else { *c });
            while *c == '\t' && out.len() % 4 != 0 {
                out.push(' ');
            }
        }
        out
    }

    fn is_blank(line: &[char]) -> bool {
        line.iter().all(|c| c.is_whitespace())
    }

    /// The line behind what shows that it stands in the block.
    fn inside<'a>(line: &'a [char], block: &Block) -> Option<&'a [char]> {
        match block {
            Block::Quote => {
                let behind = line[run(line, 0, ' ')..].strip_prefix(&['>'])?;
                Some(behind.strip_prefix(&[' ']).unwrap_or(behind))
            }
            Block::Item(_) if is_blank(line) => Some(line),
            Block::Item(offset) => (run(line, 0, ' ') >= *offset).then(|| &line[*offset..]),
        }
    }

    /// The block that begins here, and the line behind its mark.
    fn begins(line: &[char]) -> Option<(Block, &[char])> {
        if let Some(behind) = inside(line, &Block::Quote) {
            return Some((Block::Quote, behind));
        }
        let indent = run(line, 0, ' ');
        let word: String = line[indent..]
            .iter()
            .take_while(|c| !" \r\n".contains(**c))
            .collect();
        let number = word.strip_suffix(['.', ')']).unwrap_or("x");
        let is_number = (1..=9).contains(&number.len()) && number.chars().all(|c| c.is_ascii_digit());
        if !is_number && !["-", "+", "*"].contains(&word.as_str()) {
            return None;
        }
        let mark_end = indent + word.len();
        let behind = &line[mark_end..];
        let blanks = run(behind, 0, ' ');
        let offset = match blanks {
            1..=4 if !is_blank(behind) => mark_end + blanks,
            _ => mark_end + 1,
        };
        Some((
            Block::Item(offset),
            &line[offset.min(indent + word.len() + blanks)..],
        ))
    }

    /// For a line that is a fence: its mark, how many there are, and whether anything stands behind them.
    fn fence(line: &[char]) -> Option<(char, usize, bool, bool)> {
        let from = line.iter().position(|c| *c != ' ')?;
        let mark = line[from];
        let length = run(line, from, mark);
        let behind: String = line[from + length..].iter().collect();
        let is_fence = "`~".contains(mark) && length >= 3;
        is_fence.then_some((mark, length, behind.trim().is_empty(), behind.contains('`')))
    }

    /// Which characters are code.
    fn code(text: &[char]) -> Vec<bool> {
        let mut code = vec![false; text.len()];
        let mut open: Option<(char, usize)> = None;
        let mut blocks: Vec<Block> = vec![];
        let mut paragraph = vec![];
        let mut paragraphs = vec![];
        let mut at = 0;
        for line in text.split_inclusive(|c| *c == '\n') {
            let places = at..at + line.len();
            at += line.len();
            let line = without_tabs(line);
            let mut line = line.as_slice();
            let mut stands_in = 0;
            while let Some(behind) = blocks.get(stands_in).and_then(|block| inside(line, block)) {
                line = behind;
                stands_in += 1;
            }
            if stands_in < blocks.len() {
                // Code ends with its list item or quote. No line goes on lazily: that is for paragraphs.
                open = None;
                blocks.truncate(stands_in);
            }
            while let Some((block, behind)) = begins(line).filter(|_| open.is_none()) {
                blocks.push(block);
                line = behind;
            }
            match (open, fence(line)) {
                (Some((mark, length)), Some((same, enough, alone, _)))
                    if mark == same && enough >= length && alone =>
                {
                    code[places].fill(true);
                    open = None;
                }
                (Some(_), _) => code[places].fill(true),
                (None, Some((mark, length, _, tick))) if mark == '~' || !tick => {
                    code[places].fill(true);
                    open = Some((mark, length));
                    paragraphs.push(std::mem::take(&mut paragraph));
                }
                (None, _) if is_blank(line) => {
                    paragraphs.push(std::mem::take(&mut paragraph));
                }
                (None, _) => paragraph.extend(places),
            }
        }
        paragraphs.push(paragraph);
        for places in paragraphs.iter().filter(|places| !places.is_empty()) {
            let (first, end) = (places[0], places[places.len() - 1] + 1);
            let mut at = first;
            while at < end {
                let length = run(&text[..end], at, '`');
                if length == 0 {
                    at += 1;
                    continue;
                }
                // A backslash takes the first backtick away.
                let opening = length - usize::from(at > 0 && text[at - 1] == '\\');
                let mut close = at + length;
                while close < end && (opening == 0 || run(&text[..end], close, '`') != opening) {
                    close += run(&text[..end], close, '`').max(1);
                }
                if close < end {
                    code[at..close + opening].fill(true);
                    at = close + opening;
                } else {
                    at += length;
                }
            }
        }
        code
    }

    pub type Found = (Vec<(String, usize, usize)>, Vec<String>);

    pub fn mentions(text: &[char], skills: &[Mentionable]) -> Found {
        let code = code(text);
        let (mut mentions, mut names) = (vec![], vec![]);
        let mut at = 0;
        while at < text.len() {
            let dollar = at;
            at += 1;
            if text[dollar] != '$' || code[dollar] || (dollar > 0 && text[dollar - 1] == '\\') {
                continue;
            }
            let name: String = text[at..]
                .iter()
                .take_while(|c| c.is_alphanumeric() || "_-:".contains(**c))
                .collect();
            if name.is_empty() || SHELL.contains(&name.to_ascii_lowercase().as_str()) {
                continue;
            }
            let mut end = at + name.chars().count();
            let mut start = dollar;
            let mut location = None;
            let opens = dollar > 0 && text[dollar - 1] == '[' && !(dollar > 1 && text[dollar - 2] == '\\');
            if opens && text[end..].starts_with(&[']', '(']) {
                let inside = &text[end + 2..];
                let stop = inside.iter().position(|c| ")\n".contains(*c));
                if let Some(stop) = stop.filter(|stop| inside[*stop] == ')') {
                    let inside: String = inside[..stop].iter().collect();
                    location = Some(inside.trim().to_owned()).filter(|it| !it.is_empty());
                    (start, end) = (dollar - 1, end + 2 + stop + 1);
                }
            }
            at = end;
            let named: Vec<&Mentionable> = skills
                .iter()
                .filter(|skill| skill.name == name && (location.is_none() || skill.location == location))
                .collect();
            let strong: Vec<&&Mentionable> = named.iter().filter(|skill| !skill.shadowed).collect();
            match (strong.as_slice(), named.as_slice()) {
                ([one], _) => mentions.push((one.id.clone(), start, end)),
                ([], [one]) if location.is_some() => mentions.push((one.id.clone(), start, end)),
                _ if name.chars().any(char::is_alphabetic) && !names.contains(&name) => names.push(name),
                _ => {}
            }
        }
        (mentions, names)
    }
}

#[test]
fn a_slow_reading_of_the_rules_finds_the_same() {
    const PIECES: [&str; 48] = [
        "$",
        "$",
        "$",
        "a",
        "ab",
        "$a",
        "$a",
        "$ab",
        "$b",
        "$twin",
        "$c:d",
        "[",
        "[$",
        "[$a](",
        "](",
        ")",
        "[$twin](/1)",
        "(/2)",
        "/1",
        " ",
        "\n",
        "\n",
        "\n\n",
        "`",
        "`",
        "``",
        "```",
        "\n```\n",
        "\n~~~\n",
        "~~~",
        "> ",
        "\\",
        "\\",
        "\t",
        "é",
        "\u{1f600}",
        "$PATH",
        "$Home",
        "$5",
        "-",
        "\n- ",
        "\n- ```\n",
        "\n1. ",
        "2) ```\n",
        "* ",
        "\n  ",
        "\n> ",
        "\n> ```\n> ",
    ];
    let skill = |id: &str, name: &str, location: &str, shadowed| Mentionable {
        id: id.into(),
        name: name.into(),
        location: Some(location.into()),
        shadowed,
    };
    let skills = [
        skill("a", "a", "/1", false),
        skill("ab", "ab", "/2", false),
        skill("t1", "twin", "/1", false),
        skill("t2", "twin", "/2", false),
        skill("s", "b", "/1", true),
        skill("cd", "c:d", "/1", false),
        skill("cd2", "c:d", "/2", true),
    ];
    let times = match (std::env::var_os("RUNCONTEXT_DEEP"), cfg!(target_family = "wasm")) {
        (Some(_), _) => 2_000_000,
        (None, true) => 5_000,
        (None, false) => 40_000,
    };
    let mut random = random::Random::new(17);
    let (mut mentioned, mut linked, mut unknown) = (0, 0, 0);
    for _ in 0..times {
        let mut text: String = (0..random.below(24))
            .map(|_| PIECES[random.below(PIECES.len())])
            .collect();
        if random.one_in(4) {
            // A long paragraph.
            text = text.replace('\n', " ");
        }
        let chars: Vec<char> = text.chars().collect();
        let units = |at: usize| chars[..at].iter().map(|c| c.len_utf16()).sum::<usize>();
        let (expected, names) = slowly::mentions(&chars, &skills);
        let scan = find_mentions(&text, &skills);
        let found: Vec<_> = scan
            .mentions
            .iter()
            .map(|it| (it.id.clone(), it.start, it.end))
            .collect();
        let expected: Vec<_> = expected
            .into_iter()
            .map(|(id, start, end)| (id, units(start), units(end)))
            .collect();
        assert_eq!(found, expected, "{text:?}");
        let stayed: Vec<_> = scan.notices.into_iter().map(|notice| notice.name).collect();
        assert_eq!(stayed, names, "{text:?}");
        mentioned += found.len();
        linked += found.iter().filter(|(_, start, end)| end - start > 5).count();
        unknown += names.len();
    }
    assert!(
        mentioned > times / 2 && linked > times / 100 && unknown > times / 10,
        "{mentioned} {linked} {unknown}"
    );
}
