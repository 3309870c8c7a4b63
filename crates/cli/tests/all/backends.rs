//! `ringside backends`: every answer from a probe, on a network of its own.

use crate::common::*;
use ringside_testkit::{by_run, need_root};

#[test]
fn every_backend_is_tried_and_every_answer_has_its_probe() {
    if !need_root("every_backend_is_tried") {
        return;
    }
    // One after the other on an interface whose root stays: what is still going of the one before
    // once took the frames of one in four, and of eight runs of four some would meet that.
    for _ in 0..by_run(3, 8) {
        check_report();
    }
    let text = run_ringside(&["backends"]).text();
    assert!(text.contains("zero-copy") && text.contains("netmap"), "{text}");
}

fn check_report() {
    let outcome = run_ringside(&["backends", "--json"]);
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    let report = &outcome.json_lines()[0];
    let backends = report["backends"].as_array().unwrap();
    let names: Vec<&str> = backends.iter().map(|b| b["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["af-packet", "af-xdp", "xdp-ring", "pcap", "dpdk", "pf-ring", "netmap"]);
    for backend in backends {
        let is_dpdk = backend["name"] == "dpdk";
        let fix = match backend["name"].as_str().unwrap() {
            "dpdk" => Some("apt-get install"),
            "pf-ring" => Some("packages.ntop.org"),
            "netmap" => Some("modprobe netmap"),
            _ => None,
        };
        if let (Some(fix), false) = (fix, backend["usable"] == true) {
            assert!(backend["reason"].as_str().unwrap().contains(fix), "{backend:#}");
            continue;
        }
        assert_eq!(backend["usable"], true, "{backend:#}");
        let properties = backend["properties"].as_array().unwrap();
        assert!(properties.iter().all(|property| property["probe"] != ""), "{backend:#}");
        let value = |name: &str| {
            properties.iter().find(|property| property["name"] == name).unwrap()["value"].clone()
        };
        assert_eq!(value("processing in user space"), "yes (256 of 256 frames)");
        let place = value("place of the filter").as_str().unwrap().to_owned();
        let (filters, readers) = match backend["name"].as_str().unwrap() {
            "af-packet" | "pcap" => ("kernel", Some("yes (2 tried)")),
            "af-xdp" => ("driver", Some("no; of one capture, by `ringside attach`")),
            "xdp-ring" => ("driver", None),
            _ => ("user space", None),
        };
        assert!(place.starts_with(filters), "{backend:#}");
        assert!(readers.is_none_or(|readers| value("several readers") == readers), "{backend:#}");
        let counting = if is_dpdk { "taken exactly, losses unknown" } else { "exact" };
        assert_eq!(value("counting"), counting, "{backend:#}");
    }
}
