//! The measurements run from end to end, tiny; their figures are not judged here.

use crate::common::*;
use ringside_testkit::{by_run, huge_pages_lock, need_root, need_tool};
use rustix::process::Signal;
use std::path::Path;
use std::process::Command;

/// A place for results, and recordings on a disk, where cargo has its own files.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// `ringside bench ARGS`, with the default disk in `folder`.
fn bench(folder: &Path, args: &str) -> Command {
    let mut command = Command::new("env");
    command.arg("--default-signal=INT,HUP").arg(ringside());
    command.arg("bench").args(args.split_whitespace()).current_dir(folder);
    command
}

/// The fields of the lines of a CSV file that begin with `start`.
fn lines(csv: &Path, start: &str) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(csv).unwrap();
    let fields = |line: &str| line.split(',').map(str::to_owned).collect();
    text.lines().filter(|line| line.starts_with(start)).map(fields).collect()
}

/// Nothing of the process is left in memory, on the disk or as a network.
fn assert_clean(pid: u32, folder: &Path) {
    for parent in [Path::new("/dev/shm"), folder] {
        let left = parent.join(format!("ringside-bench-{pid}"));
        assert!(!left.exists(), "{} is left", left.display());
    }
    let networks = run("ip", &["netns", "list"]).text();
    assert!(!networks.contains(&format!("ringside-bench{pid}-")), "{networks}");
}

#[test]
fn a_record_has_a_row_for_each_tool_and_place() {
    let test = "a_record_has_a_row_for_each_tool_and_place";
    if !need_root(test) || !need_tool(test, "tcpdump") {
        return;
    }
    let folder = folder();
    let args = "record --figure load,4.5 --tools ringside,tcpdump --sizes 64 --rounds 1 \
                --for 300ms --csv record.csv --svg figures";
    let running = Running::start(bench(folder.path(), args));
    let pid = running.pid();
    let outcome = running.finish();
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    for part in ["about", "minutes", "ringside", "truncates"] {
        assert!(outcome.stderr.contains(part), "{part} in {}", outcome.stderr);
    }
    let csv = folder.path().join("record.csv");
    let places = lines(&csv, "load,").into_iter().map(|fields| {
        let received: f64 = fields[8].parse().unwrap();
        assert!(received > 0.0, "{fields:?}");
        format!("{} {}", fields[1], fields[2])
    });
    let expected = ["ringside tmpfs", "tcpdump tmpfs", "ringside disk", "tcpdump disk"];
    assert_eq!(places.collect::<Vec<_>>(), [&expected[..], &["ringside discard"]].concat());
    assert!(outcome.text().contains("Full load"), "{}", outcome.text());
    for figure in ["full-load-tmpfs.svg", "full-load-disk.svg", "figure-4.5.svg"] {
        assert!(folder.path().join("figures").join(figure).exists(), "{figure}");
    }
    assert_clean(pid, folder.path());
}

#[test]
fn a_search_without_loss_finds_a_rate() {
    if !need_root("a_search_without_loss_finds_a_rate") {
        return;
    }
    let folder = folder();
    let args = "record --figure zero-loss --tools ringside --to tmpfs --zero-loss-sizes 64 \
                --zero-loss-rounds 1 --for 200ms --resolution 50 --csv record.csv";
    let outcome = Running::start(bench(folder.path(), args)).finish();
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    let found = lines(&folder.path().join("record.csv"), "zero_loss,ringside,tmpfs,,64,");
    assert_eq!(found.len(), 1, "{}", outcome.text());
    let rate: f64 = found[0][8].parse().unwrap();
    assert!((0.0..100.0).contains(&rate), "{found:?}");
}

