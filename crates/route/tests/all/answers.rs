//! Answers of the kernel's tables that stand for further packets of a flow.

use crate::frames::{any, changed, framed, packet, plain, udp};
use crate::testbed::{Loaded, ifindexes, testbed};
use ringside_ebpf::Verdict;
use ringside_ebpf::route::{Cause, DevicePlace, ReversePath, RouteProgram};
use ringside_sys::thread::{allowed_cpus, pin_to_cpu};
use ringside_testkit::{Random, need_root};
use std::time::Duration;

/// The program at work on `in0`, with the tables of `loaded`.
fn at_work(loaded: &Loaded, answer_age_max: Duration) -> RouteProgram {
    let place = DevicePlace { device: 0, slot: Some(0) };
    RouteProgram::at_work(&loaded.tables, place, answer_age_max).unwrap()
}

#[test]
fn what_stands_is_what_the_kernel_would_answer() {
    if !need_root("what_stands_is_what_the_kernel_would_answer") {
        return;
    }
    let net = testbed();
    let all = ifindexes(&net);
    net.inside("r", || {
        let loaded = Loaded::new(all, ReversePath::Unasked);
        let keeping = at_work(&loaded, Duration::from_secs(3600));
        let mut random = Random::new(26);
        // Few flows, so that most of the frames find an answer, and parts of each other.
        let flows: Vec<Vec<u8>> = (0..300).map(|_| any(&mut random)).collect();
        let mut forwarded = 0;
        for count in 0..6_000 {
            let mut frame = flows[random.below(flows.len())].clone();
            // Of another flow by one bit, or of the same: TTL, ports, addresses, class, protocol.
            if count % 3 == 0 {
                let at = 14 + random.below(frame.len().min(62) - 14);
                frame[at] ^= 1 << random.below(8);
                if frame[12..15] == [8, 0, 0x45] {
                    crate::frames::fix(&mut frame[14..34]);
                }
            }
            let (asked, report) = loaded.program.explain(&loaded.tables, &frame).unwrap();
            assert_eq!(keeping.run(&frame).unwrap(), asked, "{report:?} {frame:02x?}");
            forwarded += u64::from(report.cause == Cause::Forwarded);
        }
        assert!(forwarded > 2_000, "{forwarded}");
        let counts = loaded.tables.counts(0).unwrap();
        assert_eq!(counts.received, 12_000);
        assert_eq!(counts.received, counts.causes.iter().sum::<u64>());
        assert_eq!(counts.of(Cause::Forwarded), 2 * forwarded);
    });
}

#[test]
fn a_longer_packet_of_a_flow_is_asked_for() {
    if !need_root("a_longer_packet_of_a_flow_is_asked_for") {
        return;
    }
    let net = testbed();
    let all = ifindexes(&net);
    net.inside("r", || {
        let loaded = Loaded::new(all, ReversePath::Unasked);
        let keeping = at_work(&loaded, Duration::from_secs(3600));
        let of = |bytes| framed(packet("10.1.0.2", "203.0.113.1", 17, &udp((5, 6), bytes)));
        let frames = [of(572), of(573), of(572)];
        let verdicts = frames.each_ref().map(|frame| keeping.run(frame).unwrap().verdict);
        assert_eq!(verdicts, [Verdict::Redirect, Verdict::Pass, Verdict::Redirect]);
        let counts = loaded.tables.counts(0).unwrap();
        assert_eq!((counts.of(Cause::Forwarded), counts.of(Cause::TooLong)), (2, 1));
    });
}

#[test]
fn changes_are_noticed_when_an_answer_has_stood_for_its_time() {
    if !need_root("changes_are_noticed_when_an_answer_has_stood_for_its_time") {
        return;
    }
    let net = testbed();
    let all = ifindexes(&net);
    let frames = [plain("10.1.0.2", "198.18.0.1"), plain("fd01::2", "2001:db8:1::1")];
    let last_hop = |frame: &[u8]| changed(frame[14..].to_vec(), |ip| ip[8] = 1);
    let age = Duration::from_millis(100);
    net.inside("r", || {
        // Each CPU has its own answers.
        pin_to_cpu(allowed_cpus().unwrap()[0]).unwrap();
        let loaded = Loaded::new(all, ReversePath::Unasked);
        let (keeping, short) = (at_work(&loaded, Duration::from_secs(3600)), at_work(&loaded, age));
        let asking = at_work(&loaded, Duration::ZERO);
        let run = |program: &RouteProgram| {
            frames.each_ref().map(|frame| program.run(frame).unwrap().frame)
        };
        let old = run(&keeping);
        assert_eq!((&run(&short), &run(&asking)), (&old, &old));
        net.ips(
            "r",
            &[
                "route replace 198.18.0.0/16 via 10.3.0.2",
                "-6 route replace 2001:db8:1::/48 via fd03::2",
            ],
        );
        let new = run(&asking);
        assert!(new[0] != old[0] && new[1] != old[1]);
        assert_eq!(run(&keeping), old, "it stands");
        std::thread::sleep(age);
        assert_eq!(run(&short), new, "its time is over");
        // What is not forwarded is never kept.
        let ended = last_hop(&frames[0]);
        assert_eq!(keeping.run(&ended).unwrap().verdict, Verdict::Pass);
        net.ips("r", &["route add blackhole 198.18.0.1", "-6 route add blackhole 2001:db8:1::1"]);
        std::thread::sleep(age);
        let passed = frames.each_ref().map(|frame| short.run(frame).unwrap().verdict);
        assert_eq!(passed, [Verdict::Pass; 2]);
        net.ips("r", &["route del blackhole 198.18.0.1", "-6 route del blackhole 2001:db8:1::1"]);
        assert_eq!(run(&short), new, "at once");
    });
}
