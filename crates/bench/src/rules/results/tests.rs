use super::super::super::process::CpuTime;
use super::*;
use serde_json::json;

fn results() -> Results {
    let dropped = |taken_per_sec| Dropped { taken_per_sec, host_per_sec: 5e4, ready_seconds: 0.25 };
    let drop_row = |name: &str, is_limit, rates: &[f64]| DropRow {
        name: name.into(),
        holds: "1 port".into(),
        is_limit,
        samples: rates.iter().copied().map(dropped).collect(),
    };
    let sample = Sample {
        offered: 2_000_000,
        handed: 2_000_000,
        received: 1_500_000,
        before: 0,
        named_lost: None,
        load_seconds: 1.0,
        cpu: CpuTime::default(),
        stored_bytes: None,
        drain_seconds: 0.0,
    };
    let filter = |terms, samples, refusal| {
        let name = "tcpdump".to_owned();
        FilterRow { name, terms, samples, refusal }
    };
    Results {
        drops: vec![
            drop_row("xdp-drop", true, &[6e6, 8e6, 7e6]),
            drop_row("nft-1", false, &[3.5e6]),
            drop_row("xdp-filter", false, &[]),
        ],
        filters: vec![
            filter(100, vec![(0.5, sample)], None),
            filter(1000, Vec::new(), Some((43.5, "7772 instructions, too many".into()))),
        ],
        failures: vec!["xdp-filter: it did not start".into()],
    }
}

#[test]
fn the_csv_has_a_line_for_each_figure_and_a_field_for_each_column() {
    let csv = results().csv();
    for line in csv.lines() {
        assert_eq!(line.split(',').count(), COLUMNS.len(), "{line}");
    }
    let expected = [
        "drop,xdp-drop,1 port,3,7.0,6.0,8.0,100.0,0.05,,,0.25,",
        "drop,nft-1,1 port,1,3.5,3.5,3.5,50.0,0.05,,,0.25,",
        "filter,tcpdump,100 addresses,1,1.5,1.5,1.5,,,25.0,0.0,0.5,",
        "filter,tcpdump,1000 addresses,0,,,,,,,,43.5,7772 instructions; too many",
    ];
    assert_eq!(csv.lines().skip(1).collect::<Vec<_>>(), expected);
}

#[test]
fn the_json_lines_say_the_same() {
    let json = results().json();
    let lines: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 4);
    assert_eq!(
        (&lines[1]["limit_percent"], &lines[3]["ready_seconds"]),
        (&json!(50.0), &json!(43.5))
    );
}

#[test]
fn the_tables_say_what_was_refused_and_what_is_missing() {
    let text = results().text();
    for words in ["286", "7772 instructions, too many", "Without a figure:\nxdp-filter"] {
        assert!(text.contains(words), "{words} in {text}");
    }
    assert_eq!(Results::default().text(), "");
}
