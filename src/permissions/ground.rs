//! Where a call is judged: the roots and the grants, by name and as the host resolved them.

use serde_json::Value;

use super::{forms::Roots, gate::Inquiry};
use crate::{
    Result,
    paths::{AbsolutePath, Fold, PathStyle, unsafe_shape},
    run_context::{Grants, grant_path, granted_in},
    untyped::{self, FromJson, field_error},
};

/// Where a session stands in its host's file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub(super) style: PathStyle,
    pub(super) cwd: AbsolutePath,
    pub(super) workspace: String,
}

impl Place {
    /// # Errors
    /// `invalid_argument` where one of them is not absolute.
    pub fn new(style: PathStyle, cwd: &str, workspace_root: Option<&str>) -> Result<Self> {
        let absolute = |path: &str, field: &str| {
            AbsolutePath::parse(style, path)
                .filter(|_| unsafe_shape(style, path).is_none())
                .ok_or_else(|| field_error(field, "must be an absolute path"))
        };
        let cwd = absolute(cwd, "cwd")?;
        let workspace = match workspace_root {
            None => cwd.text(),
            Some(root) => {
                absolute(root, "workspaceRoot")?;
                root.to_owned()
            }
        };
        Ok(Self {
            style,
            cwd,
            workspace,
        })
    }

    /// The root of the host's file system, for a session that has no place.
    pub fn root(style: PathStyle) -> Self {
        let path = match style {
            PathStyle::Posix => "/",
            PathStyle::Windows => "C:\\",
        };
        Self {
            style,
            cwd: AbsolutePath::root(style),
            workspace: path.to_owned(),
        }
    }

    /// How its paths are written.
    pub fn style(&self) -> PathStyle {
        self.style
    }
}

/// A path that the host has to resolve.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Query {
    /// Absolute: what a relative path is relative to.
    pub base: String,
    /// The path.
    pub path: String,
}

/// What a host says of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResolvedPath {
    /// Where it really leads.
    Canonical(String),
    /// Why that is not known.
    Unresolved(String),
}

impl FromJson for ResolvedPath {
    fn from_json(value: &Value, path: &str) -> Result<Self> {
        let object = untyped::object(value, path)?;
        let read = |key: &str| -> Result<Option<String>> { untyped::member(object, path, key) };
        match (read("canonical")?, read("unresolved")?) {
            (Some(canonical), None) => Ok(ResolvedPath::Canonical(canonical)),
            (None, Some(why)) => Ok(ResolvedPath::Unresolved(why)),
            _ => Err(field_error(path, "must have `canonical` or `unresolved`")),
        }
    }
}

/// The same, in the text of whoever gave the answers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Answer<'a> {
    Canonical(&'a str),
    Unresolved(&'a str),
}

impl ResolvedPath {
    pub(super) fn answer(&self) -> Answer<'_> {
        match self {
            ResolvedPath::Canonical(path) => Answer::Canonical(path),
            ResolvedPath::Unresolved(why) => Answer::Unresolved(why),
        }
    }
}

/// A path in both forms.
#[derive(Clone, Debug)]
pub(super) struct Resolved {
    pub lexical: AbsolutePath,
    pub canonical: std::result::Result<AbsolutePath, String>,
}

impl Resolved {
    pub(super) fn new(lexical: AbsolutePath, answer: Option<Answer<'_>>) -> Self {
        let canonical = match answer {
            Some(Answer::Canonical(path)) => lexical
                .canonical(path)
                .ok_or_else(|| "the host gave no canonical path".to_owned()),
            Some(Answer::Unresolved(why)) => Err(why.to_owned()),
            None => Err("the host gave no answer".to_owned()),
        };
        Self { lexical, canonical }
    }

    pub(super) fn canonical(&self) -> Option<&AbsolutePath> {
        self.canonical.as_ref().ok()
    }
}

/// The roots and the grants of an inquiry, after the host was asked. It says the same for every call that is judged by the
/// same place and run context, as long as the host says the same.
#[derive(Clone, Debug)]
pub struct Ground {
    pub(super) workspace: Resolved,
    pub(super) directory: Resolved,
    pub(super) grants: Grants,
    /// What is odd about the grants.
    pub(super) notes: Vec<String>,
    /// The memory directory, by name and in truth.
    memory: Option<[AbsolutePath; 2]>,
    /// The roots in truth, folded: what the canonical form of a path is compared with.
    pub(super) true_roots: Roots,
    /// The same by name too: what its lexical form is compared with.
    pub(super) all_roots: Roots,
    /// Whether both are the same.
    pub(super) no_link: bool,
    /// The workspace root as it is: what `allow` counts from.
    pub(super) exact_root: Roots,
}

impl Ground {
    /// `answers` are those to [`Inquiry::standing`], in order; one that is missing is unresolved.
    pub(super) fn new<'a>(
        inquiry: &Inquiry,
        fold: Fold,
        answers: &mut dyn Iterator<Item = Answer<'a>>,
    ) -> Self {
        let place = &inquiry.place;
        let named = inquiry.named_directory();
        let workspace = Resolved::new(place.cwd.join(&place.workspace), answers.next());
        let directory = Resolved::new(named, answers.next());
        let (mut grants, mut notes) = (Grants::default(), Vec::new());
        for (entry, write) in inquiry.run_context.iter().flat_map(|context| context.entries()) {
            let bare = grant_path(place.style, entry);
            let grant = Resolved::new(directory.lexical.join(bare), answers.next());
            let Ok(canonical) = grant.canonical else { continue };
            if AbsolutePath::parse(place.style, bare).is_none() {
                let own = directory
                    .canonical()
                    .and_then(|directory| granted_in(directory, place.style, bare));
                if own.as_ref() != Some(&canonical) {
                    notes.push(format!("grant_through_link: `{entry}` opens nothing"));
                    continue;
                }
            }
            let list = if write {
                &mut grants.writes
            } else {
                &mut grants.reads
            };
            list.push(canonical);
        }
        // The working directory may be read, with or without a run context.
        grants.reads.extend(directory.canonical().cloned());
        let roots = [
            Some(&workspace.lexical),
            workspace.canonical(),
            Some(&directory.lexical),
            directory.canonical(),
        ];
        let all_roots = Roots::new(roots.into_iter().flatten(), Some(fold));
        let true_roots = [workspace.canonical(), directory.canonical()];
        let true_roots = Roots::new(true_roots.into_iter().flatten(), Some(fold));
        Self {
            memory: workspace
                .canonical()
                .map(|root| [workspace.lexical.join("memory"), root.join("memory")]),
            no_link: true_roots == all_roots,
            true_roots,
            all_roots,
            exact_root: Roots::new(workspace.canonical(), None),
            workspace,
            directory,
            grants,
            notes,
        }
    }

    /// Which root is not known, and why.
    pub(super) fn unresolved(&self) -> Option<String> {
        let roots = [&self.workspace, &self.directory];
        let why = |root: &Resolved| {
            let why = root.canonical.as_ref().err()?;
            Some(format!("the root `{}`: {why}", root.lexical.text()))
        };
        roots.into_iter().find_map(why)
    }

    /// Whether a path is in the memory directory, by name and in truth: never through a link.
    pub(super) fn is_memory(&self, canonical: &AbsolutePath, lexical: &AbsolutePath) -> bool {
        let Some([named, memory]) = &self.memory else {
            return false;
        };
        (lexical.is_in(memory) || lexical.is_in(named)) && canonical.is_in(memory)
    }
}
