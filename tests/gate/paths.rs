//! Random absolute paths, as structures. What folding does to their names is written down here once more.

use runcontext::paths::PathStyle;

use crate::random::Random;

/// An absolute path: where it starts, and the names below.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    pub root: String,
    pub names: Vec<String>,
}

/// Names that differ, and names that only fold makes alike.
pub const NAMES: [&str; 14] = [
    "a",
    "b",
    "A",
    "ab",
    "abc",
    "s",
    "\u{17f}",
    "k",
    "\u{212a}b",
    "\u{e9}",
    "e\u{301}",
    "\u{c9}a",
    "x y",
    "ws",
];

/// The two names of one folded name, for the letters of [`NAMES`] alone.
pub fn folded(name: &str) -> String {
    let name = name.replace("e\u{301}", "\u{e9}").replace("E\u{301}", "\u{e9}");
    let letters = name.chars().map(|letter| match letter {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        '\u{c9}' => '\u{e9}',
        letter => letter.to_ascii_lowercase(),
    });
    letters.collect()
}

pub fn roots(style: PathStyle) -> &'static [&'static str] {
    match style {
        PathStyle::Posix => &["/"],
        PathStyle::Windows => &["C:\\", "D:\\", "\\\\srv\\share\\"],
    }
}

pub fn names(random: &mut Random, most: usize) -> Vec<String> {
    (0..random.below(most + 1))
        .map(|_| pick(random, &NAMES).to_owned())
        .collect()
}

pub fn pick<'a>(random: &mut Random, from: &[&'a str]) -> &'a str {
    from[random.below(from.len())]
}

impl Path {
    pub fn random(random: &mut Random, style: PathStyle, most: usize) -> Self {
        let root = if random.one_in(4) {
            pick(random, roots(style))
        } else {
            roots(style)[0]
        };
        Self {
            root: root.to_owned(),
            names: names(random, most),
        }
    }

    pub fn below(&self, more: Vec<String>) -> Self {
        Self {
            root: self.root.clone(),
            names: [self.names.clone(), more].concat(),
        }
    }

    pub fn text(&self, style: PathStyle) -> String {
        let separator = if style == PathStyle::Windows { "\\" } else { "/" };
        format!("{}{}", self.root, self.names.join(separator))
    }

    /// With everything folded.
    pub fn folded(&self) -> Self {
        Self {
            root: folded(&self.root),
            names: self.names.iter().map(|name| folded(name)).collect(),
        }
    }

    /// The names behind a directory.
    pub fn behind(&self, directory: &Path) -> Option<&[String]> {
        let rest = self.names.strip_prefix(&directory.names[..])?;
        (self.root == directory.root).then_some(rest)
    }
}
