//! What a service manager gets to know, in the words of sd_notify(3).

use crate::say;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The variable that says where it listens; not set where no manager waits.
pub const VARIABLE: &str = "NOTIFY_SOCKET";

/// Says that this process now does what it is for, which units of `Type=notify` wait for. If that
/// fails the work goes on: the manager has a limit of time and says so itself.
pub fn ready() {
    let Some(place) = std::env::var_os(VARIABLE) else { return };
    if let Err(error) = send(&place, b"READY=1") {
        let text = "ringside: warning: the service manager does not hear that this is ready";
        say::message(format_args!("{text}: {error}"));
    }
}

/// `place` is a path, or `@` and an abstract name.
fn send(place: &OsStr, state: &[u8]) -> io::Result<()> {
    let address = match place.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(place)?,
    };
    let socket = UnixDatagram::unbound()?;
    // A manager whose queue is full holds nothing up.
    socket.set_nonblocking(true)?;
    socket.send_to_addr(state, &address)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manager_hears_it_by_either_kind_of_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let abstract_name = format!("ringside-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        for (manager, place) in [
            (UnixDatagram::bind(&path).unwrap(), path.to_str().unwrap().to_owned()),
            (UnixDatagram::bind_addr(&address).unwrap(), format!("@{abstract_name}")),
        ] {
            send(place.as_ref(), b"READY=1").unwrap();
            let mut heard = [0; 32];
            manager.set_nonblocking(true).unwrap();
            let bytes = manager.recv(&mut heard).unwrap();
            assert_eq!(&heard[..bytes], b"READY=1", "{place}");
        }
        assert!(send(folder.path().join("none").as_ref(), b"READY=1").is_err());
    }
}
