//! Where it listens, and who may connect at all.

use anyhow::{Context, bail, ensure};
use ringside_control::{ControlSocket, state_directory};
use ringside_core::Shown;
use std::fs::{Permissions, set_permissions};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::str::FromStr;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// Name of the socket in the first default directory that can be written.
const SOCKET_NAME: &str = "serve.sock";

/// Where to listen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Listen {
    /// At a Unix socket in the default directory.
    #[default]
    Default,
    /// At a Unix socket.
    Unix(PathBuf),
    /// By TCP.
    Tcp(SocketAddr),
}

impl FromStr for Listen {
    type Err = String;

    /// `unix:PATH`, `ADDRESS:PORT` or `localhost:PORT`.
    ///
    /// # Errors
    /// It is something else.
    fn from_str(text: &str) -> Result<Listen, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return match path {
                "" => Err("a path has to follow unix:".into()),
                path => Ok(Listen::Unix(path.into())),
            };
        }
        let numeric = text.replacen("localhost:", "127.0.0.1:", 1);
        let address = numeric.parse().map_err(|_| {
            "write ADDRESS:PORT, as 127.0.0.1:8080 or [::1]:8080, or unix:PATH".to_owned()
        })?;
        Ok(Listen::Tcp(address))
    }
}

impl Listen {
    /// True if other hosts can connect.
    pub fn reaches_others(&self) -> bool {
        match self {
            Listen::Default | Listen::Unix(_) => false,
            Listen::Tcp(address) => !address.ip().to_canonical().is_loopback(),
        }
    }

    /// Refuses to let other hosts in but encrypted and by tokens, and TLS where it has no use.
    ///
    /// # Errors
    /// One of the two is missing, with what to do.
    pub fn check(&self, has_tls: bool, has_tokens: bool) -> anyhow::Result<()> {
        let Listen::Tcp(address) = self else {
            ensure!(
                !has_tls,
                "a Unix socket speaks no TLS: leave out --tls-cert and --tls-key, or listen by \
                 TCP, as --listen 0.0.0.0:8443"
            );
            return Ok(());
        };
        let missing = match (has_tls, has_tokens) {
            _ if !self.reaches_others() => return Ok(()),
            (true, true) => return Ok(()),
            (false, false) => "neither is there",
            (false, true) => "TLS is missing",
            (true, false) => "tokens are missing",
        };
        bail!(
            "{address} can be reached from other hosts, which takes TLS (--tls-cert FILE --tls-key \
             FILE) and --tokens FILE, and {missing}: add them; or listen on 127.0.0.1 and reach it \
             by `ssh -L 8080:127.0.0.1:8080 HOST`, or on unix:PATH with --tokens behind a proxy \
             that speaks TLS"
        )
    }
}

/// A listening socket.
pub enum Listener {
    /// Of the file system; its name goes with it.
    Unix { listener: UnixListener, _name: ControlSocket },
    /// Of TCP.
    Tcp(TcpListener),
}

/// A connection.
pub enum Accepted {
    /// By a Unix socket.
    Unix(UnixStream),
    /// By TCP, from this address.
    Tcp(TcpStream, SocketAddr),
}

/// A socket before there is a runtime.
pub enum Bound {
    /// Of the file system.
    Unix(ControlSocket),
    /// Of TCP.
    Tcp(std::net::TcpListener),
}

impl Bound {
    /// Listens. A Unix socket is for the own user and root, and for everybody if `is_open`, who is
    /// then asked by the kernel who he is.
    ///
    /// # Errors
    /// The address is taken, or the system refused.
    pub fn at(listen: &Listen, is_open: bool) -> anyhow::Result<Bound> {
        let socket = match listen {
            Listen::Tcp(address) => {
                let listener = std::net::TcpListener::bind(address)
                    .with_context(|| format!("cannot listen at {address}"))?;
                return Ok(Bound::Tcp(listener));
            }
            Listen::Unix(path) => ControlSocket::bind(path)?,
            Listen::Default => in_default_directory()?,
        };
        if is_open {
            set_permissions(socket.path(), Permissions::from_mode(0o666))
                .context("opening the socket to other users")?;
        }
        Ok(Bound::Unix(socket))
    }

