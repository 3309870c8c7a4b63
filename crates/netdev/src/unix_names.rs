//! Abstract Unix sockets of a network namespace, and whose they are (unix(7), sock_diag(7)).

use crate::netlink::Connection;
use crate::netlink::message::{Message, Request, attributes, damaged};
use ringside_sys::SysError;
use std::io;

/// SOCK_DIAG_BY_FAMILY.
const BY_FAMILY: u16 = 20;
/// UDIAG_SHOW_NAME and UDIAG_SHOW_UID (Linux 5.3).
const SHOW: u32 = 0x01 | 0x40;
/// `struct unix_diag_msg`.
const HEADER_BYTES: usize = 16;
/// UNIX_DIAG_NAME: the address behind its family, which for an abstract one begins with a zero.
const NAME: u16 = 0;
/// UNIX_DIAG_UID: its owner, as the user namespace of the socket that asks sees it.
const UID: u16 = 7;
/// Most names that are kept: far more than processes of ours.
const NAMES_MAX: usize = 1 << 16;
/// Where the names stand too, of all users, without their owners.
const PROC: &str = "/proc/net/unix";

/// A socket with an abstract name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbstractSocket {
    /// The name, without the zero before it.
    pub name: String,
    /// Who made it; not known to a kernel that does not tell.
    pub user: Option<u32>,
}

impl AbstractSocket {
    /// True if it is root's, or of the user of this process, or if the kernel does not tell whose
    /// it is.
    pub fn is_roots_or_ours(&self) -> bool {
        let own = rustix::process::geteuid().as_raw();
        self.user.is_none_or(|user| user == 0 || user == own)
    }
}

/// The sockets of the calling thread's network namespace whose names begin with `prefix`, and that
/// are `wanted`. One that was bound before the call, and still is after it, is among them.
///
/// # Errors
/// The system refused.
pub fn abstract_sockets(
    prefix: &str,
    wanted: impl Fn(&AbstractSocket) -> bool,
) -> Result<Vec<AbstractSocket>, SysError> {
    let wanted = |socket: &AbstractSocket| socket.name.starts_with(prefix) && wanted(socket);
    let asked = Connection::diagnosis()
        .and_then(|mut diagnosis| diagnosis.dump(question(), NAMES_MAX, |m| found(m, &wanted)));
    match asked {
        Ok(sockets) => Ok(sockets),
        // A kernel without the module of it has the list of names all the same.
        Err(_) => by_proc(&wanted),
    }
}

/// `struct unix_diag_req`: of every state, all sockets.
fn question() -> Request {
    let words = [u32::from(libc::AF_UNIX as u16), u32::MAX, 0, SHOW, u32::MAX, u32::MAX];
    Request::new(BY_FAMILY, &words.map(u32::to_ne_bytes).concat())
}

fn found(
    message: &Message<'_>,
    wanted: &impl Fn(&AbstractSocket) -> bool,
) -> io::Result<Option<AbstractSocket>> {
    let (mut name, mut user) = (None, None);
    for attribute in attributes(message.body.get(HEADER_BYTES..).ok_or_else(damaged)?)? {
        match attribute.kind {
            NAME => name = attribute.value.strip_prefix(&[0]),
            UID => user = Some(attribute.word()),
            _ => {}
        }
    }
    // A name of other bytes than text is none of ours.
    let name = name.and_then(|name| std::str::from_utf8(name).ok());
    let socket = name.map(|name| AbstractSocket { name: name.to_owned(), user });
    Ok(socket.filter(wanted))
}

fn by_proc(wanted: &impl Fn(&AbstractSocket) -> bool) -> Result<Vec<AbstractSocket>, SysError> {
    let text =
        std::fs::read(PROC).map_err(|error| SysError::io(format!("reading {PROC}"), error))?;
    Ok(listed(&String::from_utf8_lossy(&text)).filter(wanted).take(NAMES_MAX).collect())
}

