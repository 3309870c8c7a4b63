//! Frames from inside the driver: options, and when `auto` takes this way.

use super::{Backend, DirectionArg, OpenArgs, Plan, Sources};
use crate::keeper::Knobs;
use crate::say;
use anyhow::bail;
use clap::{Args, ValueEnum};
use ringside_capture::backend::af_xdp::{AfXdpConfig, Stamps, Waiting, open};
use ringside_core::{LinkType, Source};
use ringside_sys::netdev::{self, PolledQueue};

/// Options of the af-xdp backend.
#[derive(Args)]
pub struct AfXdpArgs {
    /// What an af-xdp worker does while no frame is there. auto: spin on a CPU of its own, sleep
    /// where the kernel's receive path shares the CPU or its place is not known.
    #[arg(long, value_enum, default_value_t = Wait::Auto)]
    pub wait: Wait,

    /// Do not stamp frames: for counting only (af-xdp), to see what a stamp costs.
    #[arg(long)]
    pub no_stamps: bool,
}

/// Ways of waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Wait {
    /// By where the kernel's receive path runs.
    Auto,
    /// Look again at once.
    Spin,
    /// Sleep 50 to 500 µs while frames come.
    Sleep,
    /// Be woken by the next frames.
    Poll,
    /// Poll the interface's queue from the worker.
    BusyPoll,
}

/// Why `auto` does not take frames from inside the driver of this interface; `None` if it does.
pub(super) fn reason_against(args: &OpenArgs, name: &str) -> Option<String> {
    if args.direction == DirectionArg::Both {
        return Some("it sees received frames only, and --direction both is asked for".into());
    }
    if args.hardware_time {
        return Some("--hardware-time is asked for".into());
    }
    let Ok(Some(device)) = netdev::by_name(name) else { return Some("it is not there".into()) };
    match netdev::xdp_features(device.ifindex) {
        Ok(Some(features)) if features.native && features.redirect => {}
        Ok(Some(_)) => return Some("its driver has no XDP".into()),
        Ok(None) => return Some("this kernel does not say whether its driver has XDP".into()),
        Err(error) => return Some(error.to_string()),
    }
    match netdev::uses(name) {
        Ok(uses) => uses.first().map(|first| format!("the host uses it: {first}")),
        Err(error) => Some(error.to_string()),
    }
}

/// Lanes of an interface: one for each receive queue, unless fewer are asked for.
pub(super) fn lanes(args: &OpenArgs, name: &str) -> usize {
    let all = netdev::queues(name).map_or(1, |queues| queues.rx as usize);
    args.queues.map_or(all, usize::from)
}

/// True if the workers go to `cpus`, and the kernel is known to receive on others.
fn has_own_cpus(name: &str, cpus: &[usize]) -> bool {
    let device = netdev::by_name(name).ok().flatten();
    let queues = device.and_then(|device| netdev::polled_queues(&device).ok()).unwrap_or_default();
    let apart = |queue: &PolledQueue| {
        !queue.cpus.is_empty() && queue.cpus.iter().all(|cpu| !cpus.contains(cpu))
    };
    !cpus.is_empty() && !queues.is_empty() && queues.iter().all(apart)
}

impl Plan<'_> {
    pub(super) fn af_xdp(
        &self,
        args: &OpenArgs,
        cpus: &[usize],
        knobs: &Knobs<'_>,
        warnings: &mut Vec<String>,
    ) -> anyhow::Result<Sources> {
        if args.direction == DirectionArg::Both {
            bail!(
                "af-xdp sees received frames only: leave out --direction both, or use --backend af-packet"
            );
        }
        let stamps = match (args.af_xdp.no_stamps, args.hardware_time) {
            (true, _) => Stamps::Off,
            (false, true) if self.stamps_by_hardware(knobs, warnings) => Stamps::Hardware,
            (false, _) => Stamps::On,
        };
        let opened = open(&AfXdpConfig {
            interface: self.name.to_owned(),
            interface_id: self.interface_id,
            lanes: args.queues,
            threads: usize::from(args.threads),
            memory_bytes: args.kernel_ring_size,
            snaplen_bytes: args.snaplen_bytes(),
            promiscuous: !args.no_promiscuous,
            filter: self.filter.clone().map(|program| (program, args.expression())),
            stamps,
            waiting: match args.af_xdp.wait {
                Wait::Auto if has_own_cpus(self.name, cpus) => Waiting::Spin,
                Wait::Auto | Wait::Sleep => Waiting::Sleep,
                Wait::Spin => Waiting::Spin,
                Wait::Poll => Waiting::Poll,
                Wait::BusyPoll => Waiting::BusyPoll,
            },
        })?;
        for note in &opened.notes {
            say::message(format_args!("ringside: {note}"));
        }
        say::message(format_args!("ringside: {}: af-xdp, {}", self.name, opened.way));
        warnings.extend(ringside_capture::backend::merge_warning(self.name));
        let boxed = |source| (Box::new(source) as Box<dyn Source>, None);
        Ok(opened.sources.into_iter().map(boxed).collect())
    }
}

/// The backend that `auto` means for an Ethernet or IP interface; says why.
pub(super) fn choose_auto(args: &OpenArgs, name: &str, link_type: LinkType) -> Backend {
    if link_type != LinkType::ETHERNET {
        return Backend::AfPacket;
    }
    match reason_against(args, name) {
        None => {
            say::message(format_args!(
                "ringside: {name}: af-xdp, because the host does not use the interface and its \
                 driver has XDP; --backend af-packet leaves the frames to the host"
            ));
            Backend::AfXdp
        }
        Some(reason) => {
            say::message(format_args!("ringside: {name}: af-packet, not af-xdp: {reason}"));
            Backend::AfPacket
        }
    }
}
