//! The interface: missing, removed, set down, merging frames.

use super::support::*;
use crate::common::*;
use ringside_lab::RECEIVER_ADDRESS;
use ringside_testkit::need_root;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};

#[test]
fn removed_or_set_down_ends_the_run_and_keeps_what_was_received() {
    if !need_root("removed_or_set_down") {
        return;
    }
    let cases: [(&[&str], &str); 2] = [
        (&["link", "set", "rx0", "down"], "rx0 was set down"),
        (&["link", "del", "rx0"], "rx0 was removed"),
    ];
    for backend in ["af-packet", "pcap"] {
        for (event, message) in cases {
            let network = Network::up();
            let folder = tempfile::tempdir().unwrap();
            let directory = folder.path().join("recording");
            let args = ["-i", "rx0", "--backend", backend, "-w", arg(&directory)];
            let running = network.capture(&args);
            let report = send(&network, 300, 2_000);
            ip(&[&["-n", network.receiver()], event].concat());
            let outcome = running.finish();
            assert!(outcome.stderr.contains(message), "{backend}: {}", outcome.stderr);
            let ledger = failed_ledger(&outcome);
            assert_eq!(ledger.received, Some(report.handed), "{backend} {message}");
            assert_eq!(ledger.lost(), 0, "{backend} {message}");
            let files = files_in(&directory);
            assert_eq!(files.len(), 1);
            assert_eq!(packets_by_wireshark(&files[0]), 2_000, "{backend} {message}");
            assert_eq!(count(&[directory]), 2_000, "{backend} {message}");
        }
    }
}

