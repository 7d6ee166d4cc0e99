//! How long one decision takes, with 100 rules and with 10,000: one in a hundred speaks of the call. `cargo xtask bench`.

#[cfg(not(target_family = "wasm"))]
mod native {
    use std::hint::black_box;
    use std::time::Instant;

    use runcontext::{
        paths::fold,
        permissions::{ApprovalRule, DecideInput, Policy},
    };
    use serde_json::{Value, json};

    /// Rules for as many directories; one in a hundred is of the tool that is called.
    fn rules(count: usize) -> Vec<ApprovalRule> {
        let rule = |at: usize| {
            json!({
                "id": at + 1,
                "tool_pattern": if at % 100 == 50 { "write_file".to_owned() } else { format!("tool_{at}") },
                "path_pattern": format!("dir_{at}/*"),
                "action": if at.is_multiple_of(3) { "require" } else { "allow" },
                "priority": 100,
                "group_id": "default",
            })
        };
        ApprovalRule::parse_list(&(0..count).map(rule).collect::<Value>()).unwrap()
    }

    fn input() -> DecideInput {
        let answer = |path: &str| json!({ "base": "/ws/app", "path": path, "result": { "canonical": if path.starts_with('/') { path.to_owned() } else { format!("/ws/app/{path}") } } });
        let input = json!({
            "call": { "toolName": "write_file", "arguments": { "path": "dir_50/a.txt", "content": "x" } },
            "tool": { "name": "write_file", "access": "write", "paths": [{ "argument": "/path", "access": "write" }] },
            "cwd": "/ws/app", "workspaceRoot": "/ws", "preset": "read-only", "now": 1,
            "resolved": [answer("/ws"), answer("/ws/app"), answer("dir_50/a.txt")],
        });
        DecideInput::parse(&input, &Value::Null, fold).unwrap()
    }

    fn microseconds(times: u32, mut once: impl FnMut()) -> f64 {
        for _ in 0..times / 10 {
            once();
        }
        // The best of five: whatever else the machine does only makes it slower.
        let mut best = f64::INFINITY;
        for _ in 0..5 {
            let start = Instant::now();
            for _ in 0..times {
                once();
            }
            best = best.min(start.elapsed().as_secs_f64() * 1e6 / f64::from(times));
        }
        best
    }

    pub fn main() {
        let mut outcomes = Vec::new();
        for count in [100, 10_000] {
            let policy = Policy::compile(rules(count), None, fold).unwrap();
            let input = input();
            let outcome = microseconds(20_000, || {
                let question = &input.inquiry;
                let answers = input.answers(&question.queries());
                black_box(question.decide(&policy, &answers));
            });
            let traced = microseconds(if count > 100 { 500 } else { 10_000 }, || {
                let question = &input.inquiry;
                let answers = input.answers(&question.queries());
                black_box(question.explain(&policy, &answers));
            });
            println!("native, {count} rules: {outcome:.2} us a decision, {traced:.2} us with its trace");
            outcomes.push(outcome);
        }
        if let [few, many] = outcomes.as_slice() {
            println!("native, 10,000 rules against 100: {:.2} (at most 3)", many / few);
        }
    }
}

fn main() {
    // In the module it is measured from Node: `gate.mjs`.
    #[cfg(not(target_family = "wasm"))]
    native::main();
}
