//! `ringside send -r`: what a capture holds arrives at the far end, in order and byte by byte, or
//! is refused with its cause.

use crate::common::folder::Folder;
use crate::common::*;
use ringside_core::{Frame, LinkType, SourceInterface};
use ringside_lab::{LabConfig, Napi};
use ringside_testkit::{by_run, capture_files, capture_sample, need_root, need_tool};
use rustix::process::Signal;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Longest capture that is replayed as fast as it was recorded, in a short run and in a long one.
const WHOLE_NS_MAX: u64 = 2_000_000_000;
const WHOLE_NS_MAX_OF_ALL: u64 = 30_000_000_000;
/// Longest replay of the others, whose gaps are shortened for it.
const SHORTENED_NS: u64 = 100_000_000;
/// Where gaps begin to be shortened.
const GAP_NS: u64 = 10_000_000;
/// A ring that rides out stalls of a busy machine.
const PATIENT: [&str; 4] = ["--kernel-ring-size", "64MiB", "--ring-size", "128MiB"];

/// `ringside send --netns SENDER -i tx0 --json ARGS`.
fn send_command(network: &Network, args: &[&str]) -> Command {
    let mut command = Command::new("env");
    command.arg("--default-signal=INT").arg(ringside());
    command.args(["send", "--netns", network.sender(), "-i", "tx0", "--json"]).args(args);
    command
}

fn send(network: &Network, args: &[&str]) -> Outcome {
    Running::start(send_command(network, args)).finish()
}

/// The account, which must balance.
fn account(outcome: &Outcome) -> Value {
    let lines = outcome.json_lines();
    let sent = lines.last().unwrap_or_else(|| panic!("no account: {outcome:?}"))["sent"].clone();
    let sum = |of: &Value| {
        let numbers = of.as_object().unwrap().iter().filter(|(name, _)| *name != "longest_bytes");
        numbers.map(|(_, count)| count.as_u64().unwrap_or(0)).sum::<u64>()
    };
    let links = sum(&sent["skipped"]["link_types"]);
    let before = number(&sent, "outside_range") + number(&sent, "filtered") + links;
    let before = before + sum(&sent["skipped"]) + number(&sent, "not_sent");
    assert_eq!(number(&sent, "read"), before + number(&sent, "offered"), "{sent}");
    let refused = sum(&sent["refused"]);
    assert_eq!(number(&sent, "offered"), number(&sent, "accepted") + refused, "{sent}");
    sent
}

fn number(object: &Value, name: &str) -> u64 {
    object[name].as_u64().unwrap_or_else(|| panic!("no {name} in {object}"))
}

/// A capture as it was recorded.
struct Recorded {
    path: PathBuf,
    stamps: Vec<u64>,
    frames: Vec<Vec<u8>>,
    /// Why it cannot be sent, in a word of the refusal.
    refusal: Option<&'static str>,
    is_damaged: bool,
}

