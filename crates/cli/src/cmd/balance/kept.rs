//! Balancers that are pinned.

use crate::pinned::{Pinned, Tool};
use ringside_balancer::{Ledger, PinnedBalancer};
use ringside_control::BALANCE_KIND;
use ringside_ebpf::pins::Kind;
use ringside_report::balance as report;
use ringside_terminal::say;
use serde_json::Value;

/// How balancers are found, and what is said of them.
pub(super) const BALANCERS: Tool = Tool {
    kind: BALANCE_KIND,
    pins: Kind::Balancer,
    what: "balancer",
    nothing: "nothing is balanced",
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

/// Says that packets are balanced when this process is gone.
pub(super) fn tell_stay(name: &str, netns: Option<&str>) {
    let netns = netns.map(|netns| format!(" --netns {netns}")).unwrap_or_default();
    say::message(format_args!(
        "packets are balanced on: `ringside balance status -i {name}` tells what is counted, \
         `ringside balance off -i {name}{netns}` ends it; without a process the file is not \
         followed"
    ));
}
