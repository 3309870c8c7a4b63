//! Packets of a search, shown to what makes records of them.

use super::super::search::{Opened, Search};
use super::kept::{Cause, Kept, KeptFlows, KeptLog, lock};
use super::talkers::Talkers;
use crate::limits::{CALL_STREAMS_MAX, CALLS_MAX, FLOW_MEMORY_BYTES, Limits};
use crate::problem::Problem;
use ringside_calls::CallsObserver;
use ringside_core::{Frame, LaneId, SourceInterface};
use ringside_dns::DnsObserver;
use ringside_flow::{FlowObserver, FlowTable};
use ringside_http::{HttpLines, HttpObserver, LogFormat};
use ringside_inspect::{Observer, Pump};
use ringside_logs::{Format, Log, Logged, RecordFormat, RecordLines, RecordSink};
use ringside_record::Names;
use ringside_search::{Answer, End, Output};
use ringside_terminal::units::grouped;
use ringside_tls::TlsObserver;
use std::cell::Cell;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What is made of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Records of flows.
    Flows,
    /// HTTP transactions.
    Http,
    /// DNS transactions.
    Dns,
    /// TLS handshakes.
    Tls,
    /// SIP calls.
    Calls,
    /// Addresses.
    Talkers,
}

/// How far packets are read for an answer, and how large it gets.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    count_max: usize,
    bytes_max: usize,
    packets_max: u64,
    time_max: Duration,
}

impl Kind {
    /// Kinds of records that a command has too.
    const OF_COMMANDS: [Kind; 5] = [Kind::Flows, Kind::Http, Kind::Dns, Kind::Tls, Kind::Calls];

    /// The name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Flows => "flows",
            Kind::Http => "http",
            Kind::Dns => "dns",
            Kind::Tls => "tls",
            Kind::Calls => "calls",
            Kind::Talkers => "talkers",
        }
    }

    /// The kind of this name.
    ///
    /// # Errors
    /// No kind has it.
    pub fn named(name: &str) -> Result<Kind, Problem> {
        let found = Kind::OF_COMMANDS.into_iter().find(|kind| kind.name() == name);
        let names = Kind::OF_COMMANDS.map(Kind::name).join(", ");
        found.ok_or_else(|| Problem::not_found(format!("no such records; there are {names}")))
    }

    /// True if the largest are kept, so that all have to be seen.
    fn is_ranked(self) -> bool {
        matches!(self, Kind::Flows | Kind::Talkers)
    }
}

impl Bounds {
    /// For an answer of `count_max` records.
    pub fn of(limits: &Limits, count_max: usize) -> Bounds {
        let Limits { records_bytes_max, records_packets_max, records_time_max, .. } = limits;
        Bounds {
            count_max,
            bytes_max: *records_bytes_max,
            packets_max: *records_packets_max,
            time_max: *records_time_max,
        }
    }

    /// Room for the records of an answer.
    pub fn kept(&self) -> Kept {
        Kept::new(self.count_max, self.bytes_max)
    }

    /// What is missing, and what helps.
    pub fn text(&self, cause: Cause, kind: Kind) -> String {
        let count_max = grouped(self.count_max as u64);
        let less = "ask for a shorter time, or by a narrower filter";
        match cause {
            Cause::Limit if kind.is_ranked() => {
                format!("the {count_max} largest are here; there are more: raise limit, or {less}")
            }
            Cause::Limit => format!(
                "the first {count_max} are here, and reading ended there: raise limit, or {less}"
            ),
            Cause::Size => {
                let bytes = grouped(self.bytes_max as u64);
                format!("an answer has at most {bytes} bytes of records: {less}")
            }
            Cause::Addresses => format!("there are more addresses than are kept apart: {less}"),
            Cause::Packets => {
                format!("reading ended after {} packets: {less}", grouped(self.packets_max))
            }
            Cause::Time => {
                format!("reading ended after {} s: {less}", self.time_max.as_secs())
            }
            Cause::Gone => "the client has gone".into(),
            Cause::Lost => "packets of this time were lost while it was recorded".into(),
            Cause::Recording => "something is missing in the recordings".into(),
        }
    }
}

/// The records of the packets of a search, and what was read for them.
///
/// # Errors
/// As [`Search::open`]; or a recording cannot be read, or `active` is no time-out.
pub fn find(
    search: &Search,
    kind: Kind,
    active: Option<Duration>,
    bounds: &Bounds,
    is_gone: &dyn Fn() -> bool,
) -> Result<(Kept, Answer), Problem> {
    let kept = Mutex::new(bounds.kept());
    let observer = observer(kind, active, &kept)?;
    let full = || (!kind.is_ranked()).then(|| lock(&kept).missing().next()).flatten();
    let (answer, causes) = read(search, observer, bounds, is_gone, &full)?;
    let mut kept = kept.into_inner().unwrap_or_else(PoisonError::into_inner);
    causes.into_iter().for_each(|cause| kept.miss(cause));
    Ok((kept, answer))
}

