#![forbid(unsafe_code)]
//! The `ringside` command: one file per subcommand under `cmd`.
//!
//! Standard output carries data (packet lines, JSON, a capture stream); people's messages and
//! progress go to standard error. Exit status: 0 done, 1 nothing found or a check that failed, 2
//! could not. A run that receives ends with its ledger.

mod attached;
mod cmd;
mod config;
mod control_args;
mod filter_args;
mod in_driver;
mod in_driver_args;
mod inputs;
mod keep_args;
mod live;
mod logging;
mod metrics;
mod open_args;
mod outlet_args;
mod pinned;
mod print_args;
mod range_args;
mod record;
mod running;
mod starter_args;
mod store_args;
mod stored;
mod stored_args;
mod words;

use anyhow::ensure;
use clap::{CommandFactory, Parser, Subcommand};
use ringside_keeper::filter_child::{self, FILTER_CHILD};
use ringside_terminal::say;
use std::ffi::OsString;
use std::io;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

/// Captures, records and reads packets on stock Linux, and accounts for every one of them.
#[derive(Parser)]
#[command(name = "ringside", version, about, max_term_width = 100)]
#[command(after_help = "Examples:
  sudo ringside capture -i eth1                      print what eth1 receives and sends
  sudo ringside capture -i eth1 -w /data/eth1        record it, as pcapng that Wireshark opens
  ringside read -r /data/eth1 -n 'tcp port 80'       print what was recorded
  sudo ringside --config eth1.toml capture           options from a file (ringside config)
  sudo ringside demo                                 see it work on a private network")]
struct Cli {
    /// Options of the subcommand from this file as well; those of the command line win.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Receive from interfaces: print, count or record.
    Capture(Box<cmd::capture::CaptureArgs>),
    /// Read a running capture from another process.
    Attach(cmd::attach::AttachArgs),
    /// What the running captures do.
    Status(cmd::status::StatusArgs),
    /// The running captures on the whole terminal: rates, losses, lanes, readers.
    Top(cmd::top::TopArgs),
    /// Give an order to a running capture: rotate, stop.
    Control(cmd::control::ControlCommandArgs),
    /// Print packets of files, directories or standard input, or copy them.
    Read(cmd::read::ReadArgs),
    /// Find packets again in recordings and captures, by their indexes.
    Find(Box<cmd::find::FindArgs>),
    /// Build the indexes that `find` asks.
    Index(cmd::index::IndexArgs),
    /// Keep files of recordings: retention does not delete them.
    Pin(cmd::pin::PinArgs),
    /// Give files that were pinned back to retention.
    Unpin(cmd::pin::UnpinArgs),
    /// Compress files of recordings so that they can still be searched.
    Compress(cmd::compress::CompressArgs),
    /// Packets added up by conversation: a table of the largest, or records.
    Flows(Box<cmd::flows::FlowsArgs>),
    /// HTTP transactions, as logs that web servers and proxies write.
    Http(Box<cmd::http::HttpCommandArgs>),
    /// DNS queries with their answers, a line each.
    Dns(Box<cmd::dns::DnsArgs>),
    /// SIP calls with their times, and the quality of their media.
    Calls(Box<cmd::calls::CallsCommandArgs>),
    /// TLS handshakes: names, versions, fingerprints and certificates, a line each.
    Tls(Box<cmd::tls::TlsArgs>),
    /// What an analyzer of your own finds: a WebAssembly module, within limits.
    Analyze(Box<cmd::analyze::AnalyzeArgs>),
    /// Ask stored records in SQL.
    Query(cmd::query::QueryArgs),
    /// Make recordings whole that were not ended: after a crash, a power cut, or of a copy.
    Repair(cmd::repair::RepairArgs),
    /// Check rules, tell what they would do with captured packets, and change those of a run.
    Rules(cmd::rules::RulesArgs),
    /// Drop frames inside the driver, by rules, to protect this host.
    Drop(cmd::drop::DropArgs),
    /// Forward packets between interfaces inside the driver, by the kernel's routes.
    Route(cmd::route::RouteArgs),
    /// Send packets to VIPs on to the servers behind, inside the driver, each flow to one of them.
    Balance(Box<cmd::balance::BalanceArgs>),
    /// Take packets that a balancer sent out of their tunnels, on a server behind it.
    Decap(cmd::decap::DecapArgs),
    /// Show running captures and recordings in a browser and to programs: page, API, metrics.
    Serve(cmd::serve::ServeArgs),
    /// Send frames out of an interface: generated ones, or captures again.
    Send(Box<cmd::send::SendArgs>),
    /// A private test network of namespaces, and senders.
    Lab(cmd::lab::LabArgs),
    /// The main job on a private network, in one go: record real programs, then read it back.
    Demo(cmd::demo::DemoArgs),
    /// Measure this machine, with a peer in the same run.
    Bench(ringside_bench::BenchArgs),
    /// Problems of capturing on this machine and its interfaces, and what fixes them.
    Doctor(cmd::doctor::DoctorArgs),
    /// What this machine can capture with.
    Backends(cmd::backends::BackendsArgs),
    /// Bring packets into Wireshark's own dialog.
    Extcap(Box<cmd::extcap::ExtcapArgs>),
    /// Check configuration files, show them as command lines, begin one.
    Config(cmd::config::ConfigArgs),
    /// Write manual pages of all commands.
    Manual(cmd::manual::ManualArgs),
    /// Print what a shell completes commands and options by.
    Completions(cmd::manual::CompletionsArgs),
}

