//! `ringside extcap`: what Wireshark asks a program that brings packets (extcap(4)).

mod dialog;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use ringside_core::LinkType;
use ringside_keeper::filter_child;
use ringside_terminal::say;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Under this name the program is this subcommand: Wireshark starts what lies in its folder without
/// one.
const PROGRAM: &str = "ringside-extcap";

/// Where packets come from, each an interface of Wireshark's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Origin {
    /// An interface of this machine.
    #[value(name = "ringside-live")]
    Live,
    /// The ring that a capture shares, with what its memory holds of the past.
    #[value(name = "ringside-share")]
    Share,
    /// A recording, or any capture files.
    #[value(name = "ringside-recording")]
    Recording,
}

/// Arguments of `extcap`.
#[derive(Args)]
#[command(after_help = "Examples:
  tshark -G folders | grep -i extcap        where Wireshark looks for such programs
  sudo ln -s \"$(command -v ringside)\" /usr/lib/x86_64-linux-gnu/wireshark/extcap/ringside-extcap
  wireshark                                 lists `Ringside: ...` among its interfaces
  ringside extcap --extcap-interfaces       the lines that Wireshark reads
  tshark -i ringside-recording -o extcap.ringside_recording.recording:/data/eth1 -f 'port 53'")]
pub struct ExtcapArgs {
    #[command(flatten)]
    question: Question,

    /// The interface that is asked about.
    #[arg(long, value_name = "NAME")]
    extcap_interface: Option<Origin>,

    /// Version of the program that asks; all are answered alike.
    #[arg(long, value_name = "VERSION", hide = true)]
    extcap_version: Option<String>,

    /// Capture filter: without --capture it is only checked, and what is wrong with it printed.
    #[arg(long, value_name = "FILTER")]
    extcap_capture_filter: Option<String>,

    /// Pipe to which packets go, as pcapng.
    #[arg(long, value_name = "PIPE", requires = "capture")]
    fifo: Option<PathBuf>,

    #[command(flatten)]
    dialog: dialog::Dialog,
}

/// What is asked for.
#[derive(Args)]
#[group(multiple = false)]
struct Question {
    /// List the interfaces.
    #[arg(long)]
    extcap_interfaces: bool,

    /// Name the link type.
    #[arg(long, requires = "extcap_interface")]
    extcap_dlts: bool,

    /// Describe the dialog.
    #[arg(long, requires = "extcap_interface")]
    extcap_config: bool,

    /// Bring packets.
    #[arg(long, requires_all = ["extcap_interface", "fifo"])]
    capture: bool,
}

/// The arguments of this program, with the subcommand that its name stands for.
pub fn arguments(given: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut all: Vec<OsString> = given.collect();
    let name = all.first().and_then(|program| Path::new(program).file_name());
    // This program also starts itself, with a subcommand; Wireshark's calls are options alone.
    let is_option = |word: &OsString| word.as_encoded_bytes().starts_with(b"-");
    if name.is_some_and(|name| name == PROGRAM) && all.get(1).is_some_and(is_option) {
        all.insert(1, "extcap".into());
    }
    all
}

/// Runs the subcommand.
pub fn run(args: ExtcapArgs) -> anyhow::Result<ExitCode> {
    let Question { extcap_interfaces, extcap_dlts, extcap_config, capture } = args.question;
    match (args.extcap_interface, args.extcap_capture_filter) {
        _ if extcap_interfaces => say::data(dialog::interfaces())?,
        _ if extcap_dlts => say::data(dialog::LINK_TYPE)?,
        (Some(origin), _) if extcap_config => say::data(args.dialog.describe(origin)?)?,
        (Some(origin), filter) if capture => {
            let pipe = args.fifo.context("--capture needs --fifo PIPE")?;
            bring(&args.dialog.command(origin, filter)?, &pipe)?;
        }
        (Some(_), Some(filter)) => {
            // What is printed is what is wrong with it.
            if let Err(error) = filter_child::compile(&filter, LinkType::ETHERNET) {
                say::data(format_args!("{error:#}"))?;
            }
        }
        _ => bail!(
            "Wireshark asks this, not people: link it as {PROGRAM} into the extcap folder that \
             `tshark -G folders` names; --help shows how"
        ),
    }
    Ok(ExitCode::SUCCESS)
}

/// Becomes the subcommand that brings the packets, with the pipe as its standard output. Signals
/// and the end of the pipe are then that one's.
fn bring(arguments: &[OsString], pipe: &Path) -> anyhow::Result<()> {
    let program = std::env::current_exe().context("finding this program")?;
    let writer = OpenOptions::new().write(true).open(pipe);
    let writer = writer.with_context(|| format!("--fifo {}", pipe.display()))?;
    Err(Command::new(program).args(arguments).stdout(writer).exec()).context("starting the capture")
}
