//! Several lanes of one interface, and queues without one.

use super::*;
use ringside_core::QueueId;

/// Frames of many flows: the sending kernel spreads them over the queues.
fn flows(count: u32) -> Vec<Vec<u8>> {
    (0..count).map(|number| udp(number, (number % 1000) as u16, 128)).collect()
}

fn number_of(frame: &OwnedFrame) -> usize {
    u32::from_be_bytes(frame.bytes[42..46].try_into().unwrap()) as usize
}

#[test]
fn every_queue_has_a_lane_and_every_frame_is_in_one() {
    on_a_wire("af_xdp_every_queue_has_a_lane", |wire| {
        wire.make_pair_again(9000, 4);
        let frames = flows(20_000);
        let mut sources = open_started(&config());
        assert_eq!(sources.len(), 4);
        let mut got: Vec<Vec<OwnedFrame>> = sources.iter().map(|_| Vec::new()).collect();
        for piece in frames.chunks(2000) {
            send(TX, piece);
            for (source, got) in sources.iter_mut().zip(&mut got) {
                take_into(source, got);
            }
        }
        for source in &mut sources {
            source.detach().unwrap();
        }
        let mut seen = vec![false; frames.len()];
        for (queue, (source, lane)) in (0u16..).zip(sources.iter_mut().zip(&mut got)) {
            while !source.is_finished() {
                take_into(source, lane);
            }
            assert_accounted(source, lane.len() as u64);
            assert_eq!(source.queue(), u32::from(queue));
            assert!(lane.len() > frames.len() / 10, "{} in a lane", lane.len());
            assert!(lane.is_sorted_by_key(number_of), "order within the lane");
            for frame in lane.iter() {
                assert_eq!(frame.meta.queue, QueueId(queue));
                let number = number_of(frame);
                assert!(!std::mem::replace(&mut seen[number], true), "{number} twice");
                assert!(frame.bytes == frames[number], "frame {number}");
            }
        }
        assert_eq!(seen.iter().filter(|seen| !**seen).count(), 0);
    });
}

fn take_into(source: &mut AfXdpSource, into: &mut Vec<OwnedFrame>) {
    while let Some(batch) = source.next_batch(Duration::ZERO).unwrap() {
        into.extend(batch.iter().map(|frame| frame.to_owned_frame()));
    }
}

#[test]
fn frames_of_queues_without_a_lane_pass_to_the_host_and_are_counted() {
    on_a_wire("af_xdp_frames_of_queues_without_a_lane_pass", |wire| {
        wire.make_pair_again(9000, 4);
        let frames = flows(8_000);
        let config = AfXdpConfig { lanes: Some(2), ..config() };
        let opened = open(&config).unwrap();
        assert!(
            opened.notes.iter().any(|note| note.contains("queues 2 to 3")),
            "{:?}",
            opened.notes
        );
        let mut sources = opened.sources;
        sources.iter_mut().for_each(|source| source.start().unwrap());
        // What the host gets.
        let witness = crate::backend::af_packet::AfPacketConfig::new(RX);
        let mut witness = crate::backend::af_packet::open(&witness).unwrap().sources.remove(0);
        witness.start().unwrap();
        send(TX, &frames);
        sources.iter_mut().for_each(|source| source.detach().unwrap());
        let at_detach: Vec<_> = sources.iter_mut().map(|source| source.counters()).collect();
        send(TX, &frames[..100]);
        let (mut received, mut passed) = (0, 0);
        for (source, at_detach) in sources.iter_mut().zip(at_detach) {
            let lent = drain_counted(source, &at_detach);
            assert!(lent > 500, "{lent}");
            assert_accounted(source, lent);
            let counters = source.counters();
            received += counters.received.unwrap();
            passed += counters.passed;
        }
        assert_eq!(received, 8_000);
        assert!(passed > 1_000, "{passed}");
        witness.detach().unwrap();
        assert_eq!(drain(&mut witness), passed + 100);
        let refused = open(&AfXdpConfig { lanes: Some(5), ..config }).err().unwrap();
        let text = refused.to_string();
        assert!(text.contains("receive queues") && text.contains("1 to 4"), "{text}");
    });
}

#[test]
fn a_second_capture_of_a_queue_is_refused_and_harms_nobody() {
    on_a_wire("af_xdp_a_second_capture_of_a_queue", |_| {
        let mut first = open_one(&config());
        for _ in 0..2 {
            let error = open(&config()).err().unwrap();
            assert!(matches!(error, BackendError::AfXdp { .. }), "{error}");
            let text = error.to_string();
            assert!(text.contains("queue 0: another AF_XDP socket has it"), "{text}");
        }
        let frames = zoo();
        assert_same_bytes(&send_and_take(&mut first, &frames), &frames);
        first.detach().unwrap();
        assert_eq!(drain(&mut first), 0);
        assert_accounted(&mut first, frames.len() as u64);
        // The kernel frees the queue a moment after the socket: the next one waits for that.
        for _ in 0..20 {
            drop(first);
            first = open_one(&config());
        }
        assert_same_bytes(&send_and_take(&mut first, &frames), &frames);
    });
}

#[test]
fn a_lane_has_so_many_hands_as_were_asked_for_and_no_queue_more() {
    on_a_wire("af_xdp_settings_beyond_their_limits", |_| {
        for (name, config) in [
            ("snapshot length", AfXdpConfig { snaplen_bytes: 0, ..config() }),
            ("number of threads", AfXdpConfig { threads: 0, ..config() }),
            ("number of lanes", AfXdpConfig { lanes: Some(2), ..config() }),
            ("memory of a lane", AfXdpConfig { memory_bytes: 63 * 4096, ..config() }),
            ("memory of a lane", AfXdpConfig { memory_bytes: 1 << 40, ..config() }),
        ] {
            let error = open(&config).err().unwrap();
            assert!(matches!(error, BackendError::Limit { .. }), "{error}");
            assert!(error.to_string().contains(name), "{name}: {error}");
        }
        drop(open(&config()).unwrap());
    });
}
