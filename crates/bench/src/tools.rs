//! The tools that are compared: how each is run at its fastest, and what it says at its end.
//!
//! Every tool gets the same memory for frames, the same CPU, and the options that make it fastest;
//! none prints packets.

use super::receiver::{Idle, Program, Summary};
use clap::ValueEnum;
use ringside_capture::config::DISK_RING_BYTES;
use ringside_core::Ledger;
use ringside_core::ledger::total;
use ringside_lab::RECEIVER_INTERFACE;
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Memory for frames unless asked otherwise: what this program takes by itself.
pub(super) const MEMORY_BYTES: u64 = KERNEL_RING_BYTES + DISK_RING_BYTES as u64;
/// Our kernel ring; the rest of the memory is the capture ring. The others have one ring.
const KERNEL_RING_BYTES: u64 = 32 << 20;
/// Least memory for frames: a capture ring as small as the kernel ring.
pub(super) const MEMORY_BYTES_MIN: u64 = 2 * KERNEL_RING_BYTES;
/// Blocks of Stenographer's ring and of its files (its default, --blocksize_kb).
const STENOTYPE_BLOCK_BYTES: u64 = 1 << 20;
/// Where struct tpacket_block_desc (linux/if_packet.h) has its count of frames, `num_pkts`.
const BLOCK_FRAMES_OFFSET: u64 = 12;
/// Files of a recording that is kept within a limit, as this program cuts them (store::retention).
const KEPT_FILES: u64 = 16;
/// Stenographer's user and group after its start; names, because it looks them up.
const STENOTYPE_USER: (&str, &str) = ("nobody", "nogroup");

/// Frames a second that no tool with packet sockets passes (the kernel's receive path on one core
/// gives 2.2 million), for estimates.
const FRAMES_PER_SEC_MAX: f64 = 2.0e6;
/// The same for frames that are taken inside the driver.
const XDP_FRAMES_PER_SEC_MAX: f64 = 5.0e6;

/// A tool that receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
pub(super) enum Tool {
    /// This program, with packet sockets.
    Ringside,
    /// The same without indexes of its recordings.
    #[value(name = "ringside-no-index")]
    RingsideNoIndex,
    /// This program, with AF_XDP.
    #[value(name = "ringside-af-xdp")]
    RingsideAfXdp,
    /// This program, with frames that its program in the driver copies.
    #[value(name = "ringside-xdp-ring")]
    RingsideXdpRing,
    /// tcpdump.
    Tcpdump,
    /// dumpcap of Wireshark.
    Dumpcap,
    /// netsniff-ng.
    #[value(name = "netsniff-ng")]
    Netsniff,
    /// The recording part of Stenographer, without its index.
    Stenotype,
}

/// Where frames go.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target<'a> {
    /// Received and forgotten.
    Nowhere,
    /// The tool's natural recording, in this existing directory.
    Recording(&'a Path),
    /// One pcapng file in this directory; for other tools than this program a recording.
    PcapngFile(&'a Path),
}

/// How the program under test is run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options<'a> {
    /// Where it receives.
    pub(super) interface: &'a str,
    /// Memory for frames, in bytes, page cache aside.
    pub(super) memory_bytes: u64,
    /// Bytes kept of each frame; whole frames if none.
    pub(super) snaplen: Option<u32>,
    /// Bytes that a recording may come to take, the oldest file going for the next; if none, all is
    /// kept.
    pub(super) limit_bytes: Option<u64>,
    /// This program in one process.
    pub(super) for_profiler: bool,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options {
            interface: RECEIVER_INTERFACE,
            memory_bytes: MEMORY_BYTES,
            snaplen: None,
            limit_bytes: None,
            for_profiler: false,
        }
    }
}

