//! Lists from iterators, with one loop per place. `collect` brings three to six functions of its own to each, `join` a
//! kilobyte to each type of text, and a search for a text three kilobytes; that was a tenth of the module.

use std::cmp::Ordering;

use crate::Result;

/// What `collect` does.
pub(crate) trait Listed: Iterator + Sized {
    /// A list of every item.
    fn listed(self) -> Vec<Self::Item> {
        let mut list = Vec::new();
        self.append_to(&mut list);
        list
    }

    /// Puts every item at the end of a list.
    fn append_to(self, list: &mut Vec<Self::Item>) {
        for item in self {
            list.push(item);
        }
    }
}

impl<I: Iterator> Listed for I {}

/// What `collect` does with results.
pub(crate) trait TryListed<T>: Iterator<Item = Result<T>> + Sized {
    /// A list of every item, or the first error.
    fn try_listed(self) -> Result<Vec<T>> {
        let mut list = Vec::new();
        for item in self {
            list.push(item?);
        }
        Ok(list)
    }
}

impl<T, I: Iterator<Item = Result<T>>> TryListed<T> for I {}

/// The positions of a list's items in order; equals stay as they stand. For lists that may be long: the standard library's sort
/// is four kilobytes for each type of item.
pub(crate) fn positions_in_order(count: usize, order: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let before = |a: usize, b: usize| order(a, b).then(a.cmp(&b)).is_lt();
    let mut heap: Vec<usize> = (0..count).listed();
    let sink = |heap: &mut [usize], mut at: usize| {
        loop {
            let mut last = at;
            for child in [2 * at + 1, 2 * at + 2] {
                if let (Some(it), Some(other)) = (heap.get(last), heap.get(child))
                    && before(*it, *other)
                {
                    last = child;
                }
            }
            if last == at {
                return;
            }
            heap.swap(at, last);
            at = last;
        }
    };
    for at in (0..count / 2).rev() {
        sink(&mut heap, at);
    }
    for end in (1..count).rev() {
        heap.swap(0, end);
        if let Some(rest) = heap.get_mut(..end) {
            sink(rest, 0);
        }
    }
    heap
}

/// Texts one after another, with a separator between them.
pub(crate) fn joined(texts: &[impl AsRef<str>], separator: &str) -> String {
    let mut joined = String::new();
    for (at, text) in texts.iter().enumerate() {
        if at > 0 {
            joined.push_str(separator);
        }
        joined.push_str(text.as_ref());
    }
    joined
}

/// Bytes as lower-case hex. `format!` would bring the formatting of numbers to each place.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut hex = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        for digit in [byte >> 4, byte & 0xf] {
            hex.push(char::from_digit(digit.into(), 16).unwrap_or_default());
        }
    }
    hex
}

/// What is before and behind the first place where a text holds another. For texts to look for that are short and
/// fixed: it compares at every place.
pub(crate) fn split_at_text<'a>(text: &'a str, what: &str) -> Option<(&'a str, &'a str)> {
    let (bytes, what) = (text.as_bytes(), what.as_bytes());
    let at = (0..=bytes.len().checked_sub(what.len())?)
        .find(|at| bytes.get(*at..).is_some_and(|rest| rest.starts_with(what)))?;
    Some((text.get(..at)?, text.get(at + what.len()..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_split_at_the_first_place_that_holds_the_other() {
        assert_eq!(split_at_text("a-->b-->c", "-->"), Some(("a", "b-->c")));
        assert_eq!(split_at_text("ä\u{1f600}", "\u{1f600}"), Some(("ä", "")));
        assert_eq!(split_at_text("ab", ""), Some(("", "ab")));
        assert_eq!(split_at_text("ab", "abc"), None);
        assert_eq!(split_at_text("aab", "ab"), Some(("a", "")));
    }

    #[test]
    fn positions_are_those_of_a_stable_sort() {
        for count in [0, 1, 2, 3, 7, 64, 501] {
            let items: Vec<usize> = (0..count).map(|at| at * 7_919 % 23).collect();
            let mut expected: Vec<usize> = (0..count).collect();
            expected.sort_by_key(|at| items[*at]);
            assert_eq!(
                positions_in_order(count, &|a, b| items[a].cmp(&items[b])),
                expected
            );
        }
    }

    #[test]
    fn bytes_are_written_as_two_digits_each() {
        assert_eq!(hex(&[0, 9, 10, 0xab, 0xff]), "00090aabff");
    }

    #[test]
    fn texts_are_joined_as_the_standard_library_joins_them() {
        for texts in [&["a", "", "b"][..], &[""], &[]] {
            assert_eq!(joined(texts, ", "), texts.join(", "));
        }
    }
}
