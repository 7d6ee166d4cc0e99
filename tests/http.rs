//! The table of HTTP routes: what matches, what is refused, and what is described.
#![cfg(not(target_family = "wasm"))]

use runcontext::{
    Error, ErrorCode,
    http::{Answer, Asked, LONGEST_BODY, ROUTES, openapi, read_body, status_of, take},
    session::Texts,
};
use serde_json::{Value, json};

/// As the browser reads: serde has the same limit of depth, and keeps the last of two members.
const TEXTS: Texts<Value> = Texts {
    read: |text, _| {
        let value: Value = serde_json::from_str(text).ok()?;
        let members = members(&value);
        Some((value, members))
    },
    value: Clone::clone,
    lists: |_| [Value::Null, Value::Null, Value::Null],
    written: |value| value.to_string(),
    iso: |_| String::new(),
};

fn members(value: &Value) -> u32 {
    match value {
        Value::Array(items) => items.iter().map(members).sum(),
        Value::Object(object) => object.values().map(|value| 1 + members(value)).sum(),
        _ => 0,
    }
}

/// The name of the operation and the ids, or the status of the refusal.
fn asked(method: &str, url: &str) -> Result<(&'static str, Vec<String>), u16> {
    match Asked::of(method, url) {
        Ok(asked) => Ok((
            asked.route.name,
            asked.ids.into_iter().map(|(_, id)| id).collect(),
        )),
        Err(answer) => Err(answer.status),
    }
}

fn read(body: &str) -> Result<Value, String> {
    read_body(body.as_bytes().to_vec(), &TEXTS).map_err(|error| error.message().to_owned())
}

#[test]
fn the_table_has_the_routes_of_the_contract() {
    let routes: Vec<String> = ROUTES
        .iter()
        .map(|route| format!("{} {}", route.method, route.path))
        .collect();
    assert_eq!(
        routes,
        [
            "GET /api/sessions/{id}/run_context",
            "POST /api/sessions/{id}/run_context",
            "GET /api/projects/{id}/run_context",
            "POST /api/projects/{id}/run_context",
            "GET /api/projects/{project_id}/tickets/{ticket_id}/run_context",
            "POST /api/projects/{project_id}/tickets/{ticket_id}/run_context",
            "GET /api/jobs/{id}/run_context",
            "POST /api/jobs/{id}/run_context",
            "GET /api/approval/rules",
            "POST /api/approval/rules",
            "PUT /api/approval/rules/{id}",
            "DELETE /api/approval/rules/{id}",
            "GET /api/permission-groups",
            "POST /api/permission-groups",
            "PUT /api/permission-groups/{id}",
            "DELETE /api/permission-groups/{id}",
            "POST /api/permission-groups/{id}/duplicate",
            "GET /api/inbox",
            "POST /api/inbox/approvals/{request_id}/resolve",
        ]
    );
}

#[test]
fn every_route_is_found_by_its_method_and_its_path_with_ids_decoded() {
    for route in ROUTES {
        let path = route
            .path
            .replace("{id}", "a%20b%C3%A4")
            .replace("{project_id}", "p")
            .replace("{ticket_id}", "t%2D")
            .replace("{request_id}", "~r.-_");
        let ids = match route.path {
            path if path.contains("{id}") => vec!["a bä".to_owned()],
            path if path.contains("{ticket_id}") => vec!["p".to_owned(), "t-".to_owned()],
            path if path.contains('{') => vec!["~r.-_".to_owned()],
            _ => Vec::new(),
        };
        for url in [
            format!("https://user@example.com:8443{path}"),
            format!("http://h{path}?a=/b#c/d"),
            path.clone(),
        ] {
            assert_eq!(asked(route.method, &url), Ok((route.name, ids.clone())), "{url}");
        }
    }
}

#[test]
fn an_id_that_cannot_be_one_is_refused() {
    for id in [
        "%",
        "%2",
        "%zz",
        "%2g",
        "a%",
        "%ff",
        "%c3",
        "%ed%a0%80",
        "%2f",
        "%2F",
        "a%2fb",
        "%5c",
        "\\",
        "..",
        ".",
        "%2e",
        "%2e%2e",
        ".%2E",
        "%00",
        "%0a",
        "%7f",
        "%c2%80",
    ] {
        assert_eq!(
            asked("GET", &format!("http://h/api/sessions/{id}/run_context")),
            Err(400),
            "{id}"
        );
    }
    assert_eq!(
        asked("GET", "/api/sessions/.../run_context"),
        Ok(("getSessionRunContext", vec!["...".to_owned()]))
    );
    // Decoded once.
    assert_eq!(
        asked("GET", "/api/sessions/%252f/run_context"),
        Ok(("getSessionRunContext", vec!["%2f".to_owned()]))
    );
}