impl Tool {
    /// As people call it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Tool::Ringside => "ringside",
            Tool::RingsideNoIndex => "ringside-no-index",
            Tool::RingsideAfXdp => "ringside-af-xdp",
            Tool::RingsideXdpRing => "ringside-xdp-ring",
            Tool::Tcpdump => "tcpdump",
            Tool::Dumpcap => "dumpcap",
            Tool::Netsniff => "netsniff-ng",
            Tool::Stenotype => "stenotype",
        }
    }

    /// Its version; `None` if it is not installed.
    pub(super) fn version(self) -> Option<String> {
        if self.is_own() {
            return Some(env!("CARGO_PKG_VERSION").into());
        }
        // Stenotype knows no version and shows its help instead.
        let question = if self == Tool::Stenotype { "--help" } else { "--version" };
        let output = Command::new(self.name()).arg(question).stdin(Stdio::null()).output().ok()?;
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        Some(version_number(&text).unwrap_or_else(|| "of unknown version".into()))
    }

    /// True for this program.
    pub(super) fn is_own(self) -> bool {
        matches!(
            self,
            Tool::Ringside | Tool::RingsideNoIndex | Tool::RingsideAfXdp | Tool::RingsideXdpRing
        )
    }

    /// True if it takes frames inside the driver.
    fn is_in_driver(self) -> bool {
        matches!(self, Tool::RingsideAfXdp | Tool::RingsideXdpRing)
    }

    /// Frames a second that it does not pass in this comparison, for estimates.
    pub(super) fn frames_per_sec_max(self) -> f64 {
        if self.is_in_driver() { XDP_FRAMES_PER_SEC_MAX } else { FRAMES_PER_SEC_MAX }
    }

    /// How files are used again.
    pub(super) fn recycling(self) -> &'static str {
        match self {
            Tool::Stenotype => "no, new files",
            _ if self.is_own() => "on tmpfs within a limit; else new files",
            _ => "no, truncates",
        }
    }

    /// True if it can keep a recording within a limit by itself.
    pub(super) fn keeps_limits(self) -> bool {
        self != Tool::Stenotype
    }

    /// True if its files on a disk are written by O_DIRECT.
    pub(super) fn writes_past_the_page_cache(self) -> bool {
        self.is_own() || self == Tool::Stenotype
    }

    /// How long after the last frame the tool must be left alone. The kernel hands a part-filled
    /// block over late; stopped earlier a tool would count loss that is none.
    pub(super) fn settle(self) -> Duration {
        Duration::from_millis(match self {
            // Its block timeout is 50 ms.
            Tool::Ringside
            | Tool::RingsideNoIndex
            | Tool::RingsideAfXdp
            | Tool::RingsideXdpRing => 300,
            // libpcap's timeout of a second, seen to take twice that.
            Tool::Tcpdump => 2300,
            // libpcap with a timeout of 250 ms.
            Tool::Dumpcap => 800,
            // A block timeout of 100 ms.
            Tool::Netsniff => 500,
            // --blockage_sec=1.
            Tool::Stenotype => 2300,
        })
    }

    /// The signal that ends it cleanly.
    fn stop_signal(self) -> rustix::process::Signal {
        match self {
            Tool::Stenotype => rustix::process::Signal::INT,
            _ => rustix::process::Signal::TERM,
        }
    }

    /// True if it is known to hang after its last write and must be killed: Stenographer 1.0.1
    /// waits for its threads for ever.
    pub(super) fn hangs_at_end(self) -> bool {
        self == Tool::Stenotype
    }

    /// What it says once it receives; the others are known to by their socket.
    fn ready_text(self) -> &'static str {
        match self {
            Tool::Ringside
            | Tool::RingsideNoIndex
            | Tool::RingsideAfXdp
            | Tool::RingsideXdpRing => "listening on",
            Tool::Netsniff => "Running!",
            Tool::Tcpdump | Tool::Dumpcap | Tool::Stenotype => "",
        }
    }

    /// How it is run, with those options and to that target.
    pub(super) fn program<'a>(self, target: Target<'a>, options: Options<'_>) -> Program<'a> {
        Program {
            name: self.name().into(),
            command: self.command(target, options),
            ready_text: self.ready_text(),
            has_packet_socket: !self.is_in_driver(),
            idle: Idle::Watched,
            settle: self.settle(),
            stop_signal: self.stop_signal(),
            hangs_at_end: self.hangs_at_end(),
            summary: Box::new(move |output, messages| self.summary(output, messages, target)),
        }
    }

    /// Program and arguments.
    fn command(self, target: Target<'_>, options: Options<'_>) -> Vec<OsString> {
        let file = |name: &str| match target {
            Target::Nowhere => "/dev/null".into(),
            Target::Recording(dir) | Target::PcapngFile(dir) => dir.join(name).into_os_string(),
        };
        let words = |text: String| -> Vec<OsString> {
            text.split_whitespace().map(OsString::from).collect()
        };
        let (interface, ring_bytes) = (options.interface, options.memory_bytes);
        let mut command = match self {
            Tool::Ringside | Tool::RingsideNoIndex => ringside("af-packet", target, options),
            Tool::RingsideAfXdp => ringside("af-xdp", target, options),
            Tool::RingsideXdpRing => ringside("xdp-ring", target, options),
            Tool::Tcpdump => words(format!("tcpdump -n -i {interface} -B {}", ring_bytes >> 10)),
            // pcap has the shorter record, and no interface statistics are written.
            Tool::Dumpcap => words(format!("dumpcap -q -P -i {interface} -B {}", ring_bytes >> 20)),
            Tool::Netsniff => words(format!(
                "netsniff-ng --in {interface} --silent --ring-size {}MiB --no-sock-mem \
                 --notouch-irq --no-hwtimestamp --out",
                ring_bytes >> 20
            )),
            Tool::Stenotype => words(format!(
                "stenotype --iface={interface} --threads=1 --blocks={} --aiops=16 \
                 --no_index --no_watchdogs --seccomp=none --blockage_sec=1 --uid={} --gid={}",
                ring_bytes / STENOTYPE_BLOCK_BYTES,
                STENOTYPE_USER.0,
                STENOTYPE_USER.1
            )),
        };
        let file_bytes = options.limit_bytes.map(|bytes| bytes / KEPT_FILES);
        match self {
            Tool::Tcpdump | Tool::Dumpcap => {
                command.extend(options.snaplen.map(|bytes| format!("-s{bytes}").into()));
                command.extend(["-w".into(), file("one.pcap")]);
                command.extend(file_bytes.into_iter().flat_map(|bytes| {
                    words(match self {
                        // -Z: it opens its next file as the user who may write there.
                        Tool::Tcpdump => {
                            format!("-Z root -C {} -W {KEPT_FILES}", bytes / 1_000_000)
                        }
                        _ => format!("-b filesize:{} -b files:{KEPT_FILES}", bytes / 1000),
                    })
                }));
            }
            Tool::Netsniff => match (file_bytes, target) {
                (Some(bytes), Target::Recording(dir) | Target::PcapngFile(dir)) => {
                    command.push(dir.into());
                    let limit = format!("--interval {}MiB --overwrite {KEPT_FILES}", bytes >> 20);
                    command.extend(words(limit));
                }
                _ => command.push(file("one.pcap")),
            },
            Tool::Stenotype => {
                if let Target::Recording(dir) | Target::PcapngFile(dir) = target {
                    command.push(joined("--dir=", dir));
                }
            }
            Tool::RingsideNoIndex => {
                let is_recording = matches!(target, Target::Recording(_));
                command.extend(is_recording.then(|| "--no-index".into()));
            }
            Tool::Ringside | Tool::RingsideAfXdp | Tool::RingsideXdpRing => {}
        }
        command
    }

    /// Makes what the tool expects to find in its directory.
    ///
    /// # Errors
    /// The directory cannot be written, or the tool's user does not exist.
    pub(super) fn prepare(self, dir: &Path) -> anyhow::Result<()> {
        if self != Tool::Stenotype {
            return Ok(());
        }
        let folders = ["PKT0", "IDX0"].map(|name| dir.join(name));
        for folder in &folders {
            std::fs::create_dir(folder)?;
        }
        let owner = format!("{}:{}", STENOTYPE_USER.0, STENOTYPE_USER.1);
        let status = Command::new("chown").arg(owner).arg(dir).args(&folders).status()?;
        anyhow::ensure!(status.success(), "cannot give {} to stenotype's user", dir.display());
        Ok(())
    }

    /// What it says at its end; for stenotype, which says nothing, what its files hold.
    fn summary(self, output: &str, messages: &str, target: Target<'_>) -> Option<Summary> {
        match (self, target) {
            (
                Tool::Ringside
                | Tool::RingsideNoIndex
                | Tool::RingsideAfXdp
                | Tool::RingsideXdpRing,
                _,
            ) => of_ringside(output),
            (Tool::Tcpdump, _) => of_tcpdump(messages),
            (Tool::Dumpcap, _) => of_dumpcap(messages),
            (Tool::Netsniff, _) => of_netsniff(output),
            (Tool::Stenotype, Target::Recording(dir) | Target::PcapngFile(dir)) => {
                let frames = stenotype_frames(&dir.join("PKT0")).ok();
                frames.map(|frames| Summary { frames, lost: None })
            }
            (Tool::Stenotype, Target::Nowhere) => None,
        }
    }
}

