//! `ringside bench`: measurements with a peer in the same run, and the loss of each.

use crate::units::{self, grouped};
use anyhow::{Context, bail, ensure};
use clap::{Args, Subcommand};
use ringside_lab::{Lab, LabConfig, RECEIVER_INTERFACE};
use ringside_transmit::{Job, Limits, Load, Report, SenderKind, Shape, Sizes};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread::{JoinHandle, sleep};
use std::time::Duration;

/// CPU of the generator, and of the receiving kernel path with it (see `Napi::Softirq`).
const SENDER_CPU: usize = 0;
/// CPU of the tool.
const TOOL_CPU: usize = 1;
/// tcpdump hands a part-filled block back up to 2 s late; stopped earlier it would count loss that
/// is none.
const SETTLE: Duration = Duration::from_millis(2300);
/// The kernel ring of each tool, in bytes.
const KERNEL_RING_BYTES: u64 = 32 << 20;
/// Clock ticks of /proc/PID/stat in a second; constant on Linux (USER_HZ).
const TICKS_PER_SEC: u64 = 100;
/// Flows of the generator.
const FLOWS: u32 = 1000;

/// Arguments of `bench`.
#[derive(Args)]
#[command(after_help = "Examples:
  sudo ringside bench capture                      64, 512 and 1514 bytes, five rounds
  sudo ringside bench capture --rounds 1 --for 1s  a quick look
  sudo ringside bench capture --csv rates.csv      keep the figures")]
pub struct BenchArgs {
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(Subcommand)]
enum BenchCommand {
    /// Full-load rates of counting and recording, next to tcpdump.
    Capture(CaptureBench),
}

#[derive(Args)]
struct CaptureBench {
    /// Frame sizes in bytes.
    #[arg(long, value_delimiter = ',', default_value = "64,512,1514")]
    #[arg(value_parser = clap::value_parser!(u16).range(60..=3408))]
    sizes: Vec<u16>,

    /// Rounds; in each, every tool runs once at every size.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,

    /// Length of one load.
    #[arg(long = "for", value_parser = units::duration, default_value = "2s")]
    duration: Duration,

    /// Directory for recordings; each is removed after its run.
    #[arg(long, default_value = "/dev/shm/ringside-bench")]
    dir: PathBuf,

    /// Also write the figures to this file.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

/// Runs the subcommand.
pub fn run(args: BenchArgs) -> anyhow::Result<ExitCode> {
    let BenchCommand::Capture(args) = args.command;
    ensure!(
        std::thread::available_parallelism()?.get() >= 2,
        "the measurement needs two CPUs: one sends, one receives"
    );
    let config = LabConfig { name: "bench".into(), mtu: 3400, ..LabConfig::default() };
    let lab = Lab::up(&config)?;
    let mut samples = Vec::new();
    for round in 1..=args.rounds {
        for &size in &args.sizes {
            for tool in TOOLS {
                let sample = measure(&lab, &args, tool, size)
                    .with_context(|| format!("{} at {size} bytes", tool.name))?;
                eprintln!("round {round}: {}", sample.text());
                samples.push(sample);
            }
        }
    }
    let table = summary(&args, &samples);
    print!("{table}");
    if let Some(path) = &args.csv {
        std::fs::write(path, table).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A tool that receives.
struct Tool {
    name: &'static str,
    /// Program and arguments; `DIR` stands for the directory of the run.
    line: &'static [&'static str],
}

const TOOLS: &[Tool] = &[
    Tool { name: "ringside-count", line: &["ringside", "--json"] },
    Tool { name: "ringside-record", line: &["ringside", "--json", "-w", "DIR/series"] },
    Tool { name: "ringside-pcapng", line: &["ringside", "--json", "-w", "DIR/one.pcapng"] },
    Tool { name: "tcpdump-null", line: &["tcpdump", "-w", "/dev/null"] },
    Tool { name: "tcpdump-record", line: &["tcpdump", "-w", "DIR/one.pcap"] },
];

/// One tool under one load.
struct Sample {
    tool: &'static str,
    size: u16,
    handed: u64,
    received: u64,
    seconds: f64,
    cpu_seconds: f64,
}

impl Sample {
    fn text(&self) -> String {
        format!(
            "{} B {}: offered {}, received {} ({:.3} M/s), lost {:.2} %",
            self.size,
            self.tool,
            grouped(self.handed),
            grouped(self.received),
            self.received_mps(),
            self.lost_percent(),
        )
    }

    fn handed_mps(&self) -> f64 {
        self.handed as f64 / self.seconds / 1e6
    }

    fn received_mps(&self) -> f64 {
        self.received as f64 / self.seconds / 1e6
    }

    fn lost_percent(&self) -> f64 {
        100.0 * (1.0 - self.received as f64 / self.handed.max(1) as f64)
    }

    fn cpu_ns(&self) -> f64 {
        self.cpu_seconds * 1e9 / self.received.max(1) as f64
    }
}

fn measure(lab: &Lab, args: &CaptureBench, tool: &Tool, size: u16) -> anyhow::Result<Sample> {
    std::fs::create_dir_all(&args.dir)?;
    let result = Receiver::start(lab, tool, &args.dir).and_then(|receiver| {
        let report = send(lab, size, args.duration)?;
        sleep(SETTLE);
        let (received, cpu_seconds) = receiver.stop()?;
        let seconds = report.elapsed_ns as f64 / 1e9;
        Ok(Sample { tool: tool.name, size, handed: report.handed, received, seconds, cpu_seconds })
    });
    std::fs::remove_dir_all(&args.dir)?;
    result
}

fn send(lab: &Lab, size: u16, duration: Duration) -> anyhow::Result<Report> {
    let job = Job {
        sender: SenderKind::Live,
        wire: lab.wire(),
        load: Load::Numbered(Shape::new(Sizes::fixed(size)?, FLOWS)?),
        cpus: vec![SENDER_CPU],
        rate_per_sec: None,
        limits: Limits::new(None, Some(duration))?,
    };
    Ok(ringside_transmit::run(&job, &|| false)?)
}

/// A running tool.
struct Receiver {
    child: Child,
    messages: JoinHandle<String>,
    output: JoinHandle<String>,
}

impl Receiver {
    fn start(lab: &Lab, tool: &Tool, dir: &Path) -> anyhow::Result<Receiver> {
        let cpu = TOOL_CPU.to_string();
        let ring = KERNEL_RING_BYTES.to_string();
        let tcpdump_ring = (KERNEL_RING_BYTES >> 10).to_string();
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &lab.status().receiver_namespace, "taskset", "-c", &cpu]);
        match tool.line[0] {
            "ringside" => command.arg(std::env::current_exe()?).args([
                "capture",
                "-i",
                RECEIVER_INTERFACE,
                "--kernel-ring-size",
                &ring,
            ]),
            program => command.args([program, "-n", "-i", RECEIVER_INTERFACE, "-B", &tcpdump_ring]),
        };
        command.args(tool.line[1..].iter().map(|part| part.replace("DIR", &dir.to_string_lossy())));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take().context("the tool's output")?;
        let mut stderr = BufReader::new(child.stderr.take().context("the tool's messages")?);
        let mut line = String::new();
        while !line.contains("listening on") {
            line.clear();
            if stderr.read_line(&mut line)? == 0 {
                bail!("the tool did not start ({})", child.wait()?);
            }
        }
        // tcpdump says so a little before its socket is ready.
        sleep(Duration::from_millis(300));
        Ok(Receiver { child, messages: collect(stderr), output: collect(BufReader::new(stdout)) })
    }

