//! The generated TypeScript types, made fit for the package, and what they say about promises.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};

/// Methods of one class.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Methods {
    pub instance: Vec<String>,
    /// Static ones.
    pub fixed: Vec<String>,
}

/// Names of what returns a promise.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Names {
    pub functions: Vec<String>,
    pub methods: BTreeMap<String, Methods>,
}

impl Names {
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty() && self.methods.is_empty()
    }
}

/// Without the types of wasm-bindgen's own loading, and without what frees an instance's memory by hand: that is
/// done by the garbage collector, and `Symbol.dispose` is not in every user's TypeScript library.
pub fn fit(generated: &str) -> Result<String> {
    let (api, _) = generated
        .split_once("export type InitInput = ")
        .context("the generated types have no `InitInput`: look at xtask/src/build/types.rs")?;
    let hidden = [
        "free(): void;",
        "[Symbol.dispose](): void;",
        "/* tslint:disable */",
        "/* eslint-disable */",
        "export function __wbg_reset_state(): void;",
    ];
    let mut kept = String::new();
    for line in api.lines().filter(|line| !hidden.contains(&line.trim())) {
        if !line.trim().is_empty() || !kept.ends_with("\n\n") {
            kept.push_str(line.trim_end());
            kept.push('\n');
        }
    }
    ensure!(
        !kept.contains("__wb"),
        "the generated types name something of wasm-bindgen's own"
    );
    Ok(format!("{}\n", kept.trim()))
}

/// Reads which functions and methods return a promise.
pub fn promises(types: &str) -> Names {
    let mut names = Names::default();
    let mut class: Option<String> = None;
    for statement in statements(types) {
        if let Some(rest) = statement.strip_prefix("export class ") {
            class = rest.split([' ', '<', '{']).next().map(str::to_owned);
        } else if statement.starts_with('}') {
            class = None;
        } else if let Some(rest) = statement.strip_prefix("export function ") {
            names.functions.extend(promised(rest).map(str::to_owned));
        } else if let Some(class) = &class {
            let (rest, fixed) = match statement.strip_prefix("static ") {
                Some(rest) => (rest, true),
                None => (statement.as_str(), false),
            };
            if let Some(name) = promised(rest) {
                let methods = names.methods.entry(class.clone()).or_default();
                let list = if fixed {
                    &mut methods.fixed
                } else {
                    &mut methods.instance
                };
                if !list.iter().any(|other| other == name) {
                    list.push(name.to_owned());
                }
            }
        }
    }
    names
}

/// Declarations, one each, without comments. One that runs over several lines is joined.
fn statements(types: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = String::new();
    let mut in_comment = false;
    for line in types.lines().map(str::trim) {
        if in_comment || line.starts_with("/*") {
            in_comment = !line.ends_with("*/");
            continue;
        }
        if line.is_empty() || line.starts_with("//") {
            continue;
        }
        if !open.is_empty() {
            open.push(' ');
        }
        open.push_str(line);
        if line.ends_with(';') || line.ends_with('{') || line.ends_with('}') {
            found.push(std::mem::take(&mut open));
        }
    }
    found
}

/// The name in `name(parameters): Promise<...>`.
fn promised(signature: &str) -> Option<&str> {
    let (name, _) = signature.split_once('(')?;
    let name = name.split('<').next()?;
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '$');
    let (_, returned) = signature.rsplit_once("): ")?;
    (is_name && returned.starts_with("Promise<")).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_returns_a_promise_is_found_in_classes_and_functions() {
        let types = "/**\n * @returns `f(): Promise<x>`\n */\nexport function plain(a: string): string;\n\
            export function later(a: string): Promise<string>;\n\
            export interface Host {\n    resolve(a: string): Promise<void>;\n}\n\
            export class Runtime {\n    private constructor();\n    static open(options?: Options): Promise<Runtime>;\n\
            \n    close(\n        a: string,\n    ): Promise<void>;\n    readonly skills: Skills;\n    list(): string[];\n}\n\
            export function last(): Promise<void>;\n";
        let found = promises(types);
        let runtime = Methods {
            instance: vec!["close".to_owned()],
            fixed: vec!["open".to_owned()],
        };
        assert_eq!(found.functions, ["later", "last"]);
        assert_eq!(found.methods, BTreeMap::from([("Runtime".to_owned(), runtime)]));
    }

    #[test]
    fn types_of_loading_and_of_freeing_by_hand_are_left_out() {
        let types = "/* tslint:disable */\n/* eslint-disable */\nexport class A {\n    free(): void;\n\
            \x20   [Symbol.dispose](): void;\n    b(): string;\n}\n\nexport type InitInput = RequestInfo;\n";
        assert_eq!(fit(types).unwrap(), "export class A {\n    b(): string;\n}\n");
    }
}
