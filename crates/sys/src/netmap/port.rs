//! What the name of a port means.

use super::request::RingChoice;

/// In front of the names of netmap's ports.
pub const PREFIX: &str = "netmap:";

/// What the names of a switch's ports begin with.
const SWITCH: &str = "vale";

/// A port, and which of its rings are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its name for the kernel.
    pub name: String,
    /// Which of its rings.
    pub rings: Rings,
}

/// Rings of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rings {
    /// All of the card's.
    Card,
    /// All of the host's.
    Host,
    /// One.
    One(RingChoice),
}

impl Port {
    /// That of a name as people write it, with or without the prefix.
    pub fn named(name: &str) -> Port {
        let name = name.strip_prefix(PREFIX).unwrap_or(name);
        let (port, rings) = if name.starts_with(SWITCH) {
            (name, Rings::Card)
        } else if let Some((port, ring)) = name.rsplit_once('^') {
            let one = ring.parse().map(|ring| Rings::One(RingChoice::Host(ring)));
            (port, one.unwrap_or(Rings::Host))
        } else {
            // A hyphen is also a part of names.
            let one = name.rsplit_once('-').and_then(|(port, ring)| {
                Some((port, Rings::One(RingChoice::Card(ring.parse().ok()?))))
            });
            one.unwrap_or((name, Rings::Card))
        };
        Port { name: port.to_owned(), rings }
    }

    /// That of its rings which is the one named, or number `index`.
    pub fn ring(&self, index: u16) -> RingChoice {
        match self.rings {
            Rings::Card => RingChoice::Card(index),
            Rings::Host => RingChoice::Host(index),
            Rings::One(one) => one,
        }
    }

    /// The interface of the kernel's that it is; `None` of a switch's port and of a pipe.
    pub fn interface(&self) -> Option<&str> {
        let is_other = self.name.starts_with(SWITCH) || self.name.contains(['{', '}']);
        (!is_other).then_some(&self.name)
    }
}

/// The name by which the kernel knows what people name as a port of netmap's; any other name as it
/// is.
pub fn kernel_name(name: &str) -> String {
    let port = name.starts_with(PREFIX).then(|| Port::named(name));
    port.as_ref().and_then(Port::interface).unwrap_or(name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_netmaps_tools() {
        let of = |name: &str| {
            let port = Port::named(name);
            (port.interface().is_some(), port.rings, port.name)
        };
        let one = |ring| Rings::One(RingChoice::Card(ring));
        assert_eq!(of("netmap:eth1"), (true, Rings::Card, "eth1".into()));
        assert_eq!(of("netmap:eth1-3"), (true, one(3), "eth1".into()));
        assert_eq!(of("netmap:veth-a"), (true, Rings::Card, "veth-a".into()));
        assert_eq!(of("netmap:eth1^"), (true, Rings::Host, "eth1".into()));
        assert_eq!(of("eth1^1"), (true, Rings::One(RingChoice::Host(1)), "eth1".into()));
        assert_eq!(of("netmap:vale0:1"), (false, Rings::Card, "vale0:1".into()));
        assert_eq!(of("netmap:eth1{2"), (false, Rings::Card, "eth1{2".into()));
        assert_eq!(of("netmap:eth1}2-0"), (false, one(0), "eth1}2".into()));
        assert_eq!(kernel_name("netmap:eth1-3"), "eth1");
        assert_eq!(kernel_name("netmap:vale0:1"), "netmap:vale0:1");
        assert_eq!(kernel_name("eth1-3"), "eth1-3");
    }
}
