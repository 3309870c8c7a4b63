//! What every backend must do, asked of each by the same tests. A [`Subject`] says what the suite
//! must know of one: how its device is made on a wire, and what it cannot count.

mod cases;
mod fakes;
mod killed;
mod subjects;

use super::*;
use crate::backend::{Description, OpenRequest};
use ringside_core::TimestampKind;

/// A backend, as the suite has to know it.
struct Subject {
    backend: &'static Description,
    /// Makes of the wire's [`RX`] what it receives from; the name to open, for `lanes` lanes.
    device: fn(&Wire, lanes: u16) -> String,
    /// Most lanes that are tried; 1 if it has one.
    lanes: u16,
    /// Longest frame that comes whole.
    frame_bytes_max: usize,
    /// Outer tags of other protocols than 0x8100 come as they were.
    keeps_tag_protocols: bool,
    /// A tag of 0x8100 that says nothing (0) comes as it was.
    keeps_empty_tags: bool,
    /// Who stamps its frames.
    stamped_by: TimestampKind,
    /// It counts frames that were lost before they were lent.
    counts_losses: bool,
    /// What becomes of frames that the filter does not take.
    rest: Rest,
    /// It receives from its start on, not from its opening.
    begins_at_start: bool,
    /// Why it cannot be had here, if it cannot.
    missing: fn() -> Option<String>,
}

/// Frames that a filter does not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    /// They end there, and are counted.
    Filtered,
    /// They are the host's.
    Passed,
    /// They end there, and nothing counts them.
    Uncounted,
}

type Sources = Vec<Box<dyn Source>>;

impl Subject {
    /// One that receives from the wire's end by its name, and counts everything.
    const fn of_interface(backend: &'static Description) -> Subject {
        Subject {
            backend,
            device: |_, _| RX.to_owned(),
            lanes: 1,
            frame_bytes_max: usize::MAX,
            keeps_tag_protocols: true,
            keeps_empty_tags: true,
            stamped_by: TimestampKind::Kernel,
            counts_losses: true,
            rest: Rest::Filtered,
            begins_at_start: true,
            missing: || None,
        }
    }

    /// All of what reaches its device, which is made here.
    fn request(&self, wire: &Wire, lanes: u16) -> OpenRequest {
        let device = (self.device)(wire, lanes);
        let lanes = (self.lanes > 1).then_some(lanes);
        OpenRequest { lanes, block_timeout_ms: 20, ..OpenRequest::new(&device) }
    }

    fn open(&self, request: &OpenRequest) -> Sources {
        let opened = self.backend.open(request).unwrap();
        opened.lanes.into_iter().map(|(source, _)| source).collect()
    }

    fn start(&self, request: &OpenRequest) -> Sources {
        let mut sources = self.open(request);
        sources.iter_mut().for_each(|source| source.start().unwrap());
        sources
    }

    /// The account of a source without a filter that has ended, and lent `lent` frames of the
    /// `sent`.
    fn assert_account(&self, source: &mut dyn Source, lent: u64, sent: u64) {
        let counters = source.counters();
        if self.counts_losses {
            assert_balanced(&counters, lent + counters.passed);
            assert_eq!(counters.received, Some(sent), "{counters:?}");
        } else {
            assert_eq!((counters.received, counters.in_flight), (None, Some(0)), "{counters:?}");
        }
    }

    fn start_one(&self, request: &OpenRequest) -> Box<dyn Source> {
        let mut sources = self.start(request);
        assert_eq!(sources.len(), 1);
        sources.remove(0)
    }
}

/// Runs a case on a wire of its own, on a thread with the name of the test.
fn run(path: &str, subject: &'static Subject, case: fn(&Subject, &Wire)) {
    if killed::is_receiver() {
        return killed::receive(subject);
    }
    let (_, name) = path.split_once("::").unwrap();
    if let Some(reason) = (subject.missing)() {
        return ringside_testkit::skip(name, &reason);
    }
    on_a_wire(name, move |wire| case(subject, wire));
}

/// Every case, as a test of each backend.
macro_rules! suite {
    ($($module:ident of $subject:ident;)+) => { $(mod $module {
        suite!(cases of $subject:
            content, beginning_and_end, detaching_in_full_traffic, several_lanes, filters,
            snapshot_lengths, too_much, set_down, removed, refusals);
        suite!(killed of $subject: a_killed_worker);
    })+ };
    ($cases:ident of $subject:ident: $($case:ident),+) => { $(
        #[test]
        fn $case() {
            let name = concat!(module_path!(), "::", stringify!($case));
            super::run(name, &super::subjects::$subject, super::$cases::$case);
        }
    )+ };
}

suite! {
    af_packet of AF_PACKET_SUBJECT;
    af_xdp of AF_XDP_SUBJECT;
    xdp_ring of XDP_RING_SUBJECT;
    pcap of PCAP_SUBJECT;
    dpdk of DPDK_SUBJECT;
    pf_ring of PF_RING_SUBJECT;
    netmap of NETMAP_SUBJECT;
}
