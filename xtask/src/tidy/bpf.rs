//! C programs for the kernel: licence first, and one place for what they share with Rust.

use super::tree::File;
use super::{Finding, House};

const FOLDER: &str = "bpf/";
/// The only file that defines structs which both sides read; their sizes are asserted there.
const ABI: &str = "abi.h";
const SPDX: &str = "SPDX-License-Identifier:";

pub(super) fn check(house: &House) -> Vec<Finding> {
    let mut findings = Vec::new();
    let programs = house.tree.files.iter().filter(|file| {
        file.path.starts_with(FOLDER) && (file.path.ends_with(".c") || file.path.ends_with(".h"))
    });
    for file in programs {
        if !file.text.lines().next().is_some_and(|line| line.contains(SPDX)) {
            let text = format!("does not begin with {SPDX}; add it as first line");
            findings.push(Finding::new(&file.path, 1, text));
        }
        if !file.path.ends_with(&format!("/{ABI}")) {
            findings.extend(shared_structs(file));
        }
    }
    findings
}

/// Structs defined here that user space reads: keys and values of maps, and global variables.
fn shared_structs(file: &File) -> impl Iterator<Item = Finding> + '_ {
    file.text.lines().enumerate().filter_map(|(index, line)| {
        let name = line.strip_prefix("struct ")?.split([' ', '{']).next()?;
        let defines = line.contains('{') && !name.is_empty();
        let text = format!("struct {name} is shared with Rust; move it to {ABI}");
        (defines && is_shared(&file.text, name)).then(|| Finding::new(&file.path, index + 1, text))
    })
}

fn is_shared(text: &str, name: &str) -> bool {
    let reads = |line: &str| {
        let part = format!("struct {name}");
        let Some((before, after)) = line.split_once(&part) else { return false };
        let whole = !after.starts_with(|c: char| c.is_alphanumeric() || c == '_');
        let map = before.contains("__type(");
        whole && (map || before.trim_end().ends_with("volatile"))
    };
    text.lines().any(reads)
}