fn main() -> ExitCode {
    log_to_stderr();
    // Before all commands are listed: a filter's user waits for this process.
    let first = std::env::args_os().nth(1).unwrap_or_default();
    if first == FILTER_CHILD {
        return filter_child::run();
    }
    if first == cmd::analyze::OBJECT_CHILD {
        return cmd::analyze::try_object();
    }
    run(cmd::extcap::arguments(std::env::args_os())).unwrap_or_else(|error| {
        if is_pipe_closed(&error) {
            return ExitCode::SUCCESS;
        }
        say::message(format_args!("ringside: {}", words::of_error(&error)));
        ExitCode::from(2)
    })
}

fn run(words: Vec<OsString>) -> anyhow::Result<ExitCode> {
    let cli = Cli::parse_from(config::with_file(words, Cli::command)?);
    ensure!(cli.config.is_none(), "--config: one file, once, in front of the command");
    match cli.command {
        Command::Capture(args) => cmd::capture::run(*args),
        Command::Attach(args) => cmd::attach::run(args),
        Command::Status(args) => cmd::status::run(args),
        Command::Top(args) => cmd::top::run(args),
        Command::Control(args) => cmd::control::run(args),
        Command::Read(args) => cmd::read::run(args),
        Command::Find(args) => cmd::find::run(*args),
        Command::Index(args) => cmd::index::run(args),
        Command::Pin(args) => cmd::pin::run(args),
        Command::Unpin(args) => cmd::pin::unpin(args),
        Command::Compress(args) => cmd::compress::run(args),
        Command::Flows(args) => cmd::flows::run(*args),
        Command::Http(args) => cmd::http::run(*args),
        Command::Dns(args) => cmd::dns::run(*args),
        Command::Calls(args) => cmd::calls::run(*args),
        Command::Tls(args) => cmd::tls::run(*args),
        Command::Analyze(args) => cmd::analyze::run(*args),
        Command::Query(args) => cmd::query::run(args),
        Command::Repair(args) => cmd::repair::run(args),
        Command::Rules(args) => cmd::rules::run(args),
        Command::Drop(args) => cmd::drop::run(args),
        Command::Route(args) => cmd::route::run(args),
        Command::Balance(args) => cmd::balance::run(*args),
        Command::Decap(args) => cmd::decap::run(args),
        Command::Send(args) => cmd::send::run(*args),
        Command::Serve(args) => cmd::serve::run(args),
        Command::Lab(args) => cmd::lab::run(args),
        Command::Demo(args) => cmd::demo::run(args),
        Command::Bench(args) => ringside_bench::run(args),
        Command::Doctor(args) => cmd::doctor::run(args),
        Command::Backends(args) => cmd::backends::run(args),
        Command::Extcap(args) => cmd::extcap::run(*args),
        Command::Config(args) => cmd::config::run(args, Cli::command()),
        Command::Manual(args) => cmd::manual::write_pages(&args, Cli::command()),
        Command::Completions(args) => cmd::manual::print_completions(&args, Cli::command()),
    }
}

