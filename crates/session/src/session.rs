//! A run from its start to its ledger.

use crate::attach::AttachOptions;
use crate::capture::{CaptureOptions, Extras};
use crate::driver_rules::RulesAhead;
use crate::keep;
use crate::marking::Marking;
use crate::note::{Note, Notes};
use crate::open::Opened;
use crate::output::OutputOptions;
use crate::rates::Meter;
use anyhow::Context;
use ringside_capture::config::{Ahead, BLOCKS_PER_LANE_MIN, Output, Print, RunConfig};
use ringside_capture::keep::Selection;
use ringside_capture::run::{Prepared, Run, RunReport};
use ringside_control::{
    Board, CAPTURE_KIND, ControlSocket, OutputStatus, Rates, Remaining, RuleDesk, SocketPlace,
    serve_while,
};
use ringside_core::Ledger;
use ringside_core::limits::RING_BLOCK_BYTES;
use ringside_core::profile::LaneProfile;
use ringside_flow::MonitorHandle;
use ringside_inspect::Observer;
use ringside_keeper::privileges::{self, UsersDirectories};
use ringside_keeper::{Knobs, Leaving, Link, Request};
use ringside_ring::HUGE_PAGE_BYTES;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Smallest ring: four blocks for one lane.
pub const RING_BYTES_MIN: usize = BLOCKS_PER_LANE_MIN * RING_BLOCK_BYTES;
/// The ring takes this part of the free memory unless asked otherwise: the page cache and other
/// programs need it too.
const SHARE_OF_MEMORY: u64 = 16;
/// How often the caller is asked, and the end of the sources is looked at.
const TICK: Duration = Duration::from_millis(100);

/// Where the frames of a session come from.
pub enum Origin {
    /// Interfaces or files.
    Capture(Box<CaptureOptions>),
    /// A running capture.
    Attach(AttachOptions),
}

impl From<CaptureOptions> for Origin {
    fn from(options: CaptureOptions) -> Origin {
        Origin::Capture(Box::new(options))
    }
}

impl From<AttachOptions> for Origin {
    fn from(options: AttachOptions) -> Origin {
        Origin::Attach(options)
    }
}

/// What is asked of a run, behind its lanes. By default it only counts, until it is stopped.
#[derive(Default)]
pub struct RunOptions {
    /// What is written, and where.
    pub output: OutputOptions,
    /// Packets as text, next to the output or instead of it.
    pub print: Option<Print>,
    /// Who sees every frame that is taken, in a thread of their own. Without output, printing and
    /// other readers the lanes wait for them; else they may be overtaken, which is counted.
    pub observers: Vec<Box<dyn Observer>>,
    /// Files that observers write, and put others in place of, in their directories.
    pub files: Vec<PathBuf>,
    /// The flows that one of the observers makes, for questions at the control socket.
    pub flows: Option<MonitorHandle>,
    /// Frames after which it ends.
    pub frames_max: Option<u64>,
    /// Time after which it ends.
    pub duration: Option<Duration>,
    /// Bytes of the capture ring; `None` for what its origin usually has, or less where memory is
    /// short.
    pub ring_bytes: Option<usize>,
    /// The system reserves huge pages for the ring while the run lasts.
    pub huge_pages: bool,
    /// Where the control socket is.
    pub control: SocketPlace,
    /// What the calling thread and those of the run may do from the start on.
    pub privileges: Privileges,
}

/// What becomes of privileges when everything is open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Privileges {
    /// They stay: for a process that does more than this run.
    #[default]
    Keep,
    /// The calling thread gives up for good what the run does not need, and becomes this user, or,
    /// if it is root's and has a keeper, one without rights that can write the output.
    GiveUp {
        /// Name.
        user: Option<String>,
    },
}

