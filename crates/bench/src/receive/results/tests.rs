use super::super::contender::{Kind, Way};
use super::*;
use crate::process::CpuTime;
use ringside_terminal::Wait;

fn sample(offered: u64, handed: u64, received: u64) -> Sample {
    Sample {
        offered,
        handed,
        received,
        before: 0,
        named_lost: None,
        load_seconds: 0.5,
        cpu: CpuTime::default(),
        stored_bytes: None,
        drain_seconds: 0.0,
    }
}

fn cell(placement: Placement, kind: Kind, size: &str) -> Cell {
    let filter = Some("udp, or not".to_owned());
    let way =
        Way { wait: Wait::Spin, has_stamps: false, threads: 1, filter, ring_snaplen: Some(64) };
    let way = (kind == Kind::Ringside).then_some(way);
    let sizes = size.parse().unwrap();
    Cell { placement, contender: Contender { kind, way }, queues: 6, sizes }
}

fn results() -> Results {
    let mut ours = Row::new(cell(Placement::Own, Kind::Ringside, "64"));
    for received in [1_000_000, 2_000_000, 1_500_000] {
        ours.samples.push(sample(2_000_000, 2_000_000, received));
    }
    ours.zero_loss.push(ZeroLoss { rate_per_sec: 3e6, at_limit: true, loads: 2 });
    let mut peer = Row::new(cell(Placement::Shared, Kind::Tcpdump, "1514"));
    peer.samples.push(sample(4_000_000, 1_000_000, 1_000_000));
    let mut limit = Row::new(cell(Placement::Shared, Kind::XdpDrop, "imix"));
    limit.samples.push(sample(5_000_000, 4_000_000, 4_000_000));
    let failures = vec!["dumpcap, own: it did not start".to_owned()];
    Results { rows: vec![ours, peer, limit], failures }
}

#[test]
fn the_csv_has_a_line_for_each_figure_and_a_field_for_each_column() {
    let csv = results().csv();
    let lines: Vec<&str> = csv.lines().collect();
    for line in &lines {
        assert_eq!(line.split(',').count(), COLUMNS.len(), "{line}");
    }
    let expected = [
        "load,own,ringside,spin,off,1,udp; or not,64,6,1,64,64.0,3,\
         4.0,4.0,3.0,2.0,4.0,1.536,25.0,,0.0,0.0,",
        "load,shared,tcpdump,,,,,,6,6,1514,1514.0,1,8.0,2.0,2.0,2.0,2.0,24.224,0.0,,0.0,0.0,",
        "load,shared,xdp-drop,,,,,,6,0,imix,357.8,1,10.0,8.0,8.0,8.0,8.0,22.901,0.0,,,,",
        "zero_loss,own,ringside,spin,off,1,udp; or not,64,6,1,64,64.0,1,,,3.0,,,1.536,0,,,,true",
    ];
    assert_eq!(lines[1..], expected);
}

#[test]
fn the_json_lines_say_the_same() {
    let json = results().json();
    let lines: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 4);
    assert_eq!(lines[0]["received_mps"], 3.0);
    assert_eq!(lines[2]["cpu_user_ns"], Value::Null);
    assert_eq!(lines[3]["kind"], "zero_loss");
    for name in lines.iter().flat_map(|line| line.as_object().unwrap().keys()) {
        assert!(COLUMNS.contains(&name.as_str()), "{name}");
    }
}

#[test]
fn the_tables_say_where_the_receive_path_was_and_what_is_missing() {
    let text = results().text();
    for part in [
        "own: the tool on a CPU of its own",
        "shared: the receive path on the tool's CPU",
        "ringside spin, no stamps, `udp, or not`, 64 bytes into the ring",
        "≥ 3.000",
        "Without a figure:\ndumpcap, own: it did not start",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}
