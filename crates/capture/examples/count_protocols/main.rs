//! Counts frames by protocol, wherever they come from: docs/howto/observer.md.
//!
//! ```text
//! cargo run --example count_protocols -- FILE|DIR …
//! cargo run --example count_protocols -- --attach SOCKET
//! cargo run --example count_protocols -- -i INTERFACE FRAMES          (as root)
//! cargo run --example count_protocols -- -i INTERFACE FRAMES -w DIR   (with a recorder)
//! ```

mod protocols;

use protocols::{Counts, Protocols};
use ringside_capture::backend::af_packet::{self, AfPacketConfig};
use ringside_capture::config::{DiskOptions, Output, Rotation, RunConfig};
use ringside_capture::run::{LaneSource, Run};
use ringside_client::{Attachment, ReadOptions};
use ringside_core::{InterfaceId, LaneId, Source};
use ringside_inspect::{Pump, Report};
use ringside_store::retention::Policy;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        [] => Err("name files, directories, --attach SOCKET or -i INTERFACE FRAMES".into()),
        ["--attach", socket] => attached(socket.as_ref()),
        ["-i", interface, frames] => live(interface, frames.parse()?, Output::Count),
        ["-i", interface, frames, "-w", directory] => {
            let output = Output::Directory {
                paths: vec![directory.into()],
                rotation: Rotation::default(),
                options: DiskOptions::default(),
                retention: Policy::default(),
            };
            live(interface, frames.parse()?, output)
        }
        ref paths => stored(&paths.iter().map(PathBuf::from).collect::<Vec<_>>()),
    }
}

/// Files and directories: one stream.
fn stored(paths: &[PathBuf]) -> Result<(), Box<dyn Error>> {
    let (sender, found) = channel();
    let mut source = ringside_store::open(paths)?;
    let pump = Pump::new(vec![Box::new(Protocols::new(sender))]);
    let report = pump.run(&mut *source, LaneId(0), &|| false);
    print(&found);
    account(report)
}

/// A capture of another process: each lane on a thread, with an observer of its own. What they
/// count is added up, so the order of frames among lanes does not matter.
fn attached(socket: &Path) -> Result<(), Box<dyn Error>> {
    let (sender, found) = channel();
    let attachment = Attachment::connect(socket)?;
    let threads =
        (0..).zip(attachment.sources(&ReadOptions::default())).map(|(lane, mut source)| {
            let observer = Box::new(Protocols::new(sender.clone()));
            std::thread::spawn(move || {
                Pump::new(vec![observer]).run(&mut source, LaneId(lane), &|| false)
            })
        });
    let threads: Vec<_> = threads.collect();
    drop(sender);
    print(&found);
    for thread in threads {
        account(thread.join().map_err(|_| "an observer panicked")?)?;
    }
    Ok(())
}

/// An interface: the observer reads the ring of a run, next to a recorder if there is one.
fn live(interface: &str, frames: u64, output: Output) -> Result<(), Box<dyn Error>> {
    let (sender, found) = channel();
    let config = AfPacketConfig::new(interface);
    let block_timeout_ns = u64::from(config.block_timeout_ms) * 1_000_000;
    let sources = af_packet::open(&config)?.sources;
    let interfaces = sources.first().map(|source| source.interfaces().to_vec());
    let lane = |(queue, source)| LaneSource {
        source: Box::new(source),
        interface: interface.to_owned(),
        interface_id: InterfaceId(0),
        queue,
    };
    let config = RunConfig {
        frames_max: Some(frames),
        block_timeout_ns,
        output,
        observers: vec![Box::new(Protocols::new(sender))],
        ..RunConfig::counting()
    };
    let lanes = (0..).zip(sources).map(lane).collect();
    let run = Run::start(lanes, interfaces.unwrap_or_default(), config)?;
    while run.is_running() {
        std::thread::sleep(Duration::from_millis(10));
    }
    let report = run.finish();
    print(&found);
    for consumer in &report.ledger.consumers {
        eprintln!(
            "{}: {} delivered, missed {:?}",
            consumer.name, consumer.delivered, consumer.missed
        );
    }
    if report.errors.is_empty() { Ok(()) } else { Err(report.errors.join("; ").into()) }
}

/// The sum of what all observers found.
fn print(found: &Receiver<Counts>) {
    let mut sum = Counts::new();
    for (protocol, frames) in found.iter().flatten() {
        *sum.entry(protocol).or_default() += frames;
    }
    for (protocol, frames) in sum {
        println!("{frames:>12} {protocol}");
    }
}

/// Says what was seen, and what was not.
fn account(report: Report) -> Result<(), Box<dyn Error>> {
    eprintln!("{} frames seen", report.seen.frames);
    for (cause, frames) in report.counters.dropped.iter().filter(|(_, frames)| **frames > 0) {
        eprintln!("{frames} frames lost: {cause}");
    }
    report.failure.map_or(Ok(()), |failure| Err(failure.into()))
}
