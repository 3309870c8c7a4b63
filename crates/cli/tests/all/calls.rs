//! `calls`: a call through the lab, of which as much is lost as was left out, live and recorded.

use crate::common::*;
use ringside_lab::{RECEIVER_ADDRESS, SENDER_ADDRESS};
use ringside_testkit::{need_root, need_tool};
use serde_json::Value;
use std::net::UdpSocket;

const CALL_ID: &str = "1-42@10.99.0.1";
/// RTP packets that alice numbers, and those of them that she does not send.
const NUMBERED: u16 = 1_000;
const LEFT_OUT: [u16; 7] = [10, 11, 12, 500, 700, 701, 998];

fn sdp(address: &str, port: u16) -> String {
    format!(
        "v=0\r\no=- 1 1 IN IP4 {address}\r\ns=-\r\nc=IN IP4 {address}\r\nt=0 0\r\n\
         m=audio {port} RTP/AVP 0\r\n"
    )
}

fn message(first: &str, cseq: &str, to_tag: &str, body: &str) -> String {
    let kind = if body.is_empty() { "" } else { "Content-Type: application/sdp\r\n" };
    format!(
        "{first}\r\nVia: SIP/2.0/UDP {SENDER_ADDRESS};branch=z9hG4bK1\r\n\
         From: <sip:alice@a>;tag=a\r\nTo: <sip:bob@b>{to_tag}\r\nCall-ID: {CALL_ID}\r\n\
         CSeq: {cseq}\r\n{kind}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// A host's sockets for SIP and RTP. They stay open, so that nothing is unreachable.
struct Phone<'n> {
    namespace: &'n str,
    sip: UdpSocket,
    rtp: UdpSocket,
    other: &'static str,
}

impl<'n> Phone<'n> {
    fn new(namespace: &'n str, own: &'static str, other: &'static str) -> Phone<'n> {
        let [sip, rtp] =
            inside(namespace, || [5060, 6000].map(|port| UdpSocket::bind((own, port)).unwrap()));
        Phone { namespace, sip, rtp, other }
    }

    fn say(&self, text: &str) {
        inside(self.namespace, || self.sip.send_to(text.as_bytes(), (self.other, 5060)).unwrap());
    }

    fn talk(&self, numbers: impl Iterator<Item = u16> + Send) {
        inside(self.namespace, || {
            for number in numbers {
                let mut packet = vec![0x80, 0];
                packet.extend(number.to_be_bytes());
                packet.extend((u32::from(number) * 160).to_be_bytes());
                packet.extend([0, 0, 0, 7]);
                packet.extend([0xff; 160]);
                self.rtp.send_to(&packet, (self.other, 6000)).unwrap();
            }
        });
    }
}

/// Alice calls bob, and both talk.
fn call(network: &Network) {
    let alice = Phone::new(network.sender(), SENDER_ADDRESS, RECEIVER_ADDRESS);
    let bob = Phone::new(network.receiver(), RECEIVER_ADDRESS, SENDER_ADDRESS);
    let invite = "INVITE sip:bob@b SIP/2.0";
    alice.say(&message(invite, "1 INVITE", "", &sdp(SENDER_ADDRESS, 6000)));
    bob.say(&message("SIP/2.0 180 Ringing", "1 INVITE", ";tag=b", ""));
    bob.say(&message("SIP/2.0 200 OK", "1 INVITE", ";tag=b", &sdp(RECEIVER_ADDRESS, 6000)));
    alice.say(&message("ACK sip:bob@b SIP/2.0", "1 ACK", ";tag=b", ""));
    alice.talk((0..NUMBERED).filter(|number| !LEFT_OUT.contains(number)));
    bob.talk(0..NUMBERED);
    alice.say(&message("BYE sip:bob@b SIP/2.0", "2 BYE", ";tag=b", ""));
    bob.say(&message("SIP/2.0 200 OK", "2 BYE", ";tag=b", ""));
}

/// The call in what was written, without its number.
fn checked(outcome: &Outcome) -> Value {
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    let lines = outcome.json_lines();
    let account = lines.iter().find_map(|line| line.get("account")).unwrap();
    assert_eq!(account["balances"], true, "{account}");
    let found: Vec<_> = lines.iter().filter(|line| line.get("call_id").is_some()).collect();
    assert_eq!(found.len(), 1, "{lines:?}");
    let call = found[0];
    assert_eq!((&call["call_id"], &call["ending"]), (&CALL_ID.into(), &"hung_up".into()));
    assert_eq!((&call["status"], &call["hung_up_by"]), (&200.into(), &"caller".into()));
    let lost = |at: usize| [&call["streams"][at]["expected"], &call["streams"][at]["lost"]];
    assert_eq!(lost(0), [&Value::from(NUMBERED), &LEFT_OUT.len().into()]);
    assert_eq!(lost(1), [&Value::from(NUMBERED), &0.into()]);
    assert_eq!(call["streams"].as_array().unwrap().len(), 2);
    call.clone()
}

#[test]
fn loss_is_what_was_left_out_live_and_recorded() {
    let test = "loss_is_what_was_left_out_live_and_recorded";
    if !need_root(test) {
        return;
    }
    let (network, folder) = (Network::up(), tempfile::tempdir().unwrap());
    let recording = folder.path().join("recording");
    let mut command = std::process::Command::new("env");
    command.arg("--default-signal=INT,HUP").arg(ringside());
    command.args(["calls", "--json", "--no-control", "-w", arg(&recording)]);
    command.args(["--netns", network.receiver(), "-i", "rx0"]);
    let running = Running::start(command);
    running.wait_for_stderr("listening on");
    call(&network);
    let live = checked(&running.stop());
    let stored = checked(&run_ringside(&["calls", "-r", arg(&recording), "--json"]));
    assert_eq!(live, stored, "the same packets give the same record");

    let of_one = |option: &str, file: &str| {
        let file = folder.path().join(file);
        let outcome = run_ringside(&["calls", "-r", arg(&recording), option, CALL_ID, arg(&file)]);
        assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
        file
    };
    let ladder = run_ringside(&["calls", "-r", arg(&recording), "--ladder", CALL_ID]);
    let rungs: Vec<String> = ladder.text().lines().skip(1).map(str::to_owned).collect();
    let said = ["INVITE (SDP)", "180", "200 (SDP)", "ACK", "BYE", "200"];
    assert_eq!(rungs.len(), said.len(), "{}", ladder.text());
    for (rung, said) in rungs.iter().zip(said) {
        assert!(rung.contains(said), "{rung}");
    }
    let saved = of_one("--save", "call.pcapng");
    let again = checked(&run_ringside(&["calls", "-r", arg(&saved), "--json"]));
    assert_eq!(again["streams"], stored["streams"]);
    let packets = run_clean("tshark", &["-r", arg(&saved), "-Y", "sip || udp.port == 6000"]);
    let sent = 6 + 2 * usize::from(NUMBERED) - LEFT_OUT.len();
    assert_eq!(packets.lines().count(), sent);
    let wav = std::fs::read(of_one("--audio", "call.wav")).unwrap();
    assert!(wav.starts_with(b"RIFF"));
    assert!(wav.len() >= 44 + 4 * 160 * usize::from(NUMBERED), "{} bytes", wav.len());

    let none = run_ringside(&["calls", "-r", arg(&recording), "--ladder", "unknown"]);
    assert_eq!(none.code(), Some(1), "{}", none.stderr);
}

/// Drops of the program in the driver of rx0.
fn drops(network: &Network) -> u64 {
    let text = inside(network.receiver(), || run_clean("ethtool", &["-S", "rx0"]));
    let drops = text.lines().filter_map(|line| line.trim().split_once("_xdp_drops: "));
    drops.map(|(_, number)| number.parse::<u64>().unwrap()).sum()
}

/// A datagram between the phones, as a frame to no host here.
fn frame(is_back: bool, port: u16, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 8, 0, 0x45, 0];
    out.extend((28 + payload.len() as u16).to_be_bytes());
    out.extend([0, 1, 0, 0, 64, 17, 0, 0]);
    let (from, to) = if is_back { (2, 1) } else { (1, 2) };
    out.extend([10, 99, 0, from, 10, 99, 0, to]);
    [port, port, 8 + payload.len() as u16, 0]
        .iter()
        .for_each(|word| out.extend(word.to_be_bytes()));
    out.extend(payload);
    out
}

fn media(is_back: bool, number: u16) -> Vec<u8> {
    let mut packet = vec![0x80, 0];
    packet.extend(number.to_be_bytes());
    packet.extend((u32::from(number) * 160).to_be_bytes());
    packet.extend([0, 0, 0, 7]);
    packet.extend([0xff; 160]);
    frame(is_back, 6000, &packet)
}

#[test]
fn the_kernel_counts_media_and_no_capture_sees_them() {
    let test = "the_kernel_counts_media_and_no_capture_sees_them";
    if !need_root(test) || !need_tool(test, "ethtool") {
        return;
    }
    let network = Network::up();
    let mut command = std::process::Command::new("env");
    command.arg("--default-signal=INT,HUP").arg(ringside());
    command.args(["calls", "--json", "--no-control", "--rtp", "kernel", "--backend", "af-packet"]);
    command.args(["--netns", network.receiver(), "-i", "rx0"]);
    let running = Running::start(command);
    running.wait_for_stderr("listening on");
    let say = |is_back, text: String| network.replay(&[frame(is_back, 5060, text.as_bytes())]);
    say(false, message("INVITE sip:bob@b SIP/2.0", "1 INVITE", "", &sdp(SENDER_ADDRESS, 6000)));
    say(true, message("SIP/2.0 200 OK", "1 INVITE", ";tag=b", &sdp(RECEIVER_ADDRESS, 6000)));
    say(false, message("ACK sip:bob@b SIP/2.0", "1 ACK", ";tag=b", ""));
    // The first packets are seen until the rules are there.
    let (mut first, before) = (0, drops(&network));
    wait_until("a rule for both phones", || {
        network.replay(&[media(false, first), media(true, first)]);
        first += 1;
        drops(&network) >= before + 2
    });
    let numbers = (first..first + NUMBERED).filter(|at| !LEFT_OUT.contains(&(at - first)));
    let frames: Vec<_> =
        numbers.flat_map(|number| [media(false, number), media(true, number)]).collect();
    network.replay(&frames);
    say(false, message("BYE sip:bob@b SIP/2.0", "2 BYE", ";tag=b", ""));
    let outcome = running.stop();
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    let lines = outcome.json_lines();
    let account = lines.iter().find_map(|line| line.get("account")).unwrap();
    assert_eq!(account["balances"], true, "{account}");
    let call = lines.iter().find(|line| line.get("call_id").is_some()).unwrap();
    assert_eq!((&call["ending"], &call["messages"]), (&"hung_up".into(), &4.into()));
    let streams = call["streams"].as_array().unwrap();
    assert_eq!(streams.len(), 2, "{call}");
    for stream in streams {
        let numbers = ["expected", "lost", "duplicates"].map(|name| &stream[name]);
        let expected: [Value; 3] = [(first + NUMBERED).into(), LEFT_OUT.len().into(), 0.into()];
        assert_eq!(numbers, expected.each_ref(), "{stream}");
        assert_eq!(
            (&stream["codec"], &stream["quality"]["burst_ratio"].is_number()),
            (&"PCMU".into(), &true)
        );
    }
    // What the program counted the capture has not seen, and all else it has.
    let kernel = &account["kernel"];
    let number = |name: &str| kernel[name].as_u64().unwrap();
    assert!(number("counted") >= frames.len() as u64 + 2, "{kernel}");
    assert_eq!(number("counted"), drops(&network) - before, "{kernel}");
    assert_eq!(account["calls"]["rtp_in_kernel"], kernel["counted"]);
    assert_eq!(account["calls"]["frames"].as_u64(), Some(number("frames") - number("counted")));
}
