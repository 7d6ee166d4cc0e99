//! Random path patterns, as structures: written down for the gate, compared as they are by the scan.

use runcontext::paths::PathStyle;

use crate::{
    paths::{Path, folded, names, pick, roots},
    random::Random,
    scan::Call,
};

#[derive(Clone, Debug)]
pub enum Anchor {
    Root(String),
    /// A leading slash where roots have names.
    AnyRoot,
    Relative,
}

#[derive(Clone, Debug)]
pub enum End {
    Itself,
    Below,
    Beginning(String),
}

#[derive(Clone, Debug)]
pub struct Pattern {
    pub anchor: Anchor,
    pub names: Vec<String>,
    pub end: End,
}

impl Pattern {
    pub fn random(random: &mut Random, style: PathStyle) -> Self {
        let windows = style == PathStyle::Windows;
        let anchor = match random.below(if windows { 4 } else { 3 }) {
            0 => Anchor::Root(pick(random, roots(style)).to_owned()),
            1 | 2 => Anchor::Relative,
            _ => Anchor::AnyRoot,
        };
        let relative = matches!(anchor, Anchor::Relative);
        let mut names = names(random, 3);
        let end = match random.below(3) {
            0 => {
                if names.is_empty() {
                    names.push("a".to_owned());
                }
                // A star that is not at the end is a character like any other.
                if !windows && random.one_in(9) {
                    names.push("a*b".to_owned());
                }
                End::Itself
            }
            1 => End::Below,
            _ => {
                let stem = pick(
                    random,
                    &["a", "ab", "s", "\u{17f}", "K", "\u{e9}", "E\u{301}", "x", ""],
                );
                // Nothing and a star behind a slash is everything below.
                let stem = if stem.is_empty() && !(relative && names.is_empty()) {
                    "a"
                } else {
                    stem
                };
                End::Beginning(stem.to_owned())
            }
        };
        Self { anchor, names, end }
    }

    /// One that speaks of the path of a call, or nearly does.
    pub fn near(random: &mut Random, style: PathStyle, call: &Call) -> Self {
        let path = match (&call.canonical, random.one_in(3)) {
            (Some(canonical), false) => canonical,
            _ => &call.lexical,
        };
        let roots = [&call.workspace.0, &call.directory.0].into_iter();
        let roots: Vec<&Path> = roots.chain(&call.workspace.1).chain(&call.directory.1).collect();
        let behind: Vec<&[String]> = roots.iter().filter_map(|root| path.behind(root)).collect();
        let (anchor, names) = match behind.first() {
            Some(_) if random.one_in(2) => (Anchor::Relative, behind[random.below(behind.len())]),
            _ if style == PathStyle::Windows && random.one_in(2) => (Anchor::AnyRoot, &path.names[..]),
            _ => (Anchor::Root(path.root.clone()), &path.names[..]),
        };
        let mut names = names.to_vec();
        // Another case, which is the same name for some rules.
        for name in &mut names {
            if random.one_in(6) {
                *name = name.to_ascii_uppercase();
            }
        }
        let end = match (random.below(3), names.pop()) {
            (0, Some(last)) => {
                names.push(last);
                End::Itself
            }
            (1, Some(last)) => {
                let letters: Vec<char> = last.chars().collect();
                End::Beginning(letters[..=random.below(letters.len())].iter().collect())
            }
            (_, last) => {
                names.extend(last);
                names.truncate(random.below(names.len() + 1));
                End::Below
            }
        };
        Self { anchor, names, end }
    }

    pub fn text(&self, random: &mut Random, style: PathStyle) -> String {
        let mut slash = || {
            if style == PathStyle::Windows && random.one_in(2) {
                "\\"
            } else {
                "/"
            }
        };
        let mut text = match &self.anchor {
            Anchor::Root(root) => root.clone(),
            Anchor::AnyRoot => slash().to_owned(),
            Anchor::Relative => String::new(),
        };
        for (at, name) in self.names.iter().enumerate() {
            if at > 0 {
                text.push_str(slash());
            }
            text.push_str(name);
        }
        let bare = self.names.is_empty();
        match &self.end {
            End::Itself => {}
            End::Below if bare => text.push_str(if matches!(self.anchor, Anchor::Relative) {
                "**"
            } else {
                "*"
            }),
            End::Below => {
                text.push_str(slash());
                text.push_str(["", "*", "**"][random.below(3)]);
            }
            End::Beginning(stem) => {
                if !bare {
                    text.push_str(slash());
                }
                text.push_str(stem);
                text.push('*');
            }
        }
        // A drive is one drive, however it is written.
        if text.starts_with("C:") && random.one_in(3) {
            text.replace_range(..1, "c");
        }
        text
    }

    pub fn folded(&self) -> Self {
        Self {
            anchor: match &self.anchor {
                Anchor::Root(root) => Anchor::Root(folded(root)),
                other => other.clone(),
            },
            names: self.names.iter().map(|name| folded(name)).collect(),
            end: match &self.end {
                End::Beginning(stem) => End::Beginning(folded(stem)),
                other => other.clone(),
            },
        }
    }

    /// Whether it speaks of a path, `names` being those behind where it counts from.
    pub fn meets(&self, names: &[String], tree: bool) -> bool {
        let rest = names.strip_prefix(&self.names[..]);
        let itself = match (&self.end, rest) {
            (_, None) => false,
            (End::Itself, Some(rest)) => rest.is_empty(),
            (End::Below, Some(_)) => true,
            (End::Beginning(stem), Some(rest)) => matches!(rest, [name] if name.starts_with(stem.as_str())),
        };
        // Something below the path may be spoken of.
        itself || tree && self.names.starts_with(names)
    }

    pub fn speaks_of(&self, path: &Path, roots: &[&Path], tree: bool) -> bool {
        match &self.anchor {
            Anchor::Root(root) => *root == path.root && self.meets(&path.names, tree),
            Anchor::AnyRoot => self.meets(&path.names, tree),
            Anchor::Relative => roots.iter().any(|root| match path.behind(root) {
                Some(names) => self.meets(names, tree),
                None => tree && root.behind(path).is_some(),
            }),
        }
    }

    pub fn kind(&self) -> String {
        let anchor = match &self.anchor {
            Anchor::Root(_) => "absolute",
            Anchor::AnyRoot => "any drive",
            Anchor::Relative => "relative",
        };
        let end = match &self.end {
            End::Itself => "exact",
            End::Below => "tree",
            End::Beginning(_) => "prefix",
        };
        format!("{anchor} {end}")
    }
}
