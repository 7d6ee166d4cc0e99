//! Mentions: `$name` and `[$name](location)` in what a person typed.

use std::collections::BinaryHeap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::catalog::SkillStatus;
use crate::{
    Result,
    list::Listed,
    untyped::{Numbered, Reader, insert_sorted, join, one_of},
};

/// A skill that can be mentioned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mentionable {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Where its file is.
    #[serde(default)]
    pub location: Option<String>,
    /// Whether a stronger scope has a skill of that name. Then only `[$name](location)` reaches this one.
    #[serde(default)]
    pub shadowed: bool,
}

impl Mentionable {
    /// The same for a skill that stands like this in a catalogue; none where a person cannot mention it.
    pub fn standing(self, status: SkillStatus, user_invocable: bool) -> Option<Self> {
        let shadowed = status == SkillStatus::Shadowed;
        let mentionable = user_invocable && !matches!(status, SkillStatus::Disabled | SkillStatus::Invalid);
        mentionable.then_some(Self { shadowed, ..self })
    }

    /// Reads a skill that is given by its id, its name and perhaps its location; where it is an entry of a catalogue it counts as
    /// it stands there.
    ///
    /// # Errors
    /// `invalid_argument`, with the `field`.
    pub fn read(value: &Value, path: &str) -> Result<Option<Self>> {
        let mut skill = Reader::new(value, path);
        let given = Self {
            id: skill.read("id"),
            name: skill.read("name"),
            location: skill.read("location"),
            shadowed: false,
        };
        let user_invocable: Option<bool> = skill.read("userInvocable");
        let status = skill.optional("status");
        let status = status.map(|status| one_of(status, &join(path, "status"), &STATUSES).map(Some));
        let status = skill.taken(status.unwrap_or(Ok(None)));
        skill.finish(given.standing(
            status.unwrap_or(SkillStatus::Active),
            user_invocable.unwrap_or(true),
        ))
    }
}

const STATUSES: [(&str, SkillStatus); 5] = [
    ("active", SkillStatus::Active),
    ("shadowed", SkillStatus::Shadowed),
    ("ambiguous", SkillStatus::Ambiguous),
    ("disabled", SkillStatus::Disabled),
    ("invalid", SkillStatus::Invalid),
];

/// A skill was mentioned. Offsets are UTF-16 units, as JavaScript counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mention {
    /// The skill's id.
    pub id: String,
    /// Where the mention begins: at its `$`, or at the `[` of a linked one.
    pub start: usize,
    /// Behind its last unit.
    pub end: usize,
}

/// Why something that looks like a mention is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MentionNoticeCode {
    /// No skill has that name, or none with that name has that location.
    MentionUnknown,
    /// Several skills have it.
    MentionAmbiguous,
}

/// Something that looks like a mention and stays text. Each name is reported once, where it stands first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MentionNotice {
    /// Why.
    pub code: MentionNoticeCode,
    /// The name, without the `$`.
    pub name: String,
    /// Where it begins, in UTF-16 units.
    pub start: usize,
    /// Behind its last unit.
    pub end: usize,
}

/// What a text mentions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MentionScan {
    /// Every mention, in the order of the text, repeated ones too.
    pub mentions: Vec<Mention>,
    /// What stayed text.
    pub notices: Vec<MentionNotice>,
}

/// Names that mean something to a shell. They are never mentions, in whatever case, even if a skill is called so.
const SHELL_NAMES: [&str; 11] = [
    "PATH",
    "HOME",
    "USER",
    "SHELL",
    "PWD",
    "TMPDIR",
    "TEMP",
    "TMP",
    "LANG",
    "TERM",
    "XDG_CONFIG_HOME",
];

