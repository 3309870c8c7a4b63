use super::super::measure::Destination;
use super::super::process::CpuTime;
use super::super::tools::Tool;
use super::*;

fn setup(tool: Tool, destination: Destination) -> Setup {
    Setup { tool, destination, snaplen: None }
}

fn sample(handed: u64, received: u64, stored_bytes: u64) -> Sample {
    Sample {
        offered: handed,
        handed,
        received,
        before: 0,
        named_lost: Some(handed - received),
        load_seconds: 2.0,
        cpu: CpuTime::default(),
        stored_bytes: Some(stored_bytes),
        drain_seconds: 0.5,
    }
}

fn results() -> Results {
    let mut results = Results { raw_mb_per_s: vec![900.0, 1000.0, 2000.0], ..Results::default() };
    let sizes = FrameSizes::fixed(1514).unwrap();
    for received in [1_000_000, 4_000_000, 2_000_000] {
        let disk = setup(Tool::Ringside, Destination::Disk);
        results.add(disk, &sizes, sample(4_000_000, received, received * 1000));
    }
    let kept = Setup { snaplen: Some(64), ..setup(Tool::Ringside, Destination::Memory) };
    results.add(kept, &"imix".parse().unwrap(), sample(10, 10, 0));
    let searched = setup(Tool::Tcpdump, Destination::Memory);
    for (rate_per_sec, at_limit) in [(450_000.0, false), (470_000.0, true), (460_000.0, false)] {
        let found = ZeroLoss { rate_per_sec, at_limit, loads: 9 };
        results.add_zero_loss(searched, &sizes, found);
    }
    results
}

#[test]
fn the_csv_has_a_line_for_each_row_and_a_field_for_each_column() {
    let csv = results().csv();
    let lines: Vec<&str> = csv.lines().collect();
    let columns = CSV_HEADER.split(',').count();
    for line in &lines {
        assert_eq!(line.split(',').count(), columns, "{line}");
    }
    assert_eq!(lines[0], CSV_HEADER);
    let disk = "load,ringside,disk,,1514,1514.0,3,2.0000,1.0000,0.5000,2.0000,50.000,50.000,0.0,\
                0.0,800.0,80.0,";
    assert_eq!(lines[1], disk);
    assert!(lines[2].starts_with("load,ringside,tmpfs,64,imix,357.8,1,"), "{}", lines[2]);
    assert_eq!(lines[3], "zero_loss,tcpdump,tmpfs,,1514,1514.0,3,,0.4600,,,0,,,,,,false");
    assert_eq!(lines[4], "raw,,disk,,,,3,,,,,,,,,1000.0,100,");
    assert_eq!(lines.len(), 5);
}

#[test]
fn the_tables_say_the_same() {
    let text = results().text();
    for part in ["ringside", "50.00", "1000 MB/s", "0.460", "imix", "whole"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert_eq!(Results::default().text(), "");
}

#[test]
fn a_row_knows_whether_it_lost() {
    let results = results();
    let row = |index: usize| &results.loads[index];
    assert!(!row(0).lost_nothing() && row(1).lost_nothing());
    let found = results.load(row(0).setup, &row(0).sizes).unwrap();
    assert_eq!(found.samples.len(), 3);
}
