//! `ringside demo`: the main job on a private network, in one go.
//!
//! Real programs talk in the lab's two namespaces (an HTTP server and curl, a DNS server and dig,
//! ping) while the generator sends; a capture of its own process records all of it; the recording
//! is read back; the ledger and the next commands to type are shown.

use anyhow::{Context, bail, ensure};
use clap::Args;
use ringside_core::Ledger;
use ringside_lab::{Lab, LabConfig, RECEIVER_ADDRESS, RECEIVER_INTERFACE};
use ringside_terminal::say;
use ringside_terminal::units::grouped;
use serde::Deserialize;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Frames of the generator.
const GENERATED: u64 = 500_000;
/// Their rate, which any machine that can run the demo sustains.
const GENERATED_PER_SEC: u64 = 100_000;
/// How long a program may take to come up.
const START_MAX: Duration = Duration::from_secs(10);
/// Name that the demo's DNS server answers.
const HOST: &str = "www.ringside.example";

/// Arguments of `demo`.
#[derive(Args)]
#[command(after_help = "Examples:
  sudo ringside demo                       less than a minute; needs root for namespaces
  sudo ringside demo -w /data/demo         keep the recording there")]
pub struct DemoArgs {
    /// Directory for the recording.
    #[arg(short = 'w', long = "write", value_name = "DIR", default_value = "ringside-demo")]
    write: PathBuf,
}

/// Runs the subcommand. Status 1 if something was lost or the ledger does not balance.
pub fn run(args: DemoArgs) -> anyhow::Result<ExitCode> {
    for tool in ["ip", "setpriv", "curl", "dig", "dnsmasq", "ping", "python3"] {
        ensure!(is_installed(tool), "the demo needs {tool}: run `make deps` as root");
    }
    say("making a private network of two namespaces and a virtual wire");
    let config = LabConfig { name: "demo".into(), addresses: true, ..LabConfig::default() };
    let lab = Lab::up(&config)?;
    let client = Namespace(lab.status().sender_namespace.clone());
    let server = Namespace(lab.status().receiver_namespace.clone());

    say(&format!("recording {RECEIVER_INTERFACE} into {}", args.write.display()));
    let mut capture = Capture::start(&server, &args.write)?;
    say("real programs talk: HTTP, DNS, ping");
    talk(&client, &server)?;
    say(&format!("and with them {} generated frames", grouped(GENERATED)));
    generate()?;
    // What the kernel still holds back arrives within a block time-out.
    let status = capture.finish()?;

    say("the recording read back: the first HTTP packets");
    let read = ringside()?
        .args(["read", "-n", "-c", "12", "-r"])
        .arg(&args.write)
        .arg("tcp port 80")
        .status()?;
    ensure!(read.success(), "the recording does not hold the HTTP packets");
    next_steps(&args);
    Ok(if status { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn say(text: &str) {
    say::message(format_args!("demo: {text}"));
}

fn next_steps(args: &DemoArgs) {
    let dir = args.write.display();
    // The files belong to the user that recorders become, and other users may not read them.
    let sudo = if std::env::var_os("SUDO_UID").is_some() { "sudo " } else { "" };
    eprintln!(
        "\ndemo: the files are in {dir}; what to type next:
  {sudo}ringside read -r {dir} -v 'udp port 53'      the DNS look-ups
  {sudo}ringside read -r {dir} -w demo.pcapng        one file in the order of time
  {sudo}tshark -r demo.pcapng -q -z io,phs           other programs open it
  sudo ringside capture -i IF -w DIR            the same on an interface of your own"
    );
}

fn is_installed(tool: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&paths).chain(system).any(|dir| dir.join(tool).is_file())
}

fn ringside() -> anyhow::Result<Command> {
    Ok(Command::new(std::env::current_exe().context("finding this program")?))
}

/// Put before a program that must not outlive this process, however this ends (prctl(2),
/// PR_SET_PDEATHSIG). It becomes the program, so the process id stays.
const WITH_US: [&str; 3] = ["setpriv", "--pdeathsig", "TERM"];

/// A namespace of the lab, to run programs in.
struct Namespace(String);

impl Namespace {
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0, program]);
        command
    }

    /// Runs a program to its end.
    fn run(&self, line: &[&str]) -> anyhow::Result<()> {
        let output = self.command(line[0]).args(&line[1..]).output()?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            bail!("{} failed ({}): {}", line.join(" "), output.status, text.trim());
        }
        Ok(())
    }

    /// Starts a program that is ended with the returned guard.
    fn start(&self, line: &[&str]) -> anyhow::Result<Running> {
        let mut command = self.command(WITH_US[0]);
        command
            .args(&WITH_US[1..])
            .args(line)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Ok(Running(command.spawn().with_context(|| format!("starting {}", line[0]))?))
    }
}

