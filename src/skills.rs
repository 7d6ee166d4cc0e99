//! Skills: `SKILL.md` files, the catalogue that holds them, the ways to choose one, and how chosen ones are shown.

mod catalog;
mod diagnostic;
mod field;
mod frontmatter;
mod manifest;
mod mention;
mod offer;
mod render;
mod repair;
mod select;
mod yaml;

pub use catalog::{Catalog, SkillEntry, SkillStatus, check_scope, skill_id};
pub use diagnostic::{Diagnostic, DiagnosticCode, Severity};
pub use manifest::{ParseOutcome, ParsedSkill, parse_skill, parse_skill_bytes, revision};
pub use mention::{Mention, MentionNotice, MentionNoticeCode, MentionScan, Mentionable, find_mentions};
pub use offer::{LOAD_SKILL, skills_section};
pub use render::{RenderedSkills, Span, render_skills, skill_spans};
pub use select::{hidden, named, not_loaded, select, unavailable};
pub(crate) use yaml::configuration;
