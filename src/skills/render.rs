//! Chosen skills as the text the model is shown.

use serde::{Deserialize, Serialize};

use super::manifest;
use crate::prompt::neutralise;
use crate::{
    context::LoadedSkill,
    list::{Listed, split_at_text},
};

/// A stretch of text in UTF-16 units, as JavaScript counts: from `start` up to, not including, `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// The first unit.
    pub start: usize,
    /// Behind the last unit.
    pub end: usize,
}

/// Rendered skills.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RenderedSkills {
    /// The blocks, joined by a blank line; `""` for no skills.
    pub content: String,
    /// Where each skill's block stands in `content`.
    pub spans: Vec<Span>,
}

/// Renders skills in the given order, each as `<skill name="..." location="...">`, the body of its file and
/// `</skill>` on lines of their own, joined by a blank line.
///
/// The body is what follows the file's frontmatter, without the blank lines at both ends, or the whole text where there
/// is no frontmatter; it is neutralised, so it cannot close its own tag. In attributes `&`, `<`, `>`, `"` and
/// control characters are escaped, so that the tag is one line.
pub fn render_skills(skills: &[LoadedSkill]) -> RenderedSkills {
    let mut content = String::new();
    let mut units = 0;
    let mut spans = Vec::with_capacity(skills.len());
    for skill in skills {
        if !content.is_empty() {
            content.push_str(BETWEEN);
            units += BETWEEN.len();
        }
        let block = block(skill);
        let end = units + utf16_len(&block);
        spans.push(Span { start: units, end });
        content.push_str(&block);
        units = end;
    }
    RenderedSkills { content, spans }
}

/// Finds the blocks again in a stored snapshot, which holds its content and its skills, but no spans.
///
/// Each skill's opening tag is searched behind the block before it, and the block ends with the first line `</skill>`. For
/// content of [`render_skills`] that is exact: no body can hold such a tag. Content that another version or another program
/// rendered may lack one; then that skill has no span, and the others still have theirs.
pub fn skill_spans(content: &str, skills: &[LoadedSkill]) -> Vec<Option<Span>> {
    let mut rest = content;
    let mut units = 0;
    skills
        .iter()
        .map(|skill| {
            let tag = opening_tag(skill);
            let (before, behind) = split_at_text(rest, &tag)?;
            let (body, behind) = split_at_text(behind, CLOSING_LINE)?;
            let start = units + utf16_len(before);
            let end = start + utf16_len(&tag) + utf16_len(body) + utf16_len(CLOSING_LINE);
            rest = behind;
            units = end;
            Some(Span { start, end })
        })
        .listed()
}

const BETWEEN: &str = "\n\n";
const CLOSING_LINE: &str = "\n</skill>";

fn block(skill: &LoadedSkill) -> String {
    let mut block = opening_tag(skill);
    block.push('\n');
    block.push_str(&neutralise(manifest::body(&skill.content)));
    block.push_str(CLOSING_LINE);
    block
}

fn opening_tag(skill: &LoadedSkill) -> String {
    format!(
        r#"<skill name="{}" location="{}">"#,
        attribute(&skill.name),
        attribute(&skill.path)
    )
}

fn attribute(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // Line ends, and what might be taken for one.
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => {
                out.push_str("&#");
                out.push_str(&u32::from(c).to_string());
                out.push(';');
            }
            c => out.push(c),
        }
    }
    out
}

fn utf16_len(text: &str) -> usize {
    text.chars().map(char::len_utf16).sum()
}
