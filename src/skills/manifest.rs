//! The manifest: what a `SKILL.md` file says about its skill.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::diagnostic::{Diagnostic, DiagnosticCode, Finding, Position, Severity};
use super::field::{FLAGS, GRANT, flag, known, restricts};
use super::frontmatter::{self, Frame};
use super::repair;
use super::yaml::{self, Fields};
use crate::{list::hex, untyped::insert_sorted};

const MAX_NAME: usize = 64;
const MAX_DESCRIPTION: usize = 1024;
const MAX_COMPATIBILITY: usize = 500;

/// A skill as its file describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(target_family = "wasm", derive(tsify::Tsify))]
pub struct ParsedSkill {
    /// The name, trimmed; that of the folder where the file gives none.
    pub name: String,
    /// What it is for, trimmed.
    pub description: String,
    /// The instructions: what follows the frontmatter, without the blank lines at both ends.
    pub body: String,
    /// SHA-256 of the file's text, lower-case hex.
    pub revision: String,
    /// Every field of the frontmatter, also the ones this library does not know.
    /// Every scalar is a text.
    #[cfg_attr(target_family = "wasm", tsify(type = "Record<string, FieldValue>"))]
    pub fields: Map<String, Value>,
}

impl ParsedSkill {
    /// Whether the model may load it by itself: not with a `disable-model-invocation`, unless that clearly says no.
    pub fn model_invocable(&self) -> bool {
        !restricts(&self.fields, "disable-model-invocation")
    }

    /// Whether a person may choose it: not with a `user-invocable`, unless that clearly says yes. The spelling
    /// `user-invokable` counts too.
    pub fn user_invocable(&self) -> bool {
        !["user-invocable", "user-invokable"]
            .iter()
            .any(|name| restricts(&self.fields, name))
    }
}

/// What reading a file gave. Without a skill at least one diagnostic is an error, with one none is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ParseOutcome {
    /// The skill, if the file gives one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skill: Option<ParsedSkill>,
    /// What is remarkable about the file, in the order of the file.
    pub diagnostics: Vec<Diagnostic>,
}

/// The SHA-256 of a text's UTF-8, in lower-case hex; of the whole file as given, a byte order mark included.
pub fn revision(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

/// Reads a file given as bytes, as [`parse_skill`] does. Bytes that are not UTF-8 are a diagnostic.
pub fn parse_skill_bytes(bytes: &[u8], location: Option<&str>) -> ParseOutcome {
    match std::str::from_utf8(bytes) {
        Ok(text) => parse_skill(text, location),
        Err(error) => {
            let valid = bytes.get(..error.valid_up_to()).unwrap_or_default();
            let at = Position::START.behind(&String::from_utf8_lossy(valid));
            let message = "the file is not UTF-8 from here on; save it as UTF-8";
            ParseOutcome {
                skill: None,
                diagnostics: vec![Diagnostic::new(
                    DiagnosticCode::InvalidUtf8,
                    Severity::Error,
                    at,
                    message,
                )],
            }
        }
    }
}

/// Reads the text of a `SKILL.md` file.
///
/// The frontmatter is YAML between two lines `---`, at most 16 KiB, nested at most 8 deep, without anchors, aliases, tags
/// and directives; all scalars are strings. A byte order mark and CRLF line ends are fine.
///
/// Where that fails, and a person would still see fields, these are read one by one, and what is no YAML is plain text.
/// Each flaw of the frame and each field read so is a warning. In such a file `allowed-tools` is left out, and a flag
/// that restricts counts wherever it is named, unless what is written there clearly opens.
///
/// A `description` is needed. A `name` that breaks the rule of the format, or is not that of the folder, is a warning; a
/// blank one is an error. Where there is no `name` at all, the parent folder in `location` stands in, with a warning;
/// without a location that ends in a `.md` file inside a folder it is an error. Lengths count code points.
pub fn parse_skill(text: &str, location: Option<&str>) -> ParseOutcome {
    let mut diagnostics = Vec::new();
    let unmarked = frontmatter::without_mark(text);
    if unmarked.len() < text.len() {
        diagnostics.push(Diagnostic::new(
            DiagnosticCode::ByteOrderMark,
            Severity::Info,
            Position::START,
            "the file begins with a byte order mark, which was skipped",
        ));
    }

    let mut skill = None;
    match read(unmarked, &mut diagnostics) {
        Err((code, at)) => diagnostics.push(Diagnostic::new(code, Severity::Error, at, message(code))),
        Ok((frame, fields)) => {
            let mut check = Check {
                fields: &fields,
                diagnostics,
            };
            let name = check.name(location.and_then(folder_of));
            let description = check.description();
            check.other_fields();
            if frame.body.is_empty() {
                let at = Position::START.behind(unmarked);
                let message = "the skill has no instructions; add them after the frontmatter";
                check.remark(DiagnosticCode::EmptyBody, Severity::Warning, at, message);
            }
            diagnostics = check.diagnostics;
            skill = name.zip(description).map(|(name, description)| ParsedSkill {
                name,
                description,
                body: frame.body.to_owned(),
                revision: revision(text),
                fields: fields.values,
            });
        }
    }
    let mut in_order = Vec::with_capacity(diagnostics.len());
    for diagnostic in diagnostics {
        insert_sorted(&mut in_order, diagnostic, &|a, b| {
            (a.line, a.column).cmp(&(b.line, b.column))
        });
    }
    ParseOutcome {
        skill,
        diagnostics: in_order,
    }
}

/// The instructions in a file: what follows the frontmatter, or all of a text that has none.
pub(super) fn body(text: &str) -> &str {
    let text = frontmatter::without_mark(text);
    framed(text).map_or_else(|_| frontmatter::without_blank_ends(text), |(frame, _)| frame.body)
}

/// The frame of a file, and its fields where they are YAML. Where the file is as the format says, nothing else is tried.
fn framed(text: &str) -> Result<(Frame<'_>, Result<Fields, Finding>), Finding> {
    let strict = frontmatter::strict(text).map(|frame| (yaml::parse(frame.block, frame.at), frame));
    if let Some((Ok(fields), frame)) = strict {
        return Ok((frame, Ok(fields)));
    }
    let frame = frontmatter::lenient(text)?;
    let fields = match strict {
        // Without a flaw it is the same block.
        Some((refused, _)) if frame.flaws.is_empty() => refused,
        _ => yaml::parse(frame.block, frame.at),
    };
    Ok((frame, fields))
}

/// The frame and the fields of a file, and what had to be done to see them.
fn read<'a>(text: &'a str, diagnostics: &mut Vec<Diagnostic>) -> Result<(Frame<'a>, Fields), Finding> {
    let (frame, fields) = framed(text)?;
    let before = diagnostics.len();
    for (code, at) in &frame.flaws {
        diagnostics.push(Diagnostic::new(*code, Severity::Warning, *at, message(*code)));
    }
    let mut fields = match fields {
        Ok(fields) => fields,
        Err(reason) => {
            let fields = repair::fields(&frame, reason, diagnostics)?;
            if diagnostics.iter().all(|remark| !remark.is(reason)) {
                let (code, at) = reason;
                diagnostics.push(Diagnostic::new(code, Severity::Warning, at, message(code)));
            }
            fields
        }
    };
    if diagnostics.len() == before {
        return Ok((frame, fields));
    }
    repair::restrict(&frame, &mut fields, diagnostics);
    if fields.values.contains_key(GRANT) {
        let message = "`allowed-tools` was left out; make the file as the other remarks say first";
        let at = fields.position(GRANT);
        diagnostics.push(Diagnostic::new(
            DiagnosticCode::FieldIgnored,
            Severity::Warning,
            at,
            message,
        ));
        // The map's own way to remove an entry is two kilobytes.
        let mut others = Map::new();
        for (name, value) in fields.values {
            if name != GRANT {
                others.insert(name, value);
            }
        }
        fields.values = others;
    }
    Ok((frame, fields))
}

