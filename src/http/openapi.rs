//! The routes as OpenAPI 3.1 describes them. It is no part of the module: the package has it as `openapi.json`.

use serde_json::{Map, Value, json};

use super::{Body, Given, Operation, ROUTES, Route};
use crate::ErrorCode;

/// The description.
pub fn description() -> Value {
    let mut paths = json!({});
    for route in ROUTES {
        let methods = paths.get(route.path).cloned().unwrap_or_else(|| json!({}));
        let methods = with(methods, &route.method.to_lowercase(), operation(route));
        paths = with(paths, route.path, methods);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "runcontext",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "The routes of `Runtime.fetch`. The host's `authorize` decides about every request before its body is read.",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        // Wherever the host serves them.
        "servers": [{ "url": "/" }],
        "paths": paths,
        "components": {
            "schemas": schemas(),
            "responses": { "Refused": { "description": "Why not, and what to do.", "content": content(&named("Refused")) } },
        },
    })
}

fn operation(route: &Route) -> Value {
    let given = match schema_of(route.given) {
        Some(schema) => json!({ "description": "Done.", "content": content(&schema) }),
        None => json!({ "description": "Done. There is no body." }),
    };
    let mut responses = json!({ route.status.to_string(): given });
    for status in refusals(route) {
        let refused = json!({ "$ref": "#/components/responses/Refused" });
        responses = with(responses, &status.to_string(), refused);
    }
    let parameters: Vec<Value> = ids(route)
        .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }))
        .collect();
    let operation = json!({
        "operationId": route.name,
        "summary": summary(route.operation),
        "parameters": parameters,
        "responses": responses,
    });
    match schema_of_body(route.body) {
        Some(schema) => {
            let body = json!({ "required": true, "content": content(&schema) });
            with(operation, "requestBody", body)
        }
        None => operation,
    }
}

/// An object with one member more, or another.
fn with(mut object: Value, name: &str, value: Value) -> Value {
    if let Some(members) = object.as_object_mut() {
        members.insert(name.to_owned(), value);
    }
    object
}

fn ids(route: &Route) -> impl Iterator<Item = &'static str> {
    let parts = route.path.split('/');
    parts.filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

/// Every other status that an operation may have.
fn refusals(route: &Route) -> Vec<u16> {
    // Not allowed, aborted, somebody else was faster, a failure of the host or of its storage.
    let mut statuses = vec![403, 408, 409, 500, 503];
    if route.body != Body::Nothing {
        statuses.extend([413, 415]);
    }
    if route.body != Body::Nothing || ids(route).next().is_some() {
        statuses.extend([400, 404]);
    }
    statuses.sort_unstable();
    statuses
}

fn summary(operation: Operation) -> &'static str {
    match operation {
        Operation::GetSessionRunContext => "What a session runs as.",
        Operation::SetSessionRunContext => {
            "Sets what a session runs as, or clears it by null. It is saved, and in force for a session that is open: what is \
             tightened decides the next call, what is loosened the next prompt."
        }
        Operation::GetProjectRunContext => "What sessions for a project run as; null where it says nothing.",
        Operation::SetProjectRunContext => {
            "Sets what sessions for a project run as, or clears it by null. Sessions that were opened stay as they are."
        }
        Operation::GetTicketRunContext => {
            "What sessions for a ticket run as; null where it says nothing, and then its project counts."
        }
        Operation::SetTicketRunContext => {
            "Sets what sessions for a ticket run as, or clears it by null. Sessions that were opened stay as they are."
        }
        Operation::GetJobRunContext => "What sessions of a scheduled job run as; null where it says nothing.",
        Operation::SetJobRunContext => {
            "Sets what sessions of a scheduled job run as, or clears it by null. Sessions that were opened stay as they are."
        }
        Operation::ListRules => {
            "Every rule, in the order in which they are looked at. Those with negative ids are built in."
        }
        Operation::AddRule => "Adds a rule. Its id is given here.",
        Operation::UpdateRule => "Changes the members of a rule that are given; null takes one away.",
        Operation::DeleteRule => "Deletes a rule.",
        Operation::ListGroups => "Every permission group, by id.",
        Operation::CreateGroup => "Creates a group, without rules.",
        Operation::UpdateGroup => "Gives a group another name and description.",
        Operation::DeleteGroup => {
            "Deletes a group with its rules. `default` stays, and so does a group that a run context names."
        }
        Operation::DuplicateGroup => "Creates a group with copies of the rules of this one.",
        Operation::ListApprovals => "Every call that waits for a person, the oldest first.",
        Operation::ResolveApproval => {
            "A person's answer. Approving looks again at the rules and at where the call leads; what has changed is asked again, \
             and the outcome is `superseded`."
        }
    }
}

fn schema_of_body(body: Body) -> Option<Value> {
    Some(match body {
        Body::Nothing => return None,
        Body::RunContext => nullable(&named("RunContext")),
        Body::NewRule => named("NewRule"),
        Body::RuleChange => named("RuleChange"),
        Body::NewGroup => named("NewGroup"),
        Body::GroupChange => named("GroupChange"),
        Body::Decision => named("Decision"),
    })
}

