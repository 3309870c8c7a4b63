//! Options of every run that receives, and what is said of one: the part of `capture` and `attach`
//! around the session.

mod habits;
mod write;

use crate::control_args::ControlArgs;
use crate::live::Live;
use crate::metrics::{self, MetricsService};
use crate::open_args::stdout_stream;
use crate::words;
use anyhow::{anyhow, bail};
use clap::Args;
use habits::EndArgs;
use ringside_flow::{FlowMonitor, MonitorHandle};
use ringside_inspect::Observer;
use ringside_keeper::{Companion, KeeperOptions, Link};
use ringside_print::{Style, printer};
use ringside_report::run as report;
use ringside_session::{
    Metering, MeteringOptions, MeteringReport, Moment, Order, Origin, Privileges, RING_BYTES_MIN,
    RunOptions, RunReport, Session,
};
use ringside_terminal::BottomLine;
use ringside_terminal::signals::RunSignals;
use ringside_terminal::{say, service, units};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
pub use write::FormatArg;
use write::WriteArgs;

/// Hang-ups within this time are one: keeper and worker may both get the signal.
const ONE_ORDER: Duration = Duration::from_millis(250);

/// What `--ring-size` is where it is not given.
const RING_SIZE_VARIABLE: &str = "RINGSIDE_RING_SIZE";

/// Options of every run that receives.
#[derive(Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub write: WriteArgs,

    /// Stop after this many frames.
    #[arg(short = 'c', long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    packets: Option<u64>,

    /// Stop after this time: 10s, 5m, 1h.
    #[arg(long = "for", value_name = "DURATION", value_parser = units::duration)]
    duration: Option<Duration>,

    #[command(flatten)]
    end: EndArgs,

    /// Memory of the capture ring, shared by the lanes; it rides out stalls of the disk. By default
    /// 128 MiB where packets are only printed and for attach, else 512 MiB, and no more than a
    /// sixteenth of the free memory; or what RINGSIDE_RING_SIZE in the environment says.
    #[arg(long, value_name = "SIZE", value_parser = ring_bytes)]
    ring_size: Option<usize>,

    /// Have the system reserve huge pages for the capture ring while the run lasts. Without, the
    /// ring lies in those that the system finds (transparent huge pages), as many as there are.
    #[arg(long)]
    huge_pages: bool,

    #[command(flatten)]
    control: ControlArgs,

    /// Serve the counts of the run as metrics for Prometheus, to processes of this host: at
    /// ADDRESS:PORT or unix:PATH.
    #[arg(long, value_name = "WHERE", value_parser = metrics::place, conflicts_with = "no_control")]
    metrics: Option<String>,

    /// One JSON object a line on standard output: each packet, flow or transaction where such are
    /// shown, else a status each second; at last the ledger.
    #[arg(long)]
    pub json: bool,

    /// Receive and write as this user, once everything is open; the files belong to it [default: of
    /// root `ringside` or `nobody`, where that user can write; `root` stays root]
    #[arg(short = 'Z', long, value_name = "NAME")]
    user: Option<String>,

    /// Run in one process, as profilers want it. Without the keeper, its parent, no process
    /// finishes the recording and puts settings back when the process is killed, before the next
    /// start.
    #[arg(long)]
    no_keeper: bool,
}

impl RunArgs {
    /// What the run wants of a keeper; others attach at `share`.
    pub fn keeper_options<'w>(&'w self, share: Option<&'w Path>) -> KeeperOptions<'w> {
        KeeperOptions {
            no_keeper: self.no_keeper,
            json: self.json,
            directories: &self.write.paths,
            control: self.control.place(),
            share,
            finish: None,
            companion: self.metrics.as_deref().map(|place| self.metrics_at(place)),
        }
    }

    fn metrics_at<'w>(&'w self, place: &'w str) -> Companion<'w> {
        Box::new(|| Ok(Box::new(MetricsService::start(place, &self.control.place())?)))
    }

    /// Frames after which the run ends.
    pub fn packets(&self) -> Option<u64> {
        self.packets.or_else(|| self.end.packets())
    }

    /// Time after which the run ends.
    pub fn duration(&self) -> Option<Duration> {
        self.duration.or_else(|| self.end.duration())
    }

