//! `ringside send --stream`: a payload arrives as it is, in frames whose checksums are right, or
//! the cause is named.

use crate::common::folder::Folder;
use crate::common::*;
use ringside_lab::{LabConfig, RECEIVER_ADDRESS, RECEIVER_INTERFACE};
use ringside_netdev as netdev;
use ringside_testkit::{Random, need_root, need_tool};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write;
use std::net::UdpSocket;
use std::process::{Command, Stdio};

/// All of it fits a receive buffer, so that no reader can be too slow.
const FILE_BYTES: usize = 200_001;
const RECEIVE_BUFFER_BYTES: usize = 16 << 20;
const WAYS: [&str; 6] = ["calls", "copies", "chains", "kernel", "live", "fastest"];

fn send(network: &Network, args: &[&str]) -> Outcome {
    let mut command = Command::new(ringside());
    command.args(["send", "--netns", network.sender(), "-i", "tx0"]).args(args);
    Running::start(command).finish()
}

/// The account, which must balance.
fn account(outcome: &Outcome) -> Value {
    let lines = outcome.json_lines();
    let sent = lines.last().unwrap_or_else(|| panic!("no account: {outcome:?}"))["sent"].clone();
    let refused = sent["refused"].as_object().unwrap().values();
    let refused: u64 = refused.map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(sent["offered"].as_u64().unwrap(), sent["accepted"].as_u64().unwrap() + refused);
    sent
}

fn file(folder: &Folder) -> (std::path::PathBuf, Vec<u8>) {
    let (path, content) = (folder.path("payload"), Random::new(5).bytes(FILE_BYTES));
    std::fs::write(&path, &content).unwrap();
    (path, content)
}

#[test]
fn a_file_arrives_at_a_udp_socket() {
    let test = "a_file_arrives_at_a_udp_socket";
    if !need_root(test) {
        return;
    }
    let (network, folder) = (Network::up(), Folder::new());
    let (path, content) = file(&folder);
    let socket = inside(network.receiver(), || {
        let socket = UdpSocket::bind((RECEIVER_ADDRESS, 0)).unwrap();
        let bytes = RECEIVE_BUFFER_BYTES;
        rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, bytes).unwrap();
        socket.set_read_timeout(Some(WAIT_MAX)).unwrap();
        socket
    });
    let place = socket.local_addr().unwrap().to_string();
    for way in WAYS {
        let args = ["--stream", arg(&path), "--udp", "--to", &place, "--way", way];
        let more = ["--rate", "200Mbps", "--mss", "1000", "--json"];
        let outcome = send(&network, &[&args[..], &more[..]].concat());
        assert_eq!(outcome.code(), Some(0), "{way}: {outcome:?}");
        let sent = account(&outcome);
        assert_eq!(sent["payload_bytes"], FILE_BYTES, "{way}: {sent}");
        assert_eq!(sent["offered"], FILE_BYTES.div_ceil(1000), "{way}: {sent}");
        assert_eq!((&sent["way"], &sent["ended"]), (&way.into(), &"done".into()), "{sent}");
        let (mut received, mut datagram) = (Vec::<u8>::new(), [0; 2000]);
        while received.len() < FILE_BYTES {
            let bytes = socket.recv(&mut datagram).unwrap();
            received.extend(&datagram[..bytes]);
        }
        assert!(received == content, "{way}");
    }
}

/// As [`send`], by a name that only a hosts file of its own knows.
fn send_with_hosts(network: &Network, hosts: &std::path::Path, args: &[&str]) -> Outcome {
    let mounted = r#"mount --bind "$0" /etc/hosts && exec "$@""#;
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", mounted, arg(hosts)]).arg(ringside());
    command.args(["send", "--netns", network.sender(), "-i", "tx0"]).args(args);
    Running::start(command).finish()
}

