//! The frame of a skill file: where the frontmatter begins and ends, and what the body is.

/// A file cut at its delimiters.
#[derive(Debug)]
pub(super) struct Frame<'a> {
    /// The lines between the delimiters.
    pub(super) block: &'a str,
    /// The line of the file on which the block begins, from 1.
    pub(super) block_line: usize,
    /// What follows the closing delimiter, without the blank lines at both ends.
    pub(super) body: &'a str,
}

/// Why a file has no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoFrame {
    /// It does not begin with a delimiter.
    Missing,
    /// No delimiter closes the block.
    Unclosed,
}

/// The text without its byte order mark.
pub(super) fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// Cuts a text that has no byte order mark. A delimiter is a line of three hyphens; blanks may follow them.
pub(super) fn frame(text: &str) -> Result<Frame<'_>, NoFrame> {
    let mut lines = text.split_inclusive('\n');
    let opening = lines
        .next()
        .filter(|line| is_delimiter(line))
        .ok_or(NoFrame::Missing)?;
    let mut end = opening.len();
    for line in lines {
        if is_delimiter(line) {
            let block = text.get(opening.len()..end).unwrap_or_default();
            let body = without_blank_ends(text.get(end + line.len()..).unwrap_or_default());
            return Ok(Frame {
                block,
                block_line: 2,
                body,
            });
        }
        end += line.len();
    }
    Err(NoFrame::Unclosed)
}

/// The instructions in a file: what follows the frontmatter, or all of a text that has none.
pub(super) fn body(text: &str) -> &str {
    let text = without_mark(text);
    frame(text).map_or_else(|_| without_blank_ends(text), |frame| frame.body)
}

fn is_delimiter(line: &str) -> bool {
    line.trim_end() == "---"
}

/// Removes blank lines at both ends. The first line keeps its indentation, the last one its blanks.
fn without_blank_ends(text: &str) -> &str {
    let mut start = 0;
    let mut end = 0;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if !line.trim().is_empty() {
            if end == 0 {
                start = at;
            }
            end = at + line.trim_end_matches(['\n', '\r']).len();
        }
        at += line.len();
    }
    text.get(start..end).unwrap_or_default()
}
