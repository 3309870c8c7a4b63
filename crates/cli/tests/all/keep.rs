//! What a capture keeps, end to end: rules count and take exactly what they are for, what is cut is
//! said by the file and the ledger, and what cannot be is refused with the fix.

use crate::common::folder::{Folder, rule_totals};
use crate::common::verifier::shape;
use crate::common::*;
use ringside_core::{Cause, Ledger};
use ringside_lab::LabConfig;
use ringside_testkit::{by_run, capture_files, capture_sample, need_root, need_tool};
use ringside_transmit::{SenderKind, Shape, Stamp};
use std::path::Path;

/// Frames of a live run, in ten flows: a tenth in each.
fn load() -> u64 {
    by_run(60_000, 200_000)
}

const FLOWS: u64 = 10;

/// Frames a second, also where another program uses the machine.
const RATE: u64 = 100_000;

/// Rings that ride out stalls of a busy machine: nothing may be lost.
const PATIENT: [&str; 4] = ["--kernel-ring-size", "256MiB", "--ring-size", "64MiB"];

/// Bytes of each frame, and those of one that are kept by each rule that takes some.
const FRAME_BYTES: usize = 200;
const RULES: &str = "\
1: src port 1024 => take, cap 60
2: src port 1025-1026 => take
3: src port 1027 => drop
4: src port 1028 => count
5: src port 1029 => take, keep 0-41,50-57,190-
6: src port 1030 => take, sample 1/10
7: src port 1031 payload \"RINGSIDE\" => count
";

/// What of frame `sequence` is kept, if it is taken.
fn kept(shape: &Shape, stamp: Stamp) -> Vec<u8> {
    let frame = shape.frame(stamp.stream, stamp.sequence);
    match stamp.sequence % FLOWS {
        0 => frame[..60].to_vec(),
        5 => [&frame[..42], &frame[50..58], &frame[190..]].concat(),
        _ => frame,
    }
}

/// The number of a frame, also of one of which pieces are kept.
fn stamp(bytes: &[u8]) -> Stamp {
    let moved = [&bytes[..42], b"RINGSIDE", &bytes[42..]].concat();
    Stamp::read(bytes).or_else(|| Stamp::read(&moved)).unwrap()
}

/// Captures numbered frames by the rules; every rule counts exactly its flows, and the files hold
/// exactly what was taken.
fn numbered_frames(args: &[&str], default: &str, queues: u16, judges: u64) {
    let network = Network::with(LabConfig { queues, ..LabConfig::default() });
    let folder = Folder::new();
    let rules = folder.add("some.rules", format!("{RULES}default {default}\n"));
    let recording = folder.path("recording");
    let own = ["-i", "rx0", "--rules", arg(&rules), "-w", arg(&recording)];
    let running = network.capture(&[&own[..], &PATIENT, args].concat());
    let shape = shape(&[FRAME_BYTES as u16], FLOWS as u32);
    let kind = if queues > 1 { SenderKind::Packet } else { SenderKind::Live };
    let sent = network.send(kind, &shape, load(), Some(RATE));
    assert_eq!(sent.handed, load(), "{sent:?}");
    let outcome = running.stop();
    let ledger = outcome.checked_ledger(load());
    assert_eq!(ledger.lost(), 0, "{ledger:#?}");

    let flow = load() / FLOWS;
    let (rules, default_counts) = rule_totals(&outcome);
    let sampled = rules[&6].0;
    assert!((flow / 10..flow / 10 + judges).contains(&sampled), "{sampled} sampled");
    let expected = [flow, 2 * flow, flow, flow, flow, sampled, flow];
    for (id, frames) in (1..).zip(expected) {
        assert_eq!(rules[&id], (frames, frames * FRAME_BYTES as u64), "rule {id}");
    }
    let taken = 4 * flow + sampled;
    assert_eq!((ledger.taken, default_counts.0), (taken, load() - taken - flow));
    let by_rule = ledger.dropped[&Cause::ByRule];
    match default {
        "pass" => assert_eq!((by_rule, ledger.filtered), (flow, Some(load() - taken - flow))),
        _ => assert_eq!((by_rule, ledger.filtered), (load() - taken, Some(0))),
    }
    check_files(&recording, &ledger, &shape);
}