#[test]
fn a_path_that_is_none_of_the_table_is_not_found_however_it_leads_there() {
    for path in [
        "",
        "/",
        "/api",
        "/api/",
        "/api/inbox/",
        "//api/inbox",
        "/api//inbox",
        "/./api/inbox",
        "/api/./inbox",
        "/x/../api/inbox",
        "/api/sessions//run_context",
        "/api/sessions/s/../s/run_context",
        "/api/sessions/s/run_context/",
        "/api/sessions/s",
        "/api/sessions/run_context",
        "/api/Inbox",
        "/API/inbox",
        "/%61pi/inbox",
        "/api%2finbox",
        "/api/inbox%00",
        "/api/inbox;a=b",
        "/api/approval/rules/1/2",
        "/api/sessions/{id}/run_context/x",
        "/api/inbox/approvals/resolve",
        "/api\\inbox",
    ] {
        for method in ["GET", "POST"] {
            assert_eq!(
                asked(method, &format!("http://h{path}")),
                Err(404),
                "{method} {path}"
            );
        }
    }
    // What is behind the path is none of it.
    assert_eq!(asked("GET", "http://h?/api/inbox"), Err(404));
    assert_eq!(asked("GET", "http://h/#/api/inbox"), Err(404));
}

#[test]
fn another_method_of_a_path_is_told_which_there_are() {
    let allowed = [
        ("/api/sessions/s/run_context", "GET, POST"),
        ("/api/approval/rules", "GET, POST"),
        ("/api/approval/rules/1", "PUT, DELETE"),
        ("/api/permission-groups/g", "PUT, DELETE"),
        ("/api/permission-groups/g/duplicate", "POST"),
        ("/api/inbox", "GET"),
        // Before anybody looks at the id.
        ("/api/inbox/approvals/%2f/resolve", "POST"),
    ];
    for (path, allow) in allowed {
        for method in ["HEAD", "OPTIONS", "PATCH", "TRACE", "get", "post", "", "PROPFIND"] {
            let answer = Asked::of(method, path).unwrap_err();
            assert_eq!(
                (answer.status, answer.allow.as_deref()),
                (405, Some(allow)),
                "{method} {path}"
            );
            let body = answer.body.unwrap();
            assert_eq!(body["error"]["code"], "invalid_argument");
            assert_eq!(
                body["error"]["message"],
                format!("there is no such method here; use one of `{allow}`")
            );
        }
    }
}

#[test]
fn a_body_is_json_whatever_else_its_type_says() {
    let asked = Asked::of("POST", "/api/approval/rules").unwrap();
    for good in [
        "application/json",
        "Application/JSON ; charset=utf-8",
        "application/json;v=1;Charset=\"UTF-8\"",
        " application/json;",
    ] {
        assert_eq!(asked.check_type(Some(good)), Ok(()), "{good}");
    }
    for bad in [
        "text/plain",
        "application/jsonp",
        "text/json",
        "application/x-www-form-urlencoded",
        "",
        "multipart/form-data; application/json",
        "application/json; charset=utf-16",
        "application/json;charset=\"latin1\"",
    ] {
        assert_eq!(asked.check_type(Some(bad)).unwrap_err().status, 415, "{bad}");
    }
    assert_eq!(asked.check_type(None).unwrap_err().status, 415);
}

#[test]
fn a_body_is_taken_up_to_one_mebibyte() {
    let mut body = Vec::new();
    for _ in 0..LONGEST_BODY / 1024 {
        take(&mut body, &[b' '; 1024]).unwrap();
    }
    assert_eq!(body.len(), 1024 * 1024);
    take(&mut body, b"").unwrap();
    let refused = take(&mut body, b" ").unwrap_err();
    assert_eq!(refused.status, 413);
    assert_eq!(body.len(), 1024 * 1024);
}

