//! Media that the kernel counts: the same records as from all packets seen, whatever comes, and
//! no packet in two places or in none.

use crate::support::{INVITE, START, Traffic, datagram, message, rtp, sdp, see};
use ringside_calls::{Call, CallsLedger, CallsObserver, KernelMedia, KernelStatus, Options, text};
use ringside_core::{FrameMeta, LaneId, LinkType, Source, Timestamp};
use ringside_ebpf::rtp::RtpMeter;
use ringside_inspect::{DissectedFrame, Observer, Pump, Received};
use ringside_logs::{Log, RecordFormat, RecordLines, RecordSink, Watched};
use ringside_proto::rtp as rtp_of;
use ringside_record::Names;
use ringside_testkit::{Random, by_run, capture_files, need_root};
use ringside_wire::Level;
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What is written, to be looked at.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// An observer, and the program in front of it if there is one.
struct Finder {
    observer: CallsObserver<'static>,
    written: Written,
    seen: u64,
}

impl Finder {
    fn new(kernel: Option<KernelMedia>) -> Finder {
        let written = Written::default();
        let lines = RecordLines::new(RecordFormat::Json, Names::Ringside, text);
        let log = Log::to_stream(written.clone(), Box::new(lines));
        let sink: Box<dyn RecordSink<Call>> = Box::new(log);
        let options = Options { kernel, ..Options::default() };
        let mut observer = CallsObserver::new(options, vec![("json".into(), sink)]);
        observer.tick(Timestamp(1));
        Finder { observer, written, seen: 0 }
    }

    fn with_kernel(rules: u32) -> Finder {
        Finder::new(Some(KernelMedia::new(vec![RtpMeter::unattached(rules).unwrap()], 0)))
    }

    /// Shows a frame, unless the program counts it.
    fn show(&mut self, bytes: &[u8], stamp: u64) {
        if !self.is_counted(bytes, stamp) {
            self.seen += 1;
            see(&mut self.observer, bytes, stamp);
        }
    }

    fn is_counted(&self, bytes: &[u8], stamp: u64) -> bool {
        // The kernel's test run takes no frame that is shorter or longer.
        let is_runnable = (14..3_500).contains(&bytes.len());
        let Some(kernel) = self.observer.kernel().filter(|_| is_runnable) else { return false };
        let [meter] = kernel.meters() else { panic!("one meter") };
        meter.table().set_test_time(stamp);
        meter.test_run(bytes).unwrap()
    }

    fn status(&self) -> KernelStatus {
        self.observer.status(false).kernel.unwrap()
    }

    /// The records without what the kernel has no part of, and the account. Where it counts, what
    /// RTCP said before the first packet of a stream is taken too.
    fn finish(mut self) -> (Vec<Value>, CallsLedger) {
        self.observer.finish();
        assert!(self.observer.balances(), "{:?}", self.observer.status(true));
        let written = self.written.0.lock().unwrap();
        let lines = std::str::from_utf8(&written).unwrap().lines();
        let mut records: Vec<Value> =
            lines.map(|line| serde_json::from_str(line).unwrap()).collect();
        for record in &mut records {
            for stream in record["streams"].as_array_mut().into_iter().flatten() {
                for name in ["clock_drift_ppm", "dtmf", "rtcp"] {
                    stream[name] = Value::Null;
                }
                for name in ["delay_ms", "r_cq", "mos_cq"] {
                    stream["quality"].as_object_mut().map(|quality| quality.remove(name));
                }
            }
        }
        (records, self.observer.ledger().clone())
    }
}

fn streams(call: &Value) -> impl Iterator<Item = &Value> {
    call["streams"].as_array().into_iter().flatten()
}

