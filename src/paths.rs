//! Paths as text: shape, lexical normal form, containment, comparison. Nothing here asks a file system.
//!
//! Inside the core a path is a key: segments behind `/`, without `.`, `..` or an end slash, in front of them the root
//! (nothing on posix, `C:` or `//server/share` on windows). So one comparison of texts answers what is inside what.

use serde_json::Value;

use crate::{
    Result,
    list::joined,
    untyped::{FromJson, one_of},
};

/// How a host writes paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PathStyle {
    /// `/a/b`; everything but `/` and NUL may stand in a name.
    #[default]
    Posix,
    /// `C:\a\b` and `\\server\share\a`; `/` separates too.
    Windows,
}

impl FromJson for PathStyle {
    fn from_json(value: &Value, path: &str) -> Result<Self> {
        one_of(
            value,
            path,
            &[("posix", PathStyle::Posix), ("windows", PathStyle::Windows)],
        )
    }
}

/// Text in the form in which names are compared where a difference must not open anything: NFC, upper case, lower case,
/// NFC. It is handed in, because a browser has it and a module would have to bring the tables.
pub type Fold = fn(&str) -> String;

/// [`Fold`] outside a browser.
#[cfg(not(target_family = "wasm"))]
pub fn fold(text: &str) -> String {
    use unicode_normalization::UnicodeNormalization;

    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    let composed: String = text.nfc().collect();
    let folded: String = composed.to_uppercase().to_lowercase().nfc().collect();
    // Which sigma a name ends with depends on what comes behind it: for the beginning of a name nobody knows.
    folded.replace('\u{3c2}', "\u{3c3}")
}

/// An absolute path in lexical normal form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbsolutePath {
    style: PathStyle,
    key: String,
    /// Where the root ends in `key`.
    root: usize,
}

impl AbsolutePath {
    /// Reads an absolute path; none where it is relative, or absolute only by a drive that it does not name.
    pub fn parse(style: PathStyle, path: &str) -> Option<Self> {
        let (root, rest) = root_of(style, path)?;
        let mut absolute = Self {
            style,
            root: root.len(),
            key: root,
        };
        absolute.key.reserve(rest.len() + 1);
        absolute.walk(rest);
        Some(absolute)
    }

    /// The root of a file system; on windows that of the first drive.
    pub(crate) fn root(style: PathStyle) -> Self {
        let key = match style {
            PathStyle::Posix => String::new(),
            PathStyle::Windows => "C:".to_owned(),
        };
        Self {
            style,
            root: key.len(),
            key,
        }
    }

    /// Reads what a host calls canonical: absolute, with nothing in it that would have to be resolved.
    pub fn parse_canonical(style: PathStyle, path: &str) -> Option<Self> {
        let absolute = Self::parse(style, path)?;
        let odd = |segment: &str| matches!(segment, "." | "..");
        let plain = absolute.key == path || !segments(style, path).any(odd);
        (plain && !path.as_bytes().contains(&0)).then_some(absolute)
    }

    /// The same for what a host calls the canonical form of this path. Mostly it is the path, and then there is nothing to read.
    pub(crate) fn canonical(&self, path: &str) -> Option<Self> {
        // The key of a root is no path.
        if self.key == path && !self.is_root() && !path.as_bytes().contains(&0) {
            return Some(self.clone());
        }
        Self::parse_canonical(self.style, path)
    }

    /// The path that another one names here, by text alone.
    pub fn join(&self, path: &str) -> Self {
        if let Some(absolute) = Self::parse(self.style, path) {
            return absolute;
        }
        // A path behind a separator is on the drive or share that this one is on.
        let rooted = path.starts_with(is_separator(self.style));
        let kept = if rooted { self.root_key() } else { &self.key };
        let mut key = String::with_capacity(kept.len() + path.len() + 1);
        key.push_str(kept);
        let mut joined = Self { key, ..*self };
        joined.walk(path);
        joined
    }

    fn walk(&mut self, path: &str) {
        for segment in segments(self.style, path) {
            match segment {
                "" | "." => {}
                ".." => {
                    let end = self.key.rfind('/').unwrap_or_default().max(self.root);
                    self.key.truncate(end);
                }
                _ => {
                    self.key.push('/');
                    self.key.push_str(segment);
                }
            }
        }
    }

