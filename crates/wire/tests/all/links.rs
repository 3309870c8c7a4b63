//! Link layers that are seldom met, byte by byte from their documents.

use crate::headers::{ipv4, kinds, udp};
use ringside_core::LinkType;
use ringside_wire::{
    Dsa, DsaMode, EtherType, Fddi, FrameRelay, Ieee80211, LayerKind, MacAddr, Nflog, Radiotap,
    RelayProtocol, Stop, Unread, WireError, WlanKind,
};

const SNAP: [u8; 8] = [0xaa, 0xaa, 3, 0, 0, 0, 8, 0];
const FIRST: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const SECOND: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const THIRD: MacAddr = MacAddr([2, 0, 0, 0, 0, 3]);

fn packet() -> Vec<u8> {
    ipv4(17, &udp(53, b"x"))
}

/// A frame of data, flags and sequence control as given, with `qos` bytes behind the addresses.
fn data(subtype: u8, flags: u8, fragment: u8, qos: &[u8]) -> Vec<u8> {
    let head = [subtype << 4 | 8, flags, 0x34, 0x12];
    [&head[..], &FIRST.0, &SECOND.0, &THIRD.0, &[fragment, 0], qos].concat()
}

/// A radiotap header of these words and fields.
fn radiotap(words: &[u32], fields: &[u8]) -> Vec<u8> {
    let length = (4 + 4 * words.len() + fields.len()) as u16;
    let mut header = vec![0, 0];
    header.extend(length.to_le_bytes());
    words.iter().for_each(|word| header.extend(word.to_le_bytes()));
    header.extend(fields);
    header
}

#[test]
fn data_of_a_wireless_network_leads_to_its_packet() {
    use LayerKind::{Ethernet, Ieee80211, Ipv4, Llc, Snap, Udp};
    let found = |frame: &[u8]| kinds(frame, LinkType::IEEE802_11);
    let plain = [data(0, 1, 0, &[]), SNAP.to_vec(), packet()].concat();
    let expected = vec![Ieee80211, Llc, Snap, Ipv4, Udp];
    assert_eq!(found(&plain), (expected.clone(), Stop::Complete));
    let quality = [data(8, 2, 0, &[5, 0]), SNAP.to_vec(), packet()].concat();
    assert_eq!(found(&quality), (expected.clone(), Stop::Complete));
    // With the control of high throughput, and between two access points.
    let ordered = [data(8, 0x82, 0, &[5, 0, 1, 2, 3, 4]), SNAP.to_vec(), packet()].concat();
    assert_eq!(found(&ordered), (expected.clone(), Stop::Complete));
    let bridged = [data(0, 3, 0, &[9; 6]), SNAP.to_vec(), packet()].concat();
    assert_eq!(found(&bridged), (expected, Stop::Complete));
    // Several frames at once: the first is shown.
    let inner = [&SNAP[..], &packet()].concat();
    let mut several = data(8, 1, 0, &[0x80, 0]);
    several.extend([FIRST.0, SECOND.0].concat());
    several.extend((inner.len() as u16).to_be_bytes());
    several.extend(inner);
    let expected = vec![Ieee80211, Ethernet, Llc, Snap, Ipv4, Udp];
    assert_eq!(found(&several), (expected, Stop::Complete));
    for (frame, stop) in [
        (data(0, 0x41, 0, &[1, 2, 3, 4, 5]), Stop::Complete),
        (data(4, 1, 0, &[]), Stop::Complete),
        (data(0, 1, 2, &[1, 2, 3, 4]), Stop::LaterFragment),
        (data(8, 1, 0, &[5]), Stop::Truncated(Ieee80211)),
    ] {
        let (layers, found) = found(&frame);
        assert_eq!(found, stop);
        assert!(layers.len() <= 1, "{layers:?}");
    }
    assert_eq!(found(&[0x14, 0, 0]).1, Stop::Unknown { protocol: 1 });
    assert_eq!(found(&[0x0c, 0, 0]).1, Stop::Unknown { protocol: 0 });
}

#[test]
fn who_sent_a_frame_depends_on_the_way_through_the_access_point() {
    for (flags, source, destination) in
        [(0, SECOND, FIRST), (1, SECOND, THIRD), (2, THIRD, FIRST), (3, MacAddr([7; 6]), THIRD)]
    {
        let frame = data(0, flags, 0, &[7; 6]);
        let view = Ieee80211::new(&frame, false).unwrap();
        assert_eq!((view.source(), view.destination()), (source, destination), "{flags}");
        assert_eq!((view.kind(), view.duration()), (WlanKind::Data, 0x1234));
    }
}

