//! Whatever frames say: no panic, each in one place, and nothing goes out that should not.

use crate::support::frames::{ACK, End, SYN, end, tcp};
use crate::support::random::{random_config, random_frame};
use crate::support::{INTERFACE, Model, OURS, Plane, config, route};
use ringside_balance::balancer::{Balancer, Count, Verdict};
use ringside_balance::packet::Packet;
use ringside_balance::{Config, Tables};
use ringside_testkit::{Random, by_run, fuzz};

/// What holds of every frame and verdict.
fn check(frame: &[u8], verdict: &Verdict, tables: &Tables) {
    match verdict {
        Verdict::Pass | Verdict::Drop(_) => {}
        Verdict::Answer(answer) => {
            assert!(frame.starts_with(&OURS.0));
            assert!(answer.len() <= frame.len().max(14 + 40 + 8 + 512), "no amplification");
            assert_eq!(answer[..12], [&frame[6..12], &frame[..6]].concat());
        }
        Verdict::Send { real, frame: out, .. } => {
            assert!(frame.starts_with(&OURS.0));
            let entry = &tables.reals[*real as usize];
            let vip = &tables.vips[entry.vip as usize];
            assert_eq!(vip.flags & 1, 1, "a VIP that is there");
            let packet = Packet::read(frame).unwrap();
            let overhead = entry.path.overhead();
            assert_eq!(out[14 + overhead..], frame[14..], "the packet is untouched");
            assert!(packet.bytes + overhead <= tables.settings.mtu as usize);
            if overhead > 0 {
                let outer = Packet::read(out).unwrap();
                assert_eq!((outer.bytes, outer.tos), (packet.bytes + overhead, packet.tos));
                assert_eq!(outer.destination, entry.address);
            }
        }
    }
}

fn fates(balancer: &Balancer) -> u64 {
    let vips = balancer.tables().vips.len() as u32;
    (0..vips).map(|vip| balancer.counts(vip)[..Count::FATES].iter().sum::<u64>()).sum()
}

#[test]
fn every_frame_is_in_one_place_over_many_changes() {
    let mut random = Random::new(1);
    let mut seen = [0u64; Count::ALL];
    for _ in 0..by_run(30, 300) {
        let mut model = Model::start(&config(&random_config(&mut random)));
        let (mut passed, mut frames, mut forwarded) = (0, 0, 0);
        for round in 0..5 {
            for _ in 0..200 {
                if random.below(8) == 0 {
                    model.go_to_cpu(random.below(2));
                }
                let frame = random_frame(&mut random);
                let verdict = model.decide(&frame);
                check(&frame, &verdict, model.tables());
                frames += 1;
                passed += u64::from(verdict == Verdict::Pass);
                forwarded += u64::from(matches!(verdict, Verdict::Send { .. }));
            }
            if round < 4 {
                model.age([0, 31, 100, 400][round]);
                model.change(&config(&random_config(&mut random)));
            }
        }
        // A VIP that went leaves its counts behind, so that all are there.
        assert_eq!(frames, passed + fates(&model.balancer));
        let reals = model.tables().reals.len() as u32;
        let at_reals: u64 = (0..reals).map(|real| model.balancer.real_counts(real)[0]).sum();
        assert_eq!(at_reals, forwarded);
        for vip in 0..model.tables().vips.len() as u32 {
            for (sum, count) in seen.iter_mut().zip(model.counts(vip)) {
                *sum += count;
            }
        }
    }
    let never: Vec<usize> = (0..Count::ALL).filter(|at| seen[*at] == 0).collect();
    assert_eq!(never, [Count::NoRoom as usize], "{seen:?}");
}

#[test]
fn any_bytes_are_decided_without_harm() {
    let mut random = Random::new(2);
    let seeds: Vec<Vec<u8>> = (0..60).map(|_| random_frame(&mut random)).collect();
    let tables = Tables::new(&config(&random_config(&mut Random::new(7))), 0);
    let start = Balancer::new(INTERFACE, tables, 64, 3);
    fuzz("balance-frames", 20_000, &seeds, |frame| {
        let mut balancer = start.clone();
        let tables = balancer.tables().clone();
        for now_ns in [1, 2] {
            let verdict = balancer.decide(frame, now_ns, &mut route);
            check(frame, &verdict, &tables);
        }
    });
}

/// CPUs read the clock once a tick, and not at the same moment.
#[test]
fn a_flow_is_found_whose_cpu_is_ahead() {
    let text = "source_v4 = \"10.9.0.0/16\"\nchange_window_s = 0\n\
                [[vip]]\nname = \"a\"\naddress = \"192.0.2.1\"\nprotocol = \"tcp\"\nslots = 251\n\
                [[vip.real]]\naddress = \"10.0.0.51\"\n";
    let more = format!("{text}[[vip.real]]\naddress = \"10.0.0.52\"\n");
    let now_ns = 1 << 40;
    for (ahead_ns, is_found) in [(4_000_000, true), (900_000_000, true), (2_000_000_000, false)] {
        let tables = Tables::new(&config(text), now_ns);
        let mut balancer = Balancer::new(INTERFACE, tables, 1024, 3).with_cpus(2);
        let client = |port| End([198, 51, 100, 1].into(), port);
        for port in 1..=50 {
            let frame = tcp(client(port), end("192.0.2.1 80"), SYN, 0);
            balancer.decide(&frame, now_ns + ahead_ns, &mut route);
        }
        balancer.change(balancer.tables().next(&config(&more), now_ns), now_ns);
        balancer.go_to_cpu(1);
        for port in 1..=50 {
            balancer.decide(&tcp(client(port), end("192.0.2.1 80"), ACK, 0), now_ns, &mut route);
        }
        let found = balancer.counts(0)[Count::Moved as usize];
        assert_eq!(found, if is_found { 50 } else { 0 }, "{ahead_ns}");
    }
}

/// Two balancers with the same text send a flow to the same real, whatever they saw before.
#[test]
fn every_instance_chooses_the_same_real() {
    let text = random_config(&mut Random::new(5));
    let mut lines: Vec<&str> = text.split_inclusive("[[vip]]\n").collect();
    // The VIPs in another order.
    let (top, vips) = lines.split_first_mut().unwrap();
    let mut vips: Vec<String> =
        vips.iter().map(|vip| vip.trim_end_matches("[[vip]]\n").to_owned()).collect();
    vips.reverse();
    let vips: String = vips.iter().map(|vip| format!("[[vip]]\n{vip}")).collect();
    let other = Config::read((top.trim_end_matches("[[vip]]\n").to_owned() + &vips).as_bytes());
    let (mut one, mut two) = (Model::start(&config(&text)), Model::start(&other.unwrap()));
    let mut random = Random::new(6);
    for _ in 0..by_run(1_000, 50_000) {
        let frame = random_frame(&mut random);
        let (a, b) = (one.decide(&frame), two.decide(&frame));
        one.balancer.forget();
        two.balancer.forget();
        let real = |plane: &Model, verdict: &Verdict| match verdict {
            Verdict::Send { real, .. } => Some(plane.tables().reals[*real as usize].ip()),
            _ => None,
        };
        assert_eq!(real(&one, &a), real(&two, &b), "{frame:02x?}");
    }
}