    /// The path that lies below another directory as this one lies below its own; none where it does not.
    pub(crate) fn moved(&self, from: &Self, to: &Self) -> Option<Self> {
        let rest = below(&self.key, &from.key)?;
        Some(to.join(rest))
    }

    /// The form that is compared.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The form of its root.
    pub(crate) fn root_key(&self) -> &str {
        self.key.get(..self.root).unwrap_or_default()
    }

    /// Whether it is the root of a file system, a drive or a share.
    pub fn is_root(&self) -> bool {
        self.key.len() == self.root
    }

    /// Whether it is this directory or below it, exactly as written.
    pub fn is_in(&self, directory: &Self) -> bool {
        is_in(&self.key, &directory.key)
    }

    /// The path as its host writes it.
    pub fn text(&self) -> String {
        let text = if self.is_root() {
            format!("{}/", self.key)
        } else {
            self.key.clone()
        };
        match self.style {
            PathStyle::Posix => text,
            PathStyle::Windows => text.replace('/', "\\"),
        }
    }
}

/// A path as an absolute one, otherwise as it is written.
pub(crate) fn within(style: PathStyle, base: &str, path: &str) -> String {
    if AbsolutePath::parse(style, path).is_some() {
        return path.to_owned();
    }
    if style == PathStyle::Windows && path.starts_with(is_separator(style)) {
        // On the drive or share that the base is on, as `join` says too.
        let root = AbsolutePath::parse(style, base).map(|base| base.root_key().replace('/', "\\"));
        return joined(&[root.as_deref().unwrap_or_default(), path], "");
    }
    let separator = match style {
        _ if base.ends_with(is_separator(style)) => "",
        PathStyle::Posix => "/",
        PathStyle::Windows => "\\",
    };
    joined(&[base, separator, path], "")
}

/// Whether a key is that of a directory or of something below it.
pub(crate) fn is_in(key: &str, directory: &str) -> bool {
    below(key, directory).is_some()
}

/// What a key says behind that of a directory: nothing for the directory itself.
pub(crate) fn below<'a>(key: &'a str, directory: &str) -> Option<&'a str> {
    let rest = key.strip_prefix(directory)?;
    if rest.is_empty() {
        return Some(rest);
    }
    rest.strip_prefix('/')
}

/// The segments of a relative path or pattern in normal form, without those that change nothing; none where one is `..`.
pub(crate) fn relative_key(style: PathStyle, path: &str) -> Option<String> {
    let mut names = Vec::new();
    for segment in segments(style, path) {
        match segment {
            "" | "." => {}
            ".." => return None,
            _ => names.push(segment),
        }
    }
    Some(joined(&names, "/"))
}

fn is_separator(style: PathStyle) -> fn(char) -> bool {
    match style {
        PathStyle::Posix => |c| c == '/',
        PathStyle::Windows => |c| c == '/' || c == '\\',
    }
}

/// What stands between the separators of a path, empty where two stand together.
pub(crate) struct Segments<'p> {
    style: PathStyle,
    rest: Option<&'p str>,
}

pub(crate) fn segments(style: PathStyle, path: &str) -> Segments<'_> {
    Segments {
        style,
        rest: Some(path),
    }
}

impl<'p> Iterator for Segments<'p> {
    type Item = &'p str;

    fn next(&mut self) -> Option<&'p str> {
        let path = self.rest?;
        // Bytes are enough: a separator is never a part of another character. Those of the slice: `bytes()` calls for each.
        let separates = |byte: &u8| *byte == b'/' || *byte == b'\\' && self.style == PathStyle::Windows;
        let end = path.as_bytes().iter().position(separates);
        self.rest = end.and_then(|end| path.get(end + 1..));
        path.get(..end.unwrap_or(path.len()))
    }
}

/// The root of an absolute path, and what stands behind it.
fn root_of(style: PathStyle, path: &str) -> Option<(String, &str)> {
    let separator = is_separator(style);
    if style == PathStyle::Posix {
        return path.starts_with('/').then(|| (String::new(), path));
    }
    if let Some(share) = path
        .strip_prefix(separator)
        .and_then(|rest| rest.strip_prefix(separator))
    {
        let (server, rest) = share.split_once(separator).unwrap_or((share, ""));
        let (share, rest) = rest.split_once(separator).unwrap_or((rest, ""));
        return Some((format!("//{server}/{share}"), rest));
    }
    let mut chars = path.chars();
    let (drive, colon) = (chars.next()?, chars.next()?);
    let rest = chars.as_str();
    (drive.is_ascii_alphabetic() && colon == ':' && rest.starts_with(separator))
        .then(|| (format!("{}:", drive.to_ascii_uppercase()), rest))
}

