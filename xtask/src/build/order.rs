//! Puts alike functions next to each other.
//!
//! What ships is compressed, and gzip finds again only what was there in the last 32 KiB: the order of functions alone
//! is worth a tenth of the module. This finds an order and writes it down as names; wasm-opt sorts functions by name.

use std::collections::{HashMap, VecDeque};
use std::io::Write;

use anyhow::{Context, Result, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;

/// How far back gzip sees.
const WINDOW: usize = 30_000;

/// A way to find an order.
#[derive(Clone, Copy, Debug)]
struct Way {
    /// Alike is what has runs of so many bytes in common.
    run: usize,
    /// So many runs that were never seen weigh against every function: a short one that is wholly known can wait.
    novelty: usize,
}

/// None of them is always the best, and what is best changes with every function. So each is tried.
const WAYS: [Way; 4] = [
    Way { run: 6, novelty: 5 },
    Way { run: 6, novelty: 10 },
    Way { run: 7, novelty: 5 },
    Way { run: 7, novelty: 10 },
];

const IMPORTS: u8 = 2;
const CODE: u8 = 10;

/// The module, without other names, with one for each function that says where it should stand.
pub fn named(module: &[u8]) -> Result<Vec<u8>> {
    let header = module.get(..8).context("a module of less than 8 bytes")?;
    let mut named = header.to_vec();
    let mut rest = Bytes(module.get(8..).unwrap_or_default());
    let (mut imported, mut bodies) = (0, Vec::new());
    while let Some(id) = rest.byte() {
        let body = rest.counted().context("a section without its end")?;
        match id {
            0 => continue,
            IMPORTS => imported = imported_functions(body).context("imports that cannot be read")?,
            CODE => bodies = functions(body).context("code that cannot be read")?,
            _ => {}
        }
        section(&mut named, id, body);
    }
    ensure!(!bodies.is_empty(), "a module without functions");

    let mut best: Option<(usize, Vec<usize>)> = None;
    for way in WAYS {
        let places = places(&bodies, way);
        let size = packed(&bodies, &places)?;
        if best.as_ref().is_none_or(|(smallest, _)| size < *smallest) {
            best = Some((size, places));
        }
    }
    let (_, places) = best.context("no way to find an order")?;

    let mut names = Vec::new();
    number(&mut names, bodies.len());
    for (function, place) in places.into_iter().enumerate() {
        number(&mut names, imported + function);
        text(&mut names, &format!("{place:08}"));
    }
    let mut custom = Vec::new();
    text(&mut custom, "name");
    section(&mut custom, 1, &names);
    section(&mut named, 0, &custom);
    Ok(named)
}

/// The compressed size of functions in their places.
fn packed(functions: &[&[u8]], places: &[usize]) -> Result<usize> {
    let mut order: Vec<(&usize, &&[u8])> = places.iter().zip(functions).collect();
    order.sort_unstable();
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    for (_, body) in order {
        encoder.write_all(body)?;
    }
    Ok(encoder.finish()?.len())
}

/// For each function its place: after the first, always the one that has most in common with what stands before it.
fn places(functions: &[&[u8]], way: Way) -> Vec<usize> {
    let mut runs: Vec<Vec<&[u8]>> = functions
        .iter()
        .map(|body| {
            let mut runs: Vec<&[u8]> = body.windows(way.run).collect();
            runs.sort_unstable();
            runs.dedup();
            runs
        })
        .collect();
    let mut known: HashMap<&[u8], Known> = HashMap::new();
    for (function, runs) in runs.iter().enumerate() {
        for run in runs {
            known.entry(run).or_default().functions.push(function);
        }
    }
    // What one function alone has costs the same wherever it stands.
    known.retain(|_, known| known.functions.len() > 1);
    for runs in &mut runs {
        runs.retain(|run| known.contains_key(run));
    }

    let mut places = vec![None; functions.len()];
    let mut common = vec![0usize; functions.len()];
    let mut window: VecDeque<usize> = VecDeque::new();
    let mut size = 0;
    let size_of = |function: usize| functions.get(function).map_or(0, |body| body.len());
    let mut next = (!functions.is_empty()).then_some(0);
    for place in 0.. {
        let Some(function) = next else { break };
        if let Some(slot) = places.get_mut(function) {
            *slot = Some(place);
        }
        window.push_back(function);
        size += size_of(function);
        for run in runs.get(function).into_iter().flatten() {
            let Some(known) = known.get_mut(run) else { continue };
            known.times += 1;
            if known.times == 1 {
                known.add(&mut common, 1);
            }
        }
        while size > WINDOW {
            let Some(gone) = window.pop_front() else { break };
            size -= size_of(gone);
            for run in runs.get(gone).into_iter().flatten() {
                let Some(known) = known.get_mut(run) else { continue };
                known.times -= 1;
                if known.times == 0 {
                    known.add(&mut common, -1);
                }
            }
        }
        // Shares are compared as whole numbers, so that every machine finds the same order.
        let share = |function: usize| {
            let all = runs.get(function).map_or(0, Vec::len) + way.novelty;
            common.get(function).copied().unwrap_or_default() * 1_000_000 / all
        };
        let waiting = places.iter().enumerate().filter(|(_, place)| place.is_none());
        next = waiting
            .map(|(function, _)| function)
            .max_by_key(|function| (share(*function), std::cmp::Reverse(*function)));
    }
    places.into_iter().map(Option::unwrap_or_default).collect()
}

/// A run of bytes.
#[derive(Default)]
struct Known {
    /// Where it is.
    functions: Vec<usize>,
    /// How often it is in the window.
    times: usize,
}

impl Known {
    fn add(&self, common: &mut [usize], change: isize) {
        for function in &self.functions {
            if let Some(count) = common.get_mut(*function) {
                *count = count.saturating_add_signed(change);
            }
        }
    }
}

/// How many of the imports are functions: they have the first numbers.
fn imported_functions(section: &[u8]) -> Option<usize> {
    let mut rest = Bytes(section);
    let mut functions = 0;
    for _ in 0..rest.number()? {
        rest.counted()?;
        rest.counted()?;
        match rest.byte()? {
            0 => {
                rest.number()?;
                functions += 1;
            }
            // A table has a type before its limits.
            1 => {
                rest.byte()?;
                rest.limits()?;
            }
            2 => rest.limits()?,
            3 => {
                rest.byte()?;
                rest.byte()?;
            }
            _ => return None,
        }
    }
    Some(functions)
}

fn functions(section: &[u8]) -> Option<Vec<&[u8]>> {
    let mut rest = Bytes(section);
    (0..rest.number()?).map(|_| rest.counted()).collect()
}

/// What is still to be read.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn number(&mut self) -> Option<usize> {
        let mut number = 0;
        for shift in (0..35).step_by(7) {
            let byte = self.byte()?;
            number |= usize::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    /// Bytes behind their count.
    fn counted(&mut self) -> Option<&'a [u8]> {
        let count = self.number()?;
        let (counted, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(counted)
    }

    fn limits(&mut self) -> Option<()> {
        let flags = self.byte()?;
        self.number()?;
        if flags & 1 == 1 {
            self.number()?;
        }
        Some(())
    }
}

fn number(to: &mut Vec<u8>, mut number: usize) {
    while number > 0x7f {
        to.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

fn text(to: &mut Vec<u8>, text: &str) {
    number(to, text.len());
    to.extend_from_slice(text.as_bytes());
}

fn section(to: &mut Vec<u8>, id: u8, body: &[u8]) {
    to.push(id);
    number(to, body.len());
    to.extend_from_slice(body);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A module with an imported function and these.
    fn module(functions: &[&[u8]]) -> Vec<u8> {
        let mut module = b"\0asm\x01\0\0\0".to_vec();
        section(&mut module, IMPORTS, b"\x01\x01m\x01f\0\0");
        let mut code = Vec::new();
        number(&mut code, functions.len());
        for body in functions {
            number(&mut code, body.len());
            code.extend_from_slice(body);
        }
        section(&mut module, CODE, &code);
        module
    }

    #[test]
    fn alike_functions_stand_together() {
        let bodies: [&[u8]; 4] = [
            b"aaaaabbbbbccccc",
            b"1234567890123456",
            b"aaaaabbbbbccccd",
            b"1234567890123457",
        ];
        for way in WAYS {
            assert_eq!(places(&bodies, way), [0, 2, 1, 3]);
        }
    }

    #[test]
    fn names_count_imports_and_take_the_place_of_others() {
        let bare = module(&[b"aaaaaaaa", b"bbbbbbbb"]);
        let mut other = bare.clone();
        section(&mut other, 0, b"\x04name old");
        let named_module = named(&other).unwrap();
        let mut expected = bare;
        section(
            &mut expected,
            0,
            b"\x04name\x01\x15\x02\x01\x0800000000\x02\x0800000001",
        );
        assert_eq!(named_module, expected);
    }

    #[test]
    fn what_is_no_module_is_refused() {
        assert!(named(b"\0asm").is_err());
        assert!(named(b"\0asm\x01\0\0\0\x0a\x05").is_err());
        assert!(named(&module(&[])).is_err());
    }
}
