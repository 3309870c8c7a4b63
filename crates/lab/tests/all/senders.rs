//! Both senders through a real test network: what they report is what arrived, byte for byte.

use crate::common::{Witness, config, frames_by_queue, numbered, send, up};
use ringside_core::{FrameMeta, OwnedFrame};
use ringside_ebpf::{XdpProgram, attached_program};
use ringside_lab::{Lab, LabConfig, Napi};
use ringside_netdev as netdev;
use ringside_sys::netns::Namespace;
use ringside_testkit::{by_run, need_root, need_tool, skip};
use ringside_transmit::sink::SinkKind;
use ringside_transmit::{
    Error, Job, Limits, Load, Numbering, PACE_DEPTH_NS, Progress, Report, SenderKind,
    SequenceCheck, Shape, Sizes, Stack, Stamp, Template, run, run_shown,
};
use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

fn ready(test: &str) -> bool {
    need_root(test) && need_tool(test, "tcpdump")
}

/// Every frame that was offered arrived, once, in order, with the bytes that the shape says.
fn assert_all_arrived(job: &Job, report: &Report, frames: &[Vec<u8>]) {
    let Load::Numbered(shape) = &job.load else { panic!("numbered frames") };
    assert_eq!(report.offered, frames.len() as u64, "{report:?}");
    assert_eq!((report.handed, report.refused_ring_full), (report.offered, 0), "{report:?}");
    assert_eq!(report.received_by_interface, Some(report.offered), "{report:?}");
    assert_eq!(report.refused_before_ring, 0);
    let bytes: u64 = frames.iter().map(|frame| frame.len() as u64).sum();
    assert_eq!(report.offered_bytes, bytes);
    for (sequence, frame) in (0..).zip(frames) {
        assert!(*frame == shape.frame(0, sequence), "frame {sequence} differs");
    }
}

#[test]
fn live_frames_of_every_size_arrive_as_they_were_made() {
    if !ready("live_frames_of_every_size_arrive_as_they_were_made") {
        return;
    }
    let lab = Lab::up(&LabConfig { mtu: 3500, ..config("live") }).unwrap();
    for sizes in ["14", "60", "64", "1514", "3408", "14-3408", "imix"] {
        let job = numbered(SenderKind::Live, &lab, sizes, 1000, 20_000);
        let witness = Witness::start(lab.status());
        let report = send(&job);
        assert_all_arrived(&job, &report, &witness.frames(report.handed));
    }
}

#[test]
fn pages_that_are_kept_hold_whole_frames() {
    if !ready("pages_that_are_kept_hold_whole_frames") {
        return;
    }
    let lab = up("kept");
    let mut job = numbered(SenderKind::Live, &lab, "64", 1000, 20_000);
    let Load::Numbered(shape) = &mut job.load else { panic!("numbered frames") };
    shape.keep_pages();
    let shape = shape.clone();
    let witness = Witness::start(lab.status());
    let report = send(&job);
    assert_eq!((report.offered, report.handed), (20_000, 20_000));
    let mut numbers = BTreeSet::new();
    for frame in witness.frames(report.handed) {
        let number = Stamp::read(&frame).unwrap().sequence;
        assert!(frame == shape.frame(0, number), "frame {number} differs");
        numbers.insert(number);
    }
    // Far fewer pages than frames, and each keeps one.
    assert!((64..10_000).contains(&numbers.len()), "{} pages", numbers.len());
    let sizes: Sizes = "64,128".parse().unwrap();
    let mut uneven = Shape::new(sizes, 1).unwrap();
    uneven.keep_pages();
    let refused = run(&Job { load: Load::Numbered(uneven), ..job }, &|| false).unwrap_err();
    assert!(refused.to_string().contains("one size"), "{refused}");
}

/// A far end that is slower than the generator: its stack has each frame, on a CPU of its own.
#[test]
fn frames_that_await_room_are_never_refused() {
    if !need_root("frames_that_await_room_are_never_refused") {
        return;
    }
    let (napi, sender_napi) = (Napi::Pinned(1), Some(Napi::Softirq));
    let lab = Lab::up(&LabConfig { napi, sender_napi, ..config("room") }).unwrap();
    let mut job = numbered(SenderKind::Live, &lab, "64", 1000, 300_000);
    let Load::Numbered(shape) = &mut job.load else { panic!("numbered frames") };
    shape.await_room();
    let report = send(&job);
    assert_eq!((report.offered, report.handed), (300_000, 300_000), "{report:?}");
    assert_eq!(report.received_by_interface, Some(300_000), "{report:?}");
}

