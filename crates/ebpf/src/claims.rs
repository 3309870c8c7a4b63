//! Claims: which process has a place among the leaves of an interface, and whose turn it is to
//! change them.
//!
//! A claim is an abstract Unix socket whose name says the interface and the place. Such names
//! belong to a network namespace like the interface itself, and the kernel frees them with the last
//! descriptor. That separates what a dead process left from what is in use.
//!
//! Any user may bind any name, so a name alone says nothing. A claim is a name with a random end,
//! so that no other process can bind it first. A claim counts only if root or this process's user
//! holds it. Another user may have the capabilities too: such a claim counts only where a program
//! lies at its place (`Claims::is_taken`). A claim of the turn has processes open one after the
//! other: a process that has bound its own and finds another gives its own back and tries again.

use crate::Error;
use crate::abi::ROOT_POSITIONS;
use ringside_sys::SysError;
use ringside_sys::bpf::FdArray;
use ringside_sys::file_lock::Holder;
use ringside_sys::unix_names::{AbstractSocket, abstract_sockets};
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::net::Shutdown;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

/// Longest wait for other processes, each of which loads and attaches one small program.
const TURN_WAIT_MAX: Duration = Duration::from_secs(5);
/// Shortest time until a turn is tried again; the longest is twice that.
const RETRY_US: u64 = 3_000;
/// How often another name is tried where one is taken: they are random.
const NAMES_TRIED: usize = 8;
/// What stands in place of a number in the claim of the turn.
const TURN: &str = "turn";

/// How the names of claims on an interface begin.
pub(crate) fn prefix(ifindex: u32) -> String {
    format!("ringside-xdp.{ifindex}.")
}

/// The claims on an interface, as they were listed.
pub(crate) struct Claims {
    prefix: String,
    /// `None` if the system does not list them: then every place may be claimed.
    found: Option<Vec<AbstractSocket>>,
}

impl Claims {
    /// Lists the claims on an interface.
    pub fn list(ifindex: u32) -> Claims {
        let prefix = prefix(ifindex);
        let found = listed(&prefix, |_| true).ok();
        Claims { prefix, found }
    }

    /// True if there may be a claim of the place that is `wanted`.
    fn has(&self, position: u32, wanted: impl Fn(&AbstractSocket) -> bool) -> bool {
        let prefix = format!("{}{position}.", self.prefix);
        let is_such = |socket: &AbstractSocket| socket.name.starts_with(&prefix) && wanted(socket);
        self.found.as_ref().is_none_or(|found| found.iter().any(is_such))
    }

    /// True if a living process that can be believed has the place.
    pub fn is_claimed(&self, position: u32) -> bool {
        self.has(position, AbstractSocket::is_roots_or_ours)
    }

    /// True if that, or if another user's process says so and a program lies there.
    pub fn is_taken(&self, position: u32, leaves: &FdArray) -> bool {
        self.is_claimed(position)
            || self.has(position, |_| true)
                && leaves.program_at(position).is_ok_and(|program| program.is_some())
    }

    /// True if a process that can be believed has any place but `own`.
    pub fn has_others(&self, own: u32, leaves: &FdArray) -> bool {
        (0..ROOT_POSITIONS).any(|position| position != own && self.is_taken(position, leaves))
    }
}

/// The sockets whose names begin with `prefix` and that are `wanted`, listed twice: the kernel
/// gives a long list in pieces, and skips a socket that moves up while others go.
fn listed(
    prefix: &str,
    wanted: impl Fn(&AbstractSocket) -> bool,
) -> Result<Vec<AbstractSocket>, SysError> {
    let mut found = abstract_sockets(prefix, &wanted)?;
    found.extend(abstract_sockets(prefix, &wanted)?);
    Ok(found)
}

/// Waits until no other process opens a root on the interface; the turn ends with the socket.
///
/// # Errors
/// Another process has the turn for too long, or the system refused.
pub(crate) fn take_turn(interface: &str, ifindex: u32) -> Result<UnixDatagram, Error> {
    let refused = |source| Error::Claim { interface: interface.into(), source };
    let prefix = format!("{}{TURN}.", prefix(ifindex));
    let start = Instant::now();
    loop {
        let (turn, name) = bind(&prefix).map_err(refused)?;
        let others = listed(&prefix, |other| other.name != name && other.is_roots_or_ours());
        let others = others.map_err(|error| refused(io::Error::other(error)))?;
        let Some(other) = others.first() else { return Ok(turn) };
        if start.elapsed() >= TURN_WAIT_MAX {
            return Err(refused(io::Error::new(io::ErrorKind::TimedOut, has_it(other))));
        }
        drop(turn);
        std::thread::sleep(Duration::from_micros(RETRY_US + random() % RETRY_US));
    }
}

