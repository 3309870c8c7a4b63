use super::*;
use crate::netlink::message::messages;
use crate::netlink::message::tests::message;

fn device(ifindex: u32, name: &str) -> NetDevice {
    NetDevice { ifindex, name: name.into(), ..NetDevice::default() }
}

fn texts(uses: &[Use]) -> Vec<String> {
    uses.iter().map(ToString::to_string).collect()
}

#[test]
fn members_and_what_stands_on_an_interface_use_it() {
    let kind = |kind: &str| Some(kind.to_owned());
    let port = NetDevice { master: Some(9), member_kind: kind("bridge"), ..device(2, "eth1") };
    let vlan = NetDevice { link: Some(2), kind: kind("vlan"), ..device(3, "eth1.5") };
    let pair = NetDevice { link: Some(2), kind: kind("veth"), ..device(4, "peer") };
    let other = NetDevice { link: Some(2), link_is_elsewhere: true, ..device(5, "far") };
    let unknown = NetDevice { master: Some(77), ..device(6, "eth2") };
    let free = device(7, "eth3");
    let bridge = NetDevice { kind: kind("bridge"), ..device(9, "br0") };
    let all = [port, vlan, pair, other, unknown, free, bridge];
    let of = |name: &str| {
        let device = all.iter().find(|device| device.name == name).unwrap();
        texts(&uses_of_links(device, &all))
    };
    let expected = ["it is a member of the bridge br0", "the vlan eth1.5 stands on it"];
    assert_eq!(of("eth1"), expected);
    assert_eq!(of("eth2"), ["it is a member of interface 77"]);
    assert!(of("eth3").is_empty());
}

fn address_message(ifindex: u32, prefix: u8, parts: &[(u16, &[u8])]) -> Vec<u8> {
    let mut body = vec![2, prefix, 0, 0];
    body.extend(ifindex.to_ne_bytes());
    parts.iter().for_each(|(kind, value)| {
        body.extend(((4 + value.len()) as u16).to_ne_bytes());
        body.extend(kind.to_ne_bytes());
        body.extend(*value);
    });
    message(libc::RTM_NEWADDR, &body)
}

#[test]
fn the_own_address_counts_but_not_one_that_came_by_itself() {
    let read = |bytes: &[u8]| read_address(&messages(bytes).next().unwrap().unwrap(), 7).unwrap();
    let own = address_message(7, 24, &[(1, &[10, 0, 0, 2]), (2, &[10, 0, 0, 1])]);
    assert_eq!(texts(&Vec::from_iter(read(&own))), ["it has the address 10.0.0.1/24"]);
    assert_eq!(read(&address_message(8, 24, &[(1, &[10, 0, 0, 2])])), None);
    let mut v6 = [0; 16];
    (v6[0], v6[1], v6[15]) = (0xfe, 0x80, 1);
    assert_eq!(read(&address_message(7, 64, &[(1, &v6)])), None);
    v6[0] = 0x20;
    assert_eq!(
        texts(&Vec::from_iter(read(&address_message(7, 64, &[(1, &v6)])))),
        ["it has the address 2080::1/64"]
    );
}

/// A route with RTA_DST, then what `rest` says.
fn route_message(bits: u8, protocol: u8, kind: u8, rest: &[u8]) -> Vec<u8> {
    let mut body = vec![2, bits, 0, 0, 254, protocol, 0, kind, 0, 0, 0, 0];
    if bits > 0 {
        body.extend([8, 0, 1, 0, 10, 1, 0, 0]);
    }
    body.extend(rest);
    message(libc::RTM_NEWROUTE, &body)
}

#[test]
fn routes_count_unless_they_follow_from_an_address() {
    let read = |bytes: &[u8]| {
        let found = read_route(&messages(bytes).next().unwrap().unwrap(), 7).unwrap();
        found.map(|found| found.to_string())
    };
    let out = [8, 0, 4, 0, 7, 0, 0, 0];
    let static_route = libc::RTPROT_STATIC;
    let default = read(&route_message(0, static_route, 1, &out));
    assert_eq!(default.as_deref(), Some("the default route leads out of it"));
    let network = read(&route_message(16, static_route, 1, &out));
    assert_eq!(network.as_deref(), Some("the route to 10.1.0.0/16 leads out of it"));
    assert_eq!(read(&route_message(16, libc::RTPROT_KERNEL, 1, &out)), None);
    assert_eq!(read(&route_message(16, static_route, libc::RTN_LOCAL, &out)), None);
    assert_eq!(read(&route_message(16, static_route, 1, &[8, 0, 4, 0, 8, 0, 0, 0])), None);
    let mut hops = vec![20, 0, 9, 0];
    hops.extend([8, 0, 0, 0, 6, 0, 0, 0]);
    hops.extend([8, 0, 0, 0, 7, 0, 0, 0]);
    assert!(read(&route_message(0, static_route, 1, &hops)).is_some());
    hops[4] = 0;
    assert!(read(&route_message(0, static_route, 1, &hops)).is_some(), "a length of 0 goes on");
}

#[test]
fn the_loopback_interface_is_used() {
    let found = uses("lo").unwrap();
    assert_eq!(found.first(), Some(&Use::Loopback));
    assert!(uses("rsafp-none").unwrap().is_empty());
}

#[test]
fn mutated_answers_end() {
    let seeds = [
        address_message(7, 24, &[(1, &[10, 0, 0, 2]), (2, &[10, 0, 0, 1])]),
        route_message(16, 4, 1, &[20, 0, 9, 0, 8, 0, 0, 0, 6, 0, 0, 0, 8, 0, 0, 0, 7, 0, 0, 0]),
    ];
    ringside_testkit::fuzz("netlink-uses", 500_000, &seeds, |input| {
        for message in messages(input).flatten() {
            let _ = read_address(&message, 7);
            let _ = read_route(&message, 7);
        }
    });
}