/// Each frame of a recording is what the rules keep of it, and what is missing is counted.
fn check_files(recording: &Path, ledger: &Ledger, shape: &Shape) {
    let (mut frames, mut cut_frames, mut cut_bytes) = (0, 0, 0);
    let notices = for_each_frame(&[recording.to_owned()], |frame, interfaces| {
        let stamp = stamp(frame.bytes);
        assert_eq!(frame.bytes, kept(shape, stamp), "{stamp:?}");
        assert_eq!(frame.meta.wire_bytes as usize, FRAME_BYTES);
        let description = &interfaces[frame.meta.interface.0 as usize].description;
        let says = description.contains("kept bytes 0-41,50-57,190-");
        assert_eq!(says, stamp.sequence % FLOWS == 5, "{description}");
        let missing = FRAME_BYTES - frame.bytes.len();
        frames += 1;
        cut_frames += u64::from(missing > 0);
        cut_bytes += missing as u64;
    });
    assert!(notices.is_empty(), "{notices:?}");
    let sum = |count: fn(&ringside_core::LaneCounters) -> u64| -> u64 {
        ledger.lanes.iter().map(count).sum()
    };
    assert_eq!(frames, ledger.taken);
    assert_eq!((sum(|lane| lane.cut_frames), sum(|lane| lane.cut_bytes)), (cut_frames, cut_bytes));
    assert_eq!(cut_frames, 2 * load() / FLOWS);
}

#[test]
fn rules_in_a_packet_socket_capture_are_exact() {
    if need_root("rules_in_a_packet_socket_capture_are_exact") {
        numbered_frames(&["--backend", "af-packet"], "pass", 1, 1);
        numbered_frames(&["--backend", "af-packet", "--queues", "2"], "drop", 1, 2);
    }
}

#[test]
fn rules_behind_libpcap_are_exact() {
    if need_root("rules_behind_libpcap_are_exact") {
        numbered_frames(&["--backend", "pcap"], "pass", 1, 1);
    }
}

#[test]
fn rules_behind_the_driver_are_exact_with_several_threads_too() {
    if need_root("rules_behind_the_driver_are_exact_with_several_threads_too") {
        numbered_frames(&["--backend", "xdp-ring"], "drop", 1, 1);
        numbered_frames(&["--backend", "af-xdp"], "drop", 2, 2);
        numbered_frames(&["--backend", "af-xdp", "--threads", "3"], "drop", 1, 3);
    }
}

#[test]
fn the_filter_is_asked_before_the_rules() {
    if !need_root("the_filter_is_asked_before_the_rules") {
        return;
    }
    let (network, folder) = (Network::up(), Folder::new());
    let rules = folder.add("some.rules", RULES);
    let args = ["-i", "rx0", "--backend", "af-packet", "--rules", arg(&rules)];
    let running = network.capture(&[&args[..], &PATIENT, &["src port 1024 or 1028"]].concat());
    let frames = 10_000;
    network.send(SenderKind::Live, &shape(&[200], FLOWS as u32), frames, Some(RATE));
    let outcome = running.stop();
    let ledger = outcome.checked_ledger(frames);
    let (rules, default) = rule_totals(&outcome);
    let flow = frames / FLOWS;
    assert_eq!((rules[&1].0, rules[&2].0, rules[&4].0, default.0), (flow, 0, flow, flow));
    assert_eq!((ledger.taken, ledger.filtered), (flow, Some(frames - flow)));
}

#[test]
fn a_worker_that_dies_leaves_a_ledger_that_says_what_rules_turned_away_is_unknown() {
    if !need_root("a_worker_that_dies_with_rules") {
        return;
    }
    let (network, folder) = (Network::up(), Folder::new());
    let rules = folder.add("some.rules", RULES);
    let recording = folder.path("recording");
    let args = ["-i", "rx0", "--backend", "af-packet", "--rules", arg(&rules), "-w"];
    let running = network.capture(&[&args[..], &[arg(&recording)], &PATIENT].concat());
    network.send(SenderKind::Live, &shape(&[200], FLOWS as u32), 50_000, Some(RATE));
    running.signal_worker(rustix::process::Signal::KILL);
    let outcome = running.finish();
    assert_eq!(outcome.code(), Some(2), "{}", outcome.stderr);
    let ledger = outcome.ledger();
    assert_eq!((ledger.balance(), ledger.filtered), (Ok(()), None), "{ledger:#?}");
    assert!(outcome.stderr.contains("rules turned away"), "{}", outcome.stderr);
    let mut found = 0;
    for_each_frame(&[recording], |_, _| found += 1);
    assert_eq!((found, ledger.consumers[0].delivered), (ledger.taken, ledger.taken));
}

