//! Asks the gate, with a file system made of a table.

use runcontext::{
    Result,
    paths::PathStyle,
    permissions::{ApprovalRule, DecideInput, Decision, Policy, ResolvedPath},
};
use serde_json::{Map, Value, json};

/// How names are compared: what each host has of its own.
#[cfg(not(target_family = "wasm"))]
pub use runcontext::paths::fold;
#[cfg(target_family = "wasm")]
pub fn fold(text: &str) -> String {
    let composed = js_sys::JsString::from(text).normalize("NFC");
    composed
        .to_upper_case()
        .to_lower_case()
        .normalize("NFC")
        .as_string()
        .unwrap()
        .replace('\u{3c2}', "\u{3c3}")
}

/// A decision on an input, as `decide` makes it. `found` is what the tool's `extractPaths` returned. Where the input has no
/// answers, `resolves` gives them: see [`lead`].
pub fn decide(input: &Value, found: &Value, resolves: &Value, traced: bool) -> Result<Decision> {
    let rules = ApprovalRule::parse_list(&input["rules"])?;
    let mut input = input.clone();
    if input.get("resolved").is_none() {
        let question = DecideInput::parse(&input, found, fold)?;
        let queries = question.inquiry.queries();
        let answers = queries.iter().filter_map(|query| {
            let result = lead(question.inquiry.place.style(), resolves, &query.base, &query.path)?;
            Some(json!({ "base": query.base, "path": query.path, "result": result }))
        });
        input["resolved"] = answers.collect();
    }
    let question = DecideInput::parse(&input, found, fold)?;
    let policy = Policy::compile(rules, question.inquiry.groups.clone(), fold)?;
    let asked = &question.inquiry;
    let answers: Vec<ResolvedPath> = question.answers(&asked.queries());
    Ok(if traced {
        asked.explain(&policy, &answers)
    } else {
        asked.decide(&policy, &answers)
    })
}

/// Where a path leads: `resolves` holds absolute paths and where they lead, `null` for what is nowhere, `false` for no
/// answer, an object for the answer itself. What is not in it lies below its parent under its own name.
fn lead(style: PathStyle, resolves: &Value, base: &str, path: &str) -> Option<Value> {
    let none = Map::new();
    let table = resolves.as_object().unwrap_or(&none);
    let separator = if style == PathStyle::Windows { "\\" } else { "/" };
    let (root, names) = cut(style, path);
    let (base_root, base_names) = cut(style, base);
    let (root, names) = match root.as_deref() {
        None => (base_root.unwrap(), [base_names, names].concat()),
        Some("\\") => (base_root.unwrap(), names),
        Some(root) => (root.to_owned(), names),
    };
    let below = |folder: &str, name: &str| {
        let end = if folder.ends_with(separator) {
            ""
        } else {
            separator
        };
        format!("{folder}{end}{name}")
    };

    let mut named = root.clone();
    let mut answer = Some(json!({ "canonical": root }));
    for name in names {
        let known = answer
            .as_ref()
            .and_then(|answer| answer["canonical"].as_str().map(str::to_owned));
        if name == ".." {
            if let Some(known) = known {
                let (root, names) = cut(style, &known);
                let names = &names[..names.len().saturating_sub(1)];
                named = names
                    .iter()
                    .fold(root.unwrap(), |folder, name| below(&folder, name));
                answer = Some(json!({ "canonical": named }));
            }
            continue;
        }
        named = below(&named, &name);
        match table.get(&named) {
            Some(Value::String(target)) => answer = Some(json!({ "canonical": target })),
            Some(Value::Null) => answer = Some(json!({ "unresolved": format!("{named} is nowhere") })),
            Some(Value::Bool(_)) => answer = None,
            Some(given) => answer = Some(given.clone()),
            None => {
                if let Some(known) = known {
                    answer = Some(json!({ "canonical": below(&known, &name) }));
                }
            }
        }
    }
    answer
}

/// The root of a path, where it has one, and its names. On windows a lone `\` is the root of some drive.
fn cut(style: PathStyle, path: &str) -> (Option<String>, Vec<String>) {
    let names = |text: &str, separator: char| -> Vec<String> {
        let names = text.split(separator).filter(|name| !matches!(*name, "" | "."));
        names.map(str::to_owned).collect()
    };
    if style == PathStyle::Posix {
        return (path.starts_with('/').then(|| "/".to_owned()), names(path, '/'));
    }
    let plain = path.replace('/', "\\");
    if let Some(share) = plain.strip_prefix("\\\\") {
        let mut parts = share.splitn(3, '\\');
        let (server, share) = (parts.next().unwrap(), parts.next().unwrap_or_default());
        let root = format!("\\\\{server}\\{share}\\");
        return (Some(root), names(parts.next().unwrap_or_default(), '\\'));
    }
    let drive = plain.get(..2).filter(|drive| drive.ends_with(':'));
    match drive {
        Some(drive) if plain[2..].starts_with('\\') => (Some(format!("{drive}\\")), names(&plain[2..], '\\')),
        _ if plain.starts_with('\\') => (Some("\\".to_owned()), names(&plain, '\\')),
        _ => (None, names(&plain, '\\')),
    }
}
