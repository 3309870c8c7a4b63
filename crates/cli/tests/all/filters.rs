//! Filters on live traffic: what is filtered is counted exactly, what is taken is what was
//! predicted, and `read` says the same of a recording.

use crate::common::*;
use ringside_testkit::need_root;
use std::path::Path;

/// One program a filter: rings that hold all frames of a test are small.
const SMALL: [&str; 4] = ["--kernel-ring-size", "4MiB", "--ring-size", "4MiB"];

const UDP: u8 = 17;
const TCP: u8 = 6;

/// A frame by what filters ask for.
#[derive(Clone, Copy, Debug)]
struct Packet {
    tags: &'static [u16],
    protocol: u8,
    source: [u8; 4],
    source_port: u16,
    port: u16,
    bytes: usize,
}

impl Packet {
    /// Number `number` of a mix in which tags, protocols, ports, hosts and sizes vary alone.
    fn of(number: usize) -> Packet {
        Packet {
            tags: [&[][..], &[7], &[8], &[7, 9], &[]][number % 5],
            protocol: if number.is_multiple_of(3) { TCP } else { UDP },
            source: [10, 0, (number % 7) as u8, (number % 11) as u8 + 1],
            source_port: 1024 + (number % 4000) as u16,
            port: [53, 80, 443, 5060][number / 2 % 4],
            bytes: 64 + number * 37 % 1400,
        }
    }

    fn frame(&self) -> Vec<u8> {
        let mut frame = vec![2, 0x52, 0x53, 0, 0, 0xff, 2, 0x52, 0x53, 0, 0, 0xfe];
        for tag in self.tags {
            frame.extend([0x81, 0x00]);
            frame.extend(tag.to_be_bytes());
        }
        frame.extend([0x08, 0x00]);
        let ip_bytes = (self.bytes - frame.len()) as u16;
        frame.extend([0x45, 0]);
        frame.extend(ip_bytes.to_be_bytes());
        frame.extend([0, 0, 0x40, 0, 64, self.protocol, 0, 0]);
        frame.extend(self.source);
        frame.extend([198, 18, 0, 1]);
        frame.extend(self.source_port.to_be_bytes());
        frame.extend(self.port.to_be_bytes());
        if self.protocol == UDP {
            frame.extend((ip_bytes - 20).to_be_bytes());
        } else {
            frame.extend([0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2]);
        }
        frame.resize(self.bytes, 0);
        frame
    }

    fn is(&self, tags: &[u16], protocol: u8) -> bool {
        self.tags == tags && self.protocol == protocol
    }
}

/// A filter, and what it must mean.
type Case = (&'static str, fn(&Packet) -> bool);

const CASES: [Case; 14] = [
    ("udp port 53", |p| p.is(&[], UDP) && p.port == 53),
    ("tcp dst port 80", |p| p.is(&[], TCP) && p.port == 80),
    ("udp src portrange 2000-2099", |p| p.is(&[], UDP) && (2000..2100).contains(&p.source_port)),
    ("greater 700", |p| p.bytes >= 700),
    ("less 128", |p| p.bytes <= 128),
    ("vlan", |p| !p.tags.is_empty()),
    ("vlan 7", |p| p.tags.first() == Some(&7)),
    ("vlan 7 and udp port 53", |p| p.is(&[7], UDP) && p.port == 53),
    ("vlan 7 and vlan 9 and tcp", |p| p.is(&[7, 9], TCP)),
    ("udp and not vlan", |p| p.is(&[], UDP)),
    ("net 10.0.5.0/24 or host 10.0.2.3", |p| {
        p.tags.is_empty() && (p.source[2] == 5 || p.source == [10, 0, 2, 3])
    }),
    ("(udp port 53 or tcp dst port 80) and not (greater 700 or src net 10.0.3.0/24)", |p| {
        let port = if p.protocol == UDP { 53 } else { 80 };
        p.tags.is_empty() && p.port == port && p.bytes < 700 && p.source[2] != 3
    }),
    ("tcp or (ether[12:2] = 0x8100 and (len > 200 and not ether[14:2] & 0xfff = 8))", |p| {
        let tagged = !p.tags.is_empty() && p.bytes > 200 && p.tags[0] != 8;
        p.is(&[], TCP) || tagged
    }),
    ("ip6", |_| false),
];

fn mix() -> Vec<Packet> {
    (0..2000).map(Packet::of).collect()
}

/// All frames of a file.
fn frames_of(path: &Path) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let notices = for_each_frame(&[path.to_owned()], |frame, _| frames.push(frame.bytes.to_vec()));
    assert!(notices.is_empty(), "{notices:?}");
    frames
}

