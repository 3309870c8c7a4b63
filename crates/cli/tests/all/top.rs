//! `ringside top` on a terminal of 80 columns and 24 lines.

use crate::common::folder::Folder;
use crate::common::*;
use nix::pty::{Winsize, openpty};
use ringside_testkit::need_root;
use ringside_transmit::{SenderKind, Shape, Sizes};
use std::fs::File;
use std::io::Write;
use std::process::{Command, Stdio};

/// Frames of the load.
const LOAD: u64 = 4_321;

#[test]
fn a_terminal_shows_what_a_capture_takes_until_a_key_ends_it() {
    if !need_root("a_terminal_shows_what_a_capture_takes_until_a_key_ends_it") {
        return;
    }
    let (network, folder) = (Network::up(), Folder::new());
    let control = folder.path("control.sock");
    let run = network.capture(&["-i", "rx0", "--control", arg(&control)]);
    let shape = Shape::new(Sizes::fixed(64).unwrap(), 16).unwrap();
    assert_eq!(network.send(SenderKind::Live, &shape, LOAD, Some(50_000)).handed, LOAD);
    // A number that still grew would be drawn digit by digit, never at once.
    wait_until("all frames to be taken", || {
        let status = run_ringside(&["status", "--json", arg(&control)]);
        status.text().contains(&format!("\"taken\":{LOAD}"))
    });

    let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    let pty = openpty(Some(&size), None).unwrap();
    let end = || Stdio::from(pty.slave.try_clone().unwrap());
    let mut command = Command::new(ringside());
    command.args(["top", arg(&control)]).stdin(end()).stdout(end()).stderr(end());
    let mut keys = File::from(pty.master.try_clone().unwrap());
    let top = Running::start_shown(command, File::from(pty.master));
    let shown = || String::from_utf8_lossy(&top.stdout_so_far()).into_owned();
    // Of blanks nothing is written: words are looked for one by one.
    for word in ["CAPTURING,", "4,321", "READER", "rx0"] {
        wait_until(word, || shown().contains(word));
    }
    keys.write_all(b"q").unwrap();
    drop(pty.slave);
    assert_eq!(top.finish().code(), Some(0));
    run.stop().checked_ledger(LOAD);
}

#[test]
fn without_a_terminal_or_a_capture_it_says_so() {
    let outcome = run_ringside(&["top"]);
    assert_eq!(outcome.code(), Some(2), "{outcome:?}");
    assert!(outcome.stderr.contains("status --watch --json"), "{outcome:?}");
}
