//! `ringside drop --pin`: rules that outlive their process.

use crate::common::*;
use crate::doctor::Machine;

use ringside_core::{Cause, Ledger};
use ringside_lab::LabConfig;
use ringside_netdev as netdev;
use ringside_sys::bpf::{FdArray, pinned};
use ringside_sys::netns::Namespace;
use ringside_testkit::{by_run, need_bpf_fs};
use ringside_transmit::{SenderKind, Shape, Sizes};
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Frames of one load, of 16 flows in turn: source addresses 10.16.0.0 to 10.16.0.15.
const LOAD: u64 = 16_000;
const FLOWS: u64 = 16;
/// Frames of a load from each source.
const EACH: u64 = LOAD / FLOWS;

const PINS: &str = "/sys/fs/bpf/ringside";

/// A host whose interface `rx0` is to be protected.
struct Host {
    network: Network,
    directory: tempfile::TempDir,
}

/// What `drop status -i` says of pinned rules that no process holds.
struct Told {
    ledger: Ledger,
    rules: Vec<(u64, u64)>,
    undecided: u64,
}

impl Host {
    /// The root is attached by a link, as on a card, or stands by itself.
    fn new(has_standing_root: bool) -> Host {
        let network =
            Network::with(LabConfig { xdp_pass: has_standing_root, ..LabConfig::default() });
        Host { network, directory: tempfile::tempdir().unwrap() }
    }

    fn command(&self, rules: &str, more: &[&str]) -> Command {
        let file = self.directory.path().join("drop.rules");
        std::fs::write(&file, rules).unwrap();
        let mut command = Command::new("env");
        command.arg("--default-signal=INT,HUP").arg(ringside());
        command.args(["drop", "-i", "rx0", "--netns", self.network.receiver(), "--json"]);
        command.args(["--rules", arg(&file)]).args(more);
        command
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("control.sock")
    }

    /// Starts a process that pins rules, and waits until they are in force.
    fn start(&self, rules: &str) -> Running {
        let command = self.command(rules, &["--pin", "--control", arg(&self.socket())]);
        let running = Running::start(command);
        running.wait_for_stderr("listening on");
        running
    }

    /// Pins rules and leaves them.
    fn pin(&self, rules: &str) {
        let outcome = Running::start(self.command(rules, &["--pin", "--detach"])).finish();
        assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
        assert!(outcome.stderr.contains("drop off -i rx0"), "{}", outcome.stderr);
    }

    fn rules(&self, command: &[&str]) {
        let socket = self.socket();
        let outcome = run_ringside(&[&["rules"], command, &["--at", arg(&socket)]].concat());
        assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    }

    fn send(&self, count: u64, rate: u64) {
        let shape = Shape::new(Sizes::fixed(64).unwrap(), FLOWS as u32).unwrap();
        let sent = self.network.send(SenderKind::Live, &shape, count, Some(rate));
        assert_eq!(sent.handed, count);
    }

    fn send_load(&self) {
        self.send(LOAD, 100_000);
    }

    fn at(&self, command: &str, more: &[&str]) -> Outcome {
        let at = ["drop", command, "-i", "rx0", "--netns", self.network.receiver()];
        run_ringside(&[&at, more].concat())
    }

    /// What the pins say; the ledger balances.
    fn status(&self) -> Told {
        let outcome = self.at("status", &["--json"]);
        assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
        let lines = outcome.json_lines();
        let pinned = lines[0].get("pinned").unwrap_or_else(|| panic!("{}", lines[0]));
        let ledger: Ledger = serde_json::from_value(pinned["ledger"].clone()).unwrap();
        assert_eq!(ledger.balance(), Ok(()), "{ledger:#?}");
        let of = |value: &serde_json::Value, field: &str| value[field].as_u64().unwrap();
        let rules = lines.iter().filter_map(|line| line.get("rule"));
        let rules = rules.map(|rule| (of(rule, "id"), of(rule, "frames"))).collect();
        let default = lines.iter().find_map(|line| line.get("default")).unwrap();
        Told { ledger, rules, undecided: of(default, "frames") }
    }

    /// Waits until `frames` were received, and tells what became of them.
    fn after(&self, frames: u64) -> Told {
        wait_until("frames that are judged", || self.status().ledger.received >= Some(frames));
        let told = self.status();
        assert_eq!(told.ledger.received, Some(frames));
        told
    }

    fn ledger_of(&self, running: Running) -> Ledger {
        let outcome = running.stop();
        assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
        outcome.ledger()
    }

