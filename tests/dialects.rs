//! The dialects: what is read in a message of each, what is written in each, and how results are paired. Everything expected
//! is written by hand.
#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;
#[cfg(target_family = "wasm")]
wasm_bindgen_test::wasm_bindgen_test_configure!(run_in_browser);

use runcontext::{
    ErrorCode, Result,
    context::{Notice, Projection, RuntimeContextSnapshot, materialise, project},
    message::{
        Call,
        Dialect::{self, AiSdk, Anthropic, Loop, OpenAiChat},
        MessageIndex, MessageOutline, StopKind, texts,
    },
    session::NewSession,
};
use serde_json::{Value, json};

#[path = "lab/converted.rs"]
pub mod converted;
#[path = "lab/pairing.rs"]
pub mod pairing;
#[path = "lab/random.rs"]
pub mod random;
#[path = "lab/spoken.rs"]
pub mod spoken;
#[path = "lab/tokens.rs"]
pub mod tokens;

use converted::{Grouping, converted};
use pairing::{answers_in, call_ids_in, check_pairs_in, is_results};
use random::Random;
use spoken::{ALL, CUT_OFF, calls, result, result_at, says, typed};
use tokens::json_tokens;

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

#[test]
fn dialects_have_the_names_of_the_contract() {
    let named = [
        (Loop, "loop"),
        (OpenAiChat, "openai-chat"),
        (Anthropic, "anthropic"),
        (AiSdk, "ai-sdk"),
    ];
    for (dialect, name) in named {
        assert_eq!(dialect.as_str(), name);
        assert_eq!(serde_json::to_value(dialect).unwrap(), json!(name));
        let options = NewSession::parse(&json!({ "dialect": name })).unwrap();
        assert_eq!(options.dialect, Some(dialect));
    }
    assert_eq!(Dialect::default(), Loop);
    let error = NewSession::parse(&json!({ "dialect": "openai" })).unwrap_err();
    assert_eq!(
        error.message(),
        "`options.dialect` must be one of `loop`, `openai-chat`, `anthropic`, `ai-sdk`"
    );
}

#[test]
fn messages_in_words_have_the_same_outline_in_every_dialect() {
    let note = json!({ "role": "note", "content": "12345" });
    let system = json!({ "role": "system", "content": "123" });
    let blocks = json!({ "role": "note", "content": [{ "type": "tool_use" }, { "type": "tool-call" }, { "type": "toolCall" }] });
    for dialect in ALL {
        let cases = [
            (
                json!({ "role": "user", "content": "12345" }),
                json!({ "role": "user", "userTurn": true, "textLen": 5, "tokens": 4 }),
            ),
            (
                json!({ "role": "user", "content": [text("123"), text("45678")] }),
                json!({ "role": "user", "userTurn": true, "textLen": 8, "tokens": 3 + 4 }),
            ),
            (
                json!({ "role": "user", "content": [] }),
                json!({ "role": "user", "userTurn": true, "textLen": 0, "tokens": 0 }),
            ),
            (
                json!({ "role": "assistant", "content": "12345" }),
                json!({ "role": "assistant", "textLen": 5, "tokens": 4 }),
            ),
            (
                json!({ "role": "assistant", "content": [text("12345")] }),
                json!({ "role": "assistant", "textLen": 5, "tokens": 4 }),
            ),
            // Blocks and roles that nobody knows.
            (
                json!({ "role": "assistant", "content": [{ "type": "x", "data": 123 }] }),
                json!({ "role": "assistant", "textLen": 0, "tokens": json_tokens(&json!({ "type": "x", "data": 123 })) }),
            ),
            (
                note.clone(),
                json!({ "role": "other", "textLen": 0, "tokens": json_tokens(&note) }),
            ),
            (
                system.clone(),
                json!({ "role": "other", "textLen": 0, "tokens": json_tokens(&system) }),
            ),
            // No role knows these: they are none of its blocks.
            (
                blocks.clone(),
                json!({ "role": "other", "textLen": 0, "tokens": json_tokens(&blocks) }),
            ),
        ];
        for (message, expected) in cases {
            let outline = dialect.outline(&message, true).unwrap();
            let is = serde_json::to_value(&outline).unwrap();
            assert_eq!(is, expected, "{dialect:?} {message}");
            assert!(!dialect.outline(&message, false).unwrap().user_turn);
        }
    }
}

