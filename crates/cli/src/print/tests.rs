//! Lines judged by tcpdump over real captures, and by hand for what those do not hold.
#![allow(clippy::unwrap_used)] // a test fails by panicking

use super::*;
use ringside_core::{FrameMeta, OwnedFrame, Source};
use ringside_store::FileSource;
use ringside_testkit::{capture_files, fuzz, need_tool};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Frames of one file that are compared.
const FRAMES_MAX: usize = 20_000;

fn frames(path: &Path) -> Vec<(LinkType, OwnedFrame)> {
    let mut frames = Vec::new();
    let Ok(mut source) = FileSource::open(path) else { return frames };
    // A file never makes its reader wait: nothing means that it is at its end.
    while frames.len() < FRAMES_MAX {
        let Ok(Some(batch)) = source.next_batch(Duration::ZERO) else { break };
        let part: Vec<OwnedFrame> = batch.iter().map(|frame| frame.to_owned_frame()).collect();
        drop(batch);
        let interfaces = source.interfaces();
        let link = |frame: &OwnedFrame| interfaces[frame.meta.interface.0 as usize].link_type;
        frames.extend(part.into_iter().map(|frame| (link(&frame), frame)));
    }
    frames
}

fn lines(frames: &[(LinkType, OwnedFrame)], options: &PrintOptions) -> Vec<String> {
    let mut state = PrintState::default();
    let print = |(link, frame): &(LinkType, OwnedFrame)| {
        let mut out = String::new();
        packet_line(&mut out, &frame.as_frame(), *link, options, &mut state);
        out.pop();
        out
    };
    frames.iter().map(print).collect()
}

/// tcpdump's lines, one a packet: what it prints below a line belongs to that line.
fn tcpdump(path: &Path, options: &[&str]) -> Vec<String> {
    let output =
        Command::new("tcpdump").args(["-n", "-tt"]).args(options).arg("-r").arg(path).output();
    let output = output.unwrap().stdout;
    let mut lines: Vec<String> = Vec::new();
    for line in String::from_utf8_lossy(&output).lines() {
        match lines.last_mut() {
            Some(last) if !line.starts_with(|c: char| c.is_ascii_digit()) => {
                last.push('\n');
                last.push_str(line);
            }
            _ => lines.push(line.to_owned()),
        }
    }
    lines
}

/// What is compared: TCP up to its length (tcpdump goes on into the payload), ARP, ICMP echoes.
fn comparable(line: &str) -> bool {
    let words = ["Flags [", ": tcp ", "ARP, ", "ICMP echo", "ICMP6, echo", "who-has", " is-at "];
    words.iter().any(|word| line.contains(word))
}

/// A line without its time, up to its `length N`.
fn body(line: &str) -> &str {
    let body = line.split_once(' ').map_or("", |(_, rest)| rest);
    let Some(at) = body.rfind(", length ").filter(|_| body.contains("Flags [")) else {
        return body;
    };
    let first = body.find("Flags [").and_then(|flags| body[flags..].find(", length "));
    let at = first.map_or(at, |first| first + body.find("Flags [").unwrap_or(0));
    let digits = body[at + 9..].find(|c: char| !c.is_ascii_digit()).unwrap_or(body.len() - at - 9);
    &body[..at + 9 + digits]
}

/// Equal and compared lines over the captures of ordinary traffic.
fn agreement(test: &str, ours: PrintOptions, theirs: &[&str]) -> Option<(usize, usize)> {
    if !need_tool(test, "tcpdump") {
        return None;
    }
    let (mut equal, mut compared, mut shown) = (0, 0, 0);
    for path in capture_files(test) {
        let folder = path.parent().and_then(|dir| dir.file_name()).and_then(|name| name.to_str());
        if !matches!(folder, Some("http" | "ip" | "dns" | "tls")) {
            continue;
        }
        let frames = frames(&path);
        let options = PrintOptions { time: TimeStyle::Epoch, ..ours };
        for ((ours, theirs), (link, _)) in
            lines(&frames, &options).iter().zip(tcpdump(&path, theirs)).zip(&frames)
        {
            if *link != LinkType::ETHERNET || !comparable(&theirs) {
                continue;
            }
            compared += 1;
            // tcpdump shows microseconds: ours begins with the same digits.
            let time = theirs.split(' ').next().unwrap();
            if body(ours) == body(&theirs) && ours.starts_with(time) {
                equal += 1;
            } else if shown < 20 {
                shown += 1;
                eprintln!("{}\n  ours   {ours}\n  theirs {theirs}", path.display());
            }
        }
    }
    eprintln!("{test}: {equal} of {compared} lines are tcpdump's");
    (compared > 0).then_some((equal, compared))
}

