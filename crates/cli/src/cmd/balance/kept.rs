//! Balancers that are pinned.

use crate::pinned::{Pinned, Tool};
use ringside_balancer::{Ledger, PinnedBalancer};
use ringside_control::BALANCE_KIND;
use ringside_ebpf::pins::Kind;
use ringside_report::balance as report;
use serde_json::Value;

/// How balancers are found, and what is said of them.
pub(super) const BALANCERS: Tool = Tool {
    kind: BALANCE_KIND,
    pins: Kind::Balancer,
    what: "balancer",
    nothing: "nothing is balanced",
    stays: "packets are balanced on, and the file is not followed without a process",
    all,
    remains: ringside_balancer::remains,
    text,
    account_of: |status| status.balance.as_ref(),
};

fn all() -> (Vec<Pinned>, Vec<String>) {
    let (all, errors) = PinnedBalancer::all();
    let pinned = |balancer: PinnedBalancer| Pinned {
        pins: vec![balancer.pins().clone()],
        directory: balancer.directory().to_owned(),
        account: Box::new(move || Ok(serde_json::to_value(balancer.ledger())?)),
    };
    let errors = errors.iter().map(ToString::to_string).collect();
    (all.into_iter().map(pinned).collect(), errors)
}

/// Of another version it may have another form.
fn text(account: Value) -> String {
    report::text(&serde_json::from_value::<Ledger>(account).unwrap_or_default())
}