#[test]
fn an_outline_has_the_calls_the_results_and_the_size_of_a_message() {
    let call = |id: &str, name: &str| json!({ "id": id, "name": name });
    // What costs its JSON in a message with calls.
    let chat_call = json!({ "id": "c1", "type": "function", "function": { "name": "read", "arguments": "{\"path\":\"a\"}" } });
    let custom = json!({ "id": "c2", "type": "custom", "custom": { "name": "sql", "input": "select 1" } });
    let tool_use = json!({ "type": "tool_use", "id": "c1", "name": "read", "input": { "path": "a" } });
    let server = json!({ "type": "server_tool_use", "id": "s1", "name": "web_search", "input": {} });
    let found = json!({ "type": "web_search_tool_result", "tool_use_id": "s1", "content": [] });
    let hidden = json!({ "type": "redacted_thinking", "data": "AAAA" });
    let own =
        json!({ "type": "tool-call", "toolCallId": "c1", "toolName": "read", "input": { "path": "a" } });
    let provided = json!({ "type": "tool-call", "toolCallId": "p1", "toolName": "search", "input": {}, "providerExecuted": true });
    let asked = json!({ "type": "tool-approval-request", "approvalId": "a1", "toolCallId": "c1" });
    let agreed = json!({ "type": "tool-approval-response", "approvalId": "a1", "approved": true });
    let file = json!({ "type": "file", "data": "AAAA", "mediaType": "application/pdf" });
    let part = |id: &str, output: Value| json!({ "type": "tool-result", "toolCallId": id, "toolName": "read", "output": output });
    let denied = json!({ "type": "execution-denied", "reason": "no" });
    let object = json!({ "type": "json", "value": { "n": 1 } });
    let audio = json!({ "type": "input_audio", "input_audio": { "data": "AA", "format": "wav" } });
    let function = json!({ "role": "function", "name": "read", "content": "1" });
    let written = json!({ "type": "document", "source": { "type": "text", "media_type": "text/plain", "data": "12345678" } });
    let note = json!({ "type": "file", "data": "MTIz", "mediaType": "text/plain" });
    let cases = [
        // ---- openai-chat
        (
            OpenAiChat,
            json!({ "role": "assistant", "content": null, "tool_calls": [chat_call, custom] }),
            // null is one word.
            json!({
                "role": "assistant", "calls": [call("c1", "read"), call("c2", "sql")], "textLen": 0,
                "tokens": 2 + json_tokens(&chat_call) + json_tokens(&custom)
            }),
        ),
        (
            OpenAiChat,
            json!({ "role": "assistant", "tool_calls": [chat_call] }),
            json!({ "role": "assistant", "calls": [call("c1", "read")], "textLen": 0, "tokens": json_tokens(&chat_call) }),
        ),
        (
            OpenAiChat,
            json!({ "role": "assistant", "content": "1234", "tool_calls": [] }),
            json!({ "role": "assistant", "textLen": 4, "tokens": 4 }),
        ),
        (
            OpenAiChat,
            json!({ "role": "assistant", "content": [{ "type": "refusal", "refusal": "12345" }] }),
            json!({ "role": "assistant", "textLen": 5, "tokens": 4 }),
        ),
        (
            OpenAiChat,
            json!({ "role": "user", "content": [text("1234"), { "type": "image_url", "image_url": { "url": "data:," } }, audio] }),
            json!({ "role": "user", "userTurn": true, "textLen": 4, "tokens": 4 + 1_600 + 3_000 }),
        ),
        (
            OpenAiChat,
            json!({ "role": "tool", "tool_call_id": "c1", "content": "1234" }),
            json!({ "role": "toolResult", "answers": [call("c1", "")], "textLen": 4, "tokens": 4 }),
        ),
        (
            OpenAiChat,
            json!({ "role": "tool", "tool_call_id": "c1", "content": [text("12345678")] }),
            json!({ "role": "toolResult", "answers": [call("c1", "")], "textLen": 8, "tokens": 5 }),
        ),
        (
            OpenAiChat,
            function.clone(),
            json!({ "role": "other", "textLen": 0, "tokens": json_tokens(&function) }),
        ),
        // ---- anthropic
        (
            Anthropic,
            json!({ "role": "assistant", "content": [{ "type": "thinking", "thinking": "12345", "signature": "AAAAAAAA" }, hidden, tool_use] }),
            json!({
                "role": "assistant", "calls": [call("c1", "read")], "textLen": 0,
                "tokens": 4 + json_tokens(&hidden) + json_tokens(&tool_use)
            }),
        ),
        // The provider's own calls are answered by the provider.
        (
            Anthropic,
            json!({ "role": "assistant", "content": [server, found, text("1234")] }),
            json!({ "role": "assistant", "textLen": 4, "tokens": 4 + json_tokens(&server) + json_tokens(&found) }),
        ),
        (
            Anthropic,
            json!({ "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": "c1", "content": "12345" },
                { "type": "tool_result", "tool_use_id": "c2", "content": [text("123"), { "type": "image", "source": {} }], "is_error": true },
                { "type": "tool_result", "tool_use_id": "c3" },
            ] }),
            json!({
                "role": "toolResult", "answers": [call("c1", ""), { "id": "c2", "name": "", "isError": true }, call("c3", "")],
                "textLen": 8, "tokens": 4 + 3 + 1_600
            }),
        ),
        // Results and typed text: somebody typed.
        (
            Anthropic,
            json!({ "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "c1", "content": "12345678" }, text("1234")] }),
            json!({ "role": "user", "userTurn": true, "answers": [call("c1", "")], "textLen": 12, "tokens": 5 + 4 }),
        ),
        // A document is a file, or a text that stands there.
        (
            Anthropic,
            json!({ "role": "user", "content": [{ "type": "document", "source": { "type": "base64", "data": "AAAA" } }, written] }),
            json!({ "role": "user", "userTurn": true, "textLen": 0, "tokens": 3_000 + json_tokens(&written) }),
        ),
        // ---- ai-sdk
        (
            AiSdk,
            json!({ "role": "assistant", "content": [{ "type": "reasoning", "text": "12345" }, own, asked] }),
            json!({
                "role": "assistant", "calls": [call("c1", "read")], "textLen": 0,
                "tokens": 4 + json_tokens(&own) + json_tokens(&asked)
            }),
        ),
        (
            AiSdk,
            json!({ "role": "assistant", "content": [provided, part("p1", json!({ "type": "text", "value": "1234" }))] }),
            json!({ "role": "assistant", "textLen": 4, "tokens": 4 + json_tokens(&provided) }),
        ),
        // What is answered in the message itself is answered.
        (
            AiSdk,
            json!({ "role": "assistant", "content": [own, part("c1", json!({ "type": "text", "value": "1234" }))] }),
            json!({ "role": "assistant", "textLen": 4, "tokens": 4 + json_tokens(&own) }),
        ),
        (
            AiSdk,
            json!({ "role": "user", "content": [text("1234"), { "type": "image", "image": "AAAA" }, { "type": "file", "data": "A", "mediaType": "image/png" }, file, note] }),
            json!({ "role": "user", "userTurn": true, "textLen": 4, "tokens": 4 + 2 * 1_600 + 3_000 + json_tokens(&note) }),
        ),
        (
            AiSdk,
            json!({ "role": "tool", "content": [
                part("c1", json!({ "type": "text", "value": "1234" })),
                part("c2", json!({ "type": "error-text", "value": "1234" })),
                part("c3", json!({ "type": "content", "value": [text("1234"), { "type": "image-data", "data": "A", "mediaType": "image/png" }] })),
                part("c4", object.clone()),
                part("c5", denied.clone()),
                part("c6", json!({ "type": "error-json", "value": null })),
            ] }),
            json!({
                "role": "toolResult", "textLen": 12,
                "answers": [
                    call("c1", "read"), { "id": "c2", "name": "read", "isError": true }, call("c3", "read"), call("c4", "read"),
                    { "id": "c5", "name": "read", "isError": true }, { "id": "c6", "name": "read", "isError": true },
                ],
                // {"type":"error-json","value":null} is 11 tokens, each text is 4.
                "tokens": 3 * 4 + 1_600 + json_tokens(&object) + json_tokens(&denied) + 11
            }),
        ),
        (
            AiSdk,
            json!({ "role": "tool", "content": [agreed] }),
            json!({ "role": "toolResult", "textLen": 0, "tokens": json_tokens(&agreed) }),
        ),
    ];
    for (dialect, message, expected) in cases {
        let outline = dialect.outline(&message, true).unwrap();
        let is = serde_json::to_value(&outline).unwrap();
        assert_eq!(is, expected, "{dialect:?} {message}");
        // As it is stored, it is read again.
        assert_eq!(serde_json::from_value::<MessageOutline>(is).unwrap(), outline);
    }
}

