//! Settings of an interface: read, written, and compared with what they were.

use anyhow::{Context, bail};
use ringside_ebpf::take_program_off;
use ringside_netdev::{
    self as netdev, Channels, FLOW_TYPES, FlowFields, Napi, NapiSettings, NetDevice, Rss,
    StampSettings, Table,
};
use ringside_sys::netns::Namespace;
use serde::{Deserialize, Serialize};

/// Features that may be asked for: those of receiving, which have no part in who may do what.
const FEATURES: &str = "rx-";

/// What is to be turned of an interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "wish", rename_all = "snake_case")]
pub enum SettingRequest {
    /// The interface's own stamp on every frame that it receives.
    Stamps,
    /// The number of receive queues.
    Queues {
        /// Number of queues.
        count: u32,
    },
    /// The number of descriptors in each receive ring.
    ReceiveRing {
        /// Descriptors of each ring.
        descriptors: u32,
    },
    /// Both directions of a flow in one queue.
    SymmetricRss,
    /// All queues get the same share.
    EvenRss,
    /// A feature of receiving, by the kernel's name (`rx-gro`).
    Feature {
        /// The kernel's name of the feature.
        feature: String,
        /// On or off.
        on: bool,
    },
    /// How the NAPI of a receive queue waits.
    Napi {
        /// The queue.
        queue: u32,
        /// Empty polls before the interrupt is enabled.
        defer_hard_irqs: u32,
        /// Nanoseconds until it is polled again.
        gro_flush_timeout_ns: u64,
        /// Nanoseconds for which a program that busy-polls keeps the interrupt off.
        irq_suspend_timeout_ns: u64,
    },
    /// A kernel thread polls, for every receive queue.
    ThreadedNapi {
        /// Or a softirq.
        on: bool,
    },
    /// The XDP programs that another library has just put on the interface, where there was none.
    /// They stay, until they are put back to none.
    XdpPrograms,
}

/// A setting with its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "setting", rename_all = "snake_case")]
pub enum Setting {
    /// Hardware stamps (SIOCSHWTSTAMP): flags, transmit, receive.
    Stamps {
        /// The three words.
        words: [u32; 3],
    },
    /// Queues that receive: those that only receive, and those that send too.
    Queues {
        /// Only receive.
        rx: u32,
        /// Send too.
        combined: u32,
    },
    /// Descriptors of each receive ring.
    ReceiveRing {
        /// Descriptors of each ring.
        descriptors: u32,
    },
    /// Receive side scaling.
    Rss {
        /// ETH_RSS_HASH_ bits.
        function: u8,
        /// RXH_XFRM_ bits.
        transform: u8,
        /// Key of the hash function.
        key: Vec<u8>,
        /// Queue by hash.
        table: Vec<u32>,
        /// The table is the driver's own.
        is_default: bool,
    },
    /// Hashed fields of one kind of traffic.
    Fields {
        /// Kind of traffic, as `TCP_V4_FLOW`.
        flow_type: u32,
        /// RXH_ bits.
        fields: u64,
    },
    /// A feature.
    Feature {
        /// The kernel's name of the feature.
        feature: String,
        /// On or off.
        on: bool,
    },
    /// How a NAPI waits.
    Napi {
        /// Id of the NAPI.
        id: u32,
        /// Empty polls.
        defer_hard_irqs: u32,
        /// Nanoseconds until it is polled again.
        gro_flush_timeout_ns: u64,
        /// Nanoseconds for which a program that busy-polls keeps the interrupt off.
        irq_suspend_timeout_ns: u64,
        /// By a thread.
        threaded: Option<bool>,
    },
    /// XDP programs.
    XdpPrograms {
        /// Their ids, in ascending order.
        ids: Vec<u32>,
    },
}

/// An interface as it was when a knob was planned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Its name.
    pub interface: String,
    /// Its index, which no later interface of the namespace has.
    pub ifindex: u32,
    /// Identity of its network namespace.
    pub namespace: u64,
}

impl Target {
    /// The interface of this name in `namespace`.
    ///
    /// # Errors
    /// There is none.
    pub fn of(interface: &str, namespace: &Namespace) -> anyhow::Result<Target> {
        let device = within(namespace, || netdev::by_name(interface))??;
        let Some(NetDevice { ifindex, .. }) = device else {
            bail!("there is no interface {interface}");
        };
        Ok(Target { interface: interface.to_owned(), ifindex, namespace: namespace.identity()? })
    }

