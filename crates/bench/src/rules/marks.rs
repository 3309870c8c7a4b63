//! By what a defence knows the flood: one port, one address, or one of many. Each for `ringside
//! drop` and for xdp-filter.

use super::super::defence::Defence;
use super::super::flood;
use super::super::load::GENERATED_ADDRESS;
use super::super::place::Workspace;
use super::super::tools::is_in_path;
use super::sets;
use anyhow::Context;
use ringside_lab::Lab;
use ringside_terminal::signals::StopSignal;
use std::fmt::Write;
use std::net::Ipv4Addr;
use std::path::PathBuf;

/// Addresses of the large set. xdp-filter has room for 10,000: it gets the flood's sources alone.
pub(in super::super) const MANY: u32 = 100_000;
const XDP_FILTER_MAX: u32 = 10_000;
/// Addresses of the small set, of which the last is where the flood goes to.
const FEW: u32 = 100;
/// Where xdp-filter pins its map of addresses.
const XDP_FILTER_MAP: &str = "/sys/fs/bpf/xdp-filter/filter_ipv4";

/// What the frames of the flood have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Mark {
    /// The port that they go to.
    Port,
    /// The address that they go to.
    Address,
    /// The same, among 100 addresses.
    Few,
    /// Their 10,000 sources, among 100,000 addresses.
    Many,
}

impl Mark {
    /// What `ringside drop` is given.
    pub(in super::super) fn holds(self) -> String {
        match self {
            Mark::Port => "1 port".into(),
            Mark::Address => "1 address".into(),
            Mark::Few => format!("{FEW} addresses"),
            Mark::Many => format!("{MANY} addresses"),
        }
    }

    /// What xdp-filter is given.
    pub(in super::super) fn xdp_filter_holds(self) -> String {
        match self {
            Mark::Many => format!("{XDP_FILTER_MAX} addresses, its limit"),
            _ => self.holds(),
        }
    }

    /// True if xdp-filter can be given it here.
    pub(in super::super) fn has_xdp_filter(self) -> bool {
        is_in_path("xdp-filter") && (self != Mark::Many || is_in_path("bpftool"))
    }

    /// The rules of `ringside drop`, which end after them with `more`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(in super::super) fn rules(self, files: &Workspace, more: &str) -> anyhow::Result<PathBuf> {
        let rule = match self {
            Mark::Port => format!("udp dst port {} => drop\n", flood::PORT),
            Mark::Address => format!("dst ip {GENERATED_ADDRESS} => drop\n"),
            Mark::Few => {
                let rule = |address: &String| format!("dst ip {address} => drop\n");
                sets::hosts(FEW).iter().map(rule).collect()
            }
            Mark::Many => {
                write(files, "addresses", &sets::addresses(MANY, "\n"))?;
                "src ip @addresses => drop\n".to_owned()
            }
        };
        write(files, "rules", &(rule + more))
    }

    /// xdp-filter in place.
    ///
    /// # Errors
    /// It did not start; what it said is in the error.
    pub(in super::super) fn xdp_filter(
        self,
        lab: &Lab,
        files: &Workspace,
        stop: &StopSignal,
    ) -> anyhow::Result<Defence> {
        let destination = |address: &String| format!("xdp-filter ip -m dst {address}");
        let (features, commands) = match self {
            Mark::Port => ("udp", vec![format!("xdp-filter port -m dst -p udp {}", flood::PORT)]),
            Mark::Address => ("ipv4", vec![destination(&GENERATED_ADDRESS.to_owned())]),
            Mark::Few => ("ipv4", sets::hosts(FEW).iter().map(destination).collect()),
            Mark::Many => {
                let file = write(files, "batch", &batch())?;
                ("ipv4", vec![format!("bpftool batch file {} >&2", file.display())])
            }
        };
        Defence::xdp_filter(lab, features, &commands, stop)
    }
}

/// The sources of the flood for xdp-filter's map, by another tool: a process for each would take a
/// minute. Bit 0 of a value says that the address is meant as a source.
fn batch() -> String {
    sets::sources().fold(String::new(), |mut text, address: Ipv4Addr| {
        let [a, b, c, d] = address.octets();
        let _ = writeln!(
            text,
            "map update pinned {XDP_FILTER_MAP} key {a} {b} {c} {d} value 1 0 0 0 0 0 0 0"
        );
        text
    })
}

pub(in super::super) fn write(
    files: &Workspace,
    name: &str,
    text: &str,
) -> anyhow::Result<PathBuf> {
    let file = files.path().join(name);
    std::fs::write(&file, text).with_context(|| format!("writing {}", file.display()))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringside_rules::language;

    #[test]
    fn the_rules_are_rules() {
        let files = Workspace::in_memory().unwrap();
        for (mark, rules) in
            [(Mark::Port, 2), (Mark::Address, 2), (Mark::Few, 101), (Mark::Many, 2)]
        {
            let file = mark.rules(&files, "any => redirect cpu 0\n").unwrap();
            assert_eq!(language::load(&file).unwrap().rules.len(), rules, "{mark:?}");
        }
    }

    #[test]
    fn the_flood_fits_into_the_map_of_xdp_filter() {
        assert_eq!(flood::SOURCES, XDP_FILTER_MAX);
        let text = batch();
        assert_eq!(text.lines().count() as u32, XDP_FILTER_MAX);
        assert!(text.contains("key 10 16 39 15 value 1 0"), "{}", &text[..200]);
    }
}