    /// Memory of the ring, where it was said. The variable is no default of the option, with which
    /// it would be refused where the option is.
    fn ring_bytes(&self) -> anyhow::Result<Option<usize>> {
        let said = || std::env::var(RING_SIZE_VARIABLE).ok();
        let parse = |text: String| {
            ring_bytes(&text).map_err(|why| anyhow!("{RING_SIZE_VARIABLE} is '{text}': {why}"))
        };
        self.ring_size.map_or_else(|| said().map(parse).transpose(), |bytes| Ok(Some(bytes)))
    }

    fn options(
        &self,
        addition: &mut dyn Addition,
        bottom: &BottomLine,
    ) -> anyhow::Result<RunOptions> {
        let print = match addition.print() {
            Some(style) => Some(printer(style, bottom, stdout_stream()?)),
            None => None,
        };
        Ok(RunOptions {
            output: self.write.options()?,
            print,
            observers: addition.observers()?,
            flows: addition.flows(),
            files: addition.files(),
            frames_max: self.packets(),
            duration: self.duration(),
            ring_bytes: self.ring_bytes()?,
            huge_pages: self.huge_pages,
            control: self.control.place(),
            privileges: Privileges::GiveUp { user: self.user.clone() },
        })
    }
}

/// What a subcommand adds to a run, and says of it.
pub trait Addition {
    /// How packets are printed, if they are.
    fn print(&self) -> Option<Style> {
        None
    }

    /// Who sees every frame. Asked once, in the process of the run, before privileges are given up.
    ///
    /// # Errors
    /// What they need cannot be had.
    fn observers(&mut self) -> anyhow::Result<Vec<Box<dyn Observer>>> {
        Ok(Vec::new())
    }

