//! `ringside balance`: a configuration checked, at work, and changed.

mod connections;
mod crashes;
mod health;
mod link;

use crate::common::folder::Folder;
use crate::common::*;
use ringside_balancer::Ledger;
use ringside_testkit::need_root;
use ringside_wire::build::{self, Ipv4Fields};
use ringside_wire::checksum::Addresses;
use ringside_wire::{EtherType, IpProtocol, MacAddr, Port};
use std::process::Command;

const FRAMES: u16 = 500;

fn text(reals: &[&str]) -> String {
    let mut text =
        "source_v4 = \"10.9.0.0/16\"\n[[vip]]\nname = \"dns\"\nslots = 1021\n".to_owned();
    text += "address = \"192.0.2.1\"\nport = 53\nprotocol = \"udp\"\n";
    for real in reals {
        let hop = "next_hop = \"02:00:00:00:00:33\"";
        text += &format!("[[vip.real]]\naddress = \"{real}\"\n{hop}\n");
    }
    text
}

/// Questions of as many clients to the VIP, by way of this hardware address.
fn questions(mac: MacAddr) -> Vec<Vec<u8>> {
    let (source, destination) = ([198, 51, 100, 7].into(), [192, 0, 2, 1].into());
    let one = |port: u16| {
        let mut segment = vec![7; 40];
        let addresses = Addresses::V4 { source, destination };
        build::udp(&mut segment, addresses, Port(1000 + port), Port(53)).unwrap();
        let mut frame = vec![0; 34];
        build::ethernet(&mut frame, mac, MacAddr([2; 6]), EtherType::IPV4).unwrap();
        let (protocol, id, ttl, dont_fragment) = (IpProtocol::UDP, 0, 64, true);
        let payload_bytes = segment.len();
        let fields =
            Ipv4Fields { source, destination, protocol, id, ttl, dont_fragment, payload_bytes };
        build::ipv4(&mut frame[14..], &fields).unwrap();
        frame.extend(segment);
        frame
    };
    (0..FRAMES).map(one).collect()
}

#[test]
fn a_configuration_is_checked_without_an_interface() {
    let folder = Folder::new();
    let good = folder.add("good.toml", text(&["10.0.0.1", "10.0.0.2"]));
    let checked = run_ringside(&["balance", "--config", arg(&good), "--check"]);
    assert_eq!(checked.code(), Some(0), "{}", checked.stderr);
    let said = checked.text();
    assert!(said.contains("192.0.2.1") && said.contains("1021") && said.contains("of memory"));
    let wrong = folder.add("wrong.toml", text(&["10.0.0.1", "10.0.0.1"]));
    let checked = run_ringside(&["balance", "--config", arg(&wrong), "--check"]);
    assert_eq!(checked.code(), Some(1));
    let place = "wrong.toml, line 11, column 1: the real 10.0.0.1 of this VIP stands on line 8";
    assert!(checked.stderr.contains(place), "{}", checked.stderr);
    let missing = run_ringside(&["balance", "--config", "nowhere.toml", "-i", "lo"]);
    assert_eq!(missing.code(), Some(2));
    assert!(missing.stderr.contains("cannot open nowhere.toml"), "{}", missing.stderr);
}

#[test]
fn frames_go_to_reals_and_a_changed_file_is_taken() {
    if !need_root("frames_go_to_reals_and_a_changed_file_is_taken") {
        return;
    }
    let (network, folder) = (Network::up(), Folder::new());
    let file = folder.add("balance.toml", text(&["10.0.0.1", "10.0.0.2"]));
    let start = || {
        let mut command = Command::new(ringside());
        command.args(["balance", "-i", "rx0", "--json", "--netns", network.receiver()]);
        command.args(["--config", arg(&file)]);
        Running::start(command)
    };
    let running = start();
    running.wait_for_stderr("listening on rx0: 1 VIP");
    let second = start().finish();
    assert_eq!(second.code(), Some(2));
    assert!(second.stderr.contains("a balancer is on rx0 already"), "{}", second.stderr);

    let device = inside(network.receiver(), || ringside_netdev::by_name("rx0").unwrap().unwrap());
    let mac = MacAddr(device.hardware_address[..].try_into().unwrap());
    network.replay(&questions(mac));
    // A mistake changes nothing; then one real goes.
    folder.add("balance.toml", text(&["10.0.0.1", "10.0.0.2", "10.0.0.2"]));
    running.wait_for_stderr("nothing changed");
    folder.add("balance.toml", text(&["10.0.0.2"]));
    running.wait_for_stderr("changed: 1 VIP, 1 real");
    network.replay(&questions(mac));
    let forwarded = format!("\"forwarded\":{}", 2 * FRAMES);
    running.wait_for_stdout(&forwarded);
    // The VIP goes, and another one comes: what it counted stays in the account.
    let other = text(&["10.0.0.2"]).replace("\"dns\"", "\"other\"").replace("2.1\"", "2.9\"");
    folder.add("balance.toml", other);
    wait_until("the change", || running.stderr_so_far().matches("changed: 1 VIP").count() == 2);

    let outcome = running.stop();
    let ledger = outcome.checked_ledger(outcome.ledger().received.unwrap());
    assert_eq!(ledger.taken, 2 * u64::from(FRAMES));
    let lines = outcome.json_lines();
    let account = lines.iter().find_map(|line| line.get("balance")).unwrap();
    let account: Ledger = serde_json::from_value(account.clone()).unwrap();
    assert_eq!(account.balance(), Ok(()), "{account:#?}");
    assert_eq!(account.removed.counts["forwarded"], 2 * u64::from(FRAMES), "{account:#?}");
    assert_eq!(account.removed.frames, 2 * u64::from(FRAMES), "{account:#?}");
    let [vip] = &account.vips[..] else { panic!("{account:#?}") };
    assert_eq!((vip.name.as_str(), vip.counts["forwarded"]), ("other", 0));
}
