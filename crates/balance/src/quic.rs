//! What a balancer reads of QUIC: whether a packet begins a connection, and which server a
//! connection id names.
//!
//! Connection ids are those of QUIC-LB in plain text (draft-ietf-quic-load-balancers, sections 3
//! and 4): three bits that choose one of up to seven configurations, five bits that are not ours,
//! the server's id, and a nonce. Encrypted ids are not read: their packets go by addresses and
//! ports, as those of servers that do not follow the draft.

/// Configurations that a connection id can name; the eighth means that it names no server.
pub const ROTATIONS: usize = 7;
/// Most bytes of a server id that we keep. The draft allows 15; 2^64 servers are enough.
pub const SERVER_ID_BYTES_MAX: usize = 8;
/// Versions whose types of packets we know (RFC 9000, RFC 9369).
const VERSION_1: u32 = 1;
const VERSION_2: u32 = 0x6b33_43cf;
/// Longest connection id of these versions.
const ID_BYTES_MAX: usize = 20;

/// A packet, as a balancer sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet<'b> {
    /// Initial, 0-RTT, or of a version that we do not know: its id is the client's choice.
    Opening,
    /// Of a connection whose id the server chose: the id, and what follows it if its length is not
    /// said.
    Continuing(&'b [u8]),
    /// No QUIC packet that a client sends.
    Other,
}

/// Reads the payload of a datagram from a client.
pub fn packet(payload: &[u8]) -> Packet<'_> {
    let Some((&first, behind)) = payload.split_first() else { return Packet::Other };
    if first & 0x80 == 0 {
        return Packet::Continuing(behind);
    }
    let Some((version, behind)) = behind.split_first_chunk::<4>() else { return Packet::Other };
    let kind = first >> 4 & 3;
    let kind = match u32::from_be_bytes(*version) {
        0 => return Packet::Other,
        VERSION_1 => kind,
        // Each type has the number of the one before it.
        VERSION_2 => kind.wrapping_sub(1) & 3,
        _ => return Packet::Opening,
    };
    match kind {
        0 | 1 => Packet::Opening,
        2 => {
            let Some((&bytes, behind)) = behind.split_first() else { return Packet::Other };
            match behind.get(..usize::from(bytes)) {
                Some(id) if id.len() <= ID_BYTES_MAX => Packet::Continuing(id),
                _ => Packet::Other,
            }
        }
        _ => Packet::Other,
    }
}

/// The configuration that `id` names, and the server's id in it; none if it names none.
/// `server_id_bytes` has the length of the server ids of each configuration, 0 where there is none.
pub fn server_id(id: &[u8], server_id_bytes: &[u8; ROTATIONS]) -> Option<(u8, u64)> {
    let (&first, behind) = id.split_first()?;
    let rotation = first >> 5;
    let bytes = usize::from(*server_id_bytes.get(usize::from(rotation))?);
    if bytes == 0 || bytes > SERVER_ID_BYTES_MAX {
        return None;
    }
    Some((rotation, number(behind.get(..bytes)?)))
}

/// Bytes of a server id as a number, the first byte highest.
pub fn number(server_id: &[u8]) -> u64 {
    server_id.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTHS: [u8; ROTATIONS] = [2, 0, 8, 1, 0, 0, 9];

    #[test]
    fn packets_that_open_a_connection_are_known_in_both_versions() {
        let long = |first: u8, version: u32, id: &[u8]| {
            let mut packet = vec![first];
            packet.extend(version.to_be_bytes());
            packet.push(id.len() as u8);
            packet.extend(id);
            packet.extend([0; 30]);
            packet
        };
        let id = [0x01, 0xaa, 0xbb, 0xcc];
        for (version, first) in [(VERSION_1, 0), (VERSION_2, 1)] {
            let of = |kind: u8| 0xc0 | ((kind + first) & 3) << 4;
            for opening in [0, 1] {
                assert_eq!(packet(&long(of(opening), version, &id)), Packet::Opening);
            }
            let handshake = long(of(2), version, &id);
            assert_eq!(packet(&handshake), Packet::Continuing(&id));
            assert_eq!(packet(&long(of(3), version, &id)), Packet::Other, "Retry");
            assert_eq!(packet(&handshake[..9]), Packet::Other, "cut");
            assert_eq!(packet(&long(of(2), version, &[0; 21])), Packet::Other, "too long");
        }
        assert_eq!(packet(&long(0xf0, 0xbaba_baba, &id)), Packet::Opening);
        assert_eq!(packet(&long(0xc0, 0, &id)), Packet::Other, "version negotiation");
        assert_eq!(packet(&[0x40, 1, 2]), Packet::Continuing(&[1, 2]));
        assert_eq!([&[][..], &[0xc0, 0, 0, 0]].map(packet), [Packet::Other; 2]);
    }

    #[test]
    fn server_ids_are_read_as_the_configuration_says() {
        let read = |id: &[u8]| server_id(id, &LENGTHS);
        assert_eq!(read(&[0x1f, 0xaa, 0xbb, 0xcc]), Some((0, 0xaabb)));
        assert_eq!(read(&[0x00, 0xaa]), None, "cut");
        assert_eq!(read(&[0x20, 0xaa, 0xbb]), None, "no such configuration");
        let eight = [0x40, 1, 2, 3, 4, 5, 6, 7, 8, 9];
        assert_eq!(read(&eight), Some((2, 0x0102_0304_0506_0708)));
        assert_eq!(read(&[0x7f, 9]), Some((3, 9)));
        assert_eq!(read(&[0xc0; 20]), None, "longer than we keep");
        assert_eq!(read(&[0xff; 20]), None, "not routable");
        assert_eq!(read(&[]), None);
    }
}
