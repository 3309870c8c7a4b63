//! Bulk payload as segments, by every way: the same frames, and every frame in the account.

use crate::common::{Witness, config, numbered, send as send_frames, tool};
use ringside_core::SinkCounters;
use ringside_lab::{Lab, LabConfig, Napi};
use ringside_netdev::{self as netdev, DeviceStatistics};
use ringside_segment::{Cut, LinearChecksum, Pieces, Position, Segmenter, Settings, Template};
use ringside_sys::netns::Namespace;
use ringside_sys::thread::{allowed_cpus, pin_to_cpu};
use ringside_testkit::{Random, WAIT_MAX, by_run, need_root, need_tool};
use ringside_transmit::{
    BUFFER_BYTES, LIVE_FRAME_BYTES_MAX, SenderKind, Stack, Stream, StreamConfig, Way,
};
use std::panic::resume_unwind;
use std::time::{Duration, Instant};

const PAYLOAD_BYTES: usize = 1 << 20;
const BUFFERS: usize = 3;
/// Only a broken stream makes a test wait so long.
const PATIENCE: Duration = WAIT_MAX;

fn ready(test: &str) -> bool {
    need_root(test) && need_tool(test, "tcpdump") && need_tool(test, "ethtool")
}

/// A network whose sending end leaves no cutting to the interface, so that segments really exist.
fn network(lab: LabConfig) -> Lab {
    let lab = Lab::up(&lab).unwrap();
    let namespace = &lab.status().sender_namespace;
    let offloads = "tso off gso off tx-udp-segmentation off";
    tool(&format!("ip netns exec {namespace} ethtool -K tx0 {offloads}"));
    lab
}

/// Runs `work` in the sender's namespace, on one CPU: the far end's NAPI runs there too unless it
/// has threads, and no ring overflows.
fn at_sender<T: Send>(lab: &Lab, work: impl FnOnce() -> T + Send) -> T {
    let body = || {
        pin_to_cpu(allowed_cpus().unwrap()[0]).unwrap();
        Namespace::open(&lab.status().sender_namespace).unwrap().enter().unwrap();
        work()
    };
    std::thread::scope(|scope| scope.spawn(body).join())
        .unwrap_or_else(|panic| resume_unwind(panic))
}

fn template(stack: Stack) -> Template {
    Template::parse(ringside_transmit::Template::of(stack).frame()).unwrap()
}

fn stream_config(way: Way, template: &Template, mss: Option<usize>, mtu: usize) -> StreamConfig {
    StreamConfig {
        interface: "tx0".into(),
        queue: 0,
        way,
        template: template.clone(),
        settings: Settings { mss_bytes: mss, ..Settings::mtu(mtu) },
        buffers: BUFFERS,
    }
}

/// The payload in pieces as they are sent: whole buffers, and odd sizes.
fn pieces(payload: &[u8]) -> Vec<&[u8]> {
    let sizes = [BUFFER_BYTES, 1, 1447, 1448, 1449, 30_001, BUFFER_BYTES - 1, 2, 4096, 60_000];
    let (mut rest, mut pieces) = (payload, Vec::new());
    for size in sizes.into_iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (piece, behind) = rest.split_at(size.min(rest.len()));
        pieces.push(piece);
        rest = behind;
    }
    pieces
}

/// The frames that a plain segmenter makes.
fn expected(config: &StreamConfig, payload: &[u8]) -> Vec<Vec<u8>> {
    let segmenter = Segmenter::new(&config.template, config.settings).unwrap();
    let (mut position, mut frames) = (Position::default(), Vec::new());
    for piece in pieces(payload) {
        let plan = segmenter.plan(position, piece.len()).unwrap();
        let whole = [piece];
        for segment in plan.segments() {
            let mut frame = vec![0; segment.frame_bytes()];
            segment.write_linear(&mut frame, &Pieces::new(&whole), LinearChecksum::Full).unwrap();
            frames.push(frame);
        }
        position = plan.end();
    }
    frames
}

/// Fills and sends each piece; every buffer is filled anew as soon as that is allowed.
fn send(stream: &mut Stream, payload: &[u8]) {
    for (index, piece) in pieces(payload).into_iter().enumerate() {
        let buffer = index % stream.buffers();
        let mut rest = piece;
        stream
            .fill(buffer, piece.len(), |part| {
                let (now, later) = rest.split_at(part.len());
                part.copy_from_slice(now);
                rest = later;
            })
            .unwrap();
        assert!(rest.is_empty(), "all of a piece is asked for");
        stream.send(buffer, piece.len()).unwrap();
    }
}

