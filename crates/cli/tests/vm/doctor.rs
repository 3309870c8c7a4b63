//! `ringside doctor` on a card with queues, rings and a clock of its own.

use crate::common::*;
use crate::pair::{Card, need_option};
use std::fs;

#[test]
fn what_doctor_fixes_it_undoes() {
    const TEST: &str = "what_doctor_fixes_it_undoes";
    if !need_option(TEST, "doctor", "--fix") {
        return;
    }
    let Some(pair) = Card::Igb.pair(TEST) else { return };
    let interface = pair.receiver();
    let before = settings(interface);
    let found = run_ringside(&["doctor", "-i", interface]);
    println!("{}{}", found.text(), found.stderr);
    assert!(matches!(found.code(), Some(0 | 1)), "{}", found.stderr);
    assert_eq!(settings(interface), before, "to look changes nothing");

    let fixed = run_ringside(&["doctor", "-i", interface, "--fix"]);
    println!("{}{}", fixed.text(), fixed.stderr);
    // igb begins with GRO, which can be fixed.
    let said = fixed.text();
    assert!(said.contains("rx-gro of "), "{said}");
    assert_ne!(settings(interface), before, "there was something to fix: {said}");
    let undone = run_ringside(&["doctor", "-i", interface, "--undo"]);
    assert_eq!(undone.code(), Some(0), "{}{}", undone.text(), undone.stderr);
    assert_eq!(settings(interface), before);
    pair.check_that_the_stack_talks();
}

/// Everything that is set on an interface, as the tools print it.
fn settings(interface: &str) -> String {
    let mut text = String::new();
    for option in ["-k", "-l", "-g", "-x", "-c", "--show-priv-flags"] {
        text += &run("ethtool", &[option, interface]).text();
    }
    for flow in ["tcp4", "udp4", "tcp6", "udp6"] {
        text += &run("ethtool", &["-n", interface, "rx-flow-hash", flow]).text();
    }
    let folder = format!("/sys/class/net/{interface}");
    for file in ["gro_flush_timeout", "napi_defer_hard_irqs", "threaded", "mtu", "flags"] {
        text += &format!("{file}: {}", fs::read_to_string(format!("{folder}/{file}")).unwrap());
    }
    text
}