/// Finds the skills that a text mentions.
///
/// A mention is a `$` and the longest run of letters, digits, `_`, `-` and `:` behind it, where that run is a skill's name,
/// code point by code point. Nothing needs to stand before the `$`. `[$name](location)` means the skill with that name and
/// that location; blanks around the location are trimmed, and an empty one makes it a plain mention. There are no mentions in fenced code,
/// in code spans and directly after a backslash, and shell names such as `$PATH` are never mentions. Fences stand in lists and quotes
/// too, as in CommonMark, and end with them.
///
/// A name that no skill has, or that several have, stays text and is reported, unless it has no letter (`$5` is a price).
/// Time is linear in the length of the text.
pub fn find_mentions(text: &str, skills: &[Mentionable]) -> MentionScan {
    let mut by_name: Vec<&Mentionable> = Vec::with_capacity(skills.len());
    for skill in skills {
        insert_sorted(&mut by_name, skill, &|a, b| a.name.cmp(&b.name));
    }
    let code = code_ranges(text);
    let mut code = code.iter().peekable();
    let mut cursor = Cursor {
        text,
        byte: 0,
        units: 0,
    };
    let mut stops = Stops { text, next: 0 };
    let mut reported = Numbered::default();
    let mut scan = MentionScan::default();
    let mut behind_last = 0;

    for (dollar, _) in text.match_indices('$') {
        while code.next_if(|(_, end)| *end <= dollar).is_some() {}
        let in_code = code.peek().is_some_and(|(start, _)| *start <= dollar);
        let before = text.get(..dollar).unwrap_or_default();
        if in_code || dollar < behind_last || before.ends_with('\\') {
            continue;
        }
        let behind = text.get(dollar + 1..).unwrap_or_default();
        let name = behind.split(|c| !is_name_char(c)).next().unwrap_or_default();
        if name.is_empty() || SHELL_NAMES.iter().any(|shell| shell.eq_ignore_ascii_case(name)) {
            continue;
        }

        let name_end = dollar + 1 + name.len();
        let link = linked_location(before, name_end, &mut stops);
        let (start, end) = link.map_or((dollar, name_end), |(_, end)| (dollar - 1, end));
        behind_last = end;
        let location = link
            .map(|(location, _)| location)
            .filter(|location| !location.is_empty());
        let from = by_name.partition_point(|skill| skill.name.as_str() < name);
        let to = by_name.partition_point(|skill| skill.name.as_str() <= name);
        let candidates = by_name.get(from..to).unwrap_or_default();
        let (start, end) = (cursor.units_at(start), cursor.units_at(end));
        match resolve(candidates, location) {
            Ok(skill) => scan.mentions.push(Mention {
                id: skill.id.clone(),
                start,
                end,
            }),
            Err(code) => {
                if name.chars().any(char::is_alphabetic) && reported.add(name, start) {
                    scan.notices.push(MentionNotice {
                        code,
                        name: name.to_owned(),
                        start,
                        end,
                    });
                }
            }
        }
    }
    scan
}

fn is_name_char(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | ':')
}

/// Which of the skills with the mentioned name is meant. A plain name never means a shadowed skill; a location may.
fn resolve<'a>(
    skills: &[&'a Mentionable],
    location: Option<&str>,
) -> Result<&'a Mentionable, MentionNoticeCode> {
    let here = |skill: &&&Mentionable| location.is_none() || skill.location.as_deref() == location;
    let mut meant: Vec<&&Mentionable> = skills
        .iter()
        .filter(here)
        .filter(|skill| !skill.shadowed)
        .listed();
    if meant.is_empty() && location.is_some() {
        meant = skills.iter().filter(here).listed();
    }
    match meant.as_slice() {
        [skill] => Ok(skill),
        [] => Err(MentionNoticeCode::MentionUnknown),
        _ => Err(MentionNoticeCode::MentionAmbiguous),
    }
}

/// The trimmed location of a linked mention whose name ends at `name_end`, and where the link ends.
fn linked_location<'a>(before: &str, name_end: usize, stops: &mut Stops<'a>) -> Option<(&'a str, usize)> {
    let outside = before.strip_suffix('[')?;
    if outside.ends_with('\\') || !stops.text.get(name_end..)?.starts_with("](") {
        return None;
    }
    let from = name_end + 2;
    let stop = stops.from(from);
    let location = stops.text.get(from..stop)?;
    stops
        .text
        .get(stop..)?
        .starts_with(')')
        .then(|| (location.trim(), stop + 1))
}