/// The frames of `stack` that came, without those that ends with IPv6 send by themselves.
fn came(witness: Witness, count: usize) -> Vec<Vec<u8>> {
    let frames = witness.frames(count as u64).into_iter();
    frames.filter(|frame| !frame.starts_with(&[0x33, 0x33])).collect()
}

fn every_way_sends_the_same(lab: &Lab, mss: Option<usize>, mtu: usize) {
    let payload = Random::new(11).bytes(PAYLOAD_BYTES);
    let plain = Stack { checksum: true, ..Stack::default() };
    let stacks = [
        Stack { tcp: true, ipv6: true, vlan: true, ..plain },
        Stack::default(),
        plain,
        Stack { ipv6: true, ..plain },
        Stack { tcp: true, ..plain },
    ];
    for &stack in by_run(&stacks[..3], &stacks[..]) {
        for way in Way::ALL {
            let config = stream_config(way, &template(stack), mss, mtu);
            if way == Way::Kernel && stack == Stack::default() {
                let refused = at_sender(lab, || Stream::open(&config).err()).unwrap();
                assert!(refused.to_string().contains("without a checksum"), "{refused}");
                continue;
            }
            if way == Way::Live && mtu > LIVE_FRAME_BYTES_MAX {
                let refused = at_sender(lab, || Stream::open(&config).err()).unwrap();
                assert!(refused.to_string().contains("at most 3408"), "{refused}");
                continue;
            }
            let frames = expected(&config, &payload);
            let witness = Witness::start(lab.status());
            let (counters, notes) = at_sender(lab, || {
                let mut stream = Stream::open(&config).unwrap();
                send(&mut stream, &payload);
                let notes = stream.notes();
                (stream.finish(), notes)
            });
            let (counters, failure) = counters;
            assert!(failure.is_none(), "{way}: {failure:?}");
            let count = frames.len() as u64;
            let offered_bytes = frames.iter().map(|frame| frame.len() as u64).sum();
            let whole = SinkCounters {
                offered: count,
                offered_bytes,
                accepted: count,
                ..SinkCounters::default()
            };
            assert_eq!(counters, whole, "{way}, {stack:?}");
            let said = notes.iter().any(|note| note.contains("segments go out as"));
            assert_eq!(said, way == Way::Fastest, "{way}, {stack:?}: {notes:?}");
            let came = came(witness, frames.len());
            assert_eq!(came.len(), frames.len(), "{way}, {stack:?}");
            for (index, (came, frame)) in came.iter().zip(&frames).enumerate() {
                let what = format!("frame {index} by {way} of {stack:?}");
                assert!(came == frame, "{what}:\n{came:02x?}\n{frame:02x?}");
            }
        }
    }
}

#[test]
fn every_way_sends_the_frames_of_a_plain_segmenter() {
    if ready("every_way_sends_the_frames_of_a_plain_segmenter") {
        every_way_sends_the_same(&network(config("stream-ways")), Some(1400), 1500);
    }
}

#[test]
fn every_way_sends_frames_longer_than_a_page() {
    if ready("every_way_sends_frames_longer_than_a_page") {
        let lab = network(LabConfig { mtu: 9000, ..config("stream-jumbo") });
        every_way_sends_the_same(&lab, None, 9000);
    }
}

fn statistics() -> DeviceStatistics {
    netdev::by_name("tx0").unwrap().unwrap().statistics
}

#[test]
fn what_a_full_ring_refuses_is_counted_by_every_way() {
    const BUFFERS_MAX: usize = 20_000;
    if !ready("what_a_full_ring_refuses_is_counted_by_every_way") {
        return;
    }
    // The NAPI shares the sender's CPU and gets it only between calls: the ring must overflow.
    let napi = Napi::Pinned(allowed_cpus().unwrap()[0]);
    let lab = network(LabConfig { napi, ..config("stream-full") });
    for way in Way::ALL {
        at_sender(&lab, || {
            let before = statistics();
            let udp = template(Stack { checksum: true, ..Stack::default() });
            let config = stream_config(way, &udp, Some(100), 1500);
            let mut stream = Stream::open(&config).unwrap();
            let mut sent = 0;
            while sent < BUFFERS_MAX && stream.counters().refused_total() == 0 {
                stream.send(sent % BUFFERS, BUFFER_BYTES).unwrap();
                sent += 1;
                let now = stream.counters();
                assert!(now.accepted + now.refused_total() <= now.offered, "{way}: {now:?}");
            }
            let counters = stream.finish().0;
            let frames = (sent * BUFFER_BYTES.div_ceil(100)) as u64;
            assert!(counters.is_balanced() && counters.refused_total() > 0, "{way}: {counters:?}");
            assert_eq!(counters.offered, frames, "{way}");
            let start = Instant::now();
            let judged = loop {
                let now = statistics();
                let accepted = now.tx_packets - before.tx_packets;
                let dropped = now.tx_dropped - before.tx_dropped;
                if accepted + dropped >= frames || start.elapsed() > PATIENCE {
                    break (accepted, dropped);
                }
                std::thread::sleep(Duration::from_millis(2));
            };
            assert_eq!(judged, (counters.accepted, counters.refused_total()), "{way}");
        });
    }
}

