//! Where the threads of a run go, and how an interface spreads frames over its queues meanwhile.

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use ringside_capture::placement::{LaneFacts, PlacementFacts, plan};
use ringside_core::limits::LANES_MAX;
use ringside_keeper::{Knobs, Request, Wish};
use ringside_sys::numa::PreferredNode;
use ringside_sys::thread;
use ringside_terminal::say;
use std::path::PathBuf;

/// Options of placement.
#[derive(Args)]
pub struct PlacementArgs {
    /// CPUs for the workers, in turn, as 2,3. By default off the CPUs where the interface's queues
    /// are polled and beside its card, as far as that is known; else all that are allowed.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub cpus: Vec<usize>,

    /// Have each interface use so many receive queues while the run lasts.
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=LANES_MAX as i64))]
    set_queues: Option<u32>,

    /// How each interface spreads frames over its receive queues while the run lasts.
    #[arg(long, value_enum, value_name = "HOW", value_delimiter = ',')]
    rss: Vec<RssArg>,
}

/// Ways of receive side scaling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RssArg {
    /// Both directions of a flow in one queue.
    Symmetric,
    /// The same share for all queues.
    Even,
}

/// What was decided.
#[derive(Default)]
pub struct Placed {
    /// CPUs for the workers, in turn; empty leaves them to the scheduler.
    pub cpus: Vec<usize>,
    /// While it is there, memory comes from beside the card.
    pub memory: Option<PreferredNode>,
}

impl PlacementArgs {
    /// Turns what is asked for of the interfaces.
    ///
    /// # Errors
    /// An interface cannot do that; what was turned is put back at the end of the run.
    pub fn turn(&self, interfaces: &[String], knobs: &Knobs<'_>) -> anyhow::Result<()> {
        let wishes = self.wishes();
        for interface in interfaces {
            for (option, wish) in &wishes {
                let (interface, wish) = (interface.clone(), wish.clone());
                let context = || format!("{option} on {interface}");
                knobs
                    .turn(&Request::Interface { interface: interface.clone(), wish })
                    .with_context(context)?;
            }
        }
        Ok(())
    }

    /// The queues first: drivers fill the table anew for them.
    fn wishes(&self) -> Vec<(&'static str, Wish)> {
        let queues = self.set_queues.map(|count| ("--set-queues", Wish::Queues { count }));
        let rss = |how: &RssArg| match how {
            RssArg::Symmetric => ("--rss symmetric", Wish::SymmetricRss),
            RssArg::Even => ("--rss even", Wish::EvenRss),
        };
        queues.into_iter().chain(self.rss.iter().map(rss)).collect()
    }

    /// Decides, and says so where there was something to decide.
    ///
    /// # Errors
    /// A CPU was asked for that is not allowed, or the machine cannot be asked.
    pub fn place(
        &self,
        interfaces: &[String],
        lanes: Vec<LaneFacts>,
        directories: &[PathBuf],
    ) -> anyhow::Result<Placed> {
        if !self.cpus.is_empty() {
            let allowed = thread::allowed_cpus()?;
            if let Some(wrong) = self.cpus.iter().find(|cpu| !allowed.contains(cpu)) {
                bail!("--cpus {wrong}: this process may run on {allowed:?}");
            }
        }
        let plan = plan(&PlacementFacts::of(interfaces, lanes, directories)?);
        // Where it is not to be had, memory lies elsewhere: slower, and nothing is lost.
        let memory = plan.memory_node.and_then(|node| PreferredNode::new(node).ok());
        if !self.cpus.is_empty() {
            return Ok(Placed { cpus: self.cpus.clone(), memory });
        }
        if !plan.reason.is_empty() {
            say::message(format_args!("ringside: placement: {}", plan.reason));
        }
        Ok(Placed { cpus: plan.workers, memory })
    }
}
