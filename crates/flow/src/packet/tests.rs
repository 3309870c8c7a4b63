use super::*;
use ringside_core::{FrameMeta, LaneId, SourceInterface};
use ringside_testkit::capture_files;
use ringside_wire::build;
use std::net::Ipv4Addr;

const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

/// What a reader makes of a frame, by the fast way if it may, and always by the whole one.
fn read(
    reader: &mut PacketReader,
    bytes: &[u8],
    link: LinkType,
) -> (Option<Packet>, Result<Packet, NoFlow>) {
    let interface = SourceInterface::ethernet("test0");
    let meta = FrameMeta { wire_bytes: bytes.len() as u32, ..FrameMeta::default() };
    let received = Received { meta: &meta, interface: &interface, lane: LaneId(0) };
    let frame = DissectedFrame::new(bytes, meta.wire_bytes, link);
    (plain(frame.bytes(), received.meta, frame.link()), reader.dissected(&frame, &received))
}

/// Ethernet, IPv4 with this place among fragments, and a payload.
fn ipv4(
    from: Ipv4Addr,
    to: Ipv4Addr,
    protocol: IpProtocol,
    fragment: u16,
    payload: &[u8],
) -> Vec<u8> {
    let mut frame = vec![0; 34];
    frame[12..14].copy_from_slice(&[8, 0]);
    let fields = build::Ipv4Fields {
        source: from,
        destination: to,
        protocol,
        id: 77,
        ttl: 64,
        dont_fragment: false,
        payload_bytes: payload.len(),
    };
    build::ipv4(&mut frame[14..], &fields).unwrap();
    frame[20..22].copy_from_slice(&fragment.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

#[test]
fn echo_request_and_reply_are_one_flow_and_errors_are_not() {
    let mut reader = PacketReader::new();
    let mut icmp = |from, to, kind: u8, code: u8| {
        let message = [kind, code, 0, 0, 0, 1, 0, 2, 9, 9];
        read(&mut reader, &ipv4(from, to, IpProtocol::ICMP, 0, &message), LinkType::ETHERNET)
            .1
            .unwrap()
    };
    let (request, reply) = (icmp(B, A, 8, 0), icmp(A, B, 0, 0));
    assert_eq!(request.key, reply.key);
    assert!(request.from_high != reply.from_high && request.is_question && !reply.is_question);
    let (one, other) = (icmp(A, B, 3, 1), icmp(B, A, 3, 1));
    assert!(one.key != other.key && one.key.is_one_way());
    assert_eq!((one.key.low().1, one.key.high().1), (3, 1));
}

#[test]
fn later_fragments_have_the_ports_of_their_first() {
    let mut reader = PacketReader::new();
    let mut next = |from, to, fragment| {
        let udp = [0x12, 0x34, 0, 53, 0, 24, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
        let frame = ipv4(from, to, IpProtocol::UDP, fragment, &udp);
        let packet = read(&mut reader, &frame, LinkType::ETHERNET).1.unwrap();
        let ends = (packet.key.low().1, packet.key.high().1);
        (ends, reader.fragments_without_ports())
    };
    assert_eq!(next(A, B, 2), ((0, 0), 1), "its first is not there yet");
    assert_eq!(next(A, B, 0x2000), ((0x1234, 53), 1));
    assert_eq!(next(A, B, 0x2002), ((0x1234, 53), 1));
    assert_eq!(next(A, B, 4), ((0x1234, 53), 1));
    assert_eq!(next(B, A, 4), ((0, 0), 2), "the other direction has its own numbers");
}

#[test]
fn what_carries_no_ip_says_why() {
    let mut reader = PacketReader::new();
    let mut arp = vec![0; 14];
    arp[12..14].copy_from_slice(&[8, 6]);
    arp.extend_from_slice(&[0, 1, 8, 0, 6, 4, 0, 1]);
    arp.resize(60, 0);
    assert_eq!(read(&mut reader, &arp, LinkType::ETHERNET).1, Err(NoFlow::NotIp));
    let whole = ipv4(A, B, IpProtocol::UDP, 0, &[]);
    assert_eq!(read(&mut reader, &whole[..20], LinkType::ETHERNET).1, Err(NoFlow::Unreadable));
    assert_eq!(read(&mut reader, &whole, LinkType(9_999)).1, Err(NoFlow::NotIp));
}

/// In all captures, and cut anywhere, the fast way gives what the whole one gives.
#[test]
fn the_fast_way_gives_what_the_dissection_gives() {
    let (mut frames, mut plains) = (0, 0);
    for path in capture_files("the_fast_way_gives_what_the_dissection_gives") {
        let Ok(mut source) = ringside_store::open(&[path]) else { continue };
        if source.start().is_err() {
            continue;
        }
        let mut reader = PacketReader::new();
        while !source.is_finished() {
            let Ok(Some(batch)) = source.next_batch(std::time::Duration::ZERO) else { break };
            for frame in batch.iter() {
                for end in [frame.bytes.len(), frames % (frame.bytes.len() + 1)] {
                    let (fast, whole) = read(&mut reader, &frame.bytes[..end], LinkType::ETHERNET);
                    plains += usize::from(fast.is_some());
                    assert!(fast.is_none_or(|fast| whole == Ok(fast)), "{:02x?}", frame.bytes);
                }
                frames += 1;
            }
        }
    }
    assert!(frames == 0 || plains * 4 > frames, "{plains} of {frames}");
}
