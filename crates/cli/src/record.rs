//! A run from its options to its ledger: the part of `capture` and `attach` behind the sources.

mod habits;
mod write;

use crate::control_args::ControlArgs;
use crate::driver_rules::RulesAhead;
use crate::live::Live;
use crate::open::Opened;
use crate::{keep, open, rule_counts};
use anyhow::{Context, bail};
use clap::Args;
use habits::EndArgs;
use ringside_capture::config::{Ahead, BLOCKS_PER_LANE_MIN, Output, Print, RunConfig};
use ringside_capture::keep::Selection;
use ringside_capture::run::{Prepared, Run, RunReport};
use ringside_capture::share::ShareSocket;
use ringside_capture::trigger::{TriggerConfig, TriggerSummary};
use ringside_control::{Board, CAPTURE_KIND, ControlSocket, OutputStatus, RuleDesk, serve_while};
use ringside_core::Shown;
use ringside_core::limits::RING_BLOCK_BYTES;
use ringside_keeper::privileges;
use ringside_keeper::privileges::UsersDirectories;
use ringside_keeper::{Knobs, Leaving, Link, Request, Wishes};
use ringside_ring::HUGE_PAGE_BYTES;
use ringside_terminal::BottomLine;
use ringside_terminal::signals::RunSignals;
use ringside_terminal::{ledger_text, say, units};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
pub use write::FormatArg;
use write::WriteArgs;

/// Smallest ring: four blocks for one lane.
const RING_BYTES_MIN: u64 = (BLOCKS_PER_LANE_MIN * RING_BLOCK_BYTES) as u64;
/// The ring takes this part of the free memory unless asked otherwise: the page cache and other
/// programs need it too.
const SHARE_OF_MEMORY: u64 = 16;
/// Rules whose counts are told at the end, unless all are asked for by --json: a screen.
const RULES_TOLD_MAX: usize = 24;
/// Hang-ups within this time are one: keeper and worker may both get the signal.
const ONE_ORDER: Duration = Duration::from_millis(250);
/// How often signals and the end of the sources are looked at.
const TICK: Duration = Duration::from_millis(100);

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
    /// sixteenth of the free memory.
    #[arg(long, value_name = "SIZE", value_parser = ring_bytes)]
    pub ring_size: Option<u64>,

    /// Have the system reserve huge pages for the capture ring while the run lasts. Without, the
    /// ring lies in those that the system finds (transparent huge pages), as many as there are.
    #[arg(long)]
    pub huge_pages: bool,

    #[command(flatten)]
    pub control: ControlArgs,

    /// One JSON object a line on standard output: each packet where they are printed, else a status
    /// each second; at last the ledger.
    #[arg(long)]
    pub json: bool,

    /// Receive and write as this user, once everything is open; the files belong to it [default: of
    /// root `ringside` or `nobody`, where that user can write; `root` stays root]
    #[arg(short = 'Z', long, value_name = "NAME")]
    pub user: Option<String>,

    /// Run in one process, as profilers want it. Without the keeper, its parent, nobody finishes
    /// the recording and puts settings back when the process is killed, before the next start.
    #[arg(long)]
    pub no_keeper: bool,
}

impl RunArgs {
    /// What the run wants of a keeper; others attach at `share`.
    pub fn wishes<'w>(&'w self, share: Option<&'w Path>) -> Wishes<'w> {
        Wishes {
            no_keeper: self.no_keeper,
            json: self.json,
            directories: &self.write.paths,
            control: self.control.place(),
            share,
        }
    }

    /// Frames after which the run ends.
    pub fn packets(&self) -> Option<u64> {
        self.packets.or_else(|| self.end.packets())
    }

    /// Time after which the run ends.
    pub fn duration(&self) -> Option<Duration> {
        self.duration.or_else(|| self.end.duration())
    }

    /// What was asked for, or `usual` where there is much memory.
    fn ring_bytes(&self, usual: u64) -> u64 {
        self.ring_size.unwrap_or_else(|| {
            let free = ringside_sys::memory::available_bytes().unwrap_or(u64::MAX);
            usual.min(free / SHARE_OF_MEMORY).max(RING_BYTES_MIN)
        })
    }
}

