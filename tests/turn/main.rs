//! The turn: every row of the design's table, driven through `prompt` and through `begin`, and what is stored after each.
#[cfg(target_family = "wasm")]
wasm_bindgen_test::wasm_bindgen_test_configure!(run_in_browser);

#[path = "../lab/mod.rs"]
pub mod lab;

mod abort;
mod approvals;
mod budget;
mod callbacks;
mod compaction;
mod dialects;
mod expect;
mod gate;
mod interrupted;
mod random_turns;
mod refusals;
mod reload;
mod rows;
mod runtime;
mod shown;
#[cfg(not(target_family = "wasm"))]
mod size;
mod skill_text;
mod skills;
mod tabs;
mod writes;
