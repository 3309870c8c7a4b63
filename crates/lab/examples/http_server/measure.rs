//! The same file to the same client through the same veth pair: from the kernel's TCP by
//! sendfile(2), and from the server here.

use crate::server::{Server, ServerConfig};
use anyhow::{Context, ensure};
use ringside_lab::{Lab, LabConfig, SENDER_ADDRESS};
use ringside_sys::netns::Namespace;
use ringside_transmit::sink::SinkKind;
use smoltcp::socket::tcp::CongestionControl;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 80);
const PORT: u16 = 8080;
const FILE: &str = "file";

#[derive(clap::Args)]
pub struct Measure {
    /// Size of the file
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u64).range(1..=8192))]
    mib: u64,
    /// Downloads of each kind, in turns
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// The client's end merges nothing (GRO off, the default of veth pairs)
    #[arg(long)]
    no_gro: bool,
}

/// What is compared.
struct Kind {
    name: &'static str,
    /// Offloads of the server's interface, as `ethtool -K` takes them.
    offloads: &'static str,
    /// `None` for sendfile(2); else whether chains are sent.
    chains: Option<bool>,
}

const NONE: &str = "tx off tso off gso off";
const CHECKSUMS: &str = "tx on tso off gso off";

const KINDS: [Kind; 7] = [
    Kind { name: "sendfile, all cut by TCP", offloads: NONE, chains: None },
    Kind { name: "sendfile, cut late (GSO)", offloads: "tx on tso off gso on", chains: None },
    Kind { name: "sendfile, never cut (TSO)", offloads: "tx on tso on gso on", chains: None },
    Kind { name: "here, copies", offloads: NONE, chains: Some(false) },
    Kind { name: "here, chains", offloads: NONE, chains: Some(true) },
    Kind { name: "here, copies, no checksums", offloads: CHECKSUMS, chains: Some(false) },
    Kind { name: "here, chains, no checksums", offloads: CHECKSUMS, chains: Some(true) },
];

pub fn run(options: &Measure) -> anyhow::Result<()> {
    let name = format!("http-{}", std::process::id());
    let lab =
        LabConfig { name, arp: true, xdp_pass: false, gro: !options.no_gro, ..Default::default() };
    let lab = Lab::up(&lab)?;
    let folder = tempfile::tempdir()?;
    let bytes = options.mib << 20;
    write_file(&folder.path().join(FILE), bytes)?;
    let mut rates = [const { Vec::new() }; KINDS.len()];
    for round in 1..=options.rounds {
        for (kind, rates) in KINDS.iter().zip(&mut rates) {
            let rate = download(&lab, kind, folder.path(), bytes)?;
            eprintln!("round {round}: {}: {:.2} Gb/s", kind.name, gigabits(rate));
            rates.push(rate);
        }
    }
    println!("Gb/s of content, {} MiB, {} downloads each", options.mib, options.rounds);
    println!("{:28} {:>6} {:>6} {:>6}", "", "least", "median", "most");
    for (kind, mut rates) in KINDS.iter().zip(rates) {
        rates.sort_by(f64::total_cmp);
        let [least, median, most] =
            [0, rates.len() / 2, rates.len() - 1].map(|index| gigabits(rates[index]));
        println!("{:28} {least:6.2} {median:6.2} {most:6.2}", kind.name);
    }
    Ok(())
}

fn gigabits(bytes_per_sec: f64) -> f64 {
    bytes_per_sec * 8.0 / 1e9
}

fn write_file(path: &Path, bytes: u64) -> anyhow::Result<()> {
    let mut file = File::create(path)?;
    let block: Vec<u8> = (0..1 << 20).map(|at| (at % 251) as u8).collect();
    for _ in 0..bytes >> 20 {
        file.write_all(&block)?;
    }
    Ok(())
}

/// Bytes a second of one download.
fn download(lab: &Lab, kind: &Kind, folder: &Path, bytes: u64) -> anyhow::Result<f64> {
    let status = lab.status();
    let sender = &status.sender_namespace;
    tool(&format!("ip netns exec {sender} ethtool -K tx0 {}", kind.offloads))?;
    let stop = AtomicBool::new(false);
    let (ready, is_ready) = std::sync::mpsc::channel();
    // Who does not wait any more has said why.
    let ready = || _ = ready.send(());
    std::thread::scope(|scope| {
        let server = scope.spawn(|| {
            Namespace::open(sender)?.enter()?;
            match kind.chains {
                None => send_file(&folder.join(FILE), ready),
                Some(has_chains) => {
                    let server = Server::open(config(folder, has_chains), &mut Vec::new())?;
                    ready();
                    server.run(&stop).map(drop)
                }
            }
        });
        let rate = is_ready.recv().context("the server did not start").and_then(|()| {
            let address = kind.chains.map_or(SENDER_ADDRESS.to_owned(), |_| ADDRESS.to_string());
            fetch(&status.receiver_namespace, &format!("http://{address}:{PORT}/{FILE}"), bytes)
        });
        stop.store(true, Ordering::Relaxed);
        server.join().map_err(|_| anyhow::anyhow!("the server panicked"))??;
        rate
    })
}

fn config(folder: &Path, has_chains: bool) -> ServerConfig {
    ServerConfig {
        interface: "tx0".into(),
        address: ADDRESS,
        prefix_length: 24,
        port: PORT,
        directory: Some(folder.to_owned()),
        sink: SinkKind::AfXdp,
        has_chains,
        congestion: CongestionControl::Cubic,
        lose_every: 0,
    }
}

/// Bytes a second, as curl counts them.
fn fetch(namespace: &str, url: &str, bytes: u64) -> anyhow::Result<f64> {
    let shown = "%{size_download}:%{speed_download}";
    let line = format!("ip netns exec {namespace} curl -sS -m 300 -o /dev/null -w {shown} {url}");
    let said = tool(&line)?;
    let (size, speed) = said.split_once(':').context("what curl says")?;
    ensure!(size == bytes.to_string(), "{size} bytes of {bytes} were read");
    Ok(speed.parse()?)
}

/// Answers one request with a file, as a server does that leaves all to the kernel.
fn send_file(path: &Path, ready: impl FnOnce()) -> anyhow::Result<()> {
    let listener = TcpListener::bind((SENDER_ADDRESS, PORT))?;
    ready();
    let (mut stream, _) = listener.accept()?;
    let mut request = BufReader::new(stream.try_clone()?).lines();
    while request.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let file = File::open(path)?;
    let mut left = file.metadata()?.len() as usize;
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {left}\r\nConnection: close\r\n\r\n")?;
    while left > 0 {
        let sent = rustix::fs::sendfile(&stream, &file, None, left)?;
        ensure!(sent > 0, "{left} bytes of the file are missing");
        left -= sent;
    }
    Ok(())
}

/// Runs a command that must succeed; gives what it printed.
fn tool(line: &str) -> anyhow::Result<String> {
    let mut words = line.split_whitespace();
    let output = Command::new(words.next().unwrap_or_default()).args(words).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{line}: {}", said.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
