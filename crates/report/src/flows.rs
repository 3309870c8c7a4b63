//! The table of the largest flows, and the account, for people and programs.

mod caches;

pub use caches::{tell_metered, tell_of_dead};
use ringside_capture::run::OBSERVERS;
use ringside_core::Ledger;
use ringside_flow::ledger::NoFlow;
use ringside_flow::{
    EndReason, Field, FlowStatus, Group, GroupSums, LineFormat, SinkCounts, Top, TopOptions,
};
use ringside_terminal::ledger_text::count;
use ringside_terminal::units::{counted, grouped, scaled};
use ringside_terminal::{columns, say};
use std::io;

/// Lines around the rows of a table: its head, the others, the sum, and the run's own line.
pub const AROUND_TABLE: usize = 6;

/// What standard output shows of flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// The largest groups.
    Table,
    /// The same as JSON, at the end.
    Groups,
    /// Records.
    Records(LineFormat),
}

impl Shown {
    /// True if standard output is data for programs, one JSON object a line.
    pub fn is_json(self) -> bool {
        matches!(self, Shown::Groups | Shown::Records(LineFormat::Json))
    }
}

/// The largest groups, which have `fields` in common, at most `rows_max`, with their rates since
/// the status `before`.
pub fn table(
    fields: &[Field],
    status: &FlowStatus,
    before: Option<&FlowStatus>,
    rows_max: usize,
) -> String {
    let Some(top) = &status.top else { return String::new() };
    let names: Vec<_> = fields.iter().map(Field::name).collect();
    let mut head = names.clone();
    head.extend(["flows", "packets", "bytes", "share"]);
    if before.is_some() {
        head.push("bit/s");
    }
    let shown = &top.groups[..top.groups.len().min(rows_max)];
    let row = |group: &Group| {
        let mut row: Vec<_> =
            group.cells.iter().map(|cell| cell.text(&status.interfaces)).collect();
        row.extend(numbers(&group.sums, &top.total));
        row.extend(before.map(|before| rate(group, status, before)));
        row
    };
    let rows: Vec<_> = shown.iter().map(row).collect();
    let mut text = columns::text(&head, &rows);
    text.push_str(&rest(top, shown));
    text
}

/// What the table does not show, and the sum.
fn rest(top: &Top, shown: &[Group]) -> String {
    let mut others = top.others;
    for group in &top.groups[shown.len()..] {
        others += group.sums;
    }
    let in_all = sums("in all", &top.total);
    let left = top.count - shown.len();
    if others == GroupSums::default() {
        return in_all;
    }
    let more = if top.is_full { " or more" } else { "" };
    sums(&format!("{} others{more}", grouped(left as u64)), &others) + &in_all
}

fn sums(name: &str, sums: &GroupSums) -> String {
    let (flows, packets) = (counted(sums.flows, "flow"), counted(sums.both.packets, "packet"));
    format!("{name}: {flows}, {packets}, {}\n", counted(sums.both.octets, "byte"))
}

fn numbers(sums: &GroupSums, total: &GroupSums) -> [String; 4] {
    let share = sums.both.octets as f64 * 100.0 / (total.both.octets as f64).max(1.0);
    let GroupSums { flows, both, .. } = sums;
    [grouped(*flows), grouped(both.packets), grouped(both.octets), format!("{share:.1}%")]
}

/// Bits a second since the status before, if the group was shown then.
fn rate(group: &Group, now: &FlowStatus, before: &FlowStatus) -> String {
    let Some(top) = &before.top else { return String::new() };
    let Some(old) = top.groups.iter().find(|old| old.cells == group.cells) else {
        return String::new();
    };
    let seconds = now.now.0.saturating_sub(before.now.0) as f64 / 1e9;
    let octets = group.sums.both.octets.saturating_sub(old.sums.both.octets);
    if seconds > 0.0 { scaled(octets as f64 * 8.0 / seconds) } else { String::new() }
}