    /// Where it is, for people.
    pub fn shown(&self, has_tls: bool) -> String {
        match self {
            Bound::Unix(socket) => format!("unix:{}", socket.path().shown()),
            Bound::Tcp(listener) => match listener.local_addr() {
                Ok(address) if has_tls => format!("https://{address}/"),
                Ok(address) => format!("http://{address}/"),
                Err(error) => error.to_string(),
            },
        }
    }

    /// The port, of TCP.
    pub fn port(&self) -> Option<u16> {
        match self {
            Bound::Unix(_) => None,
            Bound::Tcp(listener) => listener.local_addr().ok().map(|address| address.port()),
        }
    }

    /// For the runtime of this thread.
    ///
    /// # Errors
    /// The system refused.
    pub fn listener(self) -> io::Result<Listener> {
        match self {
            Bound::Unix(socket) => {
                let listener = socket.listener()?;
                listener.set_nonblocking(true)?;
                let listener = UnixListener::from_std(listener)?;
                Ok(Listener::Unix { listener, _name: socket })
            }
            Bound::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                Ok(Listener::Tcp(TcpListener::from_std(listener)?))
            }
        }
    }
}

impl Listener {
    /// The next connection.
    ///
    /// # Errors
    /// The system has no descriptor, or the client has gone already.
    pub async fn accept(&self) -> io::Result<Accepted> {
        match self {
            Listener::Unix { listener, .. } => Ok(Accepted::Unix(listener.accept().await?.0)),
            Listener::Tcp(listener) => {
                let (stream, address) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Ok(Accepted::Tcp(stream, address))
            }
        }
    }
}

fn in_default_directory() -> anyhow::Result<ControlSocket> {
    let mut errors = Vec::new();
    for place in state_directory::candidates() {
        let socket = place.make().and_then(|()| ControlSocket::bind(&place.path.join(SOCKET_NAME)));
        match socket {
            Ok(socket) => return Ok(socket),
            Err(error) => errors.push(format!("{error:#}")),
        }
    }
    bail!("no default directory takes the socket: {}; name one: unix:PATH", errors.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_hosts_are_let_in_by_tls_and_tokens_alone() {
        let tcp = |text: &str| Listen::Tcp(text.parse().unwrap());
        for (text, listen) in [
            ("127.0.0.1:8080", tcp("127.0.0.1:8080")),
            ("localhost:8080", tcp("127.0.0.1:8080")),
            ("[::1]:8080", tcp("[::1]:8080")),
            ("[::ffff:127.0.0.1]:80", tcp("[::ffff:127.0.0.1]:80")),
            ("unix:a b", Listen::Unix("a b".into())),
        ] {
            assert_eq!(text.parse(), Ok(listen));
        }
        for text in ["127.0.0.1:80", "127.255.0.2:80", "[::1]:80", "[::ffff:127.0.0.2]:80"] {
            let listen: Listen = text.parse().unwrap();
            assert!(!listen.reaches_others(), "{text}");
            assert!(listen.check(false, false).is_ok() && listen.check(true, false).is_ok());
        }
        for text in [
            "0.0.0.0:80",
            "[::]:80",
            "192.0.2.1:80",
            "10.0.0.1:80",
            "[fe80::1]:80",
            "[::ffff:0.0.0.0]:80",
            "[::ffff:192.0.2.1]:80",
        ] {
            let listen: Listen = text.parse().unwrap();
            assert!(listen.reaches_others(), "{text}");
            assert!(listen.check(true, true).is_ok());
            for (has_tls, has_tokens) in [(false, false), (false, true), (true, false)] {
                let error = listen.check(has_tls, has_tokens).unwrap_err().to_string();
                for words in ["ssh -L", "--tokens", "--tls-cert"] {
                    assert!(error.contains(words), "{error}");
                }
            }
        }
        let socket: Listen = "unix:a".parse().unwrap();
        assert!(socket.check(false, false).is_ok() && !socket.reaches_others());
        for socket in [socket, Listen::Default] {
            let error = socket.check(true, true).unwrap_err().to_string();
            assert!(error.contains("leave out --tls-cert"), "{error}");
        }
        for text in ["", "unix:", "8080", "localhost", "example.com:80"] {
            assert!(Listen::from_str(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_socket_is_for_its_user_unless_others_are_named() {
        let folder = tempfile::tempdir().unwrap();
        for (is_open, mode) in [(false, 0o600), (true, 0o666)] {
            let path = folder.path().join("serve.sock");
            let _bound = Bound::at(&Listen::Unix(path.clone()), is_open).unwrap();
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, mode);
        }
    }
}
