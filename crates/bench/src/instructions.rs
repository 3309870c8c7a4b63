//! `ringside bench instructions`: instructions that each tool spends on a frame in user space.
//!
//! Virtual machines have no counters of instructions, so each tool runs under callgrind, once with
//! N and once with 3N frames, at a rate that it holds there; the difference over 2N leaves out its
//! start and end. Both runs have the same length, so that what a tool does by the clock drops out
//! too. Instructions of the kernel are not seen.

use super::load::{self, FrameSizes, LoadSpec};
use super::place::Workspace;
use super::receiver::Receiver;
use super::tools::{Options, Target, Tool};
use anyhow::{Context, ensure};
use clap::Args;
use ringside_lab::Lab;
use ringside_terminal::columns;
use ringside_terminal::say;
use ringside_terminal::signals::StopSignal;
use std::ffi::OsString;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// The second run's frames, as a multiple of the first run's.
const MULTIPLE: u64 = 3;
/// Longest time beyond what the frames take at their rate.
const SLACK: Duration = Duration::from_secs(30);
/// Start under the profiler and end, of one run, for the estimate.
const AROUND_A_RUN: Duration = Duration::from_secs(6);

/// Arguments of `bench instructions`.
#[derive(Args)]
pub(super) struct InstructionsBench {
    /// Tools; those that are not installed are left out and named. Stenotype cannot be counted: it
    /// must be killed at its end, and the figures with it.
    #[arg(long, value_delimiter = ',', value_enum, value_name = "LIST")]
    #[arg(default_value = "ringside,tcpdump,dumpcap,netsniff-ng")]
    tools: Vec<Tool>,

    /// Frame sizes in bytes, or imix.
    #[arg(long, value_delimiter = ',', value_name = "LIST", default_value = "64")]
    sizes: Vec<FrameSizes>,

    /// Frames of the shorter run; the longer one has three times as many.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1000..=100_000_000))]
    frames: u64,

    /// Frames a second; none may be lost.
    #[arg(long, value_name = "PPS", default_value_t = 50_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1000..))]
    rate: u64,