/// Frames that a run delivered to its observers.
pub fn delivered(ledger: &Ledger) -> Option<u64> {
    let observers = ledger.consumers.iter().find(|consumer| consumer.name == OBSERVERS);
    observers.map(|observers| observers.delivered)
}

/// Shows what was found, as it was asked for, then the account; true if it balances, and holds all
/// of `delivered`.
///
/// # Errors
/// Standard output cannot be written.
pub fn finish(
    top: &TopOptions,
    shown: Shown,
    status: &FlowStatus,
    delivered: Option<u64>,
) -> io::Result<bool> {
    match shown {
        Shown::Table => say::data(table(&top.fields, status, None, top.count).trim_end())?,
        Shown::Groups => groups(&top.fields, status)?,
        Shown::Records(_) => {}
    }
    let received = status.ledger.received.packets;
    let is_whole = delivered.is_none_or(|delivered| delivered == received);
    let balances = status.balances() && is_whole;
    say::message(account(status).trim_end());
    if !is_whole {
        let delivered = grouped(delivered.unwrap_or_default());
        say::message(format_args!("the run delivered {delivered} frames to the flow table"));
    }
    say::message(match balances {
        true => "the account of flows balances",
        false => "the account of flows does not balance",
    });
    if shown.is_json() {
        say::data(serde_json::json!({ "account": status.json() }))?;
    }
    Ok(balances)
}

/// A JSON object for each group.
fn groups(fields: &[Field], status: &FlowStatus) -> io::Result<()> {
    let Some(top) = &status.top else { return Ok(()) };
    for group in &top.groups {
        let cells = group.cells.iter().map(|cell| cell.json(&status.interfaces));
        let mut object: serde_json::Map<_, _> =
            fields.iter().map(|field| field.name().to_owned()).zip(cells).collect();
        let GroupSums { flows, both, forward } = group.sums;
        let numbers = [
            ("flows", flows),
            ("packets", both.packets),
            ("bytes", both.octets),
            ("forward_packets", forward.packets),
            ("forward_bytes", forward.octets),
        ];
        object.extend(numbers.map(|(name, number)| (name.to_owned(), number.into())));
        say::data(serde_json::Value::from(object))?;
    }
    Ok(())
}

/// The account of the table and of each sink, as lines.
fn account(status: &FlowStatus) -> String {
    let (mut out, ledger) = (String::new(), &status.ledger);
    let octets = |octets| format!("frames of {}", counted(octets, "byte"));
    count(&mut out, "flow packets", ledger.received.packets, &octets(ledger.received.octets));
    let records = EndReason::ALL.map(|end| (end.name(), ledger.records[end.index()]));
    let why: Vec<_> = records
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| format!("{name} {}", grouped(count)))
        .collect();
    let note = match why.is_empty() {
        true => "no record".to_owned(),
        false => {
            let all = ledger.records.iter().sum();
            format!("in {}: {}", counted(all, "record"), why.join(", "))
        }
    };
    count(&mut out, "  exported", ledger.exported.packets, &note);
    if status.held.packets > 0 {
        count(&mut out, "  held", status.held.packets, "in flows that go on");
    }
    for why in NoFlow::ALL {
        let sums = ledger.no_flow[why as usize];
        if sums.packets > 0 {
            count(&mut out, &format!("  {}", why.name()), sums.packets, "in no flow");
        }
    }
    if ledger.fragments_without_ports > 0 {
        let note = "fragments, their first not seen: under ports 0";
        count(&mut out, "  of these", ledger.fragments_without_ports, note);
    }
    if ledger.clock_steps > 0 {
        count(&mut out, "clock steps", ledger.clock_steps, "back, in the stamps of packets");
    }
    for (name, counts) in &status.sinks {
        sink(&mut out, name, counts);
    }
    out
}

fn sink(out: &mut String, name: &str, counts: &SinkCounts) {
    for (what, sums) in counts.named() {
        if sums.records > 0 || what == "delivered" {
            let packets = counted(sums.held.packets, "packet");
            count(
                out,
                &format!("  {what}"),
                sums.records,
                &format!("records of {packets}: {name}"),
            );
        }
    }
}
