//! How the outputs of records fare: collectors, servers, and lines on standard output.

use crate::stdout::WatchedStdout;
use ringside_flow::SinkCounts;
use ringside_terminal::say;
use ringside_terminal::units::counted;
use std::io::{self, Write};
use std::os::fd::OwnedFd;

/// The outputs, which are written in other threads than the one that ends the run.
#[derive(Default)]
pub struct Outputs {
    stdout: WatchedStdout,
    watched: Vec<Watched>,
}

impl Outputs {
    /// Standard output, whose first error of writing is known here.
    pub fn writer(&self, stdout: OwnedFd) -> impl Write + Send + use<> {
        self.stdout.writer(stdout)
    }

    /// A collector of flow messages, whose outlet was just opened.
    pub fn add_collector(&mut self, watch: ringside_export::Watch) {
        self.add(move || of_collector(watch.status()));
    }

    /// A server, whose outlet was just opened.
    pub fn add_server(&mut self, watch: ringside_outlet::Watch) {
        self.add(move || of_server(watch.status()));
    }

    fn add(&mut self, fare: impl Fn() -> Fare + 'static) {
        self.watched.push(Watched { fare: Box::new(fare), before: Passage::Untried });
    }

    /// Says what changed of collectors and servers.
    ///
    /// # Errors
    /// Standard output cannot be written: what would come reaches no reader.
    pub fn look(&mut self) -> io::Result<()> {
        self.watched.iter_mut().for_each(Watched::look);
        self.stdout.check()
    }

    /// After the end: says what did not get where it should; true if everything did.
    ///
    /// # Errors
    /// Standard output could not be written.
    pub fn finish(&self) -> io::Result<bool> {
        let lossy = self.watched.iter().filter(|watched| !watched.finish()).count();
        self.stdout.check().map(|()| lossy == 0)
    }
}

/// How an outlet fares.
struct Fare {
    /// What people know it by.
    to: String,
    passage: Passage,
    counts: SinkCounts,
    /// Why something went wrong, last.
    errors: Vec<String>,
    /// What is to be said at the end in any case.
    notes: Vec<String>,
    /// What becomes of what stays in the spool.
    later: &'static str,
}

/// Whether records get through.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Passage {
    Untried,
    Open,
    Away,
    Refused,
    Ended,
}

fn of_collector(status: ringside_export::Status) -> Fare {
    use ringside_export::State;
    let damaged = status.spool_damaged_bytes;
    let note = || format!("{} of the spool could not be read", counted(damaged, "byte"));
    Fare {
        to: status.collector,
        passage: match status.state {
            State::Connecting => Passage::Untried,
            State::Open => Passage::Open,
            State::Away => Passage::Away,
            State::Ended => Passage::Ended,
        },
        counts: status.counts,
        errors: status.error.into_iter().chain(status.spool_error).collect(),
        notes: (damaged > 0).then(note).into_iter().collect(),
        later: "",
    }
}

fn of_server(status: ringside_outlet::Status) -> Fare {
    use ringside_outlet::State;
    let files = [
        (status.half_written, "batch", "half written when an earlier run was killed, dropped"),
        (status.damaged, "file", "of the spool damaged, dropped"),
    ];
    let notes = files.into_iter().filter(|(count, ..)| *count > 0);
    Fare {
        to: status.outlet,
        passage: match status.state {
            State::Idle => Passage::Untried,
            State::Open => Passage::Open,
            State::Away => Passage::Away,
            State::Refused => Passage::Refused,
        },
        counts: status.counts,
        errors: status.error.into_iter().chain(status.spool_error).collect(),
        notes: notes
            .map(|(count, what, why)| format!("{} {why}", counted(count, what)))
            .chain(status.notice)
            .collect(),
        later: "; the next run with this --outlet and --outlet-spool delivers them",
    }
}

/// An outlet that is looked at from outside.
struct Watched {
    fare: Box<dyn Fn() -> Fare>,
    /// As it was said.
    before: Passage,
}

impl Watched {
    /// Says when it goes away or refuses, and when it is back.
    fn look(&mut self) {
        let Fare { to, passage, errors, .. } = (self.fare)();
        if passage == self.before {
            return;
        }
        let before = std::mem::replace(&mut self.before, passage);
        let why = errors.first().map_or("", String::as_str);
        match passage {
            Passage::Away => say::message(format_args!("ringside: {to} is away: {why}")),
            Passage::Refused => say::message(format_args!("ringside: {to} refuses: {why}")),
            Passage::Open if before == Passage::Away => {
                say::message(format_args!("ringside: {to} is back"));
            }
            _ => {}
        }
    }

    /// Says what did not get there; true if that is nothing.
    fn finish(&self) -> bool {
        let Fare { to, counts, errors, notes, later, .. } = (self.fare)();
        let why = match &errors[..] {
            [] => String::new(),
            errors => format!(" ({})", errors.join("; ")),
        };
        for note in notes {
            say::message(format_args!("ringside: {to}: {note}"));
        }
        if counts.spooled.records > 0 {
            let records = counted(counts.spooled.records, "record");
            say::message(format_args!("ringside: {to}: the spool keeps {records}{why}{later}"));
        }
        let lost = counts.lost().records;
        if lost > 0 {
            let records = counted(lost, "record");
            say::message(format_args!("ringside: {to}: {records} did not get there{why}"));
        }
        lost == 0
    }
}
