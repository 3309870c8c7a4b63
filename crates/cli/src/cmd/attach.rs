//! `ringside attach`: read a running capture from another process.

use crate::attached::yield_to_capture;
use crate::filter_args::FilterArgs;
use crate::print_args::PrintArgs;
use crate::record::{self, Printing, RunArgs};
use crate::words;
use clap::Args;
use ringside_client::Reader;
use ringside_core::{Shown, SourceInterface};
use ringside_print::{PacketText, Style};
use ringside_session::AttachOptions;
use ringside_terminal::signals::{StopSignal, Wanted};
use ringside_terminal::{say, units};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long a printing reader waits for a frame before it looks at the order to stop.
const WAIT: Duration = Duration::from_millis(100);

/// Arguments of `attach`.
#[derive(Args)]
#[command(after_help = "Examples:
  sudo ringside capture -i eth1 -w /data --share /run/eth1.share
  ringside attach /run/eth1.share 'port 53'              print what matches, from now on
  ringside attach /run/eth1.share --from -30s -w last.pcapng --for 1s
                                                         what the memory holds of the last 30 s
  ringside attach /run/eth1.share -w - | wireshark -k -i -
  ringside attach /run/eth1.share --json 'port 53'       as JSON objects, and the ledger at last

Signals: SIGINT, SIGTERM and SIGHUP end it in order; SIGUSR1 says how far it is, on
standard error.")]
pub struct AttachArgs {
    /// The socket that `ringside capture --share` made.
    #[arg(value_name = "SOCKET")]
    socket: PathBuf,

    /// Begin so long ago, as -30s, as far as the capture's memory reaches; by default now.
    #[arg(long, value_name = "-DURATION", allow_hyphen_values = true, value_parser = ago)]
    from: Option<Duration>,

    #[command(flatten)]
    print: PrintArgs,

    #[command(flatten)]
    run: RunArgs,

    #[command(flatten)]
    filter: FilterArgs,
}

/// Runs the subcommand.
pub fn run(args: AttachArgs) -> anyhow::Result<ExitCode> {
    let prints = args.run.write.paths.is_empty();
    if prints && !args.run.json {
        return print(&args);
    }
    ringside_keeper::supervised(&args.run.keeper_options(None), |link| {
        let mut printing = Printing(prints.then_some(Style::Json));
        record::run(&args.run, link, &mut printing, || Ok(args.options().into()))
    })
}

impl AttachArgs {
    /// What a session is to read. From here on this process yields to the capture.
    fn options(&self) -> AttachOptions {
        yield_to_capture();
        let (socket, filter) = (self.socket.clone(), self.filter.expression());
        AttachOptions { socket, ago: self.from, filter }
    }
}

/// A line a packet on standard output, until the capture ends, the order to stop, or `-c`.
fn print(args: &AttachArgs) -> anyhow::Result<ExitCode> {
    let (stop, statistics) = (StopSignal::install()?, Wanted::statistics()?);
    let (attachment, options) = args.options().connect(&words::say_note)?;
    let mut reader = Reader::new(&attachment, &options);
    say::message(format_args!("listening on {}", args.socket.shown()));
    let mut text = PacketText::new(Style::Lines(args.print.options()));
    let (mut out, mut lines) = (std::io::stdout().lock(), Vec::new());
    let until = args.run.duration().map(|duration| Instant::now() + duration);
    let count_max = args.run.packets().unwrap_or(u64::MAX);
    while !stop.is_set()
        && !reader.is_finished()
        && reader.delivered() < count_max
        && until.is_none_or(|until| Instant::now() < until)
    {
        if statistics.take() {
            say::message(counts(&mut reader));
        }
        let Some(frame) = reader.next_frame(WAIT) else {
            out.flush()?;
            continue;
        };
        let link = SourceInterface::of(&frame.meta, &attachment.hello().interfaces)?.link_type;
        lines.clear();
        text.append(&mut lines, &frame, link);
        out.write_all(&lines)?;
    }
    out.flush()?;
    say::message(counts(&mut reader));
    Ok(ExitCode::SUCCESS)
}

/// What was printed, and what was not.
fn counts(reader: &mut Reader) -> String {
    format!(
        "{} frames printed, {} missed (this reader was too slow), {} filtered",
        units::grouped(reader.delivered()),
        units::grouped(reader.missed()),
        units::grouped(reader.filtered()),
    )
}

/// A time ago, with or without its minus.
fn ago(text: &str) -> Result<Duration, String> {
    units::duration(text.strip_prefix('-').unwrap_or(text))
}
