//! Balancers that go on without a process.

use crate::{BalancerError, Ledger};
use ringside_ebpf::balance::PinnedBalance;
use ringside_ebpf::pins::{Kind, Pins};
use std::path::Path;

/// A balancer that is pinned, whether or not a process is there.
#[derive(Debug)]
pub struct PinnedBalancer {
    pins: Pins,
    /// The interface's name when it was pinned.
    interface: String,
    balance: PinnedBalance,
}

impl PinnedBalancer {
    /// All of them, with what could not be read.
    pub fn all() -> (Vec<PinnedBalancer>, Vec<BalancerError>) {
        let (mut all, mut errors) = (Vec::new(), Vec::new());
        for pins in Pins::all(Kind::Balancer).into_iter().filter(|pins| !pins.is_stale()) {
            match PinnedBalance::open(&pins) {
                Ok(Some(balance)) => {
                    let interface = pins.interface().unwrap_or_default();
                    all.push(PinnedBalancer { pins, interface, balance });
                }
                Ok(None) => {}
                Err(error) => errors.push(error.into()),
            }
        }
        (all, errors)
    }

    /// What is pinned, and where.
    pub fn pins(&self) -> &Pins {
        &self.pins
    }

    /// Where its names are in the BPF file system.
    pub fn directory(&self) -> &Path {
        self.balance.directory()
    }

    /// Frames since it was pinned: exact while none come. What only a process knows is null.
    pub fn ledger(&self) -> Ledger {
        Ledger::of(&self.interface, self.balance.maps())
    }
}

/// What is pinned of interfaces of this name and balances nothing, or cannot be read.
pub fn remains(interface: &str) -> Vec<Pins> {
    let is_whole = |pins: &Pins| matches!(PinnedBalance::open(pins), Ok(Some(_)));
    Pins::remains(Kind::Balancer, interface, is_whole)
}
