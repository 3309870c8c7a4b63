//! `ringside doctor`: what it finds, fixes and puts back, on networks of its own.

use crate::common::*;
use ringside_lab::LabConfig;
use ringside_netdev as netdev;
use ringside_testkit::need_root;
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

/// Settings of the machine that `doctor --fix` may turn, with what is no good in them.
const MACHINE: [(&str, &str, &str); 2] = [
    ("/sys/kernel/mm/transparent_hugepage/shmem_enabled", "always advise [never]", "advise"),
    ("/proc/sys/net/core/bpf_jit_enable", "0", "1"),
];

/// A machine of its own for the doctor: its journal and the machine's settings are files here.
pub struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    pub fn new() -> Machine {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("state")).unwrap();
        for (index, (_, value, _)) in MACHINE.iter().enumerate() {
            std::fs::write(folder.path().join(index.to_string()), value).unwrap();
        }
        Machine { folder }
    }

    fn settings(&self) -> Vec<String> {
        let path = |index: usize| -> PathBuf { self.folder.path().join(index.to_string()) };
        (0..MACHINE.len()).map(|index| std::fs::read_to_string(path(index)).unwrap()).collect()
    }

    /// `ringside doctor ARGS`, with the files mounted where it looks for them.
    pub fn run(&self, args: &[&str]) -> Outcome {
        let folder = arg(self.folder.path());
        let mut script =
            format!("mkdir -p /run/ringside; mount --bind {folder}/state /run/ringside");
        for (index, (path, ..)) in MACHINE.iter().enumerate() {
            script += &format!("; [ ! -e {path} ] || mount --bind {folder}/{index} {path}");
        }
        script += "; exec \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", &script, "sh"]);
        command.arg(ringside()).arg("doctor").args(args);
        Running::start(command).finish()
    }

    /// In the receiver's namespace; gives status and report.
    fn doctor(&self, network: &Network, args: &[&str]) -> (i32, Value) {
        let outcome = self.run(&[&["--json", "--netns", network.receiver()], args].concat());
        let lines = outcome.json_lines();
        assert_eq!(lines.len(), 1, "{}", outcome.stderr);
        (outcome.code().unwrap(), lines[0].clone())
    }
}

/// A check of rx0 by its name.
fn check(report: &Value, name: &str) -> Value {
    let checks = report["checks"].as_array().unwrap();
    let is_it = |check: &&Value| check["name"] == name && check["subject"] == "rx0";
    checks.iter().find(is_it).unwrap_or_else(|| panic!("{name}: {report:#}")).clone()
}

fn gro_is_on(network: &Network) -> bool {
    inside(network.receiver(), || netdev::features("rx0").unwrap().active.contains("rx-gro"))
}

fn queues(network: &Network) -> u32 {
    inside(network.receiver(), || netdev::channels("rx0").unwrap().receiving())
}

/// Two queues, of which one is used, GRO on, no address.
fn neglected() -> Network {
    let config = LabConfig { queues: 2, xdp_pass: false, addresses: false, ..LabConfig::default() };
    let network = Network::with(config);
    inside(network.receiver(), || {
        netdev::set_feature("rx0", "rx-gro", true).unwrap();
        let channels = netdev::channels("rx0").unwrap();
        netdev::set_channels("rx0", channels.with_receiving(1)).unwrap();
    });
    network
}

#[test]
fn what_is_wrong_is_told_with_its_fix_and_nothing_is_changed() {
    if !need_root("what_is_wrong_is_told") {
        return;
    }
    let (machine, network) = (Machine::new(), neglected());
    let before = machine.settings();
    let (code, report) = machine.doctor(&network, &["-i", "rx0"]);
    assert_eq!(code, 1, "{report:#}");
    let gro = check(&report, "gro");
    assert_eq!(gro["state"], "problem");
    assert_eq!(gro["fix"], "ethtool -K rx0 gro off");
    assert_eq!(gro["fixable"], true);
    let queues_check = check(&report, "queues");
    assert_eq!(queues_check["state"], "warning");
    assert_eq!(queues_check["fix"], "ethtool -L rx0 rx 2");
    for good in ["link", "host", "programs"] {
        assert_eq!(check(&report, good)["state"], "ok", "{report:#}");
    }
    assert!(gro_is_on(&network));
    assert_eq!((queues(&network), machine.settings()), (1, before));
}

