//! What netlink says of interfaces, asked of a veth pair.

mod common;

use common::{config, tool};
use ringside_lab::{Lab, LabConfig};
use ringside_sys::netdev;
use ringside_sys::netns::Namespace;
use ringside_testkit::need_root;

/// Asks `question` in the namespace of the receiving end.
fn inside<T: Send>(lab: &Lab, question: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let namespace = Namespace::open(&lab.status().receiver_namespace);
            namespace.expect("the namespace").enter().expect("root");
            question()
        });
        thread.join().expect("an answer")
    })
}

#[test]
fn a_driver_says_what_it_can_do_for_xdp() {
    if !need_root("a_driver_says_what_it_can_do_for_xdp") {
        return;
    }
    let lab = Lab::up(&config("features")).unwrap();
    let (features, programs) = inside(&lab, || {
        let device = netdev::by_name("rx0").unwrap().unwrap();
        (netdev::xdp_features(device.ifindex).unwrap(), device.xdp_programs)
    });
    assert_eq!(programs.len(), 1, "the one of the lab");
    let Some(features) = features else {
        ringside_testkit::skip("a_driver_says_what_it_can_do_for_xdp", "a kernel before 6.3");
        return;
    };
    assert!(features.native && features.redirect && features.receive_fragments, "{features:?}");
    assert!(!features.zero_copy && features.zero_copy_pieces_max <= 1, "{features:?}");
}

#[test]
fn the_host_uses_what_has_addresses_routes_masters_and_riders() {
    if !need_root("the_host_uses_what_has_addresses") {
        return;
    }
    let lab = Lab::up(&LabConfig { addresses: false, ..config("uses") }).unwrap();
    let ip = |line: &str| tool(&format!("ip -n {} {line}", lab.status().receiver_namespace));
    let uses = |name: &str| {
        let found = inside(&lab, || netdev::uses(name).unwrap());
        found.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert!(uses("rx0").is_empty(), "{:?}", uses("rx0"));
    ip("address add 10.99.0.2/24 dev rx0");
    assert_eq!(uses("rx0"), ["it has the address 10.99.0.2/24"]);
    ip("route add default via 10.99.0.1");
    ip("route add 10.1.0.0/16 nexthop via 10.99.0.1 dev rx0 nexthop via 10.99.0.3 dev rx0");
    let expected = [
        "it has the address 10.99.0.2/24",
        "the default route leads out of it",
        "the route to 10.1.0.0/16 leads out of it",
    ];
    assert_eq!(uses("rx0"), expected);
    ip("address flush dev rx0");
    ip("link add link rx0 name mac0 type macvlan");
    assert_eq!(uses("rx0"), ["the macvlan mac0 stands on it"]);
    ip("link del mac0");
    ip("link add br0 type bridge");
    ip("link set rx0 master br0");
    assert_eq!(uses("rx0"), ["it is a member of the bridge br0"]);
    assert!(uses("br0").is_empty());
}