/// Finds the next `)` or line end, looking at each character once however often it is asked.
struct Stops<'a> {
    text: &'a str,
    next: usize,
}

impl Stops<'_> {
    /// The first stop at or behind `from`, or the end of the text. `from` never goes back.
    fn from(&mut self, from: usize) -> usize {
        if self.next < from {
            let rest = self.text.get(from..).unwrap_or_default();
            self.next = rest.find([')', '\n']).map_or(self.text.len(), |at| from + at);
        }
        self.next
    }
}

/// Turns byte offsets into UTF-16 offsets. The offsets asked for never go back.
struct Cursor<'a> {
    text: &'a str,
    byte: usize,
    units: usize,
}

impl Cursor<'_> {
    fn units_at(&mut self, byte: usize) -> usize {
        let passed = self.text.get(self.byte..byte).unwrap_or_default();
        self.units += passed.chars().map(char::len_utf16).sum::<usize>();
        self.byte = byte;
        self.units
    }
}

/// A stretch of bytes.
type Range = (usize, usize);

/// Where the text is code, in order: fenced blocks, and code spans inside a paragraph.
fn code_ranges(text: &str) -> Vec<Range> {
    let mut ranges = Vec::new();
    let mut containers = Vec::new();
    let mut fence: Option<(Fence<'_>, usize)> = None;
    let mut paragraph = 0;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let end = at + line.len();
        let mut line = Line {
            rest: line,
            column: 0,
            spare: 0,
        };
        let count = line.go_on(&containers);
        // A fence ends with what it stands in.
        if let Some((_, start)) = fence.take_if(|_| count < containers.len()) {
            ranges.push((start, at));
            paragraph = at;
        }
        if fence.is_none() {
            containers.truncate(count);
            line.open(&mut containers);
        }
        match (&fence, Fence::of(line.rest)) {
            (Some((open, start)), Some(close)) if close.closes(open) => {
                ranges.push((*start, end));
                fence = None;
                paragraph = end;
            }
            (Some(_), _) => {}
            (None, Some(open)) if open.opens() => {
                spans(text, (paragraph, at), &mut ranges);
                fence = Some((open, at));
            }
            (None, _) if line.is_blank() => {
                spans(text, (paragraph, at), &mut ranges);
                paragraph = end;
            }
            (None, _) => {}
        }
        at = end;
    }
    match fence {
        Some((_, start)) => ranges.push((start, at)),
        None => spans(text, (paragraph, at), &mut ranges),
    }
    ranges
}

/// What a fence can stand in.
enum Container {
    /// Each of its lines begins with `>`.
    Quote,
    /// Each of its lines is blank or indented by so many columns.
    Item(usize),
}

/// Quotes and lists inside each other. What is deeper is text: each costs a look at every line.
const MAX_CONTAINERS: usize = 32;

/// What is left of a line. A tab goes to the next fourth column, and only some of its columns may have been passed.
#[derive(Clone, Copy)]
struct Line<'a> {
    rest: &'a str,
    column: usize,
    spare: usize,
}