/// The abstract names in the list: in the eighth column, behind an at-sign.
fn listed(text: &str) -> impl Iterator<Item = AbstractSocket> {
    text.lines().filter_map(|line| {
        let name = line.split_ascii_whitespace().nth(7)?.strip_prefix('@')?;
        Some(AbstractSocket { name: name.to_owned(), user: None })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::message::joined_attributes;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};

    fn bind(name: &str) -> UnixDatagram {
        UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(name).unwrap()).unwrap()
    }

    #[test]
    fn names_are_found_with_their_owner_as_long_as_they_are_bound() {
        let prefix = format!("ringside-test-{}.", std::process::id());
        let find = || abstract_sockets(&prefix, |_| true).unwrap();
        assert_eq!(find(), []);
        let sockets = ["a", "b"].map(|end| bind(&format!("{prefix}{end}")));
        let other = bind(&format!("x{prefix}"));
        let mut found = find();
        found.sort_by(|a, b| a.name.cmp(&b.name));
        let names: Vec<&str> = found.iter().map(|socket| socket.name.as_str()).collect();
        assert_eq!(names, [format!("{prefix}a"), format!("{prefix}b")]);
        let own = rustix::process::geteuid().as_raw();
        assert!(found.iter().all(|socket| socket.user.is_none_or(|user| user == own)));
        assert_eq!(
            abstract_sockets(&prefix, |socket| socket.name.ends_with('b')).unwrap().len(),
            1
        );
        drop((sockets, other));
        assert_eq!(find(), []);
    }

    #[test]
    fn root_and_the_own_user_are_told_from_others() {
        let own = rustix::process::geteuid().as_raw();
        let of = |user| AbstractSocket { name: String::new(), user }.is_roots_or_ours();
        assert!(of(Some(0)) && of(Some(own)) && of(None));
        assert!(!of(Some(own + 1)));
    }

    #[test]
    fn the_list_of_names_is_read_as_the_kernel_writes_it() {
        let text = "Num       RefCount Protocol Flags    Type St Inode Path\n\
                    0000000000000000: 00000002 00000000 00000000 0002 01 18941\n\
                    0000000000000000: 00000002 00000000 00010000 0001 01 18942 /run/a\n\
                    0000000000000000: 00000002 00000000 00000000 0002 01 18943 @a.b\n\
                    torn";
        let names: Vec<String> = listed(text).map(|socket| socket.name).collect();
        assert_eq!(names, ["a.b"]);
    }

    #[test]
    fn names_in_a_damaged_list_are_those_that_stand_there() {
        let text = "Num       RefCount Protocol Flags    Type St Inode Path\n\
                    0000000000000000: 00000002 00000000 00000000 0002 01 18943 @a.b\n\
                    0000000000000000: 00000002 00000000 00000000 0002 01 18943 @\n";
        ringside_testkit::fuzz("proc-net-unix", 200_000, &[text.into()], |bytes| {
            let text = String::from_utf8_lossy(bytes);
            let found: Vec<AbstractSocket> = listed(&text).collect();
            assert!(found.len() <= text.lines().count());
            for socket in found {
                assert!(text.contains(&format!("@{}", socket.name)) && socket.user.is_none());
            }
        });
    }

    #[test]
    fn damaged_answers_are_refused_or_hold_no_name() {
        let keep = |_: &AbstractSocket| true;
        let read =
            |body: &[u8]| found(&Message { kind: BY_FAMILY, flags: 0, sequence: 0, body }, &keep);
        for length in 0..HEADER_BYTES {
            assert!(read(&vec![0; length]).is_err());
        }
        let uid = 1000u32.to_ne_bytes();
        let answer =
            [vec![0; HEADER_BYTES], joined_attributes(&[(NAME, b"\0a.b"), (UID, &uid)])].concat();
        let told = AbstractSocket { name: "a.b".into(), user: Some(1000) };
        assert_eq!(read(&answer).unwrap(), Some(told));
        let seeds = [answer, vec![0; HEADER_BYTES], vec![0xff; 64]];
        ringside_testkit::fuzz("unix-diag", 200_000, &seeds, |bytes| {
            if let Ok(Some(socket)) = read(bytes) {
                let name = [b"\0", socket.name.as_bytes()].concat();
                assert!(bytes.windows(name.len()).any(|part| part == name), "{socket:?}");
            }
        });
    }
}
