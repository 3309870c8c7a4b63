//! Generic netlink: families that are found by name (linux/genetlink.h).

use super::Connection;
use super::message::{Message, Request, attributes, damaged};
use ringside_sys::SysError;
use std::io;

/// The family that knows the others.
const CONTROL: u16 = 0x10;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
/// `struct genlmsghdr`: command, version, reserved.
pub(crate) const GENERIC_HEADER_BYTES: usize = 4;

/// A connection to one family.
#[derive(Debug)]
pub(crate) struct Family {
    pub(crate) connection: Connection,
    id: u16,
}

impl Family {
    /// The family `name`; `None` if the kernel does not have it.
    ///
    /// # Errors
    /// Netlink is not there, or its answer is damaged.
    pub(crate) fn open(name: &str) -> Result<Option<Family>, SysError> {
        let failed = |e: io::Error| SysError::io(format!("looking for netlink family {name}"), e);
        let mut connection = Connection::open(Some(rustix::net::netlink::GENERIC))?;
        let mut text = name.as_bytes().to_vec();
        text.push(0);
        let request = Request::new(CONTROL, &header(CTRL_CMD_GETFAMILY))
            .attribute(CTRL_ATTR_FAMILY_NAME, &text);
        match connection.ask(request, family_id) {
            Ok(id) => Ok(id.map(|id| Family { connection, id })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    /// A question of this family.
    pub(crate) fn request(&self, command: u8) -> Request {
        Request::new(self.id, &header(command))
    }
}

fn header(command: u8) -> [u8; GENERIC_HEADER_BYTES] {
    [command, 1, 0, 0]
}

fn family_id(message: &Message<'_>) -> io::Result<Option<u16>> {
    let body = message.body.get(GENERIC_HEADER_BYTES..).ok_or_else(damaged)?;
    let found = attributes(body)?.into_iter().find(|a| a.kind == CTRL_ATTR_FAMILY_ID);
    Ok(found.and_then(|id| u16::try_from(id.number()).ok()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::message::messages;

    #[test]
    fn the_number_of_a_family_is_the_one_that_is_answered() {
        let answer = |id: &[u8]| {
            let answer = Request::new(CONTROL, &header(1)).attribute(CTRL_ATTR_FAMILY_NAME, b"x\0");
            answer.attribute(CTRL_ATTR_FAMILY_ID, id).bytes(1)
        };
        let read = |bytes: &[u8]| messages(bytes).flatten().map(|m| family_id(&m)).next();
        for (id, found) in [(&27u16.to_ne_bytes()[..], Some(27)), (&[0, 0, 1, 0], None)] {
            assert_eq!(read(&answer(id)).unwrap().unwrap(), found, "{id:?}");
        }
        let seeds = [answer(&27u16.to_ne_bytes()), answer(&u32::MAX.to_ne_bytes())];
        ringside_testkit::fuzz("netlink-family", 500_000, &seeds, |bytes| {
            if let Some(Ok(Some(id))) = read(bytes) {
                let is_there = |word: &[u8]| word == id.to_ne_bytes();
                assert!(id <= 0xff || bytes.windows(2).any(is_there), "{id}");
            }
        });
    }

    #[test]
    fn a_family_is_found_and_an_unknown_one_is_none() {
        assert!(Family::open("nlctrl").unwrap().is_some());
        assert!(Family::open("rsafp-none").unwrap().is_none());
    }
}