/// A run under way. Dropped before [`finish`](Session::finish), it ends without a ledger.
pub struct Session<'l> {
    run: Run,
    board: Board,
    control: Option<ControlSocket>,
    ahead: Option<RulesAhead>,
    marking: Option<Marking>,
    duration: Option<Duration>,
    interval: Option<Duration>,
    clients: Remaining,
    link: Option<&'l Link>,
    knobs: Knobs<'l>,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Nothing.
    GoOn,
    /// Begin new files.
    Rotate,
    /// End.
    Stop,
}

/// A run at a moment.
pub struct Moment<'s> {
    /// What was counted so far.
    pub ledger: Ledger,
    /// Of the last whole second; `None` in the first.
    pub rates: Option<Rates>,
    /// The rates are new.
    pub is_new_second: bool,
    /// None of a run without lanes.
    run: Option<&'s Run>,
}

impl Moment<'_> {
    /// Of a run without lanes that are worked on.
    pub(crate) fn unprofiled(ledger: Ledger, rates: Option<Rates>, is_new_second: bool) -> Self {
        Moment { ledger, rates, is_new_second, run: None }
    }

    /// How the lanes are worked on, if their backends count that.
    pub fn profiles(&self) -> Vec<LaneProfile> {
        self.run.map(Run::profiles).unwrap_or_default()
    }
}

/// A run that has ended. Who ordered its end by the control socket, and its keeper, wait until this
/// is [closed](Finished::close) or dropped; what was turned for the run is put back then.
pub struct Finished<'l> {
    /// What was done.
    pub report: RunReport,
    clients: Remaining,
    link: Option<&'l Link>,
    knobs: Knobs<'l>,
}

impl Finished<'_> {
    /// The report is out: a keeper need not close the ledger any more. Returns what could not be
    /// put back as it was before the run, in words.
    pub fn close(self) -> Vec<String> {
        let Finished { clients, link, mut knobs, .. } = self;
        link.inspect(|link| link.closed());
        drop(clients);
        knobs.put_back()
    }
}

