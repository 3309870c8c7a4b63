//! Flows that the kernel adds up (`--cache kernel`).

use super::{FlowsArgs, Meter};
use crate::record;
use clap::{Args, ValueEnum};
use ringside_keeper::{KeeperOptions, Kept};
use ringside_report::flows;
use ringside_session::{CacheOptions, Hook, MeteringOptions, finish_for_dead};
use std::process::ExitCode;

/// Entries of each CPU unless asked otherwise.
const ENTRIES: u32 = 65_536;

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
        Ok(flows::tell_of_dead(args.shown(), &caches, reason)?)
    };
    let keeper = KeeperOptions { finish: Some(&finish), ..args.run.keeper_options(None) };
    ringside_keeper::supervised(&keeper, |link| {
        let mut meter = Meter::new(args);
        let monitor = meter.monitor()?;
        let options = MeteringOptions {
            hook: args.cache.hook(),
            cache: args.cache.options(),
            ..args.inputs.open.metering_options()
        };
        record::metered(&args.run, link, &mut meter, (options, monitor))
    })
}
