//! Runs by configuration files.

use crate::common::folder::Folder;
use crate::common::*;
use ringside_testkit::need_root;
use ringside_transmit::{SenderKind, Shape, Sizes};
use std::os::unix::net::UnixDatagram;
use std::process::Command;

/// Frames of the load.
const LOAD: u64 = 2_000;

/// `ringside --config FILE ARGS`.
fn by_file(folder: &Folder, text: &str, args: &[&str]) -> Command {
    let file = folder.add("run.toml", text);
    let mut command = Command::new(ringside());
    command.arg("--config").arg(file).args(args);
    command
}

/// What a service manager's socket received, in the order of receipt.
fn heard(manager: &UnixDatagram) -> Vec<String> {
    manager.set_nonblocking(true).unwrap();
    let mut bytes = [0; 256];
    let messages = std::iter::from_fn(|| manager.recv(&mut bytes).ok().map(|n| bytes[..n].into()));
    messages.map(|message: Vec<u8>| String::from_utf8(message).unwrap()).collect()
}

#[test]
fn a_capture_by_a_file_records_and_says_once_that_it_is_ready() {
    if !need_root("config::a_capture_by_a_file_records") {
        return;
    }
    for own in ["", "no-keeper = true\n"] {
        let (network, folder) = (Network::up(), Folder::new());
        let manager = UnixDatagram::bind(folder.path("notify")).unwrap();
        let text = format!(
            "[capture]\ninterface = ['rx0']\nnetns = '{}'\ndirection = 'in'\nwrite = '{}'\n{own}\
             control = '{}'\nfilter = 'udp'\njson = true\npackets = 1\n",
            network.receiver(),
            folder.path("data").display(),
            folder.path("control").display(),
        );
        // The file would end it with the first frame.
        let frames = LOAD.to_string();
        let mut command = by_file(&folder, &text, &["capture", "--packets", &frames]);
        command.env("NOTIFY_SOCKET", folder.path("notify"));
        let running = Running::start(command);
        running.wait_for_stderr("listening on");
        let mut said = Vec::new();
        wait_until("the service manager hears of it", || {
            said.extend(heard(&manager));
            !said.is_empty()
        });
        let shape = Shape::new(Sizes::fixed(64).unwrap(), 16).unwrap();
        network.send(SenderKind::Live, &shape, LOAD, Some(50_000));
        let outcome = running.finish();
        assert_eq!(outcome.code(), Some(0), "{outcome:?}");
        assert_eq!(outcome.ledger().consumers[0].delivered, LOAD, "{outcome:?}");
        said.extend(heard(&manager));
        assert_eq!(said, ["READY=1"]);
        let read = run_ringside(&["read", "-r", arg(&folder.path("data"))]);
        assert_eq!(read.packets() as u64, LOAD);
    }
}

#[test]
fn what_is_wrong_with_a_file_is_said_with_its_places() {
    let folder = Folder::new();
    let text = "[read]\nred = 'x'\n[capture]\nqueues = 'few'\n";
    let mut command = by_file(&folder, text, &["read", "-r", "x"]);
    let outcome = command.output().unwrap();
    let file = folder.path("run.toml").display().to_string();
    let said = String::from_utf8(outcome.stderr).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(outcome.status.code(), Some(2), "{said}");
    assert_eq!(
        lines[0],
        format!("ringside: {file}:2:1: `red` is no option of `ringside read`; is `read` meant?")
    );
    assert!(lines[1].starts_with(&format!("{file}:4:10: queues: invalid value 'few'")), "{said}");
    let check = run_ringside(&["config", "check", &file]);
    assert_eq!((check.code(), check.stderr.lines().count()), (Some(1), 2), "{check:?}");
}

#[test]
fn a_file_is_checked_and_shown_as_command_lines() {
    let folder = Folder::new();
    let file =
        folder.add("f", "[capture]\nwrite = ['/a b', '/c']\n[find]\nread = 'd'\ndedup = true");
    let check = run_ringside(&["config", "check", arg(&file)]);
    assert_eq!(check.code(), Some(0));
    assert_eq!(
        check.stderr,
        "capture: 1 option; the command line must give --interface <IF>\nfind: 2 options\n"
    );
    let print = run_ringside(&["config", "print", arg(&file)]);
    assert_eq!(
        print.text(),
        "ringside capture '--write=/a b' --write=/c\nringside find --read=d --dedup\n"
    );
    let template = run_ringside(&["config", "template", "lab", "up"]);
    assert!(template.text().starts_with("[lab.up]\n\n# "), "{template:?}");
    let unknown = run_ringside(&["config", "template", "lab", "sideways"]);
    assert_eq!(unknown.code(), Some(2));
}
