//! Packets that are printed as they come, and what of the ledger is theirs.

use crate::common::*;
use crate::faults::support::{Helper, printed_ledger};
use ringside_core::{Cause, Ledger};
use ringside_testkit::{need_root, need_tool};
use ringside_transmit::{SenderKind, Shape, Sizes};
use rustix::process::{Pid, Signal, kill_process};
use std::io::Read;
use std::process::{Command, Stdio};

/// Frames a second: no machine loses any.
const RATE: u64 = 20_000;

fn send(network: &Network, count: u64) -> u64 {
    send_sized(network, 200, count)
}

fn send_sized(network: &Network, bytes: u16, count: u64) -> u64 {
    let shape = Shape::new(Sizes::fixed(bytes).unwrap(), 16).unwrap();
    let sent = network.send(SenderKind::Live, &shape, count, Some(RATE));
    assert_eq!(sent.handed, count, "{sent:?}");
    sent.handed
}

/// `ringside capture ARGS`, listening; standard output as the command says.
fn start(mut command: Command, args: &[&str]) -> Running {
    command.args(args).stdin(Stdio::null());
    let running = Running::start_directed(command);
    running.wait_for_stderr("listening on");
    running
}

fn start_piped(network: &Network, args: &[&str]) -> Running {
    let mut command = network.capture_command();
    command.stdout(Stdio::piped());
    start(command, args)
}

/// The missed and delivered frames of a consumer; all of `taken` are one of these.
fn line_of<'l>(ledger: &'l Ledger, name: &str) -> &'l ringside_core::Consumer {
    let found = ledger.consumers.iter().find(|consumer| consumer.name == name);
    found.unwrap_or_else(|| panic!("no {name}: {ledger:#?}"))
}

#[test]
fn lines_appear_while_packets_come_and_are_those_of_tcpdump() {
    let test = "lines_appear_while_packets_come";
    if !need_root(test) || !need_tool(test, "tcpdump") {
        return;
    }
    let (network, folder) = (Network::up(), tempfile::tempdir().unwrap());
    let file = folder.path().join("all.pcap");
    let alone = start_piped(&network, &["-i", "rx0", "-n", "-t"]);
    let next_to = start_piped(&network, &["-i", "rx0", "-n", "-t", "-w", arg(&file), "--print"]);
    for burst in 1..=3 {
        send(&network, 5);
        for running in [&alone, &next_to] {
            wait_until("the lines of a burst", || {
                let lines = String::from_utf8(running.stdout_so_far()).unwrap();
                lines.lines().count() >= 5 * burst
            });
        }
    }
    let (alone, next_to) = (alone.stop(), next_to.stop());
    let printed = run_clean("tcpdump", &["-n", "-t", "-r", arg(&file)]);
    assert_eq!(printed.lines().count(), 15);
    for (outcome, consumers) in [(alone, &["printer"][..]), (next_to, &["writer", "printer"])] {
        assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
        assert_eq!(outcome.text(), printed);
        let ledger = printed_ledger(&outcome.stderr);
        let names: Vec<&str> = ledger.consumers.iter().map(|found| found.name.as_str()).collect();
        assert_eq!(names, consumers);
        assert!(ledger.consumers.iter().all(|consumer| consumer.delivered == 15), "{ledger:#?}");
    }
}

#[test]
fn as_many_as_asked_for_are_printed_in_the_order_of_time() {
    if !need_root("as_many_as_asked_for_are_printed") {
        return;
    }
    let network = Network::up();
    for lanes in ["1", "4"] {
        let running = start_piped(&network, &["-i", "rx0", "-tt", "--queues", lanes, "-c", "700"]);
        send(&network, 1_000);
        let outcome = running.finish();
        assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
        let text = outcome.text();
        let stamps: Vec<&str> = text.lines().map(|line| line.split(' ').next().unwrap()).collect();
        assert_eq!(stamps.len(), 700, "{lanes} lanes");
        let ledger = printed_ledger(&outcome.stderr);
        let printer = line_of(&ledger, "printer");
        // A lane that had no turn for longer than the merge waits gives frames that are late, and
        // counted so.
        let steps_back = stamps.windows(2).filter(|pair| pair[1] < pair[0]).count() as u64;
        assert!(steps_back <= printer.late, "{lanes} lanes: {steps_back} of {}", printer.late);
        assert_eq!((ledger.taken, printer.delivered), (700, 700));
    }
}

