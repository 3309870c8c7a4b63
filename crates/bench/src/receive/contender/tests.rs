use super::*;

fn contender(kind: Kind) -> Contender {
    Contender { kind, way: None }
}

fn lines(contender: &Contender, interfaces: &[&str]) -> Vec<String> {
    let interfaces: Vec<String> = interfaces.iter().map(|&name| name.to_owned()).collect();
    let programs = contender.programs(&interfaces);
    let line = |program: Program<'_>| program.command.join(" ".as_ref());
    programs.into_iter().map(|program| line(program).to_string_lossy().into_owned()).collect()
}

#[test]
fn every_kind_has_the_name_that_people_type() {
    for kind in Kind::value_variants() {
        let typed = kind.to_possible_value().unwrap();
        assert_eq!(typed.get_name(), kind.name());
    }
}

#[test]
fn ways_are_for_af_xdp_alone() {
    let kinds = [Kind::Ringside, Kind::Tcpdump];
    let way = |wait, has_stamps, threads| Way {
        wait,
        has_stamps,
        threads,
        filter: None,
        ring_snaplen: None,
    };
    let ways = [
        way(Wait::Spin, true, 1),
        way(Wait::Spin, false, 2),
        way(Wait::BusyPoll, true, 1),
        way(Wait::BusyPoll, false, 1),
    ];
    let all = Contender::all(&kinds, &ways);
    let names: Vec<String> = all.iter().map(ToString::to_string).collect();
    let expected = [
        "ringside spin",
        "ringside spin, 2 threads, no stamps",
        "ringside busy-poll",
        "ringside busy-poll, no stamps",
        "tcpdump",
    ];
    assert_eq!(names, expected);
    let line = &lines(&all[3], &["rx0", "rx1"])[0];
    for part in ["--backend af-xdp", "-i rx0 -i rx1", "--wait busy-poll --no-stamps"] {
        assert!(line.contains(part), "{part} in {line}");
    }
    let line = &lines(&all[2], &["rx0"])[0];
    assert!(!line.contains("--no-stamps") && !line.contains("--threads"), "{line}");
    assert!(lines(&all[1], &["rx0"])[0].contains("--threads 2"));
}

#[test]
fn filters_and_the_ring_are_asked_for_by_options() {
    let plain =
        Way { wait: Wait::Sleep, has_stamps: true, threads: 1, filter: None, ring_snaplen: None };
    let filtered = Way { filter: Some("tcp port 80".into()), ..plain.clone() };
    let whole = Way { ring_snaplen: Some(0), ..plain.clone() };
    let all = Contender::all(&[Kind::RingsideRing], &[plain, filtered, whole]);
    let names: Vec<String> = all.iter().map(ToString::to_string).collect();
    let expected = [
        "ringside-xdp-ring sleep",
        "ringside-xdp-ring sleep, `tcp port 80`",
        "ringside-xdp-ring sleep, into the ring",
    ];
    assert_eq!(names, expected);
    assert_eq!(all.iter().map(Contender::only_counts).collect::<Vec<_>>(), [true, false, false]);
    let lines: Vec<String> = all.iter().map(|tool| lines(tool, &["rx0"])[0].clone()).collect();
    assert!(lines[0].ends_with("--wait sleep"), "{}", lines[0]);
    assert!(lines[1].ends_with("--wait sleep tcp port 80"), "{}", lines[1]);
    assert!(lines[2].contains(" --share ") && lines[2].ends_with("--snaplen 0"), "{}", lines[2]);
}

#[test]
fn frames_that_a_filter_refused_were_received() {
    let ledger = r#"{"ledger":{"received":100,"taken":60,"passed":7,"filtered":30,
        "dropped":{"kernel_ring_full":3},"in_flight":0,"lanes":[],
        "consumers":[{"name":"meter","delivered":58,"missed":{},"late":0}]}}"#
        .replace('\n', "");
    let summary = judged(&ledger).unwrap();
    assert_eq!((summary.frames, summary.lost), (95, Some(3)));
    assert_eq!(judged("listening on rx0"), None);
}

#[test]
fn tools_take_all_interfaces_or_run_once_for_each() {
    let interfaces = ["rx0", "rx1", "rx2"];
    for &kind in Kind::value_variants() {
        let contender = contender(kind);
        let lines = lines(&contender, &interfaces);
        assert_eq!(lines.len(), usize::from(contender.processes(3)), "{lines:?}");
        for (index, interface) in interfaces.iter().enumerate() {
            // A limit has no program at all.
            let Some(line) = lines.get(index % lines.len().max(1)) else { continue };
            assert!(line.contains(interface), "{interface} in {line}");
        }
    }
}

#[test]
fn testpmd_stays_away_from_real_cards_and_has_its_pages() {
    for kind in [Kind::TestpmdXdp, Kind::TestpmdXdpSpin, Kind::TestpmdPacket] {
        let line = &lines(&contender(kind), &["rx0", "rx1"])[0];
        assert!(line.contains(" --no-pci "), "{line}");
        let pages = contender(kind).huge_pages(2);
        assert!(line.contains(&format!(" -m {} ", pages * 2)), "{line}: {pages} pages");
        assert!(line.contains("--total-num-mbufs=32768"), "{line}");
    }
    let spinning = &lines(&contender(Kind::TestpmdXdpSpin), &["rx0"])[0];
    assert!(spinning.contains("net_af_xdp0,iface=rx0,busy_budget=0"), "{spinning}");
    assert!(contender(Kind::TestpmdXdp).huge_pages(12) < 300, "as many as any machine has");
    assert_eq!(contender(Kind::Ringside).huge_pages(12), 12 * 20);
    assert_eq!(contender(Kind::Tcpdump).huge_pages(12), 0);
}

#[test]
fn devices_of_dpdk_are_named_for_its_drivers() {
    let line = &lines(&contender(Kind::RingsideDpdkXdp), &["rx0", "rx1"])[0];
    for part in ["--backend dpdk", "-i dpdk:net_af_xdp1,iface=rx1,busy_budget=0", "--wait spin"] {
        assert!(line.contains(part), "{part} in {line}");
    }
    let line = &lines(&contender(Kind::RingsidePfRing), &["rx0"])[0];
    assert!(line.contains("-Qin") && line.contains("--backend pf-ring"), "{line}");
    let line = &lines(&contender(Kind::RingsideDpdkPacket), &["rx0"])[0];
    assert!(line.contains("-i rx0 ") && !line.contains("-Qin"), "{line}");
}
