//! The generated JavaScript, made fit for the package.
//!
//! wasm-bindgen's own loading is cut off, since the hand-written loaders do it: retried after a failure, with typed
//! errors, with a new instance after a trap. What stays is the glue proper. Every change is an exact match that must
//! be found, so that another version of wasm-bindgen fails the build and not the user.

use anyhow::{Context, Result, ensure};

use super::types::Names;

/// The glue, and what it offers.
#[derive(Debug)]
pub struct Glue {
    pub text: String,
    /// What it exports for users.
    pub exported: Vec<String>,
}

/// Changes the output of `--target web --experimental-reset-state-function`.
pub fn fit(generated: &str, asynchronous: &Names) -> Result<Glue> {
    let mut text = generated.to_owned();
    replace(
        &mut text,
        "/* @ts-self-types=\"./runcontext.d.ts\" */\n",
        "",
        Times::Once,
    )?;
    flatten_snippets(&mut text)?;

    // Loading: from the variables of the instance to the end.
    let tail = "\nlet wasmModule, wasmInstance, wasm;\n";
    ensure!(
        text.matches(tail).count() == 1,
        "the glue has no `{}`",
        tail.trim()
    );
    ensure!(
        text.trim_end()
            .ends_with("export { initSync, __wbg_init as default };"),
        "the glue does not end with the exports of its loading"
    );
    if let Some((head, _)) = text.split_once(tail) {
        text = format!("{head}\nlet wasm = absent;\n");
    }
    // A new instance: what generated code does to forget the old one, without its own instantiation.
    replace(
        &mut text,
        "export function __wbg_reset_state () {\n",
        "export function __adopt(exports) {\n",
        Times::Once,
    )?;
    replace(
        &mut text,
        "    __wbg_reinit_scheduled = false;\n    wasmInstance = new WebAssembly.Instance(wasmModule, __wbg_get_imports());\n    wasm = wasmInstance.exports;\n    wasm.__wbindgen_start();\n",
        "    wasm = exports;\n",
        Times::Once,
    )?;
    replace(
        &mut text,
        "function __wbg_call_guard() {\n    if (__wbg_reinit_scheduled) {\n        __wbg_reset_state();\n        return;\n    }\n}\n",
        "",
        Times::Once,
    )?;
    replace(
        &mut text,
        "\nlet __wbg_reinit_scheduled = false;\n",
        "",
        Times::Once,
    )?;
    remove_lines(&mut text, "__wbg_call_guard();")?;
    replace(
        &mut text,
        "function __wbg_get_imports() {",
        "export function __imports() {",
        Times::Once,
    )?;

    // Objects and callbacks that outlived their instance.
    let classes = text.matches("\nexport class ").count();
    let methods = if classes == 0 { Times::Any } else { Times::Some };
    replace(
        &mut text,
        "throw new Error('Invalid stale object from previous Wasm instance');",
        "throw stale();",
        methods,
    )?;
    replace(
        &mut text,
        "    free() {\n",
        "    free() {\n        if (this.__wbg_inst !== __wbg_instance_id) return;\n",
        Times::Exactly(classes),
    )?;
    replace(
        &mut text,
        "throw new Error('Cannot invoke closure from previous WASM instance');",
        "return;",
        Times::Any,
    )?;

    // What the bindings themselves refuse, a freed object for example.
    replace(
        &mut text,
        "throw new Error(getStringFromWasm0(arg0, arg1));",
        "throw misuse(getStringFromWasm0(arg0, arg1));",
        Times::Any,
    )?;

    // Promises that the instance settles.
    let promises = if asynchronous.is_empty() {
        Times::Any
    } else {
        Times::Some
    };
    replace(&mut text, "new Promise(cb0)", "promise(cb0)", promises)?;
    settle(&mut text, asynchronous)?;

    for leftover in [
        "__wbg_reinit_scheduled",
        "__wbg_reset_state",
        "__wbg_call_guard",
        "wasmInstance",
        "wasmModule",
    ] {
        ensure!(!text.contains(leftover), "the glue still has `{leftover}`");
    }
    let exported = exported(&text);
    text = format!(
        "import {{ absent, misuse, promise, settled, settledMethods, stale }} from './guard.js';\n{text}"
    );
    Ok(Glue { text, exported })
}

/// How often something has to be found.
#[derive(Clone, Copy)]
enum Times {
    Once,
    Exactly(usize),
    Some,
    Any,
}

fn replace(text: &mut String, from: &str, to: &str, times: Times) -> Result<()> {
    let found = text.matches(from).count();
    let right = match times {
        Times::Once => found == 1,
        Times::Exactly(number) => found == number,
        Times::Some => found > 0,
        Times::Any => true,
    };
    ensure!(
        right,
        "the glue has {found} times: {from}\nwasm-bindgen's output has changed: look at xtask/src/build/glue.rs"
    );
    *text = text.replace(from, to);
    Ok(())
}

fn remove_lines(text: &mut String, line: &str) -> Result<()> {
    ensure!(
        text.lines().any(|other| other.trim() == line),
        "the glue has no line `{line}`"
    );
    *text = text
        .lines()
        .filter(|other| other.trim() != line)
        .map(|line| format!("{line}\n"))
        .collect();
    Ok(())
}

