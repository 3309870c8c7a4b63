#![forbid(unsafe_code)]
//! The keeper: a small parent process that outlives what may die.
//!
//! `ringside capture` is two processes. What the user started is the keeper; it starts the same
//! program with the same arguments as its child, the *worker*, which receives and writes. The two
//! share a socket pair:
//!
//! - The keeper catches the signals that end a run, and those that ask for new files or
//!   statistics, and passes them on as orders. The worker answers the same signals itself; a
//!   terminal sends them to both, and the order that comes twice is one.
//! - The worker sends what is needed to finish for it (descriptors of its memory and sockets, names
//!   of its files), and asks for knobs to be turned.
//! - If the worker is killed, the keeper finishes. If the keeper is killed, the worker sees the end
//!   of the socket and ends the run in order. If both are, the next start repairs.
//!
//! Knobs (settings of the system that outlive a process) are turned by the keeper, after a note in
//! a journal, and put back at the end, or by the next start if keeper and worker die.
//!
//! The keeper waits in one poll and costs nothing meanwhile. A run may also do without
//! ([`KeeperOptions::no_keeper`]).
//!
//! Both give up what they do not need any more ([`privileges`]), and fix what dead processes left
//! ([`repair_progress`], [`put_back_of_the_dead`]). A third process may compile filters
//! ([`filter_child`]). This stands apart from the command line, so
//! that a service may run a capture in the same way; it refuses to open anything for one.

pub mod filter_child;
mod heartbeat;
mod journal;
mod knob;
mod knobs;
mod link;
mod message;
mod part;
pub mod privileges;
mod process;
mod remains;
pub mod repair_progress;
mod supervise;

pub use journal::{left_by_the_dead, put_back_of_the_dead};
pub use knob::{Request, SettingRequest, in_namespace};
pub use knobs::{Knobs, put_back_what_stays, turn_for_good, what_stays_turned};
pub use link::Link;
pub use remains::{Kept, Leaving};
pub use supervise::NoWorker;

use ringside_control::SocketPlace;
use ringside_terminal::say;
use std::any::Any;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Names the socket that a worker finds its keeper by.
const ENVIRONMENT: &str = "RINGSIDE_KEEPER";

/// Finishes with what the worker had the keeper keep ([`Link::keep`]), and says so; the words tell
/// how the worker ended.
pub type Finish<'w> = &'w dyn Fn(Vec<Kept>, &str) -> anyhow::Result<()>;

/// Starts what goes on next to a run, which ends as it is dropped.
pub type Companion<'w> = Box<dyn Fn() -> anyhow::Result<Box<dyn Any>> + 'w>;

/// What a subcommand wants of a keeper.
pub struct KeeperOptions<'w> {
    /// Run in one process.
    pub no_keeper: bool,
    /// The ledger goes to standard output as JSON, also if the keeper closes it.
    pub json: bool,
    /// Where recordings may lie that a dead process did not end; these are fixed first.
    pub directories: &'w [PathBuf],
    /// Where the control socket is, which a worker without rights cannot remove.
    pub control: SocketPlace,
    /// Where others attach, which it cannot remove either.
    pub share: Option<&'w Path>,
    /// What else is started before the run, and dropped behind it.
    pub companion: Option<Companion<'w>>,
    /// Of a run that is no capture: what finishes it if the worker dies.
    pub finish: Option<Finish<'w>>,
}

/// Runs `work` in a process with a keeper: this one if it has a keeper or wants none (then `work`
/// gets no link), else a child, and this process becomes its keeper.
///
/// # Errors
/// Those of `work` here; or the child could not be started.
pub fn supervised(
    options: &KeeperOptions<'_>,
    work: impl FnOnce(Option<Link>) -> anyhow::Result<ExitCode>,
) -> anyhow::Result<ExitCode> {
    let text = std::env::var_os(ENVIRONMENT);
    let socket = text.as_deref().and_then(OsStr::to_str).and_then(ringside_sys::child::inherited);
    if let Some(socket) = socket {
        return work(Some(Link::new(socket)?));
    }
    for note in journal::put_back_of_the_dead() {
        say::message(format_args!("ringside: {note}"));
    }
    remains::repair_of_the_dead(options.directories);
    let _companion = options.companion.as_ref().map(|start| start()).transpose()?;
    if options.no_keeper { work(None) } else { supervise::run(options) }
}
