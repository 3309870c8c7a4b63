//! Routers that forward without a process, as far as they can be read.

use super::RouteTables;
use crate::Error;
use crate::pins::Pins;
use std::path::{Path, PathBuf};

/// Version of what the tables hold: another one is not read.
pub(super) const VERSION: u32 = 3;

/// The pinned tables of a router, by the pins of one of its interfaces. Nothing here changes them.
#[derive(Debug)]
pub struct PinnedRoutes {
    directory: PathBuf,
    tables: RouteTables,
}

impl PinnedRoutes {
    /// What is in force by these pins, if something is.
    ///
    /// # Errors
    /// Another version of this program has pinned it, it is damaged, or there is no privilege.
    pub fn open(pins: &Pins) -> Result<Option<PinnedRoutes>, Error> {
        let Some(set) = pins.in_force() else { return Ok(None) };
        let tables = match set.version {
            VERSION => RouteTables::pinned(&set.directory),
            _ => None,
        };
        let directory = set.directory;
        match tables {
            Some(tables) => Ok(Some(PinnedRoutes { directory, tables })),
            None => Err(Error::PinnedForm { path: directory }),
        }
    }

    /// Where its names are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The tables.
    pub fn tables(&self) -> &RouteTables {
        &self.tables
    }
}
