//! SIGINT, SIGTERM and SIGHUP end a run cleanly; a second one ends it at once. SIGUSR1 has it say
//! what it has done so far. A run whose files rotate begins new ones at SIGHUP.

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Exit status after a second signal: could not finish.
pub const ABORT_STATUS: i32 = 2;

/// Set once the user asked to stop.
#[derive(Clone)]
pub struct StopSignal(Arc<AtomicBool>);

impl StopSignal {
    /// Catches the signals from now on.
    pub fn install() -> anyhow::Result<StopSignal> {
        StopSignal::on(&[SIGINT, SIGTERM, SIGHUP])
    }

    fn on(signals: &[i32]) -> anyhow::Result<StopSignal> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in answered(signals) {
            // In this order: the first signal finds the flag unset and sets it, the second exits.
            signal_hook::flag::register_conditional_shutdown(signal, ABORT_STATUS, flag.clone())
                .and_then(|_| signal_hook::flag::register(signal, flag.clone()))
                .context("catching signals")?;
        }
        Ok(StopSignal(flag))
    }

    /// Asks to stop.
    pub fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// True once a signal came.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Set by a signal until it is taken.
#[derive(Clone)]
pub struct Wanted(Arc<AtomicBool>);

impl Wanted {
    /// At SIGUSR1 from now on: what was done so far is to be said.
    pub fn statistics() -> anyhow::Result<Wanted> {
        Wanted::at(SIGUSR1)
    }

    fn at(signal: i32) -> anyhow::Result<Wanted> {
        let flag = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(signal, flag.clone()).context("catching signals")?;
        Ok(Wanted(flag))
    }

    /// As if the signal had come.
    pub fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// True if the signal came since this was last asked.
    pub fn take(&self) -> bool {
        self.0.swap(false, Ordering::AcqRel)
    }
}

/// SIGHUP to a run that may begin new files instead of ending.
#[derive(Clone)]
pub struct HangUp {
    wanted: Wanted,
    had_terminal: bool,
}

impl HangUp {
    fn install() -> anyhow::Result<HangUp> {
        let wanted = match is_ignored(SIGHUP) {
            true => Wanted(Arc::default()),
            false => Wanted::at(SIGHUP)?,
        };
        Ok(HangUp { wanted, had_terminal: has_terminal() })
    }

    /// Of a process that the signal does not end: it is answered also where it was ignored at the
    /// start, as by nohup, and a terminal that goes is nothing to this process then.
    ///
    /// # Errors
    /// The system refused.
    pub fn that_ends_nothing() -> anyhow::Result<HangUp> {
        let had_terminal = has_terminal() && !is_ignored(SIGHUP);
        Ok(HangUp { wanted: Wanted::at(SIGHUP)?, had_terminal })
    }

    /// As if the signal had come.
    pub fn set(&self) {
        self.wanted.set();
    }

    /// True if the signal came since this was last asked.
    pub fn take(&self) -> bool {
        self.wanted.take()
    }

    /// True if the terminal of this process has gone since the start: the signal is of the kernel
    /// then and ends a run, whatever it means otherwise.
    pub fn is_of_terminal(&self) -> bool {
        self.had_terminal && !has_terminal()
    }
}

/// What signals ask of a run.
#[derive(Clone)]
pub struct RunSignals {
    /// Asks the run to end.
    pub stop: StopSignal,
    /// Asks the run to begin new files, or to end.
    pub hang_up: HangUp,
    /// To say what was done so far.
    pub statistics: Wanted,
    /// The next signal to end is the second, and ends this process at once.
    ends_at_once: Arc<AtomicBool>,
}

impl RunSignals {
    /// Catches the signals of a process that runs alone.
    pub fn install() -> anyhow::Result<RunSignals> {
        let stop = StopSignal::on(&[SIGINT, SIGTERM])?;
        let ends_at_once = stop.0.clone();
        let (hang_up, statistics) = (HangUp::install()?, Wanted::statistics()?);
        Ok(RunSignals { stop, hang_up, statistics, ends_at_once })
    }

    /// Catches those of a process with a keeper, which gives the same orders: a terminal signals
    /// both, so a second signal is no order to end at once. That order is the keeper's, as long as
    /// it [is there](RunSignals::keeper_is_gone).
    pub fn with_keeper() -> anyhow::Result<RunSignals> {
        let (flag, ends_at_once) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        for signal in [SIGINT, SIGTERM] {
            let at_once = ends_at_once.clone();
            signal_hook::flag::register_conditional_shutdown(signal, ABORT_STATUS, at_once)
                .and_then(|_| signal_hook::flag::register(signal, flag.clone()))
                .context("catching signals")?;
        }
        let (hang_up, statistics) = (HangUp::install()?, Wanted::statistics()?);
        Ok(RunSignals { stop: StopSignal(flag), hang_up, statistics, ends_at_once })
    }

    /// The run is to end; of the signals that come from now on, the second ends this process at
    /// once.
    ///
    /// # Errors
    /// That cannot be had; the run is to end all the same.
    pub fn keeper_is_gone(&self) -> io::Result<()> {
        self.stop.set();
        for signal in [SIGINT, SIGTERM] {
            // Behind the look at the flag: the signal that sets it does not see it set.
            signal_hook::flag::register(signal, self.ends_at_once.clone())?;
        }
        Ok(())
    }
}

/// The signals of the keeper, with a socket to poll.
pub struct SignalPipe {
    reader: UnixStream,
    /// Asks the run to end.
    pub stop: Wanted,
    /// Asks the run to begin new files, or to end.
    pub hang_up: HangUp,
    /// To say what was done so far.
    pub statistics: Wanted,
}

impl SignalPipe {
    /// Catches the signals from now on.
    pub fn install() -> anyhow::Result<SignalPipe> {
        let (reader, writer) = UnixStream::pair().context("catching signals")?;
        reader.set_nonblocking(true).context("catching signals")?;
        let stop = Wanted::at(SIGINT)?;
        signal_hook::flag::register(SIGTERM, stop.0.clone()).context("catching signals")?;
        let (hang_up, statistics) = (HangUp::install()?, Wanted::statistics()?);
        // After the flags: what is readable has its flag set.
        for signal in answered(&[SIGINT, SIGTERM, SIGHUP, SIGUSR1]) {
            let writer = writer.try_clone().context("catching signals")?;
            signal_hook::low_level::pipe::register(signal, writer).context("catching signals")?;
        }
        Ok(SignalPipe { reader, stop, hang_up, statistics })
    }

    /// Readable once a signal came.
    pub fn reader(&self) -> &UnixStream {
        &self.reader
    }

    /// Makes the socket unreadable until the next signal; the flags stay.
    pub fn clear(&mut self) {
        let mut bytes = [0; 64];
        while self.reader.read(&mut bytes).is_ok_and(|count| count > 0) {}
    }
}

/// Those of the signals that are answered. nohup has SIGHUP ignored, and means it. That SIGINT is
/// ignored means nothing: shells without job control start each background job so, and `kill -INT`
/// must end it in order all the same, as it ends tcpdump.
fn answered(signals: &[i32]) -> impl Iterator<Item = i32> {
    signals.iter().copied().filter(|&signal| signal != SIGHUP || !is_ignored(signal))
}

/// True if this process ignores the signal (SigIgn of proc(5), signal 1 in bit 0).
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal - 1) & 1 == 1
}

/// True if this process has a controlling terminal (tty(4)).
fn has_terminal() -> bool {
    File::open("/dev/tty").is_ok()
}