#[test]
fn fields_of_a_radio_are_aligned_and_read_until_one_is_not_known() {
    // Time, flags, rate, signal; the time begins at a multiple of 8.
    let header =
        radiotap(&[0x27], &[[1, 0, 0, 0, 0, 0, 0, 0].as_slice(), &[0x30, 22, 200]].concat());
    let view = Radiotap::new(&header).unwrap();
    let numbers: Vec<u32> = view.fields().map(|(number, _)| number).collect();
    assert_eq!(numbers, [0, 1, 2, 5]);
    assert!(view.has_check_sequence() && view.has_padding());
    // A second word goes on with number 32, which has no known length.
    let header = radiotap(&[0x8000_0002, 1], &[0, 0, 0, 0]);
    let mut fields = Radiotap::new(&header).unwrap().fields();
    assert_eq!(fields.next(), Some((1, &[0][..])));
    assert_eq!((fields.next(), fields.unread()), (None, Some(Unread::Unknown(32))));
    // A vendor's fields are left out; then it begins anew.
    let words = [0xc000_0002, 0xa000_00ff, 4];
    let header = radiotap(&words, &[9, 0, 1, 2, 3, 0, 2, 0, 77, 78, 22]);
    let found: Vec<_> = Radiotap::new(&header).unwrap().fields().collect();
    assert_eq!(found, [(1, &[9][..]), (2, &[22][..])]);
    // Fields that the header has no room for, and words without end.
    let header = radiotap(&[1], &[1, 2, 3]);
    let mut fields = Radiotap::new(&header).unwrap().fields();
    assert_eq!((fields.next(), fields.unread()), (None, Some(Unread::Cut)));
    assert_eq!(Radiotap::new(&radiotap(&[u32::MAX; 9], &[])).unwrap().fields().next(), None);
    for (wrong, field) in [([1, 0, 8, 0], "version"), ([0, 0, 7, 0], "length")] {
        let bytes = [wrong, [0; 4]].concat();
        let Err(WireError::Malformed { field: found, .. }) = Radiotap::new(&bytes) else {
            panic!()
        };
        assert_eq!(found, field);
    }
}

#[test]
fn a_radio_says_that_the_header_is_padded() {
    let radio = radiotap(&[2], &[0x20, 0]);
    let frame = [radio, data(8, 1, 0, &[5, 0, 0, 0]), SNAP.to_vec(), packet()].concat();
    use LayerKind::{Ieee80211, Ipv4, Llc, Radiotap, Snap, Udp};
    let expected = vec![Radiotap, Ieee80211, Llc, Snap, Ipv4, Udp];
    assert_eq!(kinds(&frame, LinkType::IEEE802_11_RADIOTAP), (expected, Stop::Complete));
}

#[test]
fn frame_relay_names_what_it_carries_in_three_ways() {
    use LayerKind::{FrameRelay as Relay, Ipv4, Snap, Udp};
    let found = |head: &[u8]| kinds(&[head, &packet()].concat(), LinkType::FRELAY);
    for (head, expected) in [
        (&[0x18, 0x41, 3, 0xcc][..], vec![Relay, Ipv4, Udp]),
        (&[0x18, 0x41, 8, 0], vec![Relay, Ipv4, Udp]),
        (&[0x18, 0x40, 0x81, 3, 0, 0xcc], vec![Relay, Ipv4, Udp]),
        (&[0x18, 0x41, 3, 0x80, 0, 0, 0, 8, 0], vec![Relay, Snap, Ipv4, Udp]),
    ] {
        assert_eq!(found(head), (expected, Stop::Complete), "{head:02x?}");
    }
    assert_eq!(found(&[0x18, 0x41, 3, 0x81]).1, Stop::Unknown { protocol: 0x81 });
    assert_eq!(found(&[0x19, 0x41]).1, Stop::Malformed(Relay));
    let view = FrameRelay::new(&[0x1a, 0x4f, 3, 0xcc]).unwrap();
    assert_eq!((view.dlci(), view.protocol()), (100, RelayProtocol::Nlpid(0xcc)));
    assert!(view.is_response() && view.discard_eligible());
    assert!(view.backward_congestion() && view.forward_congestion());
    let long = FrameRelay::new(&[0x18, 0x40, 0x02, 0x0d, 3, 0, 0xcc]).unwrap();
    assert_eq!((long.dlci(), long.header_bytes()), ((100 << 7 | 1) << 6 | 3, 7));
}