fn refusal(frame: &Frame<'_>, interface: &SourceInterface) -> Option<&'static str> {
    let tag = if frame.bytes.get(12..14) == Some(&[0x81, 0]) { 4 } else { 0 };
    if interface.link_type != LinkType::ETHERNET {
        Some("is not Ethernet")
    } else if frame.bytes.len() < 14 {
        Some("shorter than")
    } else if frame.bytes.len() < frame.meta.wire_bytes as usize {
        Some("cut short")
    } else {
        (frame.bytes.len() > 1514 + tag).then_some("longer than tx0 takes")
    }
}

/// Reads a capture; `None` if it is no capture at all.
fn recorded(path: &Path) -> Option<Recorded> {
    let (mut stamps, mut frames, mut refused) = (Vec::new(), Vec::new(), None);
    let mut source = ringside_store::open(&[path.to_owned()]).ok()?;
    let mut is_damaged = false;
    while !source.is_finished() {
        match source.next_batch(WAIT_MAX) {
            Ok(Some(batch)) => batch.iter().for_each(|frame| {
                let interface = &batch.interfaces()[frame.meta.interface.0 as usize];
                refused = refused.or(refusal(&frame, interface));
                stamps.push(frame.meta.timestamp.0);
                frames.push(frame.bytes.to_vec());
            }),
            Ok(None) => {}
            Err(_) => is_damaged = true,
        }
    }
    Some(Recorded { path: path.to_owned(), stamps, frames, refusal: refused, is_damaged })
}

impl Recorded {
    /// Options that replay it in bounded time.
    fn timing(&self) -> Vec<String> {
        let gaps: Vec<u64> = self.stamps.windows(2).map(|p| p[1].saturating_sub(p[0])).collect();
        let limit = by_run(WHOLE_NS_MAX, WHOLE_NS_MAX_OF_ALL);
        if gaps.iter().fold(0u64, |sum, gap| sum.saturating_add(*gap)) <= limit {
            return Vec::new();
        }
        let mut gap_ns = GAP_NS;
        while gaps.iter().map(|gap| gap.min(&gap_ns)).sum::<u64>() > SHORTENED_NS {
            gap_ns /= 2;
        }
        vec!["--max-gap".into(), format!("{:.9}", gap_ns as f64 / 1e9)]
    }
}

#[test]
fn real_captures_arrive_as_they_are_or_are_refused_by_name() {
    let test = "real_captures_arrive_as_they_are_or_are_refused_by_name";
    let files = capture_files(test);
    if files.is_empty() || !need_root(test) {
        return;
    }
    let (network, folder) = (Network::up(), Folder::new());
    let file = folder.path("received.pcapng");
    let running = network.capture(&[&["-i", "rx0", "-w", arg(&file)], &PATIENT[..]].concat());
    let (mut expected, mut refused, mut errors) = (Vec::new(), 0, Vec::new());
    // Of every folder some; `transmit` replays all of them into memory.
    let chosen = files.iter().step_by(by_run(12, 1));
    for capture in chosen.filter_map(|path| recorded(path)) {
        let timing = capture.timing();
        let mut args = vec!["-r", arg(&capture.path)];
        args.extend(timing.iter().map(String::as_str));
        let outcome = send(&network, &args);
        if let Some(cause) = capture.refusal {
            assert_eq!(outcome.code(), Some(2), "{args:?}: {outcome:?}");
            let said = &outcome.stderr;
            assert!(said.contains(cause) && outcome.stdout.is_empty(), "{args:?}: {said}");
            refused += 1;
            continue;
        }
        let sent = account(&outcome);
        let status = if capture.is_damaged { 2 } else { i32::from(capture.frames.is_empty()) };
        assert_eq!(outcome.code(), Some(status), "{args:?}: {outcome:?}");
        assert_eq!(number(&sent, "accepted"), capture.frames.len() as u64, "{args:?}: {sent}");
        assert_eq!(sent["interface"]["tx_packets"], sent["accepted"], "{args:?}: {sent}");
        errors.push(number(&sent["timing"], "p99_ns"));
        expected.push((timing.is_empty(), capture));
    }
    let count: usize = expected.iter().map(|(_, capture)| capture.frames.len()).sum();
    running.stop().checked_ledger(count as u64);
    compare(&file, &expected);
    errors.sort_unstable();
    let p99 = errors.get(errors.len() / 2).copied().unwrap_or(0) / 1000;
    eprintln!("{} captures sent, {refused} refused; p99 of a middle one: {p99} us", expected.len());
    assert!(
        expected.len() > by_run(10, 200) && refused > by_run(0, 10),
        "{} {refused}",
        expected.len()
    );
}

/// What was received is what was sent, in order; reports how gaps differ, by the kernel's stamps.
fn compare(received: &Path, expected: &[(bool, Recorded)]) {
    let mut frames = Vec::new();
    for_each_frame(&[received.to_owned()], |frame, _| {
        frames.push((frame.meta.timestamp.0, frame.bytes.to_vec()));
    });
    let mut received = frames.iter();
    let mut differences = Vec::new();
    for (is_as_recorded, capture) in expected {
        let (mut last, mut last_stamp) = (None, 0);
        for (index, frame) in capture.frames.iter().enumerate() {
            let (stamp, bytes) = received.next().expect("as many frames as were counted");
            assert!(bytes == frame, "frame {} of {}", index + 1, capture.path.display());
            let wanted = capture.stamps[index].checked_sub(last_stamp);
            if let (true, Some(last), Some(wanted)) = (is_as_recorded, last, wanted) {
                differences.push(stamp.saturating_sub(last).abs_diff(wanted));
            }
            (last, last_stamp) = (Some(*stamp), capture.stamps[index]);
        }
    }
    assert!(received.next().is_none());
    differences.sort_unstable();
    let part = |of: f64| {
        let index = (differences.len().saturating_sub(1) as f64 * of) as usize;
        differences.get(index).copied().unwrap_or(0) as f64 / 1e3
    };
    eprintln!(
        "{} gaps at the far end differ by p50 {:.1} us, p99 {:.1} us, at most {:.1} us",
        differences.len(),
        part(0.5),
        part(0.99),
        part(1.0)
    );
}

/// Captures with addresses that are left: of a tunnel that is not looked into (VXLAN-GPE), and of
/// source routes of IPv4, whose end tshark shows as the destination.
const LEFT: [&str; 2] = ["arkime-gre-erspan-vxlan.pcap", "pcpp-ipv4-options.pcap"];

/// What tshark says of a file: addresses of every IP header, and how it finds the checksums.
fn tshark(path: &Path) -> Vec<Vec<String>> {
    let fields = ["vlan.id", "ieee8021ad.id", "ip.src", "ip.dst", "ipv6.src", "ipv6.dst"];
    let checks =
        ["ip", "tcp", "udp", "icmp", "icmpv6"].map(|name| format!("{name}.checksum.status"));
    let mut args = vec!["-n", "-r", arg(path), "-T", "fields", "-E", "occurrence=a"];
    for option in [
        "ip.check_checksum:TRUE",
        "tcp.check_checksum:TRUE",
        "udp.check_checksum:TRUE",
        "ip.defragment:FALSE",
        "ipv6.defragment:FALSE",
        "tcp.desegment_tcp_streams:FALSE",
    ] {
        args.extend(["-o", option]);
    }
    for field in fields.into_iter().chain(checks.iter().map(String::as_str)) {
        args.extend(["-e", field]);
    }
    let lines = run("tshark", &args).text();
    lines.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

/// The map of the test below, for one field: `0.0.0.0/1=128.0.0.0/1` and `::/1=8000::/1`.
fn mapped(addresses: &str) -> String {
    let one = |address: &str| match address.parse().unwrap() {
        std::net::IpAddr::V4(v4) => std::net::Ipv4Addr::from(u32::from(v4) ^ 1 << 31).to_string(),
        std::net::IpAddr::V6(v6) => std::net::Ipv6Addr::from(u128::from(v6) ^ 1 << 127).to_string(),
    };
    addresses.split(',').filter(|a| !a.is_empty()).map(one).collect::<Vec<_>>().join(",")
}

/// A field's addresses in one spelling.
fn spelled(addresses: &str) -> String {
    let one = |address: &str| address.parse::<std::net::IpAddr>().unwrap().to_string();
    addresses.split(',').filter(|a| !a.is_empty()).map(one).collect::<Vec<_>>().join(",")
}

#[test]
fn tshark_finds_rewritten_frames_as_right_as_they_were() {
    let test = "tshark_finds_rewritten_frames_as_right_as_they_were";
    let files = capture_sample(test, 3);
    if files.is_empty() || !need_root(test) || !need_tool(test, "tshark") {
        return;
    }
    let (network, folder) = (Network::up(), Folder::new());
    let file = folder.path("received.pcapng");
    let running = network.capture(&[&["-i", "rx0", "-w", arg(&file)], &PATIENT[..]].concat());
    let mut original = Vec::new();
    let is_of =
        |path: &PathBuf| ["ip", "encap"].iter().any(|dir| path.parent().unwrap().ends_with(dir));
    for path in files.iter().filter(|path| is_of(path)) {
        let Some(capture) = recorded(path).filter(|capture| {
            capture.refusal.is_none() && !capture.is_damaged && !capture.frames.is_empty()
        }) else {
            continue;
        };
        let outcome = send(
            &network,
            &[
                "-r",
                arg(path),
                "--max-gap",
                "0.0001",
                "--vlan",
                "7",
                "--mac-src",
                "2:0:0:0:0:5",
                "--address-map",
                "0.0.0.0/1=128.0.0.0/1",
                "--address-map",
                "::/1=8000::/1",
            ],
        );
        assert_eq!(outcome.code(), Some(0), "{}: {outcome:?}", path.display());
        assert_eq!(number(&account(&outcome), "accepted"), capture.frames.len() as u64);
        let lines = tshark(path);
        assert_eq!(lines.len(), capture.frames.len());
        original.extend(lines.into_iter().map(|line| (path, line)));
    }
    running.stop().checked_ledger(original.len() as u64);
    let received = tshark(&file);
    assert_eq!(received.len(), original.len());
    let mut right = 0;
    for (index, (now, (path, before))) in received.iter().zip(&original).enumerate() {
        let context = format!("frame {index}, of {}: {before:?} {now:?}", path.display());
        // A service tag stays one, and has a field of its own.
        assert!(now[..2].iter().any(|ids| ids.split(',').next() == Some("7")), "{context}");
        if LEFT.iter().any(|name| path.ends_with(name)) {
            continue;
        }
        for (now, before) in now[2..6].iter().zip(&before[2..6]) {
            assert_eq!(spelled(now), mapped(before), "{context}");
        }
        assert_eq!(now[6..], before[6..], "{context}");
        right += now[6..].iter().filter(|status| status.contains('1')).count();
    }
    eprintln!("{} frames, {right} fields of right checksums", received.len());
    assert!(right > by_run(200, 1_000), "{right}");
}

/// A pcap file of numbered frames, a millisecond apart, each `captured` of `wire` bytes.
fn numbered(count: u32, captured: u32, wire: u32) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_3c4d, 4 << 16 | 2, 0, 0, 65_535, 1] {
        file.extend_from_slice(&u32::to_le_bytes(word));
    }
    for number in 0..count {
        for word in [1_000 + number / 1_000, number % 1_000 * 1_000_000, captured, wire] {
            file.extend_from_slice(&word.to_le_bytes());
        }
        let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 0x88, 0xb5];
        frame.extend_from_slice(&number.to_be_bytes());
        frame.resize(captured as usize, 0);
        file.extend_from_slice(&frame);
    }
    file
}

