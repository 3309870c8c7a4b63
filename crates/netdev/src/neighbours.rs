//! Neighbours: all that the kernel knows, and orders to ask them again
//! (rtnetlink(7): RTM_GETNEIGH, RTM_NEWNEIGH; linux/neighbour.h, net/core/neighbour.c).

use super::route::{NDA_DST, NDA_LLADDR, NEIGHBOUR_HEADER_BYTES, VALID, neighbour_request};
use super::uses::ip_address;
use crate::netlink::Connection;
use crate::netlink::message::{Message, Request, attributes, damaged, u16_at, u32_at};
use ringside_sys::SysError;
use std::io;
use std::net::IpAddr;

/// Neighbours that are read at most: what the kernel keeps by default is a thousand of each family
/// (`gc_thresh3`), and a router of a large network sets more.
pub const NEIGHBOURS_MAX: usize = 65_536;

/// States that the kernel does not ask about: set by hand, or without addresses.
const UNASKED: u16 = libc::NUD_PERMANENT | libc::NUD_NOARP;

/// A neighbour, as the kernel has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Index of the interface where it is.
    pub ifindex: u32,
    /// Its address.
    pub address: IpAddr,
    /// Its address in the link layer, if it has one of Ethernet's.
    pub mac: Option<[u8; 6]>,
    /// NUD_ bits of its state.
    pub state: u16,
}

impl Neighbour {
    /// Frames are sent to the address that is known.
    pub fn is_valid(&self) -> bool {
        self.state & VALID != 0
    }

    /// The kernel finds out by itself whether it is still there: not so if it was set by hand.
    pub fn is_asked(&self) -> bool {
        self.state & UNASKED == 0
    }

    /// It is being asked, at the address that is known.
    pub fn is_probed(&self) -> bool {
        self.state & libc::NUD_PROBE != 0
    }
}

/// An open connection to the kernel's neighbours, in the network namespace of the thread that
/// opened it.
#[derive(Debug)]
pub struct Neighbours {
    connection: Connection,
}

impl Neighbours {
    /// Connects.
    ///
    /// # Errors
    /// Netlink is not there.
    pub fn open() -> Result<Neighbours, SysError> {
        Ok(Neighbours { connection: Connection::route()? })
    }

    /// All neighbours over IPv4 and IPv6, [`NEIGHBOURS_MAX`] at most.
    ///
    /// # Errors
    /// The kernel refused, or its answer is damaged.
    pub fn list(&mut self) -> Result<Vec<Neighbour>, SysError> {
        let request = Request::new(libc::RTM_GETNEIGH, &[0; NEIGHBOUR_HEADER_BYTES]);
        self.connection
            .dump(request, NEIGHBOURS_MAX, read)
            .map_err(|e| SysError::io("listing neighbours by rtnetlink", e))
    }

    /// Has the kernel ask a neighbour, at the address that it has, whether it is still there; until
    /// then frames are sent to it as before. True if there is such a neighbour.
    ///
    /// # Errors
    /// CAP_NET_ADMIN is missing.
    pub fn probe(&mut self, neighbour: &Neighbour) -> Result<bool, SysError> {
        self.set(neighbour, libc::NUD_PROBE, 0)
    }

    /// Has the kernel forget a neighbour's address in the link layer and ask everybody for it. True
    /// if there is such a neighbour.
    ///
    /// # Errors
    /// CAP_NET_ADMIN is missing.
    pub fn seek(&mut self, neighbour: &Neighbour) -> Result<bool, SysError> {
        let is_there = self.set(neighbour, libc::NUD_FAILED, 0)?;
        Ok(is_there && self.set(neighbour, 0, libc::NTF_USE)?)
    }