    fn programs(&self) -> usize {
        let device = || netdev::by_name("rx0").unwrap().unwrap().xdp_programs.len();
        inside(self.network.receiver(), device)
    }

    /// Where the pins of the interface are.
    fn pins(&self) -> Option<PathBuf> {
        let receiver = Namespace::open(self.network.receiver()).unwrap().identity().unwrap();
        let all = std::fs::read_dir(PINS).into_iter().flatten().flatten();
        let own = format!("drop-{receiver}-");
        all.map(|entry| entry.path())
            .find(|path| path.file_name().unwrap().to_str().unwrap().starts_with(&own))
    }

    fn sets(&self) -> Vec<PathBuf> {
        sets(&self.pins().expect("something is pinned"))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // Where a test has failed something may be pinned.
        if self.pins().is_some() {
            self.at("off", &[]);
        }
    }
}

/// The command in mount and process namespaces of its own, from which no BPF file system is seen.
fn in_container(command: &Command) -> Command {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<String> = words.map(|word| format!("'{}'", word.to_str().unwrap())).collect();
    let mut other = Command::new("unshare");
    other.args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c"]);
    other.arg(format!("umount /sys/fs/bpf && exec {}", words.join(" ")));
    other
}

fn sets(pins: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(pins).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("set-")).collect()
}

/// However the process ends, the rules go on, and every frame is counted where all can look.
#[test]
fn rules_outlive_their_process() {
    if !need_bpf_fs("rules_outlive_their_process") {
        return;
    }
    for (signal, has_standing_root) in
        [(Signal::KILL, false), (Signal::INT, false), (Signal::KILL, true)]
    {
        let host = Host::new(has_standing_root);
        let before = host.programs();
        let rules = "1: src ip 10.16.0.0/30 => drop\n2: src ip 10.16.0.4 => pass\ndefault pass";
        let running = host.start(rules);
        host.rules(&["add", "9: src ip 10.16.0.8/29 => drop", "10: src ip 10.16.0.5 => count"]);
        host.send_load();
        host.rules(&["del", "10"]);
        running.signal(signal);
        assert_eq!(running.finish().code(), (signal == Signal::INT).then_some(0));
        assert_eq!(host.programs(), 1, "{signal:?}");
        host.send_load();
        let told = host.after(2 * LOAD);
        assert_eq!(told.rules, [(1, 8 * EACH), (2, 2 * EACH), (9, 16 * EACH)], "{signal:?}");
        assert_eq!(told.undecided, 6 * EACH);
        assert_eq!(told.ledger.dropped[&Cause::ByRule], 24 * EACH);
        assert_eq!(told.ledger.passed, 8 * EACH);
        let text = host.at("status", &[]).text();
        assert!(text.contains("pinned") && text.contains("10.16.0.8/29"), "{text}");

        let off = host.at("off", &[]);
        assert_eq!(off.code(), Some(0), "{}", off.stderr);
        assert!(off.stderr.contains("24,000"), "{}", off.stderr);
        assert_eq!((host.programs(), host.pins()), (before, None));
        assert_eq!(host.at("status", &[]).code(), Some(1));
        assert_eq!(host.at("off", &[]).code(), Some(1));
    }
}

/// Whatever comes and goes meanwhile, a frame meets the old rules or the new ones.
#[test]
fn others_replace_them_and_no_frame_slips_through() {
    if !need_bpf_fs("others_replace_them_and_no_frame_slips_through") {
        return;
    }
    let host = Host::new(false);
    host.pin("1: udp => drop\ndefault pass");
    const FRAMES: u64 = 60_000;
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| host.send(FRAMES, FRAMES / 3));
        let mut rounds = 0u32;
        while !sender.is_finished() {
            match rounds % 3 {
                0 => host.pin("1: udp => drop\n2: tcp => count\ndefault pass"),
                1 => {
                    let running = host.start("1: udp => drop\n3: icmp => drop");
                    host.rules(&["add", "udp dst port 1 => drop"]);
                    running.signal(Signal::KILL);
                    running.finish();
                }
                _ => {
                    let running = host.start("1: udp => drop");
                    let file = host.directory.path().join("drop.rules");
                    host.rules(&["load", arg(&file)]);
                    host.ledger_of(running).balance().unwrap();
                }
            }
            assert_eq!(host.sets().len(), 1);
            rounds += 1;
        }
        assert!(rounds > 2, "{rounds} rounds");
        sender.join().unwrap();
    });
    let told = host.after(FRAMES);
    assert_eq!(told.rules[0], (1, FRAMES), "the rule stayed as it was all the time");
    assert_eq!((told.ledger.dropped[&Cause::ByRule], told.ledger.passed), (FRAMES, 0));

    // Another rule of that id begins anew, and so does what a dry run counts.
    host.pin("1: src ip 10.16.0.0 => drop\ndefault take");
    host.send_load();
    let told = host.after(FRAMES + LOAD);
    assert_eq!((told.rules, told.undecided), (vec![(1, EACH)], 15 * EACH));
    let outcome =
        Running::start(host.command("1: udp => drop", &["--pin", "--detach", "--dry-run"]));
    assert_eq!(outcome.finish().code(), Some(0));
    host.send_load();
    let told = host.after(LOAD);
    assert_eq!((told.rules, told.ledger.passed), (vec![(1, LOAD)], LOAD));
}

