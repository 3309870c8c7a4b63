//! A balancer's place on an interface.

use crate::Error;
use crate::root::{Root, RootConfig};
use ringside_sys::bpf;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};

/// The place among the leaves: behind rules that drop, before all captures. It is one, so that two
/// balancers on an interface refuse each other.
const BALANCE_POSITIONS: Range<u32> = 1..2;

/// Where a balancer is to be.
#[derive(Clone, Copy, Debug)]
pub struct BalanceAttachmentConfig<'a> {
    /// Name of the interface, for messages.
    pub interface: &'a str,
    /// Its number in the calling thread's network namespace.
    pub ifindex: u32,
    /// Attach to the kernel's generic path if the driver refuses.
    pub generic_allowed: bool,
}

/// The place, taken.
#[derive(Debug)]
pub(super) struct Place {
    root: Root,
}

impl Place {
    pub fn take(config: &BalanceAttachmentConfig<'_>) -> Result<Place, Error> {
        let root = Root::open(&RootConfig {
            interface: config.interface,
            ifindex: config.ifindex,
            positions: BALANCE_POSITIONS,
            wants_metadata: false,
            generic_allowed: config.generic_allowed,
            takes_pinned: None,
        });
        match root {
            Ok(root) => Ok(Place { root }),
            Err(Error::NoPlace { interface, claim, .. }) => {
                Err(Error::BalancePlace { interface, claim })
            }
            Err(other) => Err(other),
        }
    }

    pub fn position(&self) -> u32 {
        self.root.position()
    }

    pub fn has_metadata(&self) -> bool {
        self.root.has_metadata()
    }

    pub fn leaves(&self) -> BorrowedFd<'_> {
        self.root.leaves().as_fd()
    }

    pub fn notes(&self) -> &[String] {
        self.root.notes()
    }

    pub fn put(&self, program: BorrowedFd<'_>) -> Result<(), Error> {
        Ok(self.root.leaves().set(self.root.position(), program)?)
    }

    /// Gives the place back. When this returns, no CPU is within the program.
    pub fn leave(self) -> Result<(), Error> {
        self.root.leaves().clear(self.root.position())?;
        bpf::wait_until_left();
        Ok(())
    }
}
