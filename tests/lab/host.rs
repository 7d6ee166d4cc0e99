//! A host's file system that is made of a table, does as it is told, and counts.

use std::{
    cell::RefCell,
    collections::{BTreeMap, VecDeque},
};

use runcontext::{
    paths::{AbsolutePath, PathStyle},
    permissions::ResolvedPath,
    runtime::{Host, Signal},
    storage::LocalFuture,
};

/// What a host answers.
#[derive(Clone, Debug)]
pub enum Says {
    /// Where the paths lead.
    TheTruth,
    /// It fails.
    Failure,
    /// Only the first of the answers.
    Only(usize),
    /// This, where the truth would be, for every path or for one of them.
    Instead(ResolvedPath, Option<usize>),
    /// Nothing, until the signal fires; then the truth.
    Later(Signal),
}

/// The file system.
#[derive(Default)]
pub struct TestHost {
    links: RefCell<BTreeMap<String, String>>,
    says: RefCell<VecDeque<Says>>,
    always: RefCell<Option<Says>>,
    asked: RefCell<Vec<(String, Vec<String>)>>,
    root: RefCell<Option<String>>,
}

impl TestHost {
    /// With this workspace root.
    pub fn at(root: &str) -> Self {
        let host = Self::default();
        *host.root.borrow_mut() = Some(root.to_owned());
        host
    }

    /// A link from an absolute path to another.
    pub fn link(&self, from: &str, to: &str) {
        self.links.borrow_mut().insert(from.to_owned(), to.to_owned());
    }

    /// What it answers the next time.
    pub fn once(&self, says: Says) {
        self.says.borrow_mut().push_back(says);
    }

    /// What it answers from now on.
    pub fn always(&self, says: Says) {
        *self.always.borrow_mut() = Some(says);
    }

    /// What it was asked since the last look: bases and paths.
    pub fn asked(&self) -> Vec<(String, Vec<String>)> {
        std::mem::take(&mut *self.asked.borrow_mut())
    }

    fn truth(&self, base: &str, path: &str) -> ResolvedPath {
        let base = AbsolutePath::parse(PathStyle::Posix, base).expect("the base is absolute");
        let path = base.join(path).text();
        let links = self.links.borrow();
        let link = links.iter().find_map(|(from, to)| {
            let rest = path.strip_prefix(from.as_str())?;
            (rest.is_empty() || rest.starts_with('/')).then(|| format!("{to}{rest}"))
        });
        ResolvedPath::Canonical(link.unwrap_or(path))
    }
}

impl Host for TestHost {
    fn path_style(&self) -> PathStyle {
        PathStyle::Posix
    }

    fn workspace_root(&self) -> Option<String> {
        self.root.borrow().clone()
    }

    fn resolve(
        &self,
        base: String,
        paths: Vec<String>,
    ) -> LocalFuture<'_, Result<Vec<ResolvedPath>, String>> {
        self.asked.borrow_mut().push((base.clone(), paths.clone()));
        let once = self.says.borrow_mut().pop_front();
        let says = once.or_else(|| self.always.borrow().clone());
        Box::pin(async move {
            let mut answers: Vec<ResolvedPath> = paths.iter().map(|path| self.truth(&base, path)).collect();
            match says.unwrap_or(Says::TheTruth) {
                Says::TheTruth => {}
                Says::Failure => return Err("the disk is gone".to_owned()),
                Says::Only(count) => answers.truncate(count),
                Says::Instead(answer, Some(at)) => answers
                    .iter_mut()
                    .skip(at)
                    .take(1)
                    .for_each(|it| *it = answer.clone()),
                Says::Instead(answer, None) => answers.fill(answer),
                Says::Later(signal) => signal.fired().await,
            }
            Ok(answers)
        })
    }
}
