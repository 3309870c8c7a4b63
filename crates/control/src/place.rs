//! Where the control socket of a capture lies, and who may open it.
//!
//! The socket's file mode is its only authority: 0600, so the user who captures, and root. The
//! mode is set on the socket before it has a name, which Linux keeps for the file (`unix_bind_bsd`
//! of net/unix/af_unix.c); no umask is changed and there is no moment at which others could
//! connect.
//!
//! A socket file outlives a process that was killed. A file that refuses connections is replaced;
//! one that accepts them, or that is no socket, never is. Binding and replacing happen under a lock
//! that only processes of the same user can take, so that of two starts at once neither takes the
//! other's fresh socket for a stale one.

use crate::state_directory::{self, StateDirectory, lock, lock_first};
use anyhow::Context;
use ringside_core::Shown;
use rustix::fs::{Mode, fchmod};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use thiserror::Error;

/// Longest path of a Unix socket (unix(7)); the address holds a zero byte more.
const PATH_BYTES_MAX: usize = 107;
/// Connections that wait until the server looks: one round of it takes as many.
const BACKLOG: i32 = 16;
/// How often a full backlog is tried again.
const RETRY: Duration = Duration::from_millis(10);
/// How the name of the socket of a run that receives begins.
pub const CAPTURE_KIND: &str = "capture";
/// The same of one whose rules work in a driver.
pub const DROP_KIND: &str = "drop";
/// The same of a router.
pub const ROUTE_KIND: &str = "route";
/// The same of a balancer.
pub const BALANCE_KIND: &str = "balance";
/// The same of the end of a balancer's tunnels.
pub const DECAP_KIND: &str = "decap";
/// What runs have a control socket, as its name begins.
const KINDS: [&str; 5] = [CAPTURE_KIND, DROP_KIND, ROUTE_KIND, BALANCE_KIND, DECAP_KIND];
/// Directory entries that are looked at: bounds the start among foreign files.
const ENTRIES_MAX: usize = 10_000;

/// Where the control socket of a run is to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SocketPlace {
    /// In the first default directory that can be written, with the process id in its name.
    #[default]
    Default,
    /// At this path.
    Path(PathBuf),
    /// The run has none.
    None,
}

/// Why a socket cannot have the name that it is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PlaceTaken {
    /// A file, or something else that must stay.
    #[error("something that is no socket has this name")]
    NoSocket,
    /// The socket of another.
    #[error("a running process listens there")]
    Listening,
}

/// A listening socket with a name in the file system; the name goes with it.
#[derive(Debug)]
pub struct ControlSocket {
    pub(super) listener: UnixListener,
    path: PathBuf,
    /// Device and inode of the file, so that another's is never removed.
    identity: (u64, u64),
}

impl ControlSocket {
    /// The socket at `place`, of a run of this kind; none if none is wanted, or if no default
    /// directory can be written. `keeper_pid` is the process that the user started, if it is not
    /// this one.
    ///
    /// # Errors
    /// The socket that was asked for by name cannot be made.
    pub fn open(
        place: &SocketPlace,
        kind: &str,
        keeper_pid: Option<u32>,
    ) -> anyhow::Result<Option<ControlSocket>> {
        match place {
            SocketPlace::None => return Ok(None),
            SocketPlace::Path(path) => return ControlSocket::bind(path).map(Some),
            SocketPlace::Default => {}
        }
        let name = default_name(kind, keeper_pid.unwrap_or_else(std::process::id));
        for directory in state_directory::candidates() {
            match in_default_directory(&directory, &name) {
                Ok(socket) => {
                    tracing::info!("control socket {}", socket.path.shown());
                    return Ok(Some(socket));
                }
                Err(error) => tracing::info!("{error:#}"),
            }
        }
        tracing::info!("there is no control socket");
        Ok(None)
    }