#[test]
fn the_arguments_of_calls_are_what_the_model_wrote() {
    for dialect in ALL {
        let arguments = [json!({ "path": "a", "n": [1, null, "\u{1f980}"] }), json!({})];
        let message = calls(
            dialect,
            &[
                ("c1", "read", arguments[0].clone()),
                ("c2", "read", arguments[1].clone()),
            ],
        );
        assert_eq!(dialect.call_arguments(&message), arguments.map(Some));
        assert_eq!(dialect.call_arguments(&says(dialect, "hi")), []);
    }
    let chat = |function: Value| {
        let message = json!({ "role": "assistant", "tool_calls": [{ "id": "c1", "type": "function", "function": function }] });
        OpenAiChat.call_arguments(&message)[0].clone()
    };
    let cases = [
        (json!({ "name": "f", "arguments": "[1]" }), Some(json!([1]))),
        (json!({ "name": "f", "arguments": "null" }), Some(json!(null))),
        // Text that is no JSON is the text that it is; none at all is none.
        (
            json!({ "name": "f", "arguments": "{\"path\": \"/et" }),
            Some(json!("{\"path\": \"/et")),
        ),
        (json!({ "name": "f", "arguments": " \n" }), None),
        (json!({ "name": "f", "arguments": "" }), None),
        (json!({ "name": "f" }), None),
        (
            json!({ "name": "f", "arguments": { "n": 1 } }),
            Some(json!({ "n": 1 })),
        ),
        (json!("f"), None),
    ];
    for (function, expected) in cases {
        assert_eq!(chat(function.clone()), expected, "{function}");
    }
    // Nested deeper than plain data may be.
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    assert_eq!(chat(json!({ "arguments": deep })), Some(json!(deep)));
    let custom = json!({ "role": "assistant", "tool_calls": [
        { "id": "c1", "type": "custom", "custom": { "name": "sql", "input": "{}" } },
        { "id": "c2", "type": "custom", "function": null, "custom": { "name": "sql", "input": "2" } },
    ] });
    assert_eq!(
        OpenAiChat.call_arguments(&custom),
        [Some(json!("{}")), Some(json!("2"))]
    );
    let names = OpenAiChat.outline(&custom, false).unwrap().calls;
    assert!(names.iter().all(|call| call.name == "sql"));
    // Those of open calls alone, in their order.
    let own = |id: &str| json!({ "type": "tool-call", "toolCallId": id, "toolName": "f", "input": id });
    let result = json!({ "type": "tool-result", "toolCallId": "c1", "toolName": "f", "output": { "type": "text", "value": "" } });
    let message = json!({ "role": "assistant", "content": [own("c1"), result, own("c2")] });
    assert_eq!(AiSdk.call_arguments(&message), [Some(json!("c2"))]);
}

