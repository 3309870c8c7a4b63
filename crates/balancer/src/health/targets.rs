//! The reals that are asked, what is known of each, and when it is its turn.

use super::state::{HealthLedger, RealHealth};
use ringside_balance::Config;
use ringside_balance::config::{HealthCheck, RealState};
use ringside_balance::tables::RealEntry;
use ringside_ebpf::balance::CHECK_SLOTS;
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Reals that are asked for the first time follow each other at least so closely.
const STAGGER_MAX: Duration = Duration::from_millis(20);

/// A real by the names that people give.
type Name = (String, IpAddr);

/// A real that is asked.
#[derive(Debug)]
pub(super) struct Target {
    name: Name,
    pub check: HealthCheck,
    pub way: RealEntry,
    health: RealHealth,
}

/// A real whose answers have turned its state.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    /// Name of its VIP.
    pub vip: String,
    /// Its address.
    pub real: IpAddr,
    /// Its last answer.
    pub answer: Result<(), String>,
}

impl Turn {
    /// For people; `is_wanted` if the real is down for want of answers alone.
    pub fn words(&self, is_wanted: bool) -> String {
        let Turn { vip, real, answer } = self;
        match (answer, is_wanted) {
            (Ok(()), true) => format!("{real} of {vip} answers again, and is up"),
            (Ok(()), false) => format!("{real} of {vip} answers again"),
            (Err(why), true) => format!("{real} of {vip} is down: {why}"),
            (Err(why), false) => format!("{real} of {vip} does not answer: {why}"),
        }
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Targets {
    all: Vec<Target>,
    by_name: HashMap<Name, usize>,
    /// When each that is not asked now is to be.
    due: BTreeSet<(Instant, usize)>,
}

impl Targets {
    /// Those of this configuration from now on; none is asked now. What is known of one stays known
    /// as long as it is asked the same.
    pub fn follow(&mut self, config: &Config, now: Instant) {
        let mut before: HashMap<Name, Target> =
            self.all.drain(..).map(|target| (target.name.clone(), target)).collect();
        let was_due: HashMap<usize, Instant> =
            std::mem::take(&mut self.due).into_iter().map(|(at, target)| (target, at)).collect();
        let places = std::mem::take(&mut self.by_name);
        for (vip, real, check) in config.asked() {
            let name = (vip.name.clone(), real.address);
            let index = self.all.len();
            let stagger = STAGGER_MAX.min(Duration::from_millis(check.interval_ms.into()));
            let first = now + stagger * (index % CHECK_SLOTS) as u32;
            let old = before.remove(&name).filter(|old| old.check == *check);
            let due = places.get(&name).and_then(|place| was_due.get(place)).copied();
            // Another question need not wait for the time of the one before.
            let due = due.filter(|_| old.is_some());
            let health = old.map(|old| old.health).unwrap_or_default();
            self.due.insert((due.unwrap_or(first), index));
            self.by_name.insert(name.clone(), index);
            let way = RealEntry::of(vip, real);
            self.all.push(Target { name, check: check.clone(), way, health });
        }
    }

    pub fn get(&self, target: usize) -> &Target {
        &self.all[target]
    }

    /// The one whose turn it is, if it is one's; it is asked now.
    pub fn take_due(&mut self, now: Instant) -> Option<usize> {
        self.due.first().filter(|(at, _)| *at <= now)?;
        self.due.pop_first().map(|(_, target)| target)
    }

    /// It is asked no more, and is to be asked again at a time.
    pub fn put_off(&mut self, target: usize, at: Instant) {
        self.due.insert((at, target));
    }

    /// It could not be asked: nothing is known of the real, and its state stays.
    pub fn note_unasked(&mut self, target: usize, why: String, now: Instant) {
        self.all[target].health.last = why;
        self.put_off_by_interval(target, now);
    }

    /// Notes an answer; says so if the real is up or down since.
    pub fn note(
        &mut self,
        target: usize,
        answer: Result<(), String>,
        now: Instant,
    ) -> Option<Turn> {
        self.put_off_by_interval(target, now);
        let Target { name, check, health, .. } = &mut self.all[target];
        let has_turned = health.note(&answer, check.rise, check.fall);
        let (vip, real) = name.clone();
        has_turned.then_some(Turn { vip, real, answer })
    }

    fn put_off_by_interval(&mut self, target: usize, now: Instant) {
        let interval_ms = self.all[target].check.interval_ms;
        self.put_off(target, now + Duration::from_millis(interval_ms.into()));
    }

    /// Has reals that do not answer be down. What was known by another question than the
    /// configuration has does not count. One that drains goes on, or its deadline would begin anew
    /// whenever it answers again.
    pub fn apply(&self, config: &mut Config) {
        for vip in &mut config.vips {
            for real in vip.reals.iter_mut().filter(|real| real.state == RealState::Up) {
                let Some(index) = self.by_name.get(&(vip.name.clone(), real.address)) else {
                    continue;
                };
                let target = &self.all[*index];
                if vip.health.as_ref() == Some(&target.check) && !target.health.is_up {
                    real.state = RealState::Down;
                }
            }
        }
    }

    /// What is known of a real.
    pub fn ledger(&self, vip: &str, real: IpAddr) -> Option<HealthLedger> {
        let index = self.by_name.get(&(vip.to_owned(), real))?;
        Some(self.all[*index].health.ledger())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringside_balance::Tables;

    fn config(health: &str, real: &str) -> Config {
        let text = format!(
            "source_v4 = \"10.9.0.0/16\"\n[[vip]]\nname = \"web\"\naddress = \"192.0.2.1\"\n\
             port = 80\nprotocol = \"tcp\"\nslots = 251\n{health}\n\
             [[vip.real]]\naddress = \"10.0.0.1\"\n{real}\n"
        );
        Config::read(text.as_bytes()).unwrap()
    }

    const TCP: &str = "health = { kind = \"tcp\", interval_ms = 60000 }";
    const HTTP: &str = "health = { kind = \"http\", interval_ms = 60000 }";

    /// Of this configuration, whose real does not answer.
    fn down(config: &Config, now: Instant) -> Targets {
        let mut targets = Targets::default();
        targets.follow(config, now);
        let turns = (0..3).filter_map(|_| targets.note(0, Err("refused".to_owned()), now)).count();
        assert_eq!(turns, 1);
        targets
    }

    fn state(targets: &Targets, config: &Config) -> RealState {
        let mut applied = config.clone();
        targets.apply(&mut applied);
        applied.vips[0].reals[0].state
    }

    #[test]
    fn a_real_is_up_again_if_it_is_asked_otherwise_or_no_more() {
        let (now, first) = (Instant::now(), config(TCP, ""));
        let mut targets = down(&first, now);
        assert_eq!(state(&targets, &first), RealState::Down);
        // The tables of an edited file are made before its reals are followed.
        for edited in [config(HTTP, ""), config("", "")] {
            assert_eq!(state(&targets, &edited), RealState::Up);
        }
        assert_eq!(state(&targets, &config(TCP, "weight = 9")), RealState::Down);
        targets.follow(&config(HTTP, ""), now);
        let ledger = targets.ledger("web", "10.0.0.1".parse().unwrap()).unwrap();
        assert!(ledger.is_up && ledger.bad == 0, "{ledger:?}");
    }

    #[test]
    fn a_drain_ends_at_its_deadline_whatever_is_answered_meanwhile() {
        const SECOND_NS: u64 = 1_000_000_000;
        let (now, draining) = (Instant::now(), "state = \"draining\"\ndrain_s = 10");
        let config = config(TCP, draining);
        let mut targets = down(&config, now);
        let mut tables = Tables::new(&config, 0);
        for second in 1..9 {
            let mut applied = config.clone();
            targets.apply(&mut applied);
            tables = tables.next(&applied, second * SECOND_NS);
            assert_eq!(tables.reals[0].until_ns, 10 * SECOND_NS);
            let answer = if second % 2 == 0 { Err("refused".to_owned()) } else { Ok(()) };
            let turns = (0..3).filter_map(|_| targets.note(0, answer.clone(), now)).count();
            assert_eq!(turns, 1);
        }
    }

    #[test]
    fn another_question_is_asked_at_once_and_the_same_in_its_time() {
        let (now, first) = (Instant::now(), config(TCP, ""));
        let mut targets = Targets::default();
        targets.follow(&first, now);
        assert_eq!(targets.take_due(now), Some(0));
        targets.note(0, Ok(()), now);
        targets.follow(&first, now);
        assert_eq!(targets.take_due(now + Duration::from_secs(59)), None);
        targets.follow(&config(HTTP, ""), now);
        assert_eq!(targets.take_due(now), Some(0));
    }

    #[test]
    fn what_turned_is_said_as_it_is() {
        let turn = |answer| Turn { vip: "web".into(), real: [10, 0, 0, 1].into(), answer };
        let bad = turn(Err("refused".to_owned()));
        assert_eq!(bad.words(true), "10.0.0.1 of web is down: refused");
        assert_eq!(bad.words(false), "10.0.0.1 of web does not answer: refused");
        assert!(turn(Ok(())).words(true).ends_with("answers again, and is up"));
        assert!(turn(Ok(())).words(false).ends_with("answers again"));
    }
}
