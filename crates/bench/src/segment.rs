//! `ringside bench segment`: bulk payload as segments of the link's size, by the ways there are
//! (Yang and others, "Packet segment offloading and sending mechanism based on multi-core packet
//! processing system", 2019, tables 1 and 2, figure 9): from memory, from a file in the page cache,
//! and in parallel streams. The far end discards every frame inside the driver and counts it; so
//! every segment really exists.

mod contender;
mod limit;
mod results;

use self::contender::Contender;
use self::results::{FarEnd, Results, Row, Sample, Source};
use super::TOOL_CPU;
use super::failures;
use super::load::{self, SENDER_CPU};
use super::network;
use super::output::{DrawArgs, OutputArgs};
use super::place::Workspace;
use super::process::{CpuTime, cpu_time};
use anyhow::{Context, bail};
use clap::Args;
use ringside_ebpf::XdpProgram;
use ringside_lab::{Lab, LabConfig, Napi};
use ringside_netdev as netdev;
use ringside_segment::{Settings, Template};
use ringside_sys::thread::pin_to_cpu;
use ringside_terminal::signals::StopSignal;
use ringside_terminal::{say, units};
use ringside_transmit::{BUFFER_BYTES, Stack, Stream, StreamConfig};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Payload bytes of a segment: an MTU of 1,500 less IPv4, TCP and its time stamps.
const MSS_BYTES: usize = 1448;
/// MTU that has room for them behind headers without options.
const MTU_BYTES: usize = 1500;
/// Buffers of each stream; one is filled while others are in flight.
const BUFFERS: usize = 16;
/// Bytes of the file: it stays in the page cache.
const FILE_BYTES: usize = 64 << 20;
/// How often a far end polls that is moderated.
const POLL_INTERVAL_US: u32 = 20;
/// From the start of the streams until their frames are counted.
const WARM_UP: Duration = Duration::from_millis(200);

/// Arguments of `bench segment`.
#[derive(Args)]
pub(super) struct SegmentBench {
    /// Ways to make and send segments: calls (a system call and a copy each), copies and chains
    /// (AF_XDP), kernel (the kernel cuts), live (live frames inside the driver; one stream only),
    /// fastest; chain-limit (chains of which nothing is written: what the kernel's part costs).
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "LIST",
        default_value = "calls,copies,chains,kernel,live,chain-limit"
    )]
    ways: Vec<Contender>,

    /// Where payload comes from: memory that stays as it is, a file in the page cache.
    #[arg(
        long,
        value_delimiter = ',',
        value_enum,
        value_name = "LIST",
        default_value = "memory,file"
    )]
    sources: Vec<Source>,

    /// Parallel streams, all on the same core, from memory.
    #[arg(long, value_delimiter = ',', value_name = "LIST", default_value = "1,2,3,4,5")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=16))]
    streams: Vec<u16>,

    /// How the far end takes frames: `moderated`, polling every 20 µs on another CPU, `woken` there
    /// by each frame that it does not expect, `shared`, on the sender's CPU, which does everything
    /// then.
    #[arg(
        long,
        value_delimiter = ',',
        value_enum,
        value_name = "LIST",
        default_value = "moderated,woken,shared"
    )]
    far_ends: Vec<FarEnd>,

    /// Rounds; in each, everything is measured once.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,

    /// How long frames are counted.
    #[arg(long = "for", value_parser = units::duration, default_value = "1s")]
    duration: Duration,

    #[command(flatten)]
    output: OutputArgs,

    #[command(flatten)]
    drawn: DrawArgs,
}

/// Measures; prints and writes the results.
pub(super) fn run(args: &SegmentBench) -> anyhow::Result<ExitCode> {
    let stop = StopSignal::install()?;
    load::check_cpus()?;
    let files = Workspace::in_memory()?;
    let results = Bench { args, files: &files, stop: &stop }.measure()?;
    args.output.put(&results)?;
    args.drawn.draw(|dir| results.draw(dir))?;
    Ok(failures::status(&results.failures))
}