/// Shows frames to an observer that sees all, and to one behind the program. Returns how many
/// packets the program counted.
fn both(frames: &[(u64, Vec<u8>)]) -> u64 {
    let (mut all, mut behind) = (Finder::new(None), Finder::with_kernel(1 << 10));
    for (stamp, bytes) in frames {
        all.show(bytes, *stamp);
        behind.show(bytes, *stamp);
    }
    let status = behind.status();
    let sum = status.counted + status.other + status.no_room + status.busy + status.stalled;
    assert_eq!((status.frames, status.busy, status.stalled), (sum, 0, 0));
    assert_eq!(status.counted + behind.seen, frames.len() as u64);
    let ((theirs, _), (ours, ledger)) = (all.finish(), behind.finish());
    assert_eq!(ledger.rtp_in_kernel, status.counted);
    assert_eq!(ours.len(), theirs.len());
    for (ours, theirs) in ours.iter().zip(&theirs) {
        for (ours, theirs) in streams(ours).zip(streams(theirs)) {
            assert_eq!(ours, theirs);
        }
        assert_eq!(ours, theirs);
    }
    status.counted
}

/// What goes where RTP may be, and all frames.
#[derive(Default)]
struct Frames {
    all: Vec<(u64, Vec<u8>)>,
    ends: BTreeSet<(IpAddr, u16)>,
}

impl Observer for Frames {
    fn see(&mut self, frame: &DissectedFrame<'_>, received: &Received<'_>) {
        let FrameMeta { timestamp, wire_bytes, .. } = *received.meta;
        let is_whole = wire_bytes as usize == frame.bytes().len();
        if received.interface.link_type != LinkType::ETHERNET || !is_whole {
            return;
        }
        self.all.push((timestamp.0, frame.bytes().to_vec()));
        let Some(tuple) = frame.tuple(Level::Inner) else { return };
        let (Some((_, to)), Some(payload)) = (tuple.ports, frame.payload(Level::Inner)) else {
            return;
        };
        if rtp_of::parse(payload, payload.len()).found().is_some() {
            self.ends.insert((tuple.destination, to.0));
        }
    }
}

/// Calls that announce these ends, 20 each.
fn announcements(ends: &BTreeSet<(IpAddr, u16)>, at: u64) -> Vec<(u64, Vec<u8>)> {
    let ends: Vec<_> = ends.iter().filter(|(_, port)| *port != 0).collect();
    let call = |(number, ends): (usize, &[&(IpAddr, u16)])| {
        let mut body = "v=0\r\no=- 1 1 IN IP4 0\r\ns=-\r\nt=0 0\r\n".to_owned();
        for (address, port) in ends {
            let kind = if address.is_ipv6() { "IP6" } else { "IP4" };
            body += &format!(
                "m=audio {port} RTP/AVP 0 8 101 97\r\nc=IN {kind} {address}\r\n\
                 a=rtpmap:101 telephone-event/8000\r\na=rtpmap:97 opus/48000\r\n"
            );
        }
        let invite = message(INVITE, &format!("c{number}"), "1 INVITE", "", &body);
        (at, datagram((1, 5060), (2, 5060), invite.as_bytes()))
    };
    ends.chunks(20).enumerate().map(call).collect()
}

fn frames_of(path: &Path) -> Vec<(u64, Vec<u8>)> {
    let Ok(mut source) = ringside_store::open(&[path.to_owned()]) else { return Vec::new() };
    let mut frames = Frames::default();
    let pump = Pump::new(vec![Box::new(&mut frames as &mut dyn Observer)]);
    let source: &mut dyn Source = &mut *source;
    pump.run(source, LaneId(0), &|| false);
    let Some((first, _)) = frames.all.first() else { return Vec::new() };
    let mut out = announcements(&frames.ends, *first);
    out.append(&mut frames.all);
    out
}

#[test]
fn real_media_give_the_same_records() {
    let test = "real_media_give_the_same_records";
    if !need_root(test) {
        return;
    }
    // Headers that contradict themselves are read in user space, and cut a stream in two.
    let is_damaged = |path: &Path| path.to_string_lossy().contains("fuzz");
    let is_voip = |path: &Path| path.parent().is_some_and(|at| at.ends_with("voip"));
    let is_taken = |path: &Path| !is_damaged(path) && by_run(is_voip(path), true);
    let (mut counted, mut files) = (0, 0);
    for path in capture_files(test).into_iter().filter(|path| is_taken(path)) {
        let frames = frames_of(&path);
        let here = both(&frames);
        counted += here;
        files += u32::from(here > 0);
    }
    eprintln!("{test}: {counted} packets of {files} files counted in the kernel");
    assert!(counted > 5_000);
}