#[test]
fn sizes_that_cannot_be_are_refused_and_a_slow_stream_goes_in_small_bursts() {
    if !ready("sizes_that_cannot_be_are_refused_and_a_slow_stream_goes_in_small_bursts") {
        return;
    }
    let lab = network(config("stream-slow"));
    let udp = template(Stack { checksum: true, ..Stack::default() });
    at_sender(&lab, || {
        for way in Way::ALL {
            for (mss, named) in [(0, "1 to 1472"), (1473, "1 to 1472")] {
                let config = stream_config(way, &udp, Some(mss), 1500);
                let refused = Stream::open(&config).err().unwrap().to_string();
                assert!(refused.contains(named), "{way}: {refused}");
            }
            let mut fragments = stream_config(way, &udp, Some(1000), 1500);
            fragments.settings.cut = Cut::Fragments { id: 1 };
            let refused = Stream::open(&fragments).err().unwrap().to_string();
            assert!(refused.contains("not as IP fragments"), "{way}: {refused}");
            // 6,000 bytes at 20 kB a second take 0.3 s less one burst, however they are cut.
            let config = stream_config(way, &udp, Some(1000), 1500);
            let mut stream = Stream::open(&config).unwrap();
            assert_eq!(stream.mss_bytes(), 1000);
            stream.pace(20_000);
            let start = Instant::now();
            stream.send(0, 6000).unwrap();
            assert!(start.elapsed() >= Duration::from_millis(250), "{way}: {:?}", start.elapsed());
            let counters = stream.finish().0;
            assert_eq!((counters.offered, counters.accepted), (6, 6), "{way}");
        }
    });
}

#[test]
fn live_segments_are_refused_where_they_would_vanish_or_another_program_is() {
    if !ready("live_segments_are_refused_where_they_would_vanish_or_another_program_is") {
        return;
    }
    let udp = template(Stack { checksum: true, ..Stack::default() });
    let config_of = || stream_config(Way::Live, &udp, Some(1000), 1500);
    let deaf = network(LabConfig { xdp_pass: false, ..config("stream-deaf") });
    at_sender(&deaf, || {
        let refused = Stream::open(&config_of()).err().unwrap().to_string();
        assert!(refused.contains("would vanish"), "{refused}");
    });
    let lab = network(config("stream-two"));
    at_sender(&lab, || {
        let mut first = Stream::open(&config_of()).unwrap();
        // The driver's counters could not tell the frames of two apart.
        let refused = Stream::open(&config_of()).err().unwrap().to_string();
        assert!(refused.contains("another sender of live frames"), "{refused}");
        first.send(0, 5000).unwrap();
        let counters = first.finish().0;
        assert_eq!((counters.offered, counters.accepted), (5, 5));
        drop(Stream::open(&config_of()).unwrap());
        let generator = numbered(SenderKind::Live, &lab, "64", 1, 10);
        assert_eq!(send_frames(&generator).handed, 10);
    });
}

/// A stream whose interface is removed in the middle of it: the error, from whichever call has it,
/// and the account.
fn removed_under(lab: &Lab, way: Way) -> (String, SinkCounters) {
    let udp = template(Stack { checksum: true, ..Stack::default() });
    at_sender(lab, || {
        let mut stream = Stream::open(&stream_config(way, &udp, Some(1000), 1500)).unwrap();
        let start = Instant::now();
        let mut failure = None;
        for round in 0..80 {
            assert!(start.elapsed() < PATIENCE, "{way}: no error");
            // Live frames go a thousand at a time: some have gone by now.
            if round == 30 {
                let counters = stream.counters();
                assert!(counters.accepted > 0, "{way}: {counters:?}");
                tool("ip link del tx0");
            }
            failure = stream.send(round % BUFFERS, 60_000).err();
            if failure.is_some() {
                break;
            }
        }
        let (counters, at_the_end) = stream.finish();
        assert!(counters.is_balanced(), "{way}: {counters:?}");
        let failure = failure.or(at_the_end);
        (failure.unwrap_or_else(|| panic!("{way}: {counters:?}")).to_string(), counters)
    })
}

