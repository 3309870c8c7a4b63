//! One line a second while a run sends.

use crate::live::{INTERVAL, line_bar};
use crate::signals::StopSignal;
use crate::units::{grouped, scaled};
use ringside_transmit::{Job, Progress, Report, run_shown};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Instant;

/// Does the job until its limit or a signal, and shows how far it is.
pub fn watched(job: &Job, stop: &StopSignal) -> Result<Report, ringside_transmit::Error> {
    let progress = Progress::default();
    let (ended, end) = channel::<()>();
    std::thread::scope(|scope| {
        let shown = &progress;
        let bar = line_bar();
        if !bar.is_hidden() {
            scope.spawn(move || {
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