fn log_to_stderr() {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .without_time()
        .with_target(false)
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_env("RINGSIDE_LOG")
                .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn")),
        )
        .init();
}

/// True if the program behind our output had enough: no failure of ours.
fn is_pipe_closed(error: &anyhow::Error) -> bool {
    let kind = |cause: &io::Error| cause.kind() == io::ErrorKind::BrokenPipe;
    error.chain().any(|cause| cause.downcast_ref::<io::Error>().is_some_and(kind))
}

#[cfg(test)]
mod command_line;

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives every command that users see, with its names from the first on.
    fn each_command(at: &clap::Command, names: &str, note: &mut impl FnMut(&str, &clap::Command)) {
        note(names, at);
        let seen = at.get_subcommands().filter(|one| !one.is_hide_set());
        for one in seen.filter(|one| one.get_name() != "help") {
            each_command(one, &format!("{names} {}", one.get_name()), note);
        }
    }

    #[test]
    fn every_help_has_examples_that_parse() {
        let (mut without, mut examples) = (Vec::new(), Vec::new());
        each_command(&Cli::command(), "ringside", &mut |names, command| {
            let help = command.clone().render_long_help().to_string();
            let Some((_, text)) = help.split_once("Examples:") else {
                without.push(names.to_owned());
                return;
            };
            let lines = text.lines().filter(|line| line.starts_with("  "));
            examples.extend(lines.filter_map(command_line::parsed));
        });
        assert!(without.is_empty(), "no examples: {without:?}");
        all_parse(&examples, 100);
    }

    #[test]
    fn every_command_of_readme_and_tutorials_parses() {
        for (text, count_min) in [
            (include_str!("../../../README.md"), 25),
            (include_str!("../../../docs/start.md"), 8),
            (include_str!("../../../docs/tutorials/security.md"), 10),
            (include_str!("../../../docs/tutorials/operations.md"), 5),
            (include_str!("../../../docs/tutorials/development.md"), 5),
        ] {
            let fences = text.split("```").skip(1).step_by(2);
            let lines = fences.filter_map(|fence| fence.strip_prefix("sh\n")).flat_map(str::lines);
            all_parse(&lines.filter_map(command_line::parsed).collect::<Vec<_>>(), count_min);
        }
    }

    #[test]
    fn the_letters_of_the_readme_are_those_that_are_taken() {
        let text = include_str!("../../../README.md");
        for name in ["capture", "read"] {
            let (_, rest) = text.split_once(&format!("`{name}`: `")).unwrap();
            let (listed, _) = rest.split_once('`').unwrap();
            let mut listed: Vec<&str> = listed.split_whitespace().collect();
            let cli = Cli::command();
            let command = cli.find_subcommand(name).unwrap();
            let seen = command.get_arguments().filter(|option| !option.is_hide_set());
            let mut taken: Vec<String> =
                seen.filter_map(clap::Arg::get_short).map(|letter| format!("-{letter}")).collect();
            listed.sort_unstable();
            taken.sort_unstable();
            assert_eq!(listed, taken, "{name}");
        }
    }

    /// There are at least `count_min` commands, and none would be refused.
    fn all_parse(commands: &[Result<(), String>], count_min: usize) {
        let refused: Vec<&String> = commands.iter().filter_map(|one| one.as_ref().err()).collect();
        assert!(refused.is_empty(), "{refused:#?}");
        assert!(commands.len() >= count_min, "only {} commands were found", commands.len());
    }
}
