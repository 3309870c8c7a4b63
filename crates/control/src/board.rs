//! What a run answers at its control socket.

use super::protocol::{Command, OutputStatus, Rates, Reply, RingStatus, Status};
use super::refusals::{NO_FLOWS, NO_RULES, not_for_this_run};
use super::rules::RuleDesk;
use ringside_capture::run::Run;
use ringside_core::{Ledger, SourceInterface};
use ringside_flow::MonitorHandle;
use ringside_ring::CaptureRing;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Refuses orders about a flow cache.
const NO_CACHE: &str =
    "this run has no flow cache in the kernel; `ringside flows --cache` makes one";

/// What is known of a run from its start on.
pub struct StatusParts {
    keeper_pid: Option<u32>,
    source: String,
    interfaces: Vec<String>,
    output: OutputStatus,
    started: jiff::Timestamp,
    started_at: Instant,
}

/// What is known of a run in addition to its counters.
pub struct Board {
    parts: StatusParts,
    rates: Mutex<Option<Rates>>,
    ring: Option<Arc<CaptureRing>>,
    rules: Option<RuleDesk>,
    flows: Option<MonitorHandle>,
}

impl StatusParts {
    /// Of a run that begins now.
    pub fn new(source: String, interfaces: Vec<String>, output: OutputStatus) -> StatusParts {
        let (started, started_at) = (jiff::Timestamp::now(), Instant::now());
        StatusParts { keeper_pid: None, source, interfaces, output, started, started_at }
    }

    /// Names this process as the one that the user started.
    pub fn set_keeper(&mut self, pid: Option<u32>) {
        self.keeper_pid = pid;
    }

    /// The status of a run without a capture ring.
    pub fn status(&self, ledger: Ledger) -> Status {
        Status {
            pid: self.keeper_pid.unwrap_or_else(std::process::id),
            worker_pid: self.keeper_pid.map(|_| std::process::id()),
            program: concat!("ringside ", env!("CARGO_PKG_VERSION")).to_owned(),
            started: format!("{:.0}", self.started),
            running_ms: u64::try_from(self.started_at.elapsed().as_millis()).unwrap_or(u64::MAX),
            source: self.source.clone(),
            interfaces: self.interfaces.clone(),
            lanes: ledger.lanes.len(),
            output: self.output.clone(),
            rates: None,
            ring: None,
            readers: None,
            ledger,
            flows: None,
            route: None,
            balance: None,
            decap: None,
        }
    }
}

impl Board {
    /// Of a run that begins now.
    pub fn new(source: String, interfaces: &[SourceInterface], output: OutputStatus) -> Board {
        // Some are described more than once, for frames that are cut in different ways.
        let mut names: Vec<String> = Vec::new();
        for interface in interfaces {
            if !names.contains(&interface.name) {
                names.push(interface.name.clone());
            }
        }
        Board {
            parts: StatusParts::new(source, names, output),
            rates: Mutex::new(None),
            ring: None,
            rules: None,
            flows: None,
        }
    }

    /// Names this process as the one that the user started.
    pub fn set_keeper(&mut self, pid: Option<u32>) {
        self.parts.set_keeper(pid);
    }

    /// Shows this ring from now on.
    pub fn set_ring(&mut self, ring: Option<Arc<CaptureRing>>) {
        self.ring = ring;
    }

    /// Answers about these rules from now on.
    pub fn set_rules(&mut self, rules: Option<RuleDesk>) {
        self.rules = rules;
    }

    /// Answers about these flows from now on.
    pub fn set_flows(&mut self, flows: Option<MonitorHandle>) {
        self.flows = flows;
    }

    /// Notes the rates of the last second.
    pub fn set_rates(&self, rates: Option<Rates>) {
        *self.rates.lock().unwrap_or_else(PoisonError::into_inner) = rates;
    }

    /// Does what a client asks for.
    pub fn answer(&self, run: &Run, command: Command) -> Reply {
        match command {
            Command::Status {} => Reply::status(self.status(run)),
            Command::Ledger {} => Reply::ledger(run.status()),
            Command::Rotate {} if !self.parts.output.has_files() => {
                Reply::refused("this run writes no files that could end and begin")
            }
            Command::Rotate {} => {
                run.rotate();
                Reply::done()
            }
            Command::Stop {} => {
                run.stop();
                Reply::done()
            }
            Command::Flows { cache_entries: Some(_), .. } => Reply::refused(NO_CACHE),
            Command::Flows { idle_ms, active_ms, .. } => match &self.flows {
                Some(flows) => answer_flows(flows, idle_ms, active_ms),
                None => Reply::refused(NO_FLOWS),
            },
            Command::Rules(command) => match &self.rules {
                Some(rules) => rules.answer(command),
                None => Reply::refused(NO_RULES),
            },
            command @ Command::Balance(_) => not_for_this_run(&command),
        }
    }

    fn status(&self, run: &Run) -> Status {
        Status {
            rates: *self.rates.lock().unwrap_or_else(PoisonError::into_inner),
            ring: self.ring.as_deref().map(ring_status),
            readers: run.attached(),
            flows: self.flows.as_ref().map(flow_status),
            ..self.parts.status(run.status())
        }
    }
}

/// The account of flows, at most some seconds old.
pub fn flow_status(flows: &MonitorHandle) -> serde_json::Value {
    flows.ask();
    flows.status().json()
}

/// Changes the time-outs that are named, and answers with the account.
pub fn answer_flows(flows: &MonitorHandle, idle_ms: Option<u64>, active_ms: Option<u64>) -> Reply {
    let [idle, active] = [idle_ms, active_ms].map(|ms| ms.map(Duration::from_millis));
    if idle.or(active).is_some()
        && let Err(error) = flows.set_timeouts(idle, active)
    {
        return Reply::refused(&error.to_string());
    }
    Reply::flows(flow_status(flows))
}

fn ring_status(ring: &CaptureRing) -> RingStatus {
    let layout = ring.layout();
    let held = |lane| ring.blocks_held(lane) * layout.block_bytes;
    RingStatus {
        lane_bytes: layout.blocks_per_lane * layout.block_bytes,
        held_bytes: (0..layout.lanes).map(held).collect(),
    }
}
