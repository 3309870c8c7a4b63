//! Which CPU each worker gets, which the writers, and on which node the memory lies: a plan from
//! what is known of the machine ([`plan`]), and what is known ([`PlacementFacts::of`]).
//!
//! Two things are worth a plan. A worker that shares a CPU with the kernel's polling of its queue
//! waits for the scheduler at every batch, or starves what feeds it; and memory of another NUMA
//! node costs twice. Nothing else is decided: a single worker whose queue is polled on an unknown
//! CPU is left to the scheduler, because pinned to a busy CPU it would only lose.

use ringside_netdev as netdev;
use ringside_sys::numa::{self, NumaNode};
use ringside_sys::{SysError, thread};
use std::path::Path;

/// Lanes that are named one by one in words.
const NAMED_LANES_MAX: usize = 8;

/// What is known of one interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterfaceFacts {
    /// Its name.
    pub name: String,
    /// NUMA node of its card.
    pub node: Option<usize>,
    /// For each receive queue the CPUs on which it may be polled; empty if unknown.
    pub queues: Vec<Vec<usize>>,
}

/// What is known of one lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneFacts {
    /// Its interface, as an index.
    pub interface: usize,
    /// The queue that feeds it; none if any may.
    pub queue: Option<usize>,
    /// Threads that drain it.
    pub threads: usize,
}

/// What a plan is made from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlacementFacts {
    /// NUMA nodes with their CPUs.
    pub nodes: Vec<NumaNode>,
    /// CPUs that this process may run on, in ascending order.
    pub allowed: Vec<usize>,
    /// The interfaces that are captured from.
    pub interfaces: Vec<InterfaceFacts>,
    /// Lanes, in the order of the run.
    pub lanes: Vec<LaneFacts>,
    /// For each directory of a recording the node of its disk.
    pub disks: Vec<Option<usize>>,
}

/// Where everything goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// One CPU for each thread of each lane in turn; empty leaves the workers to the scheduler.
    pub workers: Vec<usize>,
    /// For each directory the CPUs of its writer; empty leaves it to the scheduler.
    pub writers: Vec<Vec<usize>>,
    /// The node for the memory of frames; none where there is nothing to choose.
    pub memory_node: Option<usize>,
    /// Why, in words; empty if nothing was decided.
    pub reason: String,
}

impl PlacementFacts {
    /// What this machine says of `interfaces`, in the calling thread's network namespace. What it
    /// does not say of an interface is unknown, and no error.
    ///
    /// # Errors
    /// The interfaces cannot be listed, or the CPUs not be asked for.
    pub fn of(
        interfaces: &[String],
        lanes: Vec<LaneFacts>,
        directories: &[impl AsRef<Path>],
    ) -> Result<PlacementFacts, SysError> {
        let devices = netdev::list()?;
        let facts = |name: &String| {
            let device = devices.iter().find(|device| device.name == *name);
            let queues = device.and_then(|device| netdev::polled_queues(device).ok());
            InterfaceFacts {
                name: name.clone(),
                node: device.and_then(netdev::node),
                queues: queues.unwrap_or_default().into_iter().map(|queue| queue.cpus).collect(),
            }
        };
        Ok(PlacementFacts {
            nodes: numa::nodes(),
            allowed: thread::allowed_cpus()?,
            interfaces: interfaces.iter().map(facts).collect(),
            lanes,
            disks: directories.iter().map(|path| numa::node_of_disk(path.as_ref())).collect(),
        })
    }

    /// The CPU on which a queue is polled, where that is one: a NAPI that may run anywhere is
    /// nowhere in particular.
    fn polled_on(&self, lane: LaneFacts) -> Option<usize> {
        let queues = &self.interfaces.get(lane.interface)?.queues;
        let queue = match (lane.queue, &queues[..]) {
            (Some(queue), _) => queues.get(queue)?,
            (None, [only]) => only,
            (None, _) => return None,
        };
        match queue[..] {
            [cpu] => Some(cpu),
            _ => None,
        }
    }

    /// How many queues are polled on `cpu` and on few others.
    fn polled_here(&self, cpu: usize) -> usize {
        let anywhere = |cpus: &&Vec<usize>| self.allowed.iter().all(|cpu| cpus.contains(cpu));
        let queues = self.interfaces.iter().flat_map(|interface| &interface.queues);
        let is_all = self.allowed.len() > 1;
        queues.filter(|cpus| cpus.contains(&cpu) && !(is_all && anywhere(cpus))).count()
    }

    /// The CPUs that a lane's worker may get: those local to the card, if any of them are allowed.
    fn candidates(&self, lane: LaneFacts) -> Vec<usize> {
        let node = self.interfaces.get(lane.interface).and_then(|interface| interface.node);
        near(&self.nodes, &self.allowed, node).unwrap_or_else(|| self.allowed.clone())
    }
}

