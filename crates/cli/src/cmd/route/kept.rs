//! Routers that are pinned.

use ringside_route::PinnedRouter;
use ringside_terminal::say;

/// Those with an interface of this name, or all; what cannot be read is reported.
pub(super) fn all(interface: Option<&str>) -> Vec<PinnedRouter> {
    let (mut all, errors) = PinnedRouter::all();
    for error in errors {
        say::message(format_args!("ringside: {error}"));
    }
    let has =
        |router: &PinnedRouter, wanted: &str| router.interfaces().iter().any(|name| name == wanted);
    all.retain(|router| interface.is_none_or(|wanted| has(router, wanted)));
    all
}

/// Says that packets are forwarded when this process is gone.
pub(super) fn tell_stay(interfaces: &[String], netns: Option<&str>) {
    let name = interfaces.first().map(String::as_str).unwrap_or_default();
    let netns = netns.map(|netns| format!(" --netns {netns}")).unwrap_or_default();
    say::message(format_args!(
        "packets are forwarded on: `ringside route status -i {name}` tells what is counted, \
         `ringside route off -i {name}{netns}` ends it"
    ));
}
