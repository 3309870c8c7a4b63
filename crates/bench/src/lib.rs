#![forbid(unsafe_code)]
//! `ringside bench`: measurements with a peer in the same run, and the loss of each.
//!
//! [`BenchArgs`] are the arguments of the subcommand, [`run`] does what they say: it makes private
//! networks, loads them, runs tools there as a user would, this program among them, and gives rows
//! for people, as CSV and drawn.
//!
//! This stands apart from the binary, because it is a third of its lines, and has libraries that
//! nothing else needs: to draw, and to count times. It refuses to measure through any other door
//! than a user's: what it compares are programs with arguments.

mod awake;
mod calls;
mod capture;
mod changes;
mod ddos;
mod defence;
mod disk;
mod failures;
mod flood;
mod flows;
mod instructions;
mod link;
mod load;
mod measure;
mod network;
mod output;
mod pages;
mod place;
mod plot;
mod process;
mod raw_disk;
mod receive;
mod receiver;
mod record;
mod replay;
mod results;
mod rules;
mod search;
mod segment;
mod send;
mod table;
mod testpmd;
mod threads;
mod tools;
mod xdp;

use clap::{Args, Subcommand};
use std::process::ExitCode;

/// CPU of the tool.
const TOOL_CPU: usize = 1;

/// Arguments of `bench`.
#[derive(Args)]
#[command(after_help = "Examples:
  sudo ringside bench capture                      64, 512 and 1514 bytes, five rounds
  sudo ringside bench capture --rounds 1 --for 1s  a quick look
  sudo ringside bench receive --csv receive.csv --svg .  every way to receive, by frame size
  sudo ringside bench record --csv record.csv --svg .   every recorder that is installed
  ringside bench disk --dir /data                  the writer alone, next to fio
  sudo ringside bench record --figure 4.6          rate by snapshot length
  ringside bench threads --svg .                   several threads on one lane, and their order
  sudo ringside bench ddos --svg ddos.svg          a host's service under a flood
  sudo ringside bench send --svg .                 frames that one core sends
  sudo ringside bench segment --svg .              bulk payload as segments, in four ways
  sudo ringside bench replay                       how well a replay keeps time
  sudo ringside bench link --svg .                 a link without loss: rate, time under way
  sudo ringside bench rules                        dropping by one rule and by 110,000
  sudo ringside bench changes                      rules that come and go under load
  sudo ringside bench flows --svg .                flows in user space and in the kernel
  sudo ringside bench calls --svg .                media of calls, in user space and in the driver
  sudo ringside bench xdp --svg .                  dropping, forwarding, routing, balancing")]
