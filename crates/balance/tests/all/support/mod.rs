//! What tests of the balancer share, here and in the crate of the program in the driver: frames,
//! something that decides about them, and each behaviour as a case.

#![allow(dead_code)] // each user needs a part

pub mod cases;
pub mod frames;
pub mod random;

use ringside_balance::balancer::{Balancer, Count, Hop, Interface, Towards, Verdict};
use ringside_balance::write::Link;
use ringside_balance::{Config, Tables};
use ringside_wire::MacAddr;

/// Hardware address of the balancer's interface.
pub const OURS: MacAddr = MacAddr([0x02, 0, 0, 0, 0, 0x01]);
/// Hardware address of the router that clients' frames come from.
pub const ROUTER: MacAddr = MacAddr([0x02, 0, 0, 0, 0, 0x02]);
/// Hardware address of a next hop that routes know.
pub const HOP: MacAddr = MacAddr([0x02, 0, 0, 0, 0, 0x03]);
/// The interface that frames come from.
pub const INTERFACE: Interface = Interface { number: 1, mac: OURS };
/// The interface that routes lead to, and its address.
pub const OUT: u32 = 7;
pub const OUT_MAC: MacAddr = MacAddr([0x02, 0, 0, 0, 0, 0x04]);

/// A configuration.
pub fn config(text: &str) -> Config {
    Config::read(text.as_bytes()).unwrap_or_else(|e| panic!("{text}\n{e}"))
}

/// What decides about frames: the model, or the program and the model side by side.
pub trait Plane {
    /// Begins anew.
    fn start(config: &Config) -> Self;
    /// From now on frames come to the first CPU, or to the second; false if there is no such CPU.
    fn go_to_cpu(&mut self, cpu: usize) -> bool;
    /// What becomes of a frame.
    fn decide(&mut self, frame: &[u8]) -> Verdict;
    /// The address of the real that a frame goes to.
    fn real(&mut self, frame: &[u8]) -> Option<String>
    where
        Self: Sized,
    {
        let verdict = self.decide(frame);
        real_of(self, &verdict)
    }
    /// Goes on with a configuration.
    fn change(&mut self, config: &Config);
    /// Lets time pass for what is remembered.
    fn age(&mut self, seconds: u64);
    /// The tables in force.
    fn tables(&self) -> &Tables;
    /// What was counted of a VIP.
    fn counts(&self, vip: u32) -> [u64; Count::ALL];
}

/// The model alone, in a time of its own.
pub struct Model {
    pub balancer: Balancer,
    pub now_ns: u64,
}

impl Plane for Model {
    fn start(config: &Config) -> Model {
        let now_ns = 1 << 40;
        let tables = Tables::new(config, now_ns);
        let flows = config.flows_per_cpu as usize;
        Model { balancer: Balancer::new(INTERFACE, tables, flows, 99).with_cpus(2), now_ns }
    }

    fn go_to_cpu(&mut self, cpu: usize) -> bool {
        self.balancer.go_to_cpu(cpu);
        true
    }

    fn decide(&mut self, frame: &[u8]) -> Verdict {
        self.now_ns += 1_000;
        self.balancer.decide(frame, self.now_ns, &mut route)
    }

    fn change(&mut self, config: &Config) {
        let tables = self.balancer.tables().next(config, self.now_ns);
        self.balancer.change(tables, self.now_ns);
    }

    fn age(&mut self, seconds: u64) {
        self.now_ns += seconds * 1_000_000_000;
    }

    fn tables(&self) -> &Tables {
        self.balancer.tables()
    }

    fn counts(&self, vip: u32) -> [u64; Count::ALL] {
        self.balancer.counts(vip)
    }
}

/// Routes of tests, by the last byte of the real's address: 0 to 99 by the other interface, 100 to
/// 149 with an MTU of 1,400, 150 to 199 without a neighbour, else none.
pub fn route(towards: &Towards) -> Hop {
    let last = ringside_balance::hash::address_words(towards.address)[1] as u8;
    match last {
        0..=99 => Hop::Found { interface: OUT, link: Link { destination: HOP, source: OUT_MAC } },
        100..=149 if towards.bytes > 1_400 => Hop::TooBig { mtu: 1_400 },
        100..=149 => {
            Hop::Found { interface: OUT, link: Link { destination: HOP, source: OUT_MAC } }
        }
        150..=199 => Hop::NoNeighbour,
        _ => Hop::NoRoute,
    }
}

/// The address of the real that a frame went to.
pub fn real_of(plane: &impl Plane, verdict: &Verdict) -> Option<String> {
    match verdict {
        Verdict::Send { real, .. } => Some(plane.tables().reals[*real as usize].ip().to_string()),
        _ => None,
    }
}
