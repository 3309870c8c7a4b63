//! By which names the service may be asked: a name that somebody else made lead here is not one.

use crate::identity::Tls;
use axum::http::uri::Authority;
use std::net::{IpAddr, SocketAddr};

/// Ports that clients leave out of a name.
const HTTP_PORT: u16 = 80;
const HTTPS_PORT: u16 = 443;

/// Names by which it may be asked over TCP.
#[derive(Debug)]
pub struct Hosts {
    port: u16,
    /// In small letters, and as a proxy hands them on.
    others: Vec<String>,
}

impl Hosts {
    /// Of a service at `port`; `others` are further names.
    pub fn new(port: u16, others: &[String]) -> Hosts {
        Hosts { port, others: others.iter().map(|host| host.to_ascii_lowercase()).collect() }
    }

    /// True if `host`, in small letters, is one of them: this host's own names with the port, the
    /// address `server` that its connection came to, those of the certificate at whatever port
    /// leads here, and the others as they were written.
    pub fn hold(&self, host: &str, server: Option<SocketAddr>, tls: Option<&Tls>) -> bool {
        if self.others.iter().any(|other| other == host) {
            return true;
        }
        let Ok(authority) = host.parse::<Authority>() else { return false };
        if host.contains('@') {
            return false;
        }
        let name = authority.host();
        if tls.is_some_and(|tls| tls.identity().names.hold(name)) {
            return true;
        }
        let usual_port = if tls.is_some() { HTTPS_PORT } else { HTTP_PORT };
        let address: Option<IpAddr> =
            name.trim_start_matches('[').trim_end_matches(']').parse().ok();
        let is_server =
            address.is_some_and(|name| server.is_some_and(|it| it.ip().to_canonical() == name));
        let is_own = ["127.0.0.1", "localhost", "[::1]"].contains(&name) || is_server;
        is_own && authority.port_u16().unwrap_or(usual_port) == self.port
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_names_want_their_port_and_others_are_as_written() {
        let hosts = Hosts::new(8080, &["Ringside.example".into()]);
        let server = Some("192.0.2.1:8080".parse().unwrap());
        for host in
            ["127.0.0.1:8080", "localhost:8080", "[::1]:8080", "192.0.2.1:8080", "ringside.example"]
        {
            assert!(hosts.hold(host, server, None), "{host}");
        }
        for host in [
            "",
            "127.0.0.1",
            "localhost:80",
            "192.0.2.2:8080",
            "ringside.example:8080",
            "x@localhost:8080",
            "evil.example:8080",
        ] {
            assert!(!hosts.hold(host, server, None), "{host}");
        }
        assert!(Hosts::new(80, &[]).hold("localhost", None, None), "clients leave this port out");
    }
}
