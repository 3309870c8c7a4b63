//! Flows that the kernel adds up (`--cache kernel`).

use super::{FlowsArgs, Meter, text};
use crate::record;
use clap::{Args, ValueEnum};
use ringside_keeper::{KeeperOptions, Kept};
use ringside_session::{
    CacheOptions, Hook, MeterReport, MeteringOptions, MeteringReport, finish_for_dead,
};
use ringside_terminal::ledger_text::count;
use ringside_terminal::say;
use ringside_terminal::units::{counted, grouped};
use std::io;
use std::process::ExitCode;

/// Entries of each CPU unless asked otherwise.
const ENTRIES: u32 = 65_536;

/// Header that drivers of virtual interfaces leave out of their counts.
const ETHERNET_BYTES: u64 = 14;

/// Where packets are added up.
#[derive(Args)]
pub struct CacheArgs {
    /// Have the kernel add packets up before they come to the table. Every frame goes on to the
    /// host and to captures, and what needs a look at each segment is unknown.
    #[arg(long, value_enum, value_name = "WHERE", requires = "interfaces")]
    #[arg(conflicts_with_all = [
        "backend", "queues", "threads", "direction", "hardware_time", "cpus", "set_queues", "rss",
        "filter", "filter_file", "filter_text", "paths", "packets", "ring_size", "huge_pages",
        "read", "attach", "snaplen", "fanout", "kernel_ring_size", "buffer_kib", "block_timeout",
        "wait", "no_stamps",
    ])]
    cache: Option<Cache>,

    /// Where the kernel meets them. Unless asked otherwise: in the driver where the host does not
    /// use the interface, else by tcx.
    #[arg(long, value_enum, value_name = "HOOK", requires = "cache")]
    cache_hook: Option<CacheHook>,

    /// Entries of the cache for each CPU, a power of two; some 200 bytes each.
    #[arg(long, value_name = "N", requires = "cache", default_value_t = ENTRIES)]
    #[arg(value_parser = entries())]
    cache_entries: u32,
}

#[derive(Clone, Copy, ValueEnum)]
enum Cache {
    /// In a cache of the kernel, by an eBPF program.
    Kernel,
}

#[derive(Clone, Copy, ValueEnum)]
enum CacheHook {
    /// In the driver: what the interface receives.
    Xdp,
    /// At the ends of the host's stack (Linux 6.6): what it receives and sends.
    Tcx,
}

impl CacheArgs {
    /// True if the kernel is to add packets up.
    pub fn is_in_kernel(&self) -> bool {
        self.cache.is_some()
    }

    fn hook(&self) -> Option<Hook> {
        self.cache_hook.map(|hook| match hook {
            CacheHook::Xdp => Hook::Xdp,
            CacheHook::Tcx => Hook::Tc,
        })
    }

    fn options(&self) -> CacheOptions {
        CacheOptions { entries: self.cache_entries as usize, ..CacheOptions::default() }
    }
}

fn entries() -> impl clap::builder::TypedValueParser<Value = u32> {
    let [least, most] = CacheOptions::ENTRIES.map(|entries| entries as u32);
    use clap::builder::TypedValueParser;
    clap::value_parser!(u32).try_map(move |entries| {
        let is_right = entries.is_power_of_two() && (least..=most).contains(&entries);
        if is_right { Ok(entries) } else { Err(format!("a power of two from {least} to {most}")) }
    })
}

/// Runs, in two processes.
pub fn run(args: &FlowsArgs) -> anyhow::Result<ExitCode> {
    let finish = |kept: Vec<Kept>, reason: &str| -> anyhow::Result<()> {
        let caches = finish_for_dead(kept)?;
        Ok(tell_of_dead(args, &caches, reason)?)
    };
    let keeper = KeeperOptions { finish: Some(&finish), ..args.run.keeper_options(None) };
    ringside_keeper::supervised(&keeper, |link| {
        let mut meter = Meter::new(args);
        let monitor = meter.monitor()?;
        let options = MeteringOptions {
            hook: args.cache.hook(),
            cache: args.cache.options(),
            ..args.open.metering_options()
        };
        record::metered(&args.run, link, &mut meter, (options, monitor))
    })
}

