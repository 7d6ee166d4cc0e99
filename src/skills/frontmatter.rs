//! The frame of a skill file: where the frontmatter begins and ends, and what the body is.

use super::diagnostic::{DiagnosticCode, Finding, Position};
use super::field::{field_in, known};

/// A file cut at its delimiters.
#[derive(Debug)]
pub(super) struct Frame<'a> {
    /// The lines between the delimiters.
    pub(super) block: &'a str,
    /// The same where nothing is wrong. Where nothing closes the block, up to the first line that could have been meant to.
    pub(super) meant: &'a str,
    /// Where in the file the block begins.
    pub(super) at: Position,
    /// What follows the closing delimiter, without the blank lines at both ends.
    pub(super) body: &'a str,
    /// What is wrong with the frame, though a person sees what is meant.
    pub(super) flaws: Vec<Finding>,
}

impl Frame<'_> {
    /// Whether the frame has this flaw.
    pub(super) fn has(&self, flaw: DiagnosticCode) -> bool {
        self.flaws.iter().any(|(code, _)| *code == flaw)
    }
}

/// The text without its byte order mark.
pub(super) fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// Cuts a text that has no byte order mark as the format says. A delimiter is a line of three hyphens; blanks may follow.
pub(super) fn strict(text: &str) -> Option<Frame<'_>> {
    let mut lines = Lines::new(text, Position::START);
    lines.next().filter(|line| hyphens(line) == 3)?;
    let (block, at) = (lines.rest, lines.at);
    let mut end = 0;
    loop {
        let line = lines.next()?;
        if hyphens(line) == 3 {
            let block = block.get(..end)?;
            return Some(Frame {
                block,
                meant: block,
                at,
                body: without_blank_ends(lines.rest),
                flaws: Vec::new(),
            });
        }
        end += line.len();
    }
}

/// Cuts a text where a person sees the frontmatter: blank lines, comments or the beginning of a code fence may stand before
/// it, delimiters may have more hyphens, the closing one may be missing, and a formatter of Markdown may have made a rule
/// and a heading of it. Each of these is a flaw.
///
/// # Errors
/// `missing_frontmatter` or `unclosed_frontmatter`.
pub(super) fn lenient(text: &str) -> Result<Frame<'_>, Finding> {
    let missing = (DiagnosticCode::MissingFrontmatter, Position::START);
    let mut lines = Lines::new(text, Position::START);
    let mut frame = Frame {
        block: "",
        meant: "",
        at: Position::START,
        body: "",
        flaws: Vec::new(),
    };
    let opening = loop {
        let at = lines.at;
        let line = lines.next().ok_or(missing)?;
        let flaw = match hyphens(line) {
            3 => break at,
            4.. => DiagnosticCode::WrongDelimiter,
            _ if is_fence(line) => DiagnosticCode::FencedFrontmatter,
            _ if lines.skip_comment(line) => DiagnosticCode::TextBeforeFrontmatter,
            _ if only(line, '_') >= 3 => return heading(lines, frame).ok_or(missing),
            _ => return Err(missing),
        };
        if !frame.has(flaw) {
            frame.flaws.push((flaw, at));
        }
        if flaw == DiagnosticCode::WrongDelimiter {
            break at;
        }
    };

    (frame.block, frame.at) = (lines.rest, lines.at);
    let extent = Extent::of(&mut lines);
    if !extent.any {
        // Any Markdown file may hold rules. One in an unusual place is a delimiter only where fields follow.
        if !frame.flaws.is_empty() {
            return Err(missing);
        }
        if extent.closing.is_none() {
            return Err((DiagnosticCode::UnclosedFrontmatter, opening));
        }
    }
    match extent.closing {
        None => {
            lines.rest = frame.block.get(extent.end..).unwrap_or_default();
            frame.flaws.push((DiagnosticCode::UnclosedFrontmatter, opening));
        }
        Some((3, _)) => {}
        Some((_, at)) => frame.flaws.push((DiagnosticCode::WrongDelimiter, at)),
    }
    frame.meant = frame.block.get(..extent.meant).unwrap_or_default();
    frame.block = frame.block.get(..extent.end).unwrap_or_default();
    if frame.has(DiagnosticCode::FencedFrontmatter) {
        lines.skip_fence();
    }
    frame.body = without_blank_ends(lines.rest);
    Ok(frame)
}

