//! Routers that are pinned.

use crate::pinned::{Pinned, Tool};
use ringside_control::ROUTE_KIND;
use ringside_ebpf::pins::Kind;
use ringside_report::route as report;
use ringside_route::{Ledger, PinnedRouter};
use serde_json::Value;

/// How routers are found, and what is said of them.
pub(super) const ROUTERS: Tool = Tool {
    kind: ROUTE_KIND,
    pins: Kind::Router,
    what: "router",
    nothing: "nothing is forwarded",
    stays: "packets are forwarded on",
    all,
    remains: ringside_route::remains,
    text,
    account_of: |status| status.route.as_ref(),
};

fn all() -> (Vec<Pinned>, Vec<String>) {
    let (all, errors) = PinnedRouter::all();
    let pinned = |router: PinnedRouter| Pinned {
        pins: router.pins().cloned().collect(),
        directory: router.directory().to_owned(),
        account: Box::new(move || Ok(serde_json::to_value(router.ledger()?)?)),
    };
    let errors = errors.iter().map(ToString::to_string).collect();
    (all.into_iter().map(pinned).collect(), errors)
}

/// Of another version it may have another form.
fn text(account: Value) -> String {
    report::text(&serde_json::from_value::<Ledger>(account).unwrap_or_default())
}
