//! The presets, and the one table that both the `<permissions>` text and the gate are made from.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// A person's choice of what a session may do. No preset at all (`null` where one is optional) means: as configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    target_family = "wasm",
    derive(tsify::Tsify),
    tsify(rename = "PermissionPreset")
)]
pub enum Preset {
    /// A ceiling: whatever changes something is asked about.
    ReadOnly,
    /// A floor: reading and writing in the working directory need no question.
    WorkspaceWrite,
    /// A floor: nothing needs a question.
    DangerFullAccess,
}

impl Preset {
    /// Every preset, the strictest first.
    pub const ALL: [Preset; 3] = [Preset::ReadOnly, Preset::WorkspaceWrite, Preset::DangerFullAccess];

    /// The text form, for example `read-only`.
    pub fn as_str(self) -> &'static str {
        match self {
            Preset::ReadOnly => "read-only",
            Preset::WorkspaceWrite => "workspace-write",
            Preset::DangerFullAccess => "danger-full-access",
        }
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Preset {
    type Err = Error;

    /// Reads the text form, exactly as written.
    ///
    /// # Errors
    /// `invalid_argument`, with the valid ones in the message.
    fn from_str(text: &str) -> Result<Self> {
        Preset::ALL
            .into_iter()
            .find(|preset| preset.as_str() == text)
            .ok_or_else(|| {
                let [a, b, c] = Preset::ALL;
                Error::invalid(format!(
                    "`{text}` is no permission preset; use `{a}`, `{b}`, `{c}`, or null for none"
                ))
            })
    }
}

/// What a call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// Reads files.
    Read,
    /// Writes files.
    Write,
    /// Runs commands.
    Execute,
    /// Reaches the network.
    Network,
    /// Touches nothing of these.
    None,
    /// Its tool does not say.
    Unclassified,
}

/// Where a call does it. Only reads and writes of files have a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Location {
    /// In the effective working directory or below it.
    WorkingDirectory,
    /// Anywhere else, inside the workspace root too.
    Elsewhere,
}

/// What a preset says about one kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cell {
    /// Nothing: what the rules and grants left stands.
    Rules,
    /// A ceiling: at most a question, until a person's bypass says otherwise.
    AtMostAsk,
    /// A floor: allowed, unless a rule forbids it or insists on asking.
    Allow,
}

/// The table. Its rows and columns are those of the design; a place counts for reads and writes alone.
pub fn cell(preset: Option<Preset>, access: Access, location: Location) -> Cell {
    use Access::{Execute, Network, None as Nothing, Read, Unclassified, Write};
    use Location::{Elsewhere, WorkingDirectory};
    use Preset::{DangerFullAccess, ReadOnly, WorkspaceWrite};

    match (preset, access, location) {
        (None, _, _) => Cell::Rules,

        (Some(ReadOnly), Read | Nothing, _) => Cell::Rules,
        (Some(ReadOnly), Write | Execute | Network | Unclassified, _) => Cell::AtMostAsk,

        (Some(WorkspaceWrite), Read | Write, WorkingDirectory) => Cell::Allow,
        (Some(WorkspaceWrite), Read | Write, Elsewhere) => Cell::Rules,
        (Some(WorkspaceWrite), Execute | Network | Unclassified, _) => Cell::Rules,
        (Some(WorkspaceWrite), Nothing, _) => Cell::Allow,

        (Some(DangerFullAccess), _, _) => Cell::Allow,
    }
}

/// One column of a preset's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Clause {
    /// What is done.
    pub access: Access,
    /// Where; none for what has no place.
    pub location: Option<Location>,
    /// What the preset says about it.
    pub verb: Cell,
}

/// A preset's row, column by column, read from the table.
pub fn clauses(preset: Option<Preset>) -> [Clause; 8] {
    use Location::{Elsewhere, WorkingDirectory};

    [
        (Access::Read, Some(WorkingDirectory)),
        (Access::Read, Some(Elsewhere)),
        (Access::Write, Some(WorkingDirectory)),
        (Access::Write, Some(Elsewhere)),
        (Access::Execute, None),
        (Access::Network, None),
        (Access::None, None),
        (Access::Unclassified, None),
    ]
    .map(|(access, location)| Clause {
        access,
        location,
        verb: cell(preset, access, location.unwrap_or(Elsewhere)),
    })
}