#[test]
fn json_has_an_object_a_packet_and_the_ledger_as_last_line() {
    if !need_root("json_has_an_object_a_packet") {
        return;
    }
    let network = Network::up();
    let running = start_piped(&network, &["-i", "rx0", "--json"]);
    let sent = send(&network, 50);
    running.wait_for_stdout("\"number\":50,");
    let outcome = running.stop();
    let ledger = outcome.checked_ledger(sent);
    assert_eq!(line_of(&ledger, "printer").delivered, sent);
    let lines = outcome.json_lines();
    assert_eq!(lines.len(), 51);
    for (index, line) in lines[..50].iter().enumerate() {
        assert_eq!(line["number"], index as u64 + 1);
        assert_eq!(line["wire_bytes"], 200);
    }
}

#[test]
fn where_packets_go_elsewhere_nothing_is_printed_unless_asked_for() {
    if !need_root("where_packets_go_elsewhere") {
        return;
    }
    let (network, folder) = (Network::up(), tempfile::tempdir().unwrap());
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("rules"), "any => digest\ndefault take\n").unwrap();
    let ways: [&[&str]; 5] = [
        &["--count"],
        &["-w", &path("recording")],
        &["-w", &path("one.pcapng")],
        &["--share", &path("share")],
        &["--rules", &path("rules"), "--digests", &path("digests")],
    ];
    for way in ways {
        for prints in [false, true] {
            if prints && way[0] == "--count" {
                continue;
            }
            let print: &[&str] = if prints { &["--print"] } else { &[] };
            let running = start_piped(&network, &[&["-i", "rx0", "-c", "20"], way, print].concat());
            send(&network, 20);
            let outcome = running.finish();
            assert_eq!(outcome.code(), Some(0), "{way:?}: {}", outcome.stderr);
            let expected = if prints { 20 } else { 0 };
            assert_eq!(outcome.text().lines().count(), expected, "{way:?}");
            assert_eq!(printed_ledger(&outcome.stderr).taken, 20);
        }
    }
}

#[test]
fn a_reader_that_had_enough_ends_the_run_in_order() {
    if !need_root("a_reader_of_lines_that_had_enough") {
        return;
    }
    let network = Network::up();
    for json in [false, true] {
        let (mut from, to) = std::io::pipe().unwrap();
        let mut command = network.capture_command();
        command.stdout(to);
        let running = start(command, if json { &["-i", "rx0", "--json"] } else { &["-i", "rx0"] });
        send(&network, 100);
        from.read_exact(&mut [0; 1_000]).unwrap();
        drop(from);
        send(&network, 100);
        let outcome = running.finish();
        assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
        let ledger = printed_ledger(&outcome.stderr);
        let printer = line_of(&ledger, "printer");
        assert!(printer.missed[&Cause::PipeClosed] > 0, "{ledger:#?}");
    }
}

/// Waits until a file holds `count` frames, while `running` goes on.
fn wait_for_frames(running: &Running, file: &std::path::Path, count: u64) {
    wait_until("frames in the file", || {
        assert!(!running.is_over(), "it ended, and said: {}", running.stderr_so_far());
        let mut frames = 0;
        for_each_frame(&[file.to_owned()], |_, _| frames += 1);
        frames == count
    });
}

#[test]
fn a_recording_goes_on_when_nothing_can_be_printed_any_more() {
    if !need_root("a_recording_goes_on_when_nothing_can_be_printed") {
        return;
    }
    let (network, folder) = (Network::up(), tempfile::tempdir().unwrap());
    let file = folder.path().join("file.pcapng");
    for (cause, status) in [(Cause::PipeClosed, 0), (Cause::DiskFull, 2)] {
        let mut command = network.capture_command();
        if cause == Cause::DiskFull {
            command.stdout(std::fs::File::create("/dev/full").unwrap());
        } else {
            command.stdout(std::io::pipe().unwrap().1);
        }
        let running = start(command, &["-i", "rx0", "--print", "-w", arg(&file)]);
        for burst in 1..=3 {
            send(&network, 100);
            wait_for_frames(&running, &file, 100 * burst);
        }
        let outcome = running.stop();
        assert_eq!(outcome.code(), Some(status), "{}", outcome.stderr);
        let complaints = outcome.stderr.matches("printing stopped: ").count();
        assert_eq!(complaints, usize::from(status == 2), "{}", outcome.stderr);
        let ledger = printed_ledger(&outcome.stderr);
        assert_eq!(line_of(&ledger, "writer").delivered, 300, "{ledger:#?}");
        assert_eq!(line_of(&ledger, "printer").missed[&cause], 300, "{ledger:#?}");
    }
}

/// Far more than a small ring and the pipe hold.
const MANY: u64 = 30_000;