    /// Files that the observers write, and put others in place of.
    fn files(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// The flows that an observer makes, once there are observers.
    fn flows(&self) -> Option<MonitorHandle> {
        None
    }

    /// True if standard output is not for a status each second.
    fn has_stdout(&self) -> bool {
        self.print().is_some()
    }

    /// A second has passed.
    ///
    /// # Errors
    /// It cannot be shown.
    fn each_second(&mut self, bottom: &BottomLine) -> io::Result<()> {
        let _ = bottom;
        Ok(())
    }

    /// The run has ended, and nothing of it is out yet: takes away what was shown meanwhile.
    fn ended(&mut self) {}

    /// The ledger of a run without lanes is out. True if what was added up balances.
    ///
    /// # Errors
    /// It cannot be shown.
    fn finish_metered(&mut self, report: &MeteringReport) -> io::Result<bool> {
        let _ = report;
        Ok(true)
    }

    /// The ledger of the run is out. True if what was added balances.
    ///
    /// # Errors
    /// It cannot be shown.
    fn finish(&mut self, report: &RunReport) -> io::Result<bool> {
        let _ = report;
        Ok(true)
    }
}

/// Nothing but printed packets.
pub struct Printing(pub Option<Style>);

impl Addition for Printing {
    fn print(&self) -> Option<Style> {
        self.0
    }
}

/// The run, in this process.
pub fn run(
    args: &RunArgs,
    link: Option<Link>,
    addition: &mut dyn Addition,
    origin: impl FnOnce() -> anyhow::Result<Origin>,
) -> anyhow::Result<ExitCode> {
    if args.json && args.write.is_stdout() {
        bail!("--json and -w - both want standard output; write to a file, or leave out --json");
    }
    let signals = link.as_ref().map_or_else(RunSignals::install, |link| Ok(link.signals()))?;
    let bottom = BottomLine::new();
    let options = args.options(addition, &bottom)?;
    let rotates = options.output.rotates();
    let mut session = Session::start(origin()?, options, link.as_ref(), &words::say_note)?;
    if link.is_none() {
        // Else the keeper says so, which the manager started.
        service::ready();
    }
    let orders = (&signals, link.as_ref());
    let watched = watch(args, orders, rotates, addition, &bottom, |each| session.watch(each));
    let finished = session.finish();
    bottom.settle();
    let run = &finished.report;
    let shown = report::finish(run, &args.write.paths, args.json);
    let shown = shown.and_then(|()| addition.finish(run));
    let is_good = run.errors.is_empty() && !matches!(shown, Ok(false));
    for note in finished.close() {
        say::message(format_args!("ringside: {note}"));
    }
    shown?;
    watched?;
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

/// A run without lanes: the kernel adds packets up for `monitor`.
pub fn metered(
    args: &RunArgs,
    link: Option<Link>,
    addition: &mut dyn Addition,
    (mut options, monitor): (MeteringOptions, FlowMonitor),
) -> anyhow::Result<ExitCode> {
    let signals = link.as_ref().map_or_else(RunSignals::install, |link| Ok(link.signals()))?;
    let bottom = BottomLine::new();
    options.duration = args.duration();
    options.control = args.control.place();
    options.privileges = Privileges::GiveUp { user: args.user.clone() };
    let mut metering = Metering::start(options, monitor, link.as_ref(), &words::say_note)?;
    let orders = (&signals, link.as_ref());
    let watched = watch(args, orders, false, addition, &bottom, |each| metering.watch(each));
    let finished = metering.finish();
    bottom.settle();
    let run = &finished.report;
    let shown = report::finish_metered(run, args.json);
    let shown = shown.and_then(|()| addition.finish_metered(run));
    let is_good = run.errors.is_empty() && !matches!(shown, Ok(false));
    finished.close();
    shown?;
    watched?;
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

/// Shows a run while `run` lasts, and gives it orders.
fn watch(
    args: &RunArgs,
    (signals, link): (&RunSignals, Option<&Link>),
    rotates: bool,
    addition: &mut dyn Addition,
    bottom: &BottomLine,
    run: impl FnOnce(&mut dyn FnMut(&Moment<'_>) -> anyhow::Result<Order>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let live = Live::start(bottom);
    let mut watcher = Watcher { args, signals, link, rotates, hung_up_at: None, live, addition };
    let watched = run(&mut |moment| watcher.look(moment, bottom));
    watcher.live.finish();
    watcher.addition.ended();
    watched
}

/// Turns signals into orders, and keeps the live line and the JSON status.
struct Watcher<'a> {
    args: &'a RunArgs,
    signals: &'a RunSignals,
    link: Option<&'a Link>,
    /// A hang-up begins new files instead of ending the run.
    rotates: bool,
    hung_up_at: Option<Instant>,
    live: Live,
    addition: &'a mut dyn Addition,
}

impl Watcher<'_> {
    fn look(&mut self, moment: &Moment<'_>, bottom: &BottomLine) -> anyhow::Result<Order> {
        if moment.is_new_second {
            self.tell(moment)?;
            self.addition.each_second(bottom)?;
        }
        if self.signals.statistics.take() {
            self.live.tell(moment);
        }
        if self.signals.stop.is_set() {
            if self.link.is_some_and(Link::is_keeper_gone) {
                say::message("ringside: the keeper is gone; the run ends");
            }
            return Ok(Order::Stop);
        }
        if self.args.end.is_left_alone() {
            return Ok(Order::Stop);
        }
        if !self.signals.hang_up.take() {
            return Ok(Order::GoOn);
        }
        if !self.rotates || self.signals.hang_up.is_of_terminal() {
            return Ok(Order::Stop);
        }
        let now = Instant::now();
        let before = self.hung_up_at.replace(now);
        let is_new = before.is_none_or(|before| now - before >= ONE_ORDER);
        Ok(if is_new { Order::Rotate } else { Order::GoOn })
    }

    fn tell(&self, moment: &Moment<'_>) -> io::Result<()> {
        let profiles = moment.profiles();
        self.live.update(moment, &profiles);
        // Packets and records have standard output for themselves while they come.
        if self.args.json && !self.addition.has_stdout() {
            say::data(serde_json::json!({ "status": moment.ledger, "profile": profiles }))?;
        }
        Ok(())
    }
}

/// A ring that fits the memory: touching more than there is would end other programs.
fn ring_bytes(text: &str) -> Result<usize, String> {
    match free_bytes(text)? {
        bytes if bytes < RING_BYTES_MIN => Err(format!("must be {RING_BYTES_MIN} bytes at least")),
        bytes => Ok(bytes),
    }
}

/// A size of memory that is free.
pub fn free_bytes(text: &str) -> Result<usize, String> {
    let bytes = units::bytes(text)?;
    match ringside_sys::memory::available_bytes() {
        Some(limit) if bytes > limit => {
            Err(format!("{bytes} bytes are asked for, {limit} are available"))
        }
        _ => usize::try_from(bytes).map_err(|error| error.to_string()),
    }
}
