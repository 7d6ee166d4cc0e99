//! How many tokens a text has, about: the estimate that needs no tokenizer.
//!
//! Tokenizers keep what is alike together, so that a text is looked at as runs of what is alike: what the unit that begins a run
//! costs on top, and what every unit costs. The weights are fitted to `o200k_base` and `cl100k_base`, of which the one that needs
//! more counts, so that texts of some length come out at nine tenths of it or more, and to what Anthropic's models report. They
//! are whole thousandths of a token: `tokens` of `src/js/plain.js` is the same rule over JavaScript's own strings, and both give
//! the same numbers.

/// What a run is made of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Run {
    Letters,
    Digits,
    Breaks,
    Blanks,
    Tabs,
    Marks,
    Other,
}

/// The run that a UTF-16 unit belongs to, what it costs where it begins one, and what it costs anywhere.
fn weights(unit: u16) -> (Run, u64, u64) {
    match unit {
        // Words begin with a capital, so that one pays for the beginning of its word.
        0x61..=0x7a => (Run::Letters, 560, 145),
        0x41..=0x5a => (Run::Letters, 0, 660),
        0x30..=0x39 => (Run::Digits, 1_800, 340),
        0x0a | 0x0d => (Run::Breaks, 1_000, 0),
        0x20 => (Run::Blanks, 0, 95),
        0x09 => (Run::Tabs, 1_450, 0),
        ..=0x7f => (Run::Marks, 330, 250),
        // Latin letters with accents, each of which breaks a word into several tokens.
        0x80..=0x2ff => (Run::Other, 0, 2_500),
        // Cyrillic.
        0x400..=0x52f => (Run::Other, 0, 650),
        // Half of a surrogate pair.
        0xd800..=0xdfff => (Run::Other, 0, 1_500),
        _ => (Run::Other, 0, 1_200),
    }
}

/// Estimated tokens of a text, rounded up.
pub fn text_tokens(text: &str) -> u32 {
    let (mut before, mut thousandths) = (Run::Other, 0);
    for unit in text.encode_utf16() {
        let (run, begins, each) = weights(unit);
        thousandths += each;
        if run != before {
            thousandths += begins;
        }
        before = run;
    }
    u32::try_from(thousandths.div_ceil(1_000)).unwrap_or(u32::MAX)
}
