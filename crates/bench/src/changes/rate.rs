//! What changes cost: frames that are judged in a second, without changes and with them.

use super::super::TOOL_CPU;
use super::super::defence::Defence;
use super::super::flood::{self, Pages};
use super::super::load;
use super::super::median;
use super::super::place::Workspace;
use super::changer::{Changer, RuleKind};
use anyhow::{Context, bail, ensure};
use ringside_lab::Lab;
use ringside_sys::thread;
use ringside_terminal::signals::StopSignal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// From the start of the load until it is counted.
const LEAD: Duration = Duration::from_millis(300);
/// Longest load beyond what is counted, should the thread that ends it be held up.
const SLACK: Duration = Duration::from_secs(10);

/// How long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spec {
    pub(super) rounds: u32,
    /// Of each part of a round.
    pub(super) duration: Duration,
}

/// Changes a second that are asked for.
pub(super) fn asked_per_sec(kind: RuleKind) -> u32 {
    match kind {
        RuleKind::Exact => 1000,
        RuleKind::Wildcard => 100,
    }
}

/// One part of a round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Window {
    /// What was changed; nothing if none.
    pub(super) kind: Option<RuleKind>,
    pub(super) frames_per_sec: f64,
    pub(super) changes_per_sec: f64,
}

/// All parts, in order: each with changes lies between two without.
#[derive(Clone, Debug, Default)]
pub(super) struct Rates {
    pub(super) windows: Vec<Window>,
}

/// The figures of one kind of changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RateRow {
    pub(super) kind: RuleKind,
    pub(super) rounds: usize,
    /// Changes a second, the median of the windows; the two that follow are medians too.
    pub(super) changes_per_sec: f64,
    pub(super) frames_per_sec: f64,
    pub(super) undisturbed_per_sec: f64,
    /// Of the mean of the windows without changes before and behind: the median, and the least.
    pub(super) kept_percent: f64,
    pub(super) kept_percent_min: f64,
}

impl Rates {
    /// Of all windows with changes of that kind.
    pub(super) fn row(&self, kind: RuleKind) -> RateRow {
        let around: Vec<[Window; 3]> = self
            .windows
            .windows(3)
            .filter_map(|three| three.first_chunk().copied())
            .filter(|[_, window, _]| window.kind == Some(kind))
            .collect();
        let quiet = |[before, _, behind]: &[Window; 3]| {
            (before.frames_per_sec + behind.frames_per_sec) / 2.0
        };
        let kept = |three: &[Window; 3]| 100.0 * three[1].frames_per_sec / quiet(three);
        let of = |value: &dyn Fn(&[Window; 3]) -> f64| median(around.iter().map(value).collect());
        RateRow {
            kind,
            rounds: around.len(),
            changes_per_sec: of(&|three| three[1].changes_per_sec),
            frames_per_sec: of(&|three| three[1].frames_per_sec),
            undisturbed_per_sec: of(&quiet),
            kept_percent: of(&kept),
            kept_percent_min: around.iter().map(kept).fold(f64::NAN, f64::min),
        }
    }
}

/// Measures under one load as fast as it goes, of which every frame is dropped: by the default, or
/// by a rule that has come.
///
/// # Errors
/// The network, the system or the tool refused; a frame was not counted.
pub(super) fn measure(
    lab: &Lab,
    rules: &str,
    spec: Spec,
    files: &Workspace,
    stop: &StopSignal,
) -> anyhow::Result<Rates> {
    let (file, socket) = (files.path().join("rate.rules"), files.path().join("rate.sock"));
    std::fs::write(&file, format!("{rules}default drop\n"))
        .with_context(|| format!("writing {}", file.display()))?;
    let defence = Defence::ringside_at(lab, &file, Some(&socket), stop)?;
    let mut changer = Changer::connect(&socket)?;
    let before = changer.frames()?;
    let is_over = AtomicBool::new(false);
    let is_stopped = || is_over.load(Ordering::Relaxed) || stop.is_set();
    let longest = LEAD + spec.duration * (4 * spec.rounds + 1) * 2 + SLACK;
    let (windows, report) = std::thread::scope(|scope| {
        let sender = scope.spawn(|| flood::send(lab, Pages::Written, None, longest, &is_stopped));
        let windows = scope.spawn(|| windows(&mut changer, spec, stop)).join();
        is_over.store(true, Ordering::Relaxed);
        (windows, sender.join())
    });
    load::check(stop)?;
    let windows = windows.unwrap_or_else(|_| bail!("the thread that changes rules died"))?;
    let report = report.unwrap_or_else(|_| bail!("the sender's thread died"))?;
    let judged = changer.frames()? - before;
    ensure!(judged >= report.handed, "of {} frames only {judged} were judged", report.handed);
    drop(changer);
    defence.end()?;
    Ok(Rates { windows })
}