    /// Listens at `path`; a stale socket there is replaced.
    ///
    /// # Errors
    /// Something lives at `path` already, or the system refused.
    pub fn bind(path: &Path) -> anyhow::Result<ControlSocket> {
        let context = || format!("cannot make the socket {}", path.shown());
        // Not a lock file next to the socket, where others may be able to take it.
        let _lock = lock_first().with_context(context)?;
        remove_stale(path).with_context(context)?;
        bind_new(path).with_context(context)
    }
}

impl ControlSocket {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Another handle of the listening socket.
    ///
    /// # Errors
    /// No descriptor is to be had.
    pub fn listener(&self) -> io::Result<UnixListener> {
        self.listener.try_clone()
    }
}

/// Where the socket of a run of this kind may be that the user started as process `pid`.
pub fn paths(place: &SocketPlace, kind: &str, pid: u32) -> Vec<PathBuf> {
    let name = default_name(kind, pid);
    match place {
        SocketPlace::None => Vec::new(),
        SocketPlace::Path(path) => vec![path.clone()],
        SocketPlace::Default => {
            let directories = state_directory::candidates().into_iter();
            directories.map(|directory| directory.path.join(&name)).collect()
        }
    }
}

/// Removes those at which no process listens: a worker that was killed, or that has no rights in
/// the directory, leaves them.
pub fn remove_left(paths: &[PathBuf]) {
    for path in paths.iter().filter(|path| path.exists()) {
        if let Err(error) = remove_stale(path) {
            tracing::debug!("{}: {error:#}", path.shown());
        }
    }
}

fn default_name(kind: &str, pid: u32) -> String {
    format!("{kind}-{pid}.sock")
}

impl Drop for ControlSocket {
    /// Removes the file, as far as the rights that are left allow; else it is stale, and the next
    /// capture removes it.
    fn drop(&mut self) {
        let ours = std::fs::symlink_metadata(&self.path)
            .is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == self.identity);
        if ours && let Err(error) = std::fs::remove_file(&self.path) {
            tracing::debug!("cannot remove {}: {error}", self.path.shown());
        }
    }
}

/// The sockets of running captures in the default directories, in order of their process ids;
/// some may be stale.
pub fn running() -> Vec<PathBuf> {
    state_directory::candidates().iter().flat_map(|place| sockets_in(&place.path)).collect()
}

/// Connects without waiting for longer than `wait_max` if the other side is busy.
///
/// # Errors
/// No process listens, the other side stays busy, or the system refused.
pub(super) fn connect(path: &Path, wait_max: Duration) -> io::Result<UnixStream> {
    let start = Instant::now();
    let (socket, address) = (new_socket()?, address(path)?);
    loop {
        match rustix::net::connect(&socket, &address) {
            // The backlog is full.
            Err(Errno::AGAIN) if start.elapsed() < wait_max => std::thread::sleep(RETRY),
            Err(Errno::INTR) => {}
            result => return result.map(|()| UnixStream::from(socket)).map_err(Into::into),
        }
    }
}

fn in_default_directory(place: &StateDirectory, name: &str) -> anyhow::Result<ControlSocket> {
    place.make()?;
    let directory = &place.path;
    let _lock = lock(directory)?;
    for path in sockets_in(directory) {
        // What is live, or not ours to remove, stays.
        let _ = remove_stale(&path);
    }
    bind_new(&directory.join(name)).with_context(|| format!("in {}", directory.shown()))
}

/// `capture-PID.sock` and `drop-PID.sock`, by process id.
fn sockets_in(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let pid = |path: &Path| {
        let name = path.file_name()?.to_str()?;
        let (kind, pid) = name.strip_suffix(".sock")?.split_once('-')?;
        KINDS.contains(&kind).then(|| pid.parse::<u32>().ok()).flatten()
    };
    let paths = entries.take(ENTRIES_MAX).filter_map(|entry| Some(entry.ok()?.path()));
    let mut found: Vec<_> = paths.filter_map(|path| Some((pid(&path)?, path))).collect();
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}