/// This program's own command line.
fn ringside(backend: &str, target: Target<'_>, options: Options<'_>) -> Vec<OsString> {
    let mut command = vec![own_program()];
    // The receiving end is measured, whatever it sends of itself (-Qin).
    let fixed = ["capture", "-Qin", "--json", "-i", options.interface, "--backend", backend];
    command.extend(fixed.map(OsString::from));
    command.push("--kernel-ring-size".into());
    command.push(KERNEL_RING_BYTES.to_string().into());
    let ring_bytes = options.memory_bytes.saturating_sub(KERNEL_RING_BYTES);
    command.extend(["--ring-size".into(), ring_bytes.to_string().into()]);
    // A profiler sees one process.
    command.extend(options.for_profiler.then(|| "--no-keeper".into()));
    command.extend(options.snaplen.map(|bytes| format!("-s{bytes}").into()));
    match target {
        Target::Nowhere => command.push("--count".into()),
        Target::Recording(dir) => {
            command.extend(["-w".into(), dir.join("series").into()]);
            let limit = options.limit_bytes.iter();
            command.extend(limit.flat_map(|b| ["--limit-bytes".into(), b.to_string().into()]));
        }
        Target::PcapngFile(dir) => command.extend(["-w".into(), dir.join("one.pcapng").into()]),
    }
    command
}