#[test]
fn receiving_has_a_row_for_each_way_and_limit() {
    let test = "receiving_has_a_row_for_each_way_and_limit";
    if !need_root(test) || !need_tool(test, "tcpdump") {
        return;
    }
    // Its backends are given huge pages.
    let _lock = huge_pages_lock();
    let folder = folder();
    let args = "receive --tools ringside,tcpdump,xdp-drop --placement own --sizes 64 --rounds 1 \
                --waits sleep --for 200ms --zero-loss-sizes none --csv receive.csv --svg figures";
    let running = Running::start(bench(folder.path(), args));
    let pid = running.pid();
    let outcome = running.finish();
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    let expected = [
        "own ringside sleep on 1   1 1",
        "own ringside sleep off 1   1 1",
        "own tcpdump      1 1",
        "own xdp-drop      1 0",
    ];
    assert_eq!(received(&folder.path().join("receive.csv")), expected);
    assert!(outcome.text().contains("the tool on a CPU of its own"), "{}", outcome.text());
    assert!(folder.path().join("figures/figure-13-own.svg").exists());
    assert_clean(pid, folder.path());
}

#[test]
fn the_cost_of_stamps_filters_and_the_ring_is_measured_in_one_run() {
    if !need_root("the_cost_of_stamps_filters_and_the_ring_is_measured_in_one_run") {
        return;
    }
    // Its backends are given huge pages.
    let _lock = huge_pages_lock();
    let folder = folder();
    let args = "receive --tools ringside,ringside-xdp-ring,xdp-drop,xdp-drop-stamp \
                --placement own --sizes 64 --rounds 1 --stamps on --waits sleep \
                --ring-snaplens 0,18 --for 200ms --zero-loss-sizes none --csv receive.csv --filter";
    let mut command = bench(folder.path(), args);
    // It accepts none of the generated frames.
    command.arg("tcp port 80");
    let running = Running::start(command);
    let pid = running.pid();
    let outcome = running.finish();
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    let expected = [
        "own ringside sleep on 1   1 1",
        "own ringside sleep on 1 tcp port 80  1 1",
        "own ringside sleep on 1  0 1 1",
        "own ringside sleep on 1  18 1 1",
        "own ringside-xdp-ring sleep on 1   1 1",
        "own ringside-xdp-ring sleep on 1 tcp port 80  1 1",
        "own ringside-xdp-ring sleep on 1  0 1 1",
        "own ringside-xdp-ring sleep on 1  18 1 1",
        "own xdp-drop      1 0",
        "own xdp-drop-stamp      1 0",
    ];
    assert_eq!(received(&folder.path().join("receive.csv")), expected);
    assert_clean(pid, folder.path());
}

#[test]
fn several_queues_are_received_where_the_receive_path_shares_the_cpu() {
    if !need_root("several_queues_are_received_where_the_receive_path_shares_the_cpu") {
        return;
    }
    // Its backends are given huge pages.
    let _lock = huge_pages_lock();
    let folder = folder();
    let args = "receive --tools ringside,xdp-pass --placement shared --sizes 64 --rounds 1 \
                --stamps on --waits sleep --queues 2 --for 200ms --csv receive.csv";
    let outcome = Running::start(bench(folder.path(), args)).finish();
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    let expected = ["shared ringside sleep on 1   2 1", "shared xdp-pass      2 0"];
    assert_eq!(received(&folder.path().join("receive.csv")), expected);
    assert!(outcome.text().contains("the generator runs free"), "{}", outcome.text());
}

/// What was measured, the columns from the placement to the processes, in the order of the file;
/// each received something and no more than there was.
fn received(csv: &Path) -> Vec<String> {
    let row = |fields: Vec<String>| {
        let number = |index: usize| fields[index].parse::<f64>().unwrap();
        let (offered, handed, received) = (number(13), number(14), number(15));
        assert!(received > 0.0 && received <= handed && handed <= offered, "{fields:?}");
        fields[1..10].join(" ")
    };
    lines(csv, "load,").into_iter().map(row).collect()
}