/// `ringside rules test` and a capture of the same file by the same rules, as JSON lines.
#[test]
fn captures_of_files_count_as_rules_test_does() {
    let folder = Folder::new();
    let rules = folder.add(
        "some.rules",
        "0: payload \"\\r\\n\\r\\n\" => count\n\
         1: tcp port 80 => take, cap 96\n2: udp => take, keep 14-33,40-\n3: ip6 => drop\n\
         4: not tcp => count\n5: http.method GET|POST => count\n\
         6: length 600- => take, sample 1/3\n7: inner (udp) => count\n\
         8: vlan any => drop\ndefault take\n",
    );
    let files = capture_files("captures_of_files_count_as_rules_test_does");
    for file in files.iter().step_by(9) {
        let test =
            run_ringside(&["rules", "test", "-r", arg(file), "--rules", arg(&rules), "--json"]);
        let own = ["capture", "--count", "--json", "--no-keeper"];
        let inputs = ["-r", arg(file), "--rules", arg(&rules)];
        let capture = run_ringside(&[&own[..], &inputs].concat());
        let ledger = capture.ledger();
        assert_eq!(ledger.balance(), Ok(()), "{}: {ledger:#?}", file.display());
        if test.code() == Some(2) {
            // A damaged file, which the capture says too, after the frames before the damage.
            assert_eq!(capture.code(), Some(2), "{}", file.display());
            continue;
        }
        assert_eq!(capture.code(), Some(0), "{}: {}", file.display(), capture.stderr);
        let is_rule =
            |line: &&serde_json::Value| line.get("rule").or(line.get("default")).is_some();
        let (capture, test) = (capture.json_lines(), test.json_lines());
        let lines: Vec<_> = capture.iter().filter(is_rule).collect();
        assert_eq!(lines, test.iter().collect::<Vec<_>>(), "{}", file.display());
    }
}

/// Other programs read what was cut: whole lengths, and which bytes are kept.
#[test]
fn other_programs_see_the_cut() {
    let test = "other_programs_see_the_cut";
    let all = ["tshark", "capinfos", "tcpdump"].iter().all(|tool| need_tool(test, tool));
    let files = capture_files(test);
    let Some(file) = files
        .iter()
        .find(|file| arg(file).ends_with("http/zeek-get.pcap"))
        .or(files.iter().find(|file| arg(file).contains("/http/")))
    else {
        return;
    };
    if !all {
        return;
    }
    let folder = Folder::new();
    let text =
        "1: tcp src port 80 => take, cap 70\n2: tcp => take, keep 0-85,90-119\ndefault take\n";
    let rules = folder.add("some.rules", text);
    let out = folder.path("out.pcapng");
    let outcome =
        run_ringside(&["capture", "-r", arg(file), "--rules", arg(&rules), "-w", arg(&out)]);
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    let fields = |path: &Path, fields: &[&str]| -> Vec<String> {
        let names = fields.iter().flat_map(|field| ["-e", *field]);
        let args: Vec<&str> = ["-r", arg(path), "-T", "fields"].into_iter().chain(names).collect();
        run_clean("tshark", &args).lines().map(str::to_owned).collect()
    };
    assert_eq!(fields(&out, &["frame.len"]), fields(file, &["frame.len"]));
    assert_eq!(fields(&out, &["tcp.seq_raw"]), fields(file, &["tcp.seq_raw"]));
    let own = ["frame.cap_len", "frame.len", "tcp.srcport", "frame.interface_description"];
    for line in fields(&out, &own) {
        let line: Vec<&str> = line.split('\t').collect();
        let (captured, wire): (u32, u32) = (line[0].parse().unwrap(), line[1].parse().unwrap());
        let description = line.get(3).copied().unwrap_or_default();
        match line[2] {
            "80" => assert_eq!((captured, description), (wire.min(70), ""), "{line:?}"),
            "" => assert_eq!((captured, description), (wire, ""), "{line:?}"),
            _ => {
                let kept = wire.min(86) + wire.clamp(90, 120) - 90;
                assert_eq!((captured, description), (kept, "ringside: kept bytes 0-85,90-119"));
            }
        }
    }
    assert!(run_clean("capinfos", &[arg(&out)]).contains("ringside: kept bytes 0-85,90-119"));
    let lines = run_clean("tcpdump", &["-n", "-r", arg(&out)]).lines().count();
    assert_eq!(lines, fields(file, &["frame.number"]).len());
    // A copy says it too.
    let copy = folder.path("copy.pcapng");
    let read = run_ringside(&["read", "-r", arg(&out), "-w", arg(&copy)]);
    assert_eq!(read.code(), Some(0), "{}", read.stderr);
    assert_eq!(fields(&copy, &own), fields(&out, &own));
}

