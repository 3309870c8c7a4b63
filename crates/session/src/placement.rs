//! Where the threads of a run go, and how an interface spreads frames over its queues meanwhile.

use crate::note::{Note, Notes};
use crate::refused::Refused;
use crate::setting::{Rss, Setting};
use ringside_capture::placement::{LaneFacts, PlacementFacts, plan};
use ringside_keeper::{Knobs, Request, SettingRequest};
use ringside_sys::numa::PreferredNode;
use ringside_sys::thread;
use std::path::PathBuf;

/// What is asked about places and queues. By default places are chosen and queues stay as they are.
#[derive(Clone, Debug, Default)]
pub struct PlacementOptions {
    /// CPUs for the workers, in turn; empty for a choice: off the CPUs where the interface's queues
    /// are polled and on its card's NUMA node, as far as that is known.
    pub cpus: Vec<usize>,
    /// Receive queues that each interface uses while the run lasts.
    pub queues: Option<u32>,
    /// How each interface spreads frames over its receive queues while the run lasts.
    pub rss: Vec<Rss>,
}

/// What was decided.
#[derive(Default)]
pub(crate) struct Placed {
    /// CPUs for the workers, in turn; empty leaves them to the scheduler.
    pub cpus: Vec<usize>,
    /// While it is there, memory comes from the card's NUMA node.
    pub memory: Option<PreferredNode>,
}

impl PlacementOptions {
    /// Turns what is asked for of the interfaces; what was turned is put back at the end of the
    /// run.
    pub(crate) fn turn(&self, interfaces: &[String], knobs: &Knobs<'_>) -> anyhow::Result<()> {
        let requests = self.setting_requests();
        for interface in interfaces {
            for (setting, wanted) in &requests {
                let request =
                    Request::Interface { interface: interface.clone(), setting: wanted.clone() };
                let refused = |error| {
                    let (setting, interface) = (*setting, interface.clone());
                    Refused::Setting { setting, interface, error }
                };
                knobs.turn(&request).map_err(refused)?;
            }
        }
        Ok(())
    }

    /// The queues first: drivers fill the table anew for them.
    fn setting_requests(&self) -> Vec<(Setting, SettingRequest)> {
        let queues = self.queues.map(|count| (Setting::Queues, SettingRequest::Queues { count }));
        let rss = |&rss: &Rss| match rss {
            Rss::Symmetric => (Setting::Rss(rss), SettingRequest::SymmetricRss),
            Rss::Even => (Setting::Rss(rss), SettingRequest::EvenRss),
        };
        queues.into_iter().chain(self.rss.iter().map(rss)).collect()
    }

    /// Decides, and says so where there was something to decide. Refuses a CPU that is not allowed.
    pub(crate) fn place(
        &self,
        interfaces: &[String],
        lanes: Vec<LaneFacts>,
        directories: &[PathBuf],
        notes: Notes<'_>,
    ) -> anyhow::Result<Placed> {
        if !self.cpus.is_empty() {
            let allowed = thread::allowed_cpus()?;
            if let Some(&cpu) = self.cpus.iter().find(|cpu| !allowed.contains(cpu)) {
                return Err(Refused::Cpu { cpu, allowed }.into());
            }
        }
        let plan = plan(&PlacementFacts::of(interfaces, lanes, directories)?);
        // Where it is not to be had, memory lies elsewhere: slower, and nothing is lost.
        let memory = plan.memory_node.and_then(|node| PreferredNode::new(node).ok());
        if !self.cpus.is_empty() {
            return Ok(Placed { cpus: self.cpus.clone(), memory });
        }
        if !plan.reason.is_empty() {
            notes(Note::Placement { reason: plan.reason });
        }
        Ok(Placed { cpus: plan.workers, memory })
    }
}
