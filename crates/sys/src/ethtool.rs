//! What a driver is asked, and how it is set, by ioctl: SIOCETHTOOL (linux/ethtool.h),
//! SIOCSHWTSTAMP (Documentation/networking/timestamping.rst), and the flags of its interface. What
//! the words mean is not known here.

use crate::SysError;
use rustix::ioctl::{Opcode, Updater, ioctl};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

const SIOCGIFFLAGS: Opcode = 0x8913;
const SIOCETHTOOL: Opcode = 0x8946;
const SIOCSHWTSTAMP: Opcode = 0x89b0;
const SIOCGHWTSTAMP: Opcode = 0x89b1;

/// Commands of linux/ethtool.h that may be asked here: the driver's name.
pub const ETHTOOL_GDRVINFO: u32 = 0x03;
/// Flags, LRO among them.
pub const ETHTOOL_GFLAGS: u32 = 0x25;
/// Which fields of a kind of flow are hashed (`struct ethtool_rxnfc`).
pub const ETHTOOL_GRXFH: u32 = 0x29;
/// To change that.
pub const ETHTOOL_SRXFH: u32 = 0x2a;
/// Whether there is GRO.
pub const ETHTOOL_GGRO: u32 = 0x2b;
/// Queues.
pub const ETHTOOL_GCHANNELS: u32 = 0x3c;
/// Time stamps.
pub const ETHTOOL_GET_TS_INFO: u32 = 0x41;
/// How received frames are spread over queues (`struct ethtool_rxfh`).
pub const ETHTOOL_GRSSH: u32 = 0x46;
/// To change that.
pub const ETHTOOL_SRSSH: u32 = 0x47;
/// Words of `struct ethtool_rxfh` before the table.
pub const RXFH_WORDS: usize = 6;

/// Words of the buffer for every command of fixed size; the largest, `struct ethtool_drvinfo`, has
/// 49, and `struct ethtool_rxnfc` 48.
pub const COMMAND_WORDS: usize = 64;

/// The commands whose structure has a fixed size.
const FIXED: [u32; 7] = [
    ETHTOOL_GDRVINFO,
    ETHTOOL_GFLAGS,
    ETHTOOL_GRXFH,
    ETHTOOL_SRXFH,
    ETHTOOL_GGRO,
    ETHTOOL_GCHANNELS,
    ETHTOOL_GET_TS_INFO,
];

/// `struct hwtstamp_config`: flags, transmit type, receive filter.
pub type StampConfig = [u32; 3];

/// A socket in the calling thread's network namespace, for the calls here.
///
/// # Errors
/// Too many open files.
pub fn control_socket() -> Result<OwnedFd, SysError> {
    // Every family takes these calls; this one is there on every kernel, and leads nowhere.
    let (family, kind) = (AddressFamily::UNIX, SocketType::DGRAM);
    socket_with(family, kind, SocketFlags::CLOEXEC, None)
        .map_err(|e| SysError::io("opening a socket to ask about interfaces", e))
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

/// Asks or orders by the structure of a command, which is `words`; the first names the command.
///
/// # Errors
/// There is no such interface, or its driver refuses.
///
/// # Panics
/// If `words` is shorter than what the kernel may write into it, or the command is none of those
/// here, of which that is known: our own bug.
pub fn exchange(socket: impl AsFd, name: &str, words: &mut [u32]) -> Result<(), SysError> {
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
        command if FIXED.contains(&command) => COMMAND_WORDS,
        _ => usize::MAX,
    }
}

/// What an interface is set to stamp.
///
/// # Errors
/// There is no such interface, or it stamps nothing itself.
pub fn stamp_config(socket: impl AsFd, name: &str) -> Result<StampConfig, SysError> {
    let mut config = StampConfig::default();
    stamp_request::<SIOCGHWTSTAMP>(socket, name, &mut config)?;
    Ok(config)
}

/// Sets what an interface stamps; returns what its driver made of it.
///
/// # Errors
/// The interface cannot do that, or CAP_NET_ADMIN is missing.
pub fn set_stamp_config(
    socket: impl AsFd,
    name: &str,
    mut wanted: StampConfig,
) -> Result<StampConfig, SysError> {
    stamp_request::<SIOCSHWTSTAMP>(socket, name, &mut wanted)?;
    Ok(wanted)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_given_no_more_room_than_there_is() {
        let strings = 0x1b;
        let cases: [(&[u32], bool); 8] = [
            (&[ETHTOOL_GGRO; COMMAND_WORDS], true),
            (&[ETHTOOL_GGRO; COMMAND_WORDS - 1], false),
            (&[strings; COMMAND_WORDS], false),
            (&[ETHTOOL_GRSSH, 0, 0, 0, 0, 0], true),
            (&[ETHTOOL_GRSSH, 0, 2, 5, 0, 0, 0, 0, 0, 0], true),
            (&[ETHTOOL_GRSSH, 0, 2, 5, 0, 0, 0, 0, 0], false),
            (&[ETHTOOL_SRSSH, 0, u32::MAX, 4, 0, 0, 0], true),
            (&[ETHTOOL_SRSSH, 0], false),
        ];
        for (words, fits) in cases {
            assert_eq!(words.len() >= words_written_max(words), fits, "{words:?}");
        }
    }
}