#[test]
fn what_is_chosen_is_sent_and_the_rest_is_counted() {
    let test = "what_is_chosen_is_sent_and_the_rest_is_counted";
    if !need_root(test) {
        return;
    }
    let (network, folder) = (Network::up(), Folder::new());
    let path = folder.add("hundred.pcap", numbered(100, 60, 60));
    let file = arg(&path);
    let check = |args: &[&str], wanted: &[(&str, u64)]| {
        let outcome = send(&network, &[&["-r", file, "--fast"], args].concat());
        let sent = account(&outcome);
        let nothing = wanted.contains(&("accepted", 0));
        assert_eq!(outcome.code(), Some(i32::from(nothing)), "{args:?}: {outcome:?}");
        for &(name, count) in wanted {
            assert_eq!(number(&sent, name), count, "{args:?}: {name} of {sent}");
        }
    };
    check(&[], &[("accepted", 100), ("read", 100)]);
    check(&["--loop", "3"], &[("accepted", 300), ("read", 300)]);
    check(&["--loop", "3", "-c", "250"], &[("accepted", 250), ("not_sent", 0)]);
    check(&["-r", file, "-c", "7"], &[("accepted", 7)]);
    check(&["ether[14:4] < 10"], &[("accepted", 10), ("filtered", 90)]);
    check(&["--from", "1000.05", "--to", "1000.06"], &[("accepted", 10), ("outside_range", 90)]);
    check(&["ip"], &[("accepted", 0), ("filtered", 100)]);
    let timed = send(&network, &["-r", file, "--speed", "2"]);
    let sent = account(&timed);
    assert!(number(&sent, "elapsed_ns") >= 49_000_000, "{sent}");
    assert_eq!(number(&sent["timing"], "frames"), 100);
    let paced = send(&network, &["-r", file, "--rate", "10000", "--cpus", "0"]);
    assert!(number(&account(&paced), "elapsed_ns") >= 9_900_000);
    let shown = run_ringside(&["send", "--netns", network.sender(), "-i", "tx0", "-r", file]);
    assert_eq!(shown.code(), Some(0));
    for said in ["read                       100", "accepted                 100", "p99"] {
        assert!(shown.stderr.contains(said), "{}", shown.stderr);
    }
}

