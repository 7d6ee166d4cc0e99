//! Project instruction files as one section.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::untyped::{self, FromJson, ToJson};
use crate::{
    Result,
    list::{Listed, joined},
    untyped::Reader,
};

/// A file with instructions for the project, as it was when the session was created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(target_family = "wasm", derive(tsify::Tsify))]
pub struct InstructionFile {
    /// Where it is, as shown to the model.
    pub path: String,
    /// Its text.
    pub content: String,
}

impl FromJson for InstructionFile {
    fn from_json(value: &Value, path: &str) -> Result<Self> {
        let mut file = Reader::new(value, path);
        let read = Self {
            path: file.read("path"),
            content: file.read("content"),
        };
        file.finish(read)
    }
}

impl ToJson for InstructionFile {
    fn to_json(&self) -> Value {
        untyped::to_object(&[("path", &self.path), ("content", &self.content)])
    }
}

/// The content of the `project_instructions` section: for each file, in the given order, `# <path>`, a blank line and
/// the text as it is; joined by a blank line. Blank files are left out.
pub fn project_instructions_body(files: &[InstructionFile]) -> String {
    let files: Vec<String> = files
        .iter()
        .filter(|file| !file.content.trim().is_empty())
        .map(|file| format!("# {}\n\n{}", file.path, file.content))
        .listed();
    joined(&files, "\n\n")
}
