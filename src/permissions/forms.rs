//! One path as the patterns of rules see it.

use std::borrow::Cow;

use crate::paths::{AbsolutePath, Fold, is_in};

/// Directories that relative patterns count from, in the form in which paths are compared with them; each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Roots(Vec<String>);

/// The workspace root and the working directory, each by name and in truth.
const MOST: usize = 4;

impl Roots {
    pub(super) fn new<'a>(roots: impl IntoIterator<Item = &'a AbsolutePath>, fold: Option<Fold>) -> Self {
        let mut all = Vec::new();
        for root in roots.into_iter().take(MOST) {
            let root = form(root.key(), fold).into_owned();
            if !all.contains(&root) {
                all.push(root);
            }
        }
        Self(all)
    }
}

/// A text as it is compared: folded, where there is something to fold it with.
fn form(key: &str, fold: Option<Fold>) -> Cow<'_, str> {
    let as_it_is = |byte: u8| byte.is_ascii() && !byte.is_ascii_uppercase();
    match fold {
        // Most paths are lower case already.
        Some(fold) if !key.bytes().all(as_it_is) => Cow::Owned(fold(key)),
        _ => Cow::Borrowed(key),
    }
}

/// One path as patterns see it.
#[derive(Debug)]
pub(super) struct Forms<'f> {
    /// The whole, for absolute patterns.
    absolute: Cow<'f, str>,
    /// Where its root ends.
    root: usize,
    /// For each root that relative patterns count from, where in the whole stands what is behind it.
    behind: [Option<usize>; MOST],
    roots: &'f Roots,
}

impl<'f> Forms<'f> {
    /// The forms of a path, against these roots.
    pub(super) fn new(path: &'f AbsolutePath, roots: &'f Roots, fold: Option<Fold>) -> Self {
        let absolute = form(path.key(), fold);
        let mut behind = [None; MOST];
        for (behind, root) in behind.iter_mut().zip(&roots.0) {
            *behind = is_in(&absolute, root).then_some(root.len());
        }
        Self {
            root: form(path.root_key(), fold).len(),
            absolute,
            behind,
            roots,
        }
    }

    /// The whole.
    pub(super) fn absolute(&self) -> &str {
        &self.absolute
    }

    /// What stands behind the roots, where the path is below one; `""` for the root itself.
    pub(super) fn relative(&self) -> impl Iterator<Item = &str> {
        let starts = self.behind.iter().flatten();
        starts.filter_map(|start| self.absolute.get(*start..))
    }

    /// The longest of those: the others are its ends.
    pub(super) fn longest_relative(&self) -> Option<&str> {
        let start = self.behind.iter().flatten().min()?;
        self.absolute.get(*start..)
    }

    /// What stands behind the root of its drive or share.
    pub(super) fn behind_root(&self) -> &str {
        self.absolute.get(self.root..).unwrap_or_default()
    }

    /// Whether one of the roots is in it.
    pub(super) fn holds_a_root(&self) -> bool {
        self.roots.0.iter().any(|root| is_in(root, &self.absolute))
    }
}