#[test]
fn a_recording_is_replayed_from_its_directory() {
    let test = "a_recording_is_replayed_from_its_directory";
    if !need_root(test) {
        return;
    }
    let (network, folder) = (Network::up(), Folder::new());
    let path = folder.add("hundred.pcap", numbered(100, 60, 60));
    let frames = |path: &Path| {
        let mut frames = Vec::new();
        for_each_frame(&[path.to_owned()], |frame, _| frames.push(frame.bytes.to_vec()));
        frames
    };
    let mut replayed = path.clone();
    for round in ["first", "second"] {
        let recording = folder.path(round);
        let running = network.capture(&["-i", "rx0", "-w", arg(&recording)]);
        assert_eq!(send(&network, &["-r", arg(&replayed), "--speed", "10"]).code(), Some(0));
        running.stop().checked_ledger(100);
        replayed = recording;
        assert_eq!(frames(&replayed), frames(&path));
    }
}

#[test]
fn what_cannot_be_sent_is_refused_before_the_first_frame_or_left_out() {
    let test = "what_cannot_be_sent_is_refused_before_the_first_frame_or_left_out";
    if !need_root(test) {
        return;
    }
    let (network, folder) = (Network::up(), Folder::new());
    let good = folder.add("good.pcap", numbered(5, 60, 60));
    let cut = folder.add("cut.pcap", numbered(5, 60, 1000));
    let long = folder.add("long.pcap", numbered(5, 9000, 9000));
    let (good, cut, long) = (arg(&good), arg(&cut), arg(&long));
    let refused = send(&network, &["-r", good, "-r", cut, "-r", long]);
    assert_eq!(refused.code(), Some(2));
    for said in
        ["cut.pcap holds 5 frames", "--cut pad", "ip link set tx0 mtu 8986", "--skip-unsend"]
    {
        assert!(refused.stderr.contains(said), "{}", refused.stderr);
    }
    assert!(!refused.stderr.contains("good.pcap"), "{}", refused.stderr);
    assert_eq!(network.received(), 0);
    let skipped =
        account(&send(&network, &["-r", cut, "-r", long, "-r", good, "--skip-unsendable"]));
    assert_eq!(number(&skipped, "accepted"), 5);
    assert_eq!(
        (&skipped["skipped"]["cut"], &skipped["skipped"]["too_long"]),
        (&5.into(), &5.into())
    );
    let sent = account(&send(&network, &["-r", cut, "--cut", "send"]));
    assert_eq!((number(&sent, "cut"), number(&sent, "accepted_bytes")), (5, 300));
    let padded = account(&send(&network, &["-r", cut, "--cut", "pad"]));
    assert_eq!((number(&padded, "padded"), number(&padded, "accepted_bytes")), (5, 5000));
    // What the filter leaves out is no reason to refuse.
    assert_eq!(send(&network, &["-r", good, "-r", cut, "len < 100"]).code(), Some(0));
    let late = send(&network, &["-r", good, "-r", cut, "--no-scan", "--max-gap", "1ms"]);
    assert_eq!((late.code(), account(&late)["ended"].as_str()), (Some(2), Some("failed")));
    assert!(late.stderr.contains("cut short"), "{}", late.stderr);
}