#[test]
fn a_body_says_one_thing_to_whoever_reads_it() {
    assert_eq!(
        read(" { \"a\" : [ 1.0e2, {\"a\": null} ], \"b\": \"a\\\"b\\\\\" } \n"),
        Ok(json!({ "a": [1.0e2, { "a": null }], "b": "a\"b\\" }))
    );
    assert_eq!(read("null"), Ok(Value::Null));
    for name in ["__proto__", "constructor", "prototype"] {
        let refused =
            format!("`body` has a member `{name}`, which is a name of JavaScript's own; leave it out");
        for text in [
            format!("{{\"{name}\":1}}"),
            format!("[{{\"a\":{{\"{name}\":null}}}}]"),
        ] {
            assert_eq!(read(&text), Err(refused.clone()), "{text}");
        }
    }
    let twice = "`body` names a member of an object twice; name it once";
    for text in [
        "{\"a\":1,\"a\":1}",
        "[{\"b\":[{\"a\":1,\"a\":2}]}]",
        "{\"a\":1,\"\\u0061\":2}",
        "{\"__proto__\":1,\"__proto__\":2}",
    ] {
        assert_eq!(read(text), Err(twice.to_owned()), "{text}");
    }
    let no_json =
        "`body` is no JSON text, holds half of a surrogate pair, or is nested deeper than 128 levels";
    let deep = "[".repeat(10_000) + &"]".repeat(10_000);
    for text in [
        "",
        " ",
        "{",
        "{'a':1}",
        "[1,]",
        "NaN",
        "undefined",
        "\u{feff}null",
        "null null",
        "// a\nnull",
        deep.as_str(),
    ] {
        assert_eq!(read(text), Err(no_json.to_owned()), "{text}");
    }
    for number in ["-0", "9007199254740993", "1e400", "0.1000000000000000001"] {
        let refused =
            format!("`body` holds the number `{number}`, which a double does not hold; write it as text");
        assert_eq!(read(&format!("{{\"seq\":{number}}}")), Err(refused), "{number}");
    }
    let not_utf_8 = read_body(b"\"\xff\"".to_vec(), &TEXTS).unwrap_err();
    assert_eq!(not_utf_8.message(), "`body` is not UTF-8; send it as UTF-8");
}

#[test]
fn every_code_has_its_status_and_goes_out_with_what_it_knows() {
    let answer = Answer::from(
        Error::new(ErrorCode::GroupInUse, "it is used")
            .with("group", "g")
            .with("code", "mine"),
    );
    let body = json!({ "error": { "code": "group_in_use", "message": "it is used", "group": "g" } });
    assert_eq!(
        answer,
        Answer {
            status: 409,
            allow: None,
            body: Some(body)
        }
    );
    let with_status = |status: u16| -> Vec<&str> {
        let codes = ErrorCode::ALL.iter().filter(|code| status_of(**code) == status);
        codes.map(|code| code.as_str()).collect()
    };
    assert_eq!(with_status(400), ["invalid_argument"]);
    assert_eq!(with_status(403), ["unauthorized"]);
    assert_eq!(with_status(404), ["not_found", "approval_not_found"]);
    assert_eq!(with_status(408), ["aborted"]);
    assert_eq!(
        with_status(409),
        [
            "session_busy",
            "session_interrupted",
            "pending_approvals",
            "pending_save",
            "conflict",
            "approval_changed",
            "group_protected",
            "group_in_use",
            "rule_conflict",
        ]
    );
    assert_eq!(
        with_status(503),
        [
            "disposed",
            "storage_blocked",
            "storage_quota",
            "storage_lost",
            "storage_schema_newer",
            "storage_failed"
        ]
    );
    let known: usize = [400, 403, 404, 408, 409, 500, 503]
        .map(|status| with_status(status).len())
        .iter()
        .sum();
    assert_eq!(known, ErrorCode::ALL.len());
}

#[test]
fn the_description_has_exactly_the_routes_of_the_table_with_their_ids_and_statuses() {
    let description = openapi::description();
    assert_eq!(description["openapi"], "3.1.0");
    let mut described = Vec::new();
    for (path, methods) in description["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            described.push((method.to_uppercase(), path.clone(), operation.clone()));
        }
    }
    assert_eq!(described.len(), ROUTES.len());
    for route in ROUTES {
        let found = described
            .iter()
            .find(|(method, path, _)| method == route.method && path == route.path);
        let (.., operation) = found.unwrap();
        assert_eq!(operation["operationId"], route.name);
        let parameters = operation["parameters"].as_array().unwrap();
        let names: Vec<String> = parameters
            .iter()
            .map(|it| format!("{{{}}}", it["name"].as_str().unwrap()))
            .collect();
        assert_eq!(
            names,
            route
                .path
                .split('/')
                .filter(|part| part.starts_with('{'))
                .collect::<Vec<_>>()
        );
        let responses = operation["responses"].as_object().unwrap();
        let good: Vec<&String> = responses
            .keys()
            .filter(|status| status.starts_with('2'))
            .collect();
        assert_eq!(good, [&route.status.to_string()]);
        assert_eq!(
            responses[&route.status.to_string()]["content"].is_null(),
            route.status == 204
        );
        assert_eq!(
            operation["requestBody"].is_null(),
            matches!(route.method, "GET" | "DELETE")
        );
        assert_eq!(responses.contains_key("413"), !operation["requestBody"].is_null());
    }
    let text = description.to_string();
    for piece in text.split("\"#/components/schemas/").skip(1) {
        let name = piece.split('"').next().unwrap();
        assert!(description["components"]["schemas"][name].is_object(), "{name}");
    }
}
