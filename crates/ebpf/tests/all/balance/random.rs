//! Random frames and changes: the program does what the model says, to the byte and the count.

use super::support::random::{random_config, random_frame};
use super::support::{OURS, Plane, config};
use super::{ALLOWED, Driver};
use ringside_balance::balancer::{Count, Verdict};
use ringside_balance::{Config, Tables};
use ringside_ebpf::balance::{BalanceProgram, BalanceRoom};
use ringside_sys::clock::monotonic_ns;
use ringside_testkit::{Random, by_run, need_root};

/// Frames from one start to the next, in which tables change three times.
const FRAMES: usize = 4_000;

#[test]
fn random_frames_over_changes() {
    if !need_root("the balancer in XDP against its model") {
        return;
    }
    let mut random = Random::new(21);
    let mut seen = [0u64; Count::ALL];
    let mut frames = 0u64;
    for _ in 0..by_run(25, 2_500) {
        let mut driver = Driver::start(&config(&random_config(&mut random)));
        let mut passed = 0;
        for round in 0..4 {
            for _ in 0..FRAMES / 4 {
                if random.below(8) == 0 {
                    driver.go_to_cpu(random.below(2));
                }
                let verdict = driver.decide(&random_frame(&mut random));
                passed += u64::from(verdict == Verdict::Pass);
            }
            if round < 3 {
                driver.age([0, 31, 100][round]);
                driver.change(&config(&random_config(&mut random)));
            }
        }
        frames += FRAMES as u64;
        let mut fates = 0;
        for vip in 0..driver.tables().vips.len() as u32 {
            let counts = driver.counts(vip);
            fates += counts[..Count::FATES].iter().sum::<u64>();
            for (sum, count) in seen.iter_mut().zip(counts) {
                *sum += count;
            }
        }
        for real in 0..driver.tables().reals.len() as u32 {
            assert_eq!(driver.program.real_counts(real), driver.model.real_counts(real));
        }
        assert_eq!(driver.program.totals(), [FRAMES as u64, passed]);
        assert_eq!(fates + passed, FRAMES as u64);
    }
    let has_others = ALLOWED.get().is_some_and(|cpus| cpus.len() > 1);
    let all = if has_others { Count::ALL } else { Count::Moved as usize };
    let never: Vec<usize> = (0..all).filter(|at| seen[*at] == 0).collect();
    assert_eq!(never, [Count::NoRoom as usize], "{seen:?}");
    assert!(frames >= by_run(100_000, 10_000_000));
}

#[test]
fn tables_that_are_too_large_are_refused_and_the_others_stay() {
    if !need_root("the room of the balancer's tables") {
        return;
    }
    let small = "[[vip]]\nname = \"a\"\naddress = \"192.0.2.1\"\nprotocol = \"tcp\"\nslots = 251\n";
    let tables = |text: &str| Tables::new(&Config::read(text.as_bytes()).unwrap(), 0);
    let first = tables(small);
    let room = BalanceRoom { vips: 1, reals: 1, slots: 251, keys: 64, flows: 8 };
    let mut program = BalanceProgram::load(&first, &room, OURS).unwrap();
    let error = program.change(&tables(&small.replace("251", "257")), 0).unwrap_err();
    let text = "the tables have 257 slots, and the balancer was started with room for 251";
    assert!(error.to_string().starts_with(text), "{error}");
    program.change(&first, monotonic_ns()).unwrap();
    assert!(room.memory_bytes(2) > 2 * 251 * 4);
    assert!(BalanceRoom::twice(&first, 8).slots >= 502);
}

#[test]
fn live_flows_are_counted_by_real() {
    if !need_root("live flows of the balancer") {
        return;
    }
    let text = super::support::cases::one_vip(
        "address = \"192.0.2.1\"\nprotocol = \"tcp\"",
        &[("10.0.0.51", ""), ("10.0.0.52", "")],
    );
    let mut driver = Driver::start(&config(&text));
    use super::support::frames::{End, SYN, end, tcp};
    for port in 1..=100 {
        driver.decide(&tcp(End([198, 51, 100, 1].into(), port), end("192.0.2.1 80"), SYN, 0));
    }
    let hour_ns = 3_600_000_000_000;
    let live = driver.program.maps().live_flows(&driver.tables().reals, monotonic_ns(), hour_ns);
    let expected: Vec<u64> = (0..2).map(|real| driver.program.real_counts(real)[0]).collect();
    assert_eq!((live[..2].to_vec(), live.iter().sum::<u64>()), (expected, 100));
    driver.age(3_700);
    let live = driver.program.maps().live_flows(&driver.tables().reals, monotonic_ns(), hour_ns);
    assert_eq!(live.iter().sum::<u64>(), 0);
}
