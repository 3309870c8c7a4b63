//! Interfaces that go away, and stopping in full traffic.

use super::*;
use ringside_core::{InterfaceId, QueueId};
use ringside_sys::packet::{Fanout, FanoutMode, PacketConfig, PacketStatistics};

#[test]
fn detaching_in_full_traffic_is_exact() {
    on_a_wire("detaching_in_full_traffic_is_exact", |_| {
        let frames: Vec<Vec<u8>> =
            (0..640).map(|i| udp(i, i as u16 % 64, 60 + i as usize % 900)).collect();
        let load = Load::start(frames);
        let mut dropped = 0;
        for round in 0..40 {
            let filter = ethertype_filter(if round % 2 == 0 { 0x0800 } else { 0x88b5 });
            let config = AfPacketConfig {
                lanes: 1 + round % 2,
                block_timeout_ms: 20,
                ring_bytes: if round % 4 < 2 { 128 << 10 } else { 4 << 20 },
                filter: (round % 3 > 0).then(|| (filter, "ether proto".into())),
                ..config()
            };
            let mut sources = open(&config).unwrap().sources;
            load.run_for(2_000);
            let mut lent = vec![0; sources.len()];
            for (source, lent) in sources.iter_mut().zip(&mut lent) {
                if let Some(batch) = source.next_batch(Duration::ZERO).unwrap() {
                    *lent += batch.frame_count() as u64;
                }
                source.detach().unwrap();
            }
            let at_detach: Vec<_> = sources.iter_mut().map(|s| s.counters()).collect();
            load.run_for(500);
            for ((source, lent), at_detach) in sources.iter_mut().zip(lent).zip(at_detach) {
                let lent = lent + drain_counted(source, &at_detach);
                let counters = source.counters();
                assert_balanced(&counters, lent);
                assert!(counters.received > Some(0));
                dropped += counters.dropped.values().sum::<u64>();
            }
        }
        assert!(dropped > 0, "the small rings overflowed");
    });
}

#[test]
fn nothing_is_counted_before_the_start() {
    on_a_wire("nothing_is_counted_before_the_start", |_| {
        let load = Load::start((0..640).map(|i| udp(i, i as u16 % 64, 100)).collect());
        for members in [1, 2, 3] {
            let mut rings: Vec<PacketRing> = Vec::new();
            for queue in 0..members {
                let group = rings.last().and_then(PacketRing::fanout_group);
                let fanout = (members > 1).then_some(Fanout { group, mode: FanoutMode::Hash });
                rings.push(PacketRing::open(&ring_config(QueueId(queue), fanout)).unwrap());
                load.run_for(500);
            }
            for ring in &mut rings {
                ring.read_statistics().unwrap();
                assert_eq!(ring.statistics(), PacketStatistics::default());
                assert_eq!(ring.fill(None), Filled::Empty);
                ring.start(FilterProgram::AcceptAll).unwrap();
            }
            load.run_for(500);
            for ring in &mut rings {
                ring.read_statistics().unwrap();
                assert!(ring.statistics().received > 0);
            }
        }
    });
}

fn ring_config(queue: QueueId, fanout: Option<Fanout>) -> PacketConfig {
    PacketConfig {
        ifindex: device(RX).ifindex,
        interface: InterfaceId(0),
        queue,
        block_bytes: 64 << 10,
        block_count: 8,
        block_timeout_ms: 20,
        fanout,
        promiscuous: true,
        direction: CaptureDirection::Inbound,
        hardware_timestamps: false,
        receive_hash: true,
        snaplen_bytes: 262_144,
        ethernet: true,
    }
}

/// Reads until the error comes; what was received before must be lent before it.
fn read_to_the_error(source: &mut AfPacketSource) -> (u64, SourceError) {
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
fn an_interface_that_goes_away_in_full_traffic_leaves_exact_counters() {
    on_a_wire("an_interface_that_goes_away_in_full_traffic_leaves_exact_counters", |wire| {
        for round in 0..5 {
            let mut source = open_one(&AfPacketConfig { ring_bytes: 256 << 10, ..config() });
            std::thread::scope(|scope| {
                let frames: Vec<Vec<u8>> = (0..3000).map(|i| numbered(i, 300)).collect();
                let sender = scope.spawn(move || {
                    let tx = ringside_sys::packet_tx::PacketTx::open(device(TX).ifindex, true);
                    let tx = tx.unwrap();
                    // Refused once the other end is down.
                    frames.iter().filter(|frame| tx.send_batch(&[frame]).is_ok()).count()
                });
                wire.ip("link set rsafp-rx down");
                let (lent, _) = read_to_the_error(&mut source);
                assert_balanced(&source.counters(), lent);
                assert!(sender.join().is_ok());
            });
            wire.ip("link set rsafp-rx up");
            assert!(source.is_finished(), "round {round}");
        }
    });
}

#[test]
fn without_privileges_the_error_names_the_capability() {
    const NAME: &str = "without_privileges_the_error_names_the_capability";
    const MARK: &str = "RINGSIDE_TEST_UNPRIVILEGED";
    if std::env::var_os(MARK).is_some() {
        for error in [
            open(&AfPacketConfig::new("lo")).err().unwrap(),
            crate::backend::pcap::open(&crate::backend::pcap::PcapConfig::new("lo")).err().unwrap(),
        ] {
            assert!(matches!(error, BackendError::Privilege { .. }), "{error}");
            let text = error.to_string();
            assert!(text.contains("CAP_NET_RAW") && text.contains("setcap"), "{text}");
        }
        return;
    }
    if !ringside_testkit::need_root(NAME) || !ringside_testkit::need_tool(NAME, "setpriv") {
        return;
    }
    // This test again, as a root without capabilities.
    let path = format!("backend::af_packet::tests::faults::{NAME}");
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

#[test]
fn merging_offloads_bring_a_warning_with_the_fix() {
    on_a_wire("merging_offloads_bring_a_warning_with_the_fix", |wire| {
        ethtool_gro(wire, "on");
        let warnings = open(&config()).unwrap().warnings;
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].to_string().contains("ethtool -K rsafp-rx gro off"), "{warnings:?}");
        ethtool_gro(wire, "off");
        assert!(open(&config()).unwrap().warnings.is_empty());
    });
}

fn ethtool_gro(wire: &Wire, state: &str) {
    wire.inside("ethtool", &["-K", RX, "gro", state]);
}
