//! Pre-filters of rules in the kernel: the program that it runs turns away what the reference turns
//! away, which never is a frame that a rule matches.

use ringside_core::LinkType;
use ringside_core::limits::FRAME_BYTES_MAX;
use ringside_ebpf::socket_filter::{Behind, FilterCounters, SocketFilter, Switch};
use ringside_filter::{Compiler, Prepared};
use ringside_inspect::DissectedFrame;
use ringside_rules::engine::{Counts, Engine};
use ringside_rules::language::{self, RuleSet, Sets};
use ringside_rules::pre_filter::{PreFilter, QUESTIONS_MAX};
use ringside_sys::bpf::ProgramType;
use ringside_testkit::rules::{random_frame, random_rule};
use ringside_testkit::{Random, by_run, capture_files, is_runnable, need_root};
use std::time::Duration;

const COMPILER: Compiler = Compiler::InProcess { optimise: true };

fn set(text: &str) -> RuleSet {
    language::parse(text.as_bytes(), &mut Sets::none()).unwrap_or_else(|e| panic!("{text}\n{e}"))
}

/// The rules in user space, and their pre-filter in the kernel and as the reference has it.
struct Guarded {
    rules: RuleSet,
    engine: Engine,
    reference: Prepared,
    filter: SocketFilter,
    /// Frames that came, and what the filter must have counted.
    frames: Counts,
    expected: FilterCounters,
}

impl Guarded {
    fn new(rules: RuleSet, questions_max: usize) -> Option<Guarded> {
        let link = LinkType::ETHERNET;
        let pre_filter = PreFilter::new(&rules, link, FRAME_BYTES_MAX, questions_max).ok()?;
        let switch = Switch::new().unwrap();
        let behind = Some(Behind { program: pre_filter.program(), switch: &switch });
        let (classifier, all) = (ProgramType::SchedCls, SocketFilter::accept_all());
        Some(Guarded {
            engine: Engine::new(rules.clone(), link, &COMPILER).unwrap(),
            rules,
            reference: Prepared::new(pre_filter.program()).unwrap(),
            filter: SocketFilter::load_as(classifier, &all, behind, link, 0).unwrap(),
            frames: Counts::default(),
            expected: FilterCounters::default(),
        })
    }

    /// Has a frame judged: by the rules if the kernel lets it through.
    fn judge(&mut self, frame: &[u8]) {
        let bytes = frame.len() as u64;
        let accepted = self.filter.program().test_run(frame, 1).unwrap().return_value != 0;
        let reference = self.reference.accepts(frame, frame.len() as u32);
        assert_eq!(accepted, reference, "{}\n{frame:02x?}", self.rules);
        self.expected.seen += 1;
        self.expected.accepted += 1;
        self.frames = self.frames + Counts { frames: 1, bytes };
        // Whether the rules match it too is seen by their counts.
        let before = self.matched();
        self.engine.judge(&DissectedFrame::new(frame, frame.len() as u32, LinkType::ETHERNET));
        if !accepted {
            self.expected.turned_away += 1;
            self.expected.turned_away_bytes += bytes;
            assert_eq!(self.matched(), before, "{}\n{frame:02x?}", self.rules);
        }
    }

    fn matched(&self) -> u64 {
        self.engine.counts().map(|(_, counts)| counts.frames).sum()
    }

    fn finish(&self) -> u64 {
        assert_eq!(self.filter.counters().unwrap(), self.expected);
        self.expected.turned_away
    }
}

#[test]
fn random_pairs_in_the_kernel() {
    if !need_root("pre-filters in the kernel") {
        return;
    }
    let mut random = Random::new(31);
    let (mut pairs, mut turned_away) = (0u64, 0);
    while pairs < by_run(100_000, 1_000_000) {
        let mut rules = set("default drop");
        for id in 1..2 + random.below(9) {
            let one = set(&(random_rule(&mut random, id, true) + "default drop"));
            let is_any = PreFilter::new(&one, LinkType::ETHERNET, FRAME_BYTES_MAX, QUESTIONS_MAX);
            rules.rules.extend(is_any.is_ok().then_some(one.rules).into_iter().flatten());
        }
        let questions_max = [QUESTIONS_MAX, 9][random.below(2)];
        let Some(mut guarded) = Guarded::new(rules, questions_max) else { continue };
        for frame in (0..600).map(|_| random_frame(&mut random)).filter(|frame| is_runnable(frame))
        {
            guarded.judge(&frame);
            pairs += 1;
        }
        turned_away += guarded.finish();
    }
    eprintln!("{pairs} pairs, {turned_away} turned away");
    assert!(turned_away > pairs / 5);
}

#[test]
fn all_captures_in_the_kernel() {
    let test = "pre-filters in the kernel, on captures";
    if !need_root(test) {
        return;
    }
    let texts = [
        "1: tcp dst port 80,443,8080 => take\n2: tls.sni *.com => take\n",
        "1: ip 10.0.0.0/8,fe80::/10 not port 1-1023 => take\n2: proto 1,58,132 => count\n",
        "1: src ip 192.168.0.0/16 => take, sample 1/3\n2: udp port 53 bidir => take, cap 96\n",
        "1: not tcp not udp => take\n",
    ];
    let guards = texts.map(|text| Guarded::new(set(&format!("{text}default drop")), 1_000));
    let mut guards = guards.map(Option::unwrap);
    for path in capture_files(test) {
        let Ok(mut source) = ringside_store::open(std::slice::from_ref(&path)) else { continue };
        while !source.is_finished() {
            let Ok(Some(batch)) = source.next_batch(Duration::ZERO) else { break };
            for frame in batch.iter().filter(|frame| is_runnable(frame.bytes)) {
                let interface = frame.meta.interface.0 as usize;
                if batch.interfaces()[interface].link_type == LinkType::ETHERNET {
                    guards.iter_mut().for_each(|guarded| guarded.judge(frame.bytes));
                }
            }
        }
    }
    for guarded in &guards {
        let turned_away = guarded.finish();
        assert!(guarded.frames.frames == 0 || turned_away > 100, "{}", guarded.rules);
    }
}
