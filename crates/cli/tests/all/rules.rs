//! `ringside rules`: right and wrong rules, and what they would do with a capture. No root.

use crate::common::*;
use std::path::PathBuf;
use std::process::{Command, Output};

/// A pcap file of Ethernet frames with UDP from 10.0.0.1 to 10.0.0.2, one for each source port.
fn pcap(ports: &[u16]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4, 4 << 16 | 2, 0, 0, 65_535, 1] {
        file.extend_from_slice(&u32::to_le_bytes(word));
    }
    for &port in ports {
        for value in [1u32, 0, 42, 42] {
            file.extend_from_slice(&value.to_le_bytes());
        }
        file.extend([2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 8, 0]);
        file.extend([0x45, 0, 0, 28, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        file.extend(port.to_be_bytes());
        file.extend([0, 53, 0, 8, 0, 0]);
    }
    file
}

struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Files {
        Files(tempfile::tempdir().unwrap())
    }

    fn add(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    fn rules(&self, words: &[&str]) -> Output {
        Command::new(ringside()).arg("rules").args(words).current_dir(&self.0).output().unwrap()
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn a_rule_file_is_checked_and_printed_as_it_is_understood() {
    let files = Files::new();
    files.add("bad.list", "192.0.2.7\n198.51.100.0/24\n");
    files.add("good.rules", "port 443,80 tcp => take\nsrc ip @bad.list => drop\n\n# end\n");
    let output = files.rules(&["check", "good.rules"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stderr).contains("0 exact rules, 2 others, default pass"));
    let output = files.rules(&["check", "good.rules", "--print"]);
    let printed = text(&output.stdout).to_owned();
    assert!(printed.contains("1: port 80,443 and tcp => take"), "{printed}");
    files.add("again.rules", &printed);
    assert_eq!(files.rules(&["check", "again.rules", "--print"]).stdout, printed.as_bytes());
    let output = files.rules(&["check", "good.rules", "--json"]);
    let object: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(object, serde_json::json!({ "rules": 2, "exact": 0, "default": "pass" }));
}

#[test]
fn a_mistake_names_line_and_column_and_is_status_1() {
    let files = Files::new();
    files.add("wrong.rules", "udp => drop\nport 99999 => count\n");
    let output = files.rules(&["check", "wrong.rules"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("line 2, column 6"), "{}", text(&output.stderr));
    files.add("filter.rules", "filter \"no such thing\" => drop\n");
    let output = files.rules(&["check", "filter.rules"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("rule 1"), "{}", text(&output.stderr));
    let output = files.rules(&["check", "missing.rules"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("missing.rules"), "{}", text(&output.stderr));
}

#[test]
fn a_capture_is_judged_rule_by_rule() {
    let files = Files::new();
    files.add("trace.pcap", pcap(&[1000, 1001, 1001, 1002]));
    files.add("some.rules", "10: src port 1001 => drop\n20: udp => count\n30: tcp => take\n");
    let output = files.rules(&["test", "-r", "trace.pcap", "--rules", "some.rules", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let lines: Vec<serde_json::Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let frames: Vec<_> = lines.iter().map(|line| line["rule"]["frames"].clone()).collect();
    assert_eq!(frames[..3], [2, 2, 0].map(serde_json::Value::from));
    let default = serde_json::json!({ "verdict": "pass", "frames": 2, "bytes": 84 });
    assert_eq!(lines[3]["default"], default);
    let output = files.rules(&["test", "-r", "trace.pcap", "--rules", "some.rules"]);
    assert!(text(&output.stdout).contains("default pass"), "{}", text(&output.stdout));
    // Nothing found.
    let output = files.rules(&["test", "-r", "trace.pcap", "--rule", "tcp => drop"]);
    assert_eq!(output.status.code(), Some(1));
    let output = files.rules(&["test", "-r", "trace.pcap", "--rule", "tpc => drop"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("did you mean `tcp`"), "{}", text(&output.stderr));
    let output = files.rules(&["test", "-r", "trace.pcap"]);
    assert_eq!(output.status.code(), Some(2));
}
