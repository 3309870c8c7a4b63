//! QUIC: packets of the RFCs' datagrams, frames of each kind, and any bytes.

use ringside_proto::Stop;
use ringside_proto::quic::{Frame, Frames, Ids, Initial, Packet, Packets, Version};
use ringside_testkit::quic::{retry, version_1, version_2};

#[test]
fn datagrams_of_the_rfcs() {
    for (version, example) in [(Version::V1, version_1()), (Version::V2, version_2())] {
        let mut packets = Packets::new(&example.client);
        let Some(Packet::Initial(packet)) = packets.next() else { panic!("{packets:?}") };
        let ids = Ids { destination: b"\x83\x94\xc8\xf0\x3e\x51\x57\x08", source: b"" };
        let expected = Initial { version, ids, token: b"", bytes: &example.client, number_at: 18 };
        assert_eq!((packet, packets.next()), (expected, None));
        let mut packets = Packets::new(&example.server);
        let Some(Packet::Initial(packet)) = packets.next() else { panic!("{packets:?}") };
        assert_eq!(packet.ids.source, b"\xf0\x67\xa5\x50\x2a\x42\x62\xb5");
        for end in 5..example.client.len() {
            let mut packets = Packets::new(&example.client[..end]);
            assert_eq!(packets.next(), Some(Packet::Unread(Stop::Cut)));
            assert_eq!(packets.next(), None);
        }
    }
    let retry = retry();
    let ids = Ids { destination: b"", source: b"\xf0\x67\xa5\x50\x2a\x42\x62\xb5" };
    assert_eq!(Packets::new(&retry).collect::<Vec<_>>(), [Packet::Retry(ids)]);
}

#[test]
fn packets_lie_one_behind_the_other() {
    let initial = [&[0xc0, 0, 0, 0, 1, 1, 7, 0, 2, 8, 9, 3][..], b"abc"].concat();
    let handshake = [0xe0, 0, 0, 0, 1, 1, 7, 0, 2, 5, 5];
    let all = [&initial, &handshake[..], &initial, &[0x40, 1, 2]].concat();
    let found: Vec<_> = Packets::new(&all).collect();
    let [Packet::Initial(one), Packet::Other, Packet::Initial(two)] = found.as_slice() else {
        panic!("{found:?}");
    };
    assert_eq!((one, one.token, one.number_at), (two, &[8, 9][..], 12));
    // A handshake packet that is cut hides nothing that can be read.
    let cut: Vec<_> = Packets::new(&all[..initial.len() + 9]).collect();
    assert!(matches!(cut[..], [Packet::Initial(_), Packet::Other]));
    let negotiation = [0x80, 0, 0, 0, 0, 1, 7, 1, 8, 0, 0, 0, 1];
    let ids = Ids { destination: &[7], source: &[8] };
    assert_eq!(Packets::new(&negotiation).collect::<Vec<_>>(), [Packet::VersionNegotiation(ids)]);
    for other in [&[0x40, 0, 0, 0, 1, 0][..], &[0xc0, 0, 0, 0, 9, 0], &[0xc0, 0, 0, 0], &[]] {
        assert_eq!(Packets::new(other).next(), None);
    }
    let malformed = [0xc0, 0, 0, 0, 1, 21];
    assert_eq!(Packets::new(&malformed).next(), Some(Packet::Unread(Stop::Malformed)));
}

#[test]
fn frames_of_a_handshake() {
    let acknowledged = [3, 0x40, 9, 0, 1, 0, 5, 6, 1, 2, 3];
    let crypto = [6, 0x41, 0, 2, 7, 8];
    let close = [0x1c, 0x41, 0x28, 6, 2, b'n', b'o'];
    let all = [&[0, 0, 1][..], &acknowledged, &crypto, &[0], &close].concat();
    let expected = [Frame::Crypto { offset: 256, bytes: &[7, 8] }, Frame::Close { error: 0x128 }];
    assert_eq!(Frames::new(&all).collect::<Result<Vec<_>, _>>().unwrap(), expected);
    for wrong in [&[6, 0, 5, 1][..], &[0x1d, 0, 0], &[2, 0, 0, 0xff, 0xff], &[0x80]] {
        assert_eq!(Frames::new(wrong).collect::<Vec<_>>(), [Err(Stop::Malformed)], "{wrong:?}");
    }
}

#[test]
fn any_datagram_and_any_payload_hold() {
    let example = version_1();
    let frames = [&[2, 0, 0, 1, 0, 5, 6][..], &[6, 0, 2, 7, 8], &[0x1c, 0x41, 0x28, 6, 0]].concat();
    let seeds = [example.client, example.server, version_2().server, retry(), frames];
    ringside_testkit::fuzz("proto-quic", 60_000, &seeds, |bytes| {
        let mut left = bytes.len();
        for packet in Packets::new(bytes) {
            if let Packet::Initial(packet) = packet {
                assert!(packet.number_at <= packet.bytes.len() && packet.bytes.len() <= left);
                left -= packet.bytes.len();
            }
        }
        let said = Frames::new(bytes).map_while(Result::ok).map(|frame| match frame {
            Frame::Crypto { bytes, .. } => bytes.len(),
            Frame::Close { .. } => 0,
        });
        assert!(said.sum::<usize>() <= bytes.len());
    });
}