#[test]
fn an_interface_removed_under_a_stream_is_an_error_and_the_account_stays() {
    if !ready("an_interface_removed_under_a_stream_is_an_error_and_the_account_stays") {
        return;
    }
    for way in [Way::Live, Way::Copies, Way::Chains, Way::Calls, Way::Kernel] {
        let lab = network(config(&format!("stream-gone-{way}")));
        let (failure, counters) = removed_under(&lab, way);
        assert!(failure.contains("tx0"), "{way}: {failure}");
        assert!(counters.accepted > 0, "{way}: {failure}: {counters:?}");
        assert!(way == Way::Kernel || counters.refused_total() > 0, "{way}: {counters:?}");
    }
}

#[test]
fn what_a_queueing_discipline_drops_is_refused_and_a_note_says_what_is_not_known() {
    let test = "what_a_queueing_discipline_drops_is_refused_and_a_note_says_what_is_not_known";
    if !ready(test) || !need_tool(test, "tc") {
        return;
    }
    let lab = network(config("stream-qdisc"));
    let udp = template(Stack { checksum: true, ..Stack::default() });
    let sent = |frames: usize| {
        let before = statistics();
        let config = stream_config(Way::Kernel, &udp, Some(1000), 1500);
        let mut stream = Stream::open(&config).unwrap();
        stream.send(0, frames * 1000).unwrap();
        let (notes, (counters, failure)) = (stream.notes(), stream.finish());
        assert!(failure.is_none() && counters.is_balanced(), "{counters:?}, {failure:?}");
        let taken = statistics().tx_packets - before.tx_packets;
        (notes.join(" "), counters.offered, counters.accepted, counters.refused_total(), taken)
    };
    at_sender(&lab, || {
        assert_eq!(sent(30), (String::new(), 30, 30, 0, 30));
        tool("tc qdisc add dev tx0 root pfifo limit 0");
        let (notes, offered, accepted, refused, taken) = sent(30);
        assert_eq!((offered, accepted, refused, taken), (30, 0, 30, 0));
        assert!(notes.contains("queueing discipline pfifo"), "{notes}");
        tool("tc qdisc replace dev tx0 root pfifo limit 100");
        let (_, offered, accepted, refused, taken) = sent(30);
        assert_eq!((offered, accepted, refused, taken), (30, 30, 0, 30));
    });
}

#[test]
fn a_slow_rate_ends_when_it_is_asked_to() {
    if !ready("a_slow_rate_ends_when_it_is_asked_to") {
        return;
    }
    let lab = network(config("stream-end"));
    let udp = template(Stack { checksum: true, ..Stack::default() });
    at_sender(&lab, || {
        for way in Way::ALL {
            let config = stream_config(way, &udp, Some(1000), 1500);
            let mut stream = Stream::open(&config).unwrap();
            // An hour for each segment.
            stream.pace(1);
            let start = Instant::now();
            stream.end_when(move || start.elapsed() > Duration::from_millis(100));
            assert!(!stream.send(0, 6000).unwrap(), "{way}");
            let (counters, failure) = stream.finish();
            assert!(counters.is_balanced() && counters.offered <= 1, "{way}: {counters:?}");
            assert!(failure.is_none(), "{way}: {failure:?}");
        }
    });
}

#[test]
fn a_queue_that_keeps_what_it_has_is_not_waited_for_without_end() {
    let test = "a_queue_that_keeps_what_it_has_is_not_waited_for_without_end";
    if !ready(test) || !need_tool(test, "tc") {
        return;
    }
    let lab = network(config("stream-shaped"));
    let udp = template(Stack { checksum: true, ..Stack::default() });
    at_sender(&lab, || {
        // A minute for each packet, of which a socket's buffer holds a few.
        tool("tc qdisc add dev tx0 root tbf rate 8kbit burst 2kb limit 10mb");
        let open = || Stream::open(&stream_config(Way::Kernel, &udp, Some(1000), 1500)).unwrap();
        let mut ended = open();
        let start = Instant::now();
        ended.end_when(move || start.elapsed() > Duration::from_millis(100));
        assert!((0..50).any(|_| !ended.send(0, 60_000).unwrap()));
        let (counters, failure) = ended.finish();
        assert!(failure.is_none() && counters.is_balanced(), "{counters:?}, {failure:?}");
        assert_eq!(counters.refused_total(), 0, "what was waited for was not offered");
        let mut unended = open();
        while unended.counters().refused_total() == 0 {
            assert!(unended.send(0, 60_000).unwrap());
            assert!(unended.counters().offered < 50 * 60, "{:?}", unended.counters());
        }
        let (counters, failure) = unended.finish();
        assert!(failure.is_none() && counters.is_balanced(), "{counters:?}, {failure:?}");
        assert_eq!(counters.refused_total(), 60, "one packet");
    });
}
