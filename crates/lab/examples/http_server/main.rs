//! An HTTP server for large files whose answers are cut into segments here and leave over AF_XDP:
//! TCP by smoltcp in user space, [`ringside_transmit::Cutter`] behind it.
//!
//! ```text
//! cargo run --release -p ringside-lab --example http_server -- measure
//! cargo run --release -p ringside-lab --example http_server -- serve -i tx0 10.99.0.80 --dir DIR
//! ```
//!
//! `measure` makes a test network of its own. `serve` runs on an interface whose peer has its
//! checksums made (`ethtool -K IF tx off` where the peer is the other end of a veth pair).

mod measure;
mod server;

use clap::{Parser, Subcommand};
use ringside_transmit::sink::SinkKind;
use server::{Served, Server, ServerConfig};
use smoltcp::socket::tcp::CongestionControl;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

#[derive(Parser)]
struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve files, and /bytes/N, until interrupted
    Serve(Serve),
    /// Compare with sendfile(2), through a test network made for it
    Measure(measure::Measure),
}

#[derive(clap::Args)]
struct Serve {
    /// Address of the server, which no interface has
    address: Ipv4Addr,
    /// Interface
    #[arg(short)]
    interface: String,
    /// Bits of the network's part of the address
    #[arg(long, default_value_t = 24)]
    prefix_length: u8,
    /// TCP port
    #[arg(long, default_value_t = 80)]
    port: u16,
    /// Directory whose files are served
    #[arg(long)]
    dir: Option<PathBuf>,
    /// How frames are sent: af-xdp, af-packet, tx-ring, pcap
    #[arg(long, default_value = "af-xdp")]
    sink: SinkKind,
    /// Send chains over payload memory instead of frames in one piece
    #[arg(long)]
    chains: bool,
    /// Send as fast as the client's window allows, whatever is lost on the way
    #[arg(long)]
    no_congestion_control: bool,
}

fn main() -> anyhow::Result<()> {
    match Options::parse().command {
        Command::Serve(options) => serve(options),
        Command::Measure(options) => measure::run(&options),
    }
}

fn serve(options: Serve) -> anyhow::Result<()> {
    let congestion = match options.no_congestion_control {
        true => CongestionControl::None,
        false => CongestionControl::Cubic,
    };
    let config = ServerConfig {
        interface: options.interface,
        address: options.address,
        prefix_length: options.prefix_length.min(32),
        port: options.port,
        directory: options.dir,
        sink: options.sink,
        has_chains: options.chains,
        congestion,
        lose_every: 0,
    };
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let mut notes = Vec::new();
    let server = Server::open(config, &mut notes)?;
    notes.iter().for_each(|note| eprintln!("{note}"));
    let served = server.run(&stop)?;
    let Served { requests, packets, lost, left_out, sink } = served;
    eprintln!(
        "{requests} requests; {packets} packets of TCP in {} frames: {} accepted, {} refused, {} \
         without room, {lost} lost on purpose",
        sink.offered,
        sink.accepted,
        sink.refused_total(),
        left_out
    );
    Ok(())
}