/// Shows the packets of a search until the client has gone, `full` says that it is enough, or the
/// bounds do; what was read, and what may be missing by that.
///
/// # Errors
/// As [`Search::open`]; or a recording cannot be read.
pub fn read(
    search: &Search,
    observer: Box<dyn Observer + '_>,
    bounds: &Bounds,
    is_gone: &dyn Fn() -> bool,
    full: &dyn Fn() -> Option<Cause>,
) -> Result<(Answer, Vec<Cause>), Problem> {
    let mut opened = search.open()?;
    let end_at = Instant::now() + bounds.time_max;
    let why = |packets_read| {
        let of_packets = (packets_read >= bounds.packets_max).then_some(Cause::Packets);
        let of_time = || (Instant::now() >= end_at).then_some(Cause::Time);
        is_gone().then_some(Cause::Gone).or_else(full).or(of_packets).or_else(of_time)
    };
    let (found, stopped) = show(&mut opened, observer, &why)?;
    let answer = opened.answer(found, stopped.is_some());
    let mut causes = Vec::new();
    match (answer.end, stopped) {
        (End::Stopped, Some(cause)) => causes.push(cause),
        (End::Incomplete, _) => causes.push(Cause::Recording),
        _ => {}
    }
    if !answer.gaps.is_empty() {
        causes.push(Cause::Lost);
    }
    Ok((answer, causes))
}

/// Shows the packets until `why`, which gets the number that were read, says that it is enough;
/// how many matched.
fn show(
    opened: &mut Opened,
    observer: Box<dyn Observer + '_>,
    why: &dyn Fn(u64) -> Option<Cause>,
) -> Result<(u64, Option<Cause>), Problem> {
    let stopped = Cell::new(None);
    let is_stopped = |packets_read| {
        stopped.set(why(packets_read));
        stopped.get().is_some()
    };
    let mut shown = Shown { pump: Pump::new(vec![observer]), interfaces: Vec::new() };
    let found = opened.copy(&mut shown, &is_stopped);
    shown.pump.finish();
    Ok((found.map_err(|error| Problem::failed(&error))?, stopped.get()))
}

/// What makes records of a kind, within what one of several searches may take.
fn observer<'k>(
    kind: Kind,
    active: Option<Duration>,
    kept: &'k Mutex<Kept>,
) -> Result<Box<dyn Observer + 'k>, Problem> {
    let streams = ringside_streams::Limits::default;
    Ok(match kind {
        Kind::Flows => Box::new(flows(active, Box::new(KeptFlows::new(kept)))?),
        Kind::Talkers => Box::new(flows(None, Box::new(Talkers::new(kept)))?),
        Kind::Http => {
            let lines = HttpLines::new(LogFormat::Json, Names::default());
            let options = ringside_http::Options::default();
            Box::new(HttpObserver::new(options, log(kept, Box::new(lines))))
        }
        Kind::Dns => {
            let limits = ringside_dns::Limits::default();
            Box::new(DnsObserver::new(limits, log(kept, json(ringside_dns::text))))
        }
        Kind::Tls => Box::new(TlsObserver::new(streams(), log(kept, json(ringside_tls::text)))),
        Kind::Calls => {
            let options = ringside_calls::Options { limits: of_calls(), ..Default::default() };
            Box::new(CallsObserver::new(options, log(kept, json(ringside_calls::text))))
        }
    })
}

/// What calls may use in one of several searches.
pub fn of_calls() -> ringside_calls::Limits {
    let tcp = ringside_streams::Limits::default();
    ringside_calls::Limits { calls: CALLS_MAX, streams: CALL_STREAMS_MAX, tcp }
}

fn flows<'k>(
    active: Option<Duration>,
    sink: Box<dyn ringside_flow::RecordSink + 'k>,
) -> Result<FlowObserver<'k>, Problem> {
    let usual = ringside_flow::Limits::default();
    let active = active.unwrap_or(usual.active);
    let limits = ringside_flow::Limits { memory_bytes: FLOW_MEMORY_BYTES, active, ..usual };
    let table = FlowTable::new(limits);
    let table = table.map_err(|error| Problem::bad(format!("active: {error}")))?;
    Ok(FlowObserver::new(table, vec![sink]))
}

/// A line of JSON of each record.
pub fn json<R: Logged>(text: fn(&R) -> String) -> Box<dyn Format<R>> {
    Box::new(RecordLines::new(RecordFormat::Json, Names::default(), text))
}

fn log<'k, R: Logged>(
    kept: &'k Mutex<Kept>,
    format: Box<dyn Format<R>>,
) -> Vec<(String, Box<dyn RecordSink<R> + 'k>)> {
    vec![("answer".into(), Box::new(Log::new(Box::new(KeptLog(kept)), format)))]
}

/// A place for packets where observers see them.
struct Shown<'o> {
    pump: Pump<'o>,
    interfaces: Vec<SourceInterface>,
}

impl Output for Shown<'_> {
    fn add_interface(&mut self, interface: &SourceInterface) -> anyhow::Result<()> {
        self.interfaces.push(interface.clone());
        Ok(())
    }

    fn put(&mut self, frame: &Frame<'_>) -> anyhow::Result<()> {
        self.pump.show(frame, &self.interfaces, LaneId(0));
        Ok(())
    }

    fn idle(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    fn abandon(&mut self) -> Option<(PathBuf, u64)> {
        None
    }
}
