use super::*;
use crate::codec::Content;
use ringside_proto::Rtp;
use ringside_testkit::Random;
use std::collections::BTreeSet;

const MS: u64 = 1_000_000;

/// A packet of 20 ms of G.711.
fn packet(number: u64, first: u16) -> Rtp<'static> {
    Rtp {
        marker: false,
        payload_type: 0,
        sequence: first.wrapping_add(number as u16),
        timestamp: (number as u32).wrapping_mul(160).wrapping_add(4_294_960_000),
        ssrc: 1,
        payload: &[0; 160],
        is_malformed: false,
    }
}

fn take(of: &mut Statistics, now_ns: u64, rtp: &Rtp<'_>) {
    of.take(now_ns, rtp, Content::Media, Some(8_000));
}

fn statistics() -> Statistics {
    Statistics::new(JitterBuffer::DEPTH_NS)
}

#[test]
fn a_perfect_stream_over_the_turn_of_both_numbers() {
    let mut of = statistics();
    for number in 0..1_000 {
        take(&mut of, number * 20 * MS, &packet(number, 65_000));
    }
    assert_eq!((of.packets, of.expected(), of.lost()), (1_000, 1_000, 0));
    assert_eq!((of.duplicates, of.out_of_order, of.stray, of.restarts), (0, 0, 0, 0));
    assert_eq!(of.timing.deltas.values(), Some([20e6; 3]));
    assert_eq!(of.timing.jitter_ns(), Some(0));
    assert!(of.timing.drift_ppm().unwrap().abs() < 1e-6);
    assert_eq!(of.timing.skew_max_ns, 0);
    let bursts = of.bursts();
    assert_eq!((bursts.packets, bursts.lost, bursts.discarded), (1_000, 0, 0));
    assert_eq!(bursts.burst_ratio(), None);
}

/// RFC 3550, section 6.4.1: each packet moves the estimate by a sixteenth of the difference.
#[test]
fn jitter_is_that_of_the_rfc() {
    let mut of = statistics();
    take(&mut of, 0, &packet(0, 7));
    take(&mut of, 36 * MS, &packet(1, 7));
    assert_eq!(of.timing.jitter_ns(), Some(1_000_000));
    take(&mut of, 40 * MS, &packet(2, 7));
    assert_eq!(of.timing.jitter_ns(), Some(1_000_000 + (16_000_000 - 1_000_000) / 16));
    assert_eq!(of.timing.deltas.values(), Some([4e6, 20e6, 36e6]));
    assert_eq!(of.timing.skew_max_ns, -16_000_000);
}

/// Any mixture of losses, duplicates and disorder within limits, against a set of numbers.
#[test]
fn every_packet_is_counted_once() {
    let mut random = Random::new(3);
    for round in 0..200u64 {
        let mut of = statistics();
        let mut sent = Vec::new();
        let mut lost = 0;
        for number in 0..2_000u64 {
            match random.below(20) {
                0 if number > 0 && number < 1_999 => lost += 1,
                1 => sent.extend([number, number]),
                2 if !sent.is_empty() => sent.insert(sent.len() - 1, number),
                _ => sent.push(number),
            }
        }
        let (mut seen, mut highest) = (BTreeSet::new(), None);
        let (mut duplicates, mut late) = (0, 0);
        for (at, &number) in sent.iter().enumerate() {
            take(&mut of, at as u64 * 20 * MS, &packet(number, (round * 777) as u16));
            match () {
                () if !seen.insert(number) => duplicates += 1,
                () if highest.is_some_and(|highest| number < highest) => late += 1,
                () => highest = Some(number),
            }
        }
        assert_eq!((of.lost(), of.duplicates, of.out_of_order), (lost, duplicates, late));
        assert_eq!((of.expected(), of.stray), (2_000, 0));
        let bursts = of.bursts();
        assert_eq!((bursts.packets, bursts.lost), (2_000, lost));
    }
}

#[test]
fn a_jump_is_loss_or_another_beginning() {
    let mut of = statistics();
    let numbers = [0, 1, 2_000, 2_001, 30_000, 2_002, 40_000, 40_001, 40_002];
    for (at, number) in numbers.into_iter().enumerate() {
        take(&mut of, at as u64 * 20 * MS, &packet(number, 0));
    }
    // The stray packet of number 30,000 stays one; 40,000 and 40,001 are another beginning.
    assert_eq!((of.packets, of.stray, of.restarts), (9, 1, 1));
    assert_eq!((of.expected(), of.lost()), (2_003 + 3, 1_998));
}

#[test]
fn bursts_and_gaps_are_those_of_rfc_3611() {
    let fates = |text: &str| {
        let mut bursts = Bursts::default();
        for byte in text.bytes() {
            bursts.take(if byte == b'.' { Fate::Played } else { Fate::Lost });
        }
        bursts.finished()
    };
    let good = ".".repeat(16);
    // One loss alone is of a gap; two with 15 between them are a burst of 17.
    let found = fates(&format!("{good}x{good}x{}x{good}x", ".".repeat(15)));
    assert_eq!((found.bursts, found.burst_packets, found.burst_losses), (1, 17, 2));
    assert_eq!((found.lost, found.runs), (4, 4));
    let found = fates(&format!("{good}xxxx{good}"));
    assert_eq!((found.bursts, found.burst_packets, found.runs), (1, 4, 1));
    let ratio = found.burst_ratio().unwrap();
    assert!((ratio - 4.0 * (1.0 - 4.0 / 36.0)).abs() < 1e-12, "{ratio}");
}

#[test]
fn the_buffer_discards_what_comes_too_late() {
    let mut of = statistics();
    for number in 0..500 {
        let late_ns = if number % 50 == 49 { 61 * MS } else { 0 };
        // What is late lets those behind it pass.
        take(&mut of, number * 20 * MS + late_ns, &packet(number, 0));
    }
    let bursts = of.bursts();
    assert_eq!((bursts.lost, bursts.discarded, of.lost()), (0, 10, 0));
    // A clock that drifts by 1 %, which is far more than any does, fills no buffer.
    let mut of = statistics();
    for number in 0..60_000 {
        take(&mut of, number * 20 * MS + number * MS / 5, &packet(number, 0));
    }
    assert!(of.bursts().discarded > 0, "2 s in 10 s are more than the buffer holds");
    let mut of = statistics();
    for number in 0..60_000 {
        take(&mut of, number * 20 * MS + number * MS / 500, &packet(number, 0));
    }
    assert_eq!(of.bursts().discarded, 0);
    assert!((of.timing.drift_ppm().unwrap() + 100.0).abs() < 0.1, "{:?}", of.timing.drift_ppm());
}

#[test]
fn without_a_clock_rate_there_is_no_jitter() {
    let mut of = statistics();
    for number in 0..10 {
        of.take(number * 20 * MS, &packet(number, 0), Content::Media, None);
    }
    assert_eq!((of.timing.jitter_ns(), of.timing.drift_ppm()), (None, None));
    assert_eq!((of.timing.jitters.values(), of.packets), (None, 10));
    assert_eq!(of.timing.deltas.values(), Some([20e6; 3]));
}