#[test]
fn one_of_two_removed_ends_the_run_and_both_are_kept() {
    if !need_root("one_of_two_removed") {
        return;
    }
    let network = Network::up();
    let receiver = network.receiver();
    ip(&["-n", receiver, "link", "add", "other0", "type", "veth", "peer", "name", "other1"]);
    for end in ["other0", "other1"] {
        ip(&["-n", receiver, "link", "set", end, "up"]);
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("both.pcapng");
    let running = network.capture(&["-i", "rx0", "-i", "other0", "-w", arg(&file)]);
    let report = send(&network, 300, 2_000);
    ip(&["-n", receiver, "link", "del", "other0"]);
    let outcome = running.finish();
    assert!(outcome.stderr.contains("interface other0 was removed"), "{}", outcome.stderr);
    let ledger = failed_ledger(&outcome);
    assert_eq!(ledger.lanes[0].received, Some(report.handed));
    assert_eq!(ledger.lost(), 0);
    assert_eq!(packets_by_wireshark(&file), ledger.taken);
}

#[test]
fn a_missing_interface_is_named_with_those_that_may_be_meant() {
    if !need_root("a_missing_interface") {
        return;
    }
    let network = Network::up();
    let capture = |args: &[&str]| {
        let mut command = network.capture_command();
        command.args(args);
        Running::start(command).finish()
    };
    let outcome = capture(&["-i", "rx1"]);
    assert_eq!(outcome.code(), Some(2));
    for text in ["no interface rx1", "did you mean rx0", "ip -brief link"] {
        assert!(outcome.stderr.contains(text), "{text}: {}", outcome.stderr);
    }
    let outcome = capture(&["-i", "rx0", "-i", "rx0"]);
    assert_eq!(outcome.code(), Some(2));
    assert!(outcome.stderr.contains("given twice"), "{}", outcome.stderr);
    ip(&["-n", network.receiver(), "link", "set", "rx0", "down"]);
    let outcome = capture(&["-i", "rx0"]);
    assert_eq!(outcome.code(), Some(2));
    assert!(outcome.stderr.contains("ip link set rx0 up"), "{}", outcome.stderr);
}

/// Bytes of the TCP connection: thousands of segments.
const STREAM_BYTES: usize = 8 << 20;

#[test]
fn merged_frames_are_warned_of_and_recorded_whole() {
    if !need_root("merged_frames") {
        return;
    }
    let network = Network::up();
    ip(&["netns", "exec", network.receiver(), "ethtool", "-K", "rx0", "gro", "on"]);
    let folder = tempfile::tempdir().unwrap();
    let running = network.capture(&["-i", "rx0", "-w", arg(&folder.path().join("r"))]);
    let said = running.stderr_so_far();
    assert!(said.contains("GRO") && said.contains("ethtool -K rx0 gro off"), "{said}");

    let data = ringside_testkit::Random::new(1).bytes(STREAM_BYTES);
    let port = transfer(&network, &data);
    let received = network.received();
    let outcome = running.stop();
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    let ledger = outcome.ledger();
    check_ledger(&ledger, ledger.received.unwrap());
    assert_eq!(ledger.lost(), 0, "{ledger:#?}");

    let mut stream = Stream { port, first: None, data: vec![None; STREAM_BYTES], longest: 0 };
    let mut frames = 0;
    for_each_frame(&[folder.path().join("r")], |frame, _| {
        assert_eq!(frame.bytes.len(), frame.meta.wire_bytes as usize);
        stream.note(frame.bytes);
        frames += 1;
    });
    assert_eq!(ledger.taken, frames);
    assert!(stream.longest > 1_514, "nothing was merged, so nothing was tested");
    // The interface counts segments, the socket what they were merged into.
    assert!(frames < received, "{frames} {received}");
    let whole = stream.data.iter().zip(&data).all(|(got, sent)| *got == Some(*sent));
    assert!(whole, "the stream was not recorded whole");
}

/// Sends `data` over TCP from one namespace to the other; returns the port.
fn transfer(network: &Network, data: &[u8]) -> u16 {
    let address: IpAddr = RECEIVER_ADDRESS.parse().unwrap();
    let listener = inside(network.receiver(), || TcpListener::bind((address, 0)).unwrap());
    let port = listener.local_addr().unwrap().port();
    let target = SocketAddr::new(address, port);
    let mut client =
        inside(network.sender(), || TcpStream::connect_timeout(&target, WAIT_MAX).unwrap());
    let (mut server, _) = listener.accept().unwrap();
    client.set_write_timeout(Some(WAIT_MAX)).unwrap();
    server.set_read_timeout(Some(WAIT_MAX)).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || client.write_all(data).unwrap());
        let mut got = Vec::with_capacity(data.len());
        server.read_to_end(&mut got).unwrap();
        assert!(got == data);
    });
    port
}

/// What a recording holds of one direction of a connection.
struct Stream {
    port: u16,
    /// Sequence number of the first byte.
    first: Option<u32>,
    data: Vec<Option<u8>>,
    longest: usize,
}

impl Stream {
    fn note(&mut self, frame: &[u8]) {
        const ETHERNET: usize = 14;
        if frame[12..14] != [8, 0] || frame[ETHERNET + 9] != 6 {
            return;
        }
        let word = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
        let tcp = ETHERNET + usize::from(frame[ETHERNET] & 15) * 4;
        if word(tcp + 2) != self.port {
            return;
        }
        let end = ETHERNET + usize::from(word(ETHERNET + 2));
        assert_eq!(end.max(60), frame.len().max(60), "the IP packet ends with its frame");
        self.longest = self.longest.max(frame.len());
        let sequence = u32::from_be_bytes(frame[tcp + 4..tcp + 8].try_into().unwrap());
        const SYN: u8 = 2;
        if frame[tcp + 13] & SYN != 0 {
            self.first = Some(sequence.wrapping_add(1));
            return;
        }
        let payload = &frame[tcp + usize::from(frame[tcp + 12] >> 4) * 4..end];
        let at = sequence.wrapping_sub(self.first.expect("the SYN comes first")) as usize;
        for (index, byte) in payload.iter().enumerate() {
            self.data[at + index] = Some(*byte);
        }
    }
}
