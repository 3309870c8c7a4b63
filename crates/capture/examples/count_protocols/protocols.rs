//! An observer: counts frames by protocol.

use ringside_inspect::{DissectedFrame, Observer, Received};
use ringside_wire::Level;
use std::collections::BTreeMap;
use std::sync::mpsc::Sender;

/// Frames by protocol. The names are those of a fixed set, so that the table cannot grow.
pub type Counts = BTreeMap<&'static str, u64>;

/// Counts the frames that it sees.
pub struct Protocols {
    counts: Counts,
    found: Sender<Counts>,
}

impl Protocols {
    /// What it counted goes to `found` at the end.
    pub fn new(found: Sender<Counts>) -> Protocols {
        Protocols { counts: Counts::new(), found }
    }
}

impl Observer for Protocols {
    fn see(&mut self, frame: &DissectedFrame<'_>, _received: &Received<'_>) {
        *self.counts.entry(protocol(frame)).or_default() += 1;
    }

    fn finish(&mut self) {
        // The receiver may be gone: that is not an error here.
        let _ = self.found.send(std::mem::take(&mut self.counts));
    }
}

/// The message that begins in a frame, or its innermost header.
fn protocol(frame: &DissectedFrame<'_>) -> &'static str {
    if frame.http(Level::Inner).is_some() {
        "http"
    } else if frame.dns_name(Level::Inner).is_some() {
        "dns"
    } else if frame.tls_name(Level::Inner).is_some() {
        "tls"
    } else {
        frame.layers().last().map_or("unknown", |layer| layer.kind.name())
    }
}
