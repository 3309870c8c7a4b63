//! The neighbour keeper: which neighbours are to be asked whether they are still there.
//!
//! Packets that are forwarded in a driver do not tell the kernel that a neighbour is used, and the
//! kernel's tables go on to give a neighbour's address in the link layer that is no longer right.
//! So each next hop in use is asked every so often, at the address that is known, as the kernel
//! does by itself before it gives an address up. One that does not answer is sought by asking
//! everybody; its packets are left to the host meanwhile, which keeps some until it answers.

use ringside_netdev::Neighbour;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// How long a neighbour has to answer: thousands of times what one on the same link takes.
const PATIENCE: Duration = Duration::from_millis(200);
/// A next hop that no packet used for so long is not asked any more.
const USED_FOR: Duration = Duration::from_secs(2);
/// Most questions a second, each a frame of 42 or 86 bytes: with more neighbours in use each is
/// asked less often.
const QUESTIONS_PER_SEC: u32 = 200;
/// Most orders at a time: those that come into use together are asked one after the other.
const ORDERS_MAX: usize = 50;

/// What has been asked so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// Neighbours that are in use.
    pub in_use: u64,
    /// How often one was asked whether it is still there.
    pub probes: u64,
    /// How often one did not answer, and was sought.
    pub sought: u64,
}

/// An order to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Ask it at its address.
    Probe(Neighbour),
    /// Forget its address, and ask everybody.
    Seek(Neighbour),
}

/// Those that are in use.
#[derive(Debug)]
pub(crate) struct Keeper {
    interval: Duration,
    hops: HashMap<(u32, IpAddr), Hop>,
    asked: Asked,
}

#[derive(Clone, Copy, Debug)]
struct Hop {
    used_at: Instant,
    asked_at: Option<Instant>,
    /// Since when it owes an answer.
    waits_since: Option<Instant>,
}

impl Keeper {
    /// Asks each one every `interval`.
    pub(crate) fn new(interval: Duration) -> Keeper {
        Keeper { interval, hops: HashMap::new(), asked: Asked::default() }
    }

    pub(crate) fn asked(&self) -> Asked {
        self.asked
    }

    /// True if some are in use, so that the kernel's list is needed.
    pub(crate) fn is_busy(&self) -> bool {
        !self.hops.is_empty()
    }

    /// What is to be done now, with the kernel's neighbours and those that were used since the last
    /// call.
    pub(crate) fn step(
        &mut self,
        now: Instant,
        neighbours: &[Neighbour],
        is_used: impl Fn(&Neighbour) -> bool,
    ) -> Vec<Order> {
        let mut before = std::mem::take(&mut self.hops);
        for neighbour in neighbours.iter().filter(|one| one.is_valid() && one.is_asked()) {
            let key = (neighbour.ifindex, neighbour.address);
            let known = before.remove(&key);
            let used_at = if is_used(neighbour) { Some(now) } else { known.map(|hop| hop.used_at) };
            let Some(used_at) = used_at.filter(|at| now.duration_since(*at) < USED_FOR) else {
                continue;
            };
            let hop = known.unwrap_or(Hop { used_at, asked_at: None, waits_since: None });
            self.hops.insert(key, Hop { used_at, ..hop });
        }
        self.asked.in_use = self.hops.len() as u64;
        let interval = self.interval.max(Duration::from_secs(1) / QUESTIONS_PER_SEC * self.count());
        let mut orders = Vec::new();
        for neighbour in neighbours {
            if orders.len() == ORDERS_MAX {
                break;
            }
            let Some(hop) = self.hops.get_mut(&(neighbour.ifindex, neighbour.address)) else {
                continue;
            };
            orders.extend(hop.order(now, neighbour, interval));
        }
        for order in &orders {
            match order {
                Order::Probe(_) => self.asked.probes += 1,
                Order::Seek(_) => self.asked.sought += 1,
            }
        }
        orders
    }

    fn count(&self) -> u32 {
        u32::try_from(self.hops.len()).unwrap_or(u32::MAX)
    }
}

