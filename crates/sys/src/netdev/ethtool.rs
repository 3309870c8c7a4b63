//! What a driver says about itself: SIOCETHTOOL (linux/ethtool.h) and SIOCSHWTSTAMP
//! (Documentation/networking/timestamping.rst).

use crate::SysError;
use rustix::ioctl::{Opcode, Updater, ioctl};
use rustix::net::netdevice::index_to_name;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

const SIOCGIFFLAGS: Opcode = 0x8913;
const SIOCETHTOOL: Opcode = 0x8946;
const SIOCSHWTSTAMP: Opcode = 0x89b0;
const SIOCGHWTSTAMP: Opcode = 0x89b1;

const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GFLAGS: u32 = 0x25;
const ETHTOOL_GGRO: u32 = 0x2b;
const ETHTOOL_GCHANNELS: u32 = 0x3c;
const ETHTOOL_GET_TS_INFO: u32 = 0x41;
/// How received frames are spread over queues (`struct ethtool_rxfh`).
pub(super) const ETHTOOL_GRSSH: u32 = 0x46;
pub(super) const ETHTOOL_SRSSH: u32 = 0x47;
/// Words of `struct ethtool_rxfh` before the table.
pub(super) const RXFH_WORDS: usize = 6;
const ETH_FLAG_LRO: u32 = 1 << 15;

const SOF_TIMESTAMPING_RX_HARDWARE: u32 = 1 << 2;

/// Words of the buffer for every command of fixed size; the largest, `struct ethtool_drvinfo`, has
/// 49, and `struct ethtool_rxnfc` 48.
pub(super) const COMMAND_WORDS: usize = 64;
type Command = [u32; COMMAND_WORDS];

/// `struct hwtstamp_config`: flags, transmit type, receive filter.
type StampConfig = [u32; 3];

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
    offloads_by(control_socket()?, name)
}

/// As [`offloads`], in the namespace of `socket`.
pub(crate) fn offloads_by(socket: impl AsFd, name: &str) -> Result<Offloads, SysError> {
    let gro = ethtool(&socket, name, ETHTOOL_GGRO)?[1] != 0;
    let lro = ethtool(&socket, name, ETHTOOL_GFLAGS)?[1] & ETH_FLAG_LRO != 0;
    Ok(Offloads { gro, lro })
}

/// Whether an interface is set up, in the namespace of `socket`; `None` if there is no such
/// interface.
///
/// # Errors
/// `socket` is no socket.
pub fn is_up_by(socket: impl AsFd, name: &str) -> Result<Option<bool>, SysError> {
    let mut request = request(name, std::ptr::null_mut())?;
    // SAFETY: SIOCGIFFLAGS takes a struct ifreq and writes its ifr_flags.
    let result = unsafe { ioctl(socket, Updater::<SIOCGIFFLAGS, libc::ifreq>::new(&mut request)) };
    match result {
        // SAFETY: the kernel has written ifr_flags, and any bytes are valid ones.
        Ok(()) => Ok(Some(unsafe { request.ifr_ifru.ifru_flags } & libc::IFF_UP as i16 != 0)),
        Err(rustix::io::Errno::NODEV) => Ok(None),
        Err(error) => Err(SysError::io(format!("asking whether interface {name} is up"), error)),
    }
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
    /// Flags of the setting (`hwtstamp_flags`).
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
    let mut config = StampConfig::default();
    stamp_request::<SIOCGHWTSTAMP>(control_socket()?, name, &mut config)?;
    let [flags, transmit, receive] = config;
    Ok(StampSettings { flags, transmit, receive })
}

/// Sets what an interface stamps; returns what its driver made of it, which may be more.
///
/// # Errors
/// The interface cannot do that, or CAP_NET_ADMIN is missing.
pub fn set_stamp_settings(name: &str, wanted: StampSettings) -> Result<StampSettings, SysError> {
    let mut config = [wanted.flags, wanted.transmit, wanted.receive];
    stamp_request::<SIOCSHWTSTAMP>(control_socket()?, name, &mut config)?;
    let [flags, transmit, receive] = config;
    Ok(StampSettings { flags, transmit, receive })
}

pub(super) fn control_socket() -> Result<OwnedFd, SysError> {
    // Every family takes these calls; this one is there on every kernel, and leads nowhere.
    let (family, kind) = (AddressFamily::UNIX, SocketType::DGRAM);
    socket_with(family, kind, SocketFlags::CLOEXEC, None)
        .map_err(|e| SysError::io("opening a socket to ask about interfaces", e))
}

fn ethtool(socket: impl AsFd, name: &str, command: u32) -> Result<Command, SysError> {
    let mut words: Command = [0; COMMAND_WORDS];
    words[0] = command;
    exchange(socket, name, &mut words)?;
    Ok(words)
}

/// Asks or orders by the structure of a command, which is `words`; the first names the command.
///
/// # Panics
/// If `words` is shorter than what the kernel may write into it: our own bug.
pub(super) fn exchange(socket: impl AsFd, name: &str, words: &mut [u32]) -> Result<(), SysError> {
    let command = words[0];
    assert!(words.len() >= words_written_max(words), "room for ethtool {command:#x}");
    let mut request = request(name, words.as_mut_ptr().cast())?;
    // SAFETY: SIOCETHTOOL takes a struct ifreq whose ifr_data points to the command's structure.
    // The kernel reads and writes at most the structure's fixed part and as much of its last array
    // as the structure says; the assertion made sure that `words`, which lives during the call,
    // has room for that. Any bytes are valid words.
    let result = unsafe { ioctl(socket, Updater::<SIOCETHTOOL, libc::ifreq>::new(&mut request)) };
    result.map_err(|e| SysError::io(format!("ethtool {command:#x} of interface {name}"), e))
}

/// Words that the kernel may touch for a command: for those of fixed size more than any has; for
/// `struct ethtool_rxfh` its six words, then the table, then the key.
fn words_written_max(words: &[u32]) -> usize {
    let part = |index: usize| words.get(index).map_or(usize::MAX, |&word| word as usize);
    match words[0] {
        ETHTOOL_GRSSH | ETHTOOL_SRSSH => {
            // ETH_RXFH_INDIR_NO_CHANGE stands for no table.
            let table = if words.get(2) == Some(&u32::MAX) { 0 } else { part(2) };
            RXFH_WORDS.saturating_add(table).saturating_add(part(3).div_ceil(4))
        }
        _ => COMMAND_WORDS,
    }
}

fn stamp_request<const OPCODE: Opcode>(
    socket: impl AsFd,
    name: &str,
    config: &mut StampConfig,
) -> Result<(), SysError> {
    const { assert!(OPCODE == SIOCGHWTSTAMP || OPCODE == SIOCSHWTSTAMP) };
    let mut request = request(name, config.as_mut_ptr().cast())?;
    // SAFETY: both opcodes take a struct ifreq whose ifr_data points to a hwtstamp_config of three
    // words, which lives during the call; any bytes are valid words.
    let result = unsafe { ioctl(socket, Updater::<OPCODE, libc::ifreq>::new(&mut request)) };
    result.map_err(|e| SysError::io(format!("hardware time stamps of interface {name}"), e))
}

fn request(name: &str, data: *mut libc::c_char) -> Result<libc::ifreq, SysError> {
    // SAFETY: all zero bytes are a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        let context = format!("interface name {name} is longer than 15 bytes");
        return Err(SysError::io(context, io::Error::from(io::ErrorKind::InvalidInput)));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = data;
    Ok(request)
}