    /// Also write the figures to this file.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

/// Measures, and prints the table.
pub(super) fn run(args: &InstructionsBench) -> anyhow::Result<ExitCode> {
    let stop = StopSignal::install()?;
    let valgrind = Command::new("valgrind").arg("--version").stdout(Stdio::null()).status();
    ensure!(
        valgrind.is_ok_and(|status| status.success()),
        "valgrind is missing; install it with: apt-get install valgrind"
    );
    let tools: Vec<Tool> = args.tools.iter().copied().filter(|&tool| is_countable(tool)).collect();
    let memory = Workspace::in_memory()?;
    let runs = 2 * tools.len() as u32 * args.sizes.len() as u32;
    let one = Duration::from_secs_f64((MULTIPLE * args.frames) as f64 / args.rate as f64);
    say::message(format_args!(
        "{runs} runs under callgrind: about {} minutes",
        ((one + AROUND_A_RUN) * runs).as_secs().div_ceil(60)
    ));
    let lab = load::lab(&format!("bench{}", std::process::id()))?;
    let counter = Counter { lab: &lab, memory: &memory, args, stop: &stop };
    let (mut rows, mut failed) = (Vec::new(), false);
    for sizes in &args.sizes {
        for &tool in &tools {
            let what = format!("{} at {sizes} bytes", tool.name());
            let count = match counter.per_frame(tool, sizes) {
                Ok(count) => format!("{count:.0}"),
                Err(error) => {
                    // The others are counted all the same.
                    load::check(&stop)?;
                    say::message(format_args!("ringside: {what}: {error:#}"));
                    failed = true;
                    continue;
                }
            };
            say::message(format_args!("{what}: {count}"));
            rows.push([tool.name().to_owned(), sizes.to_string(), count]);
        }
    }
    let lines: Vec<Vec<String>> = rows.iter().map(|row| row.to_vec()).collect();
    say::data(columns::text(&["tool", "frames", "instructions/frame"], &lines).trim_end())?;
    if let Some(path) = &args.csv {
        std::fs::write(path, csv(&rows)).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn csv(rows: &[[String; 3]]) -> String {
    let mut out = String::from("tool,frames,instructions_per_frame\n");
    for row in rows {
        let _ = writeln!(out, "{}", row.join(","));
    }
    out
}

fn is_countable(tool: Tool) -> bool {
    let reason = match tool.version() {
        None => "absent, not run",
        Some(_) if tool.hangs_at_end() => "must be killed at its end, and the figures with it",
        Some(_) => return true,
    };
    say::message(format_args!("{}: {reason}", tool.name()));
    false
}

/// Runs tools under callgrind.
struct Counter<'a> {
    lab: &'a Lab,
    memory: &'a Workspace,
    args: &'a InstructionsBench,
    stop: &'a StopSignal,
}

impl Counter<'_> {
    fn per_frame(&self, tool: Tool, sizes: &FrameSizes) -> anyhow::Result<f64> {
        let few = self.instructions(tool, sizes, self.args.frames)?;
        let many = self.instructions(tool, sizes, MULTIPLE * self.args.frames)?;
        tracing::info!(few, many, "instructions of both runs");
        let frames = (MULTIPLE - 1) * self.args.frames;
        ensure!(
            many >= few + frames,
            "{few} and {many} instructions for a difference of {frames} frames: other work hides \
             what a frame costs; choose more --frames"
        );
        Ok((many - few) as f64 / frames as f64)
    }

    /// Instructions of one whole run that records `frames` frames.
    fn instructions(&self, tool: Tool, sizes: &FrameSizes, frames: u64) -> anyhow::Result<u64> {
        let dir = self.memory.fresh()?;
        tool.prepare(&dir)?;
        let options = Options { for_profiler: true, ..Options::default() };
        let wrapper = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"];
        let wrapper = wrapper.map(OsString::from);
        let target = Target::Recording(&dir);
        let namespace = &self.lab.status().receiver_namespace;
        let program = tool.program(target, options);
        let receiver = Receiver::start(namespace, program, &wrapper, self.stop)?;
        let length = |frames: u64| Duration::from_secs_f64(frames as f64 / self.args.rate as f64);
        let rate_per_sec = Some(self.args.rate);
        let duration = length(frames) + SLACK;
        let flows = load::FLOWS;
        let load = LoadSpec { sizes, flows, rate_per_sec, duration, frames_max: frames };
        let report = load::send(self.lab, load, self.stop)?;
        self.wait(length(MULTIPLE * self.args.frames - frames))?;
        let received = receiver.finish(Instant::now())?;
        ensure!(
            report.handed == frames && received.summary.frames == frames,
            "{} of {frames} frames were recorded; choose a lower --rate",
            received.summary.frames
        );
        collected(&received.messages).with_context(|| {
            format!("callgrind did not say what it counted: {}", received.messages)
        })
    }

    /// A sleep that a signal ends.
    fn wait(&self, length: Duration) -> anyhow::Result<()> {
        let start = Instant::now();
        while start.elapsed() < length {
            load::check(self.stop)?;
            std::thread::sleep(Duration::from_millis(20).min(length));
        }
        Ok(())
    }
}

/// `==1234== Collected : 5678`, the sum if several processes say so.
fn collected(messages: &str) -> Option<u64> {
    let counts = messages.lines().filter_map(|line| {
        let (_, count) = line.strip_prefix("==")?.split_once("== Collected : ")?;
        count.trim().parse::<u64>().ok()
    });
    counts.fold(None, |sum, count| Some(sum.unwrap_or(0) + count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_callgrind_says_is_found_among_what_the_tool_says() {
        let messages = "==71== Callgrind, a call-graph generating cache profiler\n\
                        tcpdump: listening on rx0\n==71== \n==71== Events    : Ir\n\
                        ==71== Collected : 123456789\n==71== \n";
        assert_eq!(collected(messages), Some(123_456_789));
        assert_eq!(collected(&format!("{messages}==72== Collected : 11\n")), Some(123_456_800));
        for wrong in ["", "Collected : 5", "==1== Collected : many"] {
            assert_eq!(collected(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_csv_has_a_line_for_each_row() {
        let row = ["tcpdump", "64", "512"].map(String::from);
        assert_eq!(csv(&[row]), "tool,frames,instructions_per_frame\ntcpdump,64,512\n");
    }
}
