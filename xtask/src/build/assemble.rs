//! Puts the package together: hand-written loaders, glue, module, types, and the texts of the project.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::{glue, types};
use crate::{places, run};

/// `bound` is wasm-bindgen's output, `module` the optimised module.
pub fn package(bound: &Path, module: &Path) -> Result<()> {
    let root = places::root();
    let unfinished = root.join("pkg.tmp");
    if unfinished.exists() {
        fs::remove_dir_all(&unfinished)?;
    }
    copy_folder(&root.join("pkg-template"), &unfinished)?;
    fs::copy(module, unfinished.join("runcontext.wasm"))?;
    for name in ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"] {
        fs::copy(root.join(name), unfinished.join(name)).with_context(|| format!("cannot copy {name}"))?;
    }

    let mut describe = run::program(
        "cargo",
        [
            "run",
            "--quiet",
            "--package",
            "runcontext",
            "--example",
            "openapi",
        ],
    );
    let description = run::output(describe.current_dir(root)).context("cannot describe the HTTP routes")?;
    fs::write(unfinished.join("openapi.json"), format!("{description}\n"))?;

    let api = types::fit(&read(&bound.join("runcontext.d.ts"))?)?;
    let types_file = unfinished.join("index.d.ts");
    let head = read(&types_file)?;
    fs::write(&types_file, format!("{}\n\n{api}", head.trim_end()))?;

    let glue = glue::fit(&read(&bound.join("runcontext.js"))?, &types::promises(&api))?;
    fs::write(unfinished.join("glue.js"), &glue.text)?;
    for entry in fs::read_dir(root.join("src/js"))? {
        let file = entry?.path();
        if let Some(name) = file
            .file_name()
            .filter(|_| file.extension().is_some_and(|kind| kind == "js"))
        {
            fs::copy(&file, unfinished.join(name))?;
        }
    }

    let package = Manifest::read()?;
    let version = &package.version;
    fs::write(
        unfinished.join("version.js"),
        format!("export const version = '{version}';\n"),
    )?;
    let mut entry = String::new();
    if !glue.exported.is_empty() {
        entry.push_str(&format!(
            "export {{ {} }} from './glue.js';\n",
            glue.exported.join(", ")
        ));
    }
    for (name, file) in [
        ("RunContextError", "shim"),
        ("memoryStorage", "storage/memory"),
        ("version", "version"),
    ] {
        entry.push_str(&format!("export {{ {name} }} from './{file}.js';\n"));
    }
    fs::write(unfinished.join("api.js"), entry)?;
    package.fill(&unfinished.join("package.json"))?;

    let finished = places::package();
    if finished.exists() {
        fs::remove_dir_all(&finished)?;
    }
    fs::rename(&unfinished, &finished).context("cannot put pkg/ in its place")
}

fn read(file: &Path) -> Result<String> {
    fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// What `package.json` takes from `Cargo.toml`.
struct Manifest {
    name: String,
    version: String,
    description: String,
    license: String,
}

impl Manifest {
    fn read() -> Result<Self> {
        let manifest: toml::Table = toml::from_str(&read(&places::root().join("Cargo.toml"))?)?;
        let field = |name: &str| match manifest.get("package").and_then(|package| package.get(name)) {
            Some(toml::Value::String(text)) => Ok(text.clone()),
            _ => bail!("Cargo.toml has no package.{name}"),
        };
        Ok(Self {
            name: field("name")?,
            version: field("version")?,
            description: field("description")?,
            license: field("license")?,
        })
    }

    fn fill(&self, file: &Path) -> Result<()> {
        let template: Value =
            serde_json::from_str(&read(file)?).context("pkg-template/package.json is malformed")?;
        let Value::Object(template) = template else {
            bail!("pkg-template/package.json is no object");
        };
        let mut filled = serde_json::Map::new();
        for (name, value) in [
            ("name", &self.name),
            ("version", &self.version),
            ("description", &self.description),
            ("license", &self.license),
        ] {
            filled.insert(name.to_owned(), Value::from(value.as_str()));
        }
        for (name, value) in template {
            if filled.insert(name.clone(), value).is_some() {
                bail!("pkg-template/package.json must not say `{name}`: it comes from Cargo.toml");
            }
        }
        Ok(fs::write(file, format!("{:#}\n", Value::Object(filled)))?)
    }
}
