//! The interface that a sink sends on, and what its refusals mean.

use super::{SinkConfig, SinkKind};
use crate::interface::{self, SizeLimit};
use crate::{Error, FRAME_BYTES_MIN};
use ringside_core::{ChecksumRequest, Refusal, SinkError};
use ringside_netdev::{NetDevice, Watch};
use ringside_sys::SysError;
use ringside_sys::packet::InterfaceEvent;
use std::io;

/// The interface of an open sink.
pub struct Outlet {
    pub name: String,
    pub ifindex: u32,
    /// There is an XDP program on it.
    pub has_program: bool,
    limit: SizeLimit,
    /// None of a port that is no interface of the kernel's.
    watch: Option<Watch>,
    kind: SinkKind,
    /// The sink was drained.
    pub has_ended: bool,
}

impl Outlet {
    pub fn open(config: &SinkConfig, kind: SinkKind) -> Result<Outlet, Error> {
        let device = interface::find(&config.interface)?;
        if kind != SinkKind::Pcap {
            interface::check_ethernet(&device, kind.name())?;
        }
        Outlet::of(device, kind)
    }

    /// An interface whose frames begin in whatever way.
    pub fn of(device: NetDevice, kind: SinkKind) -> Result<Outlet, Error> {
        Ok(Outlet {
            watch: Some(Watch::new(device.ifindex)?),
            name: device.name,
            ifindex: device.ifindex,
            has_program: !device.xdp_programs.is_empty(),
            limit: SizeLimit { mtu_bytes: device.mtu_bytes as usize },
            kind,
            has_ended: false,
        })
    }

    /// A port that the kernel's network does not know, for frames of `frame_bytes_max` at most.
    pub fn apart(name: &str, kind: SinkKind, frame_bytes_max: usize) -> Outlet {
        Outlet {
            watch: None,
            name: name.to_owned(),
            ifindex: 0,
            has_program: false,
            limit: SizeLimit::of_frames(frame_bytes_max),
            kind,
            has_ended: false,
        }
    }

    /// The same, for frames of `frame_bytes_max` at most.
    pub fn shortened(mut self, frame_bytes_max: usize) -> Outlet {
        let limit = SizeLimit::of_frames(frame_bytes_max);
        self.limit.mtu_bytes = self.limit.mtu_bytes.min(limit.mtu_bytes);
        self
    }

    /// Longest frame, with a tag.
    pub fn frame_bytes_max(&self) -> usize {
        self.limit.frame_bytes_max()
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
        self.limit.excess(frame, frame.len()) == 0
    }

    /// Refuses an interface that was set down or removed.
    pub fn check_up(&self) -> Result<(), SinkError> {
        let event = match self.watch.as_ref().map(Watch::is_up) {
            Some(Ok(None)) => InterfaceEvent::Removed,
            Some(Ok(Some(false))) => InterfaceEvent::SetDown,
            Some(Ok(Some(true)) | Err(_)) | None => return Ok(()),
        };
        Err(SinkError::InterfaceGone { name: self.name.clone(), event: event.to_string() })
    }

    /// The error of a sink whose system call failed.
    pub fn failed(&self, source: io::Error) -> SinkError {
        if let (Refusal::InterfaceGone, Err(gone)) = (interface::refusal(&source), self.check_up())
        {
            return gone;
        }
        let context = format!("sending on interface {} by {}", self.name, self.kind);
        SinkError::Io { context, source }
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
