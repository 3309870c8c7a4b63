//! Packets longer than the link takes, cut into frames on their way into a sink: what a card does
//! for the kernel's stack (TSO), for a stack in user space.

use crate::Error;
use crate::sink::{put_chained, put_segment};
use ringside_core::{Sink, SinkCounters, SinkError};
use ringside_segment::{MTU_BYTES_MAX, Position, Segment, Segmenter, Settings, Template};
use ringside_wire::Ethernet;
use std::time::{Duration, Instant};

/// Longest packet with its link-layer header: what IPv4 can say, Ethernet and two tags.
pub const PACKET_BYTES_MAX: usize = MTU_BYTES_MAX + Ethernet::BYTES + 8;

/// Payload memory of one packet, which is less.
const BUFFER_BYTES: usize = 64 << 10;

/// How long is waited for room before the rest of a packet is left out: an interface that takes
/// nothing for so long loses frames anyway, and the stack behind sends them again.
const ROOM_WAIT: Duration = Duration::from_millis(20);

/// What a sink's longest frame has before its packet: Ethernet, and a tag.
const LINK_BYTES: usize = Ethernet::BYTES + 4;

/// Cuts the packets of a stack, and sends the frames.
///
/// A stack hands its packet over for the time of a call only, so that the payload is copied: into
/// the sink's payload memory, over which chains are sent, if the sink has any; else straight into
/// the frames.
pub struct Cutter<S> {
    sink: S,
    /// What follows Ethernet and a tag.
    mtu_bytes: usize,
    has_offload: bool,
    /// Buffers of payload memory; 0 where frames are sent in one piece.
    buffers: usize,
    next_buffer: usize,
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Put {
    /// Frames that were put.
    pub frames: usize,
    /// Frames that the sink had no room for, which count nowhere else: lost, as on a wire.
    pub left_out: usize,
}

impl<S: Sink> Cutter<S> {
    /// Sends by `sink`, of an Ethernet interface.
    pub fn new(sink: S) -> Cutter<S> {
        let features = sink.features();
        let mtu_bytes = features.frame_bytes_max.saturating_sub(LINK_BYTES).min(MTU_BYTES_MAX);
        let has_offload = features.checksums;
        // A chain's payload is not looked at here, so somebody else must add it up.
        let chains = features.chains.filter(|_| has_offload);
        let buffers = chains.map_or(0, |chains| chains.payload_bytes / BUFFER_BYTES);
        Cutter { sink, mtu_bytes, has_offload, buffers, next_buffer: 0 }
    }

    /// Where frames go.
    pub fn sink(&self) -> &S {
        &self.sink
    }

    /// The MTU of the frames.
    pub fn mtu_bytes(&self) -> usize {
        self.mtu_bytes
    }

    /// True if frames are chains over payload memory, false if they are sent in one piece.
    pub fn has_chains(&self) -> bool {
        self.buffers > 0
    }

    /// Sends a packet of TCP or UDP with its Ethernet header, of at most [`PACKET_BYTES_MAX`]
    /// bytes: in frames of `mss_bytes` bytes of payload, or of as many as the MTU has room for.
    /// Lengths and checksums may be anything; sequence number, ids and flags are those of the
    /// first frame.
    ///
    /// # Errors
    /// It is no such packet, it cannot be cut so, or the interface failed.
    pub fn send(&mut self, packet: &[u8], mss_bytes: Option<usize>) -> Result<Put, Error> {
        let (template, payload) = Template::of_frame(packet)?;
        let segmenter =
            Segmenter::new(&template, Settings { mss_bytes, ..Settings::mtu(self.mtu_bytes) })?;
        let payload = &packet[payload];
        let plan = segmenter.plan(Position::default(), payload.len())?;
        let place = self.store(payload)?;
        let mut put = Put::default();
        for segment in plan.segments() {
            if !self.put(&segment, payload, place)? {
                put.left_out = plan.frame_count() - put.frames;
                break;
            }
            put.frames += 1;
        }
        Ok(put)
    }

    /// Sends a frame as it is.
    ///
    /// # Errors
    /// The sink does not take it, or the interface failed.
    pub fn send_as_is(&mut self, frame: &[u8]) -> Result<Put, Error> {
        let write = |slot: &mut [u8]| slot.copy_from_slice(frame);
        let has_room = with_room(&mut self.sink, |sink| Ok(sink.put(frame.len(), None, write)?))?;
        Ok(Put { frames: has_room.into(), left_out: (!has_room).into() })
    }

    /// Writes the payload to the next buffer of the sink's memory and tells where it is; `None` if
    /// frames are sent in one piece.
    fn store(&mut self, payload: &[u8]) -> Result<Option<usize>, Error> {
        if self.buffers == 0 || payload.is_empty() {
            return Ok(None);
        }
        let at = self.next_buffer * BUFFER_BYTES;
        let range = at..at + payload.len();
        let is_written = with_room(&mut self.sink, |sink| {
            let mut rest = payload;
            Ok(sink.write_payload(range.clone(), |part| {
                let (here, later) = rest.split_at(part.len());
                part.copy_from_slice(here);
                rest = later;
            })?)
        })?;
        self.next_buffer = (self.next_buffer + 1) % self.buffers;
        // What is in flight for so long may stay so: then this packet goes out in copies.
        Ok(is_written.then_some(at))
    }