/// True if a program of that name is in the path.
pub(super) fn is_in_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

/// The file of this program.
pub(super) fn own_program() -> OsString {
    std::env::current_exe().map_or_else(|_| "ringside".into(), |path| path.into())
}

fn joined(option: &str, path: &Path) -> OsString {
    let mut word = OsString::from(option);
    word.push(path);
    word
}

/// The first word that looks like `4.99.3`.
pub(super) fn version_number(text: &str) -> Option<String> {
    let words = text.split_whitespace().map(|word| word.trim_end_matches([',', ')', '.']));
    words
        .filter(|word| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.'))
        .map(str::to_owned)
        .next()
}

/// The ledger on the last line of our standard output.
pub(super) fn ledger(output: &str) -> Option<Ledger> {
    let line: serde_json::Value = serde_json::from_str(output.lines().last()?).ok()?;
    serde_json::from_value(line.get("ledger")?.clone()).ok()
}

/// What the ledger on the last line says was delivered.
pub(super) fn of_ringside(output: &str) -> Option<Summary> {
    delivered(&ledger(output)?)
}

/// What a ledger says was delivered.
pub(super) fn delivered(ledger: &Ledger) -> Option<Summary> {
    let consumer = ledger.consumers.first()?;
    let lost = total(&ledger.dropped) + total(&consumer.missed);
    Some(Summary { frames: consumer.delivered, lost: Some(lost) })
}

/// `450696 packets captured`, `73592 packets dropped by kernel`.
fn of_tcpdump(messages: &str) -> Option<Summary> {
    let count = |ending: &str| {
        let line = messages.lines().find(|line| line.ends_with(ending))?;
        line.split_whitespace().next()?.parse().ok()
    };
    let frames = count("packets captured").or_else(|| count("packet captured"))?;
    let lost = count("packets dropped by kernel").or_else(|| count("packet dropped by kernel"));
    Some(Summary { frames, lost })
}

/// `Packets received/dropped on interface 'rx0': 191403/300117 (pcap:300117/…)`.
fn of_dumpcap(messages: &str) -> Option<Summary> {
    let line = messages.lines().find(|line| line.starts_with("Packets received/dropped"))?;
    let (_, counts) = line.split_once("': ")?;
    let (frames, lost) = counts.split_whitespace().next()?.split_once('/')?;
    Some(Summary { frames: frames.parse().ok()?, lost: lost.parse().ok() })
}

/// `332128  packets incoming (143008 unread on exit)`, `143008  packets failed filter (out of
/// space)`; a progress mark may stand before the first.
fn of_netsniff(output: &str) -> Option<Summary> {
    let count = |phrase: &str| {
        let (before, _) = output.split_once(phrase)?;
        before.split_whitespace().next_back()?.parse().ok()
    };
    let frames = count("packets incoming")?;
    Some(Summary { frames, lost: count("packets failed filter (out of space)") })
}

/// Frames in Stenographer's files, which are kernel blocks as they were.
fn stenotype_frames(dir: &Path) -> std::io::Result<u64> {
    let mut frames = 0;
    for entry in std::fs::read_dir(dir)? {
        let file = File::open(entry?.path())?;
        for block in 0..file.metadata()?.len() / STENOTYPE_BLOCK_BYTES {
            let mut count = [0; 4];
            file.read_exact_at(&mut count, block * STENOTYPE_BLOCK_BYTES + BLOCK_FRAMES_OFFSET)?;
            frames += u64::from(u32::from_ne_bytes(count));
        }
    }
    Ok(frames)
}

#[cfg(test)]
mod tests;