#[test]
fn attributes_of_the_kernels_log_end_with_the_packet() {
    use LayerKind::{Ipv4, Nflog as Log, Udp};
    let packet = packet();
    let attribute = |kind: u16, content: &[u8], is_little: bool| {
        let length = 4 + content.len() as u16;
        let bytes = |value: u16| if is_little { value.to_le_bytes() } else { value.to_be_bytes() };
        let padding = vec![0; content.len().next_multiple_of(4) - content.len()];
        [&bytes(length)[..], &bytes(kind), content, &padding].concat()
    };
    for is_little in [true, false] {
        let parts = [
            vec![2, 0, 0, 7],
            attribute(10, b"prefix\0", is_little),
            attribute(9, &packet, is_little),
            attribute(1, &[0; 4], is_little),
        ];
        let frame = parts.concat();
        let view = Nflog::new(&frame).unwrap();
        assert_eq!((view.family(), view.resource(), view.header_bytes()), (2, 7, 20));
        assert_eq!(view.payload_length(), packet.len());
        assert_eq!(kinds(&frame, LinkType::NFLOG), (vec![Log, Ipv4, Udp], Stop::Complete));
    }
    let malformed = Stop::Malformed(Log);
    let found = |bytes: &[u8]| kinds(bytes, LinkType::NFLOG).1;
    assert_eq!(found(&[2, 1, 0, 7, 4, 0, 9, 0]), malformed);
    assert_eq!(found(&[2, 0, 0, 7, 3, 0, 1, 0]), malformed);
    assert_eq!(found(&[2, 0, 0, 7, 8, 0, 1, 0]), Stop::Truncated(Log));
    assert_eq!(found(&[7, 0, 0, 7, 4, 0, 9, 0]), Stop::Unknown { protocol: 7 });
    // 16 thousand attributes of nothing.
    let endless = [&[2, 0, 0, 7][..], &[4, 0, 1, 0].repeat(20_000)].concat();
    assert_eq!(found(&endless), malformed);
}

#[test]
fn fddi_and_tags_of_switches() {
    use LayerKind::{Fddi as Ring, Ipv4, Llc, Snap, Udp};
    let head = [&[0x54][..], &FIRST.0, &SECOND.0];
    let frame = [&head.concat()[..], &SNAP, &packet()].concat();
    let view = Fddi::new(&frame).unwrap();
    assert_eq!((view.destination(), view.source()), (FIRST, SECOND));
    let expected = vec![Ring, Llc, Snap, Ipv4, Udp];
    assert_eq!(kinds(&frame, LinkType::FDDI), (expected, Stop::Complete));
    assert_eq!(kinds(&[0x41; 20], LinkType::FDDI).1, Stop::Unknown { protocol: 0x41 });

    let tag = [0xe3, 0x2d, 0xb0, 0x05];
    for (link, extra) in
        [(LinkType::DSA_TAG_DSA, &[][..]), (LinkType::DSA_TAG_EDSA, &[0xda, 0xda, 1, 2])]
    {
        let frame = [&FIRST.0[..], &SECOND.0, extra, &tag, &[8, 0], &packet()].concat();
        let expected = vec![LayerKind::Dsa, Ipv4, Udp];
        assert_eq!(kinds(&frame, link), (expected, Stop::Complete));
        let dsa = Dsa::new(&frame, !extra.is_empty()).unwrap();
        assert_eq!((dsa.destination(), dsa.source()), (FIRST, SECOND));
        assert_eq!((dsa.mode(), dsa.device(), dsa.port()), (DsaMode::Forward, 3, 5));
        assert!(dsa.is_tagged() && dsa.is_trunk_or_ingress() && dsa.has_cfi());
        assert_eq!((dsa.code(), dsa.priority(), dsa.vlan_id()), (5, 5, 5));
        assert_eq!(EtherType(dsa.type_or_length()), EtherType::IPV4);
        let extended = (!extra.is_empty()).then_some((0xdada, [1, 2]));
        assert_eq!(dsa.extended(), extended);
    }
}
