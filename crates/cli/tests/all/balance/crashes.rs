//! A balancer that is killed at any moment.

use super::link::{BALANCER, Link, v4};
use crate::common::chaos::{kill, kills, random};
use crate::common::*;
use ringside_testkit::{need_bpf_fs, need_tool};
use std::path::PathBuf;
use std::time::Duration;

fn text(reals: u64) -> String {
    let mut text =
        "[[vip]]\nname = \"web\"\naddress = \"192.0.2.1\"\nprotocol = \"tcp\"\n".to_owned();
    text += "slots = 4093\n";
    for real in 1..=reals {
        text += &format!("[[vip.real]]\naddress = \"{}\"\n", v4(real as u8));
    }
    text
}

/// Where balancers of a link are pinned.
fn pins(link: &Link) -> Vec<PathBuf> {
    let namespace = ringside_sys::netns::Namespace::open(&link.name(BALANCER)).unwrap();
    let own = format!("balance-{}-", namespace.identity().unwrap());
    let all = std::fs::read_dir("/sys/fs/bpf/ringside").into_iter().flatten().flatten();
    let is_own = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with(&own);
    all.map(|entry| entry.path()).filter(is_own).collect()
}

/// Without --pin nothing is left; with it a whole balancer or none, and the next one goes on.
#[test]
fn killed_at_any_moment_it_leaves_the_interface_as_documented() {
    let name = "killed_at_any_moment_it_leaves_the_interface_as_documented";
    if !need_bpf_fs(name) || !need_tool(name, "ethtool") {
        return;
    }
    let link = Link::up();
    let mut random = random();
    let config = link.configure(&text(3));
    let words = ["balance", "-i", "end", "--config", arg(&config)];
    for round in 0..kills([6, 200]) {
        let is_pinned = random.below(3) > 0;
        let pin: &[&str] = if is_pinned { &["--pin"] } else { &[] };
        let running = Running::start(link.command(BALANCER, &[&words[..], pin].concat()));
        // In the start, or in the middle of changes.
        if random.below(2) == 0 {
            std::thread::sleep(Duration::from_micros(random.below(150_000) as u64));
        } else if is_pinned || pins(&link).is_empty() {
            running.wait_for_stderr("listening on end");
            for _ in 0..random.below(3) {
                let weight = random.below(1000).to_string();
                let real = ["--vip", "web", "--real", "10.77.0.1", "--weight", &weight];
                let set = link.command(BALANCER, &[&["balance", "set"], &real[..]].concat());
                let set = Running::start(set);
                std::thread::sleep(Duration::from_micros(random.below(60_000) as u64));
                drop(set);
            }
        }
        kill(running.pid());
        running.finish();
        check(&link, round);
    }
    // Whatever was left: one that stays goes on, and is ended.
    let last = link.ringside(BALANCER, &[&words[..], &["--pin", "--detach"]].concat());
    assert_eq!(last.code(), Some(0), "{}", last.stderr);
    let off = link.ringside(BALANCER, &["balance", "off", "-i", "end"]);
    assert_eq!(off.code(), Some(0), "{}", off.stderr);
    assert_eq!((link.programs(), pins(&link)), (0, Vec::new()));
}

/// There is a balancer that is whole, or none.
fn check(link: &Link, round: u64) {
    let status = link.ringside(BALANCER, &["balance", "status", "--json"]);
    match status.code() {
        Some(0) => {
            let lines = status.json_lines();
            let account = lines[0]["pinned"]["balance"].clone();
            let ledger: ringside_balancer::Ledger = serde_json::from_value(account).unwrap();
            assert_eq!(ledger.balance(), Ok(()), "round {round}");
            assert_eq!((ledger.vips.len(), link.programs()), (1, 1), "round {round}");
            assert_eq!(ledger.vips[0].reals.len(), 3, "round {round}");
        }
        // Names that nothing came of yet are removed by the next start.
        Some(1) if !pins(link).is_empty() => {}
        // The kernel takes the root off some time after its last process is gone.
        Some(1) => wait_until("the root to go", || link.programs() == 0),
        _ => panic!("round {round}: {}", status.stderr),
    }
    assert!(!status.stderr.contains("damaged"), "round {round}: {}", status.stderr);
}

#[test]
fn a_second_balancer_and_an_end_of_tunnels_are_refused() {
    let name = "a_second_balancer_and_an_end_of_tunnels_are_refused";
    if !need_bpf_fs(name) || !need_tool(name, "ethtool") {
        return;
    }
    let link = Link::up();
    let config = link.configure(&text(2));
    let words = ["balance", "-i", "end", "--config", arg(&config)];
    let refused = |more: &[&str]| {
        let outcome = link.ringside(BALANCER, &[&words[..], more].concat());
        assert_eq!(outcome.code(), Some(2), "{}", outcome.stderr);
        outcome.stderr
    };
    let first = link.balance(&["--pin"]);
    let said = refused(&["--pin"]);
    assert!(said.contains("a process runs the balancer that is pinned on end"), "{said}");
    let said = refused(&[]);
    assert!(said.contains("a balancer is on end already"), "{said}");
    let off = link.ringside(BALANCER, &["decap", "off", "-i", "end"]);
    assert_eq!(off.code(), Some(1), "that is no end of tunnels: {}", off.stderr);
    kill(first.pid());
    first.finish();
    let said = refused(&[]);
    assert!(said.contains("a balancer is on end already"), "{said}");
    let end = ["decap", "-i", "end", "--to", "10.77.0.2", "--from", "10.99.0.0/16"];
    let outcome = link.ringside(BALANCER, &end);
    assert_eq!(outcome.code(), Some(2), "{}", outcome.stderr);
    // What is found is looked after, and `off` ends both.
    let second = link.balance(&["--pin"]);
    let off = link.ringside(BALANCER, &["balance", "off", "-i", "end"]);
    assert_eq!(off.code(), Some(0), "{}", off.stderr);
    assert_eq!(second.finish().code(), Some(0));
    assert_eq!((link.programs(), pins(&link)), (0, Vec::new()));
}