    /// Runs `work` in the interface's namespace, with its present name; `None` if it is gone, or
    /// the namespace is.
    ///
    /// # Errors
    /// The system refused.
    pub fn inside<T: Send>(
        &self,
        work: impl FnOnce(&str) -> anyhow::Result<T> + Send,
    ) -> anyhow::Result<Option<T>> {
        let Some(namespace) = Namespace::find(self.namespace) else { return Ok(None) };
        within(&namespace, || {
            let devices = netdev::list()?;
            let device = devices.into_iter().find(|device| device.ifindex == self.ifindex);
            device.map(|device| work(&device.name)).transpose()
        })?
    }
}

impl SettingRequest {
    /// For each setting that has to change: its value, and the one that it gets. To be called in
    /// the interface's namespace.
    ///
    /// # Errors
    /// What is there cannot be read, or the interface cannot do that.
    pub fn plan(&self, name: &str) -> anyhow::Result<Vec<(Setting, Setting)>> {
        let pairs = match self {
            SettingRequest::Stamps => vec![plan_stamps(name)?],
            SettingRequest::Queues { count } => vec![plan_queues(name, *count)?],
            SettingRequest::ReceiveRing { descriptors } => vec![plan_ring(name, *descriptors)?],
            SettingRequest::SymmetricRss => plan_symmetric(name)?,
            SettingRequest::EvenRss => vec![plan_even(name)?],
            SettingRequest::Feature { feature, on } => vec![plan_feature(name, feature, *on)?],
            SettingRequest::Napi { queue, .. } => {
                vec![self.plan_napi(&napi_of_queue(name, *queue)?)?]
            }
            SettingRequest::ThreadedNapi { .. } => {
                let napis = napis(name)?;
                napis.iter().map(|napi| self.plan_napi(napi)).collect::<Result<_, _>>()?
            }
            SettingRequest::XdpPrograms => {
                let none = Setting::XdpPrograms { ids: Vec::new() };
                let now = none.now(name)?;
                vec![(none, now)]
            }
        };
        Ok(pairs.into_iter().filter(|(before, after)| before != after).collect())
    }

    fn plan_napi(&self, napi: &Napi) -> anyhow::Result<(Setting, Setting)> {
        let settings = napi.settings.context("this kernel has no settings for one NAPI (6.13)")?;
        let after = match *self {
            SettingRequest::Napi {
                defer_hard_irqs,
                gro_flush_timeout_ns,
                irq_suspend_timeout_ns,
                ..
            } => NapiSettings {
                defer_hard_irqs,
                gro_flush_timeout_ns,
                irq_suspend_timeout_ns,
                ..settings
            },
            SettingRequest::ThreadedNapi { on } if settings.threaded.is_some() => {
                NapiSettings { threaded: Some(on), ..settings }
            }
            _ => bail!("this kernel cannot make one NAPI threaded by netlink (6.17)"),
        };
        Ok((Setting::of_napi(napi.id, settings), Setting::of_napi(napi.id, after)))
    }
}