/// Numbers, timestamps and times that go astray in all ways, headers with everything in them, and
/// such that contradict themselves.
fn wild(random: &mut Random, packets: usize) -> Vec<(u64, Vec<u8>)> {
    let mut traffic = Traffic::new();
    let body = format!("{}a=rtpmap:97 opus/48000\r\n", sdp(1, 4000).replace("0 101", "0 101 97"));
    traffic.say(false, &message(INVITE, "c", "1 INVITE", "", &body));
    traffic.say(true, &message("SIP/2.0 200 OK", "c", "1 INVITE", "b", &sdp(2, 6000)));
    let (mut number, mut timestamp) = (random.next_u64() as u16, random.next_u64() as u32);
    for _ in 0..packets {
        traffic.now += random.below(40) as u64 * 1_000_000;
        if random.below(500) == 0 {
            traffic.now = traffic.now.wrapping_sub(random.below(3_000_000_000) as u64);
        }
        let step = match random.below(40) {
            0 => random.below(8_000) as u16,
            1 => (random.below(150) as u16).wrapping_neg(),
            2 => 0,
            3 => random.below(200) as u16,
            _ => 1,
        };
        number = number.wrapping_add(step);
        timestamp = match random.below(60) {
            0 => random.next_u64() as u32,
            1 => timestamp.wrapping_sub(random.below(1_000) as u32),
            2 => timestamp.wrapping_add(1 << 30),
            _ => timestamp.wrapping_add(160),
        };
        let ssrc = if random.below(300) == 0 { random.below(4) as u32 } else { 7 };
        let mut packet = rtp(number, ssrc);
        packet[4..8].copy_from_slice(&timestamp.to_be_bytes());
        if random.below(8) == 0 {
            packet[0] = 0x80 | random.below(64) as u8;
            packet[1] = [0, 13, 101, 97, 128, 8, 99][random.below(7)];
            let bytes = 12 + random.below(160);
            packet.truncate(bytes);
            (random.below(2) == 0).then(|| packet[12..].fill(0));
        }
        let (from, to) = [((1, 4000), (2, 6000)), ((9, 99), (2, 6000)), ((2, 6000), (9, 99))]
            [if random.below(50) == 0 { random.below(3) } else { 0 }];
        traffic.put(from, to, &packet);
    }
    traffic.say(false, &message("BYE sip:bob@b SIP/2.0", "c", "2 BYE", "b", ""));
    traffic.frames
}

#[test]
fn wild_media_give_the_same_records() {
    if !need_root("wild_media_give_the_same_records") {
        return;
    }
    let mut random = Random::new(26);
    for _ in 0..by_run(3, 100) {
        let counted = both(&wild(&mut random, 3_000));
        assert!(counted > 2_000, "{counted}");
    }
}

/// A call of this number, whose parties are at ports of their own.
fn call(number: usize) -> [Vec<u8>; 3] {
    let port = 1_024 + 4 * (number % 15_000) as u16;
    let (here, there) = (10 + (number / 15_000) as u8, 20 + (number / 15_000) as u8);
    let id = format!("call{number}");
    let say = |is_back: bool, text: String| {
        let (from, to) = if is_back { (2, 1) } else { (1, 2) };
        datagram((from, 5060), (to, 5060), text.as_bytes())
    };
    [
        say(false, message(INVITE, &id, "1 INVITE", "", &sdp(here, port))),
        say(true, message("SIP/2.0 200 OK", &id, "1 INVITE", "b", &sdp(there, port))),
        datagram((here, port), (there, port), &rtp(1, number as u32)),
    ]
}

