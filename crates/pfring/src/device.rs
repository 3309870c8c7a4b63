//! What the name of a device means.

/// In front of the names of devices that PF_RING receives from.
pub const PREFIX: &str = "pf-ring:";

/// What stands in front of a device that a driver of PF_RING's own gives to programs.
const ZERO_COPY: &str = "zc:";

/// A device, as PF_RING names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// As `eth1`, `zc:eth1` or `eth1@3`.
    pub name: String,
}

impl Device {
    /// That of a name as people write it, with or without the prefix.
    pub fn named(name: &str) -> Device {
        Device { name: name.strip_prefix(PREFIX).unwrap_or(name).to_owned() }
    }

    /// A driver of PF_RING's own gives it to programs, past the kernel.
    pub fn is_zero_copy(&self) -> bool {
        self.name.starts_with(ZERO_COPY)
    }

    /// The interface of the kernel's that it is; `None` of a file, or of what else the library
    /// knows by a word of its own.
    pub fn interface(&self) -> Option<&str> {
        let name = self.name.strip_prefix(ZERO_COPY).unwrap_or(&self.name);
        let name = name.split('@').next().unwrap_or(name);
        // Several interfaces in one ring are not watched.
        (!name.contains([':', ',', ';'])).then_some(name)
    }

    /// One of its channels was named.
    pub fn has_channel(&self) -> bool {
        self.name.contains('@')
    }

    /// One of its channels, which are its receive queues.
    pub fn channel(&self, channel: u16) -> Device {
        Device { name: format!("{}@{channel}", self.name) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_pf_ring() {
        let of = |name: &str| {
            let device = Device::named(name);
            let interface = device.interface().map(ToOwned::to_owned);
            (interface, device.is_zero_copy(), device.has_channel(), device.name)
        };
        let some = |name: &str| Some(name.to_owned());
        assert_eq!(of("eth1"), (some("eth1"), false, false, "eth1".into()));
        assert_eq!(of("pf-ring:eth1@3"), (some("eth1"), false, true, "eth1@3".into()));
        assert_eq!(of("pf-ring:zc:eth1"), (some("eth1"), true, false, "zc:eth1".into()));
        assert_eq!(of("pf-ring:pcap:a.pcap").0, None);
        assert_eq!(Device::named("zc:eth1").channel(2).name, "zc:eth1@2");
    }
}
