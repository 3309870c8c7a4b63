//! Routers that forward without a process.

use crate::router::read_tables;
use crate::{InterfaceLedger, Ledger, RouteError};
use ringside_ebpf::pins::{Kind, Pins};
use ringside_ebpf::route::{PinnedRoutes, RouteTables};
use std::path::Path;
use std::time::SystemTime;

/// A router that is pinned, whether or not a process is there.
#[derive(Debug)]
pub struct PinnedRouter {
    routes: PinnedRoutes,
    /// Those of its interfaces, all of one network namespace, with their names.
    pins: Vec<(Pins, String)>,
}

impl PinnedRouter {
    /// All of them, with what could not be read.
    pub fn all() -> (Vec<PinnedRouter>, Vec<RouteError>) {
        let (mut all, mut errors): (Vec<(u32, PinnedRouter)>, _) = (Vec::new(), Vec::new());
        for pins in Pins::all(Kind::Router).into_iter().filter(|pins| !pins.is_stale()) {
            let opened = PinnedRoutes::open(&pins).and_then(|routes| {
                let id = routes.as_ref().map(|routes| routes.tables().id()).transpose()?;
                Ok(id.zip(routes))
            });
            match opened {
                Ok(None) => {}
                Ok(Some((id, routes))) => {
                    let name = pins.interface().unwrap_or_default();
                    match all.iter_mut().find(|(other, _)| *other == id) {
                        Some((_, router)) => router.pins.push((pins, name)),
                        None => all.push((id, PinnedRouter { routes, pins: vec![(pins, name)] })),
                    }
                }
                Err(error) => errors.push(error.into()),
            }
        }
        (all.into_iter().map(|(_, router)| router).collect(), errors)
    }

    /// Names of its interfaces when they were pinned.
    pub fn interfaces(&self) -> Vec<String> {
        self.pins.iter().map(|(_, name)| name.clone()).collect()
    }

    /// What `Namespace::identity` says of its network namespace.
    pub fn namespace(&self) -> u64 {
        self.pins[0].0.namespace()
    }

    /// When it was pinned.
    pub fn since(&self) -> Option<SystemTime> {
        self.pins.iter().filter_map(|(pins, _)| pins.since()).min()
    }

    /// Where the names of its first interface are in the BPF file system.
    pub fn directory(&self) -> &Path {
        self.routes.directory()
    }

    /// True if a living process looks after it. To be asked in its network namespace.
    pub fn is_held(&self) -> bool {
        self.pins.iter().any(|(pins, _)| pins.is_held())
    }

    /// Frames since it was pinned: exact while none come. What drivers counted is not known.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn ledger(&self) -> Result<Ledger, RouteError> {
        let tables: &RouteTables = self.routes.tables();
        let name = |ifindex: u32| {
            let known = self.pins.iter().find(|(pins, _)| pins.ifindex() == ifindex);
            known.map_or_else(|| format!("interface {ifindex}"), |(_, name)| name.clone())
        };
        let accounts = tables.interfaces().into_iter().map(|(slot, ifindex)| {
            let (interface, is_member) = (name(ifindex), tables.is_member(ifindex));
            let account = InterfaceLedger { interface, ifindex, is_member, ..Default::default() };
            (slot, account)
        });
        let interfaces = read_tables(tables, accounts.collect())?;
        Ok(Ledger { interfaces, ..Ledger::default() })
    }

    /// Ends it, and removes all its names: when this returns every packet goes the kernel's way. To
    /// be called in its network namespace.
    ///
    /// # Errors
    /// A process holds it, or the system refused.
    pub fn end(&self) -> Result<(), RouteError> {
        Ok(self.pins.iter().try_for_each(|(pins, _)| pins.end())?)
    }
}

/// What is pinned of an interface and forwards nothing, or cannot be read: a killed process or
/// another version of this program has left it.
#[derive(Debug)]
pub struct Remains(Pins);

impl Remains {
    /// Those of interfaces of this name.
    pub fn of(interface: &str) -> Vec<Remains> {
        let all = Pins::all(Kind::Router).into_iter().filter(|pins| !pins.is_stale());
        let named = all.filter(|pins| pins.interface().is_none_or(|name| name == interface));
        let is_whole = |pins: &Pins| matches!(PinnedRoutes::open(pins), Ok(Some(_)));
        named.filter(|pins| !is_whole(pins)).map(Remains).collect()
    }

    /// As of a [`PinnedRouter`].
    pub fn namespace(&self) -> u64 {
        self.0.namespace()
    }

    /// Removes it. To be called in its network namespace.
    ///
    /// # Errors
    /// A process is about to use it, or the system refused.
    pub fn end(&self) -> Result<(), RouteError> {
        Ok(self.0.end()?)
    }
}

/// Removes what is pinned of interfaces that are gone; true if there was something.
pub fn remove_stale() -> bool {
    let is_there = Pins::all(Kind::Router).iter().any(Pins::is_stale);
    ringside_ebpf::pins::remove_stale();
    is_there
}