    fn put(
        &mut self,
        segment: &Segment<'_>,
        payload: &[u8],
        place: Option<usize>,
    ) -> Result<bool, Error> {
        let has_offload = self.has_offload;
        with_room(&mut self.sink, |sink| match place {
            Some(at) => put_chained(sink, segment, at),
            None => put_segment(sink, segment, payload, has_offload),
        })
    }

    /// Hands over what was put.
    ///
    /// # Errors
    /// The interface failed.
    pub fn flush(&mut self) -> Result<(), Error> {
        Ok(self.sink.flush()?)
    }

    /// The account so far, in frames.
    pub fn counters(&mut self) -> SinkCounters {
        self.sink.counters()
    }

    /// Sends the rest, waits at most `timeout` for what is in flight, and ends the sink; see
    /// [`Sink::drain`].
    pub fn drain(&mut self, timeout: Duration) -> (SinkCounters, Option<SinkError>) {
        self.sink.drain(timeout)
    }
}

/// Tries until there is room, but no longer than [`ROOM_WAIT`].
fn with_room<S: Sink>(
    sink: &mut S,
    mut attempt: impl FnMut(&mut S) -> Result<bool, Error>,
) -> Result<bool, Error> {
    if attempt(sink)? {
        return Ok(true);
    }
    let start = Instant::now();
    while start.elapsed() < ROOM_WAIT {
        sink.flush()?;
        if attempt(sink)? {
            return Ok(true);
        }
        std::thread::yield_now();
    }
    Ok(false)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test fails by panicking
mod tests {
    use super::*;
    use ringside_core::{ChainFeatures, ChecksumRequest, LinkType, SinkError, SinkFeatures};
    use ringside_testkit::Random;
    use ringside_wire::build::{Ipv4Fields, TcpFields, ethernet, ipv4, tcp};
    use ringside_wire::checksum::{Addresses, Sum};
    use ringside_wire::{
        EtherType, IpProtocol, Level, MacAddr, Port, Tcp, Verdict, dissect, verify_network,
        verify_transport,
    };
    use std::ops::Range;

    const SEQUENCE: u32 = u32::MAX - 20_000;
    const HEADER_BYTES: usize = 54;

    /// Frames in memory, for as many as there is room; checksums are finished as a card does it.
    struct Memory {
        features: SinkFeatures,
        payload: Vec<u8>,
        frames: Vec<Vec<u8>>,
        room: usize,
    }

    impl Memory {
        fn new(checksums: bool, has_chains: bool) -> Memory {
            let payload_bytes = 3 * BUFFER_BYTES + 100;
            let chains = ChainFeatures { parts_max: 17, part_bytes: 4072, payload_bytes };
            Memory {
                features: SinkFeatures {
                    frame_bytes_max: 1518,
                    chains: has_chains.then_some(chains),
                    checksums,
                },
                payload: vec![0; payload_bytes],
                frames: Vec::new(),
                room: usize::MAX,
            }
        }

        fn push(&mut self, mut frame: Vec<u8>, checksum: Option<ChecksumRequest>) -> bool {
            assert!(checksum.is_none() || self.features.checksums, "nobody finishes it");
            let has_room = self.frames.len() < self.room;
            if let Some(request) = checksum {
                let (start, end) = (usize::from(request.start), request.end());
                let sum = Sum::new().bytes(&frame[start..]).checksum();
                frame[end - 2..end].copy_from_slice(&sum.to_be_bytes());
            }
            if has_room {
                self.frames.push(frame);
            }
            has_room
        }
    }

    impl Sink for Memory {
        fn name(&self) -> &'static str {
            "memory"
        }

        fn features(&self) -> SinkFeatures {
            self.features
        }

        fn put(
            &mut self,
            bytes: usize,
            checksum: Option<ChecksumRequest>,
            write: impl FnOnce(&mut [u8]),
        ) -> Result<bool, SinkError> {
            let mut frame = vec![0xee; bytes];
            write(&mut frame);
            Ok(self.push(frame, checksum))
        }

        fn put_chain(
            &mut self,
            header_bytes: usize,
            checksum: Option<ChecksumRequest>,
            write: impl FnOnce(&mut [u8]),
            pieces: &[Range<usize>],
        ) -> Result<bool, SinkError> {
            let mut frame = vec![0xee; header_bytes];
            write(&mut frame);
            for piece in pieces {
                frame.extend_from_slice(&self.payload[piece.clone()]);
            }
            Ok(self.push(frame, checksum))
        }

        fn write_payload(
            &mut self,
            range: Range<usize>,
            mut write: impl FnMut(&mut [u8]),
        ) -> Result<bool, SinkError> {
            self.payload[range].chunks_mut(4072).for_each(&mut write);
            Ok(true)
        }

        fn flush(&mut self) -> Result<(), SinkError> {
            Ok(())
        }

        fn counters(&mut self) -> SinkCounters {
            SinkCounters::default()
        }

        fn drain(&mut self, _timeout: Duration) -> (SinkCounters, Option<SinkError>) {
            (SinkCounters::default(), None)
        }
    }

    /// A packet of TCP, as a stack makes it that leaves checksums to its device.
    fn packet(payload: &[u8], flags: u16) -> Vec<u8> {
        let mut packet = vec![0; HEADER_BYTES];
        packet.extend_from_slice(payload);
        let (source, destination) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let fields = TcpFields {
            source: Port(80),
            destination: Port(4000),
            sequence: SEQUENCE,
            acknowledgment: 7,
            flags,
            window: 500,
        };
        let addresses = Addresses::V4 { source, destination };
        tcp(&mut packet[34..], addresses, &fields).unwrap();
        let fields = Ipv4Fields {
            source,
            destination,
            protocol: IpProtocol::TCP,
            id: 0,
            ttl: 64,
            dont_fragment: true,
            payload_bytes: 20 + payload.len(),
        };
        ipv4(&mut packet[14..], &fields).unwrap();
        ethernet(&mut packet, MacAddr([2; 6]), MacAddr([4; 6]), EtherType::IPV4).unwrap();
        packet[50..52].fill(0);
        packet
    }

    #[test]
    fn a_packet_arrives_in_right_segments_in_each_way() {
        let mut random = Random::new(5);
        let sinks = [(true, false), (true, true), (false, false), (false, true)];
        let mut cutters = sinks.map(|(sums, chains)| Cutter::new(Memory::new(sums, chains)));
        assert_eq!(cutters.each_ref().map(Cutter::has_chains), [false, true, false, false]);
        for _ in 0..200 {
            let (bytes, mss) = (random.below(65_496), 200 + random.below(1261));
            let payload = random.bytes(bytes);
            let packet = packet(&payload, Tcp::ACK | Tcp::PSH);
            let frames = cutters.each_mut().map(|cutter| {
                let put = cutter.send(&packet, Some(mss)).unwrap();
                let frames = std::mem::take(&mut cutter.sink.frames);
                assert_eq!(put, Put { frames: frames.len(), left_out: 0 });
                frames
            });
            assert!(frames[1..].iter().all(|other| *other == frames[0]), "{bytes} by {mss}");
            assert_eq!(frames[0].len(), bytes.div_ceil(mss).max(1));
            check(&frames[0], &payload, mss);
        }
    }

    /// The frames carry the payload, and their headers say so.
    fn check(frames: &[Vec<u8>], payload: &[u8], mss: usize) {
        let mut carried = Vec::new();
        for (index, frame) in frames.iter().enumerate() {
            let is_last = index + 1 == frames.len();
            assert!(frame.len() == HEADER_BYTES + mss || is_last);
            let layers = dissect(frame, LinkType::ETHERNET);
            assert_eq!(verify_network(frame, &layers, Level::Inner), Verdict::Correct);
            assert_eq!(verify_transport(frame, &layers, Level::Inner), Verdict::Correct);
            let tcp = Tcp::new(&frame[34..]).unwrap();
            assert_eq!(tcp.sequence(), SEQUENCE.wrapping_add(carried.len() as u32));
            assert_eq!((tcp.has(Tcp::PSH), tcp.has(Tcp::ACK)), (is_last, true));
            carried.extend_from_slice(tcp.payload());
        }
        assert!(carried == payload, "the content is another");
    }

    #[test]
    fn what_finds_no_room_is_left_out_and_said() {
        let mut cutter = Cutter::new(Memory { room: 10, ..Memory::new(true, false) });
        let packet = packet(&[1; 20_000], Tcp::ACK);
        let put = cutter.send(&packet, Some(1000)).unwrap();
        assert_eq!(put, Put { frames: 10, left_out: 10 });
        assert_eq!(cutter.send_as_is(&[0; 60]).unwrap(), Put { frames: 0, left_out: 1 });
        cutter.sink.room = 11;
        assert_eq!(cutter.send_as_is(&[7; 60]).unwrap(), Put { frames: 1, left_out: 0 });
        assert_eq!(cutter.sink.frames[10], [7; 60]);
    }

    #[test]
    fn what_cannot_be_cut_is_refused() {
        let mut cutter = Cutter::new(Memory::new(true, true));
        assert_eq!(cutter.mtu_bytes(), 1500);
        assert_eq!(cutter.send(&packet(&[], Tcp::SYN), None).unwrap().frames, 1);
        let long = packet(&[0; 3000], Tcp::SYN);
        assert!(cutter.send(&long, Some(1000)).unwrap_err().to_string().contains("SYN"));
        let good = packet(&[0; 3000], Tcp::ACK);
        assert!(cutter.send(&good, Some(1461)).unwrap_err().to_string().contains("1461"));
        assert!(matches!(cutter.send(&good[..60], None), Err(Error::Packet(_))));
        assert!(matches!(cutter.send(&[0; 60], None), Err(Error::Packet(_))));
        assert_eq!(cutter.sink.frames.len(), 1);
    }
}
