//! One meaning everywhere: the kernel's classic filter, the translated eBPF program and the
//! reference evaluator give equal answers, over every primitive and every capture.

use crate::common::{CaptureFile, captures, expressions, program};
use crate::random_program::random_program;
use ringside_core::LinkType;
use ringside_core::bpf::ClassicProgram;
use ringside_ebpf::socket_filter::{
    Behind, FilterCounters, SocketFilter, SocketFilterError, Switch,
};
use ringside_filter::classic::check_kernel_classic;
use ringside_filter::{Prepared, validate};
use ringside_sys::bpf::{ProgramType, attach_classic};
use ringside_testkit::{Random, by_run, is_runnable, need_root};
use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::os::unix::net::UnixDatagram;

/// Frames of one file that run one by one through a system call; all run in `filter_live`.
fn frames_per_file() -> usize {
    by_run(15, 25)
}

fn as_classifier(program: &ClassicProgram, link_type: LinkType, snaplen: u32) -> SocketFilter {
    SocketFilter::load_as(ProgramType::SchedCls, program, None, link_type, snaplen).unwrap()
}

fn by_link_type(files: &[CaptureFile]) -> Vec<(LinkType, Vec<&CaptureFile>)> {
    let link_types: BTreeSet<LinkType> = files.iter().map(|file| file.link_type).collect();
    let of = |link_type| files.iter().filter(move |file| file.link_type == link_type).collect();
    link_types.into_iter().map(|link_type| (link_type, of(link_type))).collect()
}

#[test]
fn translation_equals_the_reference_for_every_primitive() {
    let test = "translated filters";
    if !need_root(test) {
        return;
    }
    let (mut runs, mut accepted, mut programs) = (0u64, 0u64, 0);
    for (link_type, files) in by_link_type(&captures(test)) {
        // To load a program takes the kernel longer than to run it on all frames.
        let step = by_run(4, 1);
        for (at, expression) in expressions::all().into_iter().step_by(step).enumerate() {
            // Both forms of every second expression would only take longer.
            let Some(classic) = program(expression, link_type, at % 2 == 0) else { continue };
            let reference = Prepared::new(&classic).unwrap();
            let filter = as_classifier(&classic, link_type, 0);
            programs += 1;
            let (mut seen, mut passed) = (0, 0);
            for frame in files.iter().flat_map(|file| file.frames.iter().take(frames_per_file())) {
                if !is_runnable(&frame.bytes) {
                    continue;
                }
                let expected = reference.evaluate(&frame.bytes, frame.bytes.len() as u32);
                let answer = filter.program().test_run(&frame.bytes, 1).unwrap().return_value;
                assert_eq!(answer, expected, "{expression}, link type {link_type:?}");
                seen += 1;
                passed += u64::from(answer != 0);
            }
            let counters = filter.counters().unwrap();
            assert_eq!((counters.seen, counters.accepted), (seen, passed), "{expression}");
            runs += seen;
            accepted += passed;
        }
    }
    eprintln!("{programs} programs, {runs} runs, {accepted} accepted");
    assert!(runs == 0 || (runs > by_run(10_000, 100_000) && accepted > runs / 100));
}

#[test]
fn the_kernels_classic_filter_equals_the_reference() {
    let test = "classic filters in the kernel";
    let (mut runs, mut skipped) = (0u64, 0);
    for (link_type, files) in by_link_type(&captures(test)) {
        for expression in expressions::all() {
            let Some(classic) = program(expression, link_type, true) else { continue };
            let operations = validate(&classic).unwrap();
            if check_kernel_classic(&operations).is_err() {
                skipped += 1;
                continue;
            }
            let reference = Prepared::new(&classic).unwrap();
            // A Unix socket runs its filter on the datagram: any link type, any bytes.
            let (ours, theirs) = UnixDatagram::pair().unwrap();
            attach_classic(ours.as_fd(), &classic).unwrap();
            ours.set_nonblocking(true).unwrap();
            let mut buffer = vec![0; 1 << 18];
            for frame in files.iter().flat_map(|file| file.frames.iter().take(frames_per_file())) {
                if frame.bytes.is_empty() || theirs.send(&frame.bytes).is_err() {
                    continue;
                }
                let passed = ours.recv(&mut buffer).is_ok();
                let expected = reference.accepts(&frame.bytes, frame.bytes.len() as u32);
                assert_eq!(passed, expected, "{expression}, link type {link_type:?}");
                runs += 1;
            }
        }
    }
    eprintln!("{runs} datagrams; {skipped} programs that the kernel does not run alike");
    assert!(runs == 0 || (runs > 100_000 && skipped < 1_000));
}