#[test]
fn a_stopped_reader_misses_lines_that_are_counted_and_no_recording_waits_for_it() {
    let test = "a_stopped_reader_misses_lines";
    if !need_root(test) {
        return;
    }
    let (network, folder) = (Network::up(), tempfile::tempdir().unwrap());
    let (read, recording) = (folder.path().join("read"), folder.path().join("recording"));
    let (from, to) = std::io::pipe().unwrap();
    let reader = Helper::cat(from, &read);
    let pid = Pid::from_child(&reader.0);
    let mut command = network.capture_command();
    command.stdout(to);
    let own = ["-i", "rx0", "-t", "--ring-size", "4MiB", "--print", "-w", arg(&recording)];
    let running = start(command, &own);
    kill_process(pid, Signal::STOP).unwrap();
    let sent = send_sized(&network, 512, MANY);
    wait_until("the end of the recording's work", || {
        let mut frames = 0;
        for_each_frame(&files_in(&recording), |_, _| frames += 1);
        frames == sent
    });
    kill_process(pid, Signal::CONT).unwrap();
    let outcome = running.stop();
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    let ledger = printed_ledger(&outcome.stderr);
    assert_eq!((ledger.received, ledger.taken), (Some(sent), sent));
    assert_eq!(line_of(&ledger, "recorder").delivered, sent, "{ledger:#?}");
    let printer = line_of(&ledger, "printer");
    assert!(printer.missed[&Cause::Overtaken] > 0, "{ledger:#?}");
    reader.finish();
    let lines = std::fs::read_to_string(read).unwrap().lines().count() as u64;
    assert_eq!(lines, printer.delivered);
}

#[test]
fn a_printer_that_dies_leaves_its_line_of_the_ledger_to_the_keeper() {
    if !need_root("a_printer_that_dies") {
        return;
    }
    let network = Network::up();
    let running = start_piped(&network, &["-i", "rx0", "--json"]);
    let sent = send(&network, 50);
    running.wait_for_stdout("\"number\":50,");
    running.signal_worker(Signal::KILL);
    let outcome = running.finish();
    assert_eq!(outcome.code(), Some(2), "{}", outcome.stderr);
    let ledger = outcome.ledger();
    check_ledger(&ledger, sent);
    assert_eq!(line_of(&ledger, "printer").name, "printer");
}

#[test]
fn options_of_tcpdump_and_dumpcap_are_taken() {
    if !need_root("options_of_tcpdump_and_dumpcap") {
        return;
    }
    let (network, folder) = (Network::up(), tempfile::tempdir().unwrap());
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("filter"), "udp and\nip\n").unwrap();
    let (filter, out) = (path("filter"), path("out"));
    let plain: &[&str] = &["-n", "-t", "-l", "-U", "-v", "-S", "-Q", "inout", "-B", "2048"];
    let cases: [(&[&str], u64); 6] = [
        (&[plain, &["-c", "3", "-Z", "root"]].concat(), 3),
        (&["-a", "packets:4", "-f", "udp"], 4),
        (&["-c", "5", "-F", &filter], 5),
        (&["-c", "6", "-q", "-e", "-#", "-A", "udp"], 6),
        (&["-c", "7", "-a", "duration:60", "-Q", "in", "-xx"], 7),
        (&["-c", "8", "-w", &out, "-b", "duration:60", "-b", "filesize:100000"], 8),
    ];
    for (args, count) in cases {
        let running = start_piped(&network, &[&["-i", "rx0"], args].concat());
        send(&network, 10);
        let outcome = running.finish();
        assert_eq!(outcome.code(), Some(0), "{args:?}: {}", outcome.stderr);
        assert_eq!(printed_ledger(&outcome.stderr).taken, count, "{args:?}");
        let lines = outcome.text();
        let printed = lines.lines().filter(|line| line.contains("UDP, length")).count() as u64;
        assert_eq!(printed, if args.contains(&"-w") { 0 } else { count }, "{args:?}: {lines}");
    }
    for (args, found) in [(["-F", &filter], Some(0)), (["-f", "tcp"], Some(1))] {
        let outcome = run_ringside(&[&["read", "-r", &out], &args[..]].concat());
        assert_eq!(outcome.code(), found, "{args:?}: {}", outcome.stderr);
    }
}

#[test]
fn interfaces_have_numbers() {
    if !need_root("interfaces_have_numbers") {
        return;
    }
    let network = Network::up();
    let list = |args: &[&str]| {
        let mut command = network.capture_command();
        command.arg("-D").args(args);
        let outcome = Running::start(command).finish();
        assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
        outcome
    };
    let text = list(&[]).text();
    let line = text.lines().find(|line| line.contains(".rx0 ")).unwrap_or_else(|| panic!("{text}"));
    let (number, rest) = line.split_once('.').unwrap();
    assert_eq!(rest, "rx0 [Up, Running]");
    assert!(text.lines().last().unwrap().ends_with(".any (all of them)"), "{text}");
    let json = list(&["--json"]).json_lines();
    assert_eq!(json.len(), text.lines().count());
    assert!(json.iter().any(|line| line["name"] == "rx0" && line["up"] == true), "{json:?}");
    let running = start_piped(&network, &["-i", number, "-c", "2"]);
    send(&network, 2);
    let outcome = running.finish();
    assert!(outcome.stderr.contains("listening on rx0 "), "{}", outcome.stderr);
    assert_eq!(outcome.text().lines().count(), 2);
    for wrong in ["0", "77"] {
        let mut command = network.capture_command();
        command.args(["-i", wrong]);
        let outcome = Running::start(command).finish();
        assert_eq!(outcome.code(), Some(2));
        assert!(outcome.stderr.contains("-D"), "{}", outcome.stderr);
    }
}