impl<'l> Session<'l> {
    /// Opens everything and begins to receive. With a `link` a keeper turns knobs, and finishes if
    /// this process dies. The calling thread goes to the network namespace that is named.
    ///
    /// # Errors
    /// [`Refused`](crate::Refused), or what the system says; nothing is left behind.
    pub fn start(
        origin: Origin,
        mut options: RunOptions,
        link: Option<&'l Link>,
        notes: Notes<'_>,
    ) -> anyhow::Result<Session<'l>> {
        let output = options.output.open()?;
        let knobs = Knobs::new(link);
        let (mut opened, extras) = match origin {
            Origin::Capture(capture) => capture.open(&options.output, &knobs, notes)?,
            Origin::Attach(attach) => (attach.open(notes)?, Extras::default()),
        };
        if let Some(selection) = &extras.selection {
            keep::check_output(selection, &output, extras.trigger.is_some())?;
        }
        opened.warnings.drain(..).for_each(notes);
        let keeper_pid = link.and_then(Link::keeper_pid);
        let status = options.output.status(&output, options.print.is_some());
        let mut board = board(&opened, &extras, status, keeper_pid);
        board.set_flows(options.flows.take());
        let ahead = extras.ahead.clone();
        let config = config(&mut options, &mut opened, extras, output);
        if options.huge_pages {
            reserve_huge_pages(&knobs, &config, opened.lanes.len(), notes);
        }
        let control = ControlSocket::open(&options.control, CAPTURE_KIND, keeper_pid)?;
        let mut session =
            Start { options, opened, config, control, link, knobs, notes }.run(board)?;
        session.ahead = ahead;
        Ok(session)
    }

    /// Answers at the control socket, begins new files when it is time, and asks `each` ten times a
    /// second what to do, until the run ends by itself, by an order, or by an error of `each`.
    ///
    /// # Errors
    /// That of `each`. The run still has to be [finished](Session::finish).
    pub fn watch(
        &mut self,
        each: &mut dyn FnMut(&Moment<'_>) -> anyhow::Result<Order>,
    ) -> anyhow::Result<()> {
        let control = self.control.take();
        let answer = |command| self.board.answer(&self.run, command);
        let (watched, clients) = serve_while(control, answer, || self.wait(each));
        // Who gave the order to stop waits for the end of its connection, which is that of the run.
        self.clients = clients;
        watched
    }

    fn wait(
        &self,
        each: &mut dyn FnMut(&Moment<'_>) -> anyhow::Result<Order>,
    ) -> anyhow::Result<()> {
        let start = Instant::now();
        let stop_at = self.duration.map(|duration| start + duration);
        let mut rotate_at = self.interval.map(|interval| start + interval);
        let mut meter = Meter::default();
        loop {
            let now = Instant::now();
            let ledger = self.run.status();
            let is_new_second = meter.update(now, &ledger);
            let rates = meter.rates;
            if is_new_second {
                self.board.set_rates(rates);
            }
            let order = each(&Moment { ledger, rates, is_new_second, run: Some(&self.run) })?;
            let is_over = stop_at.is_some_and(|at| now >= at) || !self.run.is_running();
            if order == Order::Stop || is_over {
                return Ok(());
            }
            if order == Order::Rotate {
                self.run.rotate();
            }
            if let (Some(at), Some(interval)) = (rotate_at, self.interval)
                && now >= at
            {
                self.run.rotate();
                rotate_at = Some(at.max(now - interval) + interval);
            }
            let next = [stop_at, rotate_at].into_iter().flatten().min();
            std::thread::sleep(next.map_or(TICK, |next| (next - now).min(TICK)));
        }
    }

    /// Ends the run, and closes its files and its ledger.
    pub fn finish(self) -> Finished<'l> {
        // Without a watch it is still there.
        drop(self.control);
        self.link.inspect(|link| link.received());
        let mut report = self.run.finish();
        self.marking.into_iter().for_each(Marking::finish);
        if let (Some(ahead), Some(rules)) = (&self.ahead, &mut report.rules) {
            ahead.add_counts(rules);
        }
        Finished { report, clients: self.clients, link: self.link, knobs: self.knobs }
    }
}

/// A run that is open and not started.
struct Start<'l, 'n> {
    options: RunOptions,
    opened: Opened,
    config: RunConfig,
    control: Option<ControlSocket>,
    link: Option<&'l Link>,
    knobs: Knobs<'l>,
    notes: Notes<'n>,
}

impl<'l> Start<'l, '_> {
    /// Makes ring and files, gives up what is not needed any more, and starts.
    fn run(self, mut board: Board) -> anyhow::Result<Session<'l>> {
        let Start { options, mut opened, config, control, link, knobs, notes } = self;
        let directories = config.output.directories();
        let of_selection = config.selection.iter().filter_map(Selection::files);
        let files = of_selection.chain(options.files.iter().cloned()).collect::<Vec<_>>();
        privileges::raise_locked_memory();
        let made = become_another(&options.privileges, link, &config.output, &files)?;
        let leaving = Leaving::new(&opened.lanes, std::mem::take(&mut opened.kernel), &config);
        let runs_programs = config.observers.iter().any(|observer| observer.runs_programs());
        let marks = config.selection.as_ref().map(|selection| selection.marks().clone());
        let prepared = Run::prepare(opened.lanes, opened.interfaces, config)?;
        // The rings lie where they should; what comes from now on lies where it is used.
        drop(opened.placed.memory);
        tell_prepared(&prepared, options.huge_pages, notes);
        board.set_ring(prepared.memory().cloned());
        let writes_files = !directories.is_empty() || !files.is_empty();
        let keeps = options.privileges == Privileges::Keep;
        let mut others_files = (made.is_some() || keeps) && writes_files;
        if !keeps && !knobs.need_privileges() {
            let others = other_outputs(&files, control.as_ref());
            others_files |= privileges::give_up(&directories, &others, runs_programs)?;
        }
        if let Some(link) = link {
            leaving.send(link, &prepared);
            link.started(others_files)?;
        }
        made.into_iter().for_each(UsersDirectories::keep);
        let recording = prepared.recording().map(|recording| recording.run.to_owned());
        let run = prepared.start()?;
        let marking = marks.zip(recording).map(|(marks, name)| {
            Marking::start(marks, &name, directories).context("starting a thread that pins files")
        });
        notes(Note::Listening { description: opened.description });
        Ok(Session {
            run,
            board,
            control,
            ahead: None,
            marking: marking.transpose()?,
            duration: options.duration,
            interval: options.output.interval(),
            clients: Remaining::default(),
            link,
            knobs,
        })
    }
}