struct Bench<'a> {
    args: &'a SegmentBench,
    /// For the file.
    files: &'a Workspace,
    stop: &'a StopSignal,
}

impl Bench<'_> {
    fn measure(&self) -> anyhow::Result<Results> {
        let mut results = Results::default();
        for round in 1..=self.args.rounds {
            say::message(format_args!("round {round} of {}", self.args.rounds));
            for row in self.rows() {
                match self.send(&row) {
                    Ok(sample) => results.add(row, sample),
                    Err(error) => {
                        let text = format!("{row}: {error:#}");
                        failures::note(&mut results.failures, text, self.stop)?;
                    }
                }
            }
        }
        Ok(results)
    }

    /// For each far end every way from every source, then by the number of streams.
    fn rows(&self) -> Vec<Row> {
        let first = self.args.streams.first().copied().unwrap_or(1);
        let more = self.args.streams.iter().copied().filter(|&streams| streams != first);
        let more = more.map(|streams| (Source::Memory, streams));
        let sources = self.args.sources.iter().map(|&source| (source, first));
        let loads: Vec<(Source, u16)> = sources.chain(more).collect();
        let mut rows = Vec::new();
        for &far_end in &self.args.far_ends {
            for &(source, streams) in &loads {
                let ways = self.args.ways.iter().filter(|way| way.is_possible(source, streams));
                let row = |&way| Row { far_end, way, source, streams, samples: Vec::new() };
                rows.extend(ways.map(row));
            }
        }
        rows
    }

    /// Sends as one row says, on a network of its own.
    fn send(&self, row: &Row) -> anyhow::Result<Sample> {
        load::check(self.stop)?;
        let lab = network(row.far_end)?;
        let status = lab.status();
        let file = match row.source {
            Source::Memory => None,
            Source::File => Some(self.file()?),
        };
        let received = || {
            network::inside(&status.receiver_namespace, || {
                let device = netdev::by_name(status.receiver_interface)?;
                let statistics = device.context("the far end is gone")?.statistics;
                Ok((statistics.rx_packets, statistics.rx_bytes))
            })
        };
        let deadline = WARM_UP + self.args.duration;
        let interface = status.sender_interface;
        std::thread::scope(|scope| {
            let sender = scope.spawn(|| {
                network::inside(&status.sender_namespace, || {
                    pin_to_cpu(TOOL_CPU)?;
                    stream(interface, row, file, deadline + WARM_UP, self.stop)
                })
            });
            std::thread::sleep(WARM_UP);
            let (frames, bytes) = received()?;
            let (cpu, start) = (own_cpu()?, Instant::now());
            std::thread::sleep(self.args.duration);
            let (frames_after, bytes_after) = received()?;
            let (cpu_after, elapsed) = (own_cpu()?, start.elapsed());
            let sent = match sender.join() {
                Ok(sent) => sent?,
                Err(_) => bail!("a sender's thread died"),
            };
            let cpu = cpu_after - cpu;
            let frames = frames_after - frames;
            Ok(Sample {
                frames_per_sec: frames as f64 / elapsed.as_secs_f64(),
                payload_bits_per_sec: 8.0 * payload_bytes(frames, bytes_after - bytes)
                    / elapsed.as_secs_f64(),
                user_ns: cpu.user_seconds() * 1e9 / frames.max(1) as f64,
                system_ns: cpu.system_seconds() * 1e9 / frames.max(1) as f64,
                lost_percent: sent,
            })
        })
    }

    /// A file in memory.
    fn file(&self) -> anyhow::Result<File> {
        let path = self.files.fresh()?.join("payload");
        let content: Vec<u8> = (0..FILE_BYTES).map(|at| (at / 7) as u8).collect();
        std::fs::write(&path, content)?;
        Ok(File::open(&path)?)
    }
}

