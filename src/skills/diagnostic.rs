//! What is remarkable about a skill file, as data. Nothing in a diagnostic is text out of the file: diagnostics may end up in front
//! of a model, and the file is not trusted.

use std::fmt;

use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::untyped::{self, ToJson};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(target_family = "wasm", derive(tsify::Tsify))]
pub enum Severity {
    /// Worth knowing; nothing is lost.
    Info,
    /// The skill loads, though a rule of the format is broken.
    Warning,
    /// The file gives no skill.
    Error,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $text:literal,)*) => {
        /// What is remarkable, as a closed list.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum DiagnosticCode { $($(#[$doc])* $variant,)* }

        impl DiagnosticCode {
            /// The closed list as a TypeScript type.
            #[cfg(target_family = "wasm")]
            pub const IN_TYPESCRIPT: &str = concat!(
                "/** What is remarkable about a skill file, as a closed list. */\nexport type DiagnosticCode =",
                $("\n    | '", $text, "'",)*
                ";\n"
            );

            /// Every code.
            pub const ALL: &[DiagnosticCode] = &[$(DiagnosticCode::$variant,)*];

            /// The text form, for example `missing_frontmatter`.
            pub fn as_str(self) -> &'static str {
                match self { $(DiagnosticCode::$variant => $text,)* }
            }
        }
    };
}

codes! {
    /// The bytes are not UTF-8.
    InvalidUtf8 = "invalid_utf8",
    /// The text begins with a byte order mark, which is skipped.
    ByteOrderMark = "byte_order_mark",
    /// The text does not begin with a line `---`, nor with anything that was meant so.
    MissingFrontmatter = "missing_frontmatter",
    /// No line `---` closes the frontmatter. A warning where it is clear which lines are fields.
    UnclosedFrontmatter = "unclosed_frontmatter",
    /// Blank lines or comments stand before the frontmatter, and were skipped.
    TextBeforeFrontmatter = "text_before_frontmatter",
    /// The frontmatter stands in a code fence, which was left out.
    FencedFrontmatter = "fenced_frontmatter",
    /// A delimiter has more than three hyphens.
    WrongDelimiter = "wrong_delimiter",
    /// A formatter of Markdown made a rule and a heading of the frontmatter.
    FormattedFrontmatter = "formatted_frontmatter",
    /// The frontmatter is longer than 16 KiB.
    FrontmatterTooLarge = "frontmatter_too_large",
    /// The frontmatter is no YAML. A warning where its fields could be read all the same.
    InvalidYaml = "invalid_yaml",
    /// An anchor (`&name`), which is refused.
    AnchorRefused = "anchor_refused",
    /// An alias (`*name`), which is refused.
    AliasRefused = "alias_refused",
    /// A tag (`!name`), which is refused.
    TagRefused = "tag_refused",
    /// A directive (`%NAME`), which is refused.
    DirectiveRefused = "directive_refused",
    /// Lists and mappings are nested more than 8 deep.
    TooDeep = "too_deep",
    /// The frontmatter is no mapping of fields.
    NotAMapping = "not_a_mapping",
    /// A field is there twice. The first one counts.
    DuplicateField = "duplicate_field",
    /// A field is no valid YAML and was read as plain text.
    FieldRepaired = "field_repaired",
    /// A field that asks for permissions was left out, because the file is not as the format says.
    FieldIgnored = "field_ignored",
    /// There is no `name`.
    MissingName = "missing_name",
    /// The `name` is blank.
    EmptyName = "empty_name",
    /// The `name` breaks the rule for names.
    InvalidName = "invalid_name",
    /// The `name` is longer than 64 code points.
    NameTooLong = "name_too_long",
    /// The `name` is not that of the folder.
    NameMismatch = "name_mismatch",
    /// There is no `description`, or it is blank.
    MissingDescription = "missing_description",
    /// The `description` is longer than 1,024 code points.
    DescriptionTooLong = "description_too_long",
    /// The `compatibility` is longer than 500 code points.
    CompatibilityTooLong = "compatibility_too_long",
    /// A field holds another kind of value than it should.
    WrongType = "wrong_type",
    /// A field that this library does not know. It is kept.
    UnknownField = "unknown_field",
    /// There are no instructions after the frontmatter.
    EmptyBody = "empty_body",
    /// The file could not be read.
    Unreadable = "unreadable",
    /// The same location is listed twice in one scope.
    ListedTwice = "listed_twice",
}

impl fmt::Display for DiagnosticCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for DiagnosticCode {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.as_str())
    }
}

/// One remark about a skill file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(target_family = "wasm", derive(tsify::Tsify))]
pub struct Diagnostic {
    /// What.
    pub code: DiagnosticCode,
    /// How bad.
    pub severity: Severity,
    /// For a person; says what to do. May name fields of the format, and holds no text of the file.
    pub message: String,
    /// The line in the file, from 1.
    pub line: u32,
    /// The column in code points, from 1.
    pub column: u32,
}

impl ToJson for Diagnostic {
    fn to_json(&self) -> Value {
        untyped::to_object(&[
            ("code", &self.code.as_str().to_owned()),
            ("severity", &self.severity.as_str().to_owned()),
            ("message", &self.message),
            ("line", &self.line),
            ("column", &self.column),
        ])
    }
}

impl Severity {
    fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// A place in a file: line and column, both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) line: u32,
    pub(super) column: u32,
}

/// What was found, and where.
pub(super) type Finding = (DiagnosticCode, Position);

impl Position {
    pub(super) const START: Position = Position { line: 1, column: 1 };

    /// The place so many lines down and so many characters to the right: of here, or of the first column of another line.
    // Not inlined, as `Diagnostic::new` is not: each place would be larger than a call.
    #[inline(never)]
    pub(super) fn further(self, lines: usize, characters: usize) -> Self {
        let from = if lines == 0 { self.column } else { 1 };
        Self {
            line: self.line.saturating_add(narrow(lines)),
            column: from.saturating_add(narrow(characters)),
        }
    }

    /// The place just behind `text`, which begins here.
    pub(super) fn behind(self, text: &str) -> Self {
        let lines = text.matches('\n').count();
        let line = text.rsplit('\n').next().unwrap_or_default();
        self.further(lines, line.chars().count())
    }
}

/// Counts of things in memory fit: a file with more than four billion lines is not read.
fn narrow(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

impl Diagnostic {
    /// Whether this was found.
    pub(super) fn is(&self, (code, at): Finding) -> bool {
        self.code == code && (self.line, self.column) == (at.line, at.column)
    }

    #[inline(never)]
    pub(super) fn new(code: DiagnosticCode, severity: Severity, at: Position, message: &str) -> Self {
        Self {
            code,
            severity,
            message: message.to_owned(),
            line: at.line,
            column: at.column,
        }
    }
}
