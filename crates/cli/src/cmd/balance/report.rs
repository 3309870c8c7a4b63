//! What a balancer is to do, and what it did.

use ringside_balance::Tables;
use ringside_balance::balancer::Count;
use ringside_balance::config::{Config, RealState};
use ringside_balance::tables::{DOWN, UP};
use ringside_core::ledger::sum;
use ringside_ebpf::balance::BalanceProgram;
use ringside_sys::clock::monotonic_ns;
use ringside_terminal::columns;
use ringside_terminal::units::{grouped, scaled};
use serde_json::{Value, json};

/// Names of what is counted of a VIP, by their numbers.
const NAMES: [&str; Count::ALL] = [
    "forwarded",
    "echo_answered",
    "too_big_answered",
    "no_real",
    "too_big",
    "fragment",
    "no_neighbour",
    "no_route",
    "no_room",
    "icmp_errors",
    "remembered",
    "chosen",
    "before",
    "by_id",
    "guarded",
];

/// What a configuration says, and the memory that it takes.
pub(super) fn plan(config: &Config) -> String {
    let rows: Vec<Vec<String>> = (config.vips.iter())
        .map(|vip| {
            let port = vip.port.map_or("all".to_owned(), |port| port.to_string());
            let protocol = format!("{:?}", vip.protocol).to_lowercase();
            let up = vip.reals.iter().filter(|real| real.state == RealState::Up).count();
            let via = format!("{:?}", vip.via).to_lowercase();
            let reals = vip.reals.len().to_string();
            let (name, slots) = (vip.name.clone(), vip.slots.to_string());
            vec![name, vip.prefix.to_string(), port, protocol, via, reals, up.to_string(), slots]
        })
        .collect();
    let head = ["VIP", "address", "port", "protocol", "via", "reals", "up", "slots"];
    let tables = Tables::new(config, 0);
    let room = BalanceProgram::memory_for(&tables, config.flows_per_cpu);
    let memory = match room {
        Ok(bytes) => format!("{}B of memory with room for twice as much", scaled(bytes as f64)),
        Err(error) => format!("memory is not known: {error}"),
    };
    format!("{}{memory}\n", columns::text(&head, &rows))
}

/// Says where the host may not forward, so that its routes lead to no real.
pub(super) fn forwarding_is_off(interface: &str, config: &Config) -> Vec<String> {
    let mut lines = Vec::new();
    for (version, folder) in [(4, "ipv4"), (6, "ipv6")] {
        let reals = config.vips.iter().flat_map(|vip| &vip.reals);
        let by_routes = reals.filter(|real| real.next_hop.is_none());
        let mut addresses = by_routes.map(|real| if real.address.is_ipv4() { 4 } else { 6 });
        let path = format!("/proc/sys/net/{folder}/conf/{interface}/forwarding");
        let is_off = std::fs::read_to_string(path).is_ok_and(|text| text.trim() == "0");
        if is_off && addresses.any(|address| address == version) {
            lines.push(format!(
                "IPv{version} is not forwarded from {interface}, so that packets to reals without \
                 next_hop are dropped as no_route: `sysctl -w \
                 net.{folder}.conf.{interface}.forwarding=1`"
            ));
        }
    }
    lines
}

/// What was counted, at one moment.
pub(super) struct Account {
    seen: u64,
    passed: u64,
    vips: Vec<(String, [u64; Count::ALL], Vec<RealAccount>)>,
}

struct RealAccount {
    address: String,
    state: &'static str,
    frames: u64,
    bytes: u64,
    live_flows: u64,
}

impl Account {
    /// Exact while no frames come. Flows count as live for an hour after their last packet.
    pub fn of(program: &BalanceProgram, tables: &Tables) -> Account {
        const LIVE_NS: u64 = 3_600_000_000_000;
        let [seen, passed] = program.totals();
        let now_ns = monotonic_ns();
        let live = program.live_flows(tables, now_ns, LIVE_NS);
        let names = (0..tables.vips.len() as u32).filter_map(|at| Some((at, tables.vip_name(at)?)));
        let vips = names.map(|(at, name)| {
            let reals = (0..).zip(&tables.reals).zip(&live);
            let is_its = |index: u32, vip: u32| vip == at && tables.has_real(index);
            let reals = reals.filter(|((index, real), _)| is_its(*index, real.vip));
            let reals = reals.map(|((index, real), live)| {
                let [frames, bytes] = program.real_counts(index);
                let state = match real.until_ns {
                    UP => "up",
                    DOWN => "down",
                    until if until <= now_ns => "drained",
                    _ => "draining",
                };
                let (address, live_flows) = (real.ip().to_string(), *live);
                RealAccount { address, state, frames, bytes, live_flows }
            });
            (name.to_owned(), program.counts(at), reals.collect())
        });
        Account { seen, passed, vips: vips.collect() }
    }

    fn total(&self, what: Count) -> u64 {
        sum(self.vips.iter().map(|(_, counts, _)| counts[what as usize]))
    }

    /// On one line.
    pub fn line(&self) -> String {
        let (forwarded, seen) = (self.total(Count::Forwarded), self.seen);
        let answered = sum([self.total(Count::Echo), self.total(Count::Answered)]);
        let fates = self.vips.iter().map(|(_, counts, _)| sum(counts[3..Count::FATES].to_vec()));
        format!(
            "received {}  forwarded {}  answered {}  dropped {}  passed {}",
            grouped(seen),
            grouped(forwarded),
            grouped(answered),
            grouped(sum(fates)),
            grouped(self.passed),
        )
    }

    /// As a table of reals, and what was dropped and why.
    pub fn text(&self) -> String {
        let mut text = self.line() + "\n";
        let mut rows = Vec::new();
        for (name, counts, reals) in &self.vips {
            for real in reals {
                let numbers = [real.frames, real.bytes, real.live_flows].map(grouped);
                let words = [name.clone(), real.address.clone(), real.state.to_owned()];
                rows.push(words.into_iter().chain(numbers).collect());
            }
            let dropped = NAMES.iter().zip(counts).take(Count::FATES).skip(3);
            for (cause, count) in dropped.filter(|(_, count)| **count > 0) {
                text += &format!("{name}: {} dropped: {cause}\n", grouped(*count));
            }
        }
        if !rows.is_empty() {
            text += &columns::text(&["VIP", "real", "state", "frames", "bytes", "flows"], &rows);
        }
        text
    }

    /// As JSON: received is passed and, of all VIPs, the first nine counts.
    pub fn json(&self) -> Value {
        let vips = self.vips.iter().map(|(name, counts, reals)| {
            let counts = NAMES.iter().zip(counts);
            let counts: serde_json::Map<String, Value> =
                counts.map(|(name, count)| ((*name).into(), (*count).into())).collect();
            let reals: Vec<Value> = (reals.iter())
                .map(|real| {
                    json!({
                        "address": real.address,
                        "state": real.state,
                        "frames": real.frames,
                        "bytes": real.bytes,
                        "live_flows": real.live_flows,
                    })
                })
                .collect();
            json!({ "name": name, "counts": counts, "reals": reals })
        });
        let vips: Vec<Value> = vips.collect();
        json!({ "balance": { "received": self.seen, "passed": self.passed, "vips": vips } })
    }
}
