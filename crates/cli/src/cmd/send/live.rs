//! One line a second while a run sends.

use crate::signals::StopSignal;
use crate::units::{grouped, scaled};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use ringside_transmit::{Job, Progress, Report, run_shown};
use std::io::IsTerminal;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How often the line changes.
const INTERVAL: Duration = Duration::from_secs(1);

/// Does the job until its limit or a signal, and shows how far it is.
pub fn watched(job: &Job, stop: &StopSignal) -> Result<Report, ringside_transmit::Error> {
    let progress = Progress::default();
    let (ended, end) = channel::<()>();
    std::thread::scope(|scope| {
        let shown = &progress;
        if std::io::stderr().is_terminal() {
            scope.spawn(move || {
                let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
                bar.set_style(ProgressStyle::with_template("{msg}").expect("a constant template"));
                let (mut then, mut before) = (Instant::now(), 0);
                while end.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                    let (now, offered) = (Instant::now(), shown.offered());
                    let per_sec = (offered - before) as f64 / (now - then).as_secs_f64();
                    bar.set_message(format!(
                        "{}frames/s  offered {}",
                        scaled(per_sec),
                        grouped(offered)
                    ));
                    (then, before) = (now, offered);
                }
                bar.finish_and_clear();
            });
        }
        let report = run_shown(job, &|| stop.is_set(), &progress);
        drop(ended);
        report
    })
}