#[test]
fn testpmd_is_measured_and_its_pages_are_given_back() {
    let test = "testpmd_is_measured_and_its_pages_are_given_back";
    if !need_root(test) || !need_tool(test, "dpdk-testpmd") {
        return;
    }
    let _lock = huge_pages_lock();
    let folder = folder();
    let args = "receive --tools testpmd-af-xdp,testpmd-af-packet --sizes 64 --rounds 1 \
                --placement own --for 200ms --zero-loss-sizes none --json";
    let running = Running::start(bench(folder.path(), args));
    let pid = running.pid();
    let outcome = running.finish();
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    let text = outcome.text();
    let rows: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let tools: Vec<_> = rows.iter().map(|row| row["tool"].as_str().unwrap()).collect();
    assert_eq!(tools, ["testpmd-af-xdp", "testpmd-af-packet"]);
    assert!(rows.iter().all(|row| row["received_mps"].as_f64().unwrap() > 0.0), "{text}");
    // The number of pages belongs to everybody on the machine; the journal to this run alone.
    let journals = std::fs::read_dir("/run/ringside").into_iter().flatten().flatten();
    let names = journals.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let left: Vec<String> =
        names.filter(|name| name.starts_with(&format!("knobs-{pid}-"))).collect();
    assert!(
        left.is_empty() && !outcome.stderr.contains("put back"),
        "{left:?}: {}",
        outcome.stderr
    );
}

#[test]
fn changes_under_load_lose_no_frame() {
    if !need_root("changes_under_load_lose_no_frame") {
        return;
    }
    let folder = folder();
    let args = "changes --exact 100 --wildcards 100 --changes 2 --frame-rate 20000 --rounds 1 \
                --for 200ms --csv changes.csv";
    let running = Running::start(bench(folder.path(), args));
    let pid = running.pid();
    let outcome = running.finish();
    // The status says that no frame is lost, or judged by half of a change.
    assert_eq!(outcome.code(), Some(0), "{}{}", outcome.text(), outcome.stderr);
    let csv = folder.path().join("changes.csv");
    let effects = lines(&csv, "effect,").into_iter().map(|fields| {
        // On a busy machine a change may be undone before a frame comes.
        let [seen, unseen] = [4, 18].map(|column| fields[column].parse::<u32>().unwrap());
        assert_eq!(seen + unseen, 2, "{fields:?}");
        fields[1..4].join(" ")
    });
    let expected: Vec<String> = ["driver", "af-xdp", "af-packet"]
        .iter()
        .flat_map(|judge| ["exact", "wildcard"].map(|rule| format!("{judge} {rule}")))
        .flat_map(|name| ["add", "delete"].map(|change| format!("{name} {change}")))
        .collect();
    assert_eq!(effects.collect::<Vec<_>>(), expected);
    let rates = lines(&csv, "rate,driver,");
    assert_eq!(
        rates.iter().map(|fields| fields[2].as_str()).collect::<Vec<_>>(),
        ["exact", "wildcard"]
    );
    for fields in &rates {
        let [changes, kept] = [19, 22].map(|column| fields[column].parse::<f64>().unwrap());
        assert!(changes > 0.0 && kept > 0.0, "{fields:?}");
    }
    assert!(outcome.text().contains("a frame within"), "{}", outcome.text());
    assert_clean(pid, folder.path());
}

#[test]
fn a_link_has_a_rate_without_loss_and_times_under_way() {
    if !need_root("a_link_has_a_rate_without_loss_and_times_under_way") {
        return;
    }
    let folder = folder();
    let args = "link --sizes 64,imix --for 20ms --csv link.csv --svg figures";
    let running = Running::start(bench(folder.path(), args));
    let pid = running.pid();
    let outcome = running.finish();
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    let csv = folder.path().join("link.csv");
    for size in ["64", "imix"] {
        let rate: f64 = lines(&csv, &format!("throughput,{size},"))[0][3].parse().unwrap();
        assert!(rate > 0.0, "{size}");
        let times = lines(&csv, &format!("latency,{size},"));
        assert_eq!(times.iter().map(|f| f[2].as_str()).collect::<Vec<_>>(), ["10", "50", "90"]);
        for fields in times {
            let times: Vec<f64> = fields[9..14].iter().map(|f| f.parse().unwrap()).collect();
            assert!(times.is_sorted() && times[0] > 0.0, "{fields:?}");
        }
        assert_eq!(lines(&csv, &format!("burst,{size},")).len(), 1);
        assert_eq!(lines(&csv, &format!("loss,{size},")).len(), 11);
    }
    assert!(folder.path().join("figures/link-latency.svg").exists());
    assert_clean(pid, folder.path());
}

