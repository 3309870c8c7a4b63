//! A routing table as large as the Internet's: which route counts, found a second time by looking
//! through prefixes from the longest to the shortest.

use crate::frames::plain;
use crate::net::Net;
use crate::testbed::{Loaded, ifindexes, testbed};
use ringside_ebpf::Verdict;
use ringside_ebpf::route::{Cause, ReversePath};
use ringside_testkit::{Random, by_run, need_root};
use std::collections::HashMap;
use std::fmt::Write;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::process::{Command, Stdio};

/// Next hops, each known, with the interface of `testbed::INTERFACES` behind which it is.
const HOPS: [(&str, usize); 4] =
    [("10.2.0.2", 1), ("10.2.0.5", 1), ("10.3.0.2", 2), ("10.3.0.5", 2)];
/// Lengths of prefixes, most of them long.
const LENGTHS: [u32; 8] = [12, 16, 19, 20, 22, 23, 24, 24];

/// Next hops by prefix and its length.
type Table = HashMap<(u32, u32), usize>;

/// This number of routes to different prefixes between 16.0.0.0 and 100.0.0.0, of which none is the
/// testbed's.
fn routes(count: usize, random: &mut Random) -> Table {
    let mut table = Table::with_capacity(count);
    while table.len() < count {
        let bits = LENGTHS[random.below(LENGTHS.len())];
        let address = (16 + random.below(84) as u32) << 24 | random.next_u64() as u32 >> 8;
        table.insert((address >> (32 - bits) << (32 - bits), bits), random.below(HOPS.len()));
    }
    table
}

fn enter(net: &Net, table: &Table) {
    let mut lines = String::new();
    for ((prefix, bits), hop) in table {
        let via = HOPS[*hop].0;
        writeln!(lines, "route add {}/{bits} via {via}", Ipv4Addr::from(*prefix)).unwrap();
    }
    let words = ["-n", &net.ns("r"), "-batch", "-"];
    let mut ip = Command::new("ip").args(words).stdin(Stdio::piped()).spawn().unwrap();
    ip.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    assert!(ip.wait().unwrap().success());
}

/// The next hop of the longest prefix that the address is in.
fn longest(table: &Table, address: u32) -> Option<usize> {
    (8..=32)
        .rev()
        .find_map(|bits| table.get(&(address >> (32 - bits) << (32 - bits), bits)))
        .copied()
}

#[test]
fn of_750_000_routes_the_longest_prefix_counts() {
    if !need_root("of_750_000_routes_the_longest_prefix_counts") {
        return;
    }
    let net = testbed();
    let mut random = Random::new(750);
    let table = routes(by_run(20_000, 750_000), &mut random);
    enter(&net, &table);
    let prefixes: Vec<(u32, u32)> = table.keys().copied().collect();
    let all = ifindexes(&net);
    net.inside("r", || {
        let loaded = Loaded::new(all, ReversePath::Unasked);
        let mut forwarded = 0;
        for _ in 0..by_run(4_000, 40_000) {
            // Within a prefix, or anywhere near.
            let (prefix, bits) = prefixes[random.below(prefixes.len())];
            let host = random.next_u64() as u32 >> (bits - random.below(2) as u32);
            let address = prefix | host;
            let frame = plain("10.1.0.2", &Ipv4Addr::from(address).to_string());
            let (run, report) = loaded.program.explain(&loaded.tables, &frame).unwrap();
            match longest(&table, address) {
                Some(hop) => {
                    let (via, interface) = HOPS[hop];
                    let via: IpAddr = via.parse().unwrap();
                    assert_eq!(run.verdict, Verdict::Redirect, "{report:?}");
                    let way = (report.ifindex, report.next_hop);
                    assert_eq!(way, (Some(all[interface]), Some(via)), "{report:?}");
                    forwarded += 1;
                }
                None => {
                    assert_eq!((run.verdict, report.cause), (Verdict::Pass, Cause::Host));
                    assert_eq!(run.frame, frame);
                }
            }
        }
        assert_eq!(loaded.tables.counts(0).unwrap().of(Cause::Forwarded), forwarded);
        assert!(forwarded > by_run(2_000, 20_000), "{forwarded}");
    });
}