/// The plan for what is known. Changes nothing.
pub fn plan(facts: &PlacementFacts) -> Plan {
    let workers = workers(facts);
    let writers: Vec<Vec<usize>> = facts
        .disks
        .iter()
        .map(|&disk| writer_cpus(&facts.nodes, &facts.allowed, disk, &workers))
        .collect();
    let memory_node = memory_node(facts);
    let reason = reason(facts, &workers, &writers, memory_node);
    Plan { workers, writers, memory_node, reason }
}

/// The CPUs for the writer of a directory on a disk of node `disk`: those of the node but for the
/// workers', unless none are left; empty where the node is unknown or the only one.
pub fn writer_cpus(
    nodes: &[NumaNode],
    allowed: &[usize],
    disk: Option<usize>,
    workers: &[usize],
) -> Vec<usize> {
    let Some(cpus) = near(nodes, allowed, disk) else { return Vec::new() };
    let free: Vec<usize> = cpus.iter().copied().filter(|cpu| !workers.contains(cpu)).collect();
    if free.is_empty() { cpus } else { free }
}

/// Allowed CPUs of a node; none where there is no choice.
fn near(nodes: &[NumaNode], allowed: &[usize], node: Option<usize>) -> Option<Vec<usize>> {
    let node = nodes.iter().find(|candidate| Some(candidate.id) == node)?;
    let cpus: Vec<usize> = allowed.iter().copied().filter(|cpu| node.cpus.contains(cpu)).collect();
    (nodes.len() > 1 && !cpus.is_empty()).then_some(cpus)
}

fn workers(facts: &PlacementFacts) -> Vec<usize> {
    if let [lane] = facts.lanes[..]
        && (facts.polled_on(lane).is_none() || facts.allowed.len() < 2)
        && facts.candidates(lane) == facts.allowed
    {
        return Vec::new();
    }
    let mut placed: Vec<usize> = Vec::new();
    let threads = facts.lanes.iter().flat_map(|lane| std::iter::repeat_n(*lane, lane.threads));
    for lane in threads {
        let own = facts.polled_on(lane);
        let load = |cpu: usize| {
            let workers = placed.iter().filter(|&&other| other == cpu).count();
            // Among CPUs that are equally busy the one that has the lane's frames in its cache.
            (workers + facts.polled_here(cpu), Some(cpu) != own)
        };
        let best = facts.candidates(lane).into_iter().min_by_key(|&cpu| load(cpu));
        placed.extend(best);
    }
    placed
}

/// The node of all the cards, if it is one of several and holds memory's CPUs.
fn memory_node(facts: &PlacementFacts) -> Option<usize> {
    let mut nodes = facts.interfaces.iter().map(|interface| interface.node);
    let first = nodes.next()??;
    let is_known = facts.nodes.iter().any(|node| node.id == first);
    (facts.nodes.len() > 1 && is_known && nodes.all(|node| node == Some(first))).then_some(first)
}

fn reason(
    facts: &PlacementFacts,
    workers: &[usize],
    writers: &[Vec<usize>],
    memory_node: Option<usize>,
) -> String {
    let mut parts = Vec::new();
    if workers.is_empty() {
        // Nothing to say of them.
    } else if facts.lanes.len() > NAMED_LANES_MAX {
        let mut cpus = workers.to_vec();
        cpus.sort_unstable();
        cpus.dedup();
        parts.push(format!("{} workers on CPUs {}", workers.len(), list(&cpus)));
    } else {
        let mut rest = workers;
        parts.extend(facts.lanes.iter().enumerate().map(|(index, &lane)| {
            let (cpus, others) = rest.split_at(lane.threads.min(rest.len()));
            rest = others;
            let name = facts.interfaces.get(lane.interface).map_or("", |interface| &interface.name);
            let before = facts.lanes[..index].iter();
            let number = before.filter(|other| other.interface == lane.interface).count();
            let text: Vec<String> = cpus.iter().map(ToString::to_string).collect();
            let text = text.join(" and ");
            format!("{name} lane {number} on CPU {text}{}", why(facts, lane, cpus))
        }));
    }
    for cpus in writers.iter().filter(|cpus| !cpus.is_empty()) {
        parts.push(format!("a writer beside its disk on CPU {}", list(cpus)));
    }
    parts.extend(memory_node.map(|node| format!("memory of NUMA node {node}, that of the card")));
    parts.join(", ")
}

fn why(facts: &PlacementFacts, lane: LaneFacts, cpus: &[usize]) -> String {
    let polled = match facts.polled_on(lane) {
        Some(own) if cpus == [own] => " (where its queue is polled: no other is less busy)".into(),
        Some(own) => format!(" (its queue is polled on CPU {own})"),
        None => String::new(),
    };
    let is_near = facts.candidates(lane) != facts.allowed;
    let near = if is_near { " beside the card" } else { "" };
    format!("{near}{polled}")
}

/// `0-3,8`, as the kernel writes sets of CPUs.
fn list(cpus: &[usize]) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for &cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    let text = |&(first, last): &(usize, usize)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    ranges.iter().map(text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests;
