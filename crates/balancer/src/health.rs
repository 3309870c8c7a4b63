//! Whether reals answer: each is asked now and then, on the way that clients' packets go, and one
//! that does not answer is down.
//!
//! A question is a socket of this host's that asks the VIP itself. Its mark leads its packets to
//! the real (`ringside_ebpf::balance::CheckWays`); the answer comes as a client gets it, directly.
//! So what is asked is what clients use: the tunnel, the VIP's address on the real, the service.

mod asking;
mod state;
mod targets;

pub use state::HealthLedger;
pub(crate) use targets::Turn;

use crate::BalancerError;
use asking::{Asking, Step};
use ringside_balance::Config;
use ringside_balance::tables::Settings;
use ringside_ebpf::balance::{CHECK_SLOTS, CheckWays};
use std::net::IpAddr;
use std::time::{Duration, Instant};
use targets::Targets;

/// Between two looks at what is under way: 50 ms, and as much again on a busy machine. What is more
/// is a pause of our own, which is not a real's silence.
const STEP_MAX: Duration = Duration::from_millis(100);

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
    targets: Targets,
    /// By slot.
    under_way: Vec<Option<UnderWay>>,
    stepped_at: Instant,
}

impl Checker {
    /// One for an interface of the calling thread's network namespace, which asks no real yet.
    pub fn open(interface: &str, ifindex: u32) -> Result<Checker, BalancerError> {
        Ok(Checker {
            interface: (interface.to_owned(), ifindex),
            ways: CheckWays::open(interface, ifindex)?,
            settings: Settings::default(),
            targets: Targets::default(),
            under_way: (0..CHECK_SLOTS).map(|_| None).collect(),
            stepped_at: Instant::now(),
        })
    }

    /// Asks the reals of this configuration from now on. What is known of one stays known as long
    /// as it is asked the same.
    pub fn follow(&mut self, config: &Config, settings: &Settings, now: Instant) {
        for slot in 0..CHECK_SLOTS {
            self.end(slot);
        }
        self.settings = settings.clone();
        self.targets.follow(config, now);
    }

    /// Reads answers and asks who is due. Gives each real that is up or down since.
    pub fn step(&mut self, now: Instant) -> Vec<Turn> {
        let pause = now.saturating_duration_since(self.stepped_at);
        self.stepped_at = now;
        for one in self.under_way.iter_mut().flatten() {
            one.until += pause.saturating_sub(STEP_MAX);
        }
        let mut turns = Vec::new();
        for slot in 0..CHECK_SLOTS {
            if let Some(answer) = self.answer(slot, now) {
                turns.extend(self.note(slot, answer, now));
            }
        }
        for slot in 0..CHECK_SLOTS {
            if self.under_way[slot].is_some() {
                continue;
            }
            let Some(target) = self.targets.take_due(now) else { break };
            self.ask(slot, target, now);
        }
        turns
    }

    /// Begins a question.
    fn ask(&mut self, slot: usize, target: usize, now: Instant) {
        let asked = self.targets.get(target);
        let check = &asked.check;
        self.ways.lead(slot, &asked.way, &self.settings, check.address.is_ipv4());
        match Asking::begin(check, self.interface.1, CheckWays::mark(slot)) {
            Ok(asking) => {
                let until = now + Duration::from_millis(check.timeout_ms.into());
                self.under_way[slot] = Some(UnderWay { target, asking, until });
            }
            Err(why) => {
                let (name, address) = (&self.interface.0, check.address);
                let why = format!("not asked: {why} (`ip route get {address} oif {name}`)");
                self.ways.close(slot);
                self.targets.note_unasked(target, why, now);
            }
        }
    }

    /// The answer to a question, if there is one, or time is over.
    fn answer(&mut self, slot: usize, now: Instant) -> Option<Result<(), String>> {
        let one = self.under_way[slot].as_mut()?;
        match one.asking.step() {
            Step::Answered(answer) => Some(answer),
            Step::Waits if now >= one.until => {
                let timeout_ms = self.targets.get(one.target).check.timeout_ms;
                Some(Err(format!("no answer in {timeout_ms} ms")))
            }
            Step::Waits => None,
        }
    }

    /// Notes an answer; says so if the real is up or down since.
    fn note(&mut self, slot: usize, answer: Result<(), String>, now: Instant) -> Option<Turn> {
        let one = self.under_way[slot].take()?;
        self.close(slot, one.asking);
        self.targets.note(one.target, answer, now)
    }

    /// Gives a question up.
    fn end(&mut self, slot: usize) {
        if let Some(one) = self.under_way[slot].take() {
            self.close(slot, one.asking);
            self.targets.put_off(one.target, one.until);
        }
    }

    fn close(&self, slot: usize, asking: Asking) {
        // First the socket, whose last packet must find its way.
        drop(asking);
        self.ways.close(slot);
    }

    /// Has reals that do not answer be down.
    pub fn apply(&self, config: &mut Config) {
        self.targets.apply(config);
    }

    /// What is known of a real.
    pub fn ledger(&self, vip: &str, real: IpAddr) -> Option<HealthLedger> {
        self.targets.ledger(vip, real)
    }
}
