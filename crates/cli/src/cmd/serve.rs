//! `ringside serve`: captures and recordings for browsers and programs.

use crate::starter_args::StarterArgs;
use anyhow::ensure;
use clap::Args;
use ringside_core::Shown;
use ringside_keeper::privileges;
use ringside_serve::{Config, Limits, Listen, Orders, Server, Tls, Tokens};
use ringside_terminal::signals::{HangUp, RunSignals, StopSignal};
use ringside_terminal::{say, service, units};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::SystemTime;

/// Arguments of `serve`.
#[derive(Args)]
#[command(after_help = "Examples:
  sudo ringside serve --listen 127.0.0.1:8080 --user alice    then http://127.0.0.1:8080/ as alice
  sudo ringside serve --recordings /data/eth1                 on a Unix socket, with packets
  sudo curl --unix-socket /run/ringside/serve.sock http://localhost/api/v1/health
  ringside serve --listen unix:/run/user/1000/ringside.sock --control /tmp/capture.sock
  sudo ringside serve --listen 127.0.0.1:8080 --tokens /etc/ringside/tokens
  sudo ringside serve --store /data/records                   SQL about records at /api/v1/sql
  sudo ringside serve --listen 0.0.0.0:8443 --tokens tokens --tls-cert chain.pem --tls-key key.pem
  sudo ringside serve --listen 127.0.0.1:9184 --metrics       for Prometheus alone
  ringside serve --openapi | jq .paths                        the API, for generators of clients

Without --tokens whose process it is that connects is asked of the kernel: the own user, root and
those of --user may do everything. With --tokens every request needs one. Other hosts get in with
tokens and TLS alone; else `ssh -L 8080:127.0.0.1:8080 HOST`, or a proxy, brings it there.

Each download of packets, each answer of records of them (flows, HTTP, DNS, TLS, calls) and each
change of rules is a line of JSON on standard error.
docs/serve.md describes the API, the page and the tokens.")]
pub struct ServeArgs {
    /// Where to listen: ADDRESS:PORT, of this host alone unless there are --tokens and --tls-cert,
    /// or unix:PATH [default: serve.sock in /run/ringside]
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

    /// Speak TLS (1.2 and 1.3) with this certificate: a PEM file, behind it those that lead to a
    /// known one. Requests may have the names that it is for.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// The certificate's key, a PEM file that others cannot read. SIGHUP has both read again.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// Name by which a proxy knows this service; may be given several times.
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,

    /// Bytes of packets in one download.
    #[arg(long, value_name = "SIZE", value_parser = units::bytes, default_value = "1GiB")]
    download_max: u64,

    /// Serve /metrics alone, to every process of this host: Prometheus has a user of its own. With
    /// --tokens to whom has one.
    #[arg(long, conflicts_with_all = ["recordings", "store", "user", "openapi"])]
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
    let tls = match (&args.tls_cert, &args.tls_key) {
        (Some(certificate), Some(key)) => Some(Tls::load(certificate, key)?),
        _ => None,
    };
    let now = SystemTime::now();
    let warnings = tls.iter().flat_map(|tls| tls.warnings(now));
    warnings.for_each(|text| say::message(format_args!("ringside: warning: {text}")));
    let signals = Signals::install(tls.is_some())?;
    let config = Config {
        control: args.control,
        recordings: args.recordings.clone(),
        store: args.store.clone(),
        hosts: args.host,
        users: users?,
        tokens: args.tokens.as_deref().map(Tokens::load).transpose()?,
        tls,
        metrics_only: args.metrics,
        limits: Limits { download_bytes_max: args.download_max, ..Limits::default() },
    };
    let server = Server::bind(config, &args.listen.unwrap_or_default())?;
    // Before there are threads: they inherit what is left.
    let read: Vec<PathBuf> = args.recordings.iter().chain(&args.store).cloned().collect();
    privileges::give_up_but_reading(&read)?;
    if let Some(error) = server.cannot_renew() {
        say::message(format_args!("ringside: warning: no SIGHUP will renew it: {error:#}"));
    }
    // A person reads standard error, and a program that started this one the other.
    match args.starter.is_awaited() {
        true => say::data(server.address())?,
        false => say::message(format_args!("listening on {}", server.address())),
    }
    service::ready();
    server.run(&Orders {
        stop: &|| signals.stop.is_set() || args.starter.is_gone(),
        renew: &|| signals.is_renewal(),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// What ends the service, or has it read its certificate again.
struct Signals {
    stop: StopSignal,
    /// SIGHUP, where it does not end the service.
    hang_up: Option<HangUp>,
}

impl Signals {
    fn install(has_tls: bool) -> anyhow::Result<Signals> {
        if !has_tls {
            return Ok(Signals { stop: StopSignal::install()?, hang_up: None });
        }
        // Asked before the stop's own handlers are there.
        let hang_up = HangUp::that_ends_nothing()?;
        let RunSignals { stop, .. } = RunSignals::install()?;
        Ok(Signals { stop, hang_up: Some(hang_up) })
    }

    /// True once for each SIGHUP; that of a terminal which goes away ends the service all the same.
    fn is_renewal(&self) -> bool {
        let Some(hang_up) = self.hang_up.as_ref().filter(|hang_up| hang_up.take()) else {
            return false;
        };
        if hang_up.is_of_terminal() {
            self.stop.set();
        }
        !self.stop.is_set()
    }
}
