//! The networks of the measurements: one for each placement, number of pairs, and what must be on
//! the interfaces before a tool starts.

use super::TOOL_CPU;
use super::load::{GENERATED_ADDRESS, SENDER_CPU};
use anyhow::{Context, bail, ensure};
use clap::ValueEnum;
use ringside_ebpf::{Attachment, XdpProgram};
use ringside_lab::{Lab, LabConfig, Napi, SENDER_ADDRESS};
use ringside_netdev as netdev;
use ringside_sys::netns::Namespace;
use std::io::Write;
use std::process::{Command, Stdio};

/// How often the receive path of a host is polled while frames come, as by a card that moderates
/// its interrupts.
const HOST_INTERVAL_US: u32 = 20;
/// What a lost segment costs at least, for either end. The usual 200 ms would have one full ring,
/// which a virtual CPU that stood still makes, weigh as much as a fifth of a second's transactions.
const RTO_MIN_US: &str = "5000";

/// Where the receive path of the kernel runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
pub(super) enum Placement {
    /// On the generator's CPU: the tool has its CPU alone, and the generator is slowed to what the
    /// receive path takes.
    Own,
    /// On the tool's CPU, in threads of the kernel: the generator runs free, and what does not fit
    /// into the interface's ring is refused to it.
    Shared,
}

impl Placement {
    /// As it stands in tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            Placement::Own => "own",
            Placement::Shared => "shared",
        }
    }
}

/// What is on the receiving ends before a tool starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// A root that our programs join; alone it passes every frame.
    Root,
    /// Nothing, for tools that attach a program of their own. GRO keeps the NAPI, and the place of
    /// its thread, while programs come and go.
    Nothing,
    /// A program that discards every frame.
    Drop,
    /// The same with a look at the clock for each.
    DropStamp,
    /// A program that discards what the generator sends and passes everything else.
    DropPort,
}

/// Which network a measurement needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NetworkKey {
    pub(super) placement: Placement,
    pub(super) pairs: u16,
    pub(super) standing: Standing,
    /// The receiving end is the host that generated frames are sent to, and the sending end's
    /// stack has its work done on the generator's CPU, as that of another machine.
    pub(super) is_host: bool,
}

/// All networks that were needed so far; removed when this is dropped.
#[derive(Default)]
pub(super) struct Networks {
    labs: Vec<(NetworkKey, Lab)>,
}

impl Networks {
    /// The network, which is made at its first use.
    ///
    /// # Errors
    /// It cannot be made.
    pub(super) fn get(&mut self, key: NetworkKey) -> anyhow::Result<&Lab> {
        if !self.labs.iter().any(|(made, _)| *made == key) {
            let lab = make(key, self.labs.len())?;
            self.labs.push((key, lab));
        }
        let found = self.labs.iter().find(|(made, _)| *made == key);
        Ok(&found.context("the network was made above")?.1)
    }
}

/// Names of the receiving ends.
pub(super) fn interfaces(lab: &Lab) -> Vec<String> {
    lab.wires().into_iter().filter_map(|wire| Some(wire.receiver?.interface)).collect()
}

fn make(key: NetworkKey, number: usize) -> anyhow::Result<Lab> {
    let has_root = key.standing == Standing::Root;
    let lab = Lab::up(&LabConfig {
        name: format!("bench{}-{number}", std::process::id()),
        pairs: key.pairs,
        napi: match (key.placement, key.is_host) {
            (Placement::Own, _) => Napi::Softirq,
            (Placement::Shared, false) => Napi::Pinned(TOOL_CPU),
            (Placement::Shared, true) => {
                Napi::Moderated { cpu: TOOL_CPU, interval_us: HOST_INTERVAL_US }
            }
        },
        xdp_pass: has_root,
        // A host has it on, with any defence.
        gro: !has_root || key.is_host,
        ..LabConfig::default()
    })?;
    match key.standing {
        Standing::Root | Standing::Nothing => {}
        Standing::Drop => attach(&lab, XdpProgram::drop_all)?,
        Standing::DropStamp => attach(&lab, XdpProgram::drop_stamp)?,
        Standing::DropPort => attach(&lab, XdpProgram::drop_port)?,
    }
    if key.is_host {
        make_host(&lab)?;
    }
    Ok(lab)
}

