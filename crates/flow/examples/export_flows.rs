//! Flows of captures, as lines or messages on standard output.
//!
//! `cargo run -p ringside-flow --example export_flows -- FORMAT CAPTURE…`, where FORMAT is `json`,
//! `csv`, or that of messages: `netflow5`, `netflow9`, `ipfix`, `ipfix-ns`,
//! `ipfix-uniflow`.

use ringside_core::LaneId;
use ringside_flow::encode::Stream;
use ringside_flow::{
    Collector, FlowObserver, FlowTable, Limits, LineFormat, Lines, Names, RecordSink,
};
use ringside_inspect::Pump;
use std::error::Error;
use std::io::{BufWriter, stdout};
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let format = words.next().ok_or("FORMAT CAPTURE…")?;
    let paths: Vec<PathBuf> = words.map(PathBuf::from).collect();
    let output = BufWriter::new(stdout());
    let sink: Box<dyn RecordSink> = match format.as_str() {
        "json" => Box::new(Lines::new(output, LineFormat::Json, Names::Ringside)),
        "csv" => Box::new(Lines::new(output, LineFormat::Csv, Names::Ringside)),
        other => Box::new(Collector::new(other.parse()?, 1, Stream(output))),
    };
    let mut flows = FlowObserver::new(FlowTable::new(Limits::default())?, vec![sink]);
    let mut source = ringside_store::open(&paths)?;
    let report = Pump::new(vec![Box::new(&mut flows)]).run(&mut *source, LaneId(0), &|| false);
    let (ledger, held) = (flows.table().ledger(), flows.table().held());
    eprintln!("{ledger:?}, balances: {}", ledger.balances(held));
    report.failure.map_or(Ok(()), |failure| Err(failure.into()))
}