/// For messages: which process has the turn.
fn has_it(other: &AbstractSocket) -> String {
    let pid = other.name.rsplit('.').next().and_then(|end| end.split('-').next());
    // The process that bound the name may have put a path there.
    let who = match pid.and_then(|pid| pid.parse::<u32>().ok()) {
        None => "another process".to_owned(),
        Some(pid) => Holder::of(pid).to_string(),
    };
    let seconds = TURN_WAIT_MAX.as_secs();
    format!("{who} has been at it for {seconds} s; if it is stopped, let it go on or end it")
}

/// Claims a place that no process has. The caller has the turn.
///
/// # Errors
/// The system refused.
pub(crate) fn claim(ifindex: u32, position: u32) -> io::Result<UnixDatagram> {
    let (socket, _) = bind(&format!("{}{position}.", prefix(ifindex)))?;
    // No process sends to it.
    socket.shutdown(Shutdown::Both)?;
    Ok(socket)
}

/// A socket with a name that begins with `prefix` and was free.
fn bind(prefix: &str) -> io::Result<(UnixDatagram, String)> {
    let mut tries = 0;
    loop {
        let name = format!("{prefix}{}-{:016x}", std::process::id(), random());
        match UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name)?) {
            Ok(socket) => return Ok((socket, name)),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && tries < NAMES_TRIED => {
                tries += 1;
            }
            Err(error) => return Err(error),
        }
    }
}

/// The standard library's seeds are random, and other ones each time.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// An interface that no machine has: names are all that matters here.
    const IFINDEX: u32 = 0x7fff_0000;

    fn squat(name: &str) -> UnixDatagram {
        UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(name).unwrap()).unwrap()
    }

    #[test]
    fn one_at_a_time_has_the_turn() {
        let inside = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..25 {
                        let turn = loop {
                            // A busy machine may keep one from its turn for long.
                            match take_turn("eth1", IFINDEX) {
                                Ok(turn) => break turn,
                                Err(Error::Claim { source, .. })
                                    if source.kind() == io::ErrorKind::TimedOut => {}
                                Err(error) => panic!("{error}"),
                            }
                        };
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        std::thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                        drop(turn);
                    }
                });
            }
        });
    }

    #[test]
    fn a_claim_is_seen_as_long_as_it_is_held_and_a_name_of_before_is_nothing() {
        let ifindex = IFINDEX + 1;
        let old = squat(&format!("ringside-xdp.{ifindex}.2"));
        assert!(!Claims::list(ifindex).is_claimed(2), "a name without a random end");
        let claim = claim(ifindex, 2).unwrap();
        let other = super::claim(ifindex, 2).unwrap();
        assert!(Claims::list(ifindex).is_claimed(2));
        drop(claim);
        assert!(Claims::list(ifindex).is_claimed(2), "its other holder");
        drop((other, old));
        assert!(!Claims::list(ifindex).is_claimed(2));
        for position in [0, 1, 3] {
            assert!(!Claims::list(ifindex).is_claimed(position));
        }
    }

    #[test]
    fn who_keeps_the_turn_is_named() {
        let name = format!("ringside-xdp.7.turn.{}-00", std::process::id());
        let text = has_it(&AbstractSocket { name, user: None });
        assert!(text.contains(&format!("process {}", std::process::id())), "{text}");
        let text = has_it(&AbstractSocket { name: "x".into(), user: None });
        assert!(text.contains("another process"), "{text}");
    }

    #[test]
    fn a_name_leads_to_no_file_but_that_of_a_process() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("comm"), "precious").unwrap();
        let name = format!("ringside-xdp.7.turn.self/root{}", folder.path().display());
        let seeds = [name, "ringside-xdp.7.turn.1-00".into(), "\u{1b}[2J".into()];
        let seeds = seeds.map(String::into_bytes);
        ringside_testkit::fuzz("claim-names", 20_000, &seeds, |bytes| {
            let name = String::from_utf8_lossy(bytes).into_owned();
            let text = has_it(&AbstractSocket { name, user: None });
            assert!(!text.contains("precious") && !text.contains('\u{1b}'), "{text}");
        });
    }
}
