//! Lines of JSON text: cut out of bytes as they come, and looked through for what reading them would lose without a word.

use crate::{Error, ErrorCode, Result, untyped};

/// No line of a session is longer: a message has at most 32 MiB, and three bytes to a unit of text.
const MOST: usize = 96 * 1024 * 1024;

/// Up to so many digits every number is what was read, in this range of powers of ten.
const DIGITS: usize = 15;
const POWERS: std::ops::Range<i64> = -300..300;

/// What is wrong with a line; the first is 1.
pub(super) fn invalid(line: u32, what: &str) -> Error {
    let text = format!("line {line} {what}; nothing was imported");
    Error::new(ErrorCode::ImportInvalid, text).with("line", line)
}

/// Cuts bytes into lines.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// Lines that have ended.
    ended: u32,
    /// The line that has not.
    begun: Vec<u8>,
}

impl Lines {
    /// Takes bytes, and hands out every line that ends in them, with its number.
    pub(super) fn take(&mut self, bytes: &[u8], each: &mut dyn FnMut(u32, &str) -> Result<()>) -> Result<()> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.begun.len() + piece.len() > MOST {
                let what = "is longer than 96 MiB; a session has one message to a line";
                return Err(invalid(self.ended + 1, what));
            }
            self.begun.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                self.end(each)?;
            }
        }
        Ok(())
    }

    /// Hands out the line that was begun: the last one may lack its end.
    pub(super) fn end(&mut self, each: &mut dyn FnMut(u32, &str) -> Result<()>) -> Result<()> {
        self.ended += 1;
        let text = std::str::from_utf8(&self.begun);
        let mut text = text.map_err(|_| invalid(self.ended, "is not UTF-8; save the file as UTF-8"))?;
        if self.ended == 1 {
            text = text.strip_prefix('\u{feff}').unwrap_or(text);
        }
        let text = text.trim_ascii();
        // Between lines and behind the last one there may be nothing. A form feed is not blank in JSON.
        let taken = if text.is_empty() && !self.begun.contains(&b'\x0c') {
            Ok(())
        } else {
            each(self.ended, text)
        };
        self.begun.clear();
        taken
    }
}

/// What JSON text says of itself.
#[derive(Default)]
pub(crate) struct Looked<'a> {
    /// How many members its objects have, all together. Those that are read are fewer where two have one name.
    pub(crate) members: u32,
    /// The members of the outermost object: name and value, each as JSON text.
    pub(super) fields: Vec<(&'a str, &'a str)>,
}

/// Looks through JSON text; gives the first number that reading it would change. `read` gives a number as it is written once it was
/// read. Of what is no JSON anything may be said.
pub(crate) fn look<'a>(text: &'a str, read: &dyn Fn(&str) -> Option<String>) -> Result<Looked<'a>, &'a str> {
    let bytes = text.as_bytes();
    let part = |from: usize, to: usize| text.get(from..to).unwrap_or_default();
    let mut looked = Looked::default();
    let (mut depth, mut at) = (0, 0);
    // The field that is open: its name, and where its value begins.
    let mut field = None;
    while let Some(byte) = bytes.get(at) {
        let mut next = at + 1;
        if matches!(byte, b'}' | b']' | b',')
            && depth == 1
            && let Some((name, from)) = field.take()
        {
            looked.fields.push((name, part(from, at).trim_ascii()));
        }
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            b'"' => {
                next = end_of_string(bytes, at);
                let colon = skip(bytes, next, &|byte| byte.is_ascii_whitespace());
                if bytes.get(colon) == Some(&b':') {
                    looked.members += 1;
                    if depth == 1 {
                        field = Some((part(at, next), colon + 1));
                    }
                }
            }
            b'-' | b'0'..=b'9' => {
                next = skip(bytes, next, &|byte| {
                    matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E' | b'0'..=b'9')
                });
                let number = part(at, next);
                if !is_kept(number, read) {
                    return Err(number);
                }
            }
            _ => {}
        }
        at = next;
    }
    Ok(looked)
}

/// Whether JSON text holds what may be half of a pair, which our own texts cannot.
pub(super) fn may_hold_half(text: &str) -> bool {
    let mut triples = text.as_bytes().windows(3);
    triples.any(|found| matches!(found, [b'\\', b'u', b'd' | b'D']))
}

fn skip(bytes: &[u8], from: usize, skipped: &dyn Fn(u8) -> bool) -> usize {
    let rest = bytes.get(from..).unwrap_or_default();
    let end = rest.iter().position(|byte| !skipped(*byte));
    from + end.unwrap_or(rest.len())
}

/// Behind the string that begins at `at`.
fn end_of_string(bytes: &[u8], at: usize) -> usize {
    let mut next = at + 1;
    while let Some(byte) = bytes.get(next) {
        match byte {
            b'"' => return next + 1,
            b'\\' => next += 2,
            _ => next += 1,
        }
    }
    bytes.len()
}

/// Whether a number is the same once it was read and written. The sign of a zero is not written.
fn is_kept(number: &str, read: &dyn Fn(&str) -> Option<String>) -> bool {
    let given = Decimal::of(number);
    if given.digits.is_empty() {
        return !given.negative;
    }
    given.digits.len() <= DIGITS && POWERS.contains(&given.power)
        || read(number).is_some_and(|written| Decimal::of(&written) == given)
}

/// A number by its digits, without zeros at either end, and the power of ten that the point before the first of them stands for.
#[derive(PartialEq)]
struct Decimal {
    negative: bool,
    digits: Vec<u8>,
    power: i64,
}

