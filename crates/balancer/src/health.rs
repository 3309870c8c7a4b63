//! Whether reals answer: each is asked now and then, on the way that clients' packets go, and one
//! that does not answer is down.
//!
//! A question is a socket of this host's that asks the VIP itself. Its mark leads its packets to
//! the real (`ringside_ebpf::balance::CheckWays`); the answer comes as a client gets it, directly.
//! So what is asked is what clients use: the tunnel, the VIP's address on the real, the service.

mod asking;
mod state;

pub use state::HealthLedger;

use crate::BalancerError;
use asking::{Asking, Step};
use ringside_balance::Config;
use ringside_balance::config::{HealthCheck, RealState};
use ringside_balance::tables::{RealEntry, Settings};
use ringside_ebpf::balance::{CHECK_SLOTS, CheckWays};
use state::RealHealth;
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Reals that are asked for the first time follow each other at least so closely.
const STAGGER_MAX: Duration = Duration::from_millis(20);

/// A real by the names that people give.
type Name = (String, IpAddr);

/// A real that is asked.
#[derive(Debug)]
struct Target {
    name: Name,
    check: HealthCheck,
    way: RealEntry,
    health: RealHealth,
}

/// A question under way.
#[derive(Debug)]
struct UnderWay {
    target: usize,
    asking: Asking,
    until: Instant,
}

/// Asks the reals of a configuration.
#[derive(Debug)]
pub(crate) struct Checker {
    interface: (String, u32),
    ways: CheckWays,
    settings: Settings,
    targets: Vec<Target>,
    by_name: HashMap<Name, usize>,
    /// When each that is not asked now is to be.
    due: BTreeSet<(Instant, usize)>,
    /// By slot.
    under_way: Vec<Option<UnderWay>>,
}

impl Checker {
    /// One for an interface of the calling thread's network namespace, which asks no real yet.
    pub fn open(interface: &str, ifindex: u32) -> Result<Checker, BalancerError> {
        Ok(Checker {
            interface: (interface.to_owned(), ifindex),
            ways: CheckWays::open(interface, ifindex)?,
            settings: Settings::default(),
            targets: Vec::new(),
            by_name: HashMap::new(),
            due: BTreeSet::new(),
            under_way: (0..CHECK_SLOTS).map(|_| None).collect(),
        })
    }

    /// Asks the reals of this configuration from now on. What is known of one stays known as long
    /// as it is asked the same.
    pub fn follow(&mut self, config: &Config, settings: &Settings, now: Instant) {
        for slot in 0..CHECK_SLOTS {
            self.end(slot);
        }
        let mut before: HashMap<Name, Target> =
            self.targets.drain(..).map(|target| (target.name.clone(), target)).collect();
        let was_due: HashMap<usize, Instant> =
            std::mem::take(&mut self.due).into_iter().map(|(at, target)| (target, at)).collect();
        let places = std::mem::take(&mut self.by_name);
        self.settings = settings.clone();
        for (vip, real, check) in config.asked() {
            let name = (vip.name.clone(), real.address);
            let index = self.targets.len();
            let stagger = STAGGER_MAX.min(Duration::from_millis(check.interval_ms.into()));
            let first = now + stagger * (index % CHECK_SLOTS) as u32;
            let due = places.get(&name).and_then(|place| was_due.get(place)).copied();
            let old = before.remove(&name).filter(|old| old.check == *check);
            let health = old.map(|old| old.health).unwrap_or_default();
            self.due.insert((due.unwrap_or(first), index));
            self.by_name.insert(name.clone(), index);
            let way = RealEntry::of(vip, real);
            self.targets.push(Target { name, check: check.clone(), way, health });
        }
    }

    /// Reads answers and asks who is due. Gives each real that is up or down since, in words.
    pub fn step(&mut self, now: Instant) -> Vec<String> {
        let mut changes = Vec::new();
        for slot in 0..CHECK_SLOTS {
            if let Some(answer) = self.answer(slot, now) {
                changes.extend(self.note(slot, &answer, now));
            }
        }
        for slot in 0..CHECK_SLOTS {
            if self.under_way[slot].is_some() {
                continue;
            }
            let Some((_, target)) = self.due.first().copied().filter(|(at, _)| *at <= now) else {
                break;
            };
            self.due.pop_first();
            self.ask(slot, target, now);
        }
        changes
    }

    /// Begins a question.
    fn ask(&mut self, slot: usize, target: usize, now: Instant) {
        let Target { check, way, .. } = &self.targets[target];
        self.ways.lead(slot, way, &self.settings, check.address.is_ipv4());
        match Asking::begin(check, self.interface.1, CheckWays::mark(slot)) {
            Ok(asking) => {
                let until = now + Duration::from_millis(check.timeout_ms.into());
                self.under_way[slot] = Some(UnderWay { target, asking, until });
            }
            Err(why) => {
                // Nothing is known of the real: its state stays.
                let (name, address) = (&self.interface.0, check.address);
                let why = format!("not asked: {why} (`ip route get {address} oif {name}`)");
                self.ways.close(slot);
                let next = now + Duration::from_millis(check.interval_ms.into());
                self.targets[target].health.last = why;
                self.due.insert((next, target));
            }
        }
    }

    /// The answer to a question, if there is one, or time is over.
    fn answer(&mut self, slot: usize, now: Instant) -> Option<Result<(), String>> {
        let one = self.under_way[slot].as_mut()?;
        match one.asking.step() {
            Step::Answered(answer) => Some(answer),
            Step::Waits if now >= one.until => {
                let timeout_ms = self.targets[one.target].check.timeout_ms;
                Some(Err(format!("no answer in {timeout_ms} ms")))
            }
            Step::Waits => None,
        }
    }

    /// Notes an answer; says so if the real is up or down since.
    fn note(&mut self, slot: usize, answer: &Result<(), String>, now: Instant) -> Option<String> {
        let one = self.under_way[slot].take()?;
        self.close(slot, one.asking);
        let target = &mut self.targets[one.target];
        let interval = Duration::from_millis(target.check.interval_ms.into());
        self.due.insert((now + interval, one.target));
        if !target.health.note(answer, target.check.rise, target.check.fall) {
            return None;
        }
        let (vip, real) = &target.name;
        Some(match answer {
            Ok(()) => format!("{real} of {vip} answers again, and is up"),
            Err(why) => format!("{real} of {vip} is down: {why}"),
        })
    }

    /// Gives a question up.
    fn end(&mut self, slot: usize) {
        if let Some(one) = self.under_way[slot].take() {
            self.close(slot, one.asking);
            self.due.insert((one.until, one.target));
        }
    }

    fn close(&self, slot: usize, asking: Asking) {
        // First the socket, whose last packet must find its way.
        drop(asking);
        self.ways.close(slot);
    }

    /// Has reals that do not answer be down.
    pub fn apply(&self, config: &mut Config) {
        for vip in &mut config.vips {
            for real in &mut vip.reals {
                let index = self.by_name.get(&(vip.name.clone(), real.address));
                if index.is_some_and(|index| !self.targets[*index].health.is_up) {
                    real.state = RealState::Down;
                }
            }
        }
    }

    /// What is known of a real.
    pub fn ledger(&self, vip: &str, real: IpAddr) -> Option<HealthLedger> {
        let index = self.by_name.get(&(vip.to_owned(), real))?;
        Some(self.targets[*index].health.ledger())
    }
}
