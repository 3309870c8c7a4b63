//! What the program of a real server takes out of tunnels, against its model.

use super::support::frames::*;
use super::support::random::{random_config, random_frame};
use super::support::{Model, OURS, Plane, cases, config};
use ringside_balance::balancer::Verdict;
use ringside_balance::decap::{Decap, Unpacking};
use ringside_ebpf::Verdict as Ending;
use ringside_ebpf::balance::{DecapCounts, DecapProgram};
use ringside_testkit::{Random, by_run, need_root};

fn decap() -> Decap {
    let addresses = ["10.0.0.50", "10.0.0.51", "2001:db8:a::50", "2001:db8:a::51"];
    Decap {
        mac: OURS,
        addresses: addresses.map(|address| address.parse().unwrap()).into(),
        source_v4: Some("10.9.0.0/16".parse().unwrap()),
        source_v6: Some("2001:db8:9::/64".parse().unwrap()),
        gue_port: 6080,
    }
}

/// Program and model side by side.
struct Both {
    program: DecapProgram,
    model: Decap,
    expected: DecapCounts,
}

impl Both {
    fn new(model: Decap) -> Both {
        let program = DecapProgram::load(&model).unwrap();
        Both { program, model, expected: DecapCounts::default() }
    }

    fn decide(&mut self, frame: &[u8]) -> Unpacking {
        let expected = self.model.decide(frame);
        let run = self.program.test_run(frame).unwrap();
        self.expected.seen += 1;
        let (ending, out, count) = match &expected {
            Unpacking::Pass => (Ending::Pass, frame, &mut self.expected.passed),
            Unpacking::Unpacked(out) => (Ending::Pass, &out[..], &mut self.expected.unpacked),
            Unpacking::Congested => (Ending::Drop, &[][..], &mut self.expected.congested),
        };
        *count += 1;
        assert_eq!(run.verdict, ending, "{frame:02x?}");
        if ending == Ending::Pass {
            assert_eq!(run.frame, out, "{frame:02x?}");
        }
        assert_eq!(self.program.counts(), self.expected);
        expected
    }
}

/// Frames as a balancer sends them, now with this host's hardware address.
fn tunnelled(random: &mut Random, count: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut all = Vec::new();
    while all.len() < count {
        let mut balancer = Model::start(&config(&random_config(random)));
        for _ in 0..400 {
            let frame = random_frame(random);
            if let Verdict::Send { frame: mut out, .. } = balancer.decide(&frame) {
                out[..6].copy_from_slice(&OURS.0);
                all.push((frame, out));
            }
        }
    }
    all
}

#[test]
fn what_a_balancer_sends_comes_out_as_it_came_in() {
    if !need_root("tunnels that end in XDP") {
        return;
    }
    let mut both = Both::new(decap());
    for via in ["ipip", "gue"] {
        let vip = "address = \"192.0.2.1\"\nprotocol = \"tcp\"";
        for real in ["10.0.0.50", "2001:db8:a::51"] {
            let text = cases::one_vip(&format!("{vip}\nvia = \"{via}\""), &[(real, "")]);
            let mut balancer = Model::start(&config(&text));
            let frame = tcp(end("198.51.100.7 9"), end("192.0.2.1 80"), SYN, 11);
            let Verdict::Send { frame: mut out, .. } = balancer.decide(&frame) else { panic!() };
            out[..6].copy_from_slice(&OURS.0);
            let Unpacking::Unpacked(inner) = both.decide(&out) else { panic!("{out:02x?}") };
            assert_eq!(inner[12..], frame[12..]);
        }
    }
}

#[test]
fn tunnels_from_elsewhere_or_to_elsewhere_go_on_unchanged() {
    if !need_root("foreign tunnels in XDP") {
        return;
    }
    let text = cases::one_vip("address = \"192.0.2.1\"\nprotocol = \"tcp\"", &[("10.0.0.50", "")]);
    let mut balancer = Model::start(&config(&text));
    let frame = tcp(end("198.51.100.7 9"), end("192.0.2.1 80"), SYN, 11);
    let Verdict::Send { frame: mut out, .. } = balancer.decide(&frame) else { panic!() };
    out[..6].copy_from_slice(&OURS.0);
    let foreign = |change: fn(&mut Decap)| {
        let mut model = decap();
        change(&mut model);
        Both::new(model).decide(&out)
    };
    assert!(matches!(foreign(|_| {}), Unpacking::Unpacked(_)));
    let source = |decap: &mut Decap| decap.source_v4 = Some("10.8.0.0/16".parse().unwrap());
    assert_eq!(foreign(source), Unpacking::Pass);
    assert_eq!(foreign(|decap| decap.source_v4 = None), Unpacking::Pass);
    assert_eq!(foreign(|decap| decap.addresses = decap.addresses[1..].to_vec()), Unpacking::Pass);
    assert_eq!(foreign(|decap| decap.mac.0[5] = 9), Unpacking::Pass);
    let none = DecapProgram::load(&Decap { addresses: Vec::new(), ..decap() }).unwrap_err();
    assert!(none.to_string().contains("give 1 to 8"), "{none}");
}

#[test]
fn congestion_on_the_way_is_said_within() {
    if !need_root("congestion marks of tunnels in XDP") {
        return;
    }
    let mut both = Both::new(decap());
    for (vip, client, to) in [
        ("192.0.2.1", "198.51.100.7 9", "192.0.2.1 80"),
        ("2001:db8::1", "2001:db8:c::7 9", "2001:db8::1 80"),
    ] {
        let vip = format!("address = \"{vip}\"\nprotocol = \"tcp\"");
        let mut balancer = Model::start(&config(&cases::one_vip(&vip, &[("2001:db8:a::50", "")])));
        for (tos, after) in
            [(0xb8, None), (0xb9, Some(0xbb)), (0xba, Some(0xbb)), (0xbb, Some(0xbb))]
        {
            let frame = with_tos(&tcp(end(client), end(to), ACK, 11), tos);
            let Verdict::Send { frame: out, .. } = balancer.decide(&frame) else { panic!() };
            let mut marked = with_tos(&out, 0xbb);
            marked[..6].copy_from_slice(&OURS.0);
            match (both.decide(&marked), after) {
                (Unpacking::Congested, None) => {}
                (Unpacking::Unpacked(inner), Some(after)) => {
                    assert_eq!(inner[12..], with_tos(&frame, after)[12..]);
                    cases::headers(&inner);
                }
                (other, _) => panic!("{tos:x}: {other:02x?}"),
            }
        }
    }
}

#[test]
fn random_frames_in_tunnels_and_out_of_them() {
    if !need_root("random tunnels in XDP") {
        return;
    }
    let mut random = Random::new(31);
    let mut both = Both::new(decap());
    let frames = tunnelled(&mut random, by_run(2_000, 20_000));
    for round in 0..by_run(40_000, 2_000_000) {
        let (inner, outer) = &frames[random.below(frames.len())];
        let mut frame = if round % 8 == 0 { inner.clone() } else { outer.clone() };
        for _ in 0..random.below(3) {
            match random.below(4) {
                0 => frame.truncate(15 + random.below(frame.len() - 14)),
                1 => frame.extend(random.bytes(9)),
                _ => {
                    let at = random.below(frame.len().min(120));
                    frame[at] = random.next_u64() as u8;
                }
            }
        }
        both.decide(&frame);
    }
    let counts = both.program.counts();
    assert!(counts.unpacked > 1_000 && counts.passed > 1_000 && counts.congested > 0, "{counts:?}");
}
