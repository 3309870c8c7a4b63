//! The networks of `bench receive`: one for each placement, number of pairs, and what must be on
//! the interfaces before a tool starts.

use super::super::TOOL_CPU;
use anyhow::{Context, bail};
use clap::ValueEnum;
use ringside_ebpf::XdpProgram;
use ringside_lab::{Lab, LabConfig, Napi};
use ringside_sys::netdev;
use ringside_sys::netns::Namespace;

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
}

/// Which network a measurement needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NetworkKey {
    pub(super) placement: Placement,
    pub(super) pairs: u16,
    pub(super) standing: Standing,
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
    lab.wires().into_iter().map(|wire| wire.receiver.interface).collect()
}

fn make(key: NetworkKey, number: usize) -> anyhow::Result<Lab> {
    let has_root = key.standing == Standing::Root;
    let lab = Lab::up(&LabConfig {
        name: format!("bench{}-{number}", std::process::id()),
        pairs: key.pairs,
        napi: match key.placement {
            Placement::Own => Napi::Softirq,
            Placement::Shared => Napi::Pinned(TOOL_CPU),
        },
        xdp_pass: has_root,
        gro: !has_root,
        ..LabConfig::default()
    })?;
    if key.standing == Standing::Drop {
        discard_everything(&lab)?;
    }
    Ok(lab)
}

/// Attaches the program that discards; it goes with the interface.
fn discard_everything(lab: &Lab) -> anyhow::Result<()> {
    let attach = || -> anyhow::Result<()> {
        Namespace::open(&lab.status().receiver_namespace)?.enter()?;
        for interface in interfaces(lab) {
            let device = netdev::by_name(&interface)?;
            let device = device.with_context(|| format!("there is no {interface}"))?;
            XdpProgram::drop_all()?.attach(device.ifindex)?.keep();
        }
        Ok(())
    };
    // A thread of its own, so that this one stays where it is.
    let attached = std::thread::scope(|scope| scope.spawn(attach).join());
    attached.unwrap_or_else(|_| bail!("the thread that attaches programs died"))
}