#[test]
fn calls_without_an_id_cannot_be_answered() {
    let messages = [
        (Loop, json!([{ "type": "toolCall", "name": "f" }]), json!(null)),
        (
            Anthropic,
            json!([{ "type": "tool_use", "name": "f" }]),
            json!(null),
        ),
        (
            AiSdk,
            json!([{ "type": "tool-call", "toolName": "f" }]),
            json!(null),
        ),
        (OpenAiChat, json!(null), json!([{ "function": { "name": "f" } }])),
        (OpenAiChat, json!(null), json!([7])),
    ];
    for (dialect, content, beside) in messages {
        let mut message = json!({ "role": "assistant", "content": content });
        if !beside.is_null() {
            message["tool_calls"] = beside;
        }
        let outline = dialect.outline(&message, false).unwrap();
        assert!(!outline.is_answerable() && !outline.is_projected(), "{message}");
    }
    // Results without an id are results that answer nothing.
    for (dialect, message) in [
        (
            Anthropic,
            json!({ "role": "user", "content": [{ "type": "tool_result" }] }),
        ),
        (
            AiSdk,
            json!({ "role": "tool", "content": [{ "type": "tool-result" }] }),
        ),
    ] {
        let (shown, _, notices) =
            shown(dialect, &[calls(dialect, &[("", "f", json!({}))]), message], &[]).unwrap();
        assert_eq!((shown.len(), notices.len()), (0, 2));
    }
    let error = OpenAiChat
        .outline(&json!({ "role": "tool", "content": "x" }), false)
        .unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidArgument);
    assert_eq!(
        error.message(),
        "a message with role `tool` must have a `tool_call_id`"
    );
}

#[test]
fn a_message_of_another_dialect_is_refused_and_says_which() {
    for dialect in ALL {
        for other in ALL {
            let messages = [
                calls(other, &[("c1", "read", json!({}))]),
                result(other, "c1", "read", "done", false),
            ];
            let found = match other {
                Loop => ["toolCall", "toolResult"],
                OpenAiChat => ["tool_calls", "tool"],
                Anthropic => ["tool_use", "tool_result"],
                AiSdk => [
                    "tool-call",
                    if dialect == OpenAiChat {
                        "tool-result"
                    } else {
                        "tool"
                    },
                ],
            };
            for (message, found) in messages.iter().zip(found) {
                let read = dialect.outline(message, true);
                if dialect == other {
                    read.unwrap();
                    continue;
                }
                let error = read.unwrap_err();
                assert_eq!(error.code(), ErrorCode::DialectMismatch, "{dialect:?} {message}");
                let (own, other) = (dialect.as_str(), other.as_str());
                assert_eq!(
                    error.message(),
                    format!(
                        "a message with `{found}` is one of the dialect `{other}`, not of `{own}`; pass it as one of `{own}`, or create the session with the dialect `{other}`"
                    )
                );
                assert_eq!(
                    (&error.data()["found"], &error.data()["dialect"]),
                    (&json!(found), &json!(own))
                );
            }
        }
    }
}

#[test]
fn what_was_typed_is_kept_as_it_is() {
    for dialect in ALL {
        let with_time = |mut message: Value| {
            if dialect == Loop {
                message["timestamp"] = json!(9);
            }
            message
        };
        let blocks = json!([text("hi"), { "type": "unknown", "n": 1 }]);
        let own = json!({ "role": "user", "content": "hi", "id": "u1" });
        let cases = [
            (json!("hi"), json!({ "role": "user", "content": "hi" })),
            (blocks.clone(), json!({ "role": "user", "content": blocks })),
            (own.clone(), own),
        ];
        for (given, expected) in cases {
            assert_eq!(dialect.typed_message(&given, 9.0).unwrap(), with_time(expected));
        }
        for wrong in [
            json!(3),
            json!({ "role": "assistant", "content": "hi" }),
            json!({ "role": "user" }),
            json!(["hi"]),
        ] {
            let error = dialect.typed_message(&wrong, 9.0).unwrap_err();
            assert_eq!(error.code(), ErrorCode::InvalidArgument, "{dialect:?} {wrong}");
        }
        assert_eq!(
            dialect.user_message(json!("so far"), 9.0),
            with_time(json!({ "role": "user", "content": "so far" }))
        );
        let message = json!({ "role": "user", "content": [text("a"), { "type": "image" }, text("b")] });
        assert_eq!(texts(&message), ["a", "b"]);
        assert_eq!(texts(&typed(dialect, "a", 1)), ["a"]);
    }
    // A time of another dialect's message is a member like any other.
    let message = json!({ "role": "user", "content": "hi", "timestamp": "now" });
    assert_eq!(Anthropic.typed_message(&message, 9.0).unwrap(), message);
}