/// All windows, on the tool's CPU.
fn windows(changer: &mut Changer, spec: Spec, stop: &StopSignal) -> anyhow::Result<Vec<Window>> {
    thread::pin_to_cpu(TOOL_CPU)?;
    thread::use_precise_timers();
    std::thread::sleep(LEAD);
    let round = [None, Some(RuleKind::Exact), None, Some(RuleKind::Wildcard)];
    let all = (0..spec.rounds).flat_map(|_| round).chain([None]);
    all.map(|kind| {
        load::check(stop)?;
        window(changer, kind, spec.duration)
    })
    .collect()
}

fn window(
    changer: &mut Changer,
    kind: Option<RuleKind>,
    duration: Duration,
) -> anyhow::Result<Window> {
    let (from, frames_before) = (Instant::now(), changer.frames()?);
    let begun = Instant::now();
    let changes = match kind {
        Some(kind) => change_for(changer, kind, duration)?,
        None => {
            std::thread::sleep(duration);
            0
        }
    };
    let changed = begun.elapsed();
    let (until, frames) = (Instant::now(), changer.frames()?);
    // Both counts are taken about as long after they were asked for.
    let seconds = (until - from).as_secs_f64();
    Ok(Window {
        kind,
        frames_per_sec: (frames - frames_before) as f64 / seconds,
        changes_per_sec: f64::from(changes) / changed.as_secs_f64(),
    })
}

/// Rules of one flow after the other come and go, as many as are asked for if the other side keeps
/// up; a change that is late is made up for. At the end all are gone.
fn change_for(changer: &mut Changer, kind: RuleKind, duration: Duration) -> anyhow::Result<u32> {
    let begun = Instant::now();
    let gap = Duration::from_secs(1) / asked_per_sec(kind);
    let mut changes = 0;
    while begun.elapsed() < duration || changes % 2 == 1 {
        let flow = changes / 2 % flood::SOURCES;
        if changes % 2 == 0 {
            changer.add(kind, flow)?;
        } else {
            changer.delete()?;
        }
        changes += 1;
        std::thread::sleep((gap * changes).saturating_sub(begun.elapsed()));
    }
    Ok(changes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(kind: Option<RuleKind>, frames_per_sec: f64, changes_per_sec: f64) -> Window {
        Window { kind, frames_per_sec, changes_per_sec }
    }

    #[test]
    fn a_rate_is_compared_with_the_windows_around_it() {
        let (exact, wildcard) = (Some(RuleKind::Exact), Some(RuleKind::Wildcard));
        let windows = vec![
            window(None, 100.0, 0.0),
            window(exact, 99.0, 990.0),
            window(None, 120.0, 0.0),
            window(wildcard, 60.0, 100.0),
            window(None, 80.0, 0.0),
            window(exact, 45.0, 1000.0),
            window(None, 100.0, 0.0),
        ];
        let rates = Rates { windows };
        let row = rates.row(RuleKind::Exact);
        assert_eq!((row.rounds, row.changes_per_sec), (2, 1000.0));
        assert_eq!((row.kept_percent, row.kept_percent_min), (90.0, 50.0));
        let row = rates.row(RuleKind::Wildcard);
        assert_eq!((row.rounds, row.kept_percent, row.undisturbed_per_sec), (1, 60.0, 100.0));
        assert!(Rates::default().row(RuleKind::Exact).kept_percent.is_nan());
    }
}