/// The heading below a rule: a formatter that knows no frontmatter takes `---` for a rule, and the fields and the second
/// `---` for a heading, which it writes in one line.
fn heading<'a>(mut lines: Lines<'a>, mut frame: Frame<'a>) -> Option<Frame<'a>> {
    loop {
        let at = lines.at;
        let line = lines.next()?;
        if is_blank(line) {
            continue;
        }
        frame.block = line.strip_prefix('#')?.trim_start_matches('#').trim();
        frame.meant = frame.block;
        known(field_in(frame.block)?.0)?;
        let before = line.len() - line.trim_start_matches(['#', ' ']).len();
        frame.at = at.further(0, before);
        frame.flaws.push((DiagnosticCode::FormattedFrontmatter, at));
        frame.body = without_blank_ends(lines.rest);
        return Some(frame);
    }
}

/// How far the lines behind an opening delimiter are a block.
struct Extent {
    /// Whether there is a field among them.
    any: bool,
    /// Where the block ends.
    end: usize,
    /// Where the first line stands that could have closed it, or where the block ends.
    meant: usize,
    /// How many hyphens the line has that closes it, and where it is.
    closing: Option<(usize, Position)>,
}

impl Extent {
    /// Reads up to and with the first line that could close the block. It does not where it comes only after a heading and
    /// text, or after a code fence: then it is a rule of the body. What nothing closes ends before the first text that stands
    /// apart and is no field.
    fn of(lines: &mut Lines<'_>) -> Self {
        let mut extent = Self {
            any: false,
            end: 0,
            meant: 0,
            closing: None,
        };
        let (mut behind_blank, mut behind_heading) = (false, false);
        let (mut apart, mut is_over) = (false, false);
        let mut read = 0;
        loop {
            let at = lines.at;
            let Some(line) = lines.next() else {
                extent.meant = extent.end;
                return extent;
            };
            let count = hyphens(line);
            if count >= 3 {
                extent.meant = read;
                if !is_over {
                    extent.end = read;
                    extent.closing = Some((count, at));
                }
                return extent;
            }
            read += line.len();
            let ends = behind_heading || is_fence(line);
            if is_blank(line) {
                behind_blank = true;
                // A title of Markdown has a blank line below it, a comment of YAML hardly ever.
                apart |= behind_heading && extent.any;
            } else if line.starts_with('#') {
                behind_heading = true;
            } else if field_in(line).is_some() || !ends && (line.starts_with([' ', '\t']) || !behind_blank) {
                (behind_blank, behind_heading) = (false, false);
                if !apart {
                    extent.any |= field_in(line.trim_start()).is_some();
                    extent.end = read;
                }
            } else {
                apart = true;
                is_over |= ends && extent.any;
            }
        }
    }
}

/// The lines of a file from some place on.
struct Lines<'a> {
    rest: &'a str,
    /// Where it begins.
    at: Position,
}

impl<'a> Lines<'a> {
    fn new(text: &'a str, at: Position) -> Self {
        Self { rest: text, at }
    }

    /// The next line, with its end.
    fn next(&mut self) -> Option<&'a str> {
        let line = self.rest.split_inclusive('\n').next()?;
        self.rest = self.rest.get(line.len()..)?;
        self.at = self.at.further(1, 0);
        Some(line)
    }

    /// Whether `line`, which was just read, says nothing: it is blank, or a comment as in YAML, or one as in Markdown, which is
    /// read up to its end.
    fn skip_comment(&mut self, line: &'a str) -> bool {
        let mut line = line.trim();
        if !line.starts_with("<!--") {
            return line.is_empty() || line.starts_with('#');
        }
        while !line.ends_with("-->") {
            match self.next() {
                Some(next) => line = next.trim_end(),
                None => return false,
            }
        }
        true
    }

    /// Leaves out the end of a code fence, if that comes next.
    fn skip_fence(&mut self) {
        let mut ahead = Self::new(self.rest, self.at);
        while let Some(line) = ahead.next() {
            if only(line, '`') >= 3 || only(line, '~') >= 3 {
                self.rest = ahead.rest;
            }
            if !is_blank(line) {
                return;
            }
        }
    }
}

/// How many hyphens a line has that has nothing else, apart from blanks at its end.
fn hyphens(line: &str) -> usize {
    only(line, '-')
}

/// The same of any mark.
fn only(line: &str, mark: char) -> usize {
    let line = line.trim_end();
    if line.trim_start_matches(mark).is_empty() {
        line.len()
    } else {
        0
    }
}

/// Whether a line begins a code fence.
fn is_fence(line: &str) -> bool {
    line.starts_with("```") || line.starts_with("~~~")
}

fn is_blank(line: &str) -> bool {
    line.trim().is_empty()
}

/// Removes blank lines at both ends. The first line keeps its indentation, the last one its blanks.
pub(super) fn without_blank_ends(text: &str) -> &str {
    let mut start = 0;
    let mut end = 0;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if !is_blank(line) {
            if end == 0 {
                start = at;
            }
            end = at + line.trim_end_matches(['\n', '\r']).len();
        }
        at += line.len();
    }
    text.get(start..end).unwrap_or_default()
}