#[test]
fn packet_frames_of_every_size_arrive_as_they_were_made() {
    if !ready("packet_frames_of_every_size_arrive_as_they_were_made") {
        return;
    }
    let lab = Lab::up(&LabConfig { mtu: 65_535, ..config("packet") }).unwrap();
    for (sizes, count) in [("14", 2000), ("60", 2000), ("1514", 2000), ("14-65535", 1024)] {
        let job = numbered(SenderKind::Packet, &lab, sizes, 100, count);
        let witness = Witness::start(lab.status());
        let report = send(&job);
        assert_all_arrived(&job, &report, &witness.frames(report.handed));
    }
    let job = numbered(SenderKind::Packet, &lab, "65535", 1, 50);
    let witness = Witness::start(lab.status());
    let report = send(&job);
    assert_all_arrived(&job, &report, &witness.frames(report.handed));
}

#[test]
fn a_million_live_frames_are_complete() {
    if !ready("a_million_live_frames_are_complete") {
        return;
    }
    let lab = up("million");
    let job = numbered(SenderKind::Live, &lab, "64", 1000, 1_000_000);
    let report = send(&job);
    assert_eq!((report.offered, report.handed), (1_000_000, 1_000_000), "{report:?}");
    assert_eq!(report.received_by_interface, Some(1_000_000), "{report:?}");
    assert_eq!(frames_by_queue(lab.status()), [1_000_000]);
}

#[test]
fn flows_spread_over_the_queues_and_stay_in_order() {
    if !ready("flows_spread_over_the_queues_and_stay_in_order") {
        return;
    }
    let lab = Lab::up(&LabConfig { queues: 4, ..config("queues") }).unwrap();
    let job = numbered(SenderKind::Packet, &lab, "64,512,1514", 1000, 40_000);
    let witness = Witness::start(lab.status());
    let report = send(&job);
    let frames = witness.frames(report.handed);
    assert_eq!(report.handed, 40_000, "{report:?}");
    let queues = frames_by_queue(lab.status());
    assert_eq!(queues.iter().sum::<u64>(), 40_000);
    assert!(queues.len() == 4 && queues.iter().all(|&count| count >= 4_000), "{queues:?}");
    let mut check = SequenceCheck::new(40_000);
    frames.iter().for_each(|frame| check.note(0, frame));
    let sequence = check.report(&report.streams);
    assert_eq!((sequence.distinct, sequence.missing), (40_000, 0), "{sequence:?}");
    assert_eq!((sequence.duplicates, sequence.flow_reordered), (0, 0), "{sequence:?}");
}

#[test]
fn two_threads_are_two_complete_streams() {
    if !ready("two_threads_are_two_complete_streams") {
        return;
    }
    let lab = Lab::up(&LabConfig { queues: 2, ..config("threads") }).unwrap();
    let cpus = ringside_sys::thread::allowed_cpus().unwrap();
    let Some(cpus) = cpus.get(..2) else {
        return skip("two_threads_are_two_complete_streams", "needs two CPUs");
    };
    // Queues are shared by both CPUs here, so that a ring may overflow: then the account says so.
    for kind in [SenderKind::Live, SenderKind::Packet] {
        let job = Job { cpus: cpus.to_vec(), ..numbered(kind, &lab, "imix", 10, 20_001) };
        let witness = Witness::start(lab.status());
        let report = send(&job);
        assert_eq!(report.streams, [10_001, 10_000]);
        let mut check = SequenceCheck::new(20_000);
        witness.frames(report.handed).iter().for_each(|frame| check.note(0, frame));
        let sequence = check.report(&report.streams);
        assert_eq!(sequence.missing, report.refused_ring_full, "{kind:?}: {sequence:?}");
        assert_eq!(sequence.duplicates + sequence.beyond, 0, "{kind:?}: {sequence:?}");
    }
}