#[test]
fn what_a_tool_gives_becomes_a_result_of_the_dialect() {
    let call = Call {
        id: "c1".to_owned(),
        name: "read".to_owned(),
    };
    let picture = json!({ "type": "image", "data": "AAAA", "mimeType": "image/png" });
    let chat = |content: Value| json!({ "role": "tool", "tool_call_id": "c1", "content": content });
    let claude = |content: Value| json!({ "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "c1", "content": content }] });
    let part = |output: Value| json!({ "role": "tool", "content": [{ "type": "tool-result", "toolCallId": "c1", "toolName": "read", "output": output }] });
    let failed = |mut message: Value| {
        message["content"][0]["is_error"] = json!(true);
        message
    };
    let both = json!({ "content": [text("a"), picture, text("b")], "details": 1 });
    let wrong = json!({ "content": [text("a"), text("b")], "isError": true });
    let image =
        json!({ "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "AAAA" } });
    let cases = [
        (
            json!("text"),
            false,
            [
                chat(json!("text")),
                claude(json!("text")),
                part(json!({ "type": "text", "value": "text" })),
            ],
        ),
        (
            json!("no"),
            true,
            [
                chat(json!("no")),
                failed(claude(json!("no"))),
                part(json!({ "type": "error-text", "value": "no" })),
            ],
        ),
        (
            json!(null),
            false,
            [
                chat(json!("")),
                claude(json!("")),
                part(json!({ "type": "json", "value": null })),
            ],
        ),
        (
            json!({ "n": [1] }),
            false,
            [
                chat(json!("{\"n\":[1]}")),
                claude(json!("{\"n\":[1]}")),
                part(json!({ "type": "json", "value": { "n": [1] } })),
            ],
        ),
        (
            json!([1]),
            true,
            [
                chat(json!("[1]")),
                failed(claude(json!("[1]"))),
                part(json!({ "type": "error-json", "value": [1] })),
            ],
        ),
        (
            both,
            false,
            [
                chat(json!([
                    text("a"),
                    text("[a picture, which results of tools cannot hold here]"),
                    text("b")
                ])),
                claude(json!([text("a"), image, text("b")])),
                part(
                    json!({ "type": "content", "value": [text("a"), { "type": "image-data", "data": "AAAA", "mediaType": "image/png" }, text("b")] }),
                ),
            ],
        ),
        (
            wrong,
            false,
            [
                chat(json!([text("a"), text("b")])),
                failed(claude(json!([text("a"), text("b")]))),
                part(json!({ "type": "error-text", "value": "a\nb" })),
            ],
        ),
        (
            json!({ "content": [] }),
            false,
            [
                chat(json!("")),
                claude(json!([])),
                part(json!({ "type": "content", "value": [] })),
            ],
        ),
    ];
    for (value, fails, expected) in cases {
        for (dialect, expected) in [OpenAiChat, Anthropic, AiSdk].into_iter().zip(expected) {
            let made = dialect.tool_result(&call, &value, fails, Some(json!(7)));
            assert_eq!(made, expected, "{dialect:?} {value}");
        }
    }
    for dialect in ALL {
        let holder = json!({ "role": "assistant", "timestamp": 6 });
        assert_eq!(
            dialect.interrupted_result(&call, &holder),
            result_at(dialect, "c1", "read", CUT_OFF, true, 6)
        );
        // Places in what the tool gave are places in the message that is made of it.
        let place = dialect.place_in_result("content[1].data".to_owned());
        let expected = match dialect {
            Loop => "content[1].data",
            OpenAiChat => "content",
            Anthropic => "content[0].content",
            AiSdk => "content[0].output",
        };
        assert_eq!(place.as_deref(), Some(expected));
        let hidden = dialect.place_in_result("details.a".to_owned());
        assert_eq!(hidden.is_some(), dialect == Loop);
    }
}

#[test]
fn why_an_answer_ended_is_said_in_the_message_where_the_dialect_has_a_member_for_it() {
    for dialect in ALL {
        let partial = says(dialect, "half");
        let stopped = dialect.stopped(&partial, StopKind::Error, Some("no network"));
        if dialect == Loop {
            assert_eq!(
                (&stopped["stopReason"], &stopped["errorMessage"]),
                (&json!("error"), &json!("no network"))
            );
            assert_eq!(dialect.failure(&stopped).as_deref(), Some("no network"));
        } else {
            assert_eq!(stopped, partial);
            assert_eq!(dialect.failure(&stopped), None);
        }
    }
}

type Shown = (Vec<Value>, Projection, Vec<Notice>);

/// What the model sees; every user message counts as one that began a turn.
fn shown(dialect: Dialect, messages: &[Value], snapshots: &[RuntimeContextSnapshot]) -> Result<Shown> {
    let outlines: Vec<MessageOutline> = messages
        .iter()
        .map(|message| dialect.outline(message, true))
        .collect::<Result<_>>()?;
    let (projection, notices) = project(&outlines, snapshots, None)?;
    let body = |index: MessageIndex| messages.get(index.offset()).cloned();
    let bodies = materialise(dialect, &projection, body, &outlines, snapshots, None)?;
    Ok((bodies, projection, notices))
}

/// A snapshot with text alone, in front of a user message or, as earlier versions had it, behind it.
fn snapshot(user_turn: u32, content: &str, placement: Option<&str>) -> RuntimeContextSnapshot {
    let mut snapshot = json!({ "userTurn": user_turn, "content": content, "timestamp": 8 });
    if let Some(placement) = placement {
        snapshot["placement"] = json!(placement);
    }
    RuntimeContextSnapshot::parse(&snapshot).unwrap()
}

#[test]
fn calls_are_answered_right_behind_their_message_in_every_dialect() {
    for dialect in ALL {
        let two = calls(dialect, &[("c1", "read", json!({})), ("c2", "write", json!({}))]);
        let one = result(dialect, "c1", "read", "done", false);
        let messages = [
            typed(dialect, "hi", 1),
            two.clone(),
            one.clone(),
            typed(dialect, "more", 2),
            // Too late, and of no call at all.
            result(dialect, "c2", "write", "late", false),
            says(dialect, "bye"),
            result(dialect, "c9", "read", "whose", false),
        ];
        let (shown, projection, notices) = shown(dialect, &messages, &[]).unwrap();
        let expected = [
            messages[0].clone(),
            two,
            one,
            result(dialect, "c2", "write", CUT_OFF, true),
            messages[3].clone(),
            messages[5].clone(),
        ];
        assert_eq!(shown, expected, "{dialect:?}");
        check_pairs_in(dialect, &shown).unwrap();
        assert_eq!(
            serde_json::to_value(&projection.sources).unwrap(),
            json!([
                { "type": "history", "messageIndex": 0 }, { "type": "history", "messageIndex": 1 },
                { "type": "history", "messageIndex": 2 },
                { "type": "interrupted-tool-result", "messageIndex": 1, "toolCallId": "c2" },
                { "type": "history", "messageIndex": 3 }, { "type": "history", "messageIndex": 5 },
            ])
        );
        assert_eq!(
            serde_json::to_value(&notices).unwrap(),
            json!([
                { "code": "result_left_out", "messageIndex": 4, "detail": "c2" },
                { "code": "result_left_out", "messageIndex": 6, "detail": "c9" },
            ])
        );
    }
}

#[test]
fn text_in_front_of_a_message_and_messages_of_its_own_are_shown_in_every_dialect() {
    for dialect in ALL {
        let blocks = json!({ "role": "user", "content": [text("two")] });
        let messages = [typed(dialect, "one", 1), says(dialect, "hi"), blocks];
        let snapshots = [
            snapshot(0, "FRONT", Some("user")),
            snapshot(1, "FRONT", Some("user")),
            snapshot(1, "OWN", None),
        ];
        let (shown, ..) = shown(dialect, &messages, &snapshots).unwrap();
        let expected = [
            typed(dialect, "FRONT\n\none", 1),
            messages[1].clone(),
            json!({ "role": "user", "content": [text("FRONT"), text("two")] }),
            typed(dialect, "OWN", 8),
        ];
        assert_eq!(shown, expected, "{dialect:?}");
    }
}

/// A message of several results, each answering the call of its id; `typed` stands behind them.
fn several(dialect: Dialect, ids: &[&str], typed: Option<&str>) -> Value {
    let mut message = result(dialect, "", "", "", false);
    let mut blocks: Vec<Value> = ids
        .iter()
        .map(|id| result(dialect, id, "read", &format!("{id} done"), false)["content"][0].clone())
        .collect();
    blocks.extend(typed.map(text));
    message["content"] = json!(blocks);
    message
}

#[test]
fn of_a_message_with_several_results_those_that_answer_a_call_are_shown() {
    for dialect in [Anthropic, AiSdk] {
        let read = |id: &'static str| (id, "read", json!({}));
        let two = calls(dialect, &[read("c1"), read("c2")]);
        let hi = typed(dialect, "hi", 1);
        let all = several(dialect, &["c2", "c1"], None);
        // Each call is answered once, by the first result that is meant for it.
        let cases = [
            // As it should be.
            (
                vec![hi.clone(), two.clone(), all.clone()],
                vec![hi.clone(), two.clone(), all.clone()],
                json!([]),
            ),
            // One that is no call's, and one twice.
            (
                vec![
                    hi.clone(),
                    two.clone(),
                    several(dialect, &["c9", "c1", "c2", "c1"], None),
                ],
                vec![hi.clone(), two.clone(), several(dialect, &["c1", "c2"], None)],
                json!([[2, "c9"], [2, "c1"]]),
            ),
            // The rest is answered in a message of its own.
            (
                vec![hi.clone(), two.clone(), several(dialect, &["c2", "c9"], None)],
                vec![
                    hi.clone(),
                    two.clone(),
                    several(dialect, &["c2"], None),
                    result(dialect, "c1", "read", CUT_OFF, true),
                ],
                json!([[2, "c9"]]),
            ),
            // None is meant, so none is shown.
            (
                vec![
                    hi.clone(),
                    several(dialect, &["c1", "c2"], None),
                    two.clone(),
                    all.clone(),
                ],
                vec![hi.clone(), two.clone(), all.clone()],
                json!([[1, "c1"], [1, "c2"]]),
            ),
        ];
        for (messages, expected, left_out) in cases {
            let (shown, _, notices) = shown(dialect, &messages, &[]).unwrap();
            assert_eq!(shown, expected, "{dialect:?} {messages:?}");
            let told: Vec<Value> = notices
                .iter()
                .map(|notice| json!([notice.message_index, notice.detail]))
                .collect();
            assert_eq!(json!(told), left_out);
            check_pairs_in(dialect, &shown).unwrap();
        }
        let (_, projection, _) = shown(
            dialect,
            &[hi, two, several(dialect, &["c9", "c1", "c2", "c1"], None)],
            &[],
        )
        .unwrap();
        assert_eq!(
            serde_json::to_value(&projection.sources[2]).unwrap(),
            json!({ "type": "history", "messageIndex": 2, "resultsLeftOut": [0, 3] })
        );
    }
}

#[test]
fn a_message_with_results_and_typed_text_is_a_user_turn_whose_results_count() {
    let read = |id: &'static str| (id, "read", json!({}));
    let two = calls(Anthropic, &[read("c1"), read("c2")]);
    let hi = typed(Anthropic, "hi", 1);
    let mixed = |ids: &[&str]| several(Anthropic, ids, Some("and now?"));
    let told = |code: &str, index: u32, id: Option<&str>| {
        let mut notice = json!({ "code": code, "messageIndex": index });
        if let Some(id) = id {
            notice["detail"] = json!(id);
        }
        notice
    };
    let cases = [
        (
            vec![hi.clone(), two.clone(), mixed(&["c1", "c2"])],
            vec![hi.clone(), two.clone(), mixed(&["c1", "c2"])],
            vec![told("user_message_mixed", 2, None)],
        ),
        // A call that has no result gets one in front: behind what was typed it would be too late.
        (
            vec![hi.clone(), two.clone(), mixed(&["c2"])],
            vec![
                hi.clone(),
                two.clone(),
                result(Anthropic, "c1", "read", CUT_OFF, true),
                mixed(&["c2"]),
            ],
            vec![told("user_message_mixed", 2, None)],
        ),
        (
            vec![
                hi.clone(),
                two.clone(),
                several(Anthropic, &["c1"], None),
                mixed(&["c2", "c9"]),
            ],
            vec![
                hi.clone(),
                two.clone(),
                several(Anthropic, &["c1"], None),
                mixed(&["c2"]),
            ],
            vec![
                told("user_message_mixed", 3, None),
                told("result_left_out", 3, Some("c9")),
            ],
        ),
        // Without a call it is what was typed.
        (
            vec![hi.clone(), mixed(&["c1", "c2"])],
            vec![hi.clone(), mixed(&[])],
            vec![
                told("user_message_mixed", 1, None),
                told("result_left_out", 1, Some("c1")),
                told("result_left_out", 1, Some("c2")),
            ],
        ),
        // What comes behind what was typed is too late.
        (
            vec![
                hi.clone(),
                two.clone(),
                mixed(&["c1"]),
                several(Anthropic, &["c2"], None),
            ],
            vec![
                hi.clone(),
                two.clone(),
                result(Anthropic, "c2", "read", CUT_OFF, true),
                mixed(&["c1"]),
            ],
            vec![
                told("user_message_mixed", 2, None),
                told("result_left_out", 3, Some("c2")),
            ],
        ),
    ];
    for (messages, expected, notices) in cases {
        let (shown, _, is) = shown(Anthropic, &messages, &[]).unwrap();
        assert_eq!(shown, expected, "{messages:?}");
        assert_eq!(serde_json::to_value(&is).unwrap(), json!(notices));
        check_pairs_in(Anthropic, &shown).unwrap();
    }
    // Skills go behind the results, where the API takes text; what is left out is not in between.
    let messages = [hi, two, mixed(&["c1", "c9", "c2"])];
    let snapshots = [snapshot(1, "FRONT", Some("user")), snapshot(1, "OWN", None)];
    let (shown, ..) = shown(Anthropic, &messages, &snapshots).unwrap();
    let block =
        |id: &str| json!({ "type": "tool_result", "tool_use_id": id, "content": format!("{id} done") });
    let expected =
        json!({ "role": "user", "content": [block("c1"), block("c2"), text("FRONT"), text("and now?")] });
    assert_eq!(shown[2], expected);
    assert_eq!(shown[3], typed(Anthropic, "OWN", 8));
}

#[test]
fn what_became_of_a_question_is_shown_among_the_results() {
    let asked = json!({ "role": "assistant", "content": [
        { "type": "tool-call", "toolCallId": "c1", "toolName": "read", "input": {} },
        { "type": "tool-approval-request", "approvalId": "a1", "toolCallId": "c1" },
    ] });
    let agreed = json!({ "role": "tool", "content": [{ "type": "tool-approval-response", "approvalId": "a1", "approved": true }] });
    let done = result(AiSdk, "c1", "read", "done", false);
    let whole = [typed(AiSdk, "hi", 1), asked.clone(), agreed.clone(), done];
    assert_eq!(shown(AiSdk, &whole, &[]).unwrap().0, whole);
    // It is an answer to a person's question, not to the call.
    let (cut, ..) = shown(AiSdk, &whole[..3], &[]).unwrap();
    assert_eq!(cut[3], result(AiSdk, "c1", "read", CUT_OFF, true));
    // Nobody asked.
    let (alone, _, notices) = shown(AiSdk, &[whole[0].clone(), agreed], &[]).unwrap();
    assert_eq!((alone.len(), notices.len()), (1, 1));
}

#[test]
fn what_is_not_understood_is_shown_as_it_is() {
    let signed = json!({ "role": "assistant", "content": [
        { "type": "thinking", "thinking": "", "signature": "s" }, { "type": "redacted_thinking", "data": "d" },
        { "type": "compaction", "content": "c", "encrypted_content": "e" }, { "type": "unheard_of", "n": 1 },
    ], "id": "msg_1", "stop_reason": "end_turn" });
    let system = json!({ "role": "system", "content": [{ "type": "text", "text": "be brief" }] });
    let reasoning = json!({ "role": "assistant", "content": [
        { "type": "reasoning", "text": "", "providerOptions": { "openai": { "itemId": "rs_1", "reasoningEncryptedContent": "e" } } },
    ] });
    let chat = json!({ "role": "assistant", "content": "x", "reasoning_content": "y", "audio": { "id": "a" }, "annotations": [] });
    let old = json!({ "role": "function", "name": "f", "content": "1" });
    let cases = [
        (Anthropic, vec![signed, system.clone()]),
        (AiSdk, vec![reasoning, system.clone()]),
        (
            OpenAiChat,
            vec![chat, old, system, json!({ "role": "developer", "content": "d" })],
        ),
    ];
    for (dialect, others) in cases {
        let mut messages = vec![typed(dialect, "hi", 1)];
        messages.extend(others);
        let (shown, projection, notices) = shown(dialect, &messages, &[]).unwrap();
        assert_eq!(shown, messages);
        assert_eq!((projection.sources.len(), notices.len()), (messages.len(), 0));
    }
}

/// A message of any kind in the shape of `loop`, often a result of a call just before.
fn any_message(random: &mut Random, before: &[Value]) -> Value {
    let recent: Vec<String> = before
        .iter()
        .rev()
        .take(3)
        .flat_map(|message| call_ids_in(Loop, message))
        .collect();
    let id = match recent.is_empty() || random.one_in(4) {
        true => format!("c{}", random.below(6)),
        false => recent[random.below(recent.len())].clone(),
    };
    match random.below(12) {
        0 | 1 => typed(Loop, "typed", 1),
        2 => json!({ "role": "user", "content": [text("typed")] }),
        3..=6 => {
            let ids: Vec<String> = (0..random.below(4))
                .map(|_| format!("c{}", random.below(6)))
                .collect();
            let of_ids: Vec<(&str, &str, Value)> =
                ids.iter().map(|id| (id.as_str(), "n", json!({}))).collect();
            calls(Loop, &of_ids)
        }
        7..=10 => result(Loop, &id, "n", "done", random.one_in(4)),
        _ => json!({ "role": "note" }),
    }
}

#[test]
fn in_any_conversation_of_any_dialect_every_call_is_answered_once_directly_behind_it() {
    let (mut whole, mut interrupted, mut parts, mut mixed) = (0, 0, 0, 0);
    for seed in 1..=300 {
        let mut random = Random::new(seed);
        let length = random.below(18);
        let mut messages = Vec::new();
        for _ in 0..length {
            let next = any_message(&mut random, &messages);
            messages.push(next);
        }
        for dialect in ALL {
            for grouping in [Grouping::One, Grouping::All, Grouping::WithTyped] {
                let stored = converted(dialect, &messages, grouping);
                let (shown, projection, notices) = shown(dialect, &stored, &[]).unwrap();
                let told = format!("seed {seed} {dialect:?} {grouping:?}");
                let pairs = check_pairs_in(dialect, &shown).unwrap_or_else(|error| panic!("{error}, {told}"));
                interrupted += pairs.interrupted;
                // What the map says is what is shown.
                let mut seen = vec![false; stored.len()];
                for (source, body) in projection.sources.iter().zip(&shown) {
                    let runcontext::context::Source::History {
                        message_index,
                        results_left_out,
                    } = source
                    else {
                        continue;
                    };
                    let own = &stored[message_index.offset()];
                    seen[message_index.offset()] = true;
                    parts += usize::from(!results_left_out.is_empty());
                    whole += usize::from(results_left_out.is_empty());
                    let mut kept = own.clone();
                    if !results_left_out.is_empty() {
                        let mut number = 0;
                        kept["content"].as_array_mut().unwrap().retain(|block| {
                            let is_result = block["type"] == "tool_result" || block["type"] == "tool-result";
                            number += u32::from(is_result);
                            !is_result || !results_left_out.contains(&(number - 1))
                        });
                    }
                    assert_eq!(body, &kept, "{told}");
                }
                // What is not shown holds results alone; each result that is not shown has its notice.
                for (message, seen) in stored.iter().zip(seen) {
                    assert!(seen || is_results(dialect, message), "{told}");
                }
                let all: usize = stored
                    .iter()
                    .map(|message| answers_in(dialect, message).len())
                    .sum();
                let left: usize = shown
                    .iter()
                    .map(|message| answers_in(dialect, message).len())
                    .sum();
                let code = |code: &str| notices.iter().filter(|it| json!(it.code) == code).count();
                assert_eq!(code("result_left_out"), all + pairs.interrupted - left, "{told}");
                mixed += code("user_message_mixed");
            }
        }
    }
    println!("{whole} whole, {parts} in part, {mixed} mixed, {interrupted} made up for");
    assert!(whole > 10_000 && interrupted > 5_000 && parts > 200 && mixed > 150);
}
