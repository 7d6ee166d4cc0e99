//! What an approval is bound to: a digest of the call and of its tool.

use sha2::{Digest, Sha256};

use crate::{
    list::{Listed, hex, positions_in_order},
    message::{Kind, MessageView},
};

/// The version of what is digested.
const VERSION: u32 = 1;

/// SHA-256, as hex, over the canonical JSON (RFC 8785) of version, tool, MCP server, the digest of the tool's definition, and
/// the arguments without those that are advisory.
pub fn call_digest<M: MessageView>(
    tool: &str,
    mcp_server: Option<&str>,
    definition: &str,
    arguments: &M,
    advisory: &[Vec<String>],
) -> String {
    let mut text = format!("[{VERSION},");
    string(&mut text, tool);
    text.push(',');
    match mcp_server {
        Some(server) => string(&mut text, server),
        None => text.push_str("null"),
    }
    text.push(',');
    string(&mut text, definition);
    text.push(',');
    let skipped: Vec<&[String]> = advisory.iter().map(Vec::as_slice).listed();
    write(&mut text, arguments, &skipped);
    text.push(']');
    hex(&Sha256::digest(text.as_bytes()))
}

/// SHA-256, as hex, over the canonical JSON of what a tool is declared to be.
pub fn definition_digest<M: MessageView>(definition: &M) -> String {
    let mut text = String::new();
    write(&mut text, definition, &[]);
    hex(&Sha256::digest(text.as_bytes()))
}

/// Writes canonical JSON: members by the UTF-16 units of their names, numbers as JavaScript writes them, no blanks.
/// `skipped` are pointers, from here on, to what is left out.
fn write<M: MessageView>(text: &mut String, value: &M, skipped: &[&[String]]) {
    match value.kind() {
        Kind::Null | Kind::Bytes => text.push_str("null"),
        Kind::Bool => text.push_str(if value.boolean() == Some(true) {
            "true"
        } else {
            "false"
        }),
        Kind::Number => text.push_str(&value.number_text()),
        Kind::String => string(text, &value.text().unwrap_or_default()),
        Kind::List => {
            text.push('[');
            let mut first = true;
            for (at, item) in value.items().iter().enumerate() {
                let Some(skipped) = behind(skipped, &at.to_string(), true) else {
                    continue;
                };
                if !std::mem::take(&mut first) {
                    text.push(',');
                }
                write(text, item, &skipped);
            }
            text.push(']');
        }
        Kind::Object => {
            text.push('{');
            let members = value.members();
            let units = |at: usize| {
                members
                    .get(at)
                    .into_iter()
                    .flat_map(|(name, _)| name.encode_utf16())
            };
            let order = positions_in_order(members.len(), &|a, b| units(a).cmp(units(b)));
            let mut first = true;
            for (name, member) in order.into_iter().filter_map(|at| members.get(at)) {
                let Some(skipped) = behind(skipped, name, false) else {
                    continue;
                };
                if !std::mem::take(&mut first) {
                    text.push(',');
                }
                string(text, name);
                text.push(':');
                write(text, member, &skipped);
            }
            text.push('}');
        }
    }
}

/// The pointers that lead on behind a step; none where one ends there.
fn behind<'a>(skipped: &[&'a [String]], step: &str, in_list: bool) -> Option<Vec<&'a [String]>> {
    let mut rest = Vec::new();
    for pointer in skipped {
        match pointer.split_first() {
            Some((name, behind)) if name == step || in_list && name == "*" => {
                if behind.is_empty() {
                    return None;
                }
                rest.push(behind);
            }
            _ => {}
        }
    }
    Some(rest)
}

/// A text as RFC 8785 writes it.
fn string(text: &mut String, value: &str) {
    text.push('"');
    for c in value.chars() {
        match c {
            '"' | '\\' => {
                text.push('\\');
                text.push(c);
            }
            '\u{8}' => text.push_str("\\b"),
            '\t' => text.push_str("\\t"),
            '\n' => text.push_str("\\n"),
            '\u{c}' => text.push_str("\\f"),
            '\r' => text.push_str("\\r"),
            '\0'..' ' => {
                text.push_str("\\u00");
                text.push_str(&hex(&[c as u8]));
            }
            _ => text.push(c),
        }
    }
    text.push('"');
}

#[cfg(all(test, not(target_family = "wasm")))]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn canonical(value: &Value, skipped: &[&[String]]) -> String {
        let mut text = String::new();
        write(&mut text, value, skipped);
        text
    }

    #[test]
    fn members_stand_in_the_order_of_their_utf_16_units() {
        let value = json!({ "\u{20ac}": 1, "\r": 2, "\u{fb33}": 3, "1": 4, "\u{1f600}": 5, "\u{80}": 6, "\u{f6}": 7 });
        assert_eq!(
            canonical(&value, &[]),
            "{\"\\r\":2,\"1\":4,\"\u{80}\":6,\"\u{f6}\":7,\"\u{20ac}\":1,\"\u{1f600}\":5,\"\u{fb33}\":3}"
        );
    }

    #[test]
    fn texts_and_numbers_are_written_as_rfc_8785_says() {
        let value = json!([
            "\u{20ac}$\u{f}\nA'B\"\\/",
            1.0,
            1e21,
            0.000001,
            1e-7,
            -0.0,
            4.50,
            9007199254740991.0,
            1e30
        ]);
        assert_eq!(
            canonical(&value, &[]),
            "[\"\u{20ac}$\\u000f\\nA'B\\\"\\\\/\",1,1e+21,0.000001,1e-7,0,4.5,9007199254740991,1e+30]"
        );
    }

    #[test]
    fn what_is_advisory_is_left_out_wherever_its_pointer_leads() {
        let value = json!({ "a": 1, "note": "x", "list": [{ "why": 1, "b": 2 }, { "why": 3 }] });
        let pointers: [Vec<String>; 2] = [vec!["note".into()], vec!["list".into(), "*".into(), "why".into()]];
        let skipped: Vec<&[String]> = pointers.iter().map(Vec::as_slice).collect();
        assert_eq!(canonical(&value, &skipped), "{\"a\":1,\"list\":[{\"b\":2},{}]}");
    }

    #[test]
    fn a_digest_changes_with_everything_but_what_is_advisory() {
        let arguments = json!({ "path": "a", "why": "x" });
        let advisory = [vec!["why".to_owned()]];
        let digest = |tool: &str, server: Option<&str>, definition: &str, arguments: &Value| {
            call_digest(tool, server, definition, arguments, &advisory)
        };
        let first = digest("t", None, "d", &arguments);
        assert_eq!(first.len(), 64);
        assert_eq!(first, digest("t", None, "d", &json!({ "why": "y", "path": "a" })));
        for other in [
            digest("u", None, "d", &arguments),
            digest("t", Some("m"), "d", &arguments),
            digest("t", None, "e", &arguments),
            digest("t", None, "d", &json!({ "path": "b" })),
        ] {
            assert_ne!(first, other);
        }
    }
}