impl Setting {
    /// The same setting as it is now.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn now(&self, name: &str) -> anyhow::Result<Setting> {
        Ok(match self {
            Setting::Stamps { .. } => stamps(netdev::stamp_settings(name)?),
            Setting::Queues { .. } => queues(netdev::channels(name)?),
            Setting::ReceiveRing { .. } => {
                Setting::ReceiveRing { descriptors: netdev::ring_sizes(name)?.rx }
            }
            Setting::Rss { .. } => rss(name)?,
            Setting::Fields { flow_type, .. } => fields(netdev::flow_fields(name, *flow_type)?),
            Setting::Feature { feature, .. } => {
                let on = netdev::features(name)?.active.contains(feature);
                Setting::Feature { feature: feature.clone(), on }
            }
            Setting::Napi { id, .. } => {
                let napi = napis(name)?.into_iter().find(|napi| napi.id == *id);
                let settings = napi.and_then(|napi| napi.settings);
                Setting::of_napi(*id, settings.with_context(|| format!("NAPI {id} is gone"))?)
            }
            Setting::XdpPrograms { .. } => Setting::XdpPrograms { ids: device(name)?.xdp_programs },
        })
    }

    /// Sets it so.
    ///
    /// # Errors
    /// The system refused.
    pub fn write(&self, name: &str) -> anyhow::Result<()> {
        match self {
            Setting::Stamps { words: [flags, transmit, receive] } => {
                let (flags, transmit, receive) = (*flags, *transmit, *receive);
                netdev::set_stamp_settings(name, StampSettings { flags, transmit, receive })?;
            }
            Setting::Queues { rx, combined } => {
                let channels = netdev::channels(name)?;
                let wanted = Channels { rx: *rx, combined: *combined, ..channels };
                netdev::set_channels(name, wanted)?;
            }
            Setting::ReceiveRing { descriptors } => netdev::set_receive_ring(name, *descriptors)?,
            Setting::Rss { function, transform, key, table, is_default } => {
                // Drivers refuse a request for what they cannot change, also if it is so already.
                let now = netdev::rss(name)?;
                let key = if now.key == *key { Vec::new() } else { key.clone() };
                let function = if now.function == *function { 0 } else { *function };
                let wanted = Rss { function, transform: *transform, key, table: table.clone() };
                let table = match (is_default, &table[..]) {
                    (_, []) => Table::Keep,
                    (true, _) => Table::Default,
                    (false, table) => Table::Set(table.to_vec()),
                };
                netdev::set_rss(name, &wanted, &table)?;
            }
            Setting::Fields { flow_type, fields } => {
                let wanted = FlowFields { flow_type: *flow_type, fields: *fields };
                netdev::set_flow_fields(name, wanted)?;
            }
            Setting::Feature { feature, on } => netdev::set_feature(name, feature, *on)?,
            Setting::Napi {
                id,
                defer_hard_irqs,
                gro_flush_timeout_ns,
                irq_suspend_timeout_ns,
                threaded,
            } => netdev::set_napi(
                *id,
                NapiSettings {
                    defer_hard_irqs: *defer_hard_irqs,
                    gro_flush_timeout_ns: *gro_flush_timeout_ns,
                    irq_suspend_timeout_ns: *irq_suspend_timeout_ns,
                    threaded: *threaded,
                },
            )?,
            Setting::XdpPrograms { ids } => {
                let NetDevice { ifindex, xdp_programs, .. } = device(name)?;
                let mut others = xdp_programs.into_iter().filter(|id| !ids.contains(id));
                others.try_for_each(|id| take_program_off(ifindex, id))?;
            }
        }
        Ok(())
    }

    /// For messages.
    pub fn name(&self) -> String {
        match self {
            Setting::Stamps { .. } => "hardware time stamps".into(),
            Setting::Queues { .. } => "receive queues".into(),
            Setting::ReceiveRing { .. } => "receive ring".into(),
            Setting::Rss { .. } => "RSS key and table".into(),
            Setting::Fields { flow_type, .. } => {
                let known = FLOW_TYPES.iter().find(|(number, _)| number == flow_type);
                format!("hashed fields of {}", known.map_or("unknown traffic", |(_, name)| name))
            }
            Setting::Feature { feature, .. } => feature.clone(),
            Setting::Napi { id, .. } => format!("NAPI {id}"),
            Setting::XdpPrograms { .. } => "XDP program".into(),
        }
    }

    fn of_napi(id: u32, settings: NapiSettings) -> Setting {
        Setting::Napi {
            id,
            defer_hard_irqs: settings.defer_hard_irqs,
            gro_flush_timeout_ns: settings.gro_flush_timeout_ns,
            irq_suspend_timeout_ns: settings.irq_suspend_timeout_ns,
            threaded: settings.threaded,
        }
    }
}

fn plan_stamps(name: &str) -> anyhow::Result<(Setting, Setting)> {
    let capability = netdev::stamp_capability(name)?;
    if !(capability.receive_hardware && capability.every_frame) {
        bail!("interface {name} cannot stamp every received frame itself");
    }
    let before = netdev::stamp_settings(name)?;
    Ok((stamps(before), stamps(before.every_frame())))
}

fn plan_queues(name: &str, count: u32) -> anyhow::Result<(Setting, Setting)> {
    let channels = netdev::channels(name)?;
    let most = channels.receiving_max();
    if count == 0 || count > most {
        bail!("{count} queues are asked for, interface {name} can have 1 to {most}");
    }
    // What adds up already stays as the driver has it.
    let same = channels.receiving() == count;
    let wanted = if same { channels } else { channels.with_receiving(count) };
    Ok((queues(channels), queues(wanted)))
}

fn plan_ring(name: &str, descriptors: u32) -> anyhow::Result<(Setting, Setting)> {
    let sizes = netdev::ring_sizes(name)?;
    if descriptors == 0 || descriptors > sizes.rx_max {
        let most = sizes.rx_max;
        bail!("{descriptors} descriptors are asked for, interface {name} can have 1 to {most}");
    }
    Ok((Setting::ReceiveRing { descriptors: sizes.rx }, Setting::ReceiveRing { descriptors }))
}