#[test]
fn a_stream_is_sent_and_an_order_ends_it_with_its_account() {
    let test = "a_stream_is_sent_and_an_order_ends_it_with_its_account";
    if !need_root(test) {
        return;
    }
    let (network, folder) = (Network::up(), Folder::new());
    let path = folder.add("stream.pcap", numbered(10, 60, 60));
    let mut command = send_command(&network, &["-r", "-"]);
    command.stdin(std::fs::File::open(&path).unwrap()).stdout(Stdio::piped());
    let outcome = Running::start_directed(command).finish();
    assert_eq!((outcome.code(), number(&account(&outcome), "accepted")), (Some(0), 10));

    // A pipe that stays open and silent.
    let mut command = send_command(&network, &["-r", "-"]);
    let (reader, mut writer) = std::io::pipe().unwrap();
    command.stdin(reader).stdout(Stdio::piped());
    let before = network.received();
    let running = Running::start_directed(command);
    std::io::Write::write_all(&mut writer, &std::fs::read(&path).unwrap()).unwrap();
    wait_until("ten frames", || network.received() >= before + 10);
    running.signal(Signal::INT);
    let outcome = running.finish();
    let sent = account(&outcome);
    assert_eq!((outcome.code(), sent["ended"].as_str()), (Some(0), Some("stopped")));
    assert_eq!(number(&sent, "accepted"), 10);

    let slow = account(&send(&network, &["-r", arg(&path), "--rate", "1", "--for", "0.1"]));
    assert_eq!((number(&slow, "accepted"), number(&slow, "not_sent")), (1, 9));
    assert_eq!(slow["ended"], "time");
}

