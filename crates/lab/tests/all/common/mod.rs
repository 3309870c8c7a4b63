//! What the tests of test networks share.

#![allow(dead_code)] // each test file uses a part of it

pub mod played;

use ringside_lab::{Lab, LabConfig, LabStatus};
use ringside_transmit::{Job, Limits, Load, Report, SenderKind, Shape, run};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A configuration whose name no other test and no user has.
pub fn config(test: &str) -> LabConfig {
    LabConfig { name: format!("t{}-{test}", std::process::id()), ..LabConfig::default() }
}

pub fn up(test: &str) -> Lab {
    Lab::up(&config(test)).expect("a test network")
}

pub fn numbered(sender: SenderKind, lab: &Lab, sizes: &str, flows: u32, count: u64) -> Job {
    let shape = Shape::new(sizes.parse().expect("sizes"), flows).expect("flows");
    // A sender that stays on one CPU closes the loop: without threads the NAPI runs there too,
    // before the ring can overflow, however busy the machine is.
    let cpus = ringside_sys::thread::allowed_cpus().expect("CPUs");
    Job {
        sender,
        wire: lab.wire(),
        load: Load::Numbered(shape),
        cpus: cpus[..1].to_vec(),
        rate_per_sec: None,
        limits: Limits::new(Some(count), None).expect("a limit"),
    }
}

pub fn send(job: &Job) -> Report {
    run(job, &|| false).expect("a run")
}

/// Frames that the receiving end got, as tcpdump sees them.
pub struct Witness {
    child: Child,
    file: PathBuf,
}

/// A bound for a test that would hang; it decides nothing else.
const WITNESS_WAIT: Duration = Duration::from_secs(120);

impl Witness {
    pub fn start(lab: &LabStatus) -> Witness {
        let name = format!("ringside-witness-{}.pcap", lab.config.name);
        let file = std::env::temp_dir().join(name);
        let mut child = Command::new("ip")
            .args(["netns", "exec", &lab.receiver_namespace, "tcpdump", "-i"])
            .args([lab.receiver_interface, "-Q", "in", "-B", "262144", "-s", "0", "-Z", "root"])
            .args(["-n", "-U", "-w"])
            .arg(&file)
            .stderr(Stdio::piped())
            .spawn()
            .expect("tcpdump");
        let stderr = child.stderr.take().expect("a pipe");
        let mut lines = BufReader::new(stderr).lines();
        let listening = lines.any(|line| line.expect("text").contains("listening on"));
        assert!(listening, "tcpdump did not start");
        // Keeps the pipe open and read, so that tcpdump never waits for its reader.
        std::thread::spawn(move || lines.for_each(drop));
        Witness { child, file }
    }

    /// What tcpdump writes.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Waits until it has written `count` frames (tcpdump may be seconds late) and gives them.
    pub fn frames(&self, count: u64) -> Vec<Vec<u8>> {
        let start = Instant::now();
        loop {
            let frames = read_pcap(&self.file);
            if frames.len() as u64 >= count {
                return frames;
            }
            assert!(start.elapsed() < WITNESS_WAIT, "{} of {count} frames", frames.len());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.file);
    }
}

/// The whole frames of a pcap file of this machine's byte order that is still being written.
fn read_pcap(path: &Path) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(path).expect("the file of tcpdump");
    let mut frames = Vec::new();
    let mut rest = bytes.get(24..).unwrap_or_default();
    while let Some(length) = rest.get(8..12).and_then(|field| field.first_chunk::<4>()) {
        let end = 16 + u32::from_ne_bytes(*length) as usize;
        let Some(frame) = rest.get(16..end) else { break };
        frames.push(frame.to_vec());
        rest = &rest[end..];
    }
    frames
}

/// What `ethtool -S` says of the receiving end's queues: frames by queue.
pub fn frames_by_queue(lab: &LabStatus) -> Vec<u64> {
    let text = tool(&format!(
        "ip netns exec {} ethtool -S {}",
        lab.receiver_namespace, lab.receiver_interface
    ));
    let value = |line: &str| {
        let (name, value) = line.trim().split_once(": ")?;
        name.strip_prefix("rx_queue_")?.strip_suffix("_xdp_packets")?;
        value.parse().ok()
    };
    text.lines().filter_map(value).collect()
}

/// Runs a command that must succeed.
pub fn tool(line: &str) -> String {
    let mut words = line.split_whitespace();
    let output = Command::new(words.next().expect("a tool")).args(words).output().expect("it runs");
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn namespaces() -> String {
    tool("ip netns list")
}
