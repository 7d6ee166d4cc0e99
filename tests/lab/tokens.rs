//! What a text costs by the built-in estimate, told a second time: whole run by whole run.

/// Estimated tokens of a text.
pub fn tokens(text: &str) -> u32 {
    let (mut cost, mut rest) = (0, text);
    while let Some(first) = rest.chars().next() {
        let alike: fn(&char) -> bool = match first {
            'a'..='z' | 'A'..='Z' => |c| c.is_ascii_alphabetic(),
            '0'..='9' => |c| c.is_ascii_digit(),
            '\n' | '\r' => |c| matches!(c, '\n' | '\r'),
            ' ' => |c| *c == ' ',
            '\t' => |c| *c == '\t',
            _ if first.is_ascii() => {
                |c| c.is_ascii() && !c.is_ascii_alphanumeric() && !matches!(c, '\n' | '\r' | ' ' | '\t')
            }
            _ => |c| !c.is_ascii(),
        };
        let run: String = rest.chars().take_while(alike).collect();
        let count = |is: fn(&char) -> bool| run.chars().filter(is).count() as u64;
        cost += match first {
            'a'..='z' | 'A'..='Z' => {
                let word = if first.is_ascii_lowercase() { 560 } else { 0 };
                word + 145 * count(|c| c.is_ascii_lowercase()) + 660 * count(|c| c.is_ascii_uppercase())
            }
            '0'..='9' => 1_800 + 340 * run.len() as u64,
            '\n' | '\r' => 1_000,
            ' ' => 95 * run.len() as u64,
            '\t' => 1_450,
            _ if first.is_ascii() => 330 + 250 * run.len() as u64,
            _ => run.chars().map(beyond_ascii).sum(),
        };
        rest = &rest[run.len()..];
    }
    u32::try_from(cost.div_ceil(1_000)).unwrap()
}

fn beyond_ascii(c: char) -> u64 {
    match u32::from(c) {
        ..0x300 => 2_500,
        0x400..0x530 => 650,
        0x1_0000.. => 3_000,
        _ => 1_200,
    }
}

/// Estimated tokens of a value as JSON.
pub fn json_tokens(value: &serde_json::Value) -> u32 {
    tokens(&value.to_string())
}