/// Says what was done; true if nothing is missing.
pub fn tell(args: &FlowsArgs, report: &MeteringReport) -> io::Result<bool> {
    let (shown, taken) = (args.shown(), report.ledger.taken);
    if shown.is_json() {
        for cache in &report.caches {
            say::data(serde_json::json!({ "cache": cache.json() }))?;
        }
    }
    let mut balances = text::finish(&args.flows, shown, &report.flows, Some(taken))?;
    for cache in &report.caches {
        say::message(cache_text(cache).trim_end());
        if !cache.ledger.balances() {
            say::message(format_args!("the cache of {} does not balance", cache.interface));
            balances = false;
        }
    }
    Ok(balances)
}

/// The account of a cache, as lines.
fn cache_text(cache: &MeterReport) -> String {
    let (mut out, ledger, status) = (String::new(), &cache.ledger, &cache.status);
    let seen = cache.seen();
    count(&mut out, &format!("cache {}", cache.interface), seen.packets, &counted_by(cache));
    let room = format!("entries in use at most, of {}", grouped(status.entries_max as u64));
    count(&mut out, "  entries", status.entries, &room);
    count(&mut out, "  evicted", status.evicted, "entries, for other flows: their sums went up");
    count(&mut out, "  handed up", status.handed_up, "packets that the program does not read");
    count(&mut out, "  no room", ledger.no_room.packets, "packets lost on their way up");
    out
}

/// What the interface says of what the cache has seen.
fn counted_by(cache: &MeterReport) -> String {
    let (ledger, seen) = (&cache.ledger, cache.seen());
    let bytes = counted(seen.octets, "byte");
    let Some(interface) = ledger.interface else {
        return format!("packets of {bytes}; the interface is gone");
    };
    let mut counted_there = interface.received;
    if ledger.sent.packets > 0 {
        counted_there += interface.sent;
    }
    if counted_there == seen {
        return format!("packets of {bytes}, as the interface counted");
    }
    let without_headers = counted_there.octets + ETHERNET_BYTES * seen.packets;
    if (counted_there.packets, without_headers) == (seen.packets, seen.octets) {
        return format!("packets of {bytes}, as the interface counted without Ethernet headers");
    }
    let (packets, there) = (grouped(counted_there.packets), counted(counted_there.octets, "byte"));
    format!("packets of {bytes}; the interface counted {packets} of {there}")
}

/// Says what a dead worker left, and what is lost with it.
fn tell_of_dead(args: &FlowsArgs, caches: &[MeterReport], reason: &str) -> io::Result<()> {
    let of = |octets| format!("packets of {}", counted(octets, "byte"));
    for cache in caches {
        let (seen, ledger) = (cache.seen(), &cache.ledger);
        let (exported, lost) = (cache.exported_before(), cache.lost_with_worker());
        let mut out = String::new();
        count(&mut out, &format!("cache {}", cache.interface), seen.packets, &of(seen.octets));
        count(&mut out, "  exported", exported.packets, &of(exported.octets));
        let note = of(lost.octets) + " in flows that had no record yet";
        count(&mut out, "  lost", lost.packets, &note);
        count(&mut out, "  in no flow", cache.in_no_flow().packets, "without IP, or unreadable");
        count(&mut out, "  no room", ledger.no_room.packets, "packets lost on their way up");
        say::message(out.trim_end());
        if args.shown().is_json() {
            let mut line = serde_json::json!({ "cache": cache.json_of_dead() });
            line["closed_by"] = "keeper".into();
            line["reason"] = reason.into();
            say::data(line)?;
        }
    }
    Ok(())
}