pub struct BenchArgs {
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(Subcommand)]
enum BenchCommand {
    /// Full-load rates of counting and recording, next to tcpdump.
    #[command(after_help = "Examples:
  sudo ringside bench capture                      64, 512 and 1514 bytes, five rounds
  sudo ringside bench capture --rounds 1 --for 1s  a quick look")]
    Capture(capture::CaptureBench),
    /// Receiving and counting: backends, ways of waiting, stamps, queues, next to its peers and the
    /// limits of the kernel.
    #[command(after_help = "Examples:
  sudo ringside bench receive
  sudo ringside bench receive --csv receive.csv --svg .   rows and drawings, too")]
    Receive(receive::ReceiveBench),
    /// Recording to memory and to a disk, at full load and without loss, next to its peers.
    #[command(after_help = "Examples:
  sudo ringside bench record --csv record.csv --svg .   every recorder that is installed
  sudo ringside bench record --figure 4.6               rate by snapshot length")]
    Record(record::RecordBench),
    /// The writer alone, from a ring that is always full, next to fio.
    #[command(after_help = "Examples:
  ringside bench disk --dir /data")]
    Disk(disk::DiskBench),
    /// Rate and order by threads on one receive ring, which lies in memory; needs no privileges.
    #[command(after_help = "Examples:
  ringside bench threads --svg .")]
    Threads(threads::ThreadsBench),
    /// Transactions over TCP under a flood of UDP, with and without a defence.
    #[command(after_help = "Examples:
  sudo ringside bench ddos --svg ddos.svg")]
    Ddos(ddos::DdosBench),
    /// Dropping frames by rules, and receiving through them, by how many there are.
    #[command(after_help = "Examples:
  sudo ringside bench rules")]
    Rules(rules::RulesBench),
    /// How soon a rule that comes or goes is at work, and what changes cost.
    #[command(after_help = "Examples:
  sudo ringside bench changes")]
    Changes(changes::ChangesBench),
    /// Adding packets up by flow, in user space and in the kernel's cache, by how many flows there
    /// are.
    #[command(after_help = "Examples:
  sudo ringside bench flows --svg .
  sudo ringside bench flows --flows 100000 --tools user,cache-xdp --rounds 1")]
    Flows(flows::FlowsBench),
    /// Counting the media of calls, in user space and inside the driver, by how many calls there
    /// are.
    #[command(after_help = "Examples:
  sudo ringside bench calls --svg .
  sudo ringside bench calls --calls 10000 --tools kernel --rounds 1")]
    Calls(calls::CallsBench),
    /// What one core does inside the driver, in the form of the paper on XDP: dropping, sending
    /// back, forwarding, routing, balancing, next to DPDK and the host's stack.
    #[command(after_help = "Examples:
  sudo ringside bench xdp --svg .
  sudo ringside bench xdp --parts route,balance --rounds 1")]
    Xdp(xdp::XdpBench),
    /// Frames a second that one core sends, next to its peers.
    #[command(after_help = "Examples:
  sudo ringside bench send --svg .")]
    Send(send::SendBench),
    /// Bulk payload as segments of the link's size: by calls, copies, chains, and by the kernel.
    #[command(after_help = "Examples:
  sudo ringside bench segment --svg .")]
    Segment(segment::SegmentBench),
    /// How far from their times frames of a capture are sent, next to tcpreplay.
    #[command(after_help = "Examples:
  sudo ringside bench replay")]
    Replay(replay::ReplayBench),
    /// A link between two interfaces, in the manner of RFC 2544: the rate without loss, the time
    /// under way, the longest burst, loss by load.
    #[command(after_help = "Examples:
  sudo ringside bench link --svg .            on a private network
  sudo ringside bench link -i eth1 --to eth2  between two interfaces")]
    Link(link::LinkBench),
    /// Instructions for each frame in the tool's own code, under callgrind.
    #[command(after_help = "Examples:
  ringside bench instructions")]
    Instructions(instructions::InstructionsBench),
}

/// Runs the subcommand.
///
/// # Errors
/// The machine lacks what the measurement needs, or a network could not be made.
pub fn run(args: BenchArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        BenchCommand::Capture(args) => capture::run(&args),
        BenchCommand::Receive(args) => receive::run(&args),
        BenchCommand::Record(args) => record::run(&args),
        BenchCommand::Disk(args) => disk::run(&args),
        BenchCommand::Threads(args) => threads::run(&args),
        BenchCommand::Ddos(args) => ddos::run(&args),
        BenchCommand::Rules(args) => rules::run(&args),
        BenchCommand::Changes(args) => changes::run(&args),
        BenchCommand::Flows(args) => flows::run(&args),
        BenchCommand::Calls(args) => calls::run(&args),
        BenchCommand::Xdp(args) => xdp::run(&args),
        BenchCommand::Send(args) => send::run(&args),
        BenchCommand::Segment(args) => segment::run(&args),
        BenchCommand::Replay(args) => replay::run(&args),
        BenchCommand::Link(args) => link::run(&args),
        BenchCommand::Instructions(args) => instructions::run(&args),
    }
}

/// The middle value; NaN of none.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
