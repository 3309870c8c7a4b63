//! What is pinned of recordings.

use ringside_core::{LaneId, Shown, Timestamp};
use ringside_store::retention::{Pin, Pinned};
use ringside_terminal::{say, units};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

/// Says what was pinned in a directory.
///
/// # Errors
/// Standard output cannot be written.
pub fn made(directory: &Path, pinned: &Pinned, is_json: bool) -> io::Result<()> {
    let Pinned { pin, gone, bytes, all_bytes, budget } = pinned;
    let shown = directory.shown().to_string();
    if is_json {
        let object = json!({
            "directory": shown, "id": (!pin.files.is_empty()).then_some(pin.id),
            "files": pin.files, "bytes": bytes, "gone": gone, "bytes_of_all_pins": all_bytes,
            "budget": budget,
        });
        return say::data(json!({ "pin": object }));
    }
    if pin.files.is_empty() {
        say::message(format_args!("ringside: {shown}: no file holds such packets"));
    } else {
        let files = units::counted(pin.files.len() as u64, "file");
        let (lanes, bytes) = (lanes(pin), units::grouped(*bytes));
        let (id, budget) = (pin.id, within(*all_bytes, *budget));
        say::message(format_args!(
            "ringside: {shown}: pin {id} keeps {files} of {lanes}, {bytes} bytes; {budget}"
        ));
    }
    if !gone.is_empty() {
        let gone = units::counted(gone.len() as u64, "file");
        say::message(format_args!("ringside: {shown}: {gone} deleted before they were pinned"));
    }
    Ok(())
}

fn within(bytes: u64, budget: Option<u64>) -> String {
    let bytes = units::grouped(bytes);
    match budget {
        Some(budget) => format!("{bytes} of at most {} bytes are pinned", units::grouped(budget)),
        None => format!("{bytes} bytes are pinned"),
    }
}

fn lanes(pin: &Pin) -> String {
    let lanes: BTreeSet<LaneId> = pin.files.iter().map(|file| file.lane).collect();
    let numbers: Vec<_> = lanes.iter().map(ToString::to_string).collect();
    format!("lane{} {}", if numbers.len() == 1 { "" } else { "s" }, numbers.join(", "))
}

/// Lists a pin; `sizes` are those of the files that are there.
///
/// # Errors
/// Standard output cannot be written.
pub fn listed(
    directory: &Path,
    pin: &Pin,
    sizes: &BTreeMap<String, u64>,
    is_json: bool,
) -> io::Result<()> {
    let there = || pin.files.iter().filter_map(|file| sizes.get(&file.name).copied());
    let (count, bytes) = (there().count(), there().fold(0, u64::saturating_add));
    let shown = directory.shown().to_string();
    if is_json {
        let files = pin.files.iter().map(
            |file| json!({ "name": file.name, "lane": file.lane, "bytes": sizes.get(&file.name) }),
        );
        return say::data(json!({
            "directory": shown, "id": pin.id, "note": pin.note, "created": pin.created,
            "from": pin.from, "to": pin.to, "filter": pin.filter, "bytes": bytes,
            "files": files.collect::<Vec<Value>>(),
        }));
    }
    let gone = match pin.files.len() - count {
        0 => String::new(),
        gone => format!(", {gone} more are gone"),
    };
    let filter = if pin.filter.is_empty() { String::new() } else { format!(", {}", pin.filter) };
    let note = if pin.note.is_empty() { String::new() } else { format!(": {}", pin.note) };
    let (files, bytes) = (units::counted(count as u64, "file"), units::grouped(bytes));
    let text = format!(
        "{files} of {}, {bytes} bytes{gone}{}{filter}{note}",
        lanes(pin),
        span(pin.from, pin.to)
    );
    say::data(format_args!("{shown}  {}  {}", pin.id, Path::new(&text).shown()))
}

/// The time that was asked for.
fn span(from: Option<Timestamp>, to: Option<Timestamp>) -> String {
    match (from.map(moment), to.map(moment)) {
        (None, None) => String::new(),
        (Some(from), None) => format!(", from {from} on"),
        (None, Some(to)) => format!(", before {to}"),
        (Some(from), Some(to)) => format!(", from {from} to {to}"),
    }
}

/// As `--from` and `--to` take it.
fn moment(at: Timestamp) -> String {
    let time = jiff::Timestamp::from_nanosecond(at.0.into());
    time.map_or_else(|_| at.to_string(), |time| time.to_string())
}

/// Says what is not pinned any more.
///
/// # Errors
/// Standard output cannot be written.
pub fn removed(directory: &Path, pin: &Pin, is_json: bool) -> io::Result<()> {
    let shown = directory.shown().to_string();
    if is_json {
        return say::data(
            json!({ "unpin": { "directory": shown, "id": pin.id, "note": pin.note } }),
        );
    }
    let files = units::counted(pin.files.len() as u64, "file");
    say::message(format_args!("ringside: {shown}: pin {} of {files} removed", pin.id));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_can_be_asked_for_again() {
        let [from, to] = [1_772_366_400_000_000_000, 1_772_366_400_500_000_000].map(Timestamp);
        let said = span(Some(from), Some(to));
        assert_eq!(said, ", from 2026-03-01T12:00:00Z to 2026-03-01T12:00:00.5Z");
        assert_eq!(span(Some(from), None), ", from 2026-03-01T12:00:00Z on");
        assert_eq!(span(None, Some(to)), ", before 2026-03-01T12:00:00.5Z");
        assert_eq!(span(None, None), "");
        for at in [from, to, Timestamp(u64::MAX)] {
            assert_eq!(units::moment(&moment(at)), Ok(at));
        }
    }
}
