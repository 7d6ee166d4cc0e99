//! Skills.
use crate::context::{LoadedSkill, RuntimeContextSnapshot};

pub struct Rendered {
    pub content: String,
    pub spans: Vec<(u32, u32)>,
}
pub fn render_skills(_skills: &[LoadedSkill]) -> Rendered {
    Rendered {
        content: String::new(),
        spans: Vec::new(),
    }
}
pub fn spans_in(_snapshot: &RuntimeContextSnapshot) -> Vec<(u32, u32)> {
    Vec::new()
}
