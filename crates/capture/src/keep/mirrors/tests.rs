use super::*;
use ringside_core::{ChecksumRequest, SinkCounters, SinkError, SinkFeatures};
use std::time::Duration;

/// A sink that answers calls as scripted, and then takes all.
struct Scripted {
    answers: std::vec::IntoIter<Result<Handed, SinkError>>,
    taken: Vec<Vec<u8>>,
}

impl Sink for Scripted {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn features(&self) -> SinkFeatures {
        SinkFeatures::whole_frames(usize::MAX)
    }

    fn put(
        &mut self,
        _bytes: usize,
        _checksum: Option<ChecksumRequest>,
        _write: impl FnOnce(&mut [u8]),
    ) -> Result<bool, SinkError> {
        panic!("copies leave from where the frames lie")
    }

    fn send(&mut self, frames: &[&[u8]]) -> Result<Handed, SinkError> {
        let all = Ok(Handed { taken: frames.len(), refused: None });
        let handed = self.answers.next().unwrap_or(all)?;
        self.taken.extend(frames[..handed.taken].iter().map(|frame| frame.to_vec()));
        Ok(handed)
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    fn counters(&mut self) -> SinkCounters {
        SinkCounters::default()
    }

    fn drain(&mut self, _timeout: Duration) -> (SinkCounters, Option<SinkError>) {
        (SinkCounters::default(), None)
    }
}

/// Sends frames 0 to 9, of one byte each, through a sink with these answers: what it took, and
/// what failed.
fn sent(answers: Vec<Result<Handed, SinkError>>) -> (Vec<u8>, Vec<(MirrorFailure, u64)>) {
    let frames: Vec<Vec<u8>> = (0..10).map(|number| vec![number]).collect();
    let frames: Vec<&[u8]> = frames.iter().map(|frame| &frame[..]).collect();
    let mut sink = Scripted { answers: answers.into_iter(), taken: Vec::new() };
    let tally = Tally::new("x0".to_owned());
    let counts = send_all(&mut sink, &frames, &tally);
    let taken: Vec<u8> = sink.taken.iter().map(|frame| frame[0]).collect();
    assert_eq!(counts, Counts { frames: taken.len() as u64, bytes: taken.len() as u64 });
    let failed = tally.counts().failed;
    let failures: u64 = failed.iter().map(|(_, frames)| frames).sum();
    assert_eq!(counts.frames + failures, 10, "each is sent, or failed for one reason");
    (taken, failed)
}

#[test]
fn each_copy_is_sent_or_failed_for_one_reason() {
    let handed = |taken, refused| Ok(Handed { taken, refused });
    assert_eq!(sent(vec![]), ((0..10).collect(), vec![]));
    // Behind others a refusal is a guess: the frame is asked about again.
    let answers = vec![handed(3, Some(Refusal::NoRoom)), handed(2, None)];
    assert_eq!(sent(answers), ((0..10).collect(), vec![]));
    let answers = vec![handed(3, Some(Refusal::NoRoom)), handed(0, Some(Refusal::NoRoom))];
    let taken = vec![0, 1, 2, 4, 5, 6, 7, 8, 9];
    assert_eq!(sent(answers), (taken.clone(), vec![(MirrorFailure::NoRoom, 1)]));
    assert_eq!(
        sent(vec![handed(3, Some(Refusal::TooLong))]),
        (taken.clone(), vec![(MirrorFailure::TooLong, 1)])
    );
    // Nothing waits for a sink without room.
    let answers = vec![handed(3, None), handed(0, None)];
    assert_eq!(sent(answers), (taken, vec![(MirrorFailure::NoRoom, 1)]));
}

#[test]
fn an_interface_that_is_gone_fails_the_rest_of_a_call_and_another_error_one_frame() {
    let gone = || SinkError::InterfaceGone { name: "x0".into(), event: "was set down".into() };
    let taken = Ok(Handed { taken: 4, refused: None });
    let down = vec![(MirrorFailure::InterfaceDown, 6)];
    assert_eq!(sent(vec![taken, Err(gone())]), ((0..4).collect(), down));
    let other = SinkError::Ended { name: "x0".into() };
    let refused = vec![(MirrorFailure::Refused, 1)];
    assert_eq!(sent(vec![Err(other)]), ((1..10).collect(), refused));
}
