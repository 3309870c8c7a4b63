//! Whole screens, as they stand on a terminal of 80 columns and 24 lines.

use super::*;
use crate::state::{Look, Order};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ringside_control::{OutputStatus, Rates, RingStatus, StatusParts};
use ringside_core::ledger::ByCause;
use ringside_core::{Cause, Consumer};
use ringside_report::losses;

fn drawn(state: &State, columns: u16, lines: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(columns, lines)).unwrap();
    terminal.draw(|frame| screen(frame, state)).unwrap();
    let buffer = terminal.backend().buffer();
    let rows = buffer.content.chunks(usize::from(columns)).map(|row| {
        let row: String = row.iter().map(|cell| cell.symbol()).collect();
        row.trim_end().to_owned()
    });
    rows.collect::<Vec<_>>().join("\n").trim_end().to_owned()
}

fn capture(pid: u32, lost: u64, lanes: u16) -> Capture {
    let lane = |queue: u16| LaneCounters {
        interface: "eth1".into(),
        queue,
        received: Some(1_000_000),
        taken: 1_000_000 - lost,
        filtered: if queue == 1 { None } else { Some(0) },
        dropped: ByCause::from([(Cause::KernelRingFull, lost), (Cause::ByRule, 0)]),
        ..LaneCounters::default()
    };
    let mut ledger = Ledger::from_lanes((0..lanes).map(lane).collect());
    let missed = if lost > 0 { ByCause::from([(Cause::DiskFull, 9)]) } else { ByCause::new() };
    let delivered = ledger.taken.saturating_sub(1_500);
    ledger.consumers.push(Consumer { name: "recorder".into(), delivered, late: 0, missed });
    let output = OutputStatus { kind: "directory".into(), paths: vec!["/data/eth1".into()] };
    let parts = StatusParts::new("eth1 (af-packet)".into(), vec!["eth1".into()], output);
    let mut status = parts.status(ledger);
    status.pid = pid;
    status.running_ms = 3_725_999;
    status.rates = Some(Rates { frames_per_second: 1_420_000, bits_per_second: 9_876_000_000 });
    status.ring = Some(RingStatus { lane_bytes: 400, held_bytes: vec![1, 100] });
    Capture { losses: losses(&status.ledger), status }
}

fn state(captures: Vec<Capture>) -> State {
    let mut state = State::default();
    state.see(Look { captures, errors: Vec::new() });
    state
}

#[test]
fn a_screen_says_at_once_that_nothing_is_lost() {
    let expected = include_str!("tests/whole.txt");
    assert_eq!(drawn(&state(vec![capture(4711, 0, 2)]), 80, 24), expected.trim_end());
}

#[test]
fn a_screen_says_at_once_what_is_lost_and_why() {
    let expected = include_str!("tests/lost.txt");
    assert_eq!(drawn(&state(vec![capture(4711, 12_345, 20)]), 80, 24), expected.trim_end());
}

#[test]
fn keys_choose_freeze_and_help() {
    let mut state = state(vec![capture(1, 0, 1), capture(2, 5, 1)]);
    assert!(drawn(&state, 80, 24).contains(" 1/2  eth1"));
    state.obey(Order::Move(-1));
    assert!(drawn(&state, 80, 24).contains("14 FRAMES LOST"));
    state.obey(Order::Freeze);
    state.see(Look::default());
    assert!(drawn(&state, 80, 24).contains(" FROZEN  q quit"));
    state.obey(Order::Help);
    assert!(drawn(&state, 80, 24).contains("freeze what is shown"));
    state.obey(Order::Freeze);
    state.obey(Order::Help);
    state.see(Look { errors: vec!["eth\u{1b}[2J".into()], ..Look::default() });
    let screen = drawn(&state, 80, 24);
    assert!(screen.contains("no capture runs") && !screen.contains('\u{1b}'), "{screen}");
    state.obey(Order::Move(1));
}

#[test]
fn no_screen_is_too_small_and_no_name_too_long() {
    let mut long = capture(1, u64::from(u32::MAX).min(900_000), 300);
    long.status.source = "\u{1b}[2J\n".repeat(500);
    long.status.ledger.consumers[0].delivered = u64::MAX;
    long.status.ring = Some(RingStatus { lane_bytes: 0, held_bytes: vec![usize::MAX] });
    let state = state(vec![long]);
    for (columns, lines) in [(1, 1), (2, 3), (20, 5), (80, 24), (300, 100)] {
        assert!(!drawn(&state, columns, lines).contains('\u{1b}'));
    }
}
