//! The example server that cuts its own segments, fetched from by curl.

use crate::common::{Witness, config, tool};
use crate::server::{Served, Server, ServerConfig};
use ringside_core::LinkType;
use ringside_lab::{Lab, LabConfig};
use ringside_sys::netns::Namespace;
use ringside_testkit::{by_run, need_root, need_tool};
use ringside_transmit::sink::SinkKind;
use ringside_wire::{Level, Verdict, dissect, verify_network, verify_transport};
use smoltcp::socket::tcp::CongestionControl;
use std::io::{ErrorKind, Read};
use std::net::{Ipv4Addr, TcpStream};
use std::panic::resume_unwind;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 80);
const PORT: u16 = 8080;
/// Only a broken server makes curl wait so long.
const PATIENCE_S: &str = "300";

fn ready(test: &str) -> bool {
    need_root(test) && need_tool(test, "curl")
}

fn lab(test: &str) -> Lab {
    // The server is found by ARP, as any other.
    Lab::up(&LabConfig { arp: true, ..config(test) }).unwrap()
}

fn plain() -> ServerConfig {
    ServerConfig {
        interface: "tx0".into(),
        address: ADDRESS,
        prefix_length: 24,
        port: PORT,
        directory: None,
        sink: SinkKind::AfXdp,
        has_chains: false,
        congestion: CongestionControl::Cubic,
        lose_every: 0,
    }
}

fn inside<T: Send>(namespace: &str, work: impl FnOnce() -> T + Send) -> T {
    let body = || {
        Namespace::open(namespace).unwrap().enter().unwrap();
        work()
    };
    std::thread::scope(|scope| scope.spawn(body).join())
        .unwrap_or_else(|panic| resume_unwind(panic))
}

/// Runs `client` while a server of the sender's namespace listens, and returns what it did.
fn serving(lab: &Lab, config: ServerConfig, client: impl FnOnce()) -> Served {
    let stop = AtomicBool::new(false);
    let (is_open, opened) = mpsc::channel();
    std::thread::scope(|scope| {
        let server = scope.spawn(|| {
            Namespace::open(&lab.status().sender_namespace).unwrap().enter().unwrap();
            let mut notes = Vec::new();
            let server = Server::open(config, &mut notes).unwrap();
            is_open.send(()).unwrap();
            server.run(&stop).unwrap()
        });
        opened.recv().unwrap();
        // Ends the server also if the client panics.
        let client = std::panic::catch_unwind(std::panic::AssertUnwindSafe(client));
        stop.store(true, Ordering::Relaxed);
        let served = server.join().unwrap_or_else(|panic| resume_unwind(panic));
        client.unwrap_or_else(|panic| resume_unwind(panic));
        assert!(served.sink.is_balanced(), "{served:?}");
        served
    })
}