/// Removes a socket on which no process listens. The directory is locked.
fn remove_stale(path: &Path) -> anyhow::Result<()> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.into()),
        Ok(metadata) if !metadata.file_type().is_socket() => {
            return Err(PlaceTaken::NoSocket.into());
        }
        Ok(_) => {}
    }
    match connect(path, Duration::ZERO) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).context("removing the socket of a dead process")
        }
        _ => Err(PlaceTaken::Listening.into()),
    }
}

/// Binds and listens; fails if the name is taken.
fn bind_new(path: &Path) -> anyhow::Result<ControlSocket> {
    let (socket, address) = (new_socket()?, address(path)?);
    // Before the name: the file gets this mode.
    fchmod(&socket, Mode::RUSR | Mode::WUSR).context("setting the mode")?;
    rustix::net::bind(&socket, &address).context("binding")?;
    rustix::net::listen(&socket, BACKLOG).context("listening")?;
    let metadata = std::fs::symlink_metadata(path)?;
    Ok(ControlSocket {
        listener: UnixListener::from(socket),
        path: path.to_owned(),
        identity: (metadata.dev(), metadata.ino()),
    })
}

fn new_socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?)
}

fn address(path: &Path) -> io::Result<SocketAddrUnix> {
    let length = path.as_os_str().len();
    if length == 0 || length > PATH_BYTES_MAX {
        let text = format!(
            "the name of a socket has 1 to {PATH_BYTES_MAX} bytes, this one {length}: name a \
             shorter path"
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    Ok(SocketAddrUnix::new(path)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn mode(path: &Path) -> u32 {
        std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn the_socket_is_for_its_owner_and_goes_with_its_process() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.sock");
        let socket = ControlSocket::bind(&path).unwrap();
        assert_eq!(mode(&path), 0o600);
        connect(&path, Duration::ZERO).unwrap();
        drop(socket);
        assert!(!path.exists());
    }

    #[test]
    fn a_stale_socket_is_replaced_and_a_live_one_never() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.sock");
        // A listener of the standard library leaves its file behind.
        drop(UnixListener::bind(&path).unwrap());
        let live = ControlSocket::bind(&path).unwrap();
        let error = format!("{:#}", ControlSocket::bind(&path).unwrap_err());
        assert!(error.contains("a running process listens there"), "{error}");
        // Also when its backlog is full.
        let waiting: Vec<_> = std::iter::from_fn(|| connect(&path, Duration::ZERO).ok()).collect();
        assert!(waiting.len() >= BACKLOG as usize, "{}", waiting.len());
        assert!(ControlSocket::bind(&path).is_err());
        live.listener.accept().unwrap();
    }

    #[test]
    fn another_socket_of_the_name_is_not_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.sock");
        let first = ControlSocket::bind(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let second = ControlSocket::bind(&path).unwrap();
        drop(first);
        connect(&second.path, Duration::ZERO).unwrap();
    }

    #[test]
    fn what_is_no_socket_and_what_cannot_be_one_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        std::fs::write(path("file"), "precious").unwrap();
        let long = "x".repeat(PATH_BYTES_MAX);
        for (name, word) in
            [("file", "no socket"), ("none/a", "No such file"), (&long, "name a shorter path")]
        {
            let error = format!("{:#}", ControlSocket::bind(&path(name)).unwrap_err());
            assert!(error.contains(word), "{error}");
        }
        assert_eq!(std::fs::read(path("file")).unwrap(), b"precious");
    }

    #[test]
    fn a_start_clears_the_default_directory_of_the_dead_only() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let live = ControlSocket::bind(&path("capture-10.sock")).unwrap();
        for name in ["capture-2.sock", "capture-x.sock", "share-2.sock"] {
            drop(UnixListener::bind(path(name)).unwrap());
        }
        std::fs::write(path("capture-3.sock"), "").unwrap();
        let place = StateDirectory::at(directory.path());
        let mine = in_default_directory(&place, "capture-9.sock").unwrap();
        let names = ["capture-3.sock", "capture-9.sock", "capture-10.sock"];
        assert_eq!(sockets_in(directory.path()), names.map(path));
        assert!(path("share-2.sock").exists() && path("capture-x.sock").exists());
        drop((live, mine));
    }
}