/// Why a path may mean something else to the file system than it says; none where it is what it seems.
pub fn unsafe_shape(style: PathStyle, path: &str) -> Option<&'static str> {
    if path.as_bytes().contains(&0) {
        return Some("it holds a NUL character");
    }
    if style == PathStyle::Posix {
        return None;
    }
    let separator = is_separator(style);
    let share = path
        .strip_prefix(separator)
        .and_then(|rest| rest.strip_prefix(separator));
    let first = |rest: &str, names: &[&str]| {
        segments(style, rest)
            .next()
            .is_some_and(|name| names.contains(&name))
    };
    // `\\?\`, `\\.\`, and `\??\`, as the system itself writes the first.
    if share.is_some_and(|rest| first(rest, &["?", ".", "??"]))
        || path
            .strip_prefix(separator)
            .is_some_and(|rest| first(rest, &["??"]))
    {
        return Some("it is a device path");
    }
    let mut rest = path;
    if let Some((drive, behind)) = path.split_once(':')
        && drive.len() == 1
        && drive.starts_with(|c: char| c.is_ascii_alphabetic())
    {
        if !behind.starts_with(separator) {
            return Some("it is relative to a drive's own directory");
        }
        rest = behind;
    }
    segments(style, rest).find_map(unsafe_segment)
}

fn unsafe_segment(segment: &str) -> Option<&'static str> {
    if matches!(segment, "" | "." | "..") {
        return None;
    }
    if segment.contains(':') {
        return Some("it names a stream of a file");
    }
    if segment.ends_with(['.', ' ']) {
        return Some("a name ends with a dot or a blank");
    }
    let stem = stem(segment);
    if is_device(stem) {
        return Some("it names a device");
    }
    ends_in_number(stem).then_some("it may be a short name for another one")
}

fn stem(segment: &str) -> &str {
    let stem = segment.split('.').next().unwrap_or_default();
    stem.trim_end_matches(' ')
}

