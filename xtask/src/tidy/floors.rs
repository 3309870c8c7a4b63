//! Floors: a crate depends on strictly lower floors only, so there is no cycle and a reader knows
//! which way to look. Dependencies of tests obey the same rule.

use super::{Finding, House};
use anyhow::Context;
use std::path::Path;

/// The floor of each room. Crates of one floor do not know each other.
const FLOORS: &[(&str, u8)] = &[
    ("ringside-core", 0),
    ("ringside-wire", 1),
    ("ringside-proto", 1),
    ("ringside-sys", 1),
    ("ringside-filter", 1),
    ("ringside-terminal", 1),
    ("ringside-ring", 2),
    ("ringside-netdev", 2),
    ("ringside-dpdk", 2),
    ("ringside-pfring", 2),
    ("ringside-kafka", 2),
    ("ringside-store", 2),
    ("ringside-inspect", 2),
    ("ringside-record", 2),
    ("ringside-segment", 2),
    ("ringside-balance", 2),
    ("ringside-ebpf", 3),
    ("ringside-rules", 3),
    ("ringside-index", 3),
    ("ringside-flow", 3),
    ("ringside-streams", 3),
    ("ringside-logs", 3),
    ("ringside-arrow", 3),
    ("ringside-client", 3),
    ("ringside-search", 4),
    ("ringside-export", 4),
    ("ringside-outlet", 4),
    ("ringside-http", 4),
    ("ringside-dns", 4),
    ("ringside-extension", 4),
    ("ringside-calls", 4),
    ("ringside-tls", 4),
    ("ringside-transmit", 4),
    ("ringside-capture", 5),
    ("ringside-xdp", 4),
    ("ringside-meter", 4),
    ("ringside-route", 4),
    ("ringside-balancer", 4),
    ("ringside-client-c", 4),
    ("ringside-pcap", 4),
    ("ringside-lab", 5),
    ("ringside-python", 5),
    ("ringside-control", 6),
    ("ringside-print", 6),
    ("ringside-keeper", 7),
    ("ringside-session", 8),
    ("ringside-bench", 8),
    ("ringside-doctor", 8),
    ("ringside-report", 9),
    ("ringside-serve", 10),
    ("ringside-top", 10),
    ("ringside-cli", 11),
];

/// Stands outside: helps tests, and is no part of the binary.
const TESTKIT: &str = "ringside-testkit";
/// Stands outside: runs the tests.
const XTASK: &str = "xtask";

/// A package of the workspace.
#[derive(Clone, Debug)]
pub struct Package {
    /// Name, as `ringside-core`.
    pub name: String,
    /// Its Cargo.toml, from the project's root.
    pub manifest: String,
    /// Roots of its library and binaries, from the project's root.
    pub roots: Vec<String>,
    /// Everything it depends on.
    pub dependencies: Vec<Dependency>,
}

/// A dependency as a package declares it.
#[derive(Clone, Debug)]
pub struct Dependency {
    /// Name in the registry or workspace.
    pub name: String,
    /// True for a crate of this workspace.
    pub ours: bool,
    /// True if only tests use it.
    pub for_tests: bool,
}

/// Asks cargo for the packages of the workspace at `root`.
pub(super) fn packages(root: &Path) -> anyhow::Result<Vec<Package>> {
    let metadata = cargo_metadata::MetadataCommand::new()
        .manifest_path(root.join("Cargo.toml"))
        .no_deps()
        .exec()
        .context("cargo metadata")?;
    let relative = |path: &cargo_metadata::camino::Utf8Path| {
        path.strip_prefix(&metadata.workspace_root).unwrap_or(path).to_string()
    };
    let package = |package: &cargo_metadata::Package| Package {
        name: package.name.to_string(),
        manifest: relative(&package.manifest_path),
        roots: (package.targets.iter())
            .filter(|target| target.is_lib() || target.is_bin())
            .map(|target| relative(&target.src_path))
            .collect(),
        dependencies: (package.dependencies.iter())
            .map(|dependency| Dependency {
                name: dependency.name.clone(),
                ours: dependency.path.is_some(),
                for_tests: dependency.kind == cargo_metadata::DependencyKind::Development,
            })
            .collect(),
    };
    Ok(metadata.packages.iter().map(package).collect())
}

pub(super) fn check(house: &House) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &house.packages {
        let floor = floor(&package.name);
        let outside = [TESTKIT, XTASK].contains(&package.name.as_str());
        if floor.is_none() && !outside {
            findings.push(Finding::new(
                &package.manifest,
                1,
                format!("{} has no floor; add it to FLOORS in floors.rs", package.name),
            ));
            continue;
        }
        for dependency in package.dependencies.iter().filter(|dependency| dependency.ours) {
            if let Some(text) = wrong(package, floor, dependency) {
                let line = house.line_of(&package.manifest, &dependency.name);
                findings.push(Finding::new(&package.manifest, line, text));
            }
        }
    }
    findings
}

/// What is wrong with one edge, if anything.
fn wrong(package: &Package, from: Option<u8>, dependency: &Dependency) -> Option<String> {
    let (name, to) = (&package.name, &dependency.name);
    if to == TESTKIT {
        let text = format!("{name} links {TESTKIT}; move it to [dev-dependencies]");
        return (!dependency.for_tests && name != XTASK).then_some(text);
    }
    match (from, floor(to)) {
        (Some(from), Some(below)) if below < from => None,
        (Some(from), Some(other)) => Some(format!(
            "{name} (floor {from}) depends on {to} (floor {other}); move the shared noun to a \
             lower floor, or the code that needs both to a higher one"
        )),
        (None, Some(_)) => Some(format!("{name} stands outside and must not know {to}; remove it")),
        (_, None) => Some(format!("{name} depends on {to}, which has no floor; remove it")),
    }
}

fn floor(name: &str) -> Option<u8> {
    FLOORS.iter().find(|(room, _)| *room == name).map(|&(_, floor)| floor)
}
