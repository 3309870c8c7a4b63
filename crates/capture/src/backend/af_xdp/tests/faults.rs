//! Interfaces that go away, starting and stopping in full traffic.

use super::*;

#[test]
fn detaching_in_full_traffic_is_exact() {
    on_a_wire("af_xdp_detaching_in_full_traffic_is_exact", |_| {
        let frames: Vec<Vec<u8>> =
            (0..640).map(|i| udp(i, i as u16 % 64, 60 + i as usize * 13 % 8000)).collect();
        let load = Load::start(frames);
        let mut dropped = 0;
        for round in 0..40 {
            let config = AfXdpConfig {
                memory_bytes: if round % 2 == 0 { 64 * 4096 } else { 8 << 20 },
                waiting: WAYS[round % WAYS.len()],
                stamps: if round % 3 == 0 { Stamps::Off } else { Stamps::On },
                ..config()
            };
            let mut source = open_one(&config);
            load.run_for(2_000);
            let mut lent = 0;
            if let Some(batch) = source.next_batch(Duration::ZERO).unwrap() {
                lent += batch.frame_count() as u64;
            }
            source.detach().unwrap();
            let at_detach = source.counters();
            load.run_for(500);
            lent += drain_counted(&mut source, &at_detach);
            assert_accounted(&mut source, lent);
            assert!(at_detach.received > Some(0) && at_detach.passed == 0, "{at_detach:?}");
            dropped += at_detach.dropped.values().sum::<u64>();
        }
        assert!(dropped > 0, "the small memories were used up");
    });
}

#[test]
fn nothing_is_counted_before_the_start() {
    on_a_wire("af_xdp_nothing_is_counted_before_the_start", |_| {
        let load = Load::start((0..640).map(|i| udp(i, i as u16 % 64, 100)).collect());
        for _ in 0..5 {
            let mut source = open(&config()).unwrap().sources.remove(0);
            load.run_for(500);
            assert_eq!(source.counters().received, Some(0));
            assert!(source.next_batch(Duration::ZERO).unwrap().is_none());
            source.start().unwrap();
            source.start().unwrap();
            load.run_for(500);
            assert!(source.counters().received > Some(0));
            source.detach().unwrap();
            // What was ordered to end does not begin again.
            source.start().unwrap();
            let lent = drain(&mut source);
            load.run_for(500);
            assert_accounted(&mut source, lent);
        }
        // Stopped before it was started.
        let mut source = open(&config()).unwrap().sources.remove(0);
        source.detach().unwrap();
        load.run_for(500);
        assert_eq!((drain(&mut source), source.counters().received), (0, Some(0)));
    });
}

/// Reads until the error comes; what was received before must be lent before it.
fn read_to_the_error(source: &mut AfXdpSource) -> (u64, SourceError) {
    let (mut lent, start) = (0, Instant::now());
    loop {
        match source.next_batch(Duration::from_millis(20)) {
            Ok(Some(batch)) => lent += batch.frame_count() as u64,
            Ok(None) => {}
            Err(error) => return (lent, error),
        }
        assert!(start.elapsed() < PATIENCE && !source.is_finished());
    }
}

#[test]
fn an_interface_that_goes_away_ends_the_source_with_what_it_had() {
    on_a_wire("af_xdp_an_interface_that_goes_away", |wire| {
        let frames: Vec<Vec<u8>> = (0..500).map(|number| numbered(number, 200)).collect();
        let down = format!("link set {RX} down");
        let cases = WAYS.map(|waiting| (waiting, down.as_str(), "was set down"));
        let removed = (Waiting::Sleep, "link del rsafp-rx", "was removed");
        for (waiting, words, expected) in cases.into_iter().chain([removed]) {
            let mut source = open_one(&AfXdpConfig { waiting, ..config() });
            send(TX, &frames);
            wire.ip(words);
            let (lent, error) = read_to_the_error(&mut source);
            let text = format!("interface {RX} {expected}; what was received before is kept");
            assert_eq!(error.to_string(), text, "{waiting:?}");
            assert!(matches!(error, SourceError::InterfaceGone { .. }));
            assert_eq!(lent, 500, "{waiting:?}");
            assert!(source.is_finished());
            assert!(source.next_batch(Duration::ZERO).unwrap().is_none());
            assert_accounted(&mut source, 500);
            if expected == "was set down" {
                wire.ip(&format!("link set {RX} up"));
                send(TX, &frames);
                assert_accounted(&mut source, 500);
            }
        }
    });
}

