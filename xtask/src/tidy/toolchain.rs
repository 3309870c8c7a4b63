//! One oldest Rust version, and one pinned tool chain, the same in every file that names them.

use super::{Finding, House};

const MANIFEST: &str = "Cargo.toml";
const README: &str = "README.md";
const TOOLCHAIN: &str = "rust-toolchain.toml";
const DEPS: &str = "scripts/deps";
/// Where the README names the version: behind this, up to a blank.
const README_MARK: &str = "[Rust](https://rustup.rs) ";
/// How `scripts/deps` comes by it.
const DEPS_MARK: &str = "sed -n 's/^rust-version = ";

/// Checks that README and `scripts/deps` agree with the workspace's `rust-version`, and that the
/// pinned tool chain is not older. Without a `rust-version` there is nothing to agree with.
pub(super) fn check(house: &House) -> Vec<Finding> {
    let text = |path: &str| house.tree.file(path).map_or("", |file| file.text.as_str());
    let Some(oldest) = quoted(text(MANIFEST), "rust-version = ") else { return Vec::new() };
    let mut findings = Vec::new();
    let readme = text(README).split_once(README_MARK).map_or("", |(_, rest)| rest);
    let named = readme.split_whitespace().next().unwrap_or_default();
    if named != oldest {
        let text = format!("names Rust {named:?}, and {MANIFEST} says {oldest}; make them one");
        findings.push(Finding::new(README, house.line_of(README, "On a Debian"), text));
    }
    if !text(DEPS).contains(DEPS_MARK) {
        let text = format!("does not take the oldest Rust version from {MANIFEST}; let it");
        findings.push(Finding::new(DEPS, 1, text));
    }
    let pinned = quoted(text(TOOLCHAIN), "channel = ").unwrap_or_default();
    if parts(pinned) < parts(oldest) {
        let text = format!("pins {pinned:?}, which is older than {oldest} of {MANIFEST}; raise it");
        findings.push(Finding::new(TOOLCHAIN, house.line_of(TOOLCHAIN, "channel"), text));
    }
    findings
}

/// The value in quotation marks of the first line that begins with `key`.
fn quoted<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(key))?.split('"').nth(1)
}

/// A version by its numbers, so that 1.100 is newer than 1.95.
fn parts(version: &str) -> Vec<u32> {
    version.split('.').map(|part| part.parse().unwrap_or(0)).collect()
}