fn message(code: DiagnosticCode) -> &'static str {
    match code {
        DiagnosticCode::MissingFrontmatter => {
            "the file does not begin with frontmatter; begin it with a line `---`, the fields, and a line `---`"
        }
        DiagnosticCode::UnclosedFrontmatter => {
            "no line `---` closes the frontmatter; add one after the fields"
        }
        DiagnosticCode::TextBeforeFrontmatter => {
            "the frontmatter comes first; move what is before it below it"
        }
        DiagnosticCode::FencedFrontmatter => "the frontmatter stands in a code fence; remove the fence",
        DiagnosticCode::WrongDelimiter => "the delimiter has more than three hyphens; write `---`",
        DiagnosticCode::FormattedFrontmatter => {
            "the frontmatter became a heading; write one `field: value` on each line, between two lines `---`"
        }
        DiagnosticCode::FrontmatterTooLarge => {
            "the frontmatter is longer than 16 KiB; move text into the body"
        }
        DiagnosticCode::AnchorRefused => {
            "anchors are not allowed in frontmatter; quote the value, or write it out"
        }
        DiagnosticCode::AliasRefused => {
            "aliases are not allowed in frontmatter; quote the value, or write it out"
        }
        DiagnosticCode::TagRefused => {
            "tags are not allowed in frontmatter; quote the value, or leave the tag out"
        }
        DiagnosticCode::DirectiveRefused => "directives are not allowed in frontmatter; leave the line out",
        DiagnosticCode::TooDeep => "the frontmatter is nested more than 8 deep; make it flatter",
        DiagnosticCode::NotAMapping => {
            "the frontmatter holds no fields; write one `field: value` on each line"
        }
        DiagnosticCode::DuplicateField => "the field is there twice; keep one of them",
        _ => {
            "the frontmatter is no valid YAML here; quote values that hold `: `, ` #`, quotes or brackets, and check the indentation"
        }
    }
}

/// The checks of a file's fields.
struct Check<'a> {
    fields: &'a Fields,
    diagnostics: Vec<Diagnostic>,
}

