//! Ends of tunnels that are pinned.

use crate::pinned::{Pinned, Tool};
use ringside_balancer::{DecapLedger, PinnedEnd};
use ringside_control::DECAP_KIND;
use ringside_ebpf::pins::Kind;
use ringside_report::balance as report;
use serde_json::Value;

/// How ends of tunnels are found, and what is said of them.
pub(super) const ENDS: Tool = Tool {
    kind: DECAP_KIND,
    pins: Kind::Decap,
    what: "end of tunnels",
    nothing: "no tunnels end here",
    stays: "packets come out of tunnels on",
    all,
    remains: ringside_balancer::remains_of_end,
    text,
    account_of: |status| status.decap.as_ref(),
};

fn all() -> (Vec<Pinned>, Vec<String>) {
    let (all, errors) = PinnedEnd::all();
    let pinned = |end: PinnedEnd| Pinned {
        pins: vec![end.pins().clone()],
        directory: end.directory().to_owned(),
        account: Box::new(move || Ok(serde_json::to_value(end.ledger())?)),
    };
    let errors = errors.iter().map(ToString::to_string).collect();
    (all.into_iter().map(pinned).collect(), errors)
}

/// Of another version it may have another form.
fn text(account: Value) -> String {
    report::decap_text(&serde_json::from_value::<DecapLedger>(account).unwrap_or_default())
}