/// A program that ends with its guard. `ip netns exec` becomes the program, so this is its pid.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself; a failure here has no reader.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Real programs: a web server and a name server on one side, their clients on the other.
fn talk(client: &Namespace, server: &Namespace) -> anyhow::Result<()> {
    let site = tempdir()?;
    let page = "<h1>Ringside</h1>\n".repeat(5_000);
    std::fs::write(site.path().join("index.html"), page).context("the demo's web page")?;
    let folder = site.path().display().to_string();
    let _http = server.start(&[
        "python3",
        "-m",
        "http.server",
        "80",
        "--bind",
        RECEIVER_ADDRESS,
        "--directory",
        &folder,
    ])?;
    let address = format!("--address=/{HOST}/{RECEIVER_ADDRESS}");
    let listen = format!("--listen-address={RECEIVER_ADDRESS}");
    let _dns = server.start(&[
        "dnsmasq",
        // Not a daemon that changes its user: that would part it from this process.
        "--no-daemon",
        "--conf-file=/dev/null",
        "--no-resolv",
        "--no-hosts",
        "--bind-interfaces",
        &listen,
        &address,
    ])?;
    let url = format!("http://{RECEIVER_ADDRESS}/");
    let at_server = format!("@{RECEIVER_ADDRESS}");
    let fetch = ["curl", "-sS", "--max-time", "5", "-o", "/dev/null", &url];
    let look_up = ["dig", "+time=2", "+tries=1", &at_server, HOST];
    // First from the server's own side, which does not cross the wire.
    until_it_works(|| server.run(&fetch))?;
    until_it_works(|| client.run(&look_up))?;
    for _ in 0..4 {
        client.run(&fetch)?;
        client.run(&look_up)?;
    }
    client.run(&["ping", "-c", "5", "-i", "0.2", RECEIVER_ADDRESS])
}

/// Repeats until a server is up.
fn until_it_works(attempt: impl Fn() -> anyhow::Result<()>) -> anyhow::Result<()> {
    let start = Instant::now();
    loop {
        match attempt() {
            Ok(()) => return Ok(()),
            Err(error) if start.elapsed() > START_MAX => return Err(error),
            Err(_) => sleep(Duration::from_millis(100)),
        }
    }
}

fn generate() -> anyhow::Result<()> {
    let (count, rate) = (GENERATED.to_string(), GENERATED_PER_SEC.to_string());
    let status = ringside()?
        .args(["lab", "send", "--name", "demo", "--size", "imix", "--flows", "1000"])
        .args(["--count", &count, "--rate", &rate])
        .status()?;
    ensure!(status.success(), "the generator failed ({status})");
    Ok(())
}

/// The last line of a run with `--json`.
#[derive(Deserialize)]
struct LastLine {
    ledger: Ledger,
}

/// The capture, as a user would start it.
struct Capture {
    child: Child,
    messages: BufReader<ChildStderr>,
    data: ChildStdout,
}

impl Capture {
    fn start(namespace: &Namespace, directory: &PathBuf) -> anyhow::Result<Capture> {
        let program = std::env::current_exe().context("finding this program")?;
        let mut child = Command::new(WITH_US[0])
            .args(&WITH_US[1..])
            .arg(program)
            .args(["capture", "--netns", &namespace.0, "-i", RECEIVER_INTERFACE])
            .args(["--json", "-w"])
            .arg(directory)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let stderr = child.stderr.take().context("the capture's messages")?;
        let data = child.stdout.take().context("the capture's data")?;
        let mut capture = Capture { child, messages: BufReader::new(stderr), data };
        loop {
            let line = capture.next_message()?;
            ensure!(!line.is_empty(), "the capture did not start");
            say::message(format_args!("  {}", line.trim_end()));
            if line.starts_with("listening on") {
                return Ok(capture);
            }
        }
    }

    fn next_message(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        self.messages.read_line(&mut line)?;
        Ok(line)
    }

    /// Ends it as Ctrl-C would; true if it lost nothing.
    fn finish(&mut self) -> anyhow::Result<bool> {
        let pid = self.child.id().to_string();
        let status = Command::new("kill").args(["-TERM", &pid]).status()?;
        ensure!(status.success(), "cannot end the capture");
        say("the capture ends with its ledger");
        loop {
            let line = self.next_message()?;
            if line.is_empty() {
                break;
            }
            say::message(format_args!("  {}", line.trim_end()));
        }
        let mut data = String::new();
        self.data.read_to_string(&mut data)?;
        let last: LastLine = serde_json::from_str(data.lines().last().unwrap_or_default())?;
        Ok(self.child.wait()?.success() && last.ledger.lost() == 0)
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        // Already waited for, unless the demo failed on the way.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A folder that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn path(&self) -> &PathBuf {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Left behind it would cost 90 kB in the system's folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn tempdir() -> anyhow::Result<Folder> {
    let path = std::env::temp_dir().join(format!("ringside-demo-{}", std::process::id()));
    std::fs::create_dir(&path).with_context(|| format!("making {}", path.display()))?;
    Ok(Folder(path))
}
