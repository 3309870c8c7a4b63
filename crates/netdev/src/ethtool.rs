//! What a driver says about itself: SIOCETHTOOL (linux/ethtool.h) and SIOCSHWTSTAMP
//! (Documentation/networking/timestamping.rst).

use ringside_sys::SysError;
use ringside_sys::ethtool::{
    COMMAND_WORDS, ETHTOOL_GCHANNELS, ETHTOOL_GDRVINFO, ETHTOOL_GET_TS_INFO, ETHTOOL_GFLAGS,
    ETHTOOL_GGRO, control_socket, exchange, set_stamp_config, stamp_config,
};
use rustix::net::netdevice::index_to_name;
use std::os::fd::{AsFd, OwnedFd};

pub use ringside_sys::ethtool::is_up_by;

const ETH_FLAG_LRO: u32 = 1 << 15;

const SOF_TIMESTAMPING_RX_HARDWARE: u32 = 1 << 2;

type Command = [u32; COMMAND_WORDS];

/// Offloads that merge received frames before anybody sees them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offloads {
    /// Generic receive offload, in software.
    pub gro: bool,
    /// Large receive offload, by the driver.
    pub lro: bool,
}

/// Queues in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queues {
    /// Receive queues.
    pub rx: u32,
    /// Transmit queues.
    pub tx: u32,
}

/// What an interface can stamp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StampCapability {
    /// Frames can be stamped by the interface on receipt, and the stamp is reported raw.
    pub receive_hardware: bool,
    /// Every received frame, not only those of PTP.
    pub every_frame: bool,
    /// Number of its clock, as in /dev/ptpN.
    pub ptp_clock: Option<u32>,
}

/// The receive offloads of an interface.
///
/// # Errors
/// There is no such interface.
pub fn offloads(name: &str) -> Result<Offloads, SysError> {
    let socket = control_socket()?;
    let gro = ethtool(&socket, name, ETHTOOL_GGRO)?[1] != 0;
    let lro = ethtool(&socket, name, ETHTOOL_GFLAGS)?[1] & ETH_FLAG_LRO != 0;
    Ok(Offloads { gro, lro })
}

/// An interface that is asked for its state again and again, also once privileges are gone, by its
/// index: a new name does not mislead it, nor another interface that gets the old one.
#[derive(Debug)]
pub struct Watch {
    socket: OwnedFd,
    ifindex: u32,
}

impl Watch {
    /// Of the interface with index `ifindex` in the calling thread's network namespace.
    ///
    /// # Errors
    /// Too many open files.
    pub fn new(ifindex: u32) -> Result<Watch, SysError> {
        Ok(Watch { socket: control_socket()?, ifindex })
    }

    /// Whether it is set up; `None` if it is gone.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn is_up(&self) -> Result<Option<bool>, SysError> {
        match index_to_name(&self.socket, self.ifindex) {
            Ok(name) => is_up_by(&self.socket, &name),
            Err(rustix::io::Errno::NODEV) => Ok(None),
            Err(error) => {
                Err(SysError::io(format!("the name of interface {}", self.ifindex), error))
            }
        }
    }
}

/// The driver's name, as `veth`.
///
/// # Errors
/// There is no such interface, or its driver does not say.
pub fn driver(name: &str) -> Result<String, SysError> {
    let answer = ethtool(control_socket()?, name, ETHTOOL_GDRVINFO)?;
    let bytes: Vec<u8> = answer[1..9].iter().flat_map(|word| word.to_ne_bytes()).collect();
    let text = bytes.split(|&byte| byte == 0).next().unwrap_or(&[]);
    Ok(String::from_utf8_lossy(text).into_owned())
}

/// The queues that an interface uses; combined ones count as both.
///
/// # Errors
/// There is no such interface, or its driver does not say.
pub fn queues(name: &str) -> Result<Queues, SysError> {
    // struct ethtool_channels: command, four limits, then rx, tx, other, combined.
    let answer = ethtool(control_socket()?, name, ETHTOOL_GCHANNELS)?;
    let [rx, tx] = [answer[5], answer[6]].map(|queues| queues.saturating_add(answer[8]));
    Ok(Queues { rx, tx })
}

/// What an interface can stamp.
///
/// # Errors
/// There is no such interface.
pub fn stamp_capability(name: &str) -> Result<StampCapability, SysError> {
    // struct ethtool_ts_info: command, capabilities, clock, tx_types, 3 reserved, rx_filters.
    let answer = ethtool(control_socket()?, name, ETHTOOL_GET_TS_INFO)?;
    let needed = SOF_TIMESTAMPING_RX_HARDWARE | libc::SOF_TIMESTAMPING_RAW_HARDWARE;
    Ok(StampCapability {
        receive_hardware: answer[1] & needed == needed,
        every_frame: answer[7] & (1 << libc::HWTSTAMP_FILTER_ALL) != 0,
        ptp_clock: u32::try_from(answer[2] as i32).ok(),
    })
}

/// What an interface stamps by itself (`struct hwtstamp_config`). A setting of the interface, not
/// of a socket: it stays when the process that made it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StampSettings {
    /// Flags.
    pub flags: u32,
    /// Which sent frames, as an HWTSTAMP_TX_ value.
    pub transmit: u32,
    /// Which received frames, as an HWTSTAMP_FILTER_ value.
    pub receive: u32,
}

impl StampSettings {
    /// These, with a stamp on every received frame.
    pub fn every_frame(self) -> StampSettings {
        StampSettings { receive: libc::HWTSTAMP_FILTER_ALL, ..self }
    }
}

/// What an interface is set to stamp.
///
/// # Errors
/// There is no such interface, or it stamps nothing itself.
pub fn stamp_settings(name: &str) -> Result<StampSettings, SysError> {
    let [flags, transmit, receive] = stamp_config(control_socket()?, name)?;
    Ok(StampSettings { flags, transmit, receive })
}

/// Sets what an interface stamps; returns what its driver made of it, which may be more.
///
/// # Errors
/// The interface cannot do that, or CAP_NET_ADMIN is missing.
pub fn set_stamp_settings(name: &str, wanted: StampSettings) -> Result<StampSettings, SysError> {
    let config = [wanted.flags, wanted.transmit, wanted.receive];
    let [flags, transmit, receive] = set_stamp_config(control_socket()?, name, config)?;
    Ok(StampSettings { flags, transmit, receive })
}

fn ethtool(socket: impl AsFd, name: &str, command: u32) -> Result<Command, SysError> {
    let mut words: Command = [0; COMMAND_WORDS];
    words[0] = command;
    exchange(socket, name, &mut words)?;
    Ok(words)
}
