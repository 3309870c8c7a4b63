//! A folder of a test's own, and what a run counted for the rules in it.

use super::Outcome;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Frames and bytes.
pub type Totals = (u64, u64);

/// A folder that goes with the test.
pub struct Folder(tempfile::TempDir);

impl Folder {
    pub fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file.
    pub fn add(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

/// A number of a JSON object.
pub fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or_else(|| panic!("{name} in {value}"))
}

/// The frames and bytes of a JSON object.
pub fn totals(value: &Value) -> Totals {
    (number(value, "frames"), number(value, "bytes"))
}

/// What a run counted for each rule, and for the default.
pub fn rule_totals(outcome: &Outcome) -> (BTreeMap<u64, Totals>, Totals) {
    let lines = outcome.json_lines();
    let rules = lines.iter().filter_map(|line| line.get("rule"));
    let rules = rules.map(|rule| (number(rule, "id"), totals(rule))).collect();
    let default = lines.iter().find_map(|line| line.get("default")).unwrap();
    (rules, totals(default))
}
