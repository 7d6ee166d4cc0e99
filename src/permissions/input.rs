//! A whole question as one value: what the pure functions `decide` and `pathsToResolve` take.

use serde_json::Value;

use super::{
    gate::{Inquiry, Place, Query, ResolvedPath},
    tool::{ToolPolicy, extracted, texts_in},
};
use crate::{
    Result,
    list::Listed,
    message::MessageView,
    paths::Fold,
    run_context::RunContext,
    untyped::{self, FromJson, Reader, field_error},
};

/// The names that are closed below the roots where the host names no others.
pub const PROTECTED_NAMES: [&str; 1] = ["secrets"];

/// Protected names as they are compared.
///
/// # Errors
/// `invalid_argument` for a name that no path segment can be.
pub fn protected_names(names: Option<Vec<String>>, fold: Fold) -> Result<Vec<String>> {
    let Some(names) = names else {
        return Ok(PROTECTED_NAMES.iter().map(|name| fold(name)).listed());
    };
    let wrong = |name: &&String| {
        name.trim().is_empty() || name.contains(['/', '\\', '\0']) || matches!(name.as_str(), "." | "..")
    };
    match names.iter().find(wrong) {
        Some(name) => Err(field_error(
            "protectedNames",
            &format!("holds `{name}`, which is no name of a file or directory"),
        )),
        None => Ok(names.iter().map(|name| fold(name)).listed()),
    }
}

/// Everything that one decision depends on, but the rules.
#[derive(Clone, Debug)]
pub struct DecideInput {
    /// The call, and what it is judged by.
    pub inquiry: Inquiry,
    resolved: Vec<(Query, ResolvedPath)>,
}

struct Answer(Query, ResolvedPath);

impl FromJson for Answer {
    fn from_json(value: &Value, path: &str) -> Result<Self> {
        let object = untyped::object(value, path)?;
        let query = Query {
            base: untyped::member(object, path, "base")?,
            path: untyped::member(object, path, "path")?,
        };
        let result = object.get("result").unwrap_or(&Value::Null);
        Ok(Self(
            query,
            ResolvedPath::from_json(result, &untyped::join(path, "result"))?,
        ))
    }
}

impl DecideInput {
    /// Reads an input. `found` is what the tool's `extractPaths` returned, null where it has none.
    ///
    /// # Errors
    /// `invalid_argument` with the path of the `field`.
    pub fn parse(value: &Value, found: &Value, fold: Fold) -> Result<Self> {
        let mut object = Reader::new(value, "input");
        let call = object.get("call").unwrap_or(&Value::Null);
        let mut call = Reader::new(call, "input.call");
        let tool_name: String = call.read("toolName");
        let arguments = call.get("arguments").cloned().unwrap_or_default();
        object.taken(call.finish(()));

        let mut tool: Option<ToolPolicy> = object.read("tool");
        if let Some(tool) = &mut tool {
            tool.extracts = !found.is_null();
            object.taken(tool.check("input.tool"));
        }
        let style = object.read_or_default("pathStyle");
        let cwd: String = object.read("cwd");
        let workspace: Option<String> = object.read("workspaceRoot");
        let run_context: Option<RunContext> = object.read("runContext");
        if let Some(context) = &run_context {
            object.taken(context.check(style, "input.runContext"));
        }
        let own_group = || {
            run_context
                .as_ref()
                .and_then(|context| context.tool_group_id().map(str::to_owned))
        };
        let group = match object.get("group") {
            None => own_group(),
            Some(_) => object
                .read::<Option<String>>("group")
                .filter(|group| !group.is_empty()),
        };
        let names = object.read("protectedNames");
        let protected = object.taken(protected_names(names, fold));
        let resolved: Option<Vec<Answer>> = object.read("resolved");
        let place = object.taken(Place::new(style, &cwd, workspace.as_deref()).map(Some));
        let (requests, texts) = match tool.as_ref().filter(|tool| tool.declares_paths()) {
            Some(tool) => {
                let mut requests = tool.requests(&arguments);
                if tool.extracts {
                    requests.append(&mut object.taken(extracted(found)));
                }
                (requests, Vec::new())
            }
            None => (Vec::new(), texts_in(&arguments)),
        };
        let input = place.map(|place| Self {
            inquiry: Inquiry {
                tool_name,
                tool,
                requests,
                texts,
                place,
                preset: object.read("preset"),
                group,
                groups: object.read("groups"),
                run_context,
                agent_id: object.read("agentId"),
                source: object.read("source"),
                bypasses: object.read_or_default("bypasses"),
                headless: object.read_or_default("headless"),
                protected,
                unverified: None,
                // Without a clock every bypass that ends has ended.
                now: object.read::<Option<f64>>("now").unwrap_or(f64::INFINITY),
            },
            resolved: resolved
                .unwrap_or_default()
                .into_iter()
                .map(|Answer(query, result)| (query, result))
                .listed(),
        });
        let input = object.finish(input)?;
        input.ok_or_else(|| field_error("input.cwd", "must be an absolute path"))
    }

    /// Another call, another time, other answers; all else as it was. `resolved` holds base, path and answer of each, one after
    /// another with NUL between: the answer begins with `c` where it is canonical.
    pub fn changes<M: MessageView>(
        &mut self,
        tool_name: String,
        arguments: &M,
        now: Option<f64>,
        resolved: &str,
    ) {
        let inquiry = &mut self.inquiry;
        inquiry.tool_name = tool_name;
        inquiry.now = now.unwrap_or(f64::INFINITY);
        match inquiry.tool.as_ref().filter(|tool| tool.declares_paths()) {
            Some(tool) => inquiry.requests = tool.requests(arguments),
            None => inquiry.texts = texts_in(arguments),
        }
        self.resolved.clear();
        let mut parts = resolved.split('\0');
        while let (Some(base), Some(path), Some(answer)) = (parts.next(), parts.next(), parts.next()) {
            let query = Query {
                base: base.to_owned(),
                path: path.to_owned(),
            };
            let answer = match answer.strip_prefix('c') {
                Some(canonical) => ResolvedPath::Canonical(canonical.to_owned()),
                None => ResolvedPath::Unresolved(answer.get(1..).unwrap_or_default().to_owned()),
            };
            self.resolved.push((query, answer));
        }
    }

    /// What the host says of these paths.
    pub fn answers(&self, queries: &[Query]) -> Vec<ResolvedPath> {
        let answer = |query: &Query| {
            let found = self.resolved.iter().find(|(other, _)| other == query);
            found.map_or_else(
                || ResolvedPath::Unresolved("the host gave no answer".to_owned()),
                |(_, result)| result.clone(),
            )
        };
        queries.iter().map(answer).listed()
    }
}