impl Decimal {
    fn of(text: &str) -> Self {
        let mut number = Self {
            negative: false,
            digits: Vec::new(),
            power: 0,
        };
        let (mut behind_point, mut in_power) = (false, false);
        let (mut power, mut sign) = (0_i64, 1);
        for (at, byte) in text.bytes().enumerate() {
            match byte {
                b'-' if at == 0 => number.negative = true,
                b'-' => sign = -1,
                b'.' => behind_point = true,
                b'e' | b'E' => in_power = true,
                b'0'..=b'9' if in_power => {
                    power = power.saturating_mul(10).saturating_add(i64::from(byte - b'0'));
                }
                b'0' if number.digits.is_empty() => number.power -= i64::from(behind_point),
                b'0'..=b'9' => {
                    number.digits.push(byte);
                    number.power += i64::from(!behind_point);
                }
                _ => {}
            }
        }
        while number.digits.last() == Some(&b'0') {
            number.digits.pop();
        }
        number.power = number.power.saturating_add(power.saturating_mul(sign));
        number
    }
}

/// How a time is written up to its seconds: digits, each with its part, and what stands between them.
const SHAPE: &[u8] = b"0000-11-22T33:44:55";

/// Milliseconds since the epoch of a time in ISO 8601 with its zone, as `2026-01-31T12:00:00.000Z`. What is less than a
/// millisecond does not count.
pub(super) fn time(text: &str) -> Option<f64> {
    let mut parts = [0_i64; 8];
    let mut take = |shape: &[u8], bytes: &[u8]| {
        let fits = |(shape, byte): (&u8, &u8)| match parts.get_mut(usize::from(shape.wrapping_sub(b'0'))) {
            Some(part) if byte.is_ascii_digit() => {
                *part = *part * 10 + i64::from(byte - b'0');
                true
            }
            Some(_) => false,
            None => shape == byte,
        };
        shape.len() == bytes.len() && shape.iter().zip(bytes).all(fits)
    };
    let bytes = text.as_bytes();
    let mut zone = SHAPE.len();
    let is_time = take(SHAPE, bytes.get(..zone)?);
    let mut milliseconds = 0;
    if bytes.get(zone) == Some(&b'.') {
        zone = skip(bytes, zone + 1, &|byte| byte.is_ascii_digit());
        let mut weight = 100;
        for digit in bytes.get(SHAPE.len() + 1..zone)? {
            milliseconds += i64::from(digit - b'0') * weight;
            weight /= 10;
        }
        // A point without digits.
        if zone == SHAPE.len() + 1 {
            return None;
        }
    }
    let sign = match bytes.get(zone..)? {
        b"Z" => 0,
        [b'+', offset @ ..] if take(b"66:77", offset) => 1,
        [b'-', offset @ ..] if take(b"66:77", offset) => -1,
        _ => return None,
    };
    let [year, month, day, hour, minute, second, hours, minutes] = parts;
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days_in_month = match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    let is_there =
        (1..=days_in_month).contains(&day) && hour.max(hours) < 24 && minute.max(second).max(minutes) < 60;
    if !is_time || !is_there {
        return None;
    }
    // Days since the first of March of the year 0: leap days come last.
    let (years, months) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let leap_days = years.div_euclid(4) - years.div_euclid(100) + years.div_euclid(400);
    let days = years * 365 + leap_days + (153 * months + 2) / 5 + day - 1;
    // 1970-01-01 is day 719,468.
    let all_minutes = (days - 719_468) * 1440 + hour * 60 + minute - sign * (hours * 60 + minutes);
    let time = (all_minutes * 60_000 + second * 1000 + milliseconds) as f64;
    untyped::check_milliseconds(time, "").ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_with_its_zone_and_nothing_else_is_one() {
        // Counted by `date -u -d TIME +%s`.
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", 0.0),
            ("1970-01-01T00:00:00.999999Z", 0.999),
            ("2000-02-29T23:59:59Z", 951_868_799.0),
            ("2000-03-01T00:00:00Z", 951_868_800.0),
            ("2026-01-31T12:00:00.5Z", 1_769_860_800.5),
            ("2026-01-31T12:00:00+05:30", 1_769_841_000.0),
            ("2026-01-31T12:00:00.250-08:00", 1_769_889_600.25),
            ("9999-12-31T23:59:59Z", 253_402_300_799.0),
        ] {
            assert_eq!(time(text), Some(seconds * 1000.0), "{text}");
        }
        for text in [
            "",
            "2026",
            "2026-01-31",
            "2026-01-31T12:00:00",
            "2026-01-31 12:00:00Z",
            "2026-1-31T12:00:00Z",
            "2026-00-31T12:00:00Z",
            "2026-13-01T12:00:00Z",
            "2026-01-00T12:00:00Z",
            "2026-04-31T12:00:00Z",
            "2026-02-29T12:00:00Z",
            "1900-02-29T12:00:00Z",
            "2026-01-31T24:00:00Z",
            "2026-01-31T12:60:00Z",
            "2026-01-31T12:00:60Z",
            "2026-01-31T12:00:00.Z",
            "2026-01-31T12:00:00z",
            "2026-01-31T12:00:00+0530",
            "2026-01-31T12:00:00+05:3",
            "2026-01-31T12:00:00+24:00",
            "2026-01-31T12:00:00+05:60",
            "2026-01-31T12:00:00Z ",
            "+02026-01-31T12:00:00Z",
            "２０26-01-31T12:00:00Z",
            "1969-12-31T23:59:59Z",
        ] {
            assert_eq!(time(text), None, "{text}");
        }
    }
}