/// `./snippets/<crate>-<hash>/src/js/<name>.js` becomes `./<name>.js` where the glue imports it, and what is in `pkg-template/`
/// is found where the package has it. Where the module itself names its imports, the long name stays: it is a key there, not
/// an address.
fn flatten_snippets(text: &mut String) -> Result<()> {
    let mut lines = Vec::new();
    for line in text.lines() {
        let snippet = line
            .strip_prefix("import ")
            .and_then(|_| line.split_once("./snippets/runcontext-"));
        let Some((before, after)) = snippet else {
            lines.push(line.to_owned());
            continue;
        };
        let file = after
            .split_once("/src/js/")
            .filter(|(_hash, file)| !file.contains('/'));
        let (_hash, file) = file
            .or_else(|| after.split_once("/pkg-template/"))
            .context("the glue imports a snippet that is a file neither of src/js/ nor of pkg-template/")?;
        lines.push(format!("{before}./{file}"));
    }
    *text = lines.join("\n") + "\n";
    Ok(())
}

/// Functions that return a promise reject and never throw, also before `init` and after a trap.
fn settle(text: &mut String, asynchronous: &Names) -> Result<()> {
    for name in &asynchronous.functions {
        ensure!(
            text.contains(&format!("\nexport function {name}(")),
            "the glue has no function `{name}`"
        );
        text.push_str(&format!("{name} = settled({name});\n"));
    }
    for (class, methods) in &asynchronous.methods {
        for (owner, keyword, names) in [
            (format!("{class}.prototype"), "", &methods.instance),
            (class.clone(), "static ", &methods.fixed),
        ] {
            if names.is_empty() {
                continue;
            }
            let body = text
                .split_once(&format!("\nexport class {class} {{\n"))
                .and_then(|(_, rest)| rest.split_once("\n}\n"));
            let Some((body, _)) = body else {
                anyhow::bail!("the glue has no class `{class}`");
            };
            for name in names {
                ensure!(
                    body.lines()
                        .any(|line| line.starts_with(&format!("    {keyword}{name}("))),
                    "the glue has no `{keyword}{name}` in `{class}`"
                );
            }
            text.push_str(&format!("settledMethods({owner}, {names:?});\n"));
        }
    }
    Ok(())
}

/// What users see: the names without two underscores in front.
fn exported(text: &str) -> Vec<String> {
    let mut names: Vec<String> = text
        .lines()
        .filter_map(|line| {
            line.strip_prefix("export class ")
                .or_else(|| line.strip_prefix("export function "))
        })
        .filter_map(|rest| rest.split([' ', '(']).next())
        .filter(|name| !name.starts_with("__"))
        .map(str::to_owned)
        .collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What every output of wasm-bindgen has, as short as it can be.
    const GENERATED: &str = "/* @ts-self-types=\"./runcontext.d.ts\" */
import { RunContextError } from './snippets/runcontext-0123456789abcdef/src/js/shim.js';

export function later() {
    let ret;
    __wbg_call_guard();
    ret = wasm.later();
    return ret;
}
export function __wbg_reset_state () {
    __wbg_instance_id++;
    __wbg_reinit_scheduled = false;
    wasmInstance = new WebAssembly.Instance(wasmModule, __wbg_get_imports());
    wasm = wasmInstance.exports;
    wasm.__wbindgen_start();
}
function __wbg_get_imports() {
    const ret = new Promise(cb0);
}
function __wbg_call_guard() {
    if (__wbg_reinit_scheduled) {
        __wbg_reset_state();
        return;
    }
}

let __wbg_instance_id = 0;

let __wbg_reinit_scheduled = false;

let wasmModule, wasmInstance, wasm;
async function __wbg_init() {}
export { initSync, __wbg_init as default };
";

    fn asynchronous() -> Names {
        Names {
            functions: vec!["later".to_owned()],
            ..Names::default()
        }
    }

    #[test]
    fn loading_is_cut_off_and_the_rest_is_kept() {
        let glue = fit(GENERATED, &asynchronous()).unwrap();
        assert_eq!(
            glue.text,
            "import { absent, misuse, promise, settled, settledMethods, stale } from './guard.js';
import { RunContextError } from './shim.js';

export function later() {
    let ret;
    ret = wasm.later();
    return ret;
}
export function __adopt(exports) {
    __wbg_instance_id++;
    wasm = exports;
}
export function __imports() {
    const ret = promise(cb0);
}

let __wbg_instance_id = 0;

let wasm = absent;
later = settled(later);
"
        );
        assert_eq!(glue.exported, ["later"]);
    }

    #[test]
    fn another_output_than_expected_fails_the_build() {
        for part in [
            "/* @ts-self-types",
            "/src/js/shim.js",
            "export function __wbg_reset_state () {",
            "    wasm.__wbindgen_start();",
            "    __wbg_call_guard();",
            "function __wbg_get_imports() {",
            "new Promise(cb0)",
            "let __wbg_reinit_scheduled = false;",
            "let wasmModule, wasmInstance, wasm;",
            "export { initSync, __wbg_init as default };",
            "export function later() {",
        ] {
            let changed = GENERATED.replacen(part, "/* changed */", 1);
            assert_ne!(changed, GENERATED, "{part}");
            assert!(fit(&changed, &asynchronous()).is_err(), "{part}");
        }
    }
}
