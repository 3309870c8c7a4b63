//! `ringside serve`: captures and recordings for browsers and programs.

use crate::starter_args::StarterArgs;
use anyhow::ensure;
use clap::Args;
use ringside_core::Shown;
use ringside_keeper::privileges;
use ringside_serve::{Config, Limits, Listen, Server, Tokens};
use ringside_terminal::signals::StopSignal;
use ringside_terminal::{say, service, units};
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `serve`.
#[derive(Args)]
#[command(after_help = "Examples:
  sudo ringside serve --listen 127.0.0.1:8080 --user alice    then http://127.0.0.1:8080/ as alice
  sudo ringside serve --recordings /data/eth1                 on a Unix socket, with packets
  sudo curl --unix-socket /run/ringside/serve.sock http://localhost/api/v1/health
  ringside serve --listen unix:/run/user/1000/ringside.sock --control /tmp/capture.sock
  sudo ringside serve --listen 127.0.0.1:8080 --tokens /etc/ringside/tokens
  sudo ringside serve --store /data/records                   SQL about records at /api/v1/sql
  sudo ringside serve --listen 127.0.0.1:9184 --metrics       for Prometheus alone
  ringside serve --openapi | jq .paths                        the API, for generators of clients

Without --tokens whose process it is that connects is asked of the kernel: the own user, root and
those of --user may do everything. With --tokens every request needs one. Nothing listens for other
hosts: `ssh -L 8080:127.0.0.1:8080 HOST`, or a proxy that speaks TLS, brings it there.

Each download of packets, each answer of records of them (flows, HTTP, DNS, TLS, calls) and each
change of rules is a line of JSON on standard error.
docs/serve.md describes the API, the page and the tokens.")]
pub struct ServeArgs {
    /// Where to listen: ADDRESS:PORT of this host, or unix:PATH [default: serve.sock in
    /// /run/ringside]
    #[arg(long, value_name = "WHERE")]
    listen: Option<Listen>,

    /// Control socket of a capture; may be given several times [default: all captures in
    /// /run/ringside and $XDG_RUNTIME_DIR/ringside]
    #[arg(long, value_name = "SOCKET")]
    control: Vec<PathBuf>,

    /// Recording or capture file whose packets are found; may be given several times.
    #[arg(long, value_name = "DIR|FILE")]
    recordings: Vec<PathBuf>,

    /// Records that SQL is asked about, as --store of flows, http, calls, dns and tls keeps them.
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,

    /// Also serve processes of this user; may be given several times.
    #[arg(long, value_name = "USER", conflicts_with = "tokens")]
    user: Vec<String>,

    /// File of tokens: a line NAME SCOPES SHA256 for each, scopes of read, packets and control.
    #[arg(long, value_name = "FILE")]
    tokens: Option<PathBuf>,

    /// Name by which a proxy knows this service; may be given several times.
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,

    /// Bytes of packets in one download.
    #[arg(long, value_name = "SIZE", value_parser = units::bytes, default_value = "1GiB")]
    download_max: u64,

    /// Serve /metrics alone, to every process of this host: Prometheus has a user of its own.
    #[arg(long, conflicts_with_all = ["recordings", "store", "user", "tokens", "openapi"])]
    metrics: bool,

    #[command(flatten)]
    starter: StarterArgs,

    /// Print the OpenAPI document on standard output, as JSON, and end.
    #[arg(long)]
    openapi: bool,
}

/// Runs the subcommand.
pub fn run(args: ServeArgs) -> anyhow::Result<ExitCode> {
    if args.openapi {
        say::data(serde_json::to_string_pretty(&ringside_serve::document())?)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(store) = &args.store {
        ensure!(
            store.is_dir(),
            "{}: no such directory; --store names what `ringside flows --store` wrote",
            store.shown()
        );
    }
    for path in &args.recordings {
        ensure!(
            path.is_dir() || path.is_file(),
            "{}: no such recording or file; --recordings names what `ringside capture -w` wrote",
            path.shown()
        );
    }
    let users: anyhow::Result<Vec<u32>> =
        args.user.iter().map(|name| privileges::uid_of(name)).collect();
    let config = Config {
        control: args.control,
        recordings: args.recordings.clone(),
        store: args.store.clone(),
        hosts: args.host,
        users: users?,
        tokens: args.tokens.as_deref().map(Tokens::load).transpose()?,
        metrics_only: args.metrics,
        limits: Limits { download_bytes_max: args.download_max, ..Limits::default() },
    };
    let server = Server::bind(config, &args.listen.unwrap_or_default())?;
    let stop = StopSignal::install()?;
    // Before there are threads: they inherit what is left.
    let read: Vec<PathBuf> = args.recordings.iter().chain(&args.store).cloned().collect();
    privileges::give_up_but_reading(&read)?;
    // A person reads standard error, and a program that started this one the other.
    match args.starter.is_awaited() {
        true => say::data(server.address())?,
        false => say::message(format_args!("listening on {}", server.address())),
    }
    service::ready();
    server.run(&|| stop.is_set() || args.starter.is_gone())?;
    Ok(ExitCode::SUCCESS)
}
