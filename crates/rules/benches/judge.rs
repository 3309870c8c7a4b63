//! What judging a frame costs in user space, dissection with it: nanoseconds a frame with one rule
//! and with 100,000 exact and 10,000 wildcard rules of ClassBench's shapes (Taylor and Turner, "A
//! packet classification benchmark", 2007), for conversations that are known and for new ones.
//!
//! `cargo bench -p ringside-rules --bench judge` prints a table.
#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on ends")]

use ringside_core::LinkType;
use ringside_filter::Compiler;
use ringside_inspect::DissectedFrame;
use ringside_rules::engine::Engine;
use ringside_rules::language::{self, Sets};
use ringside_testkit::classbench::{FRAME_BYTES, SHAPES, Traffic, frames, rules};
use std::hint::black_box;
use std::time::Instant;

const EXACT: u32 = 100_000;
const WILDCARDS: u32 = 10_000;
const FRAMES: usize = 400_000;
const ROUNDS: usize = 5;

fn traffic(flows: u64, hit_every: u64) -> Vec<[u8; FRAME_BYTES]> {
    frames(&Traffic { frames: FRAMES, flows, hit_every, exact: EXACT })
}

fn engine(text: &str) -> Engine {
    let set = language::parse(text.as_bytes(), &mut Sets::none()).unwrap();
    Engine::new(set, LinkType::ETHERNET, &Compiler::InProcess { optimise: true }).unwrap()
}

/// Nanoseconds a frame, the median of the rounds behind the first; and the share that rules
/// decided about.
fn measure(text: &str, frames: &[[u8; FRAME_BYTES]]) -> (f64, f64) {
    let mut engine = engine(text);
    let mut rounds: Vec<f64> = (0..=ROUNDS)
        .map(|_| {
            let start = Instant::now();
            for bytes in frames {
                black_box(engine.judge(&DissectedFrame::new(
                    bytes,
                    bytes.len() as u32,
                    LinkType::ETHERNET,
                )));
            }
            start.elapsed().as_nanos() as f64 / frames.len() as f64
        })
        .skip(1)
        .collect();
    rounds.sort_by(f64::total_cmp);
    let (_, undecided) = engine.default_counts();
    let all = ((ROUNDS + 1) * frames.len()) as f64;
    (rounds[rounds.len() / 2], 1.0 - undecided.frames as f64 / all)
}

fn main() {
    println!("rules                            flows    exact hits  ns/frame  decided");
    let one = "1: src ip 192.0.2.1 => drop";
    for (name, flows) in [("10,000", 10_000), ("all new", FRAMES as u64)] {
        let (ns, decided) = measure(one, &traffic(flows, 0));
        println!("one                              {name:8} none        {ns:8.0}  {decided:.2}");
    }
    for shape in &SHAPES {
        let start = Instant::now();
        let (text, combinations) = rules(shape, WILDCARDS, EXACT);
        drop(engine(&text));
        let built = start.elapsed();
        let label = format!("{} 10,000 + 100,000 ({combinations})", shape.name);
        for (name, flows) in [("10,000", 10_000), ("all new", FRAMES as u64)] {
            for (hits, every) in [("none", 0), ("1:256", 256), ("1:1", 1)] {
                let (ns, decided) = measure(&text, &traffic(flows, every));
                println!("{label:32} {name:8} {hits:10}  {ns:8.0}  {decided:.2}");
            }
        }
        println!("{label:32} loaded in {built:.1?}");
    }
}
