//! Which process is at the other end of a connection: whose it is, as the kernel says.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Lines of the kernel's table of sockets that are looked at: a machine with more has a proxy.
const LINES_MAX: usize = 100_000;

/// The other end of a connection.
#[derive(Clone, Debug)]
pub struct Peer {
    /// What the log calls it.
    pub name: String,
    /// The user of the process; none if that is not known.
    pub uid: Option<u32>,
    /// True for a Unix socket: no browser reaches it, so no page can make one connect.
    pub is_local_socket: bool,
    /// Where its connection came from, by TCP.
    pub client: Option<SocketAddr>,
    /// Which address of ours it came to.
    pub server: Option<SocketAddr>,
}

impl Peer {
    /// By a Unix socket.
    pub fn local(uid: u32, pid: Option<i32>) -> Peer {
        let name = match pid {
            Some(pid) => format!("process {pid} of user {uid}"),
            None => format!("a process of user {uid}"),
        };
        Peer { name, uid: Some(uid), is_local_socket: true, client: None, server: None }
    }

    /// By TCP, from `client` to `server`, of whatever process.
    pub fn remote(client: SocketAddr, server: SocketAddr) -> Peer {
        Peer {
            name: client.to_string(),
            uid: None,
            is_local_socket: false,
            client: Some(client),
            server: Some(server),
        }
    }

    /// The same with the user of its process, which this host's kernel knows where no other host
    /// connects.
    pub async fn found(self) -> Peer {
        let (Some(client), Some(server)) = (self.client, self.server) else { return self };
        match tokio::task::spawn_blocking(move || owner(client, server)).await {
            Ok(Some(uid)) => {
                Peer { name: format!("{} of user {uid}", self.name), uid: Some(uid), ..self }
            }
            _ => self,
        }
    }

    /// The address of another host. Of this host all clients have one, and so have those that a
    /// proxy or a tunnel brings: what is counted by address is not counted of it.
    pub fn other_host(&self) -> Option<IpAddr> {
        let address = self.client?.ip().to_canonical();
        (!address.is_loopback()).then_some(address)
    }
}

/// The user of the process on this host that has the socket `client`, connected to `server`.
fn owner(client: SocketAddr, server: SocketAddr) -> Option<u32> {
    // A client of IPv4 has a socket of either family.
    ["/proc/net/tcp", "/proc/net/tcp6"].into_iter().find_map(|path| {
        let lines = BufReader::new(File::open(path).ok()?).lines();
        let lines = lines.skip(1).take(LINES_MAX).map_while(Result::ok);
        lines.filter_map(|line| entry(&line)).find_map(|(local, remote, uid)| {
            let is_it = (local, remote) == (plain(client), plain(server));
            is_it.then_some(uid)
        })
    })
}

/// Addresses and user of a line of /proc/net/tcp (`get_tcp4_sock` of net/ipv4/tcp_ipv4.c): each
/// address is words of 32 bits in the order of this machine.
fn entry(line: &str) -> Option<(SocketAddr, SocketAddr, u32)> {
    let mut words = line.split_whitespace();
    let local = address(words.nth(1)?)?;
    let remote = address(words.next()?)?;
    Some((local, remote, words.nth(4)?.parse().ok()?))
}

fn address(text: &str) -> Option<SocketAddr> {
    let (host, port) = text.split_once(':')?;
    let word = |at: usize| u32::from_str_radix(host.get(8 * at..8 * at + 8)?, 16).ok();
    let bytes = |at: usize| word(at).map(u32::to_ne_bytes);
    let ip: IpAddr = match host.len() {
        8 => Ipv4Addr::from(bytes(0)?).into(),
        32 => {
            let mut all = [0; 16];
            for (at, part) in all.chunks_exact_mut(4).enumerate() {
                part.copy_from_slice(&bytes(at)?);
            }
            Ipv6Addr::from(all).into()
        }
        _ => return None,
    };
    Some(plain(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?)))
}

/// Without the difference between IPv4 and IPv4 in IPv6.
fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_client_on_this_host_is_known_by_its_user() {
        for host in ["127.0.0.1:0", "[::1]:0"] {
            // A host without IPv6 has no such clients.
            let Ok(listener) = TcpListener::bind(host) else { continue };
            let server = listener.local_addr().unwrap();
            let stream = TcpStream::connect(server).unwrap();
            let client = stream.local_addr().unwrap();
            let uid = rustix::process::getuid().as_raw();
            assert_eq!(owner(client, server), Some(uid), "{host}");
            assert_eq!(owner(SocketAddr::new(client.ip(), 1), server), None);
        }
    }

    #[test]
    fn another_host_is_known_by_its_address() {
        for (client, address) in [
            ("192.0.2.1:1", Some("192.0.2.1")),
            ("[::ffff:192.0.2.1]:1", Some("192.0.2.1")),
            ("[2001:db8::1]:1", Some("2001:db8::1")),
            ("127.0.0.2:1", None),
            ("[::1]:1", None),
            ("[::ffff:127.0.0.1]:1", None),
        ] {
            let [client, server] = [client, "192.0.2.1:80"].map(|text| text.parse().unwrap());
            let address = address.map(|text| text.parse().unwrap());
            assert_eq!(Peer::remote(client, server).other_host(), address, "{client}");
        }
        assert_eq!(Peer::local(0, None).other_host(), None);
    }

    #[test]
    fn a_line_of_the_table_is_read_and_no_other_one() {
        let ip = u32::from_ne_bytes([127, 0, 0, 1]);
        let line = format!("  0: {ip:08X}:1F90 {ip:08X}:C350 01 00:00 00:0 00000000  1000 0 1");
        let (local, remote, uid) = entry(&line).unwrap();
        assert_eq!(
            (local.to_string(), remote.port(), uid),
            ("127.0.0.1:8080".into(), 50_000, 1000)
        );
        for line in ["", "0: 1:2 3:4", "0: 0100007F:XYZ 0100007F:1 01 0 0 0 5"] {
            assert_eq!(entry(line), None, "{line}");
        }
    }
}