#[test]
fn a_name_is_looked_up_and_a_name_that_nobody_knows_is_said() {
    let test = "a_name_is_looked_up_and_a_name_that_nobody_knows_is_said";
    if !need_root(test) || !need_tool(test, "unshare") {
        return;
    }
    let (network, folder) = (Network::up(), Folder::new());
    // The first address has no route out of this interface; the family says which is meant.
    let hosts = "2001:db8::2 twofold.example\n10.99.0.2 sink.example twofold.example\n";
    let hosts = folder.add("hosts", hosts);
    let stream = ["--stream", "10000", "--udp", "--mss", "1000", "--json"];
    for more in [
        &["--to", "sink.example:9000"][..],
        &["--to", "twofold.example:9000", "--from-address", "10.99.0.1"],
    ] {
        let outcome = send_with_hosts(&network, &hosts, &[&stream[..], more].concat());
        assert_eq!(outcome.code(), Some(0), "{outcome:?}");
        let sent = account(&outcome);
        assert_eq!(
            (&sent["destination"], &sent["accepted"]),
            (&"10.99.0.2:9000".into(), &10.into())
        );
    }
    // By RFC 6761 there is no such name anywhere.
    for (more, said) in [
        (&["--to", "nobody.invalid:9"][..], "no address is known for nobody.invalid"),
        (&["--to", "sink.example:9", "--from-address", "2001:db8::1"], "family of --from-address"),
    ] {
        let outcome = send_with_hosts(&network, &hosts, &[&stream[..], more].concat());
        assert_eq!(outcome.code(), Some(2), "{outcome:?}");
        assert!(outcome.stderr.contains(said), "{}", outcome.stderr);
    }
}

#[test]
fn what_lies_behind_a_gateway_goes_to_the_gateway() {
    let test = "what_lies_behind_a_gateway_goes_to_the_gateway";
    if !need_root(test) {
        return;
    }
    // Who is not known is asked for, and only the gateway is there to answer.
    let network = Network::with(LabConfig { arp: true, ..LabConfig::default() });
    let (folder, sender) = (Folder::new(), network.sender());
    let route = ["route", "add", "203.0.113.0/24", "via", RECEIVER_ADDRESS];
    run_clean("ip", &[&["-n", sender], &route[..]].concat());
    let gateway = inside(network.receiver(), || {
        netdev::by_name(RECEIVER_INTERFACE).unwrap().unwrap().hardware_address
    });
    let recorded = folder.path("received.pcapng");
    let args = ["-i", "rx0", "-w", arg(&recorded), "udp and dst host 203.0.113.7"];
    let running = network.capture(&args);
    let stream = ["--stream", "10000", "--udp", "--mss", "1000", "--to", "203.0.113.7:9"];
    let outcome = send(&network, &[&stream[..], &["--json"]].concat());
    assert_eq!(outcome.code(), Some(0), "{outcome:?}");
    assert_eq!(account(&outcome)["source"], "10.99.0.1:49152");
    assert_eq!(running.stop().code(), Some(0));
    let mut count = 0;
    for_each_frame(std::slice::from_ref(&recorded), |frame, _| {
        assert_eq!(frame.bytes[..6], gateway[..]);
        count += 1;
    });
    assert_eq!(count, 10);
    // A route that is gone from this interface is a place that cannot be reached.
    run_clean("ip", &["-n", sender, "route", "del", "203.0.113.0/24"]);
    let outcome = send(&network, &stream);
    assert!(outcome.stderr.contains("ip route add 203.0.113.7"), "{}", outcome.stderr);
}

#[test]
fn standard_input_is_sent_to_its_end() {
    let test = "standard_input_is_sent_to_its_end";
    if !need_root(test) {
        return;
    }
    let (network, folder) = (Network::up(), Folder::new());
    let (path, content) = file(&folder);
    for way in ["copies", "live"] {
        // A pipe gives a little at a time, and the last segment is what is left.
        let script = format!(
            "cat {} | {} send --netns {} -i tx0 --stream - --udp --to 10.99.0.2:9 --mss 1000 \
             --way {way} --json",
            arg(&path),
            ringside().display(),
            network.sender()
        );
        let mut command = Command::new("sh");
        command.args(["-c", &script]);
        let outcome = Running::start(command).finish();
        assert_eq!(outcome.code(), Some(0), "{way}: {outcome:?}");
        let sent = account(&outcome);
        assert_eq!(sent["payload_bytes"], content.len(), "{way}: {sent}");
        assert_eq!(sent["accepted"], content.len().div_ceil(1000), "{way}: {sent}");
    }
}

