//! A balancer on an interface, changed.

use super::support::OURS;
use super::support::frames::{ACK, End, SYN, end, tcp};
use ringside_balancer::{DriverBalancer, Options, SetState, Setting};
use ringside_sys::netns::Namespace;
use ringside_sys::packet_tx::PacketTx;
use ringside_testkit::{need_root, wait_until};
use std::path::Path;
use std::process::Command;

/// Flows that are sent, none of which is remembered.
const FLOWS: u16 = 100;
const REAL: &str = "10.0.0.51";

/// Puts this thread into a namespace of its own with a veth pair, and gives the number of its far
/// end; both go with the thread.
fn enter_namespace() -> u32 {
    let ip = |words: &str| {
        let output = Command::new("ip").args(words.split(' ')).output().unwrap();
        assert!(output.status.success(), "ip {words}: {output:?}");
    };
    let name = format!("ringside-balancer-{}", std::process::id());
    ip(&format!("netns add {name}"));
    Namespace::open(&name).unwrap().enter().unwrap();
    ip(&format!("netns del {name}"));
    ip(&format!("link add near address {OURS} type veth peer name far"));
    ip("link set near up");
    ip("link set far up");
    let far = || ringside_netdev::by_name("far").unwrap().unwrap();
    wait_until("the link", || far().is_up());
    far().ifindex
}

fn configure(path: &Path) {
    let mut text = "source_v4 = \"10.9.0.0/16\"\nnew_flows_per_second_max = 0\n[[vip]]\n\
                    name = \"web\"\naddress = \"192.0.2.1\"\nprotocol = \"tcp\"\nslots = 1021\n"
        .to_owned();
    for real in [REAL, "10.0.0.52"] {
        let hop = "next_hop = \"02:00:00:00:00:33\"";
        text += &format!("[[vip.real]]\naddress = \"{real}\"\n{hop}\n");
    }
    std::fs::write(path, text).unwrap();
}

/// Sends a packet of each flow; of these how many went to the real.
fn sent(balancer: &DriverBalancer, far: &PacketTx, flags: u16) -> u64 {
    let at_real = || {
        let reals = balancer.ledger().vips.remove(0).reals;
        reals.into_iter().find(|real| real.address.to_string() == REAL).unwrap().frames
    };
    let fates = || balancer.ledger().vips[0].counts["forwarded"];
    let (before, all) = (at_real(), fates() + u64::from(FLOWS));
    for port in 1..=FLOWS {
        let frame = tcp(End([198, 51, 100, 7].into(), port), end("192.0.2.1 80"), flags, 10);
        while far.send_batch(&[&frame]).unwrap() == 0 {}
    }
    wait_until("the frames", || fates() >= all);
    at_real() - before
}

#[test]
fn what_is_set_and_saved_is_one_change_and_what_cannot_be_saved_is_none() {
    if !need_root("what_is_set_and_saved_is_one_change_and_what_cannot_be_saved_is_none") {
        return;
    }
    let far = PacketTx::open(enter_namespace(), true).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("balance.toml");
    configure(&config);
    let (mut balancer, _) = DriverBalancer::open(&Options {
        interface: "near".to_owned(),
        config: config.clone(),
        generic_allowed: false,
        is_pinned: false,
        is_detached: false,
    })
    .unwrap();
    let drain = |real: &str| Setting {
        vip: "web".to_owned(),
        real: real.parse().unwrap(),
        state: Some(SetState::Draining),
        drain_s: None,
        weight: None,
    };
    let begun = sent(&balancer, &far, SYN);
    assert!((20..80).contains(&begun), "{begun}");
    balancer.set_and_save(&drain(REAL)).unwrap();
    assert!(std::fs::read_to_string(&config).unwrap().contains("state = \"draining\""));
    // The window of the change counts: connections stay where the tables before had them.
    assert_eq!(sent(&balancer, &far, ACK), begun);
    assert_eq!(sent(&balancer, &far, SYN), 0);

    std::fs::write(&config, "mtu = 1").unwrap();
    balancer.set_and_save(&drain("10.0.0.52")).unwrap_err();
    assert!(balancer.ledger().vips[0].reals.iter().any(|real| real.state == "up"));
    std::fs::remove_file(&config).unwrap();
    balancer.set_and_save(&drain("10.0.0.52")).unwrap_err();
    let reals = balancer.ledger().vips.remove(0).reals;
    let states: Vec<&str> = reals.iter().map(|real| real.state.as_str()).collect();
    assert_eq!(states, ["draining", "up"], "what cannot be saved is not set either");
}