/// Attaches a program to the receiving ends; it goes with the interfaces.
///
/// # Errors
/// The kernel refused.
pub(super) fn attach(
    lab: &Lab,
    program: fn() -> Result<XdpProgram, ringside_ebpf::Error>,
) -> anyhow::Result<()> {
    inside(&lab.status().receiver_namespace, || {
        for interface in interfaces(lab) {
            program()?.attach(ifindex(&interface)?)?.keep();
        }
        Ok(())
    })
}

/// Gives the receiving end the address that generated frames go to, and a way back to their
/// senders. What it answers is received by the sending end's stack on the generator's CPU; by
/// itself a veth end has it done where the answer was sent.
fn make_host(lab: &Lab) -> anyhow::Result<()> {
    let status = lab.status();
    let (host, peer) = (&status.receiver_namespace, &status.sender_namespace);
    let (interface, sender) = (status.receiver_interface, status.sender_interface);
    tool(host, &format!("ip address add {GENERATED_ADDRESS}/32 dev {interface}"), "")?;
    tool(host, &format!("ip route add default via {SENDER_ADDRESS}"), "")?;
    for end in [host, peer] {
        // Linux 6.15.
        tool(end, "tee /proc/sys/net/ipv4/tcp_rto_min_us", RTO_MIN_US)?;
    }
    let file = format!("/sys/class/net/{sender}/queues/rx-0/rps_cpus");
    tool(peer, &format!("tee {file}"), &format!("{:x}", 1u64 << SENDER_CPU))
}

/// Runs `work` on a thread of its own inside the namespace, so that this one stays where it is.
///
/// # Errors
/// There is no such namespace, or those of `work`.
pub(super) fn inside<T: Send>(
    namespace: &str,
    work: impl FnOnce() -> anyhow::Result<T> + Send,
) -> anyhow::Result<T> {
    let entered = || {
        Namespace::open(namespace)?.enter()?;
        work()
    };
    let result = std::thread::scope(|scope| scope.spawn(entered).join());
    result.unwrap_or_else(|_| bail!("a thread inside {namespace} died"))
}

/// A program on an interface, taken off in its own namespace.
pub(super) struct Attached {
    namespace: Option<String>,
    /// Taken only when this is dropped.
    attachment: Option<Attachment>,
}

impl Attached {
    /// Has `attach` do so, inside the namespace if it is another one.
    ///
    /// # Errors
    /// There is no such namespace, or those of `attach`.
    pub(super) fn by<T: Send>(
        namespace: Option<&str>,
        attach: impl FnOnce() -> anyhow::Result<(T, Attachment)> + Send,
    ) -> anyhow::Result<(T, Attached)> {
        let (value, attachment) = match namespace {
            Some(namespace) => inside(namespace, attach)?,
            None => attach()?,
        };
        let namespace = namespace.map(str::to_owned);
        Ok((value, Attached { namespace, attachment: Some(attachment) }))
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let Some(attachment) = self.attachment.take() else { return };
        // Without its namespace it went with its interface.
        match &self.namespace {
            Some(namespace) => {
                let _ = inside(namespace, || {
                    drop(attachment);
                    Ok(())
                });
            }
            None => drop(attachment),
        }
    }
}

/// The number of an interface of the calling thread's namespace.
///
/// # Errors
/// There is none.
pub(super) fn ifindex(interface: &str) -> anyhow::Result<u32> {
    let device = netdev::by_name(interface)?;
    Ok(device.with_context(|| format!("no interface is called {interface}"))?.ifindex)
}

/// Runs a tool inside the namespace, words parted by spaces, with `input` on its standard input.
///
/// # Errors
/// It cannot be started or failed; what it said is in the error.
pub(super) fn tool(namespace: &str, line: &str, input: &str) -> anyhow::Result<()> {
    output(namespace, line, input).map(drop)
}

/// The same; gives what it printed.
///
/// # Errors
/// The same.
pub(super) fn output(namespace: &str, line: &str, input: &str) -> anyhow::Result<String> {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace]).args(line.split_whitespace());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context("starting ip netns exec")?;
    if let Some(mut stdin) = child.stdin.take() {
        // A tool that does not read its input closes it; what it thinks of that it says itself.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`{line}` failed ({}): {}", output.status, said.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