fn ends_in_number(stem: &str) -> bool {
    stem.rsplit_once('~')
        .is_some_and(|(_, number)| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether a text, were it a path, may name something by a short name: at most eight characters, and no blank among them.
pub(crate) fn may_hold_short_name(style: PathStyle, text: &str) -> bool {
    let is_short = |segment: &str| {
        let stem = stem(segment);
        ends_in_number(stem) && stem.chars().nth(8).is_none() && !stem.contains(' ')
    };
    style == PathStyle::Windows && text.split(['/', '\\', ':']).any(is_short)
}

fn is_device(stem: &str) -> bool {
    const DEVICES: [&str; 6] = ["con", "prn", "aux", "nul", "conin$", "conout$"];
    let stem = stem.to_ascii_lowercase();
    if DEVICES.contains(&stem.as_str()) {
        return true;
    }
    let port = stem.strip_prefix("com").or_else(|| stem.strip_prefix("lpt"));
    port.is_some_and(|port| {
        let mut chars = port.chars();
        matches!(chars.next(), Some('0'..='9' | '\u{b9}' | '\u{b2}' | '\u{b3}')) && chars.next().is_none()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(style: PathStyle, base: &str, path: &str) -> String {
        AbsolutePath::parse(style, base).unwrap().join(path).key
    }

    #[test]
    fn posix_paths_are_joined_by_text_alone() {
        use PathStyle::Posix;
        for (path, expected) in [
            ("", "/w"),
            (".", "/w"),
            ("a//b/./c", "/w/a/b/c"),
            ("../x", "/x"),
            ("../../../x", "/x"),
            ("/x/../..", ""),
            ("a\\..\\b", "/w/a\\..\\b"),
            ("~", "/w/~"),
            ("file:///x", "/w/file:/x"),
            ("%2e%2e/x", "/w/%2e%2e/x"),
            ("C:x", "/w/C:x"),
        ] {
            assert_eq!(key(Posix, "/w", path), expected, "{path}");
        }
    }

    #[test]
    fn windows_paths_are_joined_by_text_alone() {
        use PathStyle::Windows;
        for (path, expected) in [
            ("a/b\\c", "C:/w/a/b/c"),
            ("..\\..\\..\\x", "C:/x"),
            ("d:\\x", "D:/x"),
            ("\\x", "C:/x"),
            ("/c/x", "C:/c/x"),
            ("\\\\server\\share\\a\\..\\..\\b", "//server/share/b"),
        ] {
            assert_eq!(key(Windows, "c:\\w", path), expected, "{path}");
        }
        assert_eq!(
            AbsolutePath::parse(Windows, "\\\\s\\h")
                .unwrap()
                .join("\\x")
                .text(),
            "\\\\s\\h\\x"
        );
    }

    #[test]
    fn a_canonical_form_is_read_alike_whether_or_not_it_is_the_path_itself() {
        use PathStyle::{Posix, Windows};
        for (style, path, canonical, expected) in [
            (Posix, "/w/a", "/w/a", Some("/w/a")),
            (Posix, "/w/a", "/x/b", Some("/x/b")),
            (Posix, "/w/a", "/w/./a", None),
            (Posix, "/w/a", "w/a", None),
            (Posix, "/w/a\0", "/w/a\0", None),
            (Posix, "/", "/", Some("")),
            (Posix, "/", "", None),
            (Windows, "C:\\w", "C:\\w", Some("C:/w")),
            (Windows, "C:\\w", "C:/w", Some("C:/w")),
            (Windows, "C:\\", "C:", None),
            (Windows, "\\\\s\\h\\x", "//s/h/x", Some("//s/h/x")),
        ] {
            let path = AbsolutePath::parse(style, path).unwrap();
            let read = path.canonical(canonical);
            assert_eq!(read.as_ref().map(AbsolutePath::key), expected, "{canonical}");
            assert!(
                read.is_none_or(|read| read.root_key() == path.root_key()),
                "{canonical}"
            );
        }
    }

    #[test]
    fn a_directory_holds_itself_and_whole_names_below_it() {
        assert!(is_in("/w", "/w"));
        assert!(is_in("/w/a", "/w"));
        assert!(!is_in("/wa", "/w"));
        assert!(is_in("/w", ""));
        assert!(!is_in("/", "/w"));
    }

    #[test]
    fn paths_that_windows_reads_in_another_way_are_unsafe() {
        for path in [
            "a\0b",
            "a:b",
            "file::$DATA",
            "C:x",
            "C:",
            "NUL",
            "a/nul.txt",
            "com1",
            "LPT9.log",
            "x/aux ",
            "a.",
            "b ",
            "SECRET~1",
            "x/PROGRA~1.TXT",
            "\\\\?\\C:\\x",
            "//./pipe",
            "\\??\\C:\\x",
            "/??/UNC/s/h/x",
            "\\\\??\\x",
            "CONIN$",
            "com\u{b9}",
        ] {
            assert!(unsafe_shape(PathStyle::Windows, path).is_some(), "{path}");
        }
        for path in [
            "a/b",
            "C:\\x",
            "..\\x",
            ".",
            "\\\\s\\h\\x",
            "a~b",
            "console",
            "com10",
            "nulls.txt",
            "",
        ] {
            assert_eq!(unsafe_shape(PathStyle::Windows, path), None, "{path}");
        }
        assert!(unsafe_shape(PathStyle::Posix, "a\0").is_some());
        assert_eq!(unsafe_shape(PathStyle::Posix, "a:b. "), None);
    }

    #[cfg(not(target_family = "wasm"))]
    #[test]
    fn names_fold_over_case_composition_and_compatible_letters() {
        for (a, b) in [
            (".ENV", ".env"),
            ("\u{17f}ecrets", "SECRETS"),
            ("\u{212a}ey", "key"),
            ("caf\u{e9}", "CAFE\u{301}"),
            ("\u{3c4}\u{3b5}\u{3c2}", "\u{3a4}\u{395}\u{3a3}"),
            ("\u{3c2}", "\u{3c3}"),
        ] {
            assert_eq!(fold(a), fold(b), "{a}");
        }
        assert_ne!(fold("a\u{ff0f}b"), "a/b");
    }
}