#[test]
fn a_ring_that_overflows_is_accounted_for_to_the_frame() {
    if !ready("a_ring_that_overflows_is_accounted_for_to_the_frame") {
        return;
    }
    // The NAPI shares the sender's CPU and gets it only between calls: the ring must overflow.
    let cpu = ringside_sys::thread::allowed_cpus().unwrap()[0];
    let napi = Napi::Pinned(cpu);
    let lab = Lab::up(&LabConfig { queues: 2, napi, ..config("full") }).unwrap();
    for kind in [SenderKind::Live, SenderKind::Packet] {
        let job = Job { cpus: vec![cpu], ..numbered(kind, &lab, "64", 1, 300_000) };
        let report = send(&job);
        assert_eq!(report.offered, 300_000);
        assert!(report.refused_ring_full > 0, "{report:?}");
        assert_eq!(report.handed + report.refused_ring_full, 300_000, "{report:?}");
        assert_eq!(report.received_by_interface, Some(report.handed), "{report:?}");
    }
}

#[test]
fn what_cannot_arrive_is_refused_before_it_is_sent() {
    if !ready("what_cannot_arrive_is_refused_before_it_is_sent") {
        return;
    }
    let lab = Lab::up(&LabConfig { xdp_pass: false, mtu: 4000, ..config("refused") }).unwrap();
    let refused = |kind, sizes| {
        run(&numbered(kind, &lab, sizes, 1, 1), &|| false).expect_err("refused").to_string()
    };
    let error = refused(SenderKind::Live, "64");
    assert!(error.contains("no NAPI") && error.contains("rx0"), "{error}");
    let error = refused(SenderKind::Live, "3412");
    assert!(error.contains("3412") && error.contains("3408"), "{error}");
    let error = refused(SenderKind::Packet, "9000");
    assert!(error.contains("raise that to 8986"), "{error}");
    assert!(matches!(Limits::new(None, None), Err(Error::Unbounded)));
    // The packet sender needs no NAPI at the far end.
    let report = send(&numbered(SenderKind::Packet, &lab, "64", 1, 1000));
    assert_eq!((report.handed, report.received_by_interface), (1000, Some(1000)));
    let replay =
        Job { load: Load::Replay([].into()), ..numbered(SenderKind::Packet, &lab, "64", 1, 1) };
    assert!(matches!(run(&replay, &|| false), Err(Error::NothingToSend)));
}

#[test]
fn the_anchor_of_the_generator_is_taken_off_and_replaces_no_program() {
    if !ready("the_anchor_of_the_generator_is_taken_off_and_replaces_no_program") {
        return;
    }
    let lab = up("anchor");
    let namespace = lab.status().sender_namespace.clone();
    let job = numbered(SenderKind::Live, &lab, "64", 1, 1000);
    // On a thread of its own, for good in the sender's namespace.
    let inside = std::thread::spawn(move || {
        Namespace::open(&namespace).unwrap().enter().unwrap();
        let ifindex = netdev::by_name("tx0").unwrap().unwrap().ifindex;
        assert_eq!(send(&job).handed, 1000);
        assert_eq!(attached_program(ifindex).unwrap(), None, "nothing stays");

        // Two at once could not tell their frames apart.
        let shape = Shape::new("64".parse().unwrap(), 1).unwrap();
        let other = shape.generator(ifindex, &[0], None).unwrap().anchor().unwrap();
        let error = run(&job, &|| false).unwrap_err().to_string();
        assert!(error.contains("another sender of live frames"), "{error}");
        drop(other);
        assert_eq!(send(&job).handed, 1000);
        assert_eq!(attached_program(ifindex).unwrap(), None);

        let theirs = XdpProgram::pass().unwrap().attach(ifindex).unwrap();
        let id = attached_program(ifindex).unwrap();
        let error = run(&job, &|| false).unwrap_err().to_string();
        assert!(error.contains("with an XDP program"), "{error}");
        assert_eq!(attached_program(ifindex).unwrap(), id, "theirs stays");
        drop(theirs);
        assert_eq!(attached_program(ifindex).unwrap(), None);
    });
    inside.join().unwrap();
}

