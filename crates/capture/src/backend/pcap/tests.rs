use super::*;
use crate::backend::tests::*;

fn config() -> PcapConfig {
    PcapConfig { block_timeout_ms: 200, ring_bytes: 16 << 20, ..PcapConfig::new(RX) }
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
