//! A line in the log for what is to be known later: who got packets, or records of them, and who
//! changed rules.

use crate::service::Caller;
use ringside_terminal::say;
use serde_json::{Value, json};
use std::time::SystemTime;

/// Says on standard error who did what, as JSON: whatever a client sent, it is one line.
pub fn note(caller: &Caller, what: &str, details: &Value) {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let time = since.as_secs_f64();
    let line = json!({ "audit": what, "time": time, "who": caller.name, "details": details });
    say::message(line);
}