#[test]
fn tcp_segments_follow_each_other_and_their_checksums_are_right() {
    let test = "tcp_segments_follow_each_other_and_their_checksums_are_right";
    if !need_root(test) || !need_tool(test, "tshark") {
        return;
    }
    let (network, folder) = (Network::up(), Folder::new());
    let (path, content) = file(&folder);
    let recorded = folder.path("received.pcapng");
    let rings = ["--kernel-ring-size", "64MiB", "--ring-size", "128MiB"];
    // The far end answers with resets, which are not of the stream.
    let args = [&["-i", "rx0", "-w", arg(&recorded)], &rings[..], &["tcp and src host 10.99.0.1"]];
    let running = network.capture(&args.concat());
    for (port, way) in (9000..).zip(WAYS) {
        let place = format!("{RECEIVER_ADDRESS}:{port}");
        let args = ["--stream", arg(&path), "--to", &place, "--way", way, "--json"];
        let outcome = send(&network, &[&args[..], &["--rate", "1Gbps"]].concat());
        assert_eq!(outcome.code(), Some(0), "{way}: {outcome:?}");
        let sent = account(&outcome);
        assert_eq!(sent["offered"], FILE_BYTES.div_ceil(1460), "{way}: {sent}");
    }
    assert_eq!(running.stop().code(), Some(0));
    let mut streams = BTreeMap::<u16, Vec<u8>>::new();
    for_each_frame(std::slice::from_ref(&recorded), |frame, _| {
        let port = u16::from_be_bytes([frame.bytes[36], frame.bytes[37]]);
        streams.entry(port).or_default().extend(&frame.bytes[54..]);
    });
    assert_eq!(streams.len(), WAYS.len());
    for (port, payload) in streams {
        assert!(payload == content, "port {port}");
    }
    let checks = ["-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE"];
    let fields = [
        "ip.checksum.status",
        "tcp.checksum.status",
        "tcp.checksum",
        "tcp.dstport",
        "tcp.seq_raw",
        "tcp.len",
    ];
    let fields = fields.map(|field| ["-e", field]).concat();
    let args = [&["-r", arg(&recorded)], &checks[..], &["-T", "fields"], &fields].concat();
    let mut expected = BTreeMap::<u64, u64>::new();
    let mut count = 0;
    for line in run_clean("tshark", &args).lines() {
        let words: Vec<&str> = line.split('\t').collect();
        assert!(words[0] == "1" && is_right_tcp(words[1], words[2]), "a checksum is wrong: {line}");
        let numbers: Vec<u64> = words[3..].iter().map(|word| word.parse().unwrap()).collect();
        let next = expected.entry(numbers[0]).or_insert(1);
        assert_eq!(numbers[1], *next, "{line}");
        *next += numbers[2];
        count += 1;
    }
    assert_eq!(count, WAYS.len() * FILE_BYTES.div_ceil(1460));
}

