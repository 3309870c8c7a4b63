//! A router whose tables have something of each kind, the same for the kernel and for the model.

use crate::net::Net;
use ringside_ebpf::route::{
    DevicePlace, Port, ReversePath, RouteProgram, RouteTables, egress_program,
};
use std::os::fd::{AsFd, OwnedFd};

pub const IN_MAC: [u8; 6] = [2, 0, 0, 0, 1, 1];
/// Addresses in the link layer of the interfaces, in the order of [`INTERFACES`].
pub const MACS: [[u8; 6]; 4] = [IN_MAC, [2, 0, 0, 0, 2, 1], [2, 0, 0, 0, 3, 1], [2, 0, 0, 0, 4, 1]];
/// `in0`, `out0` and `out1` are the router's, `other0` is not.
pub const INTERFACES: [&str; 4] = ["in0", "out0", "out1", "other0"];

/// The router `r` and the namespaces at the other ends: `a`, `b`, `c`, `d`.
pub fn testbed() -> Net {
    let net = Net::new(&["r", "a", "b", "c", "d"]);
    // No addresses that are local to a link: the router would speak by itself.
    net.sysctl("r", "net.ipv6.conf.default.addr_gen_mode", "1");
    for (index, far) in ["a", "b", "c", "d"].into_iter().enumerate() {
        let (number, interface) = (index + 1, INTERFACES[index]);
        net.sysctl(far, "net.ipv6.conf.all.disable_ipv6", "1");
        net.link(
            &format!("r/{interface}/02:00:00:00:0{number}:01"),
            &format!("{far}/far/02:00:00:00:0{number}:02"),
        );
        net.ips(
            "r",
            &[
                &format!("addr add 10.{number}.0.1/24 dev {interface}"),
                &format!("addr add fd0{number}::1/64 dev {interface} nodad"),
            ],
        );
        for host in ["10.N.0.2", "10.N.0.5", "fd0N::2", "fd0N::5"] {
            let host = host.replace('N', &number.to_string());
            let mac = format!("02:00:00:00:0{number}:0{}", &host[host.len() - 1..]);
            net.ip("r", &format!("neigh add {host} lladdr {mac} dev {interface} nud permanent"));
        }
    }
    net.ips("r", &ROUTES);
    for (key, value) in [
        ("net.ipv4.conf.all.forwarding", "1"),
        ("net.ipv6.conf.all.forwarding", "1"),
        ("net.ipv4.fib_multipath_hash_policy", "1"),
        ("net.ipv6.fib_multipath_hash_policy", "1"),
        ("net.ipv4.conf.all.send_redirects", "0"),
        ("net.ipv4.conf.in0.send_redirects", "0"),
        ("net.ipv4.icmp_ratelimit", "0"),
        ("net.ipv6.icmp.ratelimit", "0"),
    ] {
        net.sysctl("r", key, value);
    }
    net
}

/// What the model knows too (`model.rs`).
const ROUTES: [&str; 21] = [
    "route add 198.18.0.0/16 via 10.2.0.2",
    "route add 198.19.0.0/16 nexthop via 10.2.0.2 nexthop via 10.3.0.2",
    "route add 198.20.0.0/16 via inet6 fd02::2 dev out0",
    "route add blackhole 198.51.100.0/24",
    "route add unreachable 198.51.101.0/24",
    "route add prohibit 198.51.102.0/24",
    "route add 203.0.113.0/24 via 10.2.0.2 mtu lock 600",
    "route add 192.0.2.0/24 via 10.2.0.9",
    "route add 100.64.0.0/10 via 10.4.0.2",
    "rule add from 10.1.0.77 lookup 100",
    "route add 198.18.0.0/16 via 10.3.0.2 table 100",
    "-6 route add 2001:db8:1::/48 via fd02::2",
    "-6 route add 2001:db8:2::/48 nexthop via fd02::2 nexthop via fd03::2",
    "-6 route add blackhole 2001:db8:3::/48",
    "-6 route add unreachable 2001:db8:4::/48",
    "-6 route add prohibit 2001:db8:5::/48",
    "-6 route add 2001:db8:6::/48 via fd02::2 mtu lock 1280",
    "-6 route add 2001:db8:7::/48 via fd02::9",
    "-6 route add 2001:db8:8::/48 via fd04::2",
    "-6 rule add from fd01::77 lookup 100",
    "-6 route add 2001:db8:1::/48 via fd03::2 table 100",
];

/// The program as if on `in0`, for test runs.
pub struct Loaded {
    pub tables: RouteTables,
    pub program: RouteProgram,
    /// Numbers of the interfaces.
    pub ifindexes: [u32; 4],
    _out: Vec<OwnedFd>,
}

impl Loaded {
    /// To be called in the router's namespace.
    pub fn new(ifindexes: [u32; 4], reverse_path: ReversePath) -> Loaded {
        Loaded::with(ifindexes, reverse_path, false)
    }

    /// The same, as it is pinned if it `stays`.
    pub fn with(ifindexes: [u32; 4], reverse_path: ReversePath, stays: bool) -> Loaded {
        let tables = RouteTables::new().unwrap();
        let mut all_out = Vec::new();
        for slot in 0..3u32 {
            let out = egress_program(&tables, slot).unwrap();
            let mac = MACS[slot as usize];
            let ifindex = ifindexes[slot as usize];
            let port = Port { ifindex, mac, reverse_path, asks_for_ports: true, vlan: 0 };
            tables.set_port(slot, &port).unwrap();
            tables.join(slot, (ifindex, ifindex), out.as_fd()).unwrap();
            all_out.push(out);
        }
        let program = {
            let place = DevicePlace { device: 0, slot: Some(0) };
            RouteProgram::unattached(&tables, place, false, stays).unwrap()
        };
        Loaded { tables, program, ifindexes, _out: all_out }
    }
}

/// Numbers of the router's interfaces.
pub fn ifindexes(net: &Net) -> [u32; 4] {
    INTERFACES.map(|interface| net.ifindex("r", interface))
}