#[test]
fn filtered_is_exact_and_live_filters_mean_what_read_means() {
    if !need_root("filtered_is_exact_and_live_filters_mean_what_read_means") {
        return;
    }
    let (network, directory) = (Network::up(), tempfile::tempdir().unwrap());
    let packets = mix();
    let frames: Vec<_> = packets.iter().map(Packet::frame).collect();
    let everything = directory.path().join("everything.pcapng");
    let unfiltered =
        network.capture(&[&["-i", "rx0", "-w", arg(&everything)], &SMALL[..]].concat());
    let start = |(number, (filter, _)): (usize, &Case)| {
        let path = directory.path().join(format!("filter-{number}.pcapng"));
        let words = ["-i", "rx0", "-w", arg(&path), filter];
        let running = network.capture(&[&SMALL[..], &words].concat());
        (running, path)
    };
    let running: Vec<_> = CASES.iter().enumerate().map(start).collect();
    let handed = network.replay(&frames).handed;
    assert_eq!(unfiltered.stop().checked_ledger(handed).filtered, Some(0));
    assert!(frames_of(&everything) == frames, "an unfiltered recording differs");

    for ((filter, predicate), (running, path)) in CASES.iter().zip(running) {
        let matching = packets.iter().zip(&frames).filter(|(packet, _)| predicate(packet));
        let expected: Vec<&Vec<u8>> = matching.map(|(_, frame)| frame).collect();
        let count = expected.len() as u64;
        let ledger = running.stop().checked_ledger(handed);
        assert_eq!((ledger.taken, ledger.filtered), (count, Some(handed - count)), "{filter}");
        assert_eq!(ledger.lost(), 0, "{filter}");
        assert!(frames_of(&path).iter().eq(expected), "{filter}: other frames were taken");

        let read = run_ringside(&["read", "-r", arg(&everything), "--json", filter]);
        assert_eq!(read.json_lines().len() as u64, count, "{filter}");
        assert_eq!(read.code(), Some(i32::from(count == 0)), "{filter}: {}", read.stderr);
    }
}

#[test]
fn filtered_is_exact_in_several_lanes() {
    if !need_root("filtered_is_exact_in_several_lanes") {
        return;
    }
    let network = Network::up();
    let filter = "udp and less 700";
    let running = network.capture(&[&SMALL[..], &["-i", "rx0", "--queues", "3", filter]].concat());
    let packets = mix();
    let frames: Vec<_> = packets.iter().map(Packet::frame).collect();
    let handed = network.replay(&frames).handed;
    let ledger = running.stop().checked_ledger(handed);
    let expected = packets.iter().filter(|p| p.is(&[], UDP) && p.bytes <= 700).count() as u64;
    assert_eq!((ledger.taken, ledger.filtered), (expected, Some(handed - expected)));
    for lane in &ledger.lanes {
        assert!(lane.taken > 0 && lane.filtered > Some(0), "{ledger:#?}");
    }
}

#[test]
fn a_wrong_filter_is_refused_before_anything_is_made() {
    if !need_root("a_wrong_filter_is_refused_before_anything_is_made") {
        return;
    }
    let (network, directory) = (Network::up(), tempfile::tempdir().unwrap());
    let path = |name: &str| directory.path().join(name);
    let source = path("source.pcapng");
    let running = network.capture(&["-i", "rx0", "-w", arg(&source)]);
    network.replay(&[Packet::of(0).frame()]);
    running.stop().checked_ledger(1);

    for (filter, reason) in [
        ("udp prot 53", "syntax error"),
        ("host 10.0.0.300", "10.0.0.300"),
        ("tcp and (port 80", "syntax error"),
        ("port 70000", "port"),
        ("inbound", "--direction"),
    ] {
        for output in [path("recording"), path("out.pcapng"), path("out.pcap")] {
            let words =
                ["capture", "--netns", network.receiver(), "-Qin", "-i", "rx0", "-w", arg(&output)];
            let read = ["read", "-r", arg(&source), "-w", arg(&output)];
            for words in [&words[..], &read] {
                let refused = run_ringside(&[words, &[filter]].concat());
                assert_eq!(refused.code(), Some(2), "{refused:?}");
                assert!(refused.stderr.contains(&format!("'{filter}'")), "{}", refused.stderr);
                assert!(refused.stderr.contains(reason), "{filter}: {}", refused.stderr);
                assert!(!refused.stderr.contains("listening on"), "{}", refused.stderr);
                assert!(!output.exists(), "{words:?} {filter} made {}", output.display());
            }
        }
    }
    // Also where there is nothing that it could be applied to.
    let empty = path("empty.pcapng");
    let copy = run_ringside(&["read", "-r", arg(&source), "-w", arg(&empty), "ip6"]);
    assert_eq!(copy.code(), Some(1), "{copy:?}");
    let refused = run_ringside(&["read", "-r", arg(&empty), "udp prot 53"]);
    assert_eq!(refused.code(), Some(2), "{refused:?}");
}

