//! The account of an extension, for people and programs.

use crate::logs::{Account, written};
use ringside_extension::{ExtensionStatus, Fault, Refusal, limits};
use ringside_terminal::ledger_text::count;
use ringside_terminal::units::{counted, grouped};

/// The account.
pub fn account(status: &ExtensionStatus) -> Account<'_> {
    Account {
        of: "record",
        frames: status.ledger.packets,
        text: text(status),
        json: status.json(),
        balances: status.balances,
        logs: &status.logs,
    }
}

/// The account as lines.
fn text(status: &ExtensionStatus) -> String {
    let (mut out, ledger) = (String::new(), &status.ledger);
    let name = status.name.escape_debug();
    count(&mut out, "packets", ledger.packets, &format!("for the extension {name}"));
    let shown = ledger.analyzed + ledger.faults();
    let fuel = match ledger.fuel.checked_div(shown) {
        None | Some(0) => String::new(),
        Some(fuel) => format!("fuel of a packet: {}", grouped(fuel)),
    };
    count(&mut out, "  analyzed", ledger.analyzed, &fuel);
    for fault in Fault::ALL {
        let packets = ledger.faults[fault.index()];
        if packets > 0 {
            count(&mut out, &format!("  {}", fault.name()), packets, of_fault(fault));
        }
    }
    if ledger.after_stop > 0 {
        count(&mut out, "  after stop", ledger.after_stop, "not shown to it, since it was stopped");
    }
    if ledger.cut > 0 {
        count(&mut out, "cut", ledger.cut, "packets without their end, which were too long for it");
    }
    count(&mut out, "records", ledger.emitted, "that it handed over");
    for refusal in Refusal::ALL {
        let records = ledger.refused[refusal.index()];
        if records > 0 {
            count(&mut out, &format!("  {}", refusal.name()), records, of_refusal(refusal));
        }
    }
    written(&mut out, &status.logs, "");
    for (name, number) in &status.counters {
        count(&mut out, name, *number, "as it counted");
    }
    if ledger.counts_refused > 0 {
        let most = counted(limits::COUNTERS_MAX as u64, "counter");
        let why = format!("counts without a plain name, or of more than {most}");
        count(&mut out, "not counted", ledger.counts_refused, &why);
    }
    out
}

fn of_fault(fault: Fault) -> &'static str {
    match fault {
        Fault::OutOfFuel => "packets: it did not end with them in its time",
        Fault::StackExhausted => "packets: it called itself too deeply",
        Fault::OutOfBounds => "packets: it read or wrote outside its memory",
        Fault::Trapped => "packets: it gave up with them",
        Fault::NotRun => "packets: the kernel did not run it",
    }
}

fn of_refusal(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::OutsideMemory => "refused: they were not in its memory",
        Refusal::TooLong => "refused: too long",
        Refusal::NoRecord => "refused: no JSON objects of plain values",
        Refusal::TooMany => "refused: too many of one packet",
    }
}