#[test]
fn frames_of_a_capture_are_sent_in_order_again_and_again() {
    if !ready("frames_of_a_capture_are_sent_in_order_again_and_again") {
        return;
    }
    let lab = up("replay");
    let frame = |bytes: Vec<u8>| OwnedFrame { bytes, meta: FrameMeta::default() };
    // 100 frames that differ, and one that no interface takes.
    let shape = Shape::new("60-159".parse().unwrap(), 1).unwrap();
    let mut frames: Vec<OwnedFrame> = (0..100).map(|n| frame(shape.frame(0, n))).collect();
    frames.insert(50, frame(vec![0; 13]));
    let job = Job {
        load: Load::Replay(frames.into()),
        ..numbered(SenderKind::Packet, &lab, "64", 1, 250)
    };
    let witness = Witness::start(lab.status());
    let report = send(&job);
    assert_eq!((report.handed, report.unsendable), (250, 1), "{report:?}");
    for (index, got) in (0..).zip(witness.frames(report.handed)) {
        assert_eq!(got, shape.frame(0, index % 100), "frame {index}");
    }
}

#[test]
fn a_paced_run_is_never_faster_than_its_rate() {
    if !ready("a_paced_run_is_never_faster_than_its_rate") {
        return;
    }
    let lab = up("paced");
    for kind in [SenderKind::Live, SenderKind::Packet] {
        let limits = Limits::new(None, Some(Duration::from_millis(300))).unwrap();
        let rate_per_sec = Some(20_000);
        let job = Job { rate_per_sec, limits, ..numbered(kind, &lab, "64", 1, 1) };
        let report = send(&job);
        let allowed = 20_000 * (report.elapsed_ns + PACE_DEPTH_NS) / 1_000_000_000 + 1;
        assert!(report.offered > 0 && report.offered <= allowed, "{report:?}");
        assert_eq!(report.received_by_interface, Some(report.offered));
    }
}

#[test]
fn an_even_run_is_exact_and_never_faster_than_its_rate() {
    if !ready("an_even_run_is_exact_and_never_faster_than_its_rate") {
        return;
    }
    let lab = up("even");
    let even = |rate_per_sec, count| Job {
        rate_per_sec,
        ..numbered(SenderKind::Even, &lab, "64", 7, count)
    };
    let witness = Witness::start(lab.status());
    let report = send(&even(Some(100_000), 20_000));
    assert_eq!((report.offered, report.handed), (20_000, 20_000), "{report:?}");
    // 20,000 gaps of 10 µs, less the 48 µs that it may catch up at its start.
    assert!(report.elapsed_ns >= 199_900_000, "{report:?}");
    let mut check = SequenceCheck::new(20_000);
    witness.frames(report.handed).iter().for_each(|frame| check.note(0, frame));
    assert!(check.report(&report.streams).is_complete(), "frames are missing");
    let error = run(&even(None, 1), &|| false).unwrap_err().to_string();
    assert!(error.contains("rate"), "{error}");
}

/// By the times that the frames bear: what a busy machine delays makes gaps longer, and what
/// follows is caught up with within the bound.
#[test]
fn an_even_run_keeps_the_stated_bound_over_every_stretch() {
    if !ready("an_even_run_keeps_the_stated_bound_over_every_stretch") {
        return;
    }
    const RATE: u64 = 200_000;
    const COUNT: u64 = 40_000;
    let lab = up("bound");
    let shape = Shape::like(
        Template::of(Stack::default()),
        Vec::new(),
        Numbering::Stamp,
        Sizes::fixed(64).unwrap(),
        1,
    );
    let load = Load::Numbered(shape.unwrap());
    let job =
        Job { rate_per_sec: Some(RATE), load, ..numbered(SenderKind::Even, &lab, "64", 1, COUNT) };
    let witness = Witness::start(lab.status());
    let report = send(&job);
    let made: Vec<u64> = witness
        .frames(report.handed)
        .iter()
        .map(|frame| Stamp::read(frame).unwrap().tai_low_ns.unwrap())
        .collect();
    assert_eq!(made.len() as u64, COUNT);
    assert!(made.is_sorted());
    // Frames leave at most 8/7 as fast, 48 us early, in grants of eight; a grant that was held up
    // comes together with the next.
    let bound = |ns: u64| (ns + 48_000) as f64 * RATE as f64 / 1e9 * 8.0 / 7.0 + 24.0;
    for stretch in [2, 10, 100, 1000, 10_000] {
        for window in made.windows(stretch) {
            let ns = window[stretch - 1] - window[0];
            assert!(stretch as f64 <= bound(ns), "{stretch} frames in {ns} ns");
        }
    }
}

