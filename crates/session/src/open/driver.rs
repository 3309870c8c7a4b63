//! When frames are taken from inside the driver, and what is turned on an interface for a backend.

use super::{OpenOptions, Opening, Plan};
use crate::note::{NotInDriver, Note};
use crate::refused::Refused;
use ringside_capture::backend::af_xdp::Waiting;
use ringside_capture::backend::{AF_PACKET, AF_XDP, Description, netmap, pf_ring, stripped_tags};
use ringside_core::LinkType;
use ringside_keeper::{Request, SettingRequest};
use ringside_netdev::{self as netdev, PolledQueue};
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
    /// What workers on `cpus` do while no frame is there.
    pub(super) fn waiting(&self, cpus: &[usize]) -> Waiting {
        let asked = self.opening.options.waiting;
        asked.unwrap_or_else(|| match self.is_by_queue() && has_own_cpus(self.name, cpus) {
            true => Waiting::Spin,
            false => Waiting::Sleep,
        })
    }

    /// Has the queues' interrupts wait while they are polled by the workers: without that busy
    /// polling brings little.
    pub(super) fn ready_busy_poll(&self, warnings: &mut Vec<Note>) {
        for queue in 0..lanes(self.opening.options, self.name) as u32 {
            let setting = SettingRequest::Napi {
                queue,
                defer_hard_irqs: DEFER_HARD_IRQS,
                gro_flush_timeout_ns: GRO_FLUSH_TIMEOUT_NS,
                irq_suspend_timeout_ns: 0,
            };
            if let Err(error) = self.turn(setting) {
                let text = format!("queue {queue}: {error:#}; busy polling may bring little");
                warnings.push(Note::Warning(text));
            }
        }
    }

    /// Has the driver leave VLAN tags in frames. What is turned off for that is turned on again at
    /// the end.
    pub(super) fn leave_tags_in_frames(&self) -> Result<(), Refused> {
        // What cannot be asked is refused by the opening, with its reason.
        for feature in stripped_tags(self.name).unwrap_or_default() {
            let setting = SettingRequest::Feature { feature: feature.into(), on: false };
            let refused = |error| Refused::Tags { backend: self.backend, error };
            self.turn(setting).map_err(refused)?;
        }
        Ok(())
    }

    /// Has the card stamp frames; false if it does not.
    pub(super) fn stamps_by_card(&self, warnings: &mut Vec<Note>) -> bool {
        let result = self.turn(SettingRequest::Stamps);
        if let Err(error) = &result {
            warnings.push(Note::Warning(format!("{error:#}; frames are stamped by the kernel")));
        }
        result.is_ok()
    }

    /// Has the XDP program taken off at the end that a backend's library has put on.
    pub(super) fn take_program_off_at_end(&self, interface: &str, warnings: &mut Vec<Note>) {
        let setting = SettingRequest::XdpPrograms;
        let request = Request::Interface { interface: interface.to_owned(), setting };
        if let Err(error) = self.opening.knobs.turn(&request) {
            warnings.push(Note::Warning(format!(
                "{error:#}; the XDP program of this run stays on {interface}: afterwards, \
                 `ip link set {interface} xdp off`"
            )));
        }
    }

    fn turn(&self, setting: SettingRequest) -> anyhow::Result<()> {
        self.opening.knobs.turn(&Request::Interface {
            interface: netmap::kernel_name(&pf_ring::kernel_name(self.name)),
            setting,
        })
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