impl Line<'_> {
    /// Passes what the line needs to stand in the containers; how many of them it stands in.
    fn go_on(&mut self, containers: &[Container]) -> usize {
        let mut count = 0;
        for container in containers {
            let mut ahead = *self;
            let goes_on = match container {
                Container::Quote => ahead.quote(),
                Container::Item(width) => ahead.is_blank() || ahead.blanks(*width) == *width,
            };
            if !goes_on {
                break;
            }
            *self = ahead;
            count += 1;
        }
        count
    }

    /// Passes the marks that open containers.
    fn open(&mut self, containers: &mut Vec<Container>) {
        while containers.len() < MAX_CONTAINERS {
            let mut ahead = *self;
            if ahead.quote() {
                containers.push(Container::Quote);
            } else if let Some(end) = ahead.item() {
                containers.push(Container::Item(end - self.column));
            } else {
                return;
            }
            *self = ahead;
        }
    }

    /// Passes the mark of a quote and one blank, if they come next. Otherwise only blanks were passed.
    fn quote(&mut self) -> bool {
        self.blanks(usize::MAX);
        let is_quote = self.rest.starts_with('>');
        if is_quote {
            self.pass(1);
            self.blanks(1);
        }
        is_quote
    }

    /// Passes the mark of a list item: a hyphen, plus or star, or a number with a dot or parenthesis. What it gives is the
    /// column of the item's other lines: that of the text behind the mark, or one blank behind it where that is code or nothing.
    fn item(&mut self) -> Option<usize> {
        let digits = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        let mark = *self.rest.as_bytes().get(digits)?;
        let marks: &[u8] = if digits == 0 { b"-+*" } else { b".)" };
        let behind = self.rest.as_bytes().get(digits + 1);
        let is_alone = behind.is_none_or(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n'));
        if digits > 9 || !marks.contains(&mark) || !is_alone {
            return None;
        }
        self.pass(digits + 1);
        let mark_end = self.column;
        let mut ahead = *self;
        let blanks = ahead.blanks(usize::MAX);
        let blanks = if blanks > 4 || ahead.is_blank() { 1 } else { blanks };
        self.blanks(blanks);
        Some(mark_end + blanks)
    }

    /// Passes characters that take a byte and a column each.
    fn pass(&mut self, count: usize) {
        self.rest = self.rest.get(count..).unwrap_or_default();
        self.column += count;
    }

    /// Passes at most so many columns of blanks; how many there were.
    fn blanks(&mut self, most: usize) -> usize {
        let mut count = 0;
        while count < most {
            if self.spare == 0 {
                self.spare = match self.rest.as_bytes().first() {
                    Some(b' ') => 1,
                    Some(b'\t') => 4 - self.column % 4,
                    _ => break,
                };
                self.rest = self.rest.get(1..).unwrap_or_default();
            }
            self.spare -= 1;
            self.column += 1;
            count += 1;
        }
        count
    }

    fn is_blank(&self) -> bool {
        self.rest.trim_start().is_empty()
    }
}

/// A line that begins with at least three backticks or tildes, indented or not.
struct Fence<'a> {
    mark: char,
    length: usize,
    info: &'a str,
}

impl<'a> Fence<'a> {
    fn of(line: &'a str) -> Option<Self> {
        let line = line.trim_start_matches([' ', '\t']);
        let mark = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
        let info = line.trim_start_matches(mark);
        let length = line.len() - info.len();
        (length >= 3).then_some(Self { mark, length, info })
    }

    /// What follows backticks must hold none, otherwise they are a code span.
    fn opens(&self) -> bool {
        self.mark == '~' || !self.info.bytes().any(|byte| byte == b'`')
    }

    fn closes(&self, open: &Fence<'_>) -> bool {
        self.mark == open.mark && self.length >= open.length && self.info.trim().is_empty()
    }
}

/// Adds the code spans of one paragraph: a run of backticks up to the next run of the same length.
fn spans(text: &str, (from, to): Range, ranges: &mut Vec<Range>) {
    let paragraph = text.get(from..to).unwrap_or_default();
    let mut runs: Vec<Range> = Vec::new();
    for (at, _) in paragraph.match_indices('`') {
        match runs.last_mut() {
            Some((_, end)) if *end == from + at => *end += 1,
            _ => runs.push((from + at, from + at + 1)),
        }
    }
    let mut by_length = BinaryHeap::with_capacity(runs.len());
    for (index, (start, end)) in runs.iter().enumerate() {
        by_length.push((end - start, index));
    }
    // A tenth of the code of `sort`.
    let by_length = by_length.into_sorted_vec();
    let mut index = 0;
    while let Some((start, end)) = runs.get(index) {
        // A backslash takes one backtick away from a run that would open; inside code it means nothing.
        let escaped = text.get(..*start).is_some_and(|before| before.ends_with('\\'));
        let length = end - start - usize::from(escaped);
        let next = by_length.partition_point(|run| *run <= (length, index));
        let closing = by_length
            .get(next)
            .filter(|(same, _)| *same == length)
            .and_then(|(_, run)| Some((*run, runs.get(*run)?.1)));
        index = match closing {
            Some((run, close)) => {
                ranges.push((*start, close));
                run + 1
            }
            None => index + 1,
        };
    }
}