fn plan_symmetric(name: &str) -> anyhow::Result<Vec<(Setting, Setting)>> {
    if netdev::queues(name).is_ok_and(|queues| queues.rx == 1) {
        // Whatever the hash, there is one queue.
        return Ok(Vec::new());
    }
    let current = netdev::rss(name)
        .with_context(|| format!("interface {name} has no RSS that can be set"))?;
    // Drivers want the fields of both directions before they take a symmetric transformation.
    let known = FLOW_TYPES.iter().filter_map(|(kind, _)| netdev::flow_fields(name, *kind).ok());
    let mut pairs: Vec<_> =
        known.map(|before| (fields(before), fields(before.of_both_directions()))).collect();
    if !current.is_symmetric() {
        let before = rss(name)?;
        let wanted = current.symmetric();
        let after = match &before {
            Setting::Rss { table, is_default, .. } => Setting::Rss {
                function: wanted.function,
                transform: wanted.transform,
                key: wanted.key,
                table: table.clone(),
                is_default: *is_default,
            },
            other => other.clone(),
        };
        pairs.push((before, after));
    }
    Ok(pairs)
}

fn plan_even(name: &str) -> anyhow::Result<(Setting, Setting)> {
    let before =
        rss(name).with_context(|| format!("interface {name} has no RSS that can be set"))?;
    let queues = netdev::channels(name)?.receiving();
    let after = match before.clone() {
        Setting::Rss { function, transform, key, table, .. } => {
            let table = Rss { table, ..Rss::default() }.even_table(queues);
            Setting::Rss { function, transform, key, table, is_default: true }
        }
        other => other,
    };
    Ok((before, after))
}

fn plan_feature(name: &str, feature: &str, on: bool) -> anyhow::Result<(Setting, Setting)> {
    if !feature.starts_with(FEATURES) {
        bail!("{feature} is no feature of receiving");
    }
    let features = netdev::features(name)?;
    let is_on = features.active.contains(feature);
    if is_on != on && !features.changeable.contains(feature) {
        bail!("interface {name} cannot turn {feature} {}", if on { "on" } else { "off" });
    }
    let setting = |on| Setting::Feature { feature: feature.to_owned(), on };
    Ok((setting(is_on), setting(on)))
}

fn stamps(StampSettings { flags, transmit, receive }: StampSettings) -> Setting {
    Setting::Stamps { words: [flags, transmit, receive] }
}

fn queues(channels: Channels) -> Setting {
    Setting::Queues { rx: channels.rx, combined: channels.combined }
}

fn fields(FlowFields { flow_type, fields }: FlowFields) -> Setting {
    Setting::Fields { flow_type, fields }
}

fn rss(name: &str) -> anyhow::Result<Setting> {
    let rss = netdev::rss(name)?;
    let queues = netdev::channels(name)?.receiving();
    let is_default = rss.table == rss.even_table(queues);
    let Rss { function, transform, key, table } = rss;
    Ok(Setting::Rss { function, transform, key, table, is_default })
}

fn device(name: &str) -> anyhow::Result<NetDevice> {
    netdev::by_name(name)?.with_context(|| format!("interface {name} is gone"))
}

fn napis(name: &str) -> anyhow::Result<Vec<Napi>> {
    Ok(netdev::napis(device(name)?.ifindex)?)
}

fn napi_of_queue(name: &str, queue: u32) -> anyhow::Result<Napi> {
    let device = device(name)?;
    let queues = netdev::polled_queues(&device)?;
    let id = queues.iter().find(|polled| polled.queue == queue).and_then(|polled| polled.napi);
    let napi = netdev::napis(device.ifindex)?.into_iter().find(|napi| Some(napi.id) == id);
    napi.with_context(|| {
        format!("the kernel does not say which NAPI polls queue {queue} of {name}")
    })
}

/// Runs `work` in a network namespace, on a thread of its own: this one stays where it is.
fn within<T: Send>(namespace: &Namespace, work: impl FnOnce() -> T + Send) -> anyhow::Result<T> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // To enter one's own takes a privilege that who may turn the knob need not have.
            if Namespace::current()?.identity()? != namespace.identity()? {
                namespace.enter()?;
            }
            Ok::<T, ringside_sys::SysError>(work())
        });
        let result = thread.join().map_err(|_| anyhow::anyhow!("a thread of the knobs died"))?;
        Ok(result?)
    })
}

/// Runs `work` in `namespace` with anyhow's errors joined.
///
/// # Errors
/// Those of `work`, or the namespace cannot be entered.
pub fn in_namespace<T: Send>(
    namespace: &Namespace,
    work: impl FnOnce() -> anyhow::Result<T> + Send,
) -> anyhow::Result<T> {
    within(namespace, work)?
}

#[cfg(test)]
mod tests;