/// Runs a measurement until every row has its figure: on a busy machine a process may not run at
/// all for the short time that is enough else. Gives the last one's PID.
fn complete(folder: &Path, args: &str, is_complete: impl Fn() -> bool) -> u32 {
    for time in ["300ms", "3s", "30s"] {
        let running = Running::start(bench(folder, &format!("{args} --for {time}")));
        let pid = running.pid();
        let outcome = running.finish();
        assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
        if is_complete() {
            return pid;
        }
    }
    panic!("a row has no figure: {args}");
}

#[test]
fn every_sender_and_way_has_a_figure() {
    let test = "every_sender_and_way_has_a_figure";
    if !need_root(test) {
        return;
    }
    // Some senders take huge pages.
    let _lock = huge_pages_lock();
    let folder = folder();
    let some = ["ringside-constant", "ringside-af-xdp"];
    let all = ["ringside-constant", "ringside", "ringside-stamp", "ringside-af-xdp"];
    let all = [&all[..], &["ringside-af-packet", "ringside-tx-ring"]].concat();
    let tools = by_run(some.to_vec(), all);
    let args = format!(
        "send --tools {} --placement own,shared --sizes 64 --rounds 1 --csv send.csv --svg figures",
        tools.join(",")
    );
    let rows =
        |placement: &str| lines(&folder.path().join("send.csv"), &format!("{placement},ringside"));
    let has_sent = |fields: &Vec<String>| fields[4].parse::<f64>().unwrap() > 0.0;
    let placements = ["own", "shared"];
    let pid = complete(folder.path(), &args, || {
        placements.iter().flat_map(|placement| rows(placement)).all(|fields| has_sent(&fields))
    });
    for placement in placements {
        assert_eq!(rows(placement).len(), tools.len(), "{placement}");
    }
    assert_clean(pid, folder.path());
    let all = vec!["calls", "copies", "chains", "kernel", "live", "chain-limit"];
    let ways = by_run(vec!["live", "chain-limit"], all);
    let streams = by_run("1", "1,2");
    let args = format!(
        "segment --ways {} --streams {streams} --rounds 1 --csv segment.csv --svg figures",
        ways.join(",")
    );
    let csv = folder.path().join("segment.csv");
    let far_ends = ["moderated", "woken", "shared"];
    let pid = complete(folder.path(), &args, || {
        let rows = far_ends.iter().flat_map(|far_end| lines(&csv, &format!("{far_end},")));
        rows.filter(|fields| ways.contains(&fields[1].as_str()))
            .all(|fields| fields[5].parse::<f64>().unwrap() > 0.0)
    });
    for far_end in far_ends {
        for way in &ways {
            let rows = lines(&csv, &format!("{far_end},{way},"));
            let kinds: Vec<String> = rows.iter().map(|fields| fields[2..4].join(" ")).collect();
            let expected = ["memory 1", "file 1", "memory 2"];
            let count = match *way {
                "chain-limit" => 1,
                "live" => 2,
                _ => 3,
            };
            assert_eq!(kinds, expected[..count], "{far_end}, {way}");
        }
        let figure = format!("figures/segment-streams-{far_end}.svg");
        assert!(folder.path().join(figure).exists(), "{far_end}");
    }
    assert_clean(pid, folder.path());
}

