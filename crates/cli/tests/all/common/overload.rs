//! A load under which frames are lost on every machine, and what must hold of what is recorded.

use super::verifier::{Verifier, shape};
use super::{Network, Running, for_each_frame};
use ringside_store::recording::series_of;
use ringside_transmit::{SenderKind, Shape};
use rustix::process::Signal;
use std::path::Path;

/// Frames of each of the three loads.
pub const LOAD: u64 = 1_000_000;

/// Three loads as fast as the sender goes; during the second the program stands still.
pub struct Overload {
    shapes: [Shape; 3],
    /// Frames that the interface received.
    pub received: u64,
}

impl Overload {
    /// Sends them to `running`.
    pub fn send(network: &Network, running: &Running) -> Overload {
        let mut shapes = [(); 3].map(|()| shape(&[64], 1000));
        let before = network.received();
        let mut handed = 0;
        for (phase, shape) in (0u8..).zip(&mut shapes) {
            shape.set_destination([0x02, 0x52, 0x53, 0, 0, phase]);
            if phase == 1 {
                running.signal_worker(Signal::STOP);
            }
            handed += network.send(SenderKind::Live, shape, LOAD, None).handed;
            running.signal_worker(Signal::CONT);
        }
        let received = network.received() - before;
        assert_eq!(received, handed);
        Overload { shapes, received }
    }

    /// The recording has `delivered` of the frames, none twice, each lane in order.
    pub fn check(&self, recording: &Path, delivered: u64) {
        let mut verifiers = self.shapes.each_ref().map(|shape| Verifier::new(shape, LOAD));
        let (series, _) = series_of(&[recording.to_owned()]).unwrap();
        for (lane, series) in (0u16..).zip(&series) {
            let paths: Vec<_> = series.files.iter().map(|file| file.path.clone()).collect();
            let notices = for_each_frame(&paths, |frame, _| {
                verifiers[usize::from(frame.bytes[5])].note(lane, frame);
            });
            assert!(notices.is_empty(), "{notices:?}");
        }
        let recorded: u64 = verifiers.iter().map(|verifier| verifier.frames).sum();
        assert_eq!(recorded, delivered);
        for verifier in &verifiers {
            let report = verifier.report(&[LOAD]);
            let wrong = (report.duplicates, report.beyond, report.lane_reordered);
            assert_eq!(wrong, (0, 0, 0), "{report:?}");
            assert_eq!(report.missing, LOAD - verifier.frames);
        }
    }
}