/// Two rules come with each call, and go with it.
#[test]
fn rules_come_and_go_with_calls() {
    if !need_root("rules_come_and_go_with_calls") {
        return;
    }
    let calls = by_run(1_000, 20_000);
    let mut finder = Finder::with_kernel(1 << 16);
    let mut at = START;
    for number in 0..calls {
        at += 1_000;
        call(number).iter().for_each(|frame| finder.show(frame, at));
    }
    let status = finder.status();
    let refused = status.refused as usize;
    assert_eq!(status.rules, 2 * calls - refused, "{status:?}");
    // Of two endpoints with one hash the second has no rule.
    assert!(refused <= calls / 500 + 2, "{status:?}");
    eprintln!("{status:?}");
    for number in 0..calls {
        let bye = message("BYE sip:bob@b SIP/2.0", &format!("call{number}"), "2 BYE", "b", "");
        finder.show(&datagram((1, 5060), (2, 5060), bye.as_bytes()), at);
    }
    finder.observer.tick(Timestamp(at + 6_000_000_000));
    assert_eq!(finder.status().rules, 0);
    let (records, ledger) = finder.finish();
    assert_eq!((records.len(), ledger.begun), (calls, calls as u64));
    assert!(records.iter().all(|record| record["streams"][0]["packets"] == 1));
}

/// Packets before the rule are seen, those behind it counted: together they are the stream.
#[test]
fn what_came_before_the_rule_is_added() {
    if !need_root("what_came_before_the_rule_is_added") {
        return;
    }
    let mut finder = Finder::with_kernel(64);
    let [invite, answer, _] = call(0);
    finder.show(&invite, START);
    finder.show(&answer, START);
    for number in 0..100u16 {
        if [5, 49, 50, 70].contains(&number) {
            continue;
        }
        let packet = datagram((10, 1024), (20, 1024), &rtp(number, 7));
        let stamp = START + u64::from(number) * 20_000_000;
        // The rule was not yet in force for the first fifty.
        if number < 50 {
            see(&mut finder.observer, &packet, stamp);
        } else {
            finder.show(&packet, stamp);
        }
    }
    let status = finder.status();
    assert_eq!(status.counted, 48, "{status:?}");
    let (records, _) = finder.finish();
    let stream = &records[0]["streams"][0];
    let numbers = ["packets", "expected", "lost", "duplicates", "jitter_max_ns"];
    assert_eq!(numbers.map(|name| stream[name].as_u64().unwrap()), [96, 100, 4, 0, 0], "{stream}");
    let percent = stream["quality"]["loss_percent"].as_f64().unwrap();
    assert_eq!((percent, records[0]["streams"].as_array().unwrap().len()), (4.0, 1));
}

/// Two CPUs count packets of one rule at the same time, and it goes and comes again.
#[test]
fn no_packet_is_lost_between_cpus() {
    if !need_root("no_packet_is_lost_between_cpus") {
        return;
    }
    let mut meter = RtpMeter::unattached(16).unwrap();
    meter.table().keep_alive_until(u64::MAX);
    let end = (IpAddr::from([10, 0, 0, 2]), 6000);
    let frames = [7, 8].map(|ssrc| datagram((1, 4000), (2, 6000), &rtp(1, ssrc)));
    let mut counted = 0;
    for _ in 0..by_run(20, 1_000) {
        let rule = meter.table_mut().add(end, &[0; 128]).unwrap();
        let shared = &meter;
        std::thread::scope(|scope| {
            for frame in &frames {
                scope
                    .spawn(move || (0..200).for_each(|_| assert!(shared.test_run(frame).unwrap())));
            }
        });
        let streams = meter.table_mut().close(rule);
        let packets: Vec<u64> = streams.iter().map(|stream| stream.packets).collect();
        assert_eq!(packets, [200, 200]);
        counted += 400;
        assert!(!meter.test_run(&frames[0]).unwrap(), "a rule that went counts nothing");
    }
    assert_eq!(meter.table().counts().counted, counted);
}

/// Where no process reads the counters any more media go on.
#[test]
fn a_dead_reader_costs_no_media() {
    if !need_root("a_dead_reader_costs_no_media") {
        return;
    }
    let mut meter = RtpMeter::unattached(16).unwrap();
    meter.table_mut().add((IpAddr::from([10, 0, 0, 2]), 6000), &[0; 128]).unwrap();
    let frame = datagram((1, 4000), (2, 6000), &rtp(1, 7));
    assert!(!meter.test_run(&frame).unwrap());
    let now_ns = ringside_sys::clock::monotonic_ns();
    meter.table().keep_alive_until(now_ns + Duration::from_secs(3_600).as_nanos() as u64);
    assert!(meter.test_run(&frame).unwrap());
    let counts = meter.table().counts();
    assert_eq!((counts.stalled, counts.counted), (1, 1));
}
