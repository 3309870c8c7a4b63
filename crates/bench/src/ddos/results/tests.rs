use super::*;

fn sample(offered_per_sec: f64, transactions_per_sec: f64) -> Sample {
    let handed_per_sec = offered_per_sec / 2.0;
    Sample { offered_per_sec, handed_per_sec, host_per_sec: 0.0, transactions_per_sec }
}

/// Two contenders, taken in turn, in two rounds.
fn results() -> Results {
    let mut results = Results { limits_per_sec: vec![6e6, 8e6, 7e6], ..Results::default() };
    for round in 0..2 {
        for (kind, slope) in [(Kind::Unprotected, 9.0), (Kind::RingsideDrop, 1.0)] {
            for level in [Level::Percent(0.0), Level::Percent(60.0), Level::Full] {
                let percent = if let Level::Percent(percent) = level { percent } else { 110.0 };
                let left = (1000.0 - slope * percent).max(0.0);
                results.add(kind, level, sample(percent * 8e4, left * (10 + round) as f64));
            }
        }
    }
    results.failures.push("xdp-filter: it did not start".into());
    results
}

#[test]
fn levels_are_read_as_they_are_written() {
    for (text, rate) in [("0", Some(0)), ("60", Some(4_800_000)), ("2.5", Some(200_000))] {
        let level: Level = text.parse().unwrap();
        assert_eq!((level.rate_per_sec(8e6), level.to_string().as_str()), (rate, text));
    }
    assert_eq!("full".parse::<Level>().unwrap().rate_per_sec(8e6), None);
    assert!("0".parse::<Level>().unwrap().is_none() && !Level::Full.is_none());
    for wrong in ["", "-1", "1001", "most", "NaN"] {
        assert!(wrong.parse::<Level>().is_err(), "{wrong}");
    }
}

#[test]
fn the_csv_has_a_line_for_each_figure_and_a_field_for_each_column() {
    let csv = results().csv();
    for line in csv.lines() {
        assert_eq!(line.split(',').count(), COLUMNS.len(), "{line}");
    }
    let expected = [
        "xdp-drop,full,3,,,8.0,,,,,",
        "unprotected,0,2,0.0,0.0,0.0,0.0,11000.0,10000.0,11000.0,100.0",
        "unprotected,60,2,60.0,4.8,2.4,0.0,5060.0,4600.0,5060.0,46.0",
        "unprotected,full,2,110.0,8.8,4.4,0.0,110.0,100.0,110.0,1.0",
        "ringside-drop,0,2,0.0,0.0,0.0,0.0,11000.0,10000.0,11000.0,100.0",
        "ringside-drop,60,2,60.0,4.8,2.4,0.0,10340.0,9400.0,10340.0,94.0",
        "ringside-drop,full,2,110.0,8.8,4.4,0.0,9790.0,8900.0,9790.0,89.0",
    ];
    assert_eq!(csv.lines().skip(1).collect::<Vec<_>>(), expected);
}

#[test]
fn the_json_lines_say_the_same() {
    let json = results().json();
    let lines: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 7);
    assert_eq!(lines[0]["handed_mps"], 8.0);
    assert_eq!(lines[5]["kept_percent"], 94.0);
}

#[test]
fn the_table_says_what_is_missing() {
    let text = results().text();
    assert!(text.contains("XDP_DROP takes 8.00 million"), "{text}");
    assert!(text.contains("Without a figure:\nxdp-filter: it did not start"), "{text}");
    let mut without_start = results();
    without_start.rows.retain(|row| !row.level.is_none());
    assert!(
        without_start.csv().contains("unprotected,60,2,60.0,4.8,2.4,0.0,5060.0,4600.0,5060.0,\n")
    );
}

#[test]
fn the_figure_is_drawn_with_its_words() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("new/ddos.svg");
    results().draw(&file).unwrap();
    let svg = std::fs::read_to_string(file).unwrap();
    for word in ["unprotected", "ringside-drop", "transactions a second", "million frames"] {
        assert!(svg.contains(word), "{word}");
    }
}
