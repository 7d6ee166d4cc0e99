//! A whole question as one value: what the pure functions `decide` and `pathsToResolve` take.

use serde_json::Value;

use super::{
    decision::{Decision, Reason},
    gate::Inquiry,
    ground::{Answer, Ground, Place, Query, ResolvedPath},
    policy::Policy,
    rule::Action,
    tool::{Requested, ToolPolicy, extracted, texts_in},
};
use crate::{
    Result,
    list::Listed,
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

struct Given(Query, ResolvedPath);

impl FromJson for Given {
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
        let resolved: Option<Vec<Given>> = object.read("resolved");
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
                .map(|Given(query, result)| (query, result))
                .listed(),
        });
        let input = object.finish(input)?;
        input.ok_or_else(|| field_error("input.cwd", "must be an absolute path"))
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

/// An input of which others differ in nothing but the tool's name, the paths in the arguments and what the host says of those.
/// That comes as one text: the name, the paths, and an answer for each of them, with NUL behind each; an answer begins with `c`
/// where it is canonical.
#[derive(Debug)]
pub struct Repeated {
    inquiry: Inquiry,
    standing: Vec<ResolvedPath>,
    ground: Ground,
}

impl Repeated {
    /// None where more of an input counts: what a tool finds in its arguments itself, texts that may be paths, the time.
    pub fn new(input: DecideInput, policy: &Policy) -> Option<Self> {
        let standing = input.answers(&input.inquiry.standing());
        let mut inquiry = input.inquiry;
        let tool = inquiry.tool.as_ref()?;
        if tool.members().is_none() || !inquiry.bypasses.is_empty() {
            return None;
        }
        inquiry.requests = tool.requests(&Value::Null);
        let mut answers = standing.iter().map(ResolvedPath::answer);
        Some(Self {
            ground: Ground::new(&inquiry, policy.fold(), &mut answers),
            inquiry,
            standing,
        })
    }

    /// The members of the arguments that hold the paths: each must be a text.
    pub fn members(&self) -> Vec<&str> {
        let members = self.inquiry.tool.as_ref().and_then(ToolPolicy::members);
        members.unwrap_or_default()
    }

    /// What the host is asked about first. What it says of that is as it was.
    pub fn standing(&self) -> Vec<Query> {
        self.inquiry.standing()
    }

    /// The outcome, the step that set it, and whether a rule did. None where the text is not that of such an input.
    pub fn outcome(&mut self, policy: &Policy, text: &str) -> Option<(Action, Reason, bool)> {
        let mut answers = self.take(text)?;
        Some(self.inquiry.outcome(policy, &self.ground, &mut answers))
    }

    /// The decision, and how it came about where that is wanted.
    pub fn decide(&mut self, policy: &Policy, text: &str, traced: bool) -> Option<Decision> {
        let mut answers = self.standing.clone();
        for answer in self.take(text)? {
            answers.push(match answer {
                Answer::Canonical(path) => ResolvedPath::Canonical(path.to_owned()),
                Answer::Unresolved(why) => ResolvedPath::Unresolved(why.to_owned()),
            });
        }
        Some(if traced {
            self.inquiry.explain(policy, &answers)
        } else {
            self.inquiry.decide(policy, &answers)
        })
    }

    /// Takes what is new, and gives what the host says of it.
    fn take<'t>(&mut self, text: &'t str) -> Option<impl Iterator<Item = Answer<'t>> + use<'t>> {
        let mut parts = Parts(text);
        self.inquiry.tool_name.clear();
        self.inquiry.tool_name.push_str(parts.next()?);
        for request in &mut self.inquiry.requests {
            let path = parts.next()?;
            match &mut request.requested {
                Requested::Path(requested) => {
                    requested.clear();
                    requested.push_str(path);
                }
                Requested::NoPath => return None,
            }
        }
        Some(parts.map(|answer| match answer.strip_prefix('c') {
            Some(canonical) => Answer::Canonical(canonical),
            None => Answer::Unresolved(answer.get(1..).unwrap_or_default()),
        }))
    }
}

/// Texts with NUL behind each.
struct Parts<'t>(&'t str);

impl<'t> Iterator for Parts<'t> {
    type Item = &'t str;

    fn next(&mut self) -> Option<&'t str> {
        let end = self.0.as_bytes().iter().position(|byte| *byte == 0)?;
        let part = self.0.get(..end)?;
        self.0 = self.0.get(end + 1..)?;
        Some(part)
    }
}