#[test]
fn a_pattern_ends_by_count_and_by_size_without_addresses() {
    let test = "a_pattern_ends_by_count_and_by_size_without_addresses";
    if !need_root(test) {
        return;
    }
    let network = Network::with(LabConfig { addresses: false, ..LabConfig::default() });
    let given = ["--from-address", "2001:db8::1", "--mac-dst", "02:00:00:00:00:09", "--vlan", "7"];
    let place = ["--to", "[2001:db8::2]:9", "--json", "--mss", "100", "--rate", "100kpps"];
    for (more, ended, frames, bytes) in [
        (&["--stream", "10GB", "-c", "777"][..], "count", 777, 77_700),
        (&["--stream", "1001"], "done", 11, 1001),
        (&["--stream", "1000"], "done", 10, 1000),
    ] {
        let outcome = send(&network, &[&given[..], &place, more].concat());
        assert_eq!(outcome.code(), Some(0), "{more:?}: {outcome:?}");
        let sent = account(&outcome);
        assert_eq!((&sent["ended"], &sent["offered"]), (&ended.into(), &frames.into()), "{sent}");
        assert_eq!(sent["payload_bytes"], bytes, "{sent}");
    }
    let timed = ["--stream", "1GB", "--for", "0.2"];
    let outcome = send(&network, &[&given[..], &place, &timed].concat());
    assert_eq!((outcome.code(), &account(&outcome)["ended"]), (Some(0), &"time".into()));
}

#[test]
fn what_cannot_be_is_refused_with_its_fix() {
    let test = "what_cannot_be_is_refused_with_its_fix";
    if !need_root(test) {
        return;
    }
    let network = Network::with(LabConfig { arp: true, ..LabConfig::default() });
    let to = ["--to", "10.99.0.2:9"];
    let range = "02:00:00:00:00:01-02:00:00:00:00:09";
    for (args, named) in [
        (&["--stream", "/nowhere", to[0], to[1]][..], "there is no file /nowhere"),
        (&["--stream", "/tmp", to[0], to[1]], "directory"),
        (&["--stream", "/proc/self/mem", to[0], to[1]], "cannot read /proc/self/mem"),
        (&["--stream", "1MB"], "--to HOST:PORT"),
        (&["--stream", "1MB", "--to", "10.99.0.2"], "10.0.0.2:9000"),
        (&["--stream", "1MB", "--to", "2026-03-01T12:00:00Z"], "is a place"),
        (&["--stream", "1MB", "--to", "203.0.113.1:9"], "ip route add"),
        (&["--stream", "1MB", "--to", "10.99.0.77:9"], "no neighbour 10.99.0.77 answers"),
        (&["--stream", "1MB", "--to", "10.99.0.1:9"], "no other host"),
        (&["--stream", "1MB", "--to", "[2001:db8::2]:9"], "no IPv6 address"),
        (&["--stream", "1MB", to[0], to[1], "--mss", "0"], "the MSS is 0 bytes"),
        (&["--stream", "1MB", to[0], to[1], "--mss", "1461"], "allows 1 to 1460"),
        (&["--stream", "1MB", to[0], to[1], "--udp", "--mss", "1473"], "allows 1 to 1472"),
        (&["--stream", "1MB", to[0], to[1], "--rate", "20Gbps"], "--link-speed"),
        (&["--stream", "1MB", to[0], to[1], "--way", "magic"], "chains"),
        (&["--stream", "1MB", to[0], to[1], "--cpus", "0,1"], "one thread"),
        (&["--stream", "1MB", to[0], to[1], "--mac-dst", range], "one value"),
        (&["--stream", "1MB", to[0], to[1], "--from-address", "::1"], "famil"),
        (&["--size", "64", to[0], to[1], "-c", "1"], "--stream"),
    ] {
        let outcome = send(&network, args);
        assert_eq!(outcome.code(), Some(2), "{args:?}: {outcome:?}");
        assert!(outcome.stderr.contains(named), "{args:?}: {}", outcome.stderr);
    }
}

/// `ringside send --stream` to somewhere, by a way that refuses nothing unasked.
fn stream_command(network: &Network, stream: &str, more: &[&str]) -> Command {
    let mut command = Command::new("env");
    command.arg("--default-signal=INT").arg(ringside());
    command.args(["send", "--netns", network.sender(), "-i", "tx0", "--stream", stream]);
    command.args(["--udp", "--to", "10.99.0.2:9", "--mss", "1000", "--json"]).args(more);
    command
}