    /// Ends the tool; returns the frames that it got, and its CPU time.
    fn stop(mut self) -> anyhow::Result<(u64, f64)> {
        let pid = self.child.id();
        let cpu_seconds = cpu_seconds(pid)?;
        let status = Command::new("kill").args(["-TERM", &pid.to_string()]).status()?;
        ensure!(status.success(), "cannot end the tool");
        let status = self.child.wait()?;
        let messages = self.messages.join().unwrap_or_default();
        let output = self.output.join().unwrap_or_default();
        ensure!(status.success(), "the tool failed ({status}): {}", messages.trim());
        let received = received(&output, &messages).context("the tool's count of frames")?;
        Ok((received, cpu_seconds))
    }
}

fn collect(mut reader: impl BufRead + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = String::new();
        // What cannot be read shows as a missing count.
        let _ = reader.read_to_string(&mut text);
        text
    })
}

/// User and system time of a process, /proc/PID/stat fields 14 and 15 (proc(5)).
fn cpu_seconds(pid: u32) -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, fields) = stat.rsplit_once(')').context("/proc/PID/stat")?;
    let ticks: u64 = fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|text| text.parse::<u64>().ok())
        .sum();
    Ok(ticks as f64 / TICKS_PER_SEC as f64)
}

/// What the tool delivered: our ledger, or tcpdump's "N packets captured".
fn received(output: &str, messages: &str) -> Option<u64> {
    if let Some(line) = output.lines().last() {
        let ledger: serde_json::Value = serde_json::from_str(line).ok()?;
        return ledger["ledger"]["consumers"][0]["delivered"].as_u64();
    }
    let line = messages.lines().find(|line| line.ends_with("packets captured"))?;
    line.split_whitespace().next()?.parse().ok()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// A CSV table of the medians.
fn summary(args: &CaptureBench, samples: &[Sample]) -> String {
    let mut out = Vec::new();
    let header =
        "frame_bytes,tool,rounds,offered_mps,received_mps,lost_percent,tool_cpu_ns_per_frame";
    writeln!(out, "{header}").expect("writing to memory");
    for &size in &args.sizes {
        for tool in TOOLS {
            let of = |value: fn(&Sample) -> f64| {
                let mine = samples.iter().filter(|s| s.size == size && s.tool == tool.name);
                median(mine.map(value).collect())
            };
            writeln!(
                out,
                "{size},{},{},{:.3},{:.3},{:.2},{:.0}",
                tool.name,
                args.rounds,
                of(Sample::handed_mps),
                of(Sample::received_mps),
                of(Sample::lost_percent),
                of(Sample::cpu_ns)
            )
            .expect("writing to memory");
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}
