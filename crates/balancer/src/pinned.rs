//! Balancers that go on without a process.

use crate::{BalancerError, Ledger};
use ringside_ebpf::balance::PinnedBalance;
use ringside_ebpf::pins::{Kind, Opened, Pins};
use std::path::Path;

/// A balancer that is pinned, whether or not a process is there.
#[derive(Debug)]
pub struct PinnedBalancer(Opened<PinnedBalance>);

impl PinnedBalancer {
    /// All of them, with what could not be read.
    pub fn all() -> (Vec<PinnedBalancer>, Vec<BalancerError>) {
        let (all, errors) = Pins::open_all(Kind::Balancer, PinnedBalance::open);
        let errors = errors.into_iter().map(Into::into).collect();
        (all.into_iter().map(PinnedBalancer).collect(), errors)
    }

    /// What is pinned, and where.
    pub fn pins(&self) -> &Pins {
        &self.0.pins
    }

    /// Where its names are in the BPF file system.
    pub fn directory(&self) -> &Path {
        self.0.program.directory()
    }

    /// Frames since it was pinned: exact while none come. What only a process knows is null.
    pub fn ledger(&self) -> Ledger {
        Ledger::of(&self.0.interface, self.0.program.maps())
    }
}

/// What is pinned of interfaces of this name and balances nothing, or cannot be read.
pub fn remains(interface: &str) -> Vec<Pins> {
    Pins::remains(Kind::Balancer, interface, PinnedBalance::open)
}