/// What a subcommand adds to its lanes.
pub struct Extras {
    /// The rules in drivers, before the lanes.
    pub ahead: Option<RulesAhead>,
    /// Which frames are taken, and what is kept of each.
    pub selection: Option<Selection>,
    /// Bytes kept of each frame.
    pub snaplen: u32,
    /// Threads of each lane.
    pub threads: usize,
    /// Bytes of the capture ring, unless the user or the memory wants otherwise.
    pub ring_bytes: u64,
    /// Only what surrounds a hit is kept.
    pub trigger: Option<TriggerConfig>,
    /// Where other processes may attach.
    pub share: Option<ShareSocket>,
    /// Packets are printed in this way; by default they are not.
    pub print: Option<ringside_print::Style>,
}

/// The run, in this process, with the lanes that `open` opens.
pub fn run(
    args: &RunArgs,
    link: Option<Link>,
    open: impl FnOnce(&Knobs<'_>) -> anyhow::Result<(Opened, Extras)>,
) -> anyhow::Result<ExitCode> {
    if args.json && args.write.is_stdout() {
        bail!("--json and -w - both want standard output; write to a file, or leave out --json");
    }
    let signals = link.as_ref().map_or_else(RunSignals::install, |link| Ok(link.signals()))?;
    let output = args.write.output()?;
    let knobs = Knobs::new(link.as_ref());
    let (mut opened, extras) = open(&knobs)?;
    if let Some(selection) = &extras.selection {
        keep::check_output(selection, &output, extras.trigger.is_some())?;
    }
    for warning in &opened.warnings {
        say::message(format_args!("ringside: warning: {warning}"));
    }
    let keeper_pid = link.as_ref().and_then(Link::keeper_pid);
    let status = output_status(&output, extras.print.is_some(), args.write.paths.iter());
    let mut board = board(&opened, &extras, status, keeper_pid);
    let (bottom, style) = (BottomLine::new(), extras.print);
    let print = style.map(|style| printer(style, &bottom)).transpose()?;
    let ahead = extras.ahead.clone();
    let config = settings(args, &mut opened, extras, output, print)?;
    reserve_huge_pages(&knobs, args, &config, opened.lanes.len());
    let control = ControlSocket::open(&args.control.place(), CAPTURE_KIND, keeper_pid)?;
    let directories = config.output.directories();
    privileges::raise_locked_memory();
    let files = config.selection.iter().filter_map(Selection::files).collect::<Vec<_>>();
    // Without a keeper no process would be left that can put settings back and remove the socket.
    let made = match args.user.is_some() || link.is_some() {
        true => privileges::become_another(args.user.as_deref(), &config.output, &files)?,
        false => None,
    };
    let leaving = Leaving::new(&opened.lanes, std::mem::take(&mut opened.kernel), &config);
    let prepared = Run::prepare(opened.lanes, opened.interfaces, config)?;
    // The rings lie where they should; what comes from now on lies where it is used.
    drop(opened.placed.memory);
    tell_prepared(&prepared, args);
    board.set_ring(prepared.memory().cloned());
    let writes_files = !directories.is_empty() || !files.is_empty();
    let mut others_files = made.is_some() && writes_files;
    if !knobs.need_privileges() {
        let others = written_beside(&files, control.as_ref());
        others_files |= privileges::give_up(&directories, &others)?;
    }
    if let Some(link) = &link {
        leaving.send(link, &prepared);
        link.started(others_files)?;
    }
    made.into_iter().for_each(UsersDirectories::keep);
    let run = prepared.start()?;
    say::message(format_args!("listening on {}", opened.description));
    let answer = |command| board.answer(&run, command);
    // Who gave the order to stop waits for the end of its connection, which is that of the run.
    let live = Live::start(&bottom);
    let (watched, _clients) =
        serve_while(control, answer, || watch(&run, args, &signals, &board, live));
    link.as_ref().inspect(|link| link.received());
    let mut report = run.finish();
    if let (Some(ahead), Some(rules)) = (&ahead, &mut report.rules) {
        ahead.add_counts(rules);
    }
    bottom.settle();
    let told = finish(&report, args);
    link.as_ref().inspect(|link| link.closed());
    told.and(watched)?;
    Ok(if report.errors.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

/// The printer to standard output, above `bottom`.
fn printer(style: ringside_print::Style, bottom: &BottomLine) -> anyhow::Result<Print> {
    Ok(ringside_print::printer(style, bottom, open::stdout_stream()?))
}

/// Directories in which a run makes or removes files other than its recording.
fn written_beside(files: &[PathBuf], control: Option<&ControlSocket>) -> Vec<PathBuf> {
    let control = control.map(|socket| socket.path().to_owned());
    let parent = |path: PathBuf| path.parent().map(Path::to_owned);
    files.iter().cloned().chain(control).filter_map(parent).collect()
}

/// The settings of the run.
fn settings(
    args: &RunArgs,
    opened: &mut Opened,
    extras: Extras,
    output: Output,
    print: Option<Print>,
) -> anyhow::Result<RunConfig> {
    Ok(RunConfig {
        snaplen: extras.snaplen,
        frames_max: args.packets(),
        ring_bytes: usize::try_from(args.ring_bytes(extras.ring_bytes)).context("--ring-size")?,
        block_bytes: RING_BLOCK_BYTES,
        threads: extras.threads,
        selection: extras.selection,
        ahead: extras.ahead.map(|ahead| Arc::new(ahead) as Arc<dyn Ahead>),
        cpus: std::mem::take(&mut opened.placed.cpus),
        block_timeout_ns: opened.block_timeout_ns,
        output,
        print,
        observers: Vec::new(),
        trigger: extras.trigger,
        share: extras.share,
    })
}

/// What the control socket knows of the run.
fn board(opened: &Opened, extras: &Extras, output: OutputStatus, keeper_pid: Option<u32>) -> Board {
    let mut board = Board::new(opened.description.clone(), &opened.interfaces, output);
    board.set_keeper(keeper_pid);
    let rules = extras.selection.as_ref().and_then(Selection::rules);
    board.set_rules(match &extras.ahead {
        Some(ahead) => Some(RuleDesk::new(Box::new(ahead.clone()))),
        None => rules.map(|rules| RuleDesk::new(Box::new(rules.clone()))),
    });
    board
}

/// What was chosen, and what could not be had.
fn tell_prepared(prepared: &Prepared, args: &RunArgs) {
    if args.huge_pages && prepared.ring().is_some_and(|ring| !ring.has_huge_pages()) {
        say::message("ringside: warning: the capture ring does not lie in reserved huge pages");
    }
    for note in prepared.notes() {
        say::message(note);
    }
}

/// Has the system keep so many free huge pages as the ring takes, if that is asked for; without
/// them it lies in others.
fn reserve_huge_pages(knobs: &Knobs<'_>, args: &RunArgs, config: &RunConfig, lanes: usize) {
    let layout = config.ring_layout(lanes).filter(|_| args.huge_pages);
    let Some(layout) = layout else { return };
    let pages = layout.total_bytes().div_ceil(HUGE_PAGE_BYTES) as u64;
    if let Err(error) = knobs.turn(&Request::HugePages { pages }) {
        say::message(format_args!("ringside: warning: no huge pages were reserved: {error:#}"));
    }
}

/// Waits for the end of the run, with the live line, timed rotation and JSON status meanwhile.
fn watch(
    run: &Run,
    args: &RunArgs,
    signals: &RunSignals,
    board: &Board,
    mut live: Live,
) -> io::Result<()> {
    let start = Instant::now();
    let stop_at = args.duration().map(|duration| start + duration);
    let file_time = args.write.file_time();
    let mut rotate_at = file_time.map(|interval| start + interval);
    let mut hung_up_at: Option<Instant> = None;
    while run.is_running() && !signals.stop.is_set() {
        let now = Instant::now();
        if stop_at.is_some_and(|at| now >= at) {
            break;
        }
        if let (Some(at), Some(interval)) = (rotate_at, file_time)
            && now >= at
        {
            run.rotate();
            rotate_at = Some(at.max(now - interval) + interval);
        }
        if signals.hang_up.take() {
            if !args.write.rotates() || signals.hang_up.is_of_terminal() {
                break;
            }
            let before = hung_up_at.replace(now);
            if before.is_none_or(|before| now - before >= ONE_ORDER) {
                run.rotate();
            }
        }
        if signals.statistics.take() {
            live.tell(&run.status());
        }
        let next = [stop_at, rotate_at].into_iter().flatten().min();
        std::thread::sleep(next.map_or(TICK, |next| (next - now).min(TICK)));
        let ledger = run.status();
        if live.update(&ledger, || run.profiles()) {
            board.set_rates(live.rates());
            // Packets have standard output for themselves while they come.
            if args.json && !run.prints() {
                let profiles = run.profiles();
                say::data(serde_json::json!({ "status": ledger, "profile": profiles }))?;
            }
        }
    }
    live.finish();
    Ok(())
}

/// Prints what was done.
fn finish(report: &RunReport, args: &RunArgs) -> io::Result<()> {
    for error in &report.errors {
        say::message(format_args!("ringside: {error}"));
    }
    say::message(ledger_text::text(&report.ledger).trim_end());
    if let Some(rules) = report.rules.as_ref().filter(|_| !args.json) {
        say::message(rule_counts::table(rules, RULES_TOLD_MAX));
    }
    if let Some(trigger) = &report.trigger {
        say::message(trigger_text(trigger));
    }
    if let Some(overdue) = report.kept.as_ref().and_then(|kept| kept.overdue.as_ref()) {
        say::message(format_args!("ringside: warning: files past their age remain: {overdue}"));
    }
    let deleted = report.kept.as_ref().filter(|kept| kept.deleted_files > 0);
    if let Some(kept) = deleted {
        say::message(format_args!(
            "retention     {:>16}  files deleted, the oldest, of {} bytes together",
            units::grouped(kept.deleted_files),
            units::grouped(kept.deleted_bytes)
        ));
    }
    if let Some(text) = to_read(report, args) {
        say::message(text);
    }
    if args.json {
        if let Some(kept) = deleted {
            say::data(serde_json::json!({ "retention": kept }))?;
        }
        if !report.profiles.is_empty() {
            say::data(serde_json::json!({ "profile": report.profiles }))?;
        }
        report.rules.as_ref().map_or(Ok(()), rule_counts::json)?;
        say::data(ledger_text::json(&report.ledger))?;
    }
    Ok(())
}

/// What the trigger did, for people.
fn trigger_text(trigger: &TriggerSummary) -> String {
    let hits = units::grouped(trigger.hits);
    match trigger.given_up_early {
        0 => format!("trigger       {hits:>16}  hits"),
        frames => format!(
            "trigger       {hits:>16}  hits; the memory was too small to wait the whole --before \
             for {} frames: a larger --ring-size reaches back further",
            units::grouped(frames)
        ),
    }
}

/// How to read what was written.
fn to_read(report: &RunReport, args: &RunArgs) -> Option<String> {
    let count = report.files.count;
    let directories: Vec<_> = args.write.paths.iter().filter(|path| path.is_dir()).collect();
    if count == 0 {
        return None;
    }
    if directories.len() > 1 {
        let inputs = directories.iter().map(|path| format!(" -r '{}'", path.shown()));
        return Some(format!(
            "{count} files; to read: ringside read{}",
            inputs.collect::<String>()
        ));
    }
    let directory = directories.first();
    let first = || report.files.paths.first();
    let path = directory.copied().or_else(first)?;
    let what = path.shown();
    Some(match (directory, count) {
        (None, 2..) => format!("{count} files, the first {what}; name each with -r to read them"),
        (_, 1) => format!("1 file; to read it: ringside read -r '{what}'"),
        _ => format!("{count} files; to read them: ringside read -r '{what}'"),
    })
}

/// What the control socket says of the output.
fn output_status<'a>(
    output: &Output,
    prints: bool,
    paths: impl Iterator<Item = &'a PathBuf>,
) -> OutputStatus {
    let kind = match output {
        Output::Count if prints => "print",
        Output::Count => "count",
        Output::Directory { .. } => "directory",
        Output::File { .. } => "file",
        Output::Stream { .. } => "stream",
    };
    let paths = paths.map(|path| path.shown().to_string()).collect();
    OutputStatus { kind: kind.to_owned(), paths }
}

/// A ring that fits the memory: touching more than there is would end other programs.
fn ring_bytes(text: &str) -> Result<u64, String> {
    let bytes = units::bytes(text)?;
    match ringside_sys::memory::available_bytes() {
        Some(limit) if bytes > limit => {
            Err(format!("{bytes} bytes are asked for, {limit} are available"))
        }
        _ if bytes < RING_BYTES_MIN => Err(format!("must be {RING_BYTES_MIN} bytes at least")),
        _ => Ok(bytes),
    }
}