/// Sends until the network changes, which it does after the first 2,000 frames.
fn send_until_it_ends(name: &str, sender: SenderKind, event: &str) -> Result<Report, Error> {
    send_at_until_it_ends(name, sender, Some(20_000), event)
}

/// The same at a rate, or as fast as it goes.
fn send_at_until_it_ends(
    name: &str,
    sender: SenderKind,
    rate_per_sec: Option<u64>,
    event: &str,
) -> Result<Report, Error> {
    let lab = up(name);
    let namespace = &lab.status().sender_namespace;
    let limits = Limits::new(Some(200_000_000), Some(Duration::from_secs(30))).expect("limits");
    let job = Job { rate_per_sec, limits, ..numbered(sender, &lab, "64", 1, 1) };
    let progress = Progress::default();
    std::thread::scope(|scope| {
        let run = scope.spawn(|| run_shown(&job, &|| false, &progress));
        while progress.offered() < 2000 && !run.is_finished() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let ip = ["-n", namespace, "link"].into_iter().chain(event.split(' '));
        assert!(Command::new("ip").args(ip).status().expect("ip").success());
        run.join().expect("no panic")
    })
}

#[test]
fn an_interface_that_goes_in_the_middle_leaves_an_account() {
    if !ready("an_interface_that_goes_in_the_middle_leaves_an_account") {
        return;
    }
    let sinks = SinkKind::OF_KERNEL.map(SenderKind::Sink);
    let others = [SenderKind::Packet, SenderKind::Live, SenderKind::Even];
    let mut refused_by_all = 0;
    for (event, said) in [("set tx0 down", "down"), ("delete tx0", "removed")] {
        // The short run tries half of them with each event.
        let half = usize::from(said == "down");
        let all = sinks.into_iter().chain(others).enumerate();
        let tried = all.filter(|(at, _)| by_run(at % 2 == half, true));
        for (_, sender) in tried {
            // What these were given is in counters that go with the interface.
            if others.contains(&sender) && said == "removed" {
                continue;
            }
            let report = send_until_it_ends("gone", sender, event).unwrap();
            let failure = report.failure.as_deref().unwrap();
            // One that is removed is set down first.
            let is_named = failure.contains(said) || failure.contains("down");
            assert!(failure.contains("tx0") && is_named, "{sender:?}: {failure}");
            let refused = report.refused_ring_full + report.refused_before_ring;
            assert_eq!(report.offered, report.handed + refused, "{report:?}");
            assert!(report.handed >= 1500, "{event}, {report:?}");
            // A sender that saw the event between two bursts had nothing refused.
            refused_by_all += refused;
            if let Some(received) = report.received_by_interface {
                assert_eq!(received, report.handed, "{event}, {report:?}");
            }
            assert_eq!(report.offered_bytes, report.offered * 64, "{report:?}");
        }
    }
    assert!(refused_by_all > 0);
    for sender in [SenderKind::Live, SenderKind::Even] {
        let error = send_until_it_ends("gone", sender, "delete tx0").unwrap_err();
        let Error::Unaccounted { offered, .. } = error else { panic!("{error}") };
        assert!((2000..2_000_000).contains(&offered), "{error}");
    }
}

/// The kernel calls a frame sent that it drops while the interface is set down; at full speed some
/// frames always meet that moment.
#[test]
fn frames_that_an_ending_interface_drops_unsaid_are_not_called_sent() {
    if !ready("frames_that_an_ending_interface_drops_unsaid_are_not_called_sent") {
        return;
    }
    let sender = SenderKind::Sink(SinkKind::Pcap);
    let report = send_at_until_it_ends("unsaid", sender, None, "set tx0 down").unwrap();
    assert_eq!(report.received_by_interface, Some(report.handed), "{report:?}");
    let refused = report.refused_ring_full + report.refused_before_ring;
    assert_eq!(report.offered, report.handed + refused, "{report:?}");
}

#[test]
fn a_stopped_run_is_accounted_for() {
    if !ready("a_stopped_run_is_accounted_for") {
        return;
    }
    let lab = up("stopped");
    let job = numbered(SenderKind::Live, &lab, "64", 1, 1_000_000);
    let report = run(&job, &|| true).unwrap();
    assert!(report.stopped);
    assert_eq!((report.offered, report.received_by_interface), (0, Some(0)));
}
