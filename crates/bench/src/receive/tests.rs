use super::*;
use clap::Parser;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    receive: ReceiveBench,
}

fn parse(line: &str) -> Result<ReceiveBench, clap::Error> {
    Line::try_parse_from(["bench"].into_iter().chain(line.split_whitespace())).map(|l| l.receive)
}

#[test]
fn every_tool_is_run_everywhere_and_searched_on_its_own_cpu() {
    let args = parse("--sizes 64,imix --queues 1,6 --zero-loss-sizes 64").unwrap();
    let plan = Plan::new(&args, &[Kind::Ringside, Kind::Tcpdump, Kind::XdpDrop]);
    // Two ways to wait, with and without stamps, a peer and a limit.
    let contenders = 2 * 2 + 2;
    assert_eq!(plan.cells.len(), 2 * 2 * 2 * contenders);
    // A limit has no loss.
    assert_eq!(plan.searches.len(), 2 * (contenders - 1));
    assert!(plan.searches.iter().all(|cell| cell.placement == Placement::Own));
    // The tools in turn: neighbours differ in the tool alone.
    let first: Vec<&Cell> = plan.cells.iter().take(contenders).collect();
    assert!(first.iter().all(|cell| cell.queues == 1 && cell.sizes.to_string() == "64"));
}

#[test]
fn without_the_own_placement_there_is_no_search() {
    for line in ["--placement shared", "--zero-loss-sizes none"] {
        let args = parse(line).unwrap();
        assert_eq!(Plan::new(&args, &[Kind::Ringside]).searches, [], "{line}");
    }
}

#[test]
fn arguments_out_of_range_are_refused() {
    for line in ["--queues 13", "--rounds 0", "--waits long", "--stamps maybe", "--sizes few"] {
        assert!(parse(line).is_err(), "{line}");
    }
}

#[test]
fn filters_and_the_ring_are_measured_next_to_counting() {
    let line = ["bench", "--waits", "sleep", "--ring-snaplens", "0,64", "--filter", "tcp port 80"];
    let args = Line::try_parse_from(line).unwrap().receive;
    let contenders = Contender::all(&[Kind::RingsideRing, Kind::XdpDropStamp], &args.ways());
    // Counting, judging and twice into the ring, with and without stamps, and a limit.
    assert_eq!(contenders.len(), 2 * 4 + 1);
}

#[test]
fn a_row_is_found_again() {
    let args = parse("--sizes 64 --placement own").unwrap();
    let plan = Plan::new(&args, &[Kind::Tcpdump, Kind::Dumpcap]);
    let mut results = Results::default();
    for cell in plan.cells.iter().chain(&plan.cells) {
        assert_eq!(results.row(cell).cell, *cell);
    }
    assert_eq!(results.rows.len(), 2);
}
