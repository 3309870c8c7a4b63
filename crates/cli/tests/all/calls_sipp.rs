//! `calls`: SIPp calls through the lab. Its media are a capture of which is known what is missing,
//! double and late, and tshark is the judge of the times.

use crate::common::*;
use ringside_lab::{RECEIVER_ADDRESS, SENDER_ADDRESS};
use ringside_testkit::{need_root, need_tool};
use serde_json::Value;
use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;

/// Where the callee has its media.
const MEDIA_PORT: u16 = 6000;
/// Packets of the caller, by number; those that never come; that come twice; that come behind the
/// next.
const NUMBERED: u16 = 200;
const LOST: [u16; 6] = [20, 21, 22, 90, 150, 151];
const TWICE: [u16; 3] = [30, 100, 199];
const LATE: [u16; 4] = [40, 60, 110, 160];

/// A step of a scenario: a message with its body, one that is waited for, one that may come, time.
enum Step {
    Send(&'static str, &'static str, Option<u16>),
    Await(&'static str),
    Perhaps(&'static str),
    Pause(u32),
    Play(String),
}

use Step::{Await, Pause, Perhaps, Play, Send};

impl Step {
    /// As SIPp reads it.
    fn xml(&self, is_caller: bool) -> String {
        let what = |said: &str| match said.parse::<u16>() {
            Ok(status) => format!("response=\"{status}\""),
            Err(_) => format!("request=\"{said}\""),
        };
        match self {
            Send(first, cseq, media) => {
                let message = message(first, cseq, *media, is_caller);
                // What waits for an answer is sent again.
                let retrans =
                    if first.starts_with("ACK") || !is_caller { "" } else { " retrans=\"500\"" };
                format!("<send{retrans}><![CDATA[\n{message}\n]]></send>\n")
            }
            Await(said) => format!("<recv {}/>\n", what(said)),
            Perhaps(said) => format!("<recv {} optional=\"true\"/>\n", what(said)),
            Pause(ms) => format!("<pause milliseconds=\"{ms}\"/>\n"),
            Play(path) => {
                format!("<nop><action><exec play_pcap_audio=\"{path}\"/></action></nop>\n")
            }
        }
    }
}

/// A message, in SIPp's words for what it fills in. An empty line is before the body.
fn message(first: &str, cseq: &str, media: Option<u16>, is_caller: bool) -> String {
    let names = match is_caller {
        true => "Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]\n\
                 From: <sip:alice@[local_ip]>;tag=a[call_number]\n\
                 To: <sip:bob@[remote_ip]>[peer_tag_param]\nCall-ID: [call_id]\n"
            .to_owned(),
        false => "[last_Via:]\n[last_From:]\n\
                  To: <sip:bob@[local_ip]>;tag=b[call_number]\n[last_Call-ID:]\n"
            .to_owned(),
    };
    let body = media.map_or(String::new(), |port| {
        format!(
            "v=0\no=- 1 1 IN IP4 [local_ip]\ns=-\nc=IN IP4 [local_ip]\nt=0 0\n\
             m=audio {port} RTP/AVP 0\n"
        )
    });
    let kind = if media.is_some() { "Content-Type: application/sdp\n" } else { "" };
    format!("{first}\n{names}CSeq: {cseq}\n{kind}Content-Length: [len]\n\n{body}")
}

const INVITE: &str = "INVITE sip:bob@[remote_ip] SIP/2.0";
const ACK: &str = "ACK sip:bob@[remote_ip] SIP/2.0";

/// A call after a challenge, with media from the caller, who hangs up after an INFO.
fn talk(media: &Path) -> [Vec<Step>; 2] {
    let caller = vec![
        Send(INVITE, "1 INVITE", Some(4000)),
        Perhaps("100"),
        Await("401"),
        Send(ACK, "1 ACK", None),
        Send(INVITE, "2 INVITE", Some(4000)),
        Perhaps("100"),
        Await("180"),
        Await("200"),
        Send(ACK, "2 ACK", None),
        Play(arg(media).to_owned()),
        Await("INFO"),
        Send("BYE sip:bob@[remote_ip] SIP/2.0", "3 BYE", None),
        Await("200"),
    ];
    let callee = vec![
        Await("INVITE"),
        Send("SIP/2.0 401 Unauthorized", "1 INVITE", None),
        Await("ACK"),
        Await("INVITE"),
        Send("SIP/2.0 180 Ringing", "2 INVITE", None),
        Pause(150),
        Send("SIP/2.0 200 OK", "2 INVITE", Some(MEDIA_PORT)),
        Await("ACK"),
        Await("BYE"),
        Send("SIP/2.0 200 OK", "3 BYE", None),
    ];
    [caller, callee]
}

/// The caller gives up while it rings.
fn give_up() -> [Vec<Step>; 2] {
    let caller = vec![
        Send(INVITE, "1 INVITE", Some(4000)),
        Perhaps("100"),
        Await("180"),
        Send("CANCEL sip:bob@[remote_ip] SIP/2.0", "1 CANCEL", None),
        Await("200"),
        Await("487"),
        Send(ACK, "1 ACK", None),
    ];
    let callee = vec![
        Await("INVITE"),
        Send("SIP/2.0 180 Ringing", "1 INVITE", None),
        Await("CANCEL"),
        Send("SIP/2.0 200 OK", "1 CANCEL", None),
        Send("SIP/2.0 487 Request Terminated", "1 INVITE", None),
        Await("ACK"),
    ];
    [caller, callee]
}

fn refuse() -> [Vec<Step>; 2] {
    let caller = vec![
        Send(INVITE, "1 INVITE", Some(4000)),
        Perhaps("100"),
        Await("486"),
        Send(ACK, "1 ACK", None),
    ];
    let callee =
        vec![Await("INVITE"), Send("SIP/2.0 486 Busy Here", "1 INVITE", None), Await("ACK")];
    [caller, callee]
}

/// Two SIPp's have a call. `meanwhile` is done while they do.
fn call(
    network: &Network,
    folder: &Path,
    id: &str,
    steps: [Vec<Step>; 2],
    meanwhile: impl FnOnce(),
) {
    let [caller, callee] = [(&steps[0], true), (&steps[1], false)].map(|(steps, is_caller)| {
        let path = folder.join(format!("{id}-{is_caller}.xml"));
        let steps: String = steps.iter().map(|step| step.xml(is_caller)).collect();
        let head = "<?xml version=\"1.0\" encoding=\"ISO-8859-1\" ?>\n<!DOCTYPE scenario SYSTEM \"sipp.dtd\">\n";
        std::fs::write(&path, format!("{head}<scenario name=\"{id}\">\n{steps}</scenario>\n"))
            .unwrap();
        path
    });
    let start = |namespace: &str, own: &str, more: &[&str]| {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", namespace, "sipp", "-i", own, "-p", "5060", "-m", "1"]);
        let seconds = WAIT_MAX.as_secs().to_string();
        command.args(["-nostdin", "-timeout", &seconds, "-timeout_error"]).args(more);
        command.current_dir(folder);
        Running::start(command)
    };
    let bob = start(network.receiver(), RECEIVER_ADDRESS, &["-sf", arg(&callee)]);
    let other = format!("{RECEIVER_ADDRESS}:5060");
    let more = ["-sf", arg(&caller), "-mp", "4000", "-cid_str", id, &other];
    let alice = start(network.sender(), SENDER_ADDRESS, &more);
    meanwhile();
    for running in [alice, bob] {
        let outcome = running.finish();
        assert_eq!(outcome.code(), Some(0), "{id}: {} {}", outcome.text(), outcome.stderr);
    }
}

/// The media of the caller, as a capture for SIPp: it sends what is in it, at 1 ms each.
fn write_media(path: &Path) -> usize {
    let mut numbers = Vec::new();
    for number in (0..NUMBERED).filter(|number| !LOST.contains(number)) {
        numbers.push(number);
        numbers.extend(TWICE.contains(&number).then_some(number));
    }
    for late in LATE {
        let at = numbers.iter().position(|&number| number == late).unwrap();
        numbers.swap(at, at + 1);
    }
    let mut out =
        vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0];
    for (at, number) in (0u32..).zip(&numbers) {
        let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 8, 0, 0x45, 0, 0, 200];
        frame.extend([0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend([0x0f, 0xa0, 0x17, 0x70, 0, 180, 0, 0, 0x80, 0]);
        frame.extend(number.to_be_bytes());
        frame.extend((u32::from(*number) * 160).to_be_bytes());
        frame.extend([0, 0, 0, 7]);
        frame.extend([0xff; 160]);
        let head = [1, at * 1_000, frame.len() as u32, frame.len() as u32];
        head.iter().for_each(|word| out.extend(word.to_le_bytes()));
        out.extend(frame);
    }
    std::fs::write(path, out).unwrap();
    numbers.len()
}

/// The records of all calls by Call-ID.
fn calls(outcome: &Outcome) -> Vec<Value> {
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    let lines = outcome.json_lines();
    let account = lines.iter().find_map(|line| line.get("account")).unwrap();
    assert_eq!(account["balances"], true, "{account}");
    let mut found: Vec<_> =
        lines.into_iter().filter(|line| line.get("call_id").is_some()).collect();
    found.sort_by_key(|call| call["call"].as_u64());
    found
}

/// When tshark saw the first message of a call for which `filter` holds, in nanoseconds.
fn first_ns(recording: &Path, id: &str, filter: &str) -> u64 {
    let mut files = std::fs::read_dir(recording).unwrap().map(|entry| entry.unwrap().path());
    let file = files.find(|path| path.extension().is_some_and(|kind| kind == "pcapng")).unwrap();
    let filter = format!("sip.Call-ID == \"{id}\" && {filter}");
    let args = ["-n", "-r", arg(&file), "-Y", &filter, "-T", "fields", "-e"];
    let text = run_clean("tshark", &[&args[..], &["frame.time_epoch"]].concat());
    let (seconds, nanoseconds) = text.lines().next().unwrap().split_once('.').unwrap();
    seconds.parse::<u64>().unwrap() * 1_000_000_000 + nanoseconds.parse::<u64>().unwrap()
}

#[test]
fn sipp_calls_have_the_loss_and_the_times_that_they_had() {
    let test = "sipp_calls_have_the_loss_and_the_times_that_they_had";
    if !need_root(test) || !need_tool(test, "sipp") || !need_tool(test, "tshark") {
        return;
    }
    let (network, folder) = (Network::up(), tempfile::tempdir().unwrap());
    let (recording, media) = (folder.path().join("recording"), folder.path().join("media.pcap"));
    let packets = write_media(&media);
    let mut command = Command::new("env");
    command.arg("--default-signal=INT,HUP").arg(ringside());
    command.args(["calls", "--json", "--no-control", "-w", arg(&recording)]);
    command.args(["--netns", network.receiver(), "-i", "rx0"]);
    let running = Running::start(command);
    running.wait_for_stderr("listening on");

    let ear =
        inside(network.receiver(), || UdpSocket::bind((RECEIVER_ADDRESS, MEDIA_PORT)).unwrap());
    ear.set_read_timeout(Some(WAIT_MAX)).unwrap();
    call(&network, folder.path(), "talk@sipp", talk(&media), || {
        let mut packet = [0; 2_000];
        (0..packets).for_each(|_| assert_eq!(ear.recv(&mut packet).unwrap(), 172));
        let info = format!(
            "INFO sip:alice@{SENDER_ADDRESS} SIP/2.0\r\n\
             Via: SIP/2.0/UDP {RECEIVER_ADDRESS}:5070;branch=z9hG4bKinfo\r\n\
             From: <sip:bob@{RECEIVER_ADDRESS}>;tag=b1\r\n\
             To: <sip:alice@{SENDER_ADDRESS}>;tag=a1\r\n\
             Call-ID: talk@sipp\r\nCSeq: 1 INFO\r\nContent-Length: 0\r\n\r\n"
        );
        let mouth =
            inside(network.receiver(), || UdpSocket::bind((RECEIVER_ADDRESS, 5070)).unwrap());
        mouth.send_to(info.as_bytes(), (SENDER_ADDRESS, 5060)).unwrap();
    });
    call(&network, folder.path(), "give-up@sipp", give_up(), || {});
    call(&network, folder.path(), "refuse@sipp", refuse(), || {});

    let live = calls(&running.stop());
    let stored = calls(&run_ringside(&["calls", "-r", arg(&recording), "--json"]));
    assert_eq!(live, stored, "the same packets give the same records");
    let [talked, gave_up, refused] = live.as_slice() else { panic!("{live:?}") };

    let said = |call: &Value, names: &[&str]| -> Vec<Value> {
        names.iter().map(|&name| call[name].clone()).collect()
    };
    let fields = ["call_id", "ending", "status", "retries", "hung_up_by"];
    let expected: [Value; 5] =
        ["talk@sipp".into(), "hung_up".into(), 200.into(), 1.into(), "caller".into()];
    assert_eq!(said(talked, &fields), expected);
    let expected: [Value; 4] = ["give-up@sipp".into(), "cancelled".into(), 487.into(), 0.into()];
    assert_eq!(said(gave_up, &fields[..4]), expected);
    let expected: [Value; 4] = ["refuse@sipp".into(), "rejected".into(), 486.into(), 0.into()];
    assert_eq!(said(refused, &fields[..4]), expected);

    let streams = talked["streams"].as_array().unwrap();
    assert_eq!(streams.len(), 1, "{streams:?}");
    let fields = ["packets", "expected", "lost", "duplicates", "out_of_order", "malformed"];
    let counted = [packets, usize::from(NUMBERED), LOST.len(), TWICE.len(), LATE.len(), 0];
    assert_eq!(said(&streams[0], &fields), counted.map(Value::from), "{streams:?}");

    let at = |id, filter| first_ns(&recording, id, filter);
    let since = |from: u64, to: u64| Value::from(to - from);
    let [invite, ringing] = ["sip.Method == INVITE", "sip.Status-Code == 180"];
    let answer = "sip.Status-Code == 200 && sip.CSeq.method == INVITE";
    let id = "talk@sipp";
    assert_eq!(talked["post_dial_delay_ns"], since(at(id, invite), at(id, ringing)));
    assert_eq!(talked["ring_ns"], since(at(id, ringing), at(id, answer)));
    assert!(talked["ring_ns"].as_u64() >= Some(150_000_000), "{talked}");
    assert_eq!(talked["talk_ns"], since(at(id, answer), at(id, "sip.Method == BYE")));
    let id = "give-up@sipp";
    assert_eq!(gave_up["post_dial_delay_ns"], since(at(id, invite), at(id, ringing)));
    assert_eq!(gave_up["ring_ns"], since(at(id, ringing), at(id, "sip.Method == CANCEL")));
    assert_eq!(gave_up["talk_ns"], Value::Null);
}
