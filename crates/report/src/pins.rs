//! What is pinned of recordings.

use ringside_core::{LaneId, Shown};
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
    let span = match (pin.from, pin.to) {
        (None, None) => String::new(),
        (from, to) => {
            let text = |at: Option<_>| at.map_or(String::new(), |at| format!("{at}"));
            format!(", from {} to {}", text(from), text(to))
        }
    };
    let filter = if pin.filter.is_empty() { String::new() } else { format!(", {}", pin.filter) };
    let note = if pin.note.is_empty() { String::new() } else { format!(": {}", pin.note) };
    let (files, bytes) = (units::counted(count as u64, "file"), units::grouped(bytes));
    let text = format!("{files} of {}, {bytes} bytes{gone}{span}{filter}{note}", lanes(pin));
    say::data(format_args!("{shown}  {}  {}", pin.id, Path::new(&text).shown()))
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