#[test]
fn what_is_fixed_stays_until_it_is_undone() {
    if !need_root("what_is_fixed_stays") {
        return;
    }
    let (machine, network) = (Machine::new(), neglected());
    let (code, report) = machine.doctor(&network, &["-i", "rx0", "--fix"]);
    assert_eq!(code, 0, "{report:#}");
    assert!(!gro_is_on(&network));
    assert_eq!(queues(&network), 2);
    assert_eq!(machine.settings(), MACHINE.map(|(_, _, fixed)| fixed));
    assert_eq!(check(&report, "gro")["state"], "ok");
    assert_eq!(check(&report, "zero-copy")["state"], "warning");
    let done = report["done"].to_string();
    assert!(done.contains("rx-gro of rx0: turned"), "{done}");
    let (code, again) = machine.doctor(&network, &["-i", "rx0", "--fix"]);
    assert_eq!((code, &again["done"]), (0, &serde_json::json!([])), "{again:#}");
    // Runs come and go, and leave it.
    let running = network.capture(&["-i", "rx0", "--set-queues", "1"]);
    assert_eq!(queues(&network), 1);
    assert_eq!(running.stop().code(), Some(0));
    assert_eq!(queues(&network), 2);
    let (code, report) = machine.doctor(&network, &["--undo", "-i", "rx0"]);
    assert_eq!(code, 0, "what is in the way again was wanted so: {report:#}");
    let done = report["done"].to_string();
    assert!(done.contains("rx-gro of rx0: put back"), "{done}");
    assert!(gro_is_on(&network));
    assert_eq!(queues(&network), 1);
    assert_eq!(machine.settings()[1], "0");
    let (_, report) = machine.doctor(&network, &["--undo"]);
    assert_eq!(report["done"], serde_json::json!([]), "nothing is left to undo");
}

#[test]
fn what_somebody_changed_since_is_left() {
    if !need_root("what_somebody_changed_since_is_left") {
        return;
    }
    let (machine, network) = (Machine::new(), neglected());
    machine.doctor(&network, &["-i", "rx0", "--fix"]);
    inside(network.receiver(), || netdev::set_feature("rx0", "rx-gro", true).unwrap());
    let (_, report) = machine.doctor(&network, &["--undo"]);
    assert!(gro_is_on(&network), "{report:#}");
    assert_eq!(queues(&network), 1, "{report:#}");
    let network_of_another = neglected();
    machine.doctor(&network_of_another, &["-i", "rx0", "--fix"]);
    drop(network_of_another);
    let (_, report) = machine.doctor(&network, &["--undo"]);
    assert!(report["done"].to_string().contains("the interface is gone"), "{report:#}");
}

#[test]
fn an_interface_that_the_host_uses_is_not_started_anew() {
    if !need_root("an_interface_that_the_host_uses") {
        return;
    }
    let (machine, network) = (Machine::new(), neglected());
    run_clean("ip", &["-n", network.receiver(), "address", "add", "10.9.0.2/24", "dev", "rx0"]);
    let (_, report) = machine.doctor(&network, &["-i", "rx0", "--fix"]);
    assert_eq!(queues(&network), 1);
    assert!(!gro_is_on(&network));
    let host = check(&report, "host");
    assert_eq!(host["found"], "it has the address 10.9.0.2/24");
    assert_eq!(check(&report, "queues")["fixable"], false);
    machine.doctor(&network, &["--undo"]);
}

#[test]
fn what_cannot_be_asked_is_an_error() {
    if !need_root("what_cannot_be_asked") {
        return;
    }
    let (machine, network) = (Machine::new(), Network::up());
    let outcome = machine.run(&["--netns", network.receiver(), "-i", "rx00"]);
    assert_eq!(outcome.code(), Some(2));
    assert!(outcome.stderr.contains("did you mean rx0?"), "{}", outcome.stderr);
    assert_eq!(machine.run(&["--fix", "--undo"]).code(), Some(2));
    // The program of the lab is reported by its name.
    let outcome = machine.run(&["--netns", network.receiver(), "-i", "rx0"]);
    assert!(outcome.text().contains("xdp_root (id "), "{}", outcome.text());
}
