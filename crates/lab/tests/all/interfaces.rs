//! What netlink says of interfaces, asked of a veth pair.

use crate::common::{config, tool};
use ringside_lab::{Lab, LabConfig, Napi};
use ringside_netdev::{self as netdev, NapiSettings};
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

#[test]
fn napis_are_read_and_set_one_by_one() {
    let test = "napis_are_read_and_set_one_by_one";
    if !need_root(test) {
        return;
    }
    let lab = Lab::up(&LabConfig { queues: 2, napi: Napi::Pinned(0), ..config("napis") }).unwrap();
    inside(&lab, || {
        let ifindex = netdev::by_name("rx0").unwrap().unwrap().ifindex;
        let found = netdev::napis(ifindex).unwrap();
        let Some(settings) = found.first().and_then(|napi| napi.settings) else {
            ringside_testkit::skip(test, "a kernel before 6.13");
            return;
        };
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found.iter().all(|napi| napi.thread.is_some()), "{found:?}");
        assert_eq!(settings.defer_hard_irqs, 0);
        let receiving = |queue: &&netdev::Queue| queue.receives;
        assert_eq!(netdev::queue_list(ifindex).unwrap().iter().filter(receiving).count(), 2);
        let wanted = NapiSettings {
            defer_hard_irqs: 2,
            gro_flush_timeout_ns: 200_000,
            irq_suspend_timeout_ns: 5,
            ..settings
        };
        netdev::set_napi(found[0].id, wanted).unwrap();
        let now = netdev::napis(ifindex).unwrap();
        assert_eq!((now[0].settings, now[1].settings), (Some(wanted), Some(settings)));
        assert!(netdev::napis(ifindex + 1000).is_err());
    });
}

#[test]
fn queues_and_features_are_read_and_set() {
    if !need_root("queues_and_features_are_read_and_set") {
        return;
    }
    // With a program on it, veth wants at least as many queues as the other end sends on.
    let lab = Lab::up(&LabConfig { queues: 2, xdp_pass: false, ..config("channels") }).unwrap();
    inside(&lab, || {
        let before = netdev::channels("rx0").unwrap();
        assert_eq!((before.receiving(), before.receiving_max()), (2, 2), "{before:?}");
        netdev::set_channels("rx0", before.with_receiving(1)).unwrap();
        assert_eq!(netdev::channels("rx0").unwrap().receiving(), 1);
        assert!(netdev::set_channels("rx0", before.with_receiving(3)).is_err());
        netdev::set_channels("rx0", before).unwrap();
        assert_eq!(netdev::channels("rx0").unwrap(), before);
        let is_on = || netdev::features("rx0").unwrap().active.contains("rx-gro");
        assert!(!is_on());
        netdev::set_feature("rx0", "rx-gro", true).unwrap();
        assert!(is_on());
        netdev::set_feature("rx0", "rx-gro", false).unwrap();
        assert!(!is_on());
        assert!(netdev::set_feature("rx0", "rx-none", true).is_err());
        let refusal = netdev::ring_sizes("rx0").unwrap_err().to_string();
        assert!(refusal.contains("rx0"), "{refusal}");
        assert!(netdev::rss("rx0").is_err());
    });
}
