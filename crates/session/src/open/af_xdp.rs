//! Frames from inside the driver, and when that way is chosen.

use super::{OpenOptions, Opening, Plan, Sources};
use crate::note::{NotInDriver, Note};
use crate::refused::Refused;
use ringside_capture::backend::af_xdp::{AfXdpConfig, AfXdpSource, Stamps, Waiting, open};
use ringside_capture::backend::{AF_PACKET, AF_XDP, Description, merge_warning};
use ringside_core::{LinkType, Source};
use ringside_keeper::{Request, Wish};
use ringside_sys::netdev::{self, PolledQueue};
use ringside_sys::packet::CaptureDirection;

/// Empty polls before a queue's interrupt is enabled, and the time until it is polled anyway: the
/// values that drivers' own tests of busy polling use.
const DEFER_HARD_IRQS: u32 = 2;
const GRO_FLUSH_TIMEOUT_NS: u64 = 200_000;

/// Why frames are not taken from inside the driver of this interface; `None` if they are.
fn reason_against(options: &OpenOptions, name: &str) -> Option<NotInDriver> {
    if options.direction == Some(CaptureDirection::Both) {
        return Some(NotInDriver::BothDirections);
    }
    if options.hardware_time {
        return Some(NotInDriver::HardwareTime);
    }
    let other = |reason: &str| Some(NotInDriver::Other(reason.to_owned()));
    let Ok(Some(device)) = netdev::by_name(name) else { return other("it is not there") };
    if let (Some(wanted), Ok(there)) = (options.lanes, netdev::queues(name))
        && u32::from(wanted) > there.rx
    {
        return Some(NotInDriver::Queues { wanted, there: there.rx });
    }
    match netdev::xdp_features(device.ifindex) {
        Ok(Some(features)) if features.native && features.redirect => {}
        Ok(Some(_)) => return other("its driver has no XDP"),
        Ok(None) => return other("this kernel does not say whether its driver has XDP"),
        Err(error) => return Some(NotInDriver::Other(error.to_string())),
    }
    match netdev::uses(name) {
        Ok(uses) => uses.first().map(|first| NotInDriver::InUse(first.to_string())),
        Err(error) => Some(NotInDriver::Other(error.to_string())),
    }
}

/// Lanes of an interface: one for each receive queue, unless fewer are asked for.
pub(super) fn lanes(options: &OpenOptions, name: &str) -> usize {
    let all = netdev::queues(name).map_or(1, |queues| queues.rx as usize);
    options.lanes.map_or(all, usize::from)
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
        cpus: &[usize],
        warnings: &mut Vec<String>,
    ) -> anyhow::Result<Sources> {
        let Opening { options, notes, .. } = self.opening;
        self.check_direction()?;
        let stamps = match (options.has_stamps, options.hardware_time) {
            (false, _) => Stamps::Off,
            (true, true) if self.stamps_by_hardware(warnings) => Stamps::Hardware,
            (true, _) => Stamps::On,
        };
        if options.waiting == Some(Waiting::BusyPoll) {
            self.ready_busy_poll(warnings);
        }
        let opened = open(&AfXdpConfig {
            interface: self.name.to_owned(),
            interface_id: self.interface_id,
            lanes: options.lanes,
            threads: usize::from(options.threads),
            memory_bytes: options.kernel_ring_bytes,
            snaplen_bytes: options.snaplen_bytes,
            promiscuous: options.promiscuous,
            filter: self.filter.clone().map(|program| (program, options.filter.clone())),
            stamps,
            waiting: self.waiting(cpus),
        })?;
        opened.notes.into_iter().for_each(|note| notes(Note::Backend(note)));
        let (interface, way) = (self.name.to_owned(), opened.way);
        notes(Note::Way { interface, backend: self.backend, way });
        warnings.extend(merge_warning(self.name));
        let with_handles = |source: AfXdpSource| {
            // Without a descriptor left the run goes on; only its end after a crash knows less.
            let handles = source.kernel_side().ok();
            (Box::new(source) as Box<dyn Source>, handles)
        };
        Ok(opened.sources.into_iter().map(with_handles).collect())
    }

    /// Refuses what nothing inside a driver sees.
    pub(super) fn check_direction(&self) -> anyhow::Result<()> {
        if self.direction == CaptureDirection::Both {
            return Err(Refused::ReceivedOnly { backend: self.backend }.into());
        }
        Ok(())
    }

    /// What workers on `cpus` do while no frame is there.
    pub(super) fn waiting(&self, cpus: &[usize]) -> Waiting {
        self.opening.options.waiting.unwrap_or_else(|| match has_own_cpus(self.name, cpus) {
            true => Waiting::Spin,
            false => Waiting::Sleep,
        })
    }

    /// Has the queues' interrupts wait while they are polled by the workers: without that busy
    /// polling brings little.
    fn ready_busy_poll(&self, warnings: &mut Vec<String>) {
        for queue in 0..lanes(self.opening.options, self.name) as u32 {
            let wish = Wish::Napi {
                queue,
                defer_hard_irqs: DEFER_HARD_IRQS,
                gro_flush_timeout_ns: GRO_FLUSH_TIMEOUT_NS,
                irq_suspend_timeout_ns: 0,
            };
            let request = Request::Interface { interface: self.name.to_owned(), wish };
            if let Err(error) = self.opening.knobs.turn(&request) {
                warnings.push(format!("queue {queue}: {error:#}; busy polling may bring little"));
            }
        }
    }
}

/// The backend that is chosen for an Ethernet or IP interface. Says why where frames are taken away
/// from the host, else if asked to.
pub(super) fn choose_auto(
    opening: Opening<'_>,
    name: &str,
    link_type: LinkType,
) -> &'static Description {
    if link_type != LinkType::ETHERNET {
        return &AF_PACKET;
    }
    let interface = name.to_owned();
    match reason_against(opening.options, name) {
        None => {
            (opening.notes)(Note::InDriver { interface });
            &AF_XDP
        }
        Some(reason) => {
            if opening.options.explains {
                (opening.notes)(Note::NotInDriver { interface, reason });
            }
            &AF_PACKET
        }
    }
}