/// A socket with the classic program, if the kernel takes it and runs it alike. It refuses some
/// that read scratch memory which they have not written.
fn kernel_filter(classic: &ClassicProgram) -> Option<(UnixDatagram, UnixDatagram)> {
    check_kernel_classic(&validate(classic).unwrap()).ok()?;
    let (ours, theirs) = UnixDatagram::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    attach_classic(ours.as_fd(), classic).ok()?;
    Some((ours, theirs))
}

#[test]
fn random_programs_give_equal_answers() {
    if !need_root("random filters") {
        return;
    }
    let seed = std::env::var("RINGSIDE_FUZZ_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    let mut random = Random::new(seed);
    let (mut accepted, mut compared_with_kernel) = (0, 0);
    for round in 0..1_500 {
        let classic = random_program(&mut random);
        let reference = Prepared::new(&classic).unwrap();
        let link_type = [LinkType::ETHERNET, LinkType::RAW][round % 2];
        let filter = as_classifier(&classic, link_type, 0);
        let kernel = kernel_filter(&classic);
        for _ in 0..8 {
            let bound = [20, 100, 1_500][random.below(3)];
            let length = 15 + random.below(bound);
            // Small bytes make small values, which reach further than large ones.
            let mask = [0xff, 0x3f, 0x07][random.below(3)];
            let frame: Vec<u8> = random.bytes(length).iter().map(|byte| byte & mask).collect();
            if !is_runnable(&frame) {
                continue;
            }
            let expected = reference.evaluate(&frame, length as u32);
            let answer = filter.program().test_run(&frame, 1).unwrap().return_value;
            assert_eq!(answer, expected, "seed {seed} round {round}: {classic:?} on {frame:?}");
            let simple = ringside_filter::evaluate(&classic, &frame, length as u32);
            assert_eq!(answer, simple, "prepared or not");
            accepted += u32::from(answer != 0);
            if let Some((ours, theirs)) = &kernel {
                theirs.send(&frame).unwrap();
                assert_eq!(ours.recv(&mut [0; 2_000]).is_ok(), answer != 0, "{classic:?}");
                compared_with_kernel += 1;
            }
        }
    }
    assert!(accepted > 1_000 && compared_with_kernel > 300, "{accepted} {compared_with_kernel}");
}

#[test]
fn a_second_program_decides_about_what_the_first_accepts() {
    if !need_root("two filters, one behind the other") {
        return;
    }
    let mut random = Random::new(3);
    let (mut turned_away, mut kept, mut let_through) = (0, 0, 0);
    for round in 0..600 {
        let [first, second] = [(); 2].map(|()| random_program(&mut random));
        let references = [&first, &second].map(|program| Prepared::new(program).unwrap());
        let link_type = [LinkType::ETHERNET, LinkType::RAW][round % 2];
        let snaplen = [0, 70][round / 2 % 2];
        let switch = Switch::new().unwrap();
        let behind = Some(Behind { program: &second, switch: &switch });
        let program_type = ProgramType::SchedCls;
        let filter =
            SocketFilter::load_as(program_type, &first, behind, link_type, snaplen).unwrap();
        let mut expected = FilterCounters::default();
        for turn in 0..12 {
            let is_on = turn % 3 != 2;
            switch.set(is_on).unwrap();
            let frame: Vec<u8> = random.bytes(100).iter().map(|byte| byte & 7).collect();
            if !is_runnable(&frame) {
                continue;
            }
            let answers = references.each_ref().map(|program| program.evaluate(&frame, 100));
            let accepted = if snaplen == 0 { answers[0] } else { answers[0].min(snaplen) };
            let answer = filter.program().test_run(&frame, 1).unwrap().return_value;
            let rejects = is_on && accepted != 0 && answers[1] == 0;
            let wanted = if rejects { 0 } else { accepted };
            assert_eq!(answer, wanted, "round {round}, {is_on}: {first:?} {second:?} {frame:?}");
            expected.seen += 1;
            expected.accepted += u64::from(accepted != 0);
            expected.turned_away += u64::from(rejects);
            expected.turned_away_bytes += if rejects { 100 } else { 0 };
            turned_away += u32::from(rejects);
            kept += u32::from(is_on && answer != 0);
            let_through += u32::from(!is_on && answer != 0 && answers[1] == 0);
        }
        assert_eq!(filter.meter().read().unwrap(), expected);
        assert_eq!(filter.counters().unwrap(), expected);
    }
    assert!(
        turned_away > 200 && kept > 200 && let_through > 50,
        "{turned_away} {kept} {let_through}"
    );
}

#[test]
fn accepted_frames_are_cut_to_the_snapshot_length() {
    if !need_root("filter snaplen") {
        return;
    }
    for (expression, snaplen, kept) in
        [("ip", 0, u32::MAX), ("ip", 96, 96), ("ip", 1, 1), ("ip", 14, 14), ("arp", 96, 0)]
    {
        let classic = program(expression, LinkType::ETHERNET, true).unwrap();
        let filter = as_classifier(&classic, LinkType::ETHERNET, snaplen);
        let mut frame = [0; 60];
        frame[12] = 8;
        assert_eq!(filter.program().test_run(&frame, 1).unwrap().return_value, kept);
    }
}

#[test]
fn many_hosts_load_and_run_without_the_optimiser() {
    if !need_root("many hosts") {
        return;
    }
    // The kernel's verifier takes its time.
    let hosts = by_run(300u32, 1000);
    let terms: Vec<String> =
        (0..hosts).map(|n| format!("host 10.{}.{}.7", n / 250, n % 250)).collect();
    let classic = program(&terms.join(" or "), LinkType::ETHERNET, false).unwrap();
    let start = std::time::Instant::now();
    let filter = as_classifier(&classic, LinkType::ETHERNET, 0);
    eprintln!("{} instructions loaded in {:?}", classic.instructions.len(), start.elapsed());
    let mut frame = [0; 60];
    frame[12] = 8;
    let last = hosts - 1;
    for (n, end, accepted) in [(0, 7, true), (last, 7, true), (last, 8, false), (hosts, 7, false)] {
        frame[30..34].copy_from_slice(&[10, (n / 250) as u8, (n % 250) as u8, end]);
        let run = filter.program().test_run(&frame, 100).unwrap();
        assert_eq!(run.return_value != 0, accepted, "{n}");
        eprintln!("host {n}: {} ns", run.duration_ns);
    }
}

#[test]
fn what_a_socket_may_not_hold_is_refused_before_it_is_verified() {
    if !need_root("too long for a socket") {
        return;
    }
    let terms: Vec<String> =
        (0..1000).map(|n| format!("host 10.{}.{}.7", n / 250, n % 250)).collect();
    let classic = program(&terms.join(" or "), LinkType::ETHERNET, false).unwrap();
    let error = SocketFilter::load(&classic, LinkType::ETHERNET, 0).unwrap_err();
    assert!(matches!(error, SocketFilterError::TooLongForSocket { .. }), "{error}");
    assert!(error.to_string().contains("net.core.optmem_max="), "{error}");
    let short = program("udp port 53", LinkType::ETHERNET, true).unwrap();
    SocketFilter::load(&short, LinkType::ETHERNET, 0).unwrap();
}

#[test]
fn many_ports_load_too() {
    if !need_root("many ports") {
        return;
    }
    let terms: Vec<String> = (0..100).map(|n| format!("port {}", 1_000 + 2 * n)).collect();
    let classic = program(&terms.join(" or "), LinkType::ETHERNET, false).unwrap();
    let filter = as_classifier(&classic, LinkType::ETHERNET, 0);
    let mut frame = [0; 60];
    frame[12..15].copy_from_slice(&[8, 0, 0x45]);
    frame[23] = 17;
    for (port, accepted) in [(1_000u16, true), (1_198, true), (1_199, false)] {
        frame[36..38].copy_from_slice(&port.to_be_bytes());
        let run = filter.program().test_run(&frame, 1).unwrap();
        assert_eq!(run.return_value != 0, accepted, "{port}");
    }
}
