//! Why an eBPF program could not be loaded, attached or run.

use ringside_balance::decap::ADDRESSES_MAX;
use ringside_core::Shown;
use ringside_filter::FilterError;
use ringside_sys::bpf::BpfError;
use std::path::PathBuf;
use thiserror::Error;

/// Errors of this crate.
#[derive(Debug, Error)]
pub enum Error {
    /// libbpf or the kernel refused.
    #[error("{what}: {source}{}", fix(.source))]
    Kernel {
        /// What was tried.
        what: String,
        /// What libbpf or the kernel said.
        source: libbpf_rs::Error,
    },
    /// A table cannot be mapped.
    #[error("cannot map the table {table} of the rules: {source}")]
    Mapping {
        /// Name of the table.
        table: String,
        /// The system's reason.
        source: ringside_sys::SysError,
    },
    /// An object lacks what its loader expects: a bug of the build.
    #[error("the embedded object {object} has no {part}; the build is broken, build again")]
    Object {
        /// Name of the object.
        object: &'static str,
        /// What is missing.
        part: String,
    },
    /// A frame that live frames cannot carry.
    #[error(
        "a frame of {bytes} bytes cannot be sent as a live frame, which carries {min} to {max} \
         bytes; send others through a packet socket"
    )]
    FrameSize {
        /// Length of the frame, in bytes.
        bytes: usize,
        /// The smallest length, in bytes.
        min: usize,
        /// The largest length, in bytes.
        max: usize,
    },
    /// The capture's frames go to rings.
    #[error("this capture puts frames into rings: it has no sockets, and only the driver runs it")]
    NoSockets,
    /// A configuration that no program can run.
    #[error("the generator's {field} is {value}, it must be {limit}")]
    Config {
        /// Name of the field.
        field: &'static str,
        /// The value of the field.
        value: u64,
        /// What is allowed.
        limit: String,
    },
    /// bpf(2) refused.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// The filter cannot be translated.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// A foreign program is on the interface.
    #[error(
        "the XDP program {program} (number {id}) is on {interface}, and Ringside does not take \
         others' programs off: end what attached it, or run `ip link set dev {interface} xdp off` \
         (where a BPF link holds it: `bpftool link show`, `bpftool link detach id N`)"
    )]
    Foreign {
        /// Name of the interface.
        interface: String,
        /// Name of the program.
        program: String,
        /// The kernel's number of it.
        id: u32,
    },
    /// No place among the programs of the interface.
    #[error(
        "{places} captures by AF_XDP run on {interface}, and more cannot; end one of them \
         (`ss -xap | grep {claim}` shows which processes they are)"
    )]
    NoPlace {
        /// Name of the interface.
        interface: String,
        /// Captures that an interface has room for.
        places: usize,
        /// How the names of their claims begin.
        claim: String,
    },
    /// The router's place among the programs of the interface is taken.
    #[error(
        "another router runs on {interface}, or the place of one is taken by rules and a flow \
         cache together: end it with `ringside route off -i {interface}` (`ringside drop status` \
         shows rules, `ss -xap | grep {claim}` all processes)"
    )]
    NoRoutePlace {
        /// Name of the interface.
        interface: String,
        /// How the names of their claims begin.
        claim: String,
    },
    /// The interface takes no program.
    #[error("no XDP program can be attached to {interface}: {}", .refused.join("; "))]
    Attach {
        /// Name of the interface.
        interface: String,
        /// Each way that was tried, with the reason.
        refused: Vec<String>,
    },
    /// The claim of a place could not be made.
    #[error("cannot claim a place among the programs of {interface}: {source}")]
    Claim {
        /// Name of the interface.
        interface: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// There is nowhere to pin anything.
    #[error(
        "{path} is no BPF file system, where alone programs and maps can stay without a process: \
         `mount -t bpf bpf {path}` (`ip netns exec` hides it)"
    )]
    NoBpfFs {
        /// Where it belongs.
        path: &'static str,
    },
    /// A name in the BPF file system.
    #[error("cannot make or remove {} (it needs root): {source}", .path.shown())]
    Pin {
        /// Path of the name.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A living process has the place of pinned rules.
    #[error(
        "a process holds the rules that are pinned on {interface}: change them with `ringside \
         rules load FILE`, or end it first, as with `ringside control stop`, which leaves them in \
         force"
    )]
    PinsHeld {
        /// Name of the interface.
        interface: String,
    },
    /// A living process has the place of a router or balancer that is pinned.
    #[error(
        "a process runs the {what} that is pinned on {interface}: end it first with `ringside \
         control stop`, which leaves the {what} at work, or both with `ringside {command} off -i \
         {interface}`"
    )]
    RunHeld {
        /// Name of the interface.
        interface: String,
        /// What is pinned.
        what: &'static str,
        /// The command that ends it.
        command: &'static str,
    },
    /// What is pinned cannot be read.
    #[error(
        "{} was pinned by another version of this program, or is damaged: the `off` of `ringside \
         drop`, `route`, `balance` or `decap` ends it", .path.shown()
    )]
    PinnedForm {
        /// Path of what is pinned.
        path: PathBuf,
    },
    /// A balancer was made for less.
    #[error(
        "the tables have {count} {what}, and the balancer was started with room for {room}; start \
         it anew"
    )]
    BalanceRoom {
        /// What there is too much of.
        what: &'static str,
        /// How many.
        count: usize,
        /// Room.
        room: u32,
    },
    /// The place of balancers is taken.
    #[error(
        "a balancer is on {interface} already, or a router, an end of tunnels, or two programs of \
         `drop` and `flows` leave it no place; end one of them (`ringside status` shows runs, \
         `ringside balance status` what is pinned, `ss -xap | grep {claim}` all processes)"
    )]
    BalancePlace {
        /// Name of the interface.
        interface: String,
        /// How the names of their claims begin.
        claim: String,
    },
    /// Tunnels end nowhere, or at too many addresses.
    #[error("tunnels are to end at {count} addresses; give 1 to {ADDRESSES_MAX}")]
    DecapAddresses {
        /// How many.
        count: usize,
    },
    /// The network namespace is not known.
    #[error("cannot read the network namespace: {0}")]
    Namespace(ringside_sys::SysError),
    /// A queue that the program was not made for.
    #[error("queue {queue} of {queues}: the program was loaded for queues below that number")]
    Queue {
        /// Index of the queue.
        queue: u32,
        /// Queues that the program was loaded for.
        queues: u32,
    },
}

impl Error {
    pub(crate) fn mapping(table: &str, source: ringside_sys::SysError) -> Error {
        Error::Mapping { table: table.to_owned(), source }
    }

    pub(crate) fn kernel(what: impl Into<String>, source: libbpf_rs::Error) -> Error {
        Error::Kernel { what: what.into(), source }
    }
}

fn fix(source: &libbpf_rs::Error) -> &'static str {
    match source.kind() {
        libbpf_rs::ErrorKind::PermissionDenied => {
            "; it needs CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN: run it as root"
        }
        _ => "",
    }
}
