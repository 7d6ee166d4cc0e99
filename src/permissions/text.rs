//! The `<permissions>` text: the preset's clauses in plain English, and never more than they give.

use super::preset::{Access, Cell, Clause, Location, Preset, clauses};
use crate::{
    list::{Listed, joined},
    run_context::RunContext,
};

/// What a floor, a grant and the memory directory give. A rule that denies and a locked rule that asks stand above them.
const UNLESS: &str = "unless a rule forbids it or insists on asking";

/// What a grant that is no absolute path does not give.
const GRANTS: &str = "though a relative grant not through a link, ";

/// Ends the text while older permission statements are still shown to the model as messages.
pub(crate) const REPLACES: &str =
    "These permissions replace every earlier statement about permissions in this conversation.";

/// The body of the `permissions` section. It depends on nothing but the arguments.
///
/// `working_directory` is the effective one; it is shown on one line whatever it holds, like what the run context grants. With
/// `replaces_legacy`, the text ends with one fixed line that says that it replaces every earlier statement about permissions: older
/// sessions made such statements as messages.
pub fn permissions_text(
    preset: Option<Preset>,
    working_directory: &str,
    run_context: Option<&RunContext>,
    replaces_legacy: bool,
) -> String {
    let clauses = clauses(preset);
    let mut text = String::new();
    let mut line = |parts: &[&str]| {
        if !text.is_empty() {
            text.push('\n');
        }
        for part in parts {
            text.push_str(part);
        }
    };
    match preset {
        Some(preset) => line(&["Permission preset: ", preset.as_str(), "."]),
        None => line(&["No permission preset is set: the rules and the grants below decide each call."]),
    }
    if !working_directory.is_empty() {
        line(&["Working directory: ", &one_line(working_directory)]);
    }
    line(&[
        "`memory/` in the workspace root may be read and written, though not through a link, ",
        UNLESS,
        ".",
    ]);
    if let Some(context) = run_context {
        if let Some(group) = context.tool_group_id() {
            line(&["Permission group: ", &one_line(group)]);
        }
        for (what, writes) in [
            ("Granted for reading and writing: ", true),
            ("Granted for reading: ", false),
        ] {
            let entries = context.entries().filter(|(_, write)| *write == writes);
            let entries: Vec<String> = entries.map(|(entry, _)| one_line(entry)).listed();
            if !entries.is_empty() {
                line(&[what, &joined(&entries, ", ")]);
            }
        }
    }
    match preset {
        Some(Preset::ReadOnly) => line(&[
            "The working directory may be read, and what the run context grants for reading, ",
            GRANTS,
            UNLESS,
            "; its grants for writing do not count under this preset.",
        ]),
        _ => line(&[
            "The working directory may be read, and what the run context grants may be read or written as it says, ",
            GRANTS,
            UNLESS,
            ".",
        ]),
    }
    line(&["Apart from that:"]);
    if let Some(what) = list(&clauses, Cell::Allow) {
        line(&["- allowed, ", UNLESS, ": ", &what]);
    }
    if let Some(what) = list(&clauses, Cell::Rules) {
        line(&[
            "- as the rules decide, and asked about where no rule does: ",
            &what,
        ]);
    }
    if let Some(what) = list(&clauses, Cell::AtMostAsk) {
        line(&[
            "- only with a person's approval, whatever the rules allow, and not at all where a rule forbids it: ",
            &what,
        ]);
    }
    let [first, ..] = &clauses;
    if clauses.iter().any(|clause| clause.verb != first.verb) {
        line(&["Elsewhere is everything outside the working directory, inside the workspace root too."]);
    }
    line(&["A path that cannot be resolved is never used without asking."]);
    line(&["Where nobody can be asked, what would be asked about is refused."]);
    line(&[
        "Commands are not inspected: what a command can reach is up to the host's sandbox, not to these permissions.",
    ]);
    if replaces_legacy {
        line(&[REPLACES]);
    }
    text
}

/// The clauses with this verb, in the order of the table; none where there is none.
fn list(clauses: &[Clause], verb: Cell) -> Option<String> {
    let parts: Vec<&str> = clauses
        .iter()
        .filter(|clause| clause.verb == verb)
        .map(phrase)
        .listed();
    match parts.len() {
        0 => None,
        all if all == clauses.len() => Some("everything".to_owned()),
        _ => Some(joined(&parts, "; ")),
    }
}

fn phrase(clause: &Clause) -> &'static str {
    match (clause.access, clause.location) {
        (Access::Read, Some(Location::WorkingDirectory)) => "reading files in the working directory",
        (Access::Read, _) => "reading files elsewhere",
        (Access::Write, Some(Location::WorkingDirectory)) => "writing files in the working directory",
        (Access::Write, _) => "writing files elsewhere",
        (Access::Execute, _) => "running commands",
        (Access::Network, _) => "using the network",
        (Access::None, _) => "tools that touch no files, commands or network",
        (Access::Unclassified, _) => "tools that do not say what they touch",
    }
}

/// A path as one line: a directory may be called anything, and must not be able to add a line of permissions.
fn one_line(path: &str) -> String {
    let mut line = String::with_capacity(path.len());
    for c in path.chars() {
        if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') {
            c.escape_unicode().for_each(|part| line.push(part));
        } else {
            line.push(c);
        }
    }
    line
}
