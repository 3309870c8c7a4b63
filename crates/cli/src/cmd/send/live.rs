//! One line a second while a run sends.

use ringside_report::send;
use ringside_terminal::progress::{INTERVAL, line_bar, tell_wanted};
use ringside_terminal::signals::{StopSignal, Wanted};
use ringside_transmit::{Job, Progress, Report, run_shown};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How often signals are looked at.
const TICK: Duration = Duration::from_millis(50);

/// Does the job until its limit or a signal, and shows how far it is.
pub fn watched(
    job: &Job,
    stop: &StopSignal,
    statistics: &Wanted,
) -> Result<Report, ringside_transmit::Error> {
    let progress = Progress::default();
    let (ended, end) = channel::<()>();
    std::thread::scope(|scope| {
        let shown = &progress;
        let bar = line_bar();
        scope.spawn(move || {
            let (mut then, mut before) = (Instant::now(), 0);
            while end.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                let (now, offered) = (Instant::now(), shown.offered());
                let elapsed = now - then;
                let per_sec = (offered - before) as f64 / elapsed.as_secs_f64();
                let line = || send::line(per_sec, offered);
                tell_wanted(statistics, &bar, line);
                if elapsed >= INTERVAL {
                    bar.set_message(line());
                    (then, before) = (now, offered);
                }
            }
            bar.finish_and_clear();
        });
        let report = run_shown(job, &|| stop.is_set(), &progress);
        drop(ended);
        report
    })
}