#[test]
fn captures_come_and_go_next_to_them() {
    if !need_bpf_fs("captures_come_and_go_next_to_them") {
        return;
    }
    for (has_standing_root, more) in [
        (false, &["--backend", "af-xdp"][..]),
        (true, &["--backend", "xdp-ring"]),
        (false, &["--backend", "xdp-ring", "--rules-in-driver"]),
    ] {
        let host = Host::new(has_standing_root);
        let file = host.directory.path().join("capture.rules");
        std::fs::write(&file, "1: udp => take\ndefault drop").unwrap();
        let args = [&["-i", "rx0", "--rules", arg(&file)], more].concat();
        host.pin("1: src ip 10.16.0.0/29 => drop\ndefault pass");
        let capture = host.network.capture(&args);
        host.send_load();
        host.after(LOAD);
        let taken = capture.stop().checked_ledger(LOAD / 2);
        assert_eq!(taken.taken, LOAD / 2, "{more:?}");
        host.send_load();
        let told = host.after(2 * LOAD);
        assert_eq!(told.rules, [(1, LOAD)], "{more:?}");

        // Rules that end while a capture goes on leave its root alone.
        let capture = host.network.capture(&args);
        assert_eq!(host.at("off", &[]).code(), Some(0));
        assert_eq!((host.programs(), host.pins()), (1, None));
        host.send_load();
        // The root of a capture that was there first stays too.
        host.pin("1: udp => drop");
        let taken = capture.stop().checked_ledger(LOAD);
        assert_eq!((taken.taken, host.programs()), (LOAD, 1), "{more:?}");
        host.send_load();
        assert_eq!(host.after(LOAD).rules, [(1, LOAD)], "{more:?}");
    }
}

/// `ip netns exec` mounts another /sys, and a container has its own.
#[test]
fn who_does_not_see_the_pins_leaves_them_alone() {
    if !need_bpf_fs("who_does_not_see_the_pins_leaves_them_alone") {
        return;
    }
    let host = Host::new(false);
    host.pin("1: src ip 10.16.0.0/29 => drop\ndefault pass");
    let mut command = host.network.capture_command();
    let count = (LOAD / 2).to_string();
    command.args(["--json", "--count", "-i", "rx0", "--backend", "af-xdp", "-c", &count]);
    let capture = Running::start(in_container(&command));
    capture.wait_for_stderr("listening on");
    host.send_load();
    assert_eq!(capture.finish().checked_ledger(LOAD / 2).taken, LOAD / 2);
    host.send_load();
    assert_eq!(host.after(2 * LOAD).rules, [(1, LOAD)]);
    let mut command = Command::new(ringside());
    command.args(["drop", "status"]);
    let unseen = Running::start(in_container(&command)).finish();
    assert!(unseen.code() == Some(1) && unseen.stderr.contains("nobody knows"), "{unseen:?}");
    let program = ringside();
    let inside = ["netns", "exec", host.network.receiver(), arg(&program), "drop"];
    let status = run("ip", &[&inside[..], &["status", "-i", "rx0"]].concat());
    assert!(status.text().contains("16,000"), "{}", status.text());
    let off = run("ip", &[&inside[..], &["off", "-i", "rx0"]].concat());
    assert_eq!((off.code(), host.programs(), host.pins()), (Some(0), 0, None), "{}", off.stderr);
}