/// Pings from the receiver's side, which are sent and answered.
fn ping(network: &Network, count: u64) {
    let count = count.to_string();
    let args = ["netns", "exec", network.receiver(), "ping", "-q", "-i", "0.01", "-c", &count];
    let outcome = run("ip", &[&args[..], &[ringside_lab::SENDER_ADDRESS]].concat());
    assert!(outcome.status.success(), "{outcome:?}");
}

#[test]
fn both_directions_are_shown_and_counted_unless_asked_otherwise() {
    let test = "both_directions_are_shown";
    if !need_root(test) || !need_tool(test, "ping") {
        return;
    }
    let network = Network::up();
    for (backend, args, each) in [
        ("af-packet", &[][..], [3, 3]),
        ("af-packet", &["--queues", "2"], [3, 3]),
        ("af-packet", &["-Q", "in"], [0, 3]),
        ("pcap", &[], [3, 3]),
    ] {
        let own = ["capture", "--netns", network.receiver(), "-i", "rx0", "--backend", backend];
        let mut command = Command::new(ringside());
        command.args(own).args(args).arg("icmp").stdout(Stdio::piped());
        let running = start(command, &[]);
        ping(&network, 3);
        let outcome = running.stop();
        assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
        let text = outcome.text();
        let count = |word: &str| text.lines().filter(|line| line.contains(word)).count() as u64;
        let found = [count("echo request"), count("echo reply")];
        assert_eq!(found, each, "{backend} {args:?}: {text}");
        assert!(!outcome.stderr.contains("inbound only"), "{}", outcome.stderr);
        // libpcap does not count what its filter turns away.
        if backend == "af-packet" {
            let ledger = printed_ledger(&outcome.stderr);
            assert_eq!((ledger.taken, ledger.lost()), (each[0] + each[1], 0));
        }
    }
}

#[test]
fn of_any_each_line_names_its_interface() {
    let test = "of_any_each_line_names_its_interface";
    if !need_root(test) || !need_tool(test, "tcpdump") {
        return;
    }
    let (network, folder) = (Network::up(), tempfile::tempdir().unwrap());
    let file = folder.path().join("any.pcapng");
    let capture = |args: &[&str]| {
        let own = ["capture", "--netns", network.receiver(), "-i", "any", "-t", "icmp"];
        let mut command = Command::new(ringside());
        command.args(own).args(args).stdout(Stdio::piped());
        let running = start(command, &[]);
        ping(&network, 2);
        let outcome = running.stop();
        assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
        outcome
    };
    let inbound = capture(&[]);
    let lines: Vec<String> = inbound.text().lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines.iter().all(|line| line.starts_with("rx0   In  IP 10.99.0.1 > ")), "{lines:?}");
    let note = "any: inbound only; --direction inout shows both";
    assert!(inbound.stderr.contains(note), "{}", inbound.stderr);
    let both = capture(&["--direction", "inout", "--json"]).json_lines();
    assert_eq!(both.len(), 5, "four packets and the ledger: {both:?}");
    assert!(both[..4].iter().all(|line| line["interface_name"] == "rx0"), "{both:?}");
    let printed = capture(&["--direction", "inout", "-w", arg(&file), "--print"]).text();
    assert_eq!(printed.lines().filter(|line| line.starts_with("rx0   Out IP 10.99")).count(), 2);
    // It takes the names of the indexes from where it runs.
    let args = ["netns", "exec", network.receiver(), "tcpdump", "-n", "-t", "-r", arg(&file)];
    assert_eq!(run("ip", &args).text(), printed);
}

#[test]
fn the_choice_of_a_backend_is_explained_on_request() {
    if !need_root("the_choice_of_a_backend_is_explained") {
        return;
    }
    let network = Network::up();
    for (args, explained) in [(&[][..], false), (&["-v"], true), (&["--backend", "auto"], true)] {
        let running = start_piped(&network, &[&["-i", "rx0", "-c", "1"], args].concat());
        send(&network, 1);
        let outcome = running.finish();
        let said = outcome.stderr.contains("rx0: af-packet, not af-xdp");
        assert_eq!(said, explained, "{args:?}: {}", outcome.stderr);
    }
}