#[test]
fn what_a_full_interface_refuses_is_counted_and_with_retry_nothing_is() {
    let test = "what_a_full_interface_refuses_is_counted_and_with_retry_nothing_is";
    if !need_root(test) {
        return;
    }
    // The far end receives in a thread on the CPU that sends, so that its ring fills up.
    let network = Network::with(LabConfig { napi: Napi::Pinned(0), ..LabConfig::default() });
    let folder = Folder::new();
    let path = folder.add("full.pcap", numbered(1_000, 60, 60));
    let args = ["-r", arg(&path), "--fast", "--loop", "200", "--cpus", "0"];
    for (more, name) in [(&[][..], "left behind"), (&["--retry"], "with --retry")] {
        let before = network.received();
        let outcome = send(&network, &[&args, more].concat());
        let sent = account(&outcome);
        let refused = number(&sent["refused"], "no_room");
        let told = refused + number(&sent, "offered_again");
        // Before Linux 6.16 the socket does not tell; the interface does.
        let untold = number(&sent["interface"], "tx_dropped") - told;
        assert_eq!(number(&sent, "offered"), 200_000, "{sent}");
        let whole = refused + untold == 0;
        assert_eq!(outcome.code(), Some(i32::from(!whole)), "{outcome:?}");
        let arrived = number(&sent, "accepted") - untold;
        wait_until("what was accepted", || network.received() - before >= arrived);
        assert_eq!(network.received() - before, arrived, "{sent}");
        eprintln!("{name}: {arrived} arrived, {refused} refused, {told} told, {untold} untold");
        assert!(more.is_empty() || refused == 0, "{sent}");
    }
}

#[test]
fn an_interface_that_goes_down_ends_it_with_its_account() {
    let test = "an_interface_that_goes_down_ends_it_with_its_account";
    if !need_root(test) {
        return;
    }
    let (network, folder) = (Network::up(), Folder::new());
    let path = folder.add("long.pcap", numbered(60_000, 60, 60));
    let running = Running::start(send_command(&network, &["-r", arg(&path)]));
    wait_until("some frames", || network.received() > 10);
    run_clean("ip", &["-n", network.sender(), "link", "set", "tx0", "down"]);
    let outcome = running.finish();
    let sent = account(&outcome);
    assert_eq!(outcome.code(), Some(2), "{outcome:?}");
    assert_eq!(sent["ended"], "failed");
    assert!(number(&sent, "accepted") > 10 && number(&sent, "not_sent") > 0, "{sent}");
    let refused = send(&network, &["-r", arg(&path)]);
    assert!(refused.stderr.contains("ip link set tx0 up"), "{}", refused.stderr);
}

#[test]
fn wrong_options_are_refused_with_the_fix() {
    let folder = Folder::new();
    let path = folder.add("one.pcap", numbered(1, 60, 60));
    let file = arg(&path);
    for (args, said) in [
        (&["-r", file][..], "--interface"),
        (&["-i", "lo", "-r", file, "--vlan", "5-6"], "one value"),
        (&["-i", "lo", "-r", file, "--cpus", "0,1"], "one thread"),
        (&["-i", "lo", "-r", file, "--loop", "0"], "at least 1"),
        (&["-i", "lo", "-r", "-", "--loop", "2"], "save it to a file"),
        (&["-i", "rsafp-none", "-r", file], "no interface rsafp-none"),
        (&["-i", "lo", "-r", "absent.pcap"], "absent.pcap"),
        (&["-i", "lo", "-r", file, "--rate", "fast"], "5Mpps"),
        (&["-i", "lo", "-r", file, "--rate", "50%"], "bits (10Gbps)"),
        (&["-i", "lo", "-r", file, "--speed", "0"], "how many times"),
        (&["-i", "lo", "-r", file, "--rate", "1", "--speed", "1"], "cannot be used with"),
        (&["-i", "lo", "-r", file, "--address-map", "10.0.0.0/8=11.0.0.0/9"], "one length"),
        (&["-i", "lo", "-r", file, "--address-map", "10.0.0.0/8=10.0.0.0/8"], "overlap"),
        (&["-i", "lo", "-r", file, "--mac-src", "1:2"], "MAC"),
        (&["-i", "lo", "-r", file, "--vlan", "4096"], "4095"),
        (&["-i", "lo", "-r", file, "--from", "noon"], "2026-03-01"),
        (&["-i", "lo", "-r", file, "ip and and"], "syntax"),
    ] {
        let outcome = run_ringside(&[&["send"], args].concat());
        assert_eq!(outcome.code(), Some(2), "{args:?}: {outcome:?}");
        assert!(outcome.stderr.contains(said), "{args:?}: {}", outcome.stderr);
    }
}
