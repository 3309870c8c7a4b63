//! Names of devices that are ours.

use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// What such a name begins with.
pub(crate) const PREFIX: &str = "ringside:";

/// What is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Device {
    /// The ring that a capture shares at a socket: `ringside:SOCKET`, a path with a slash.
    Shared(PathBuf),
    /// An interface, by a capture that is started for it: `ringside:BACKEND:INTERFACE`.
    Live { backend: String, interface: String },
}

impl Device {
    /// The device of that name; none if it is libpcap's.
    pub(crate) fn named(name: &CStr) -> Option<Result<Device, String>> {
        let name = name.to_bytes().strip_prefix(PREFIX.as_bytes())?;
        if name.contains(&b'/') {
            return Some(Ok(Device::Shared(PathBuf::from(OsStr::from_bytes(name)))));
        }
        let text = String::from_utf8_lossy(name);
        let parts = text.split_once(':').filter(|(backend, interface)| {
            let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
            // Neither may be taken for an option of the program that is started.
            let is_backend = backend.starts_with(|first: char| first.is_ascii_alphabetic());
            is_backend && backend.bytes().all(is_word) && is_interface(interface)
        });
        Some(parts.map_or_else(
            || {
                Err(format!(
                    "'{PREFIX}{text}' is no device: give the socket of a capture with --share, as \
                     {PREFIX}/run/eth1.share, or a backend and an interface, as \
                     {PREFIX}af-packet:eth1"
                ))
            },
            |(backend, interface)| {
                Ok(Device::Live { backend: backend.into(), interface: interface.into() })
            },
        ))
    }
}

fn is_interface(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_socket_or_a_backend_with_an_interface_or_libpcaps() {
        let live = |backend: &str, interface: &str| {
            Some(Ok(Device::Live { backend: backend.into(), interface: interface.into() }))
        };
        assert_eq!(Device::named(c"eth1"), None);
        assert_eq!(Device::named(c"ringside"), None);
        let shared = |path: &str| Some(Ok(Device::Shared(path.into())));
        assert_eq!(Device::named(c"ringside:/run/a:b.share"), shared("/run/a:b.share"));
        assert_eq!(Device::named(c"ringside:./x"), shared("./x"));
        assert_eq!(Device::named(c"ringside:af-packet:eth1"), live("af-packet", "eth1"));
        let named = c"ringside:dpdk:net_af_packet0,iface=eth1";
        assert_eq!(Device::named(named), live("dpdk", "net_af_packet0,iface=eth1"));
        for wrong in [
            c"ringside:",
            c"ringside:eth1",
            c"ringside::eth1",
            c"ringside:af-packet:",
            c"ringside:-w:eth1",
            c"ringside:pcap:--share",
            c"ringside:\xff:eth1",
        ] {
            let refused = Device::named(wrong);
            assert!(
                matches!(&refused, Some(Err(why)) if why.contains("af-packet:eth1")),
                "{wrong:?}"
            );
        }
    }
}
