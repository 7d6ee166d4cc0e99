//! Untrusted text must not open or close the tags that structure a prompt.

use std::borrow::Cow;

use super::section::{TAGS, is_name_char};

/// Makes text harmless as the body of a section, of a skill block or of a summary.
///
/// Every `<` that begins an opening or closing tag of a built-in section or of `skill` becomes `&lt;`; nothing else
/// changes. ASCII case is folded, and blanks (any Unicode white space) may stand after the `<` and after a `/`. A tag
/// name is the longest run of the characters a section name may have, so `<permissionsX>` is another name, while
/// `<permissions x>`, `<permissions/>` and a text that ends after the name are tags. The preamble is rendered without
/// tags, so there is none to forge.
///
/// Doing it twice is the same as doing it once. Time is linear in the length of the text.
///
/// ```
/// use runcontext::prompt::neutralise;
/// assert_eq!(neutralise("a < b </ Permissions >"), "a < b &lt;/ Permissions >");
/// ```
pub fn neutralise(text: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let mut copied = 0;
    // Neither a run of blanks nor a name holds a `<`, so each character is looked at a bounded number of times.
    for (at, _) in text.match_indices('<') {
        if text.get(at + 1..).is_some_and(begins_tag) {
            out.push_str(text.get(copied..at).unwrap_or_default());
            out.push_str("&lt;");
            copied = at + 1;
        }
    }
    if out.is_empty() {
        return Cow::Borrowed(text);
    }
    out.push_str(text.get(copied..).unwrap_or_default());
    Cow::Owned(out)
}

/// Whether the text behind a `<` goes on as a tag of ours.
fn begins_tag(after: &str) -> bool {
    let after = after.trim_start();
    let after = after.strip_prefix('/').map_or(after, str::trim_start);
    let name = after
        .split(|c: char| !is_name_char(c.to_ascii_lowercase()))
        .next()
        .unwrap_or("");
    TAGS.iter().any(|tag| tag.eq_ignore_ascii_case(name))
}
