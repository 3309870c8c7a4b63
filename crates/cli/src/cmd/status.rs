//! `ringside status`: what the running captures do.

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use ringside_control::{Command, Found, Status};
use ringside_report::status as report;
use ringside_terminal::say;
use ringside_terminal::signals::StopSignal;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How often `--watch` looks.
const INTERVAL: Duration = Duration::from_secs(1);
/// How often signals are looked at meanwhile.
const TICK: Duration = Duration::from_millis(20);

/// Arguments of `status`.
#[derive(Args)]
#[command(after_help = "Examples:
  sudo ringside status                every running capture, a line each
  sudo ringside status --watch        the same, each second
  sudo ringside status --json | jq '.status.ledger.dropped'")]
pub struct StatusArgs {
    /// Control socket of one capture; by default all in /run/ringside and
    /// $XDG_RUNTIME_DIR/ringside.
    #[arg(value_name = "SOCKET")]
    socket: Option<PathBuf>,

    /// One JSON object a line on standard output for each capture.
    #[arg(long)]
    json: bool,

    /// Again each second, until Ctrl-C or until no capture runs.
    #[arg(long)]
    watch: bool,
}

/// Runs the subcommand: status 1 if no capture runs, 2 if none that runs could be asked.
pub fn run(args: StatusArgs) -> anyhow::Result<ExitCode> {
    let stop = StopSignal::install()?;
    let screen = Screen::new(&args);
    for round in 0u64.. {
        let mut found = Found::at(args.socket.as_deref());
        let mut rows = Vec::new();
        for client in &mut found.clients {
            match client.ask(&Command::Status {}) {
                Ok(reply) => rows.extend(reply.status.map(|status| (client.path(), *status))),
                Err(error) => found.errors.push(error),
            }
        }
        if round == 0 {
            for error in &found.errors {
                say::message(format_args!("ringside: {error:#}"));
            }
        }
        match (rows.is_empty(), found.errors.is_empty()) {
            // All that was watched has ended.
            (true, _) if round > 0 => break,
            (true, true) => {
                say::message("no capture runs");
                return Ok(ExitCode::from(1));
            }
            (true, false) => return Ok(ExitCode::from(2)),
            (false, _) => screen.show(&rows, args.json)?,
        }
        if !args.watch || is_stopped_within(&stop, INTERVAL) {
            break;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn is_stopped_within(stop: &StopSignal, interval: Duration) -> bool {
    let start = Instant::now();
    while !stop.is_set() && start.elapsed() < interval {
        std::thread::sleep(TICK);
    }
    stop.is_set()
}

/// Where the tables go: one after the other, or each in the place of the one before.
struct Screen {
    in_place: Option<ProgressBar>,
}

impl Screen {
    fn new(args: &StatusArgs) -> Screen {
        let in_place = args.watch && !args.json && io::stdout().is_terminal();
        let bar = in_place.then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stdout());
            bar.set_style(ProgressStyle::with_template("{msg}").expect("a constant template"));
            bar
        });
        Screen { in_place: bar }
    }

    fn show(&self, rows: &[(&Path, Status)], json: bool) -> io::Result<()> {
        if json {
            return report::json(rows.iter().map(|(socket, status)| (*socket, status)));
        }
        let text = report::table(rows.iter().map(|(_, status)| status));
        match &self.in_place {
            Some(bar) => bar.set_message(text),
            None => say::data(text)?,
        }
        Ok(())
    }
}

impl Drop for Screen {
    /// The last table stays on the terminal.
    fn drop(&mut self) {
        if let Some(bar) = &self.in_place {
            bar.abandon();
        }
    }
}
