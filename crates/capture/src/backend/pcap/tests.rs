use super::*;
use crate::backend::tests::*;

fn config() -> PcapConfig {
    PcapConfig { block_timeout_ms: 200, ring_bytes: 16 << 20, ..PcapConfig::new(RX) }
}

#[test]
fn every_frame_comes_once_in_order_with_its_bytes() {
    on_a_wire("pcap: every_frame_comes_once_in_order_with_its_bytes", |_| {
        let mut source = open(&config()).unwrap();
        assert_eq!(source.interfaces()[0].link_type, LinkType::ETHERNET);
        let frames: Vec<Vec<u8>> = std::iter::repeat_n(zoo(), 5).flatten().collect();
        let start = clock::realtime_now();
        let got = send_and_take(&mut source, &frames);
        assert_same_bytes(&got, &frames);
        assert!(got.iter().all(|frame| frame.meta.timestamp >= start), "nanoseconds of now");
        assert!(got.iter().any(|frame| frame.meta.timestamp.0 % 1000 != 0), "not microseconds");
        source.detach().unwrap();
        assert_eq!(drain(&mut source), 0);
        assert_balanced(&source.counters(), frames.len() as u64);
        assert_eq!(source.counters().received, Some(frames.len() as u64));
    });
}

#[test]
fn sent_frames_do_not_count_unless_asked_for() {
    on_a_wire("pcap: sent_frames_do_not_count_unless_asked_for", |_| {
        let frames: Vec<Vec<u8>> = (0..300).map(|number| numbered(number, 100)).collect();
        for (direction, expected) in
            [(CaptureDirection::Inbound, 300), (CaptureDirection::Both, 600)]
        {
            let mut source = open(&PcapConfig { direction, ..config() }).unwrap();
            deliver(RX, &frames);
            deliver(TX, &frames);
            source.detach().unwrap();
            assert_eq!(drain(&mut source), expected);
            assert_balanced(&source.counters(), expected);
            assert_eq!(source.counters().received, Some(expected));
        }
    });
}

#[test]
fn a_filter_selects_and_leaves_the_rest_uncounted() {
    on_a_wire("pcap: a_filter_selects_and_leaves_the_rest_uncounted", |_| {
        let plain = (0..200).map(|number| numbered(number, 100));
        let with_tag = (0..100).map(|number| tagged(number, 100, &[(0x8100, 9)]));
        let frames: Vec<Vec<u8>> = plain.chain(with_tag).collect();
        // The kernel runs libpcap's program on frames without their tag: `ether proto` sees what
        // is behind it.
        for (filter, accepted) in [("vlan 9", 100), ("ether proto 0x88b5", 300), ("vlan 8", 0)] {
            let config = PcapConfig { filter: Some(filter.into()), ..config() };
            let mut source = open(&config).unwrap();
            deliver(TX, &frames);
            source.detach().unwrap();
            assert_eq!(drain(&mut source), accepted, "{filter}");
            let counters = source.counters();
            assert_eq!((counters.received, counters.filtered), (None, None));
        }
        let config = PcapConfig { filter: Some("no such word".into()), ..config() };
        assert!(matches!(open(&config), Err(BackendError::Filter { .. })));
    });
}

#[test]
fn detaching_in_full_traffic_is_exact() {
    on_a_wire("pcap: detaching_in_full_traffic_is_exact", |_| {
        let load = Load::start((0..640).map(|i| numbered(i, 60 + i as usize % 900)).collect());
        for round in 0..10 {
            let ring_bytes = if round % 2 == 0 { 256 << 10 } else { 4 << 20 };
            let mut source =
                open(&PcapConfig { ring_bytes, block_timeout_ms: 20, ..config() }).unwrap();
            load.run_for(1_000);
            let first = source.next_batch(Duration::ZERO).unwrap();
            let mut lent = first.map_or(0, |batch| batch.frame_count() as u64);
            source.detach().unwrap();
            let received = source.counters().received;
            load.run_for(500);
            lent += drain(&mut source);
            assert_balanced(&source.counters(), lent);
            assert_eq!(source.counters().received, received);
            assert!(received > Some(0));
        }
    });
}

#[test]
fn the_any_device_is_cooked() {
    on_a_wire("pcap: the_any_device_is_cooked", |_| {
        let mut source =
            open(&PcapConfig { promiscuous: false, ..PcapConfig::new("any") }).unwrap();
        let link_type = source.interfaces()[0].link_type;
        assert!([LinkType::LINUX_SLL, LinkType::LINUX_SLL2].contains(&link_type));
        send(TX, &[numbered(1, 100)]);
        let got = take(&mut source, 1);
        assert_eq!(got[0].bytes[got[0].bytes.len() - 86..], numbered(1, 100)[14..]);
    });
}

#[test]
fn devices_that_cannot_be_captured_are_named() {
    on_a_wire("pcap: devices_that_cannot_be_captured_are_named", |wire| {
        let error = open(&PcapConfig::new("rsafp-rd")).err().unwrap().to_string();
        assert!(error.contains("did you mean rsafp-rx"), "{error}");
        wire.ip("link set rsafp-rx down");
        let error = open(&config()).err().unwrap().to_string();
        assert!(error.contains("ip link set rsafp-rx up"), "{error}");
    });
}

#[test]
fn an_interface_that_goes_away_ends_the_source() {
    on_a_wire("pcap: an_interface_that_goes_away_ends_the_source", |wire| {
        for (words, event) in
            [("link set rsafp-rx down", "was set down"), ("link del rsafp-rx", "was removed")]
        {
            let mut source = open(&config()).unwrap();
            wire.ip(words);
            let start = Instant::now();
            let error = loop {
                match source.next_batch(Duration::from_millis(20)) {
                    Ok(_) => assert!(start.elapsed() < PATIENCE),
                    Err(error) => break error,
                }
            };
            assert!(error.to_string().contains(event), "{error}");
            assert!(source.is_finished());
            if event == "was set down" {
                wire.ip("link set rsafp-rx up");
            }
        }
    });
}