fn curl(lab: &Lab, arguments: &[&str], path: &str) -> Child {
    Command::new("ip")
        .args(["netns", "exec", &lab.status().receiver_namespace, "curl", "-sS"])
        .args(["-m", PATIENCE_S])
        .args(arguments)
        .arg(format!("http://{ADDRESS}:{PORT}{path}"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// What curl got, which went well.
#[track_caller]
fn got(curl: Child) -> Vec<u8> {
    let output = curl.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// The status that curl got.
fn status(lab: &Lab, arguments: &[&str], path: &str) -> String {
    let only_status = ["-o", "/dev/null", "-w", "%{http_code}", "--path-as-is"];
    String::from_utf8(got(curl(lab, &[&only_status[..], arguments].concat(), path))).unwrap()
}

#[track_caller]
fn assert_pattern(content: &[u8], bytes: usize) {
    assert_eq!(content.len(), bytes);
    let wrong = content.iter().enumerate().position(|(at, &byte)| usize::from(byte) != at % 251);
    assert_eq!(wrong, None, "first wrong byte");
}

#[test]
fn a_large_answer_arrives_whole_in_each_way() {
    if !ready("a_large_answer_arrives_whole_in_each_way") {
        return;
    }
    let lab = lab("whole");
    let bytes = 64 << 20;
    for (sink, has_chains) in
        [(SinkKind::AfXdp, false), (SinkKind::AfXdp, true), (SinkKind::AfPacket, false)]
    {
        let served = serving(&lab, ServerConfig { sink, has_chains, ..plain() }, || {
            let content = got(curl(&lab, &[], &format!("/bytes/{bytes}")));
            assert_pattern(&content, bytes);
        });
        assert_eq!((served.requests, served.lost, served.left_out), (1, 0, 0), "{served:?}");
        // That many frames are not made of so few packets unless they are cut.
        let frames_min = (bytes / 1460) as u64;
        assert!(served.sink.offered >= frames_min, "{served:?}");
        assert!(served.packets < frames_min / 3, "{served:?}");
    }
}

#[test]
fn lost_frames_are_sent_again() {
    if !ready("lost_frames_are_sent_again") {
        return;
    }
    let lab = lab("lost");
    let bytes = by_run(2 << 20, 8 << 20);
    // Without congestion control the losses are found by repeated acknowledgments. With it few
    // frames are under way, and smoltcp waits a second, and longer each time, for its timer.
    let settings = ServerConfig { congestion: CongestionControl::None, lose_every: 97, ..plain() };
    let served = serving(&lab, settings, || {
        assert_pattern(&got(curl(&lab, &[], &format!("/bytes/{bytes}"))), bytes);
    });
    assert_eq!(served.lost, (served.sink.offered + served.lost) / 97, "{served:?}");
    assert!(served.lost >= (bytes / 1460 / 97) as u64, "{served:?}");
}

#[test]
fn clients_are_served_in_parallel_and_after_each_other() {
    if !ready("clients_are_served_in_parallel_and_after_each_other") {
        return;
    }
    let lab = lab("clients");
    let served = serving(&lab, plain(), || {
        let sizes = [64 << 20, 32 << 20, (16 << 20) + 1];
        let curls = sizes.map(|bytes| (bytes, curl(&lab, &[], &format!("/bytes/{bytes}"))));
        // Pipes are emptied side by side, or one client would wait for another's reader.
        std::thread::scope(|scope| {
            for (bytes, curl) in curls {
                scope.spawn(move || assert_pattern(&got(curl), bytes));
            }
        });
        for bytes in [0, 1, 1460, 65_495] {
            assert_pattern(&got(curl(&lab, &[], &format!("/bytes/{bytes}"))), bytes);
        }
    });
    assert_eq!(served.requests, 7, "{served:?}");
}

#[test]
fn clients_that_break_off_leave_their_places_free() {
    if !ready("clients_that_break_off_leave_their_places_free") {
        return;
    }
    let lab = lab("broken");
    let served = serving(&lab, plain(), || {
        for _ in 0..3 {
            let mut curl = curl(&lab, &[], "/bytes/1099511627776");
            let mut content = vec![0; 1 << 20];
            curl.stdout.as_mut().unwrap().read_exact(&mut content).unwrap();
            curl.kill().unwrap();
            curl.wait().unwrap();
            assert_pattern(&content, 1 << 20);
        }
        // As many as there are places, and no more.
        inside(&lab.status().receiver_namespace, || {
            let mut clients: Vec<TcpStream> = Vec::new();
            let refused = loop {
                assert!(clients.len() <= 64, "a bound for connections");
                match TcpStream::connect((ADDRESS, PORT)) {
                    Ok(client) => clients.push(client),
                    Err(error) => break error,
                }
            };
            assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
            assert!(clients.len() > 60, "{} places", clients.len());
        });
        assert_pattern(&got(curl(&lab, &["--retry", "20", "--retry-connrefused"], "/bytes/9")), 9);
    });
    assert!(served.requests >= 4, "{served:?}");
}

#[test]
fn files_are_served_and_nothing_else() {
    if !ready("files_are_served_and_nothing_else") {
        return;
    }
    let lab = lab("files");
    let folder = tempfile::tempdir().unwrap();
    let content = ringside_testkit::Random::new(7).bytes((3 << 20) + 17);
    std::fs::create_dir_all(folder.path().join("below/sub")).unwrap();
    std::fs::write(folder.path().join("secret"), "secret").unwrap();
    std::fs::write(folder.path().join("below/sub/file"), &content).unwrap();
    std::os::unix::fs::symlink("../secret", folder.path().join("below/link")).unwrap();
    let directory = Some(folder.path().join("below"));
    serving(&lab, ServerConfig { directory, ..plain() }, || {
        assert!(got(curl(&lab, &[], "/sub/file")) == content, "the file is another");
        for path in
            ["/", "/sub", "/none", "/link", "/../secret", "/sub/../../secret", "//etc/hosts"]
        {
            assert_eq!(status(&lab, &[], path), "404", "{path}");
        }
        for path in ["/bytes/", "/bytes/-1", "/bytes/1099511627777"] {
            assert_eq!(status(&lab, &[], path), "400", "{path}");
        }
        assert_eq!(status(&lab, &["-X", "DELETE"], "/sub/file"), "405");
        let long = format!("Long: {}", "x".repeat(9000));
        assert_eq!(status(&lab, &["-H", &long], "/sub/file"), "431");
    });
}

#[test]
fn segments_fit_the_client_and_have_right_checksums() {
    let test = "segments_fit_the_client_and_have_right_checksums";
    if !ready(test) || !need_tool(test, "tcpdump") || !need_tool(test, "tshark") {
        return;
    }
    let lab = lab("segments");
    let namespace = &lab.status().receiver_namespace;
    tool(&format!("ip -n {namespace} route replace 10.99.0.0/24 dev rx0 advmss 1000"));
    for has_chains in [false, true] {
        let witness = Witness::start(lab.status());
        let served = serving(&lab, ServerConfig { has_chains, ..plain() }, || {
            assert_pattern(&got(curl(&lab, &[], "/bytes/1000000")), 1_000_000);
        });
        let frames = witness.frames(served.sink.accepted);
        let longest = frames.iter().map(Vec::len).max();
        assert_eq!(longest, Some(14 + 20 + 20 + 1000), "the client's MSS");
        assert!(frames.len() >= 1000, "{}", frames.len());
        // All but what ARP says.
        let packets = frames.iter().filter(|frame| frame[12..14] == [8, 0]);
        assert_eq!(packets.filter(|frame| is_wrong(frame)).count(), 0);
        assert_eq!(found_wrong_by_tshark(witness.file()), "");
    }
}

/// A checksum is wrong, by our own judgement.
fn is_wrong(frame: &[u8]) -> bool {
    let layers = dissect(frame, LinkType::ETHERNET);
    [verify_network, verify_transport]
        .into_iter()
        .any(|verify| verify(frame, &layers, Level::Inner) != Verdict::Correct)
}

/// The numbers of frames with a checksum that tshark calls wrong, but for 0xffff of TCP: where the
/// kernel finishes a sum of 0 it writes that (skb_checksum_help), which is the same number (RFC
/// 1071), and tshark wants 0 (RFC 1624). One frame in 65,536 has it.
fn found_wrong_by_tshark(file: &Path) -> String {
    let output = Command::new("tshark")
        .args(["-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE", "-T", "fields"])
        .args(["-e", "frame.number", "-Y"])
        .arg(
            "ip.checksum.status == \"Bad\" || \
             (tcp.checksum.status == \"Bad\" && tcp.checksum != 0xffff)",
        )
        .arg("-r")
        .arg(file)
        .output()
        .unwrap();
    // tcpdump may be in the middle of a frame that is no longer of interest.
    String::from_utf8(output.stdout).unwrap()
}