/// Payload of `frames` frames of `bytes` bytes in all, each with Ethernet, IPv4 and TCP.
fn payload_bytes(frames: u64, bytes: u64) -> f64 {
    let headers = 14.0 + 20.0 + 20.0;
    (bytes as f64 - frames as f64 * headers).max(0.0)
}

/// CPU time of this process: the sender's, as no other thread in it works.
fn own_cpu() -> anyhow::Result<CpuTime> {
    cpu_time(std::process::id())
}

/// Sends until the time is over; returns what per cent of the frames was refused.
fn stream(
    interface: &str,
    row: &Row,
    mut file: Option<File>,
    duration: Duration,
    stop: &StopSignal,
) -> anyhow::Result<f64> {
    let Contender::Way(way) = row.way else { return limit::send(interface, duration, stop) };
    let open = |queue| {
        let mtu = Settings::mtu(MTU_BYTES);
        let mut stream = Stream::open(&StreamConfig {
            interface: interface.into(),
            queue,
            way,
            template: template()?,
            settings: Settings { mss_bytes: Some(MSS_BYTES), ..mtu },
            buffers: BUFFERS,
        })?;
        for buffer in 0..BUFFERS {
            stream.fill(buffer, BUFFER_BYTES, |part| part.fill(buffer as u8))?;
        }
        anyhow::Ok(stream)
    };
    let mut streams = (0..u32::from(row.streams)).map(open).collect::<anyhow::Result<Vec<_>>>()?;
    let start = Instant::now();
    let mut buffer = 0;
    while start.elapsed() < duration && !stop.is_set() {
        buffer = (buffer + 1) % BUFFERS;
        for stream in &mut streams {
            if let Some(file) = &mut file {
                read(file, stream, buffer)?;
            }
            stream.send(buffer, BUFFER_BYTES)?;
        }
    }
    let (mut offered, mut refused) = (0, 0);
    for mut stream in streams {
        for note in stream.notes() {
            say::message(note);
        }
        let (counters, failure) = stream.finish();
        if let Some(failure) = failure {
            return Err(failure.into());
        }
        offered += counters.offered;
        refused += counters.refused_total();
    }
    Ok(100.0 * refused as f64 / offered.max(1) as f64)
}

/// The next bytes of the file, round and round, into a buffer.
fn read(file: &mut File, stream: &mut Stream, buffer: usize) -> anyhow::Result<()> {
    let mut result = Ok(());
    stream.fill(buffer, BUFFER_BYTES, |part| {
        if result.is_ok() {
            result = file.read_exact(part);
        }
    })?;
    if let Err(error) = result {
        if error.kind() != std::io::ErrorKind::UnexpectedEof {
            return Err(error.into());
        }
        file.seek(SeekFrom::Start(0))?;
    }
    Ok(())
}

/// TCP over IPv4.
fn template() -> anyhow::Result<Template> {
    let stack = Stack { tcp: true, ..Stack::default() };
    Ok(Template::parse(ringside_transmit::Template::of(stack).frame())?)
}

/// A network whose far end discards every frame inside the driver, and whose sending end leaves no
/// segmentation to it: as many queues as there may be streams.
fn network(far_end: FarEnd) -> anyhow::Result<Lab> {
    let lab = Lab::up(&LabConfig {
        name: format!("bench{}-segment", std::process::id()),
        queues: 16,
        napi: match far_end {
            FarEnd::Moderated => Napi::Moderated { cpu: SENDER_CPU, interval_us: POLL_INTERVAL_US },
            FarEnd::Woken => Napi::Pinned(SENDER_CPU),
            FarEnd::Shared => Napi::Softirq,
        },
        xdp_pass: false,
        gro: true,
        ..LabConfig::default()
    })?;
    network::attach(&lab, XdpProgram::drop_all)?;
    let (namespace, interface) = (&lab.status().sender_namespace, lab.status().sender_interface);
    let offloads = "tso off gso on tx-udp-segmentation off";
    network::tool(namespace, &format!("ethtool -K {interface} {offloads}"), "")?;
    Ok(lab)
}