/// Measured: 10,125 of 10,126; the other is a routing header, whose addresses are not printed.
#[test]
fn lines_are_tcpdumps() {
    let test = "lines_are_tcpdumps";
    let Some((equal, compared)) = agreement(test, PrintOptions::default(), &[]) else { return };
    assert!(compared > 10_000);
    assert!(equal * 1000 >= compared * 999, "{equal} of {compared}");
}

/// Measured: 10,125 of 10,126.
#[test]
fn lines_with_link_headers_are_tcpdumps() {
    let test = "lines_with_link_headers_are_tcpdumps";
    let options = PrintOptions { link_header: true, ..PrintOptions::default() };
    let Some((equal, compared)) = agreement(test, options, &["-e"]) else { return };
    assert!(equal * 1000 >= compared * 999, "{equal} of {compared}");
}

/// Measured: 10,107 of 10,161; the others quote the packet that an ICMP error is about, which is
/// not decoded here, or list IP options.
#[test]
fn verbose_lines_are_tcpdumps() {
    let test = "verbose_lines_are_tcpdumps";
    let options = PrintOptions { verbosity: 1, ..PrintOptions::default() };
    let Some((equal, compared)) = agreement(test, options, &["-v"]) else { return };
    assert!(equal * 1000 >= compared * 990, "{equal} of {compared}");
}

/// Measured: 10,803 of 10,804 each; the other is a routing header, whose addresses are not printed.
#[test]
fn lines_of_other_styles_are_tcpdumps() {
    let test = "lines_of_other_styles_are_tcpdumps";
    let quick = PrintOptions { quick: true, ..PrintOptions::default() };
    let cases: [(&[&str], PrintOptions); 3] = [
        (&["-q"], quick),
        (&["-q", "-e"], PrintOptions { link_header: true, ..quick }),
        (&["-S"], PrintOptions { absolute: true, ..PrintOptions::default() }),
    ];
    for (theirs, ours) in cases {
        let Some((equal, compared)) = agreement(test, ours, theirs) else { return };
        assert!(equal * 1000 >= compared * 999, "{theirs:?}: {equal} of {compared}");
    }
}

/// Whole texts, with bytes below the lines and numbers before them.
#[test]
fn bytes_and_numbers_are_tcpdumps() {
    if !need_tool("bytes_and_numbers_are_tcpdumps", "tcpdump") {
        return;
    }
    let mut long = SYN.to_vec();
    let payload = b"GET / HTTP/1.0\r\nHost:\tx\r\n\r\n\xff\x00\x7f\r~\r";
    long.extend_from_slice(payload);
    long[21] += payload.len() as u8;
    // Neither its checksums nor its tag matter here.
    let frames: Vec<_> = [&SYN[..], &long].map(|bytes| (LinkType::ETHERNET, frame(bytes))).into();
    let file = tempfile::NamedTempFile::new().unwrap();
    let interface = ringside_core::SourceInterface::ethernet("eth1");
    let format = ringside_store::Format::Pcap;
    let mut writer = format.writer(file.reopen().unwrap(), &[interface]).unwrap();
    frames.iter().for_each(|(_, frame)| writer.write(&frame.as_frame()).unwrap());
    writer.finish(&[]).unwrap();
    let bytes = |dump, with_link_header| Bytes { dump, with_link_header };
    for (option, bytes) in [
        ("-A", bytes(HexDump::Ascii, false)),
        ("-AA", bytes(HexDump::Ascii, true)),
        ("-x", bytes(HexDump::Plain, false)),
        ("-xx", bytes(HexDump::Plain, true)),
        ("-X", bytes(HexDump::WithAscii, false)),
        ("-XX", bytes(HexDump::WithAscii, true)),
    ] {
        let mut command = Command::new("tcpdump");
        command.args(["-n", "-t", "-q", "-#", option, "-r"]).arg(file.path());
        let theirs = String::from_utf8(command.output().unwrap().stdout).unwrap();
        let (quick, number, time) = (true, true, TimeStyle::None);
        let options = PrintOptions { quick, number, bytes, time, ..PrintOptions::default() };
        assert_eq!(lines(&frames, &options).join("\n") + "\n", theirs, "{option}");
    }
}

fn frame(bytes: &[u8]) -> OwnedFrame {
    let wire_bytes = bytes.len() as u32;
    let timestamp = Timestamp(1_700_000_000_123_456_789);
    OwnedFrame {
        bytes: bytes.to_vec(),
        meta: FrameMeta { timestamp, wire_bytes, ..FrameMeta::default() },
    }
}

