//! Fuzzing, two ways for every target: bounded in `cargo test`, and guided by what inputs reach.
//!
//! In `cargo test` a stated number of inputs is made of seeds: inputs made of random bytes die in
//! the first length check, mutated real captures reach every parser's depths. `cargo xtask fuzz`
//! builds the same tests with libFuzzer in them (`guided`), which keeps each input that reaches
//! something new; the smallest of these lie in the tree and are seeds here ([`corpus`]). A failure
//! prints the seed and writes the input to a file, which then joins the seeds.

pub mod corpus;
#[cfg(fuzzing_libfuzzer)]
mod guided;

use crate::{Random, by_run, number};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Longest input that is made, in bytes.
const INPUT_BYTES_MAX: usize = 1 << 18;

/// How many times the inputs of a short run a long one tries.
const LONG_TIMES: u64 = 40;

/// Runs `target` on every seed and on the target's corpus, then on mutations of them, `inputs` in
/// all: about half a second's worth, so that every machine tries the same ones. A long run, or
/// `RINGSIDE_FUZZ_TIMES`, tries a multiple; `RINGSIDE_FUZZ_SEED` changes the stream. Returns the
/// number of inputs tried.
///
/// # Panics
/// If `target` does, the message before it names the seed and the file with the input. If `name`
/// is not listed, so that the guided run would not know of it.
pub fn fuzz(name: &str, inputs: u64, seeds: &[Vec<u8>], target: impl Fn(&[u8])) -> u64 {
    assert!(corpus::is_listed(name), "name {name} in {}", corpus::LIST);
    let mut seeds = seeds.to_vec();
    seeds.extend(corpus::read(name));
    #[cfg(fuzzing_libfuzzer)]
    if let Some(folder) = guided::folder() {
        guided::run(&folder, &seeds, &target);
    }
    from_seeds(name, inputs, &seeds, target)
}

fn from_seeds(name: &str, inputs: u64, seeds: &[Vec<u8>], target: impl Fn(&[u8])) -> u64 {
    let times = number("RINGSIDE_FUZZ_TIMES").unwrap_or_else(|| by_run(1, LONG_TIMES));
    let seed = number("RINGSIDE_FUZZ_SEED").unwrap_or(1);
    let mut random = Random::new(seed);
    let mut tried = 0;
    for input in seeds {
        run(name, seed, input, &target);
        tried += 1;
    }
    while tried < inputs.saturating_mul(times) {
        run(name, seed, &mutate(seeds, &mut random), &target);
        tried += 1;
    }
    eprintln!("fuzz {name}: {tried} inputs from {} seeds", seeds.len());
    tried
}

/// Seeds for memory of 64-bit numbers: as it is, and with each number alone as high as it can be.
pub fn each_number_at_most(memory: &[u8]) -> Vec<Vec<u8>> {
    let mut seeds = vec![memory.to_vec()];
    for at in (0..memory.len() / 8).map(|number| number * 8) {
        let mut seed = memory.to_vec();
        seed[at..at + 8].fill(0xff);
        seeds.push(seed);
    }
    seeds
}

fn run(name: &str, seed: u64, input: &[u8], target: &impl Fn(&[u8])) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| target(input))) {
        let path = std::env::temp_dir().join(format!("ringside-fuzz-{name}"));
        let kept = std::fs::write(&path, input).is_ok();
        eprintln!("fuzz {name}: seed {seed} failed; input kept: {kept}, {}", path.display());
        resume_unwind(panic);
    }
}

/// One input: a seed with a few bytes, lengths or pieces changed, or random bytes.
pub fn mutate(seeds: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut input = match seeds.len() {
        0 => {
            let length = random.below(512);
            random.bytes(length)
        }
        count => seeds[random.below(count)].clone(),
    };
    for _ in 0..=random.below(6) {
        change(&mut input, seeds, random);
    }
    input.truncate(INPUT_BYTES_MAX);
    input
}

fn change(input: &mut Vec<u8>, seeds: &[Vec<u8>], random: &mut Random) {
    // Values that sit on the edges of length fields.
    const EDGES: [u32; 8] = [0, 1, 3, 0x7f, 0xff, 0xffff, 0x7fff_ffff, 0xffff_ffff];
    if input.is_empty() {
        input.push(random.next_u64() as u8);
        return;
    }
    let at = random.below(input.len());
    match random.below(8) {
        0 => input[at] ^= 1 << random.below(8),
        1 => input[at] = random.next_u64() as u8,
        2 => input.truncate(at),
        3 => {
            let value = EDGES[random.below(EDGES.len())];
            let bytes =
                if random.below(2) == 0 { value.to_le_bytes() } else { value.to_be_bytes() };
            let width = [1, 2, 4][random.below(3)].min(input.len() - at);
            input[at..at + width].copy_from_slice(&bytes[4 - width..]);
        }
        4 => {
            let end = at + random.below((input.len() - at).min(64) + 1);
            input.drain(at..end);
        }
        5 => {
            let end = at + random.below((input.len() - at).min(64) + 1);
            let piece = input[at..end].to_vec();
            input.splice(at..at, piece);
        }
        6 if !seeds.is_empty() => {
            let other = &seeds[random.below(seeds.len())];
            let from = random.below(other.len() + 1);
            let to = from + random.below((other.len() - from).min(256) + 1);
            input.splice(at..at, other[from..to].iter().copied());
        }
        _ => {
            let byte = random.next_u64() as u8;
            input.insert(at, byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_inputs_and_a_failure_is_found() {
        let seeds = vec![b"hello capture".to_vec()];
        let make = || {
            let mut random = Random::new(7);
            (0..50).map(|_| mutate(&seeds, &mut random)).collect::<Vec<_>>()
        };
        assert_eq!(make(), make());
        let found = catch_unwind(|| {
            from_seeds("self-test", 10_000, &seeds, |input| assert!(input.len() < 15))
        });
        assert!(found.is_err());
    }
}