fn schema_of(given: Given) -> Option<Value> {
    let list = |name| json!({ "type": "array", "items": named(name) });
    Some(match given {
        Given::Nothing => return None,
        Given::RunContext => nullable(&named("RunContext")),
        Given::Rules => list("Rule"),
        Given::Rule => named("Rule"),
        Given::Groups => list("Group"),
        Given::Group => named("Group"),
        Given::Approvals => list("PendingApproval"),
        Given::Resolved => named("Resolved"),
    })
}

fn content(schema: &Value) -> Value {
    json!({ "application/json": { "schema": schema } })
}

fn named(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

fn nullable(schema: &Value) -> Value {
    json!({ "anyOf": [schema, { "type": "null" }] })
}

/// An object: a question mark behind a name says that the member may be absent.
fn object(members: &[(&str, Value)]) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (name, schema) in members {
        let bare = name.trim_end_matches('?');
        properties.insert(bare.to_owned(), schema.clone());
        if bare == *name {
            required.push(bare);
        }
    }
    json!({ "type": "object", "properties": properties, "required": required })
}

/// An object that has no other members.
fn closed(members: &[(&str, Value)]) -> Value {
    with(object(members), "additionalProperties", Value::from(false))
}

fn schemas() -> Value {
    let text = json!({ "type": "string" });
    let visible = json!({ "type": "string", "pattern": "\\S" });
    let maybe = json!({ "type": ["string", "null"] });
    let texts = json!({ "type": "array", "items": { "type": "string" } });
    let group_id = json!({ "type": "string", "pattern": "^[A-Za-z0-9_-]{1,128}$" });
    let codes: Vec<&str> = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
    let rule = [
        ("tool_pattern", text.clone()),
        ("action", json!({ "enum": ["allow", "deny", "require"] })),
        ("agent_id?", maybe.clone()),
        ("source?", maybe.clone()),
        ("path_pattern?", maybe.clone()),
        ("note?", maybe.clone()),
        (
            "priority?",
            json!({ "type": "integer", "minimum": 0, "maximum": 1_000_000 }),
        ),
        ("group_id?", group_id.clone()),
        ("locked?", json!({ "type": "boolean" })),
    ];
    let mut stored = vec![("id", json!({ "type": "integer" }))];
    for (name, schema) in &rule {
        // Only where it is true.
        let is_there = *name != "locked?";
        stored.push((
            if is_there {
                name.trim_end_matches('?')
            } else {
                name
            },
            schema.clone(),
        ));
    }
    let path = closed(&[
        (
            "argument",
            json!({ "type": "string", "description": "Where in the arguments, as a JSON pointer." }),
        ),
        ("access", json!({ "enum": ["read", "write"] })),
        ("requested", text.clone()),
        ("lexical", text.clone()),
        ("canonical", maybe.clone()),
        ("unresolved", maybe.clone()),
    ]);
    json!({
        "RunContext": object(&[
            ("security_group?", maybe.clone()),
            ("system_prompt?", texts.clone()),
            ("allow_fs_writes?", texts.clone()),
            ("allow_fs_reads?", texts),
            ("working_directory?", maybe.clone()),
        ]),
        "Rule": closed(&stored),
        "NewRule": object(&rule),
        "RuleChange": with(object(&rule), "required", json!([])),
        "Group": closed(&[("id", group_id.clone()), ("name", visible.clone()), ("description", maybe.clone())]),
        "NewGroup": object(&[("id", group_id), ("name", visible.clone()), ("description?", maybe.clone())]),
        "GroupChange": object(&[("name", visible), ("description?", maybe.clone())]),
        "PendingApproval": closed(&[
            ("request_id", text.clone()),
            ("session_id", text.clone()),
            ("tool_call_id", text.clone()),
            ("tool_name", text.clone()),
            ("arguments", json!({ "description": "As the model gave them." })),
            ("agent_id", text.clone()),
            ("source", text.clone()),
            ("context_label", maybe.clone()),
            ("created_at", json!({ "type": "string", "format": "date-time" })),
            ("tool_category", maybe.clone()),
            ("mcp_server", maybe.clone()),
            ("paths", json!({ "type": "array", "items": path })),
            ("working_directory", text.clone()),
            ("reason", text.clone()),
            ("message", text.clone()),
            ("status", json!({ "const": "pending" })),
        ]),
        "Decision": closed(&[
            ("action", json!({ "enum": ["approve", "reject"] })),
            ("note?", maybe.clone()),
            (
                "bypass_secs?",
                json!({
                    "type": ["number", "null"],
                    "minimum": 0,
                    "description": "So long nobody is asked about such calls; 0 is until the page or worker restarts.",
                }),
            ),
            ("bypass_scope?", json!({ "enum": ["all", "category", "mcp_server", null] })),
        ]),
        "Resolved": closed(&[
            ("request_id", text.clone()),
            ("outcome", json!({ "enum": ["approved", "rejected", "cancelled", "superseded"] })),
            ("note", maybe.clone()),
            ("message", maybe),
        ]),
        "Refused": closed(&[("error", object(&[("code", json!({ "enum": codes })), ("message", text)]))]),
    })
}
