//! Terminals that stand still, which no run waits for.

use crate::common::*;
use nix::pty::openpty;
use nix::sys::termios::{FlowArg, tcflow};
use ringside_core::Ledger;
use ringside_testkit::need_root;
use ringside_transmit::{SenderKind, Shape, Sizes};
use rustix::process::Signal;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

/// A terminal, and a program that has its outputs there.
struct OnTerminal {
    running: Running,
    terminal: OwnedFd,
}

impl OnTerminal {
    /// Starts `command`; what it shows is collected as its standard output.
    fn start(mut command: Command) -> OnTerminal {
        let pty = openpty(None, None).unwrap();
        let end = || Stdio::from(pty.slave.try_clone().unwrap());
        command.stdin(Stdio::null()).stdout(end()).stderr(end());
        let running = Running::start_shown(command, File::from(pty.master));
        OnTerminal { running, terminal: pty.slave }
    }

    fn wait_for(&self, text: &str) {
        wait_until(&format!("{text:?}, shown: {}", self.shown()), || self.shown().contains(text));
    }

    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.running.stdout_so_far()).into_owned()
    }

    /// All that was shown, once the program has ended.
    fn finish(self) -> String {
        self.wait_for("{\"ledger\":");
        drop(self.terminal);
        self.running.finish().text()
    }

    /// As Ctrl-S and Ctrl-Q do.
    fn flow(&self, arg: FlowArg) {
        tcflow(&self.terminal, arg).unwrap();
    }
}

fn send(network: &Network, count: u64) {
    let shape = Shape::new(Sizes::fixed(200).unwrap(), 1).unwrap();
    network.send(SenderKind::Packet, &shape, count, Some(20_000));
}

#[test]
fn a_table_of_flows_gives_way_to_the_ledger_at_the_end() {
    if !need_root("a_table_of_flows_gives_way_to_the_ledger") {
        return;
    }
    let network = Network::up();
    let mut command = Command::new("env");
    command.arg("--default-signal=INT,HUP").arg(ringside()).arg("flows");
    command.args(["--netns", network.receiver(), "-Q", "in", "-i", "rx0", "--no-control"]);
    let run = OnTerminal::start(command);
    run.wait_for("listening on");
    wait_until("a table", || {
        send(&network, 10);
        // It is drawn anew: up to its first line, and everything below it away.
        run.shown().matches("F\u{1b}[J").count() >= 2
    });
    run.running.signal(Signal::INT);
    run.wait_for("the account of flows balances");
    drop(run.terminal);
    let shown = run.running.finish().text();
    let (_, at_last) = shown.rsplit_once("\u{1b}[J").unwrap();
    let ledger = at_last.find("the ledger balances").expect(at_last);
    let table = at_last.find("in all: 1 flow,").expect(at_last);
    assert!(ledger < table, "{at_last}");
}

#[test]
fn a_stopped_terminal_holds_up_no_order_and_shows_every_line_once_it_goes_on() {
    if !need_root("a_stopped_terminal_holds_up_no_order") {
        return;
    }
    let (network, folder) = (Network::up(), tempfile::tempdir().unwrap());
    let file = folder.path().join("file.pcapng");
    let ways: [(&[&str], &[&str]); 2] =
        [(&[], &["printer"]), (&["--print", "-w", arg(&file)], &["writer", "printer"])];
    let runs = ways.map(|(args, consumers)| {
        let socket = folder.path().join(consumers[0]);
        let mut command = network.capture_command();
        command.args(["-i", "rx0", "--json", "--control", arg(&socket)]).args(args);
        let run = OnTerminal::start(command);
        run.wait_for("listening on");
        (run, socket, consumers)
    });
    send(&network, 1);
    for (run, ..) in &runs {
        run.wait_for("\"number\":1,");
        run.flow(FlowArg::TCOOFF);
    }
    send(&network, 500);
    for (run, socket, _) in &runs {
        wait_until("the rates of a second", || {
            run.running.signal(Signal::USR1);
            let status = run_ringside(&["status", "--json", arg(socket)]).json_lines().remove(0);
            status["status"]["rates"].is_object()
        });
        run.running.signal(Signal::TERM);
        // It goes when the order is followed; the ledger waits for the terminal.
        wait_until("the end of the control socket", || !socket.exists());
        run.flow(FlowArg::TCOON);
    }
    for (run, _, consumers) in runs {
        let shown = run.finish();
        let mut objects = objects(&shown);
        let ledger = objects.pop().unwrap_or_else(|| panic!("{shown}"));
        let ledger: Ledger = serde_json::from_value(ledger["ledger"].clone()).unwrap();
        check_ledger(&ledger, 501);
        let names: Vec<&str> = ledger.consumers.iter().map(|found| found.name.as_str()).collect();
        assert_eq!(names, consumers);
        // Also of lines that came in pieces, as the terminal had room, nothing is drawn over.
        let numbers = objects.iter().map(|packet| packet["number"].as_u64().unwrap());
        assert!(numbers.eq(1..=ledger.consumers.last().unwrap().delivered), "{shown}");
    }
}

/// The lines of JSON that were shown, without what was drawn and erased before each.
fn objects(shown: &str) -> Vec<serde_json::Value> {
    let lines = shown.lines().filter_map(|line| line.rsplit("\x1b[2K").next());
    let objects = lines.map(str::trim).filter(|line| line.starts_with('{'));
    objects
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect()
}
