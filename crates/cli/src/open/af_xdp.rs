//! Frames from inside the driver: options, and when `auto` takes this way.

use super::{Backend, OpenArgs, Plan, Sources};
use anyhow::bail;
use clap::Args;
use ringside_capture::backend::af_xdp::{AfXdpConfig, AfXdpSource, Stamps, Waiting, open};
use ringside_core::{LinkType, Source};
use ringside_keeper::{Knobs, Request, Wish};
use ringside_netdev::{self as netdev, PolledQueue};
use ringside_sys::packet::CaptureDirection;
use ringside_terminal::{Wait, say};

/// Empty polls before a queue's interrupt is enabled, and the time until it is polled anyway: the
/// values that drivers' own tests of busy polling use.
const DEFER_HARD_IRQS: u32 = 2;
const GRO_FLUSH_TIMEOUT_NS: u64 = 200_000;

/// Options of the af-xdp backend.
#[derive(Args)]
pub struct AfXdpArgs {
    /// What an af-xdp or xdp-ring worker does while no frame is there. auto: spin on a CPU of its
    /// own, sleep where the kernel's receive path shares the CPU or its place is not known.
    #[arg(long, value_enum, default_value_t = Wait::Auto)]
    pub wait: Wait,

    /// Do not stamp frames: for counting only (af-xdp, xdp-ring), to see what a stamp costs.
    #[arg(long)]
    pub no_stamps: bool,
}

/// Why `auto` does not take frames from inside the driver of this interface; `None` if it does.
pub(super) fn reason_against(args: &OpenArgs, name: &str) -> Option<String> {
    if args.direction == Some(CaptureDirection::Both) {
        return Some("it sees received frames only, and --direction inout is asked for".into());
    }
    if args.hardware_time {
        return Some("--hardware-time is asked for".into());
    }
    let Ok(Some(device)) = netdev::by_name(name) else { return Some("it is not there".into()) };
    if let (Some(wanted), Ok(there)) = (args.queues, netdev::queues(name))
        && u32::from(wanted) > there.rx
    {
        let plural = if there.rx == 1 { "" } else { "s" };
        let there = there.rx;
        return Some(format!(
            "{wanted} lanes are asked for, and it has {there} receive queue{plural}"
        ));
    }
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
        self.check_direction()?;
        let stamps = match (args.af_xdp.no_stamps, args.hardware_time) {
            (true, _) => Stamps::Off,
            (false, true) if self.stamps_by_hardware(knobs, warnings) => Stamps::Hardware,
            (false, _) => Stamps::On,
        };
        if args.af_xdp.wait == Wait::BusyPoll {
            self.ready_busy_poll(args, knobs, warnings);
        }
        let opened = open(&AfXdpConfig {
            interface: self.name.to_owned(),
            interface_id: self.interface_id,
            lanes: args.queues,
            threads: usize::from(args.threads),
            memory_bytes: args.kernel_ring_bytes(),
            snaplen_bytes: args.snaplen_bytes(),
            promiscuous: !args.no_promiscuous,
            filter: self.filter.clone().map(|program| (program, args.expression())),
            stamps,
            waiting: self.waiting(args, cpus),
        })?;
        for note in &opened.notes {
            say::message(format_args!("ringside: {note}"));
        }
        say::message(format_args!("ringside: {}: af-xdp, {}", self.name, opened.way));
        warnings.extend(ringside_capture::backend::merge_warning(self.name));
        let with_handles = |source: AfXdpSource| {
            // Without a descriptor left the run goes on; only its end after a crash knows less.
            let handles = source.kernel_side().ok();
            (Box::new(source) as Box<dyn Source>, handles)
        };
        Ok(opened.sources.into_iter().map(with_handles).collect())
    }
}

impl Plan<'_> {
    /// Refuses what nothing inside a driver sees.
    pub(super) fn check_direction(&self) -> anyhow::Result<()> {
        if self.direction == CaptureDirection::Both {
            bail!(
                "{} sees received frames only: leave out --direction inout, or use --backend \
                 af-packet",
                self.backend.name()
            );
        }
        Ok(())
    }

    /// What workers on `cpus` do while no frame is there.
    pub(super) fn waiting(&self, args: &OpenArgs, cpus: &[usize]) -> Waiting {
        match args.af_xdp.wait {
            Wait::Auto if has_own_cpus(self.name, cpus) => Waiting::Spin,
            Wait::Auto | Wait::Sleep => Waiting::Sleep,
            Wait::Spin => Waiting::Spin,
            Wait::Poll => Waiting::Poll,
            Wait::BusyPoll => Waiting::BusyPoll,
        }
    }

    /// Has the queues' interrupts wait while they are polled by the workers: without that busy
    /// polling brings little.
    fn ready_busy_poll(&self, args: &OpenArgs, knobs: &Knobs<'_>, warnings: &mut Vec<String>) {
        for queue in 0..lanes(args, self.name) as u32 {
            let wish = Wish::Napi {
                queue,
                defer_hard_irqs: DEFER_HARD_IRQS,
                gro_flush_timeout_ns: GRO_FLUSH_TIMEOUT_NS,
                irq_suspend_timeout_ns: 0,
            };
            let interface = self.name.to_owned();
            if let Err(error) = knobs.turn(&Request::Interface { interface, wish }) {
                warnings.push(format!("queue {queue}: {error:#}; busy polling may bring little"));
            }
        }
    }
}

/// The backend that `auto` means for an Ethernet or IP interface. Says why where frames are taken
/// away from the host, else if asked to.
pub(super) fn choose_auto(
    args: &OpenArgs,
    name: &str,
    link_type: LinkType,
    explains: bool,
) -> Backend {
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
            if explains {
                say::message(format_args!("ringside: {name}: af-packet, not af-xdp: {reason}"));
            }
            Backend::AfPacket
        }
    }
}
