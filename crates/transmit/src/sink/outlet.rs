//! The interface that a sink sends on, and what its refusals mean.

use super::{SinkConfig, SinkKind};
use crate::{Error, FRAME_BYTES_MIN};
use ringside_core::{ChecksumRequest, Refusal, SinkError};
use ringside_sys::SysError;
use ringside_sys::netdev::{self, NetDevice, Watch};
use ringside_sys::packet::InterfaceEvent;
use std::io;

/// ARPHRD_ETHER of linux/if_arp.h.
pub const ETHERNET: u16 = 1;
/// ARPHRD_LOOPBACK: frames as Ethernet's.
const LOOPBACK: u16 = 772;

const HEADER_BYTES: usize = 14;
/// A VLAN tag may come on top of the MTU.
const TAG_BYTES: usize = 4;
/// TPID of 802.1Q: packet sockets let frames with this tag alone be longer
/// (packet_extra_vlan_len_allowed of net/packet/af_packet.c).
const TAG: [u8; 2] = [0x81, 0x00];

/// asm-generic/errno.h; std has no kinds for them.
pub const ENOBUFS: i32 = 105;
const ENXIO: i32 = 6;
const ENODEV: i32 = 19;
const EMSGSIZE: i32 = 90;
pub const ENETDOWN: i32 = 100;

/// The interface of an open sink.
pub struct Outlet {
    pub name: String,
    pub ifindex: u32,
    /// There is an XDP program on it.
    pub has_program: bool,
    mtu_bytes: usize,
    watch: Watch,
    kind: SinkKind,
    /// The sink was drained.
    pub has_ended: bool,
}

impl Outlet {
    /// The interface called `name`, which is up.
    pub fn find(name: &str) -> Result<NetDevice, Error> {
        let Some(device) = netdev::by_name(name)? else {
            let namespace = "this network namespace".to_owned();
            return Err(Error::NoInterface { interface: name.to_owned(), namespace });
        };
        if !device.is_up() {
            return Err(Error::Down { interface: name.to_owned() });
        }
        Ok(device)
    }

    pub fn open(config: &SinkConfig, kind: SinkKind) -> Result<Outlet, Error> {
        let device = Outlet::find(&config.interface)?;
        let is_ethernet = [ETHERNET, LOOPBACK].contains(&device.hardware_type);
        if !is_ethernet && kind != SinkKind::Pcap {
            let NetDevice { name: interface, hardware_type, .. } = device;
            return Err(Error::NotEthernet { interface, hardware_type, sink: kind.name() });
        }
        Ok(Outlet {
            watch: Watch::new(device.ifindex)?,
            name: device.name,
            ifindex: device.ifindex,
            has_program: !device.xdp_programs.is_empty(),
            mtu_bytes: device.mtu_bytes as usize,
            kind,
            has_ended: false,
        })
    }

    /// Longest frame, with a tag.
    pub fn frame_bytes_max(&self) -> usize {
        self.mtu_bytes + HEADER_BYTES + TAG_BYTES
    }

    /// Refuses what is no frame for this interface.
    #[inline]
    pub fn check(
        &self,
        bytes: usize,
        checksum: Option<ChecksumRequest>,
        has_checksums: bool,
    ) -> Result<(), SinkError> {
        if self.has_ended {
            return Err(SinkError::Ended { name: self.name.clone() });
        }
        if checksum.is_some() && !has_checksums {
            return Err(SinkError::lacks(self.kind.name(), "checksum requests"));
        }
        let limits = usize::from(FRAME_BYTES_MIN)..=self.frame_bytes_max();
        if limits.contains(&bytes) { Ok(()) } else { Err(too_long(bytes, self.frame_bytes_max())) }
    }

    /// True if the interface takes a frame of this length and these bytes, by its MTU.
    #[inline]
    pub fn is_short_enough(&self, frame: &[u8]) -> bool {
        let whole = self.mtu_bytes + HEADER_BYTES;
        frame.len() <= whole || frame.len() <= whole + TAG_BYTES && frame.get(12..14) == Some(&TAG)
    }

    /// Why the system refused a frame.
    pub fn refusal(error: &io::Error) -> Refusal {
        match error.raw_os_error() {
            Some(ENOBUFS) => Refusal::NoRoom,
            Some(EMSGSIZE) => Refusal::TooLong,
            Some(ENETDOWN | ENXIO | ENODEV) => Refusal::InterfaceGone,
            _ => Refusal::Other,
        }
    }

    /// The error of a sink whose system call failed.
    pub fn failed(&self, source: io::Error) -> SinkError {
        let name = self.name.clone();
        let event = match self.watch.is_up() {
            Ok(None) => Some(InterfaceEvent::Removed),
            Ok(Some(false)) => Some(InterfaceEvent::SetDown),
            Ok(Some(true)) | Err(_) => None,
        };
        if let (Refusal::InterfaceGone, Some(event)) = (Outlet::refusal(&source), event) {
            return SinkError::InterfaceGone { name, event: event.to_string() };
        }
        SinkError::Io { context: format!("sending on interface {name} by {}", self.kind), source }
    }
}

fn too_long(bytes: usize, bytes_max: usize) -> SinkError {
    let limit = format!("{FRAME_BYTES_MIN} to {bytes_max}, by the interface's MTU");
    SinkError::Limit { what: "the bytes of a frame", value: bytes as u64, limit }
}

/// What a layer below refused.
pub fn refused(error: SysError) -> SinkError {
    match error {
        SysError::Limit { what, value, limit } => SinkError::Limit { what, value, limit },
        SysError::Io { context, source } => SinkError::Io { context, source },
        other => SinkError::Io {
            context: "transmit sink".to_owned(),
            source: io::Error::other(other.to_string()),
        },
    }
}
