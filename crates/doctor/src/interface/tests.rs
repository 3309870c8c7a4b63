use super::*;

fn only(check: impl FnOnce(&mut Checks)) -> Check {
    let mut checks = Checks::of("eth1");
    check(&mut checks);
    let mut found = checks.into_vec();
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

#[test]
fn queues_are_compared_with_cpus() {
    let card = |combined| Channels { combined, combined_max: 8, ..Channels::default() };
    let cases = [
        (card(4), 4, State::Ok, ""),
        (card(1), 4, State::Warning, "ethtool -L eth1 combined 4"),
        (card(8), 2, State::Warning, "ethtool -L eth1 combined 2"),
        (card(8), 64, State::Ok, ""),
        (
            Channels { rx: 1, rx_max: 2, ..Channels::default() },
            2,
            State::Warning,
            "ethtool -L eth1 rx 2",
        ),
    ];
    for (channels, cpus, state, fix) in cases {
        let check = only(|checks| queues(checks, "eth1", channels, cpus, true));
        assert_eq!((check.state, check.fix.unwrap_or_default().as_str()), (state, fix));
        assert_eq!(check.fixable, state != State::Ok);
        let check = only(|checks| queues(checks, "eth1", channels, cpus, false));
        assert!(!check.fixable, "the host uses it");
    }
}

#[test]
fn rings_and_links() {
    let ring_of = |rx| only(|checks| ring(checks, "eth1", RingSizes { rx, rx_max: 4096 }, true));
    assert_eq!(ring_of(4096).state, State::Ok);
    assert_eq!(ring_of(256).fix.as_deref(), Some("ethtool -G eth1 rx 4096"));
    let up = NetDevice { flags: libc::IFF_UP as u32, carrier: true, ..NetDevice::default() };
    assert_eq!(only(|checks| link(checks, &up)).state, State::Ok);
    let no_carrier = NetDevice { carrier: false, ..up.clone() };
    assert_eq!(only(|checks| link(checks, &no_carrier)).state, State::Problem);
    let down = NetDevice { flags: 0, ..up };
    assert_eq!(only(|checks| link(checks, &down)).state, State::Problem);
}

#[test]
fn offloads_are_in_the_way_if_they_can_be_turned_off() {
    let features = |active: &[&str], changeable: &[&str]| Features {
        active: active.iter().map(ToString::to_string).collect(),
        changeable: changeable.iter().map(ToString::to_string).collect(),
    };
    let states = |features: Features| {
        let mut checks = Checks::of("eth1");
        offloads(&mut checks, "eth1", &features);
        let found = checks.into_vec();
        found.into_iter().map(|check| (check.name, check.state, check.fixable)).collect::<Vec<_>>()
    };
    assert_eq!(
        states(features(&["rx-gro"], &["rx-gro", "rx-lro"])),
        [("gro", State::Problem, true), ("lro", State::Ok, false)]
    );
    assert_eq!(states(features(&["rx-gro-hw"], &[])), [("rx-gro-hw", State::Warning, false)]);
    let stripping = features(&[VLAN_STRIPPING], &[VLAN_STRIPPING]);
    assert_eq!(only(|checks| vlan(checks, "eth1", &stripping, true)).state, State::Ok);
    assert!(only(|checks| vlan(checks, "eth1", &stripping, false)).fixable);
    assert_eq!(only(|checks| vlan(checks, "eth1", &features(&[], &[]), false)).state, State::Ok);
}

#[test]
fn spreading_is_fixed_by_key_or_transformation() {
    let rss = Rss { function: 1, key: vec![1, 2, 3], ..Rss::default() };
    let check = only(|checks| spreading(checks, "eth1", &rss, 4));
    assert_eq!(check.fix.as_deref(), Some("ethtool -X eth1 hkey 6d:5a:6d"));
    assert!(check.fixable);
    let without = Rss { key: Vec::new(), ..rss.clone() };
    let check = only(|checks| spreading(checks, "eth1", &without, 4));
    assert_eq!(check.fix.as_deref(), Some("ethtool -X eth1 xfrm symmetric-xor, if the driver can"));
    assert!(!check.fixable);
    assert_eq!(only(|checks| spreading(checks, "eth1", &rss, 1)).state, State::Ok);
    assert_eq!(only(|checks| spreading(checks, "eth1", &rss.symmetric(), 4)).state, State::Ok);
}

#[test]
fn drivers() {
    let states = |xdp: Option<XdpFeatures>| {
        let mut checks = Checks::of("eth1");
        driver(&mut checks, "igb", xdp);
        checks.into_vec().into_iter().map(|check| (check.name, check.state)).collect::<Vec<_>>()
    };
    assert_eq!(states(None), [("xdp", State::Warning)]);
    assert_eq!(states(Some(XdpFeatures::default())), [("xdp", State::Warning)]);
    let all = XdpFeatures {
        native: true,
        redirect: true,
        zero_copy: true,
        metadata_hash: true,
        ..XdpFeatures::default()
    };
    let good = [("xdp", State::Ok), ("zero-copy", State::Ok), ("metadata", State::Ok)];
    assert_eq!(states(Some(all)), good);
}
