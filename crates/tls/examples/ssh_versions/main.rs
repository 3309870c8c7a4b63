//! Writes a line of JSON for each SSH connection of captures: docs/howto/analyzer.md.
//!
//! ```text
//! cargo run -p ringside-tls --example ssh_versions -- FILE|DIR …
//! ```

mod versions;

use ringside_core::LaneId;
use ringside_inspect::{Observer, Pump};
use ringside_logs::{Log, RecordFormat, RecordLines, RecordSink};
use ringside_record::Names;
use std::error::Error;
use std::io::{BufWriter, stdout};
use std::path::PathBuf;
use versions::{SshObserver, Versions};

fn main() -> Result<(), Box<dyn Error>> {
    let paths: Vec<PathBuf> = std::env::args().skip(1).map(PathBuf::from).collect();
    let text = |found: &Versions| found.lines.join(" ");
    let lines = RecordLines::new(RecordFormat::Json, Names::Ringside, text);
    let log: Box<dyn RecordSink<Versions>> =
        Box::new(Log::to_stream(BufWriter::new(stdout()), Box::new(lines)));
    let mut observer = SshObserver::new(vec![("lines".into(), log)]);
    let mut source = ringside_store::open(&paths)?;
    let pump = Pump::new(vec![Box::new(&mut observer as &mut dyn Observer)]);
    pump.run(&mut *source, LaneId(0), &|| false);
    if observer.balances() { Ok(()) } else { Err("the account does not balance".into()) }
}
