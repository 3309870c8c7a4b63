//! Metrics of a run: `ringside serve --metrics` next to it, a process of its own that ends with the
//! run, so that nothing a client sends reaches a process that receives.

use anyhow::{Context, bail};
use ringside_control::{CAPTURE_KIND, SocketPlace, paths};
use ringside_serve::Listen;
use ringside_terminal::{say, service};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long it may take to end, which ends its connections too.
const END_TIME_MAX: Duration = Duration::from_secs(5);
/// How often is looked whether it has.
const END_TICK: Duration = Duration::from_millis(10);

/// It, while it is there.
pub struct MetricsService(Child);

impl MetricsService {
    /// Starts it at `listen`, for the run of this process with its control socket at `control`.
    ///
    /// # Errors
    /// It does not start: the address is taken, say, as it says itself on standard error.
    pub fn start(listen: &str, control: &SocketPlace) -> anyhow::Result<MetricsService> {
        let program = std::env::current_exe().context("finding this program")?;
        let mut command = Command::new(program);
        command.args(["serve", "--metrics", "--until-stdin-closes", "--listen", listen]);
        for path in paths(control, CAPTURE_KIND, std::process::id()) {
            command.arg("--control").arg(path);
        }
        // That this is ready says nothing of the run, whose keeper reports to the service manager.
        command.env_remove(service::VARIABLE);
        // A terminal's Ctrl-C is for the run; this is to answer until that has ended.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let child = command.spawn().context("starting the service of metrics")?;
        let mut service = MetricsService(child);
        let mut address = String::new();
        if let Some(output) = service.0.stdout.take() {
            BufReader::new(output).read_line(&mut address).context("the service of metrics")?;
        }
        if address.is_empty() {
            bail!("no metrics at {listen}");
        }
        let address = address.trim_end();
        let path = if address.ends_with('/') { "metrics" } else { "" };
        say::message(format_args!("metrics at {address}{path}"));
        Ok(service)
    }
}

impl Drop for MetricsService {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let begin = Instant::now();
        while matches!(self.0.try_wait(), Ok(None)) {
            if begin.elapsed() >= END_TIME_MAX {
                // One that does not end loses nothing; an error says that it has meanwhile.
                let _ = self.0.kill();
                let _ = self.0.wait();
                return;
            }
            sleep(END_TICK);
        }
    }
}

/// Checks where it is to listen: on this host, as every process that gets there may read them.
pub fn place(text: &str) -> Result<String, String> {
    let listen: Listen = text.parse()?;
    match listen.reaches_others() {
        false => Ok(text.to_owned()),
        true => Err(format!(
            "{text} can be reached from other hosts: have `ringside serve --metrics` serve them \
             there, with --tokens and --tls-cert, or listen on 127.0.0.1"
        )),
    }
}