    fn set(&mut self, neighbour: &Neighbour, state: u16, flags: u8) -> Result<bool, SysError> {
        let Neighbour { ifindex, address, .. } = *neighbour;
        let request = neighbour_request(libc::RTM_NEWNEIGH, ifindex, address, (state, flags));
        let request = request.with_flags(libc::NLM_F_REPLACE as u16);
        match self.connection.ask(request, |_| Ok(None::<()>)) {
            Ok(_) => Ok(true),
            // It went meanwhile, or lost its address, or the interface did.
            Err(error) if is_gone(&error) => Ok(false),
            Err(error) => {
                let what = format!("having the neighbour {address} asked (it needs root)");
                Err(SysError::io(what, error))
            }
        }
    }
}

fn is_gone(error: &io::Error) -> bool {
    let kind = error.kind();
    matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::InvalidInput)
        || error.raw_os_error() == Some(libc::ENODEV)
}

fn read(message: &Message<'_>) -> io::Result<Option<Neighbour>> {
    if message.kind != libc::RTM_NEWNEIGH {
        return Ok(None);
    }
    let ifindex = u32_at(message.body, 4).ok_or_else(damaged)?;
    let state = u16_at(message.body, 8).ok_or_else(damaged)?;
    let rest = message.body.get(NEIGHBOUR_HEADER_BYTES..).ok_or_else(damaged)?;
    let (mut address, mut mac) = (None, None);
    for attribute in attributes(rest)? {
        match attribute.kind {
            NDA_DST => address = ip_address(attribute.value),
            NDA_LLADDR => mac = attribute.value.try_into().ok(),
            _ => {}
        }
    }
    // Of a bridge they have no address of IP.
    Ok(address.map(|address| Neighbour { ifindex, address, mac, state }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::message::messages;
    use crate::netlink::message::tests::message;

    fn neighbour_message(state: u16) -> Vec<u8> {
        let mut body = vec![2, 0, 0, 0, 7, 0, 0, 0];
        body.extend(state.to_ne_bytes());
        body.extend([0, 1, 8, 0, 1, 0, 10, 1, 2, 3, 10, 0, 2, 0, 2, 0, 0, 0, 0, 5, 0, 0]);
        message(libc::RTM_NEWNEIGH, &body)
    }

    #[test]
    fn a_neighbour_has_an_address_and_a_state() {
        let of = |state: u16| {
            let bytes = neighbour_message(state);
            read(&messages(&bytes).next().unwrap().unwrap()).unwrap().unwrap()
        };
        let stale = of(libc::NUD_STALE);
        assert_eq!((stale.ifindex, stale.address), (7, IpAddr::from([10, 1, 2, 3])));
        assert_eq!(stale.mac, Some([2, 0, 0, 0, 0, 5]));
        assert!(stale.is_valid() && stale.is_asked() && !stale.is_probed());
        assert!(of(libc::NUD_PROBE).is_probed() && of(libc::NUD_PROBE).is_valid());
        assert!(!of(libc::NUD_FAILED).is_valid());
        assert!(!of(libc::NUD_PERMANENT).is_asked() && of(libc::NUD_PERMANENT).is_valid());
    }

    #[test]
    fn a_neighbour_that_is_not_there_cannot_be_asked() {
        let mut neighbours = Neighbours::open().unwrap();
        let one = Neighbour {
            ifindex: u32::MAX >> 1,
            address: IpAddr::from([192, 0, 2, 1]),
            mac: None,
            state: 0,
        };
        // Without privilege that is the answer.
        assert!(!neighbours.probe(&one).is_ok_and(|is_there| is_there));
        assert!(neighbours.list().unwrap().iter().all(|found| found.ifindex != one.ifindex));
    }

    #[test]
    fn mutated_answers_end() {
        let seeds = [
            neighbour_message(libc::NUD_STALE),
            [neighbour_message(4), neighbour_message(64)].concat(),
        ];
        ringside_testkit::fuzz("netlink-neighbours", 500_000, &seeds, |input| {
            for message in messages(input).flatten() {
                let _ = read(&message);
            }
        });
    }
}
