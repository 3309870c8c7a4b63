//! The af-xdp sink on a driver whose card reads its memory itself.

use crate::common::*;
use crate::pair::{Card, Pair};
use ringside_core::Sink;
use ringside_ebpf::XdpProgram;
use ringside_netdev as netdev;
use ringside_transmit::sink::{SinkConfig, SinkKind, open};
use ringside_transmit::{Shape, Sizes};
use std::time::Duration;

/// Frames of a run.
const FRAMES: u64 = 2_000;
/// Handed over at once: the receive rings of the cards have 256 descriptors at first.
const BURST_FRAMES: u64 = 100;

#[test]
fn igb() {
    let Some(pair) = Card::Igb.pair("sinks::igb") else { return };
    run_clean("ip", &["link", "set", pair.receiver(), "promisc", "on"]);
    let name = pair.sender().to_owned();
    pair.without_use_of_the_sender(|| {
        let _program = pair.at_sender(|| {
            let ifindex = netdev::by_name(&name).unwrap().unwrap().ifindex;
            XdpProgram::pass().unwrap().attach(ifindex).unwrap()
        });
        pair.wait_for_carrier();
        let opened =
            pair.at_sender(|| open(Some(SinkKind::AfXdp), &SinkConfig::new(&name)).unwrap());
        println!("{}", opened.notes.join("\n"));
        let zero_copy = format!("{name}: queue 0 by AF_XDP, zero-copy");
        assert!(opened.notes.contains(&zero_copy), "{:?}", opened.notes);
        pair.wait_for_carrier();
        send_and_count(&pair, opened.sink);
    });
}

/// All frames are accepted, and the other card receives as many.
fn send_and_count(pair: &Pair, mut sink: impl Sink) {
    let shape = Shape::new(Sizes::uniform(60, 1514).unwrap(), 1).unwrap();
    let before = pair.received();
    for number in 0..FRAMES {
        let frame = shape.frame(0, number);
        let put = |sink: &mut _| {
            Sink::put(sink, frame.len(), None, |slot| slot.copy_from_slice(&frame)).unwrap()
        };
        wait_until("room", || put(&mut sink));
        if number % BURST_FRAMES == BURST_FRAMES - 1 {
            sink.flush().unwrap();
            wait_until("a burst to be sent", || sink.counters().in_flight() == 0);
            wait_until("a burst to arrive", || pair.received() - before > number);
        }
    }
    let (counters, failure) = sink.drain(Duration::from_secs(20));
    assert!(failure.is_none(), "{failure:?}");
    assert_eq!((counters.accepted, counters.is_balanced()), (FRAMES, true), "{counters:?}");
}