/// Becomes the user of the run, if there is one. Without a keeper no process would be left that can
/// put settings back and remove the socket, so there it has to be asked for.
pub(crate) fn become_another(
    privileges: &Privileges,
    link: Option<&Link>,
    output: &Output,
    files: &[PathBuf],
) -> anyhow::Result<Option<UsersDirectories>> {
    match privileges {
        Privileges::GiveUp { user } if user.is_some() || link.is_some() => {
            privileges::become_another(user.as_deref(), output, files)
        }
        Privileges::GiveUp { .. } | Privileges::Keep => Ok(None),
    }
}

/// Directories in which a run makes or removes files other than its recording.
pub(crate) fn other_outputs(files: &[PathBuf], control: Option<&ControlSocket>) -> Vec<PathBuf> {
    let control = control.map(|socket| socket.path().to_owned());
    let parent = |path: PathBuf| path.parent().map(Path::to_owned);
    files.iter().cloned().chain(control).filter_map(parent).collect()
}

/// The settings of the run.
fn config(
    options: &mut RunOptions,
    opened: &mut Opened,
    extras: Extras,
    output: Output,
) -> RunConfig {
    RunConfig {
        snaplen: extras.snaplen,
        frames_max: options.frames_max,
        ring_bytes: options.ring_bytes.unwrap_or_else(|| usual_ring_bytes(extras.ring_bytes)),
        block_bytes: RING_BLOCK_BYTES,
        threads: extras.threads,
        selection: extras.selection,
        ahead: extras.ahead.map(|ahead| Arc::new(ahead) as Arc<dyn Ahead>),
        cpus: std::mem::take(&mut opened.placed.cpus),
        block_timeout_ns: opened.block_timeout_ns,
        output,
        print: options.print.take(),
        observers: std::mem::take(&mut options.observers),
        trigger: extras.trigger,
        share: extras.share,
    }
}

/// `usual` where there is much memory.
fn usual_ring_bytes(usual: usize) -> usize {
    let free = ringside_sys::memory::available_bytes().unwrap_or(u64::MAX) / SHARE_OF_MEMORY;
    usize::try_from(free).map_or(usual, |free| usual.min(free)).max(RING_BYTES_MIN)
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
fn tell_prepared(prepared: &Prepared, huge_pages: bool, notes: Notes<'_>) {
    if huge_pages && prepared.ring().is_some_and(|ring| !ring.has_huge_pages()) {
        notes(Note::NoHugePages);
    }
    prepared.notes().iter().for_each(|note| notes(Note::Prepared(note.clone())));
}

/// Has the system keep as many free huge pages as the ring takes; without them it lies in others.
fn reserve_huge_pages(knobs: &Knobs<'_>, config: &RunConfig, lanes: usize, notes: Notes<'_>) {
    let Some(layout) = config.ring_layout(lanes) else { return };
    let pages = layout.total_bytes().div_ceil(HUGE_PAGE_BYTES) as u64;
    if let Err(error) = knobs.turn(&Request::HugePages { pages }) {
        notes(Note::Warning(format!("no huge pages were reserved: {error:#}")));
    }
}

#[cfg(test)]
mod tests;