impl Hop {
    fn order(&mut self, now: Instant, neighbour: &Neighbour, interval: Duration) -> Option<Order> {
        if neighbour.is_probed() {
            let since = *self.waits_since.get_or_insert(now);
            if now.duration_since(since) < PATIENCE {
                return None;
            }
            *self = Hop { asked_at: Some(now), waits_since: None, ..*self };
            return Some(Order::Seek(*neighbour));
        }
        self.waits_since = None;
        if self.asked_at.is_some_and(|at| now.duration_since(at) < interval) {
            return None;
        }
        *self = Hop { asked_at: Some(now), waits_since: Some(now), ..*self };
        Some(Order::Probe(*neighbour))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_millis(400);

    fn neighbour(last: u8, state: u16) -> Neighbour {
        let address = IpAddr::from([10, 0, 0, last]);
        Neighbour { ifindex: 3, address, mac: Some([2, 0, 0, 0, 0, last]), state }
    }

    fn at(start: Instant, ms: u64) -> Instant {
        start + Duration::from_millis(ms)
    }

    #[test]
    fn one_in_use_is_asked_every_interval_and_no_other_is() {
        let (start, mut keeper) = (Instant::now(), Keeper::new(INTERVAL));
        let all = [neighbour(1, libc::NUD_REACHABLE), neighbour(2, libc::NUD_STALE)];
        let mut probes = 0;
        for ms in (0..4000).step_by(50) {
            let orders = keeper.step(at(start, ms), &all, |one| *one == all[1]);
            assert!(orders.iter().all(|order| *order == Order::Probe(all[1])), "{orders:?}");
            probes += orders.len();
        }
        assert_eq!(probes, 10);
        assert_eq!(keeper.asked(), Asked { in_use: 1, probes: 10, sought: 0 });
        // No packet any more.
        for ms in (4000..9000).step_by(50) {
            keeper.step(at(start, ms), &all, |_| false);
        }
        assert!(!keeper.is_busy());
        assert!(keeper.asked().probes <= 15);
    }

    #[test]
    fn one_that_does_not_answer_is_sought_within_a_second_of_its_change() {
        let (start, mut keeper) = (Instant::now(), Keeper::new(INTERVAL));
        let right = [neighbour(1, libc::NUD_REACHABLE)];
        let waiting = [neighbour(1, libc::NUD_PROBE)];
        assert_eq!(keeper.step(start, &right, |_| true), [Order::Probe(right[0])]);
        let mut state = right;
        let mut sought = None;
        for ms in (50..2000).step_by(50) {
            for order in keeper.step(at(start, ms), &state, |_| true) {
                match order {
                    Order::Probe(_) => state = waiting,
                    Order::Seek(one) => sought = sought.or(Some((ms, one))),
                }
            }
        }
        let (ms, one) = sought.unwrap();
        assert_eq!(one, waiting[0]);
        assert!(ms <= 700, "after {ms} ms");
    }

    #[test]
    fn those_without_an_address_or_set_by_hand_are_left_alone() {
        let (start, mut keeper) = (Instant::now(), Keeper::new(INTERVAL));
        let states = [libc::NUD_PERMANENT, libc::NUD_NOARP, libc::NUD_FAILED, libc::NUD_INCOMPLETE];
        let all = states.map(|state| neighbour(1, state));
        assert_eq!(keeper.step(start, &all, |_| true), []);
        assert!(!keeper.is_busy());
    }

    #[test]
    fn many_are_asked_less_often() {
        let (start, mut keeper) = (Instant::now(), Keeper::new(INTERVAL));
        let many: Vec<Neighbour> = (0..2000u32)
            .map(|at| Neighbour {
                address: IpAddr::from(at.to_be_bytes()),
                ..neighbour(0, libc::NUD_STALE)
            })
            .collect();
        for ms in (0..10_000).step_by(50) {
            keeper.step(at(start, ms), &many, |_| true);
        }
        assert_eq!(keeper.asked().probes, 2000, "once in ten seconds");
    }
}