#[test]
fn two_do_not_protect_one_interface_and_who_asks_is_told_what_to_do() {
    if !need_bpf_fs("two_do_not_protect_one_interface_and_who_asks_is_told_what_to_do") {
        return;
    }
    let host = Host::new(true);
    let refused = |more: &[&str], word: &str| {
        let outcome = Running::start(host.command("tcp => drop", more)).finish();
        assert_eq!(outcome.code(), Some(2), "{more:?}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(word), "{more:?}: {}", outcome.stderr);
    };
    let running = host.start("1: udp => drop");
    refused(&[], "replace them with --pin");
    refused(&["--pin"], "a process holds the rules");
    refused(&["--detach"], "--pin");
    // The process ends, and then what it pinned: one command, by the default socket.
    running.signal(Signal::KILL);
    running.finish();
    refused(&[], &format!("drop off -i rx0 --netns {}", host.network.receiver()));
    let running = Running::start(host.command("1: udp => drop", &["--pin"]));
    running.wait_for_stderr("listening on");
    let off = host.at("off", &[]);
    assert_eq!(off.code(), Some(0), "{}", off.stderr);
    assert!(off.stderr.contains("has ended") && off.stderr.contains("no rules are pinned"));
    assert_eq!(running.finish().code(), Some(0));
    assert_eq!(host.pins(), None);

    // Without a BPF file system, and without a process.
    let outcome = Running::start(in_container(&host.command("tcp => drop", &["--pin"]))).finish();
    assert_eq!(outcome.code(), Some(2), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("mount -t bpf bpf /sys/fs/bpf"), "{}", outcome.stderr);
    host.pin("1: udp => drop");
    let line = format!("mount -t tmpfs none /run/ringside && exec {} rules list", arg(&ringside()));
    let outcome = run("unshare", &["-m", "sh", "-c", &line]);
    assert_eq!(outcome.code(), Some(2), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("no process that could change them"), "{}", outcome.stderr);
    let doctor = ["--fix", "-i", "rx0", "--netns", host.network.receiver()];
    assert!(Machine::new().run(&doctor).text().contains("with pinned rules"));
    host.send_load();
    host.after(LOAD);
}

/// A process is killed at any moment of its start: the next one finds nothing in its way, and
/// leaves nothing behind.
#[test]
fn what_killed_processes_leave_is_cleaned() {
    if !need_bpf_fs("what_killed_processes_leave_is_cleaned") {
        return;
    }
    let host = Host::new(false);
    // The moments are the same; a short run tries every third of them.
    for (number, step) in (0..24).step_by(by_run(3, 1)).enumerate() {
        let running = Running::start(host.command("1: udp => drop", &["--pin", "--no-control"]));
        std::thread::sleep(Duration::from_millis(8 * step));
        running.signal(Signal::KILL);
        running.finish();
        if number % 4 == 3 {
            host.pin("1: udp => drop\n2: tcp => drop");
            assert_eq!((host.sets().len(), host.programs()), (1, 1));
            assert_eq!(host.status().rules.len(), 2);
        }
        if number % 8 == 7 {
            assert_eq!(host.at("off", &[]).code(), Some(0));
            assert_eq!(host.pins(), None);
            wait_until("the root is gone", || host.programs() == 0);
        }
    }
    // A root that stays with nothing in its places.
    for by_off in [true, false] {
        host.pin("1: udp => drop");
        let pins = host.pins().unwrap();
        let leaves = FdArray::from_fd(pinned(&pins.join("leaves")).unwrap()).unwrap();
        (0..2).for_each(|position| leaves.clear(position).unwrap());
        drop(leaves);
        assert_eq!(host.at("status", &[]).code(), Some(1));
        if by_off {
            assert_eq!(host.at("off", &[]).code(), Some(0));
        } else {
            let running = Running::start(host.command("1: udp => drop", &[]));
            running.wait_for_stderr("listening on");
            host.send_load();
            let outcome = running.stop();
            assert_eq!(outcome.checked_ledger(LOAD).dropped[&Cause::ByRule], LOAD);
        }
        assert_eq!(host.pins(), None);
        wait_until("the root is gone", || host.programs() == 0);
    }
    // The interface goes; a root that stood by itself goes without a trace of its own.
    for has_standing_root in [false, true] {
        let gone = Host::new(has_standing_root);
        gone.pin("1: udp => drop");
        let pins = gone.pins().unwrap();
        let receiver = gone.network.receiver().to_owned();
        assert!(run("ip", &["-n", &receiver, "link", "del", "rx0"]).status.success());
        wait_until("what is pinned is seen to be of no use", || {
            host.pin("1: udp => drop");
            !pins.exists()
        });
    }
}
