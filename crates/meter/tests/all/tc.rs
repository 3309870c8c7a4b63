//! The cache in tc: what an interface receives and what it sends, in flows of both directions.

use crate::flows::ByFlow;
use crate::headers::{headers, table};
use crate::pair::{Pair, ifindex, inside, send};
use ringside_core::LinkType;
use ringside_ebpf::socket_filter::SocketFilter;
use ringside_meter::{Hook, Meter, Options};
use ringside_sys::packet_tx::PacketTx;
use ringside_testkit::{by_run, need_root};

/// The same from its receiver.
fn answer(frame: &[u8]) -> Vec<u8> {
    let mut answer = frame.to_vec();
    answer[26..30].copy_from_slice(&frame[30..34]);
    answer[30..34].copy_from_slice(&frame[26..30]);
    answer[34..36].copy_from_slice(&frame[36..38]);
    answer[36..38].copy_from_slice(&frame[34..36]);
    answer
}

#[test]
fn both_directions_are_counted_and_are_one_flow() {
    if !need_root("both_directions_are_counted_and_are_one_flow") {
        return;
    }
    let pair = Pair::new("mtc");
    let options = Options { entries: 1_024, ..Options::default() };
    let mut meter = inside(&pair.receiver, || Meter::open("end", Hook::Tc, &options).unwrap());
    let witness = SocketFilter::load_accept_all(LinkType::ETHERNET, 0).unwrap();
    let socket = pair.sockets(1).remove(0);
    witness.attach(&socket).unwrap();
    let back = inside(&pair.receiver, || PacketTx::open(ifindex(&pair.receiver), false).unwrap());
    let there = pair.transmitter();
    let frames = headers(by_run(500, 5_000));
    let answers: Vec<_> = frames.iter().map(|frame| answer(frame)).collect();
    let frames: Vec<&[u8]> = frames.iter().map(|frame| &frame[..]).collect();
    let answers: Vec<&[u8]> = answers.iter().map(|frame| &frame[..]).collect();
    let (mut table, mut flows) = (table(), ByFlow::default());
    for _ in 0..3 {
        send(&there, &frames, &witness);
        // The witness sees what its own side sends, too.
        send(&back, &answers, &witness);
        meter.poll(&mut table, &mut |record| flows.add(&record)).unwrap();
    }
    let out = &mut |record| flows.add(&record);
    let ledger = inside(&pair.receiver, || meter.finish(&mut table, out).unwrap());
    assert!(ledger.balances(), "{ledger:?}");
    let interface = ledger.interface.unwrap();
    assert_eq!(ledger.received.packets, interface.received.packets, "{ledger:?}");
    assert_eq!(ledger.sent, interface.sent, "{ledger:?}");
    assert_eq!(ledger.sent.packets, 3 * answers.len() as u64);
    assert_eq!(flows.0.len(), frames.len());
    assert!(flows.0.values().all(|ways| ways[0].0 == 3 && ways[1].0 == 3), "{flows:?}");
}
