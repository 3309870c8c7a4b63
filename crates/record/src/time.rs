//! Times as text and as seconds.

use ringside_core::time::NANOS_PER_SEC;
use serde_json::Value;

/// A time in UTC as text, in the words of `strftime`; null where the calendar does not reach it.
pub fn text_of_time(ns: u64, format: &str) -> Value {
    let instant = jiff::Timestamp::from_nanosecond(ns.into());
    instant.map_or(Value::Null, |instant| instant.strftime(format).to_string().into())
}

/// Seconds with six places, as Zeek prints its doubles.
pub fn seconds(ns: u64) -> Value {
    let micros = (ns % NANOS_PER_SEC / 1_000) as f64;
    ((ns / NANOS_PER_SEC) as f64 + micros / 1e6).into()
}