#[test]
fn an_interface_that_goes_away_in_full_traffic_leaves_exact_counters() {
    on_a_wire("af_xdp_an_interface_that_goes_away_in_full_traffic", |wire| {
        for round in 0..5 {
            let memory_bytes = (64 * 4096) << (round % 3);
            let mut source = open_one(&AfXdpConfig { memory_bytes, ..config() });
            std::thread::scope(|scope| {
                let frames: Vec<Vec<u8>> = (0..3000).map(|i| numbered(i, 300)).collect();
                let sender = scope.spawn(move || {
                    let tx = ringside_sys::packet_tx::PacketTx::open(device(TX).ifindex, true);
                    let tx = tx.unwrap();
                    // Refused once the other end is down.
                    frames.iter().filter(|frame| tx.send_batch(&[frame]).is_ok()).count()
                });
                wire.ip(&format!("link set {RX} down"));
                let (lent, _) = read_to_the_error(&mut source);
                assert_accounted(&mut source, lent);
                assert!(sender.join().is_ok());
            });
            wire.ip(&format!("link set {RX} up"));
            assert!(source.is_finished(), "round {round}");
        }
    });
}

#[test]
fn promiscuous_mode_ends_with_the_sources() {
    on_a_wire("af_xdp_promiscuous_mode_ends_with_the_sources", |_| {
        assert_eq!(device(RX).promiscuity, 0);
        let source = open_one(&config());
        assert!(device(RX).promiscuity > 0);
        drop(source);
        // A child that another test starts holds the socket too, from its fork to its exec.
        let start = Instant::now();
        while device(RX).promiscuity > 0 {
            assert!(start.elapsed() < PATIENCE, "still promiscuous");
        }
        let _source = open_one(&AfXdpConfig { promiscuous: false, ..config() });
        assert_eq!(device(RX).promiscuity, 0);
    });
}

/// What the kernel may do late to an array of leaves whose processes were all killed.
#[test]
fn a_program_that_the_kernel_took_out_is_put_back() {
    on_a_wire("af_xdp_a_program_that_the_kernel_took_out", |_| {
        let mut source = open_one(&config());
        let handles = source.kernel_side().unwrap().take_program().unwrap();
        let leaves = handles.descriptors()[2].try_clone_to_owned().unwrap();
        let leaves = ringside_sys::bpf::FdArray::from_fd(leaves).unwrap();
        let there = |position: &u32| leaves.program_at(*position).unwrap().is_some();
        let position = (0..4).find(there).unwrap();
        leaves.clear(position).unwrap();
        send(TX, &[numbered(0, 60)]);
        let start = Instant::now();
        while !there(&position) {
            source.next_batch(Duration::from_millis(20)).unwrap();
            assert!(start.elapsed() < PATIENCE, "it is still out");
        }
        let frames = zoo();
        assert_same_bytes(&send_and_take(&mut source, &frames), &frames);
        // After the end nothing is put back.
        source.detach().unwrap();
        assert_eq!(drain(&mut source), 0);
        assert_eq!((0..4).find(there), None);
        assert_accounted(&mut source, frames.len() as u64);
    });
}

#[test]
fn nothing_stays_on_the_interface() {
    on_a_wire("af_xdp_nothing_stays_on_the_interface", |_| {
        let ifindex = device(RX).ifindex;
        let there = || ringside_ebpf::attached_program(ifindex).unwrap();
        assert_eq!(there(), None);
        let source = open_one(&config());
        assert!(there().is_some());
        drop(source);
        let start = Instant::now();
        while there().is_some() {
            assert!(start.elapsed() < PATIENCE, "the program is still there");
        }
    });
}

#[test]
fn without_privileges_the_error_names_the_capability() {
    const NAME: &str = "without_privileges_the_error_names_the_capability";
    const MARK: &str = "RINGSIDE_TEST_UNPRIVILEGED";
    if std::env::var_os(MARK).is_some() {
        let config = AfXdpConfig { interface: "lo".into(), ..config() };
        let text = open(&config).err().unwrap().to_string();
        assert!(text.contains("CAP_"), "{text}");
        return;
    }
    if !ringside_testkit::need_root(NAME) || !ringside_testkit::need_tool(NAME, "setpriv") {
        return;
    }
    // This test again, as a root without capabilities.
    let path = format!("backend::af_xdp::tests::faults::{NAME}");
    let output = std::process::Command::new("setpriv")
        .args(["--bounding-set=-all", "--inh-caps=-all"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", &path, "--nocapture"])
        .env(MARK, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}{errors}");
}