/// tshark finds every handshake, and no record of application data.
#[test]
fn tls_is_kept_up_to_its_application_data() {
    let test = "tls_is_kept_up_to_its_application_data";
    let files = capture_sample(test, 8);
    if files.is_empty() || !need_tool(test, "tshark") {
        return;
    }
    let folder = Folder::new();
    let out = folder.path("out.pcapng");
    let frames = |file: &Path, filter: &str| {
        judged("tshark", &["-Y", filter, "-T", "fields", "-e", "frame.number", "-r"], file)
    };
    let application = "tls.record.content_type == 23 || tls.record.opaque_type == 23";
    let mut cut = 0;
    for file in files.iter().filter(|file| arg(file).contains("/tls/")) {
        let args = ["capture", "-r", arg(file), "--flow-cutoff", "tls", "-w", arg(&out)];
        let outcome = run_ringside(&args);
        assert_eq!(outcome.code(), Some(0), "{}: {}", file.display(), outcome.stderr);
        let shakes = "tls.handshake.type";
        assert_eq!(frames(&out, shakes), frames(file, shakes), "{}", file.display());
        assert_eq!(frames(&out, application), "", "{}", file.display());
        cut += frames(file, application).lines().count();
    }
    assert!(cut > 0, "there is application data in these files");
}

#[test]
fn what_cannot_be_is_refused_with_the_fix() {
    let folder = Folder::new();
    let add = |name: &str, text: &str| arg(&folder.add(name, text)).to_owned();
    let (keep, redirect) =
        (add("keep", "any => take, keep 5-9"), add("redirect", "udp => redirect eth9"));
    let (digest, wrong) = (add("digest", "4: udp => digest"), add("wrong", "upd => take"));
    let pass = add("pass", "udp => take");
    let file = add("two.pcap", "");
    let pcap = arg(&folder.path("out.pcap")).to_owned();
    let directory = arg(&folder.path("out")).to_owned();
    let cases: [(&[&str], &str); 11] = [
        (&["-i", "lo", "--rules", &redirect], "write `take`, `drop` or `pass`"),
        (&["-i", "lo", "--rules", &digest], "rule 4: `digest`"),
        (&["-i", "lo", "--rules", &wrong], "did you mean `udp`"),
        (&["-i", "lo", "--rules", &pass, "--backend", "af-xdp"], "write `default drop`"),
        (&["-i", "lo", "--rules", &pass, "--backend", "xdp-ring"], "--backend af-packet"),
        (&["-i", "lo", "--rules", &keep, "-w", &pcap], "use `cap`"),
        (&["-i", "lo", "--rules", &keep, "-w", &directory, "--on", "udp"], "leave out --on"),
        (&["-i", "lo", "--adaptive-cap", "96-1514"], "--write"),
        (&["-i", "lo", "-w", &directory, "--adaptive-cap", "20-50"], "as 96-1514"),
        (
            &["-i", "lo", "--backend", "af-xdp", "--threads", "2", "--flow-cutoff", "1k"],
            "--queues 2",
        ),
        (&["-r", &file, "-i", "lo"], "cannot be used with"),
    ];
    let is_root = need_root("what_cannot_be_is_refused_with_the_fix");
    for (args, fix) in cases {
        if !is_root && args.contains(&&*keep) {
            continue;
        }
        let outcome = run_ringside(&[&["capture"], args].concat());
        assert_eq!(outcome.code(), Some(2), "{args:?}: {}", outcome.stderr);
        let said = outcome.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(fix), "{args:?}: {said}");
    }
}

#[test]
fn what_is_read_is_not_written_over() {
    let folder = Folder::new();
    let Some(file) = capture_files("what_is_read_is_not_written_over").into_iter().next() else {
        return;
    };
    let copy = folder.path("copy.pcapng");
    let args = ["capture", "-r", arg(&file), "-w", arg(&copy), "--no-keeper"];
    assert_eq!(run_ringside(&args).code(), Some(0));
    let before = std::fs::read(&copy).unwrap();
    let outcome = run_ringside(&["capture", "-r", arg(&copy), "-w", arg(&copy), "--no-keeper"]);
    assert_eq!(outcome.code(), Some(2), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("name another file"), "{}", outcome.stderr);
    assert_eq!(std::fs::read(&copy).unwrap(), before);
}
