//! Observers of a live interface, in this process: next to a recorder, and attached to its ring,
//! they see what the recording shows.

#[path = "../../../capture/examples/count_protocols/protocols.rs"]
mod protocols;

use crate::common::{Network, inside};
use protocols::{Counts, Protocols};
use ringside_capture::backend::af_packet::{self, AfPacketConfig};
use ringside_capture::config::{DiskOptions, Output, Rotation, RunConfig};
use ringside_capture::run::{LaneSource, Run};
use ringside_capture::share::ShareSocket;
use ringside_client::{Attachment, ReadOptions};
use ringside_core::{InterfaceId, LaneId, LinkType, Source};
use ringside_inspect::{Observer, Pump};
use ringside_lab::RECEIVER_INTERFACE;
use ringside_store::FileSource;
use ringside_store::retention::Policy;
use ringside_testkit::{capture_files, need_root};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Frames that are sent: some of each capture, so that there are many protocols.
const OF_A_CAPTURE: usize = 5;

fn frames(test: &str) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for path in capture_files(test) {
        let Ok(mut source) = FileSource::open(&path) else { continue };
        let is_ethernet = source.interfaces().iter().all(|one| one.link_type == LinkType::ETHERNET);
        let Ok(Some(batch)) = source.next_batch(Duration::ZERO) else { continue };
        let fits =
            batch.iter().filter(|frame| is_ethernet && (14..=1514).contains(&frame.bytes.len()));
        frames.extend(fits.take(OF_A_CAPTURE).map(|frame| frame.bytes.to_vec()));
    }
    frames
}

/// The example's observer, and what it will have counted.
fn watch() -> (Box<dyn Observer>, Receiver<Counts>) {
    let (sender, found) = channel();
    (Box::new(Protocols::new(sender)), found)
}

/// A recording of the receiver's interface to `folder`, shared at `socket`, with an observer.
fn start(network: &Network, folder: &Path, socket: &Path, observer: Box<dyn Observer>) -> Run {
    let share = ShareSocket::new(UnixListener::bind(socket).unwrap(), ()).unwrap();
    let output = Output::Directory {
        paths: vec![folder.to_owned()],
        rotation: Rotation::default(),
        options: DiskOptions::default(),
        retention: Policy::default(),
    };
    let (share, observers) = (Some(share), vec![observer]);
    let config = RunConfig { output, share, observers, ..RunConfig::counting() };
    let sources = inside(network.receiver(), || {
        af_packet::open(&AfPacketConfig::new(RECEIVER_INTERFACE)).unwrap().sources
    });
    let interfaces = sources[0].interfaces().to_vec();
    let lane = |(queue, source)| LaneSource {
        source: Box::new(source),
        interface: RECEIVER_INTERFACE.to_owned(),
        interface_id: InterfaceId(0),
        queue,
    };
    Run::start((0..).zip(sources).map(lane).collect(), interfaces, config).unwrap()
}

#[test]
fn observers_of_a_live_interface_see_what_its_recording_shows() {
    let test = "observers_of_a_live_interface_see_what_its_recording_shows";
    let frames = if need_root(test) { frames(test) } else { Vec::new() };
    if frames.is_empty() {
        return;
    }
    let network = Network::up();
    let place = tempfile::tempdir().unwrap();
    let (folder, socket) = (place.path().join("recording"), place.path().join("share"));
    let (observer, live) = watch();
    let run = start(&network, &folder, &socket, observer);
    let attachment = Attachment::connect(&socket).unwrap();
    let mut source = attachment.sources(&ReadOptions::default()).remove(0);
    let (observer, attached) = watch();
    let reader = std::thread::spawn(move || {
        Pump::new(vec![observer]).run(&mut source, LaneId(0), &|| false)
    });
    network.replay(&frames);
    let report = run.finish();
    assert_eq!(report.errors, Vec::<String>::new());
    let taken = report.ledger.taken;
    assert!(taken >= frames.len() as u64, "{:#?}", report.ledger);
    for consumer in &report.ledger.consumers {
        assert_eq!((consumer.delivered, consumer.missed.len()), (taken, 0), "{consumer:?}");
    }
    let read = reader.join().unwrap();
    assert_eq!((read.seen.frames, read.counters.received), (taken, Some(taken)));
    let (observer, recorded) = watch();
    let mut source = ringside_store::open(&[folder]).unwrap();
    let stored = Pump::new(vec![observer]).run(&mut *source, LaneId(0), &|| false);
    assert_eq!(stored.seen.frames, taken);
    let expected = recorded.recv().unwrap();
    assert!(expected.len() >= 5, "{expected:?}");
    assert_eq!((live.recv().unwrap(), attached.recv().unwrap()), (expected.clone(), expected));
}
