//! When a change is at work: a rule that drops one flow comes and goes while numbered frames come,
//! and what is left of the flow is recorded with stamps.

use super::super::TOOL_CPU;
use super::super::defence::Defence;
use super::super::flood;
use super::super::load;
use super::super::place::Workspace;
use super::super::receiver::Receiver;
use super::super::tools::{Options, Target, Tool};
use super::analysis::{FLOWS, Pair, SUBJECT, Seen, WITNESS, analyse};
use super::changer::{Changer, RuleKind, source};
use super::results::EffectRow;
use anyhow::{Context, bail, ensure};
use clap::ValueEnum;
use ringside_core::Source;
use ringside_lab::Lab;
use ringside_store::FileSource;
use ringside_sys::thread;
use ringside_terminal::signals::StopSignal;
use ringside_transmit::{Shape, Sizes, Stamp};
use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// From the start of the load to the first change, and from the last change to its end.
const AROUND: Duration = Duration::from_millis(200);
/// Longest load, should the thread that ends it be held up.
const LONGEST: Duration = Duration::from_secs(600);

/// Who judges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Judge {
    /// `ringside drop`; what it passes is recorded behind it by `ringside capture`.
    Driver,
    /// `ringside capture --backend af-xdp --rules`, in user space.
    #[value(name = "af-xdp")]
    AfXdp,
    /// `ringside capture --backend af-packet --rules`, in user space.
    #[value(name = "af-packet")]
    AfPacket,
}

impl Judge {
    /// As it stands in tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            Judge::Driver => "driver",
            Judge::AfXdp => "af-xdp",
            Judge::AfPacket => "af-packet",
        }
    }

    /// From the answer to a change to the next. In user space frames are judged in batches, some
    /// time after they came; a rule that comes and goes between two of them would not be seen.
    fn gap(self) -> Duration {
        match self {
            Judge::Driver => Duration::from_millis(2),
            Judge::AfXdp | Judge::AfPacket => Duration::from_millis(5),
        }
    }
}

/// One measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run<'a> {
    pub(super) judge: Judge,
    pub(super) kind: RuleKind,
    /// All other rules.
    pub(super) rules: &'a str,
    /// How often the rule comes and goes.
    pub(super) changes: u32,
    /// Frames a second.
    pub(super) frame_rate: u64,
}

impl Run<'_> {
    /// Measures.
    ///
    /// # Errors
    /// The network, the system or a tool refused, or the recording cannot be read.
    pub(super) fn measure(
        &self,
        lab: &Lab,
        files: &Workspace,
        stop: &StopSignal,
    ) -> anyhow::Result<EffectRow> {
        load::check(stop)?;
        let directory = files.fresh()?;
        let (rules, socket) = (directory.join("rules"), directory.join("control.sock"));
        // What no rule drops goes on, to the host or into the recording.
        let default = if self.judge == Judge::Driver { "pass" } else { "take" };
        std::fs::write(&rules, format!("{}default {default}\n", self.rules))
            .with_context(|| format!("writing {}", rules.display()))?;
        let mut defence = None;
        if self.judge == Judge::Driver {
            defence = Some(Defence::ringside_at(lab, &rules, Some(&socket), stop)?);
        }
        let capture = self.capture(lab, &directory, &rules, &socket, stop)?;
        let (pairs, frames_per_sec) = self.change_under_load(lab, &socket, stop)?;
        capture.finish(Instant::now())?;
        defence.map_or(Ok(()), Defence::end)?;
        let seen = frames_of(&directory.join("one.pcapng"))?;
        let analysis = analyse(&seen, &pairs, self.judge != Judge::Driver)?;
        let Run { judge, kind, .. } = *self;
        Ok(EffectRow { judge, kind, frames_per_sec, analysis })
    }

    /// What records the changed flow and the one next to it. It also judges, unless the driver
    /// does.
    fn capture<'d>(
        &self,
        lab: &Lab,
        directory: &'d Path,
        rules: &Path,
        socket: &Path,
        stop: &StopSignal,
    ) -> anyhow::Result<Receiver<'d>> {
        let tool = if self.judge == Judge::AfPacket { Tool::Ringside } else { Tool::RingsideAfXdp };
        let mut program = tool.program(Target::PcapngFile(directory), Options::default());
        let mut push = |words: &[&str]| program.command.extend(words.iter().map(OsString::from));
        if self.judge == Judge::AfPacket {
            push(&["--block-timeout", "1"]);
        }
        if self.judge == Judge::Driver {
            push(&["--no-control"]);
        } else {
            push(&["--control", path(socket)?, "--rules", path(rules)?]);
        }
        let [subject, witness] = [SUBJECT, WITNESS].map(|flow| source(flow as u32));
        push(&[&format!("src host {subject} or src host {witness}")]);
        Receiver::start(&lab.status().receiver_namespace, program, &[], stop)
    }

    /// The changes, and frames a second meanwhile.
    fn change_under_load(
        &self,
        lab: &Lab,
        socket: &Path,
        stop: &StopSignal,
    ) -> anyhow::Result<(Vec<Pair>, f64)> {
        let shape = Shape::new(Sizes::fixed(flood::FRAME_BYTES)?, FLOWS as u32)?;
        let (rate, is_over) = (Some(self.frame_rate), AtomicBool::new(false));
        let is_stopped = || is_over.load(Ordering::Relaxed) || stop.is_set();
        let (pairs, report) = std::thread::scope(|scope| {
            let sender = scope.spawn(|| flood::send_shape(lab, shape, rate, LONGEST, &is_stopped));
            let pairs = scope.spawn(|| self.change(socket, stop)).join();
            is_over.store(true, Ordering::Relaxed);
            (pairs, sender.join())
        });
        load::check(stop)?;
        let pairs = pairs.unwrap_or_else(|_| bail!("the thread that changes rules died"))?;
        let report = report.unwrap_or_else(|_| bail!("the sender's thread died"))?;
        let refused = report.offered - report.handed;
        ensure!(refused == 0, "the interface refused {refused} frames, so that numbers say little");
        Ok((pairs, report.handed_per_sec()))
    }

    fn change(&self, socket: &Path, stop: &StopSignal) -> anyhow::Result<Vec<Pair>> {
        thread::pin_to_cpu(TOOL_CPU)?;
        thread::use_precise_timers();
        let mut changer = Changer::connect(socket)?;
        let pause = || std::thread::sleep(self.judge.gap());
        std::thread::sleep(AROUND);
        let pairs = (0..self.changes).map(|_| {
            load::check(stop)?;
            pause();
            let add = changer.add(self.kind, SUBJECT as u32)?;
            pause();
            Ok(Pair { add, delete: changer.delete()? })
        });
        let pairs = pairs.collect::<anyhow::Result<Vec<Pair>>>()?;
        std::thread::sleep(AROUND);
        Ok(pairs)
    }
}

fn path(path: &Path) -> anyhow::Result<&str> {
    path.to_str().with_context(|| format!("{} is no text", path.display()))
}

/// Numbers and stamps of the frames of a recording, in its order.
fn frames_of(file: &Path) -> anyhow::Result<Vec<Seen>> {
    let mut source = FileSource::open(file)?;
    let mut seen = Vec::new();
    while let Some(batch) = source.next_batch(Duration::ZERO)? {
        for frame in batch.iter() {
            let stamp = Stamp::read(frame.bytes).context("a frame that was not sent")?;
            seen.push(Seen { number: stamp.sequence, stamp_ns: frame.meta.timestamp.0 });
        }
    }
    Ok(seen)
}
