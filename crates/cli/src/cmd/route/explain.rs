//! What would become of the frames of a capture, and why.

use super::RouteArgs;
use anyhow::ensure;
use ringside_core::{Frame, LinkType};
use ringside_route::{Cause, Explainer, Explanation};
use ringside_terminal::signals::StopSignal;
use ringside_terminal::{columns, say};
use std::collections::BTreeMap;
use std::io;
use std::process::ExitCode;
use std::time::Duration;

/// How long is waited for a frame of a pipe before signals are looked at.
const WAIT: Duration = Duration::from_millis(100);

/// Says it of each frame; 1 if none would be forwarded.
pub(super) fn explain(args: &RouteArgs, stop: &StopSignal) -> anyhow::Result<ExitCode> {
    let explainer = Explainer::open(&args.interfaces)?;
    let mut source = ringside_store::open(&args.explain)?;
    let mut counts: BTreeMap<Cause, u64> = BTreeMap::new();
    let mut number = 0u64;
    while !source.is_finished() && !stop.is_set() {
        let Some(batch) = source.next_batch(WAIT)? else { continue };
        for frame in batch.iter() {
            let link = batch.interface_of(&frame.meta)?.link_type;
            ensure!(
                link == LinkType::ETHERNET,
                "frame {}: its link type is {}, and a router has frames of Ethernet only",
                number + 1,
                link.0
            );
            number += 1;
            let explanation = explainer.explain(frame.bytes, frame.meta.wire_bytes as usize)?;
            *counts.entry(explanation.cause).or_default() += 1;
            tell(args.run.json, number, &frame, &explanation)?;
        }
    }
    for notice in source.notices() {
        say::message(format_args!("ringside: {notice}"));
    }
    let rows = counts.iter().map(|(cause, frames)| vec![cause.to_string(), frames.to_string()]);
    let rows: Vec<Vec<String>> = rows.collect();
    if !args.run.json && number > 0 {
        say::data(format!("\n{}", columns::text(&["what", "frames"], &rows).trim_end()))?;
    }
    Ok(ExitCode::from(u8::from(!counts.contains_key(&Cause::Forwarded))))
}

fn tell(json: bool, number: u64, frame: &Frame<'_>, found: &Explanation) -> io::Result<()> {
    let is_cut = frame.bytes.len() < frame.meta.wire_bytes as usize;
    let cut = if is_cut { " (as if the bytes that were not captured were 0)" } else { "" };
    if json {
        return say::data(serde_json::json!({
            "frame": number,
            "what": found.cause.name(),
            "why": found.why(),
            "is_cut": is_cut,
            "interface": found.interface,
            "next_hop": found.next_hop,
            "mtu": found.mtu,
        }));
    }
    say::data(format!("{number} {}: {}{cut}", found.cause, found.why()))
}
