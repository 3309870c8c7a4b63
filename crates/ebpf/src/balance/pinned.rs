//! Balancers, and ends of their tunnels, that are there without a process, as far as they can be
//! read.

use super::maps::BalanceMaps;
use crate::Error;
use crate::pins::Pins;
use std::path::{Path, PathBuf};

/// Version of what the tables hold: another one is not read.
pub(super) const VERSION: u32 = 2;

/// The pinned tables of a balancer. Nothing here changes them.
#[derive(Debug)]
pub struct PinnedBalance {
    directory: PathBuf,
    maps: BalanceMaps,
}

impl PinnedBalance {
    /// What is in force by these pins, if something is.
    ///
    /// # Errors
    /// Another version of this program has pinned it, it is damaged, or there is no privilege.
    pub fn open(pins: &Pins) -> Result<Option<PinnedBalance>, Error> {
        let Some(set) = pins.in_force() else { return Ok(None) };
        let maps = match set.version {
            VERSION => BalanceMaps::pinned(&set.directory),
            _ => None,
        };
        let directory = set.directory;
        match maps {
            Some(maps) => Ok(Some(PinnedBalance { directory, maps })),
            None => Err(Error::PinnedForm { path: directory }),
        }
    }

    /// Where its names are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The tables.
    pub fn maps(&self) -> &BalanceMaps {
        &self.maps
    }
}
