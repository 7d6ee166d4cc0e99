//! The runtime context of a chat-agent session.
//!
//! The map of the crate. Data flows one way: `js` (wasm only) calls `runtime`, `runtime` asks the pure rooms
//! what to do and carries it out against `storage`. The pure rooms do no IO and read no clock.
//!
//! | room | subject |
//! |---|---|
//! | [`message`] | plain message data, and the small outline that the core keeps of each message |
//! | [`prompt`] | system prompt sections, checkpoints of what changed, replay |
//! | [`context`] | runtime-context snapshots, and the projection: what the model sees, with its source map |
//! | [`skills`] | `SKILL.md` manifests, the catalogue, `$name` mentions, rendering |
//! | [`permissions`] | presets and the `<permissions>` text, approval rules, the gate |
//! | [`run_context`] | what a session runs as: group, prompt fragments, grants, working directory |
//! | [`paths`] | paths as text: normal form, containment, comparison |
//! | [`session`] | a session as a state machine: settings, conversation, turn, commits that wait |
//! | [`runtime`] | the shell that carries out what a machine decides |
//! | [`http`] | the HTTP routes: what a request asks for, how an answer looks |
//! | [`storage`] | the storage traits; memory, IndexedDB, and storage of the host |
//! | [`error`] | the one error type |

#![warn(missing_docs, missing_debug_implementations)]
// A decision engine that can panic is not one. Tests fail by panicking, so that this holds here and not for them.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::unreachable,
    clippy::indexing_slicing,
    clippy::string_slice
)]

pub mod context;
pub mod error;
pub mod http;
pub mod message;
pub mod paths;
pub mod permissions;
pub mod prompt;
pub mod run_context;
pub mod runtime;
pub mod session;
pub mod skills;
pub mod storage;

mod list;
mod untyped;

#[cfg(target_family = "wasm")]
pub mod js;

pub use error::{Error, ErrorCode, Result};