impl Check<'_> {
    fn remark(&mut self, code: DiagnosticCode, severity: Severity, at: Position, message: &str) {
        self.diagnostics
            .push(Diagnostic::new(code, severity, at, message));
    }

    /// A field that must be a scalar, trimmed; the outer `None` where it is not one.
    fn scalar(&mut self, field: &str, severity: Severity) -> Option<Option<String>> {
        match self.fields.values.get(field) {
            None => Some(None),
            Some(Value::String(text)) => Some(Some(text.trim().to_owned())),
            Some(_) => {
                let at = self.fields.position(field);
                self.remark(
                    DiagnosticCode::WrongType,
                    severity,
                    at,
                    &format!("`{field}` must be a single value"),
                );
                None
            }
        }
    }

    fn too_long(&mut self, field: &str, text: &str, max: usize, code: DiagnosticCode) {
        if text.chars().count() > max {
            let at = self.fields.position(field);
            self.remark(
                code,
                Severity::Warning,
                at,
                &format!("`{field}` is longer than {max} characters; shorten it"),
            );
        }
    }

    fn name(&mut self, folder: Option<&str>) -> Option<String> {
        let at = self.fields.position("name");
        match (self.scalar("name", Severity::Error)?, folder) {
            (Some(name), _) if name.is_empty() => {
                self.remark(
                    DiagnosticCode::EmptyName,
                    Severity::Error,
                    at,
                    "`name` is blank; give the skill a name",
                );
                None
            }
            (Some(name), folder) => {
                if !is_well_formed(&name) {
                    self.remark(
                        DiagnosticCode::InvalidName,
                        Severity::Warning,
                        at,
                        "`name` should be lower-case letters, digits and single hyphens between them",
                    );
                }
                self.too_long("name", &name, MAX_NAME, DiagnosticCode::NameTooLong);
                if folder.is_some_and(|folder| folder != name) {
                    let message = "`name` is not that of the folder; make them equal";
                    self.remark(DiagnosticCode::NameMismatch, Severity::Warning, at, message);
                }
                Some(name)
            }
            (None, Some(folder)) => {
                let message = "there is no `name`, so the folder's is used; add one";
                self.remark(DiagnosticCode::MissingName, Severity::Warning, at, message);
                Some(folder.to_owned())
            }
            (None, None) => {
                self.remark(
                    DiagnosticCode::MissingName,
                    Severity::Error,
                    at,
                    "there is no `name`; add one",
                );
                None
            }
        }
    }

    fn description(&mut self) -> Option<String> {
        let text = self.scalar("description", Severity::Error)?.unwrap_or_default();
        if text.is_empty() {
            let at = self.fields.position("description");
            let message = "there is no `description`; say what the skill does and when to use it";
            self.remark(DiagnosticCode::MissingDescription, Severity::Error, at, message);
            return None;
        }
        self.too_long(
            "description",
            &text,
            MAX_DESCRIPTION,
            DiagnosticCode::DescriptionTooLong,
        );
        Some(text)
    }

    fn other_fields(&mut self) {
        if let Some(Some(text)) = self.scalar("compatibility", Severity::Warning) {
            self.too_long(
                "compatibility",
                &text,
                MAX_COMPATIBILITY,
                DiagnosticCode::CompatibilityTooLong,
            );
        }
        self.scalar("license", Severity::Warning);
        for field in FLAGS.iter().copied() {
            let at = self.fields.position(field);
            if self.fields.values.contains_key(field) && flag(&self.fields.values, field).is_none() {
                let message = format!("`{field}` must be true or false; until it is, it restricts the skill");
                self.remark(DiagnosticCode::WrongType, Severity::Warning, at, &message);
            }
        }
        let at = self.fields.position("metadata");
        let repaired = (DiagnosticCode::FieldRepaired, at);
        let is_mapping = self.fields.values.get("metadata").is_none_or(Value::is_object);
        if !is_mapping && self.diagnostics.iter().all(|remark| !remark.is(repaired)) {
            self.remark(
                DiagnosticCode::WrongType,
                Severity::Warning,
                at,
                "`metadata` must be a mapping",
            );
        }
        for (field, at) in &self.fields.positions {
            if known(field).is_none() {
                self.diagnostics.push(Diagnostic::new(
                    DiagnosticCode::UnknownField,
                    Severity::Info,
                    *at,
                    "the format does not define this field; it is kept and has no effect",
                ));
            }
        }
    }
}

/// Lower-case letters and digits, with single hyphens between them. Letters of any script, as the format's own validator has it.
fn is_well_formed(name: &str) -> bool {
    name.split('-')
        .all(|part| !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() && !c.is_uppercase()))
}

/// The folder that holds the file at `location`, if the location is that of a Markdown file.
fn folder_of(location: &str) -> Option<&str> {
    let mut parts = location.rsplit(['/', '\\']);
    // An address may go on behind the file's name.
    let file = parts.next()?.split(['?', '#']).next()?;
    let is_markdown = file.len() > 3 && file.to_ascii_lowercase().ends_with(".md");
    parts.next().filter(|folder| is_markdown && !folder.is_empty())
}