/// 1,000 `host` terms: compiled or refused in bounded time; compiled, they match.
#[test]
fn a_thousand_terms_are_compiled_or_refused_in_bounded_time() {
    if !need_root("a_thousand_terms_are_compiled_or_refused_in_bounded_time") {
        return;
    }
    let (network, directory) = (Network::up(), tempfile::tempdir().unwrap());
    let everything = directory.path().join("everything.pcapng");
    let packets: Vec<Packet> = mix().into_iter().take(770).collect();
    let frames: Vec<_> = packets.iter().map(Packet::frame).collect();
    // One of them sent some of the frames.
    let host = |n: u32| format!("host 172.16.{}.{}", n / 250, n % 250 + 1);
    let mut terms: Vec<String> = (0..1000).map(host).collect();
    terms[617] = "host 10.0.2.3".into();
    let filter = terms.join(" or ");
    let hits = packets.iter().filter(|p| p.tags.is_empty() && p.source == [10, 0, 2, 3]).count();
    assert!(hits > 0);

    let unfiltered = network.capture(&["-i", "rx0", "-w", arg(&everything)]);
    let mut command = network.capture_command();
    command.args(["--json", "--count", "-i", "rx0", &filter]);
    let running = Running::start(command);
    // How long that may take is the compiler's own limit.
    wait_until("an answer to 1,000 terms", || {
        let said = running.stderr_so_far();
        said.contains("listening on") || said.contains("instructions, ") || said.contains("within")
    });
    let compiled = running.stderr_so_far().contains("listening on");
    let handed = network.replay(&frames).handed;
    unfiltered.stop().checked_ledger(handed);
    if compiled {
        let ledger = running.stop().checked_ledger(handed);
        assert_eq!((ledger.taken, ledger.filtered), (hits as u64, Some(handed - hits as u64)));
    } else {
        let refused = running.finish();
        assert_eq!(refused.code(), Some(2), "{}", refused.stderr);
        assert!(refused.stderr.contains("instead of single hosts"), "{}", refused.stderr);
    }

    let read = run_ringside(&["read", "-r", arg(&everything), "--json", &filter]);
    if read.code() == Some(0) {
        assert_eq!(read.json_lines().len(), hits);
    } else {
        assert_eq!(read.code(), Some(2), "{}", read.stderr);
        assert!(read.stderr.contains("instead of single hosts"), "{}", read.stderr);
    }
}

/// The filter sees whole frames, tags in place; what is kept is cut after it.
#[test]
fn a_snapshot_length_does_not_change_what_matches() {
    if !need_root("a_snapshot_length_does_not_change_what_matches") {
        return;
    }
    let (network, directory) = (Network::up(), tempfile::tempdir().unwrap());
    let packets = mix();
    let frames: Vec<_> = packets.iter().map(Packet::frame).collect();
    let cases: [(usize, Case); 4] = [
        (20, ("vlan 7 and udp port 53", |p| p.is(&[7], UDP) && p.port == 53)),
        (17, ("vlan and greater 700", |p| !p.tags.is_empty() && p.bytes >= 700)),
        (1, ("tcp dst port 80", |p| p.is(&[], TCP) && p.port == 80)),
        (60, ("", |_| true)),
    ];
    let start = |&(snaplen, (filter, _)): &(usize, Case)| {
        let path = directory.path().join(format!("cut-{snaplen}.pcapng"));
        let length = snaplen.to_string();
        let words = ["-i", "rx0", "-s", &length, "-w", arg(&path), filter];
        (network.capture(&[&SMALL[..], &words].concat()), path)
    };
    let running: Vec<_> = cases.iter().map(start).collect();
    let handed = network.replay(&frames).handed;
    for ((snaplen, (filter, predicate)), (running, path)) in cases.iter().zip(running) {
        let ledger = running.stop().checked_ledger(handed);
        let matching = packets.iter().zip(&frames).filter(|(packet, _)| predicate(packet));
        let expected: Vec<&Vec<u8>> = matching.map(|(_, frame)| frame).collect();
        assert_eq!(ledger.taken, expected.len() as u64, "{filter:?}, snaplen {snaplen}");
        let mut next = expected.iter();
        for_each_frame(&[path], |frame, _| {
            let whole = next.next().unwrap();
            assert_eq!(frame.meta.wire_bytes as usize, whole.len(), "{filter:?}");
            assert_eq!(frame.bytes, &whole[..*snaplen], "{filter:?}, snaplen {snaplen}");
        });
        assert!(next.next().is_none(), "{filter:?}, snaplen {snaplen}");
    }
}