#[test]
fn what_one_core_does_in_the_driver_is_measured_and_every_frame_accounted_for() {
    let test = "what_one_core_does_in_the_driver_is_measured_and_every_frame_accounted_for";
    if !need_root(test) || !need_tool(test, "nft") {
        return;
    }
    // testpmd takes some.
    let _lock = huge_pages_lock();
    let folder = folder();
    let (some, all) = (["tx", "route"], ["drop", "cpu", "redirect", "latency", "pass", "balance"]);
    let parts = by_run(some.to_vec(), [&some[..], &all].concat());
    let args = format!(
        "xdp --parts {} --rounds 1 --for 100ms --rates 50000 --routes 20000 --csv xdp.csv --svg \
         figures",
        parts.join(",")
    );
    let running = Running::start(bench(folder.path(), &args));
    let pid = running.pid();
    let outcome = running.finish();
    assert_eq!(outcome.code(), Some(0), "{}{}", outcome.text(), outcome.stderr);
    let csv = folder.path().join("xdp.csv");
    let names = &lines(&csv, "part,")[0];
    let at = |name: &str| names.iter().position(|one| one == name).unwrap();
    let mut counts = std::collections::BTreeMap::new();
    for &part in &parts {
        for row in lines(&csv, &format!("{part},")) {
            let absent = &row[at("absent")];
            let count = |name: &str| row[at(name)].parse::<u64>().unwrap_or(0);
            assert_eq!(absent.is_empty(), count("out") > 0, "{row:?}");
            assert_eq!(count("unaccounted"), 0, "{row:?}");
            let lost = ["lost_ring", "lost_interface", "lost_host", "lost_other"].map(count);
            assert_eq!(count("taken"), count("out") + lost.iter().sum::<u64>(), "{row:?}");
            assert_eq!(count("offered"), count("taken") + count("refused"), "{row:?}");
            *counts.entry(part).or_insert(0) += 1;
        }
    }
    let expected = [
        ("balance", 6),
        ("cpu", 4),
        ("drop", 10),
        ("latency", 8),
        ("pass", 2),
        ("redirect", 5),
        ("route", 12),
        ("tx", 3),
    ];
    let expected = expected.into_iter().filter(|(part, _)| parts.contains(part));
    assert_eq!(counts.into_iter().collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    for part in ["ringside route", "20,000 routes", "left out", "% of limit"] {
        assert!(outcome.text().contains(part), "{part} in {}", outcome.text());
    }
    let figures = ["drop.svg", "cpu.svg", "forward.svg", "route.svg", "balance.svg"];
    for figure in by_run(vec!["forward.svg", "route.svg"], figures.to_vec()) {
        assert!(folder.path().join("figures").join(figure).exists(), "{figure}");
    }
    assert_clean(pid, folder.path());
}

#[test]
fn a_signal_ends_it_and_nothing_stays() {
    if !need_root("a_signal_ends_it_and_nothing_stays") {
        return;
    }
    let folder = folder();
    let args = "record --figure load --tools ringside --sizes 64 --rounds 1 --for 5s --to disk";
    let running = Running::start(bench(folder.path(), args));
    let pid = running.pid();
    // The load is under way as soon as there is a recording.
    let recording = folder.path().join(format!("ringside-bench-{pid}/run/series"));
    wait_until("the recording", || {
        assert!(!running.stderr_so_far().contains("ringside:"), "{}", running.stderr_so_far());
        recording.exists()
    });
    running.signal(Signal::INT);
    let outcome = running.finish();
    assert_eq!(outcome.code(), Some(2), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("stopped by a signal"), "{}", outcome.stderr);
    assert_clean(pid, folder.path());
}

#[test]
fn what_cannot_be_is_refused_with_its_fix() {
    let folder = folder();
    for (args, part) in [
        ("record --disk /dev/shm --for 1s --rounds 1", "tmpfs"),
        ("record --for 3000h", "--for"),
        ("record --figure 9.9", "possible values"),
        ("receive --queues 13", "--queues"),
        ("receive --filter eighty", "'eighty' is refused by libpcap"),
        ("receive --filter=", "not empty"),
        ("changes --frame-rate 7", "--frame-rate"),
        ("xdp --parts rout", "--parts"),
        ("xdp --routes 3000000", "--routes"),
    ] {
        let outcome = Running::start(bench(folder.path(), args)).finish();
        assert_eq!(outcome.code(), Some(2), "{args}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(part), "{args}: {}", outcome.stderr);
    }
}
