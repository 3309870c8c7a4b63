//! Which collector, as users write it.

use crate::error::ExportError;
use ringside_flow::Format;
use std::fmt::{self, Display, Formatter};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;

/// Port of IPFIX, by IANA.
const IPFIX_PORT: u16 = 4739;
/// Port of NetFlow that exporters and collectors have by default.
const NETFLOW_PORT: u16 = 2055;

/// A collector: `udp:HOST[:PORT]`, `tcp:HOST[:PORT]` or `file:PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A message is a datagram.
    Udp(Host),
    /// Messages one after the other.
    Tcp(Host),
    /// The same in a file (RFC 5655).
    File(PathBuf),
}

/// A host by name or address, and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Name, or address without brackets.
    pub name: String,
    /// If none was given: 4739 for IPFIX, 2055 for NetFlow.
    pub port: Option<u16>,
}

impl Host {
    /// Where messages of this format go.
    pub fn port_for(&self, format: Format) -> u16 {
        self.port.unwrap_or(if format.is_ipfix() { IPFIX_PORT } else { NETFLOW_PORT })
    }

    /// Its addresses, in the order in which they should be tried; at least one. May take as long as
    /// the system's resolver does.
    pub(crate) fn resolve(&self, format: Format) -> io::Result<Vec<SocketAddr>> {
        let found: Vec<_> =
            (self.name.as_str(), self.port_for(format)).to_socket_addrs()?.collect();
        if found.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
        }
        Ok(found)
    }
}

impl FromStr for Address {
    type Err = ExportError;

    /// # Errors
    /// [`ExportError::Address`].
    fn from_str(text: &str) -> Result<Address, ExportError> {
        let wrong = |reason| ExportError::Address { text: text.to_owned(), reason };
        match text.split_once(':') {
            Some(("udp", rest)) => host(rest).map(Address::Udp).map_err(wrong),
            Some(("tcp", rest)) => host(rest).map(Address::Tcp).map_err(wrong),
            Some(("file", "")) => Err(wrong("the path is missing")),
            Some(("file", path)) => Ok(Address::File(path.into())),
            _ => Err(wrong("it does not begin with udp:, tcp: or file:")),
        }
    }
}

/// `HOST`, `HOST:PORT`, `[ADDRESS]` or `[ADDRESS]:PORT`; else what is wrong.
fn host(text: &str) -> Result<Host, &'static str> {
    let (name, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (name, port) = rest.split_once(']').ok_or("a bracket is not closed")?;
            let port = match port {
                "" => None,
                _ => Some(port.strip_prefix(':').ok_or("what follows the bracket is no port")?),
            };
            (name, port)
        }
        None => match text.split_once(':') {
            Some((_, port)) if port.contains(':') => return Err("it has too many colons"),
            Some((name, port)) => (name, Some(port)),
            None => (text, None),
        },
    };
    if name.is_empty() {
        return Err("the host is missing");
    }
    let port = port.map(|port| match port.parse() {
        Ok(0) | Err(_) => Err("the port is no number from 1 to 65535"),
        Ok(port) => Ok(port),
    });
    Ok(Host { name: name.to_owned(), port: port.transpose()? })
}

impl Display for Host {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.name.contains(':') {
            true => write!(f, "[{}]", self.name)?,
            false => f.write_str(&self.name)?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl Display for Address {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Address::Udp(host) => write!(f, "udp:{host}"),
            Address::Tcp(host) => write!(f, "tcp:{host}"),
            Address::File(path) => write!(f, "file:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collectors_are_read_and_written_back() {
        let cases = [
            ("udp:127.0.0.1:9995", Some(9995)),
            ("udp:collector.example", None),
            ("tcp:[2001:db8::1]:4740", Some(4740)),
            ("tcp:[::1]", None),
        ];
        for (text, port) in cases {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
            let (Address::Udp(host) | Address::Tcp(host)) = address else { panic!("{text}") };
            assert_eq!(host.port, port);
            assert_eq!(host.port_for(Format::IpfixNanoseconds), port.unwrap_or(4739));
            assert_eq!(host.port_for(Format::Netflow5), port.unwrap_or(2055));
        }
        assert_eq!("file:a:b".parse::<Address>().unwrap(), Address::File("a:b".into()));
    }

    #[test]
    fn what_is_no_collector_is_refused_with_the_reason() {
        let cases = [
            ("127.0.0.1:9995", "begin with"),
            ("sctp:a:1", "begin with"),
            ("udp:", "host is missing"),
            ("udp::2055", "host is missing"),
            ("tcp:[]:1", "host is missing"),
            ("udp:::1", "colons"),
            ("udp:[::1", "not closed"),
            ("udp:[::1]2055", "bracket is no port"),
            ("tcp:a:0", "port"),
            ("tcp:a:65536", "port"),
            ("tcp:a:", "port"),
            ("file:", "path"),
        ];
        for (text, reason) in cases {
            let error = text.parse::<Address>().unwrap_err().to_string();
            assert!(error.contains(text) && error.contains(reason), "{error}");
        }
    }
}