/// A SYN from 10.0.0.1:4242 to 10.0.0.2:80 in VLAN 5, with the options of a Linux host.
const SYN: [u8; 78] = [
    2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x81, 0, 0, 5, 8, 0, // Ethernet, tag
    0x45, 0, 0, 60, 0, 1, 0x40, 0, 64, 6, 0x26, 0xb9, 10, 0, 0, 1, 10, 0, 0, 2, // IPv4
    0x10, 0x92, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0xa0, 2, 0xfa, 0xf0, 0, 0, 0, 0, // TCP
    2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7,
];

fn dumped(dump: HexDump) -> Bytes {
    Bytes { dump, with_link_header: false }
}

fn print(bytes: &[u8], options: &PrintOptions) -> String {
    lines(&[(LinkType::ETHERNET, frame(bytes))], options).remove(0)
}

#[test]
fn a_syn_in_every_style() {
    let tail = "10.0.0.1.4242 > 10.0.0.2.80: Flags [S], seq 1, win 64240, \
                options [mss 1460,sackOK,TS val 1 ecr 0,nop,wscale 7], length 0";
    let plain = PrintOptions { time: TimeStyle::Epoch, ..PrintOptions::default() };
    assert_eq!(print(&SYN, &plain), format!("1700000000.123456789 IP {tail}"));
    let options = PrintOptions { time: TimeStyle::None, link_header: true, ..plain };
    let head = "02:00:00:00:00:02 > 02:00:00:00:00:01, ethertype 802.1Q (0x8100), length 78: \
                vlan 5, p 0, ethertype IPv4 (0x0800), ";
    assert_eq!(print(&SYN, &options), format!("{head}{tail}"));
    let options =
        PrintOptions { time: TimeStyle::None, bytes: dumped(HexDump::WithAscii), ..plain };
    let text = print(&SYN, &options);
    let first = "\n\t0x0000:  4500 003c 0001 4000 4006 26b9 0a00 0001  E..<..@.@.&.....";
    assert!(text.contains(first), "{text}");
    let last = "\n\t0x0030:  0000 0001 0000 0000 0103 0307            ............";
    assert!(text.ends_with(last), "{text}");
    let options = PrintOptions { time: TimeStyle::None, ..plain };
    assert_eq!(print(&SYN[..40], &options), "IP 10.0.0.1 > 10.0.0.2: [|tcp]");
    assert_eq!(print(&SYN[..20], &options), " [|ip]");
}

#[test]
fn json_says_what_the_packet_has() {
    let json = packet_json(&frame(&SYN).as_frame(), LinkType::ETHERNET, &BTreeMap::new());
    let expected = serde_json::json!({
        "time": "1700000000.123456789", "time_rfc3339": "2023-11-14T22:13:20.123456789Z",
        "interface": 0, "captured_bytes": 78, "wire_bytes": 78,
        "layers": ["ethernet", "vlan", "ipv4", "tcp"], "vlan": [5],
        "src": "10.0.0.1", "dst": "10.0.0.2", "src_port": 4242, "dst_port": 80, "protocol": 6,
        "tcp": { "flags": "S", "seq": 1, "win": 64240 }, "stop": "complete",
    });
    assert_eq!(json, expected);
    let json = packet_json(&frame(&SYN[..40]).as_frame(), LinkType::ETHERNET, &BTreeMap::new());
    assert_eq!((&json["stop"], &json["stop_layer"]), (&"truncated".into(), &"tcp".into()));
    assert!(json.get("src_port").is_none());
}

/// Whatever the bytes are, the text is printable, and the time's digits come first.
#[test]
fn no_control_byte_reaches_the_terminal() {
    let test = "no_control_byte_reaches_the_terminal";
    let frames: Vec<_> = capture_files(test).iter().flat_map(|path| frames(path)).collect();
    let seeds: Vec<Vec<u8>> = frames.into_iter().map(|(_, frame)| frame.bytes).collect();
    fuzz("print", &seeds, |bytes| {
        let links = [LinkType::ETHERNET, LinkType::RAW, LinkType::LINUX_SLL, LinkType::LINUX_SLL2];
        let link = links[bytes.len() % links.len()];
        let dumps = [HexDump::WithAscii, HexDump::Plain, HexDump::Ascii];
        let options = PrintOptions {
            verbosity: 3,
            link_header: true,
            bytes: dumped(dumps[bytes.len() % dumps.len()]),
            time: TimeStyle::Date,
            ..PrintOptions::default()
        };
        let mut out = String::new();
        let frame = frame(bytes);
        packet_line(&mut out, &frame.as_frame(), link, &options, &mut PrintState::default());
        let printable = |c: char| matches!(c, ' '..='~' | '\n' | '\t');
        assert!(out.ends_with('\n') && out.chars().all(printable), "{out:?}");
        packet_json(&frame.as_frame(), link, &BTreeMap::new());
    });
}
