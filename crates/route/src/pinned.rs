//! Routers that forward without a process.

use crate::router::read_tables;
use crate::{InterfaceLedger, Ledger, RouteError};
use ringside_ebpf::pins::{Kind, Opened, Pins};
use ringside_ebpf::route::{PinnedRoutes, RouteTables};
use std::path::Path;

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
        let (opened, errors) = Pins::open_all(Kind::Router, |pins| {
            let routes = PinnedRoutes::open(pins)?;
            let id = routes.as_ref().map(|routes| routes.tables().id()).transpose()?;
            Ok::<_, ringside_ebpf::Error>(id.zip(routes))
        });
        let mut all: Vec<(u32, PinnedRouter)> = Vec::new();
        for Opened { pins, interface, program: (id, routes) } in opened {
            match all.iter_mut().find(|(other, _)| *other == id) {
                Some((_, router)) => router.pins.push((pins, interface)),
                None => all.push((id, PinnedRouter { routes, pins: vec![(pins, interface)] })),
            }
        }
        let errors = errors.into_iter().map(Into::into).collect();
        (all.into_iter().map(|(_, router)| router).collect(), errors)
    }

    /// Those of its interfaces, all of one network namespace.
    pub fn pins(&self) -> impl Iterator<Item = &Pins> {
        self.pins.iter().map(|(pins, _)| pins)
    }

    /// Where the names of its first interface are in the BPF file system.
    pub fn directory(&self) -> &Path {
        self.routes.directory()
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
}

/// What is pinned of interfaces of this name and forwards nothing, or cannot be read.
pub fn remains(interface: &str) -> Vec<Pins> {
    Pins::remains(Kind::Router, interface, PinnedRoutes::open)
}
