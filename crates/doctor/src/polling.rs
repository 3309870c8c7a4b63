//! Where an interface is polled: NAPIs, interrupts, the NUMA node.

use super::check::{Checks, State};
use ringside_keeper::Request;
use ringside_netdev::{self as netdev, Napi, NetDevice, PolledQueue, Poller};
use ringside_sys::numa::{self, NumaNode};
use ringside_sys::thread;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Queues that are named one by one.
const NAMED_MAX: usize = 16;

/// All about it.
///
/// # Errors
/// The interface is gone, or netlink is not there.
pub fn checks(checks: &mut Checks, device: &NetDevice) -> anyhow::Result<()> {
    let allowed = thread::allowed_cpus()?;
    napis(checks, &netdev::napis(device.ifindex)?);
    affinity(checks, &netdev::polled_queues(device)?, &allowed);
    node(checks, netdev::node(device), &numa::nodes(), &allowed);
    Ok(())
}

fn napis(checks: &mut Checks, napis: &[Napi]) {
    if napis.is_empty() {
        checks.good("napi", "none is known");
        return;
    }
    let threads = napis.iter().filter(|napi| napi.thread.is_some()).count();
    let mut found = format!("{}, {threads} in threads", napis.len());
    let settings: Vec<_> = napis.iter().filter_map(|napi| napi.settings).collect();
    if let Some(first) = settings.first() {
        let (defer, timeout) = (first.defer_hard_irqs, first.gro_flush_timeout_ns);
        found += &format!(", defer_hard_irqs {defer}, gro_flush_timeout {timeout} ns");
    }
    let is_stuck = |s: &netdev::NapiSettings| s.defer_hard_irqs > 0 && s.gro_flush_timeout_ns == 0;
    if settings.iter().any(is_stuck) {
        let why = "interrupts are put off without a time after which it is polled again";
        checks.add("napi", State::Warning, found, why);
    } else {
        checks.good("napi", found);
    }
}

fn affinity(checks: &mut Checks, queues: &[PolledQueue], allowed: &[usize]) {
    let known: Vec<&PolledQueue> = queues.iter().filter(|queue| !queue.cpus.is_empty()).collect();
    if known.is_empty() {
        checks.good("affinity", "it is not known on which CPU the queues are polled");
        return;
    }
    let text = |queue: &&&PolledQueue| format!("queue {} on CPU {:?}", queue.queue, queue.cpus);
    let mut found: Vec<String> = known.iter().take(NAMED_MAX).map(|q| text(&q)).collect();
    if known.len() > NAMED_MAX {
        found.push(format!("and {} more", known.len() - NAMED_MAX));
    }
    let moves = spread(&known, allowed);
    if moves.is_empty() {
        checks.good("affinity", found.join(", "));
        return;
    }
    let why = "queues share a CPU while another has none; irqbalance may undo the fix";
    let check = checks.add("affinity", State::Warning, found.join(", "), why);
    let command = |(poller, cpu): &(Poller, usize)| match poller {
        Poller::Interrupt(number) => format!("echo {cpu} > /proc/irq/{number}/smp_affinity_list"),
        Poller::Thread(thread) => format!("taskset -p -c {cpu} {thread}"),
        Poller::Unknown => String::new(),
    };
    check.fix(moves.iter().map(command).collect::<Vec<_>>().join("; "));
    check.fixed_by(moves.iter().filter_map(|(poller, cpu)| match poller {
        Poller::Interrupt(number) => Some(Request::File {
            path: PathBuf::from(format!("/proc/irq/{number}/smp_affinity_list")),
            value: cpu.to_string(),
        }),
        _ => None,
    }));
}

/// Which queues should move where, so that no CPU has two more than another.
fn spread(queues: &[&PolledQueue], allowed: &[usize]) -> Vec<(Poller, usize)> {
    let mut load: BTreeMap<usize, usize> = allowed.iter().map(|&cpu| (cpu, 0)).collect();
    let on_one = |queue: &&&PolledQueue| queue.cpus.len() == 1;
    let fixed: Vec<&PolledQueue> = queues.iter().filter(on_one).copied().collect();
    for queue in &fixed {
        *load.entry(queue.cpus[0]).or_default() += 1;
    }
    let mut moves = Vec::new();
    for queue in fixed {
        let from = queue.cpus[0];
        let target = allowed.iter().copied().min_by_key(|cpu| load[cpu]);
        let Some(to) = target.filter(|to| load[to] + 1 < load[&from]) else { continue };
        *load.entry(from).or_default() -= 1;
        *load.entry(to).or_default() += 1;
        moves.push((queue.by, to));
    }
    moves
}

fn node(checks: &mut Checks, card: Option<usize>, nodes: &[NumaNode], allowed: &[usize]) {
    let known = card.and_then(|card| nodes.iter().find(|node| node.id == card));
    match known {
        _ if nodes.len() < 2 => checks.good("numa", "one node"),
        None => checks.good("numa", "the node of the card is not known"),
        Some(node) if node.cpus.iter().any(|cpu| allowed.contains(cpu)) => {
            checks.good("numa", format!("the card is on node {}, with CPUs of ours", node.id));
        }
        Some(node) => {
            let found = format!("the card is on node {}, no CPU there is allowed", node.id);
            let why = "every frame crosses from one node to the other";
            let cpus: Vec<String> = node.cpus.iter().map(ToString::to_string).collect();
            checks
                .add("numa", State::Warning, found, why)
                .fix(format!("taskset -c {} ringside capture …", cpus.join(",")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(number: u32, cpus: &[usize]) -> PolledQueue {
        let by = Poller::Interrupt(100 + number);
        PolledQueue { queue: number, napi: None, by, cpus: cpus.to_vec() }
    }

    #[test]
    fn queues_move_only_where_it_is_better() {
        type Case = (&'static [&'static [usize]], &'static [usize], &'static [(u32, usize)]);
        let cases: [Case; 6] = [
            (&[&[0], &[1]], &[0, 1], &[]),
            (&[&[0], &[0]], &[0, 1], &[(100, 1)]),
            (&[&[0], &[0], &[0]], &[0, 1], &[(100, 1)]),
            (&[&[0], &[0], &[0], &[0]], &[0, 1, 2, 3], &[(100, 1), (101, 2), (102, 3)]),
            (&[&[0, 1], &[0, 1]], &[0, 1], &[]),
            (&[&[5], &[5]], &[0, 1], &[(100, 0)]),
        ];
        for (queues, allowed, expected) in cases {
            let queues: Vec<PolledQueue> =
                queues.iter().enumerate().map(|(i, cpus)| queue(i as u32, cpus)).collect();
            let moves = spread(&queues.iter().collect::<Vec<_>>(), allowed);
            let expected: Vec<_> =
                expected.iter().map(|&(irq, cpu)| (Poller::Interrupt(irq), cpu)).collect();
            assert_eq!(moves, expected, "{queues:?}");
        }
    }

    #[test]
    fn a_card_on_a_node_that_is_not_allowed_is_reported() {
        let nodes = [0, 1].map(|id| NumaNode { id, cpus: vec![id * 2, id * 2 + 1] });
        let state = |card, allowed: &[usize]| {
            let mut checks = Checks::of("eth1");
            node(&mut checks, card, &nodes, allowed);
            checks.into_vec()[0].state
        };
        assert_eq!(state(Some(1), &[0, 1]), State::Warning);
        assert_eq!(state(Some(1), &[0, 3]), State::Ok);
        assert_eq!(state(None, &[0]), State::Ok);
    }
}
