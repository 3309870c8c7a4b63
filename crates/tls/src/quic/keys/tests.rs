use super::*;
use ringside_proto::quic::{Ids, Packet, Packets};
use ringside_testkit::quic::{version_1, version_2};

/// What stands in front of a packet's protected part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header<'h> {
    pub version: Version,
    pub ids: Ids<'h>,
    pub token: &'h [u8],
    pub number: u16,
}

/// The Initial packet of a client or a server with this payload, as an end would send it, by keys
/// of `destination`.
pub(crate) fn seal(
    destination: &[u8],
    sender: Role,
    header: &Header<'_>,
    payload: &[u8],
) -> Vec<u8> {
    let keys = Keys::new(header.version, destination);
    let secrets = &keys.0[sender as usize];
    let mut payload = payload.to_vec();
    payload.resize(payload.len().max(4), 0);
    let length = |bytes: usize| (0x4000 | bytes as u16).to_be_bytes();
    let mut packet = vec![if header.version == Version::V2 { 0xd1 } else { 0xc1 }];
    packet.extend(header.version.0.to_be_bytes());
    for id in [header.ids.destination, header.ids.source] {
        packet.push(id.len() as u8);
        packet.extend(id);
    }
    packet.extend(length(header.token.len()));
    packet.extend(header.token);
    packet.extend(length(2 + payload.len() + TAG_BYTES));
    let number_at = packet.len();
    packet.extend(header.number.to_be_bytes());
    let nonce = secrets.nonce_of(header.number.into()).into();
    let cipher = Aes128Gcm::new(&secrets.key.into());
    let tag = cipher.encrypt_inout_detached(&nonce, &packet, payload.as_mut_slice().into());
    packet.extend(payload);
    packet.extend(tag.unwrap());
    let sample = packet[number_at + NUMBER_BYTES_MAX..].first_chunk().unwrap();
    let mask = secrets.mask(sample);
    packet[0] ^= mask[0] & 0x0f;
    packet[number_at] ^= mask[1];
    packet[number_at + 1] ^= mask[2];
    packet
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn initial(datagram: &[u8]) -> Initial<'_> {
    match Packets::new(datagram).next() {
        Some(Packet::Initial(packet)) => packet,
        other => panic!("{other:?}"),
    }
}

/// What the client of all examples calls the server.
const DESTINATION: [u8; 8] = [0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08];

#[test]
fn keys_are_those_of_the_rfcs() {
    let expected = [
        (Version::V1, "1f369613dd76d5467730efcbe3b1a22d", "fa044b2f42a3fd3b46fb255c"),
        (Version::V1, "cf3a5331653c364c88f0f379b6067e37", "0ac1493ca1905853b0bba03e"),
        (Version::V2, "8b1a0bc121284290a29e0971b5cd045d", "91f73e2351d8fa91660e909f"),
        (Version::V2, "82db637861d55e1d011f19ea71d5d2a7", "dd13c276499c0249d3310652"),
    ];
    let header_keys = [
        "9f50449e04a0e810283a1e9933adedd2",
        "c206b8d9b9f0f37644430b490eeaa314",
        "45b95e15235d6f45a6b19cbcb0294ba9",
        "edf6d05c83121201b436e16877593c3a",
    ];
    for (at, (version, key, nonce)) in expected.into_iter().enumerate() {
        let keys = Keys::new(version, &DESTINATION);
        let secrets = &keys.0[at % 2];
        assert_eq!([hex(&secrets.key), hex(&secrets.nonce)], [key, nonce]);
        assert_eq!(hex(&secrets.header_key), header_keys[at]);
    }
}

#[test]
fn packets_of_the_rfcs_are_opened() {
    for (version, example) in [(Version::V1, version_1()), (Version::V2, version_2())] {
        let keys = Keys::new(version, &DESTINATION);
        let mut scratch = Vec::new();
        let opened = keys.open(Role::Client, &initial(&example.client), 0, &mut scratch);
        let Opened { number, payload } = opened.unwrap();
        assert_eq!((number, payload.len()), (2, 1162));
        assert_eq!(hex(&scratch[payload][..8]), "060040f1010000ed");
        let opened = keys.open(Role::Server, &initial(&example.server), 0, &mut scratch);
        let Opened { number, payload } = opened.unwrap();
        assert_eq!((number, payload.len()), (1, 99));
        assert_eq!(hex(&scratch[payload][..8]), "0200000000060040");
        let wrong = Keys::new(version, &DESTINATION[1..]);
        assert_eq!(wrong.open(Role::Client, &initial(&example.client), 0, &mut scratch), None);
    }
}

#[test]
fn numbers_of_packets_are_made_whole() {
    // The example of RFC 9000 appendix A.3, and what lies at the ends.
    assert_eq!(whole_number(0x9b32, 2, 0xa82f_30eb), 0xa82f_9b32);
    assert_eq!(whole_number(0xff, 1, 0x100), 0xff);
    assert_eq!(whole_number(0x01, 1, 0xff), 0x101);
    assert_eq!(whole_number(0xff, 1, 0), 0xff);
    let most = (1 << 62) - 1;
    assert_eq!(whole_number(0, 1, most), most & !0xff);
    assert_eq!(whole_number(0xffff_ffff, 4, 0), 0xffff_ffff);
}

#[test]
fn what_was_sealed_is_opened() {
    let ids = Ids { destination: b"server", source: b"" };
    for version in [Version::V1, Version::V2, Version(0xff00_001d), Version(0xff00_001b)] {
        for sender in [Role::Client, Role::Server] {
            let header = Header { version, ids, token: b"token", number: 7 };
            let packet = seal(b"first", sender, &header, b"hello");
            let (keys, mut scratch) = (Keys::new(version, b"first"), Vec::new());
            let opened = keys.open(sender, &initial(&packet), 5, &mut scratch).unwrap();
            assert_eq!((opened.number, &scratch[opened.payload]), (7, &b"hello"[..]));
        }
    }
}