#[test]
fn a_silent_pipe_and_a_slow_rate_end_by_signal_and_by_time() {
    let test = "a_silent_pipe_and_a_slow_rate_end_by_signal_and_by_time";
    if !need_root(test) {
        return;
    }
    let (network, folder) = (Network::up(), Folder::new());
    let fifo = folder.path("fifo");
    run_clean("mkfifo", &[arg(&fifo)]);
    for way in WAYS {
        // What came before the silence is a whole buffer, which must be sent.
        let mut command = stream_command(&network, "-", &["--way", way, "--for", "1"]);
        let (reader, mut writer) = std::io::pipe().unwrap();
        command.stdin(Stdio::from(reader)).stdout(Stdio::piped());
        let running = Running::start_directed(command);
        writer.write_all(&[7; 65_000 + 10]).unwrap();
        let outcome = running.finish();
        let sent = account(&outcome);
        assert_eq!((outcome.code(), &sent["ended"]), (Some(0), &"time".into()), "{way}: {sent}");
        assert_eq!(
            (&sent["offered"], &sent["payload_bytes"]),
            (&65.into(), &65_000.into()),
            "{way}"
        );
        drop(writer);
    }
    // A FIFO that no process writes to, and segments of eight seconds each.
    for (stream, more) in [(arg(&fifo), &[][..]), ("1MB", &["--rate", "1kbps"])] {
        let timed = [more, &["--for", "0.3"]].concat();
        let outcome = Running::start(stream_command(&network, stream, &timed)).finish();
        let sent = account(&outcome);
        assert_eq!((&sent["ended"], &sent["offered"]), (&"time".into(), &0.into()), "{stream}");
        let running = Running::start(stream_command(&network, stream, more));
        wait_until("it to catch signals", || catches_interrupts(running.pid()));
        running.signal(Signal::INT);
        let sent = account(&running.finish());
        assert_eq!((&sent["ended"], &sent["payload_bytes"]), (&"stopped".into(), &0.into()));
    }
}

/// True once a process catches SIGINT.
fn catches_interrupts(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:\t"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask, 16).ok());
    caught.is_some_and(|mask| mask & (1 << (Signal::INT.as_raw() - 1)) != 0)
}

#[test]
fn the_status_tells_what_was_refused_and_what_failed() {
    let test = "the_status_tells_what_was_refused_and_what_failed";
    if !need_root(test) || !need_tool(test, "tc") {
        return;
    }
    let network = Network::up();
    let kernel = &["--way", "kernel"][..];
    let outcome = Running::start(stream_command(&network, "100kB", kernel)).finish();
    assert_eq!((outcome.code(), &account(&outcome)["accepted"]), (Some(0), &100.into()));
    let in_sender = ["netns", "exec", network.sender()];
    let discipline = ["tc", "qdisc", "add", "dev", "tx0", "root", "pfifo", "limit", "0"];
    run_clean("ip", &[&in_sender[..], &discipline].concat());
    let outcome = Running::start(stream_command(&network, "100kB", kernel)).finish();
    let sent = account(&outcome);
    assert_eq!((outcome.code(), &sent["refused"]["no_room"]), (Some(1), &100.into()), "{sent}");
    let notes = sent["notes"].to_string();
    assert!(notes.contains("queueing discipline pfifo"), "{notes}");
    for way in ["live", "copies"] {
        let network = Network::up();
        let paced = ["--way", way, "--rate", "1kpps"];
        let before = network.received();
        let running = Running::start(stream_command(&network, "1GB", &paced));
        wait_until("the stream", || network.received() > before + 100);
        run_clean("ip", &["-n", network.sender(), "link", "del", "tx0"]);
        let outcome = running.finish();
        let sent = account(&outcome);
        assert_eq!((outcome.code(), &sent["ended"]), (Some(2), &"failed".into()), "{way}: {sent}");
        assert!(outcome.stderr.contains("ringside: ") && outcome.stderr.contains("tx0"));
        assert!(sent["refused"].as_object().is_some_and(|refused| !refused.is_empty()), "{sent}");
    }
}
