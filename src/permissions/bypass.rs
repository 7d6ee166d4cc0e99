//! A person's choice not to be asked for a while.

use std::cmp::Ordering;

use serde_json::Value;

use super::tool::ToolPolicy;
use crate::{
    Result,
    untyped::{self, FromJson, Reader, field_error},
};

/// Which calls a bypass speaks of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BypassScope {
    /// Every call.
    All,
    /// Tools of one category.
    Category(String),
    /// Tools of one MCP server.
    McpServer(String),
}

impl FromJson for BypassScope {
    fn from_json(value: &Value, path: &str) -> Result<Self> {
        if value.as_str() == Some("all") {
            return Ok(BypassScope::All);
        }
        let wrong = || {
            field_error(
                path,
                "must be `all`, or an object with `category` or with `mcpServer`",
            )
        };
        let object = value.as_object().ok_or_else(wrong)?;
        let named = |key: &str| -> Result<Option<String>> { untyped::member(object, path, key) };
        match (named("category")?, named("mcpServer")?) {
            (Some(category), None) => Ok(BypassScope::Category(category)),
            (None, Some(server)) => Ok(BypassScope::McpServer(server)),
            _ => Err(wrong()),
        }
    }
}

/// Turns questions into yes, within its scope and until it ends. Never stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Bypass {
    /// Which calls.
    pub scope: BypassScope,
    /// Until when, in milliseconds since the epoch; none for until this page or worker restarts.
    pub expires_at: Option<f64>,
}

impl FromJson for Bypass {
    fn from_json(value: &Value, path: &str) -> Result<Self> {
        let mut object = Reader::new(value, path);
        let scope = object.get("scope").unwrap_or(&Value::Null);
        let scope = object.taken(BypassScope::from_json(scope, &untyped::join(path, "scope")).map(Some));
        let expires_at = object.read("expiresAt");
        let bypass = scope.map(|scope| Self { scope, expires_at });
        object
            .finish(bypass)?
            .ok_or_else(|| field_error(path, "must be an object"))
    }
}

impl Bypass {
    /// Whether it speaks of this tool now. A tool that nobody declared is in no category and of no server.
    pub fn covers(&self, tool: Option<&ToolPolicy>, now: f64) -> bool {
        // Whatever is no number is over.
        if self
            .expires_at
            .is_some_and(|end| now.partial_cmp(&end) != Some(Ordering::Less))
        {
            return false;
        }
        match &self.scope {
            BypassScope::All => true,
            BypassScope::Category(category) => {
                tool.is_some_and(|tool| tool.category.as_ref() == Some(category))
            }
            BypassScope::McpServer(server) => {
                tool.is_some_and(|tool| tool.mcp_server.as_ref() == Some(server))
            }
        }
    }
}
