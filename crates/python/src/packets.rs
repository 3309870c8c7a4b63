//! Which packets are meant.

use crate::batches::{Batches, Rows};
use crate::error;
use crate::filter_child;
use crate::frames::{Frames, Live, Step, Stored};
use crate::interpreter;
use crate::moment;
use crate::packet::PacketIterator;
use crate::reading::{Limit, Reading};
use crate::records::Kind;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use ringside_core::{Frame, SourceInterface};
use ringside_search::{Copier, Output, Programs, Search, Span};
use ringside_store::Format;
use ringside_terminal::units::When;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Where packets come from.
#[derive(Clone, Debug)]
enum Origin {
    /// Files and directories, and of what time.
    Stored(Vec<PathBuf>, Span),
    /// The socket of a capture, and from how long ago on.
    Live(PathBuf, Option<Duration>),
}

/// Packets of recordings or of a running capture, and which of them. It is never changed: `filter`,
/// `between`, `last` and `limit` give another one, and nothing is read before something asks for
/// packets.
#[pyclass(frozen, module = "ringside")]
#[derive(Clone, Debug)]
pub struct Packets {
    origin: Origin,
    filter: String,
    limit: Limit,
}

/// Packets of files (pcap or pcapng, also compressed), and of directories of recordings; of several
/// they are merged by time.
///
/// # Errors
/// No file was named, or one is not there.
#[pyfunction]
#[pyo3(signature = (*paths))]
pub fn open(paths: Vec<PathBuf>) -> PyResult<Packets> {
    if paths.is_empty() {
        return Err(PyValueError::new_err("open needs a file or a directory"));
    }
    for path in &paths {
        let there = std::fs::metadata(path).map_err(anyhow::Error::from);
        let named = there.map_err(|error| error.context(format!("{}", path.display())));
        named.map_err(|error| error::to_python(&error))?;
    }
    let origin = Origin::Stored(paths, Span::default());
    Ok(Packets { origin, filter: String::new(), limit: Limit::default() })
}

/// Packets of a capture that runs with `--share SOCKET`, from now on; `last` reaches back. They are
/// read until the capture ends, unless `limit` ends it before. A reader that is too slow loses
/// packets, which are counted; the capture never waits.
#[pyfunction]
pub fn attach(socket: PathBuf) -> Packets {
    let origin = Origin::Live(socket, None);
    Packets { origin, filter: String::new(), limit: Limit::default() }
}

impl Packets {
    /// Begins to read.
    ///
    /// # Errors
    /// What was asked for cannot be opened.
    pub fn read(&self, py: Python<'_>) -> PyResult<Reading> {
        let programs = Programs::new(&self.filter, filter_child::compiler(py)?);
        let origin = self.origin.clone();
        let open = move || -> anyhow::Result<Box<dyn Frames>> {
            match origin {
                Origin::Stored(inputs, span) => {
                    Ok(Box::new(Stored::open(&Search { inputs, span, programs })?))
                }
                Origin::Live(socket, ago) => Ok(Box::new(Live::open(&socket, ago, &programs)?)),
            }
        };
        let opened = py.detach(open);
        let frames = opened.map_err(|error| error::to_python(&error))?;
        Ok(Reading::new(frames, self.limit))
    }

    fn columns(&self, rows: Rows) -> Batches {
        let packets = self.clone();
        Batches::new(Box::new(move |py| packets.read(py)), rows)
    }

    fn records(&self, kind: Kind) -> Batches {
        self.columns(Rows::Records(kind))
    }
}

/// Reads all of a reading, and hands each packet to `each`; the reading at its end.
fn drain(
    py: Python<'_>,
    reading: Reading,
    each: &mut (dyn FnMut(&Frame<'_>, &[SourceInterface]) -> anyhow::Result<()> + Send),
) -> PyResult<Reading> {
    let reading = Mutex::new(reading);
    interpreter::run(py, &reading, |reading| {
        let mut failed = None;
        let step = reading.show(&mut |frame, interfaces| {
            if failed.is_none() {
                failed = each(frame, interfaces).err();
            }
        })?;
        match failed {
            Some(error) => Err(error),
            None => Ok((step == Step::End).then_some(())),
        }
    })?;
    let reading = reading.into_inner().unwrap_or_else(PoisonError::into_inner);
    interpreter::warn_all(py, &reading.missing())?;
    Ok(reading)
}

/// The later of two beginnings.
fn later(one: Option<When>, other: Option<When>) -> PyResult<Option<When>> {
    Ok(match (one, other) {
        (Some(When::At(one)), Some(When::At(other))) => Some(When::At(one.max(other))),
        (Some(When::BeforeNewest(one)), Some(When::BeforeNewest(other))) => {
            Some(When::BeforeNewest(one.min(other)))
        }
        (Some(_), Some(_)) => return Err(PyValueError::new_err(MIXED)),
        (one, other) => one.or(other),
    })
}

/// The earlier of two ends.
fn earlier(one: Option<When>, other: Option<When>) -> PyResult<Option<When>> {
    Ok(match (one, other) {
        (Some(When::At(one)), Some(When::At(other))) => Some(When::At(one.min(other))),
        (Some(When::BeforeNewest(one)), Some(When::BeforeNewest(other))) => {
            Some(When::BeforeNewest(one.max(other)))
        }
        (Some(_), Some(_)) => return Err(PyValueError::new_err(MIXED)),
        (one, other) => one.or(other),
    })
}

const MIXED: &str = "a moment and a span before the newest packet are not compared before it is \
    known: give both sides at once";

/// True if each parenthesis is closed, in order: only then two expressions are one.
fn is_closed(expression: &str) -> bool {
    let mut open = 0_usize;
    let closes = expression.chars().all(|c| match c {
        '(' => {
            open += 1;
            true
        }
        ')' => open.checked_sub(1).map(|left| open = left).is_some(),
        _ => true,
    });
    closes && open == 0
}

#[pymethods]
impl Packets {
    /// Those that also match a pcap-filter(7) expression. Several are one expression, in their
    /// order: what `vlan` and `mpls` say of those behind them holds here too.
    fn filter(&self, expression: &str) -> PyResult<Packets> {
        let expression = expression.trim();
        if !is_closed(expression) {
            let text = format!("filter '{expression}': a parenthesis is not closed, or not open");
            return Err(PyValueError::new_err(text));
        }
        let filter = match (self.filter.is_empty(), expression.is_empty()) {
            (_, true) => self.filter.clone(),
            (true, false) => expression.to_owned(),
            (false, false) => format!("({}) and ({expression})", self.filter),
        };
        Ok(Packets { filter, ..self.clone() })
    }

    /// Those from `begin` on and before `end`; None is without a bound. A moment is a datetime,
    /// seconds since 1970, or text: "2026-03-01T12:00:00Z", or "-10m" before the newest packet.
    #[pyo3(signature = (begin = None, end = None))]
    fn between(
        &self,
        begin: Option<Bound<'_, PyAny>>,
        end: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Packets> {
        let Origin::Stored(paths, span) = &self.origin else {
            let text = "a capture that runs is read from now on; last(\"30s\") begins before";
            return Err(PyValueError::new_err(text));
        };
        let from = later(span.from, begin.as_ref().map(moment::when).transpose()?)?;
        let to = earlier(span.to, end.as_ref().map(moment::when).transpose()?)?;
        let origin = Origin::Stored(paths.clone(), Span { from, to });
        Ok(Packets { origin, ..self.clone() })
    }

    /// The last of so long, up to the newest; of a running capture from so long ago on: "10m", a
    /// timedelta, or seconds.
    fn last(&self, span: &Bound<'_, PyAny>) -> PyResult<Packets> {
        let span = moment::duration(span)?;
        let origin = match &self.origin {
            Origin::Stored(paths, known) => {
                let from = later(known.from, Some(When::BeforeNewest(span)))?;
                Origin::Stored(paths.clone(), Span { from, to: known.to })
            }
            Origin::Live(socket, known) => {
                let ago = known.map_or(span, |known| known.min(span));
                Origin::Live(socket.clone(), Some(ago))
            }
        };
        Ok(Packets { origin, ..self.clone() })
    }

    /// At most this number of packets, within this time on the clock ("10s", a timedelta, or
    /// seconds): how the reading of a running capture ends.
    #[pyo3(signature = (packets = None, time = None))]
    fn limit(&self, packets: Option<u64>, time: Option<Bound<'_, PyAny>>) -> PyResult<Packets> {
        let time = time.as_ref().map(moment::duration).transpose()?;
        let time = time.into_iter().chain(self.limit.time).min();
        let packets = packets.unwrap_or(u64::MAX).min(self.limit.packets);
        Ok(Packets { limit: Limit { packets, time }, ..self.clone() })
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<PacketIterator> {
        Ok(PacketIterator::new(self.read(py)?))
    }

    /// Packets as columns: time, interface, lengths, addresses, ports; with `data` their bytes too.
    #[pyo3(signature = (data = false))]
    fn batches(&self, data: bool) -> Batches {
        self.columns(Rows::Packets { has_data: data })
    }

    /// Records of flows, as `ringside flows` makes them; one that goes on has a record for each
    /// time `active`.
    #[pyo3(signature = (active = None))]
    fn flows(&self, active: Option<Bound<'_, PyAny>>) -> PyResult<Batches> {
        let active = active.as_ref().map(moment::duration).transpose()?;
        let active = active.unwrap_or(ringside_flow::Limits::default().active);
        Ok(self.records(Kind::Flows(active)))
    }

    /// HTTP transactions, as `ringside http` finds them.
    fn http(&self) -> Batches {
        self.records(Kind::Http)
    }

    /// DNS transactions, as `ringside dns` finds them.
    fn dns(&self) -> Batches {
        self.records(Kind::Dns)
    }

    /// TLS handshakes, as `ringside tls` finds them.
    fn tls(&self) -> Batches {
        self.records(Kind::Tls)
    }

    /// SIP calls with the quality of their media, as `ringside calls` finds them.
    fn calls(&self) -> Batches {
        self.records(Kind::Calls)
    }

    /// Reads them, and says how many there are.
    fn count(&self, py: Python<'_>) -> PyResult<u64> {
        let mut count = 0;
        drain(py, self.read(py)?, &mut |_, _| {
            count += 1;
            Ok(())
        })?;
        Ok(count)
    }

    /// Reads them, and says where every packet is: matched, turned away by the filter, outside of
    /// the span, lost while it was recorded.
    fn ledger<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let ledger = drain(py, self.read(py)?, &mut |_, _| Ok(()))?.ledger();
        interpreter::to_python(py, &ledger)
    }

    /// Copies them to a file, as pcap or pcapng, compressed if its name ends in .gz or .zst; how
    /// many.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<u64> {
        let inputs = match &self.origin {
            Origin::Stored(inputs, _) => &inputs[..],
            Origin::Live(..) => &[],
        };
        // What is wrong with the packets is known before a file is made, or emptied.
        let reading = self.read(py)?;
        let format = Format::of_path(&path).unwrap_or(Format::Pcapng);
        let copier = Copier::to_file(&path, format, inputs);
        let mut copier = copier.map_err(|error| error::to_python(&error))?;
        let (mut count, mut known) = (0, 0);
        let read = drain(py, reading, &mut |frame, interfaces| {
            for interface in &interfaces[known..] {
                copier.add_interface(interface)?;
            }
            known = interfaces.len();
            count += 1;
            copier.put(frame)
        });
        let mut finish = |reading: Reading| {
            // Interfaces without a packet are part of the file too.
            let mut rest = reading.interfaces()[known..].iter();
            rest.try_for_each(|interface| copier.add_interface(interface))?;
            copier.finish()
        };
        match read {
            Ok(reading) => finish(reading).map_err(|error| error::to_python(&error))?,
            Err(error) => {
                // What was copied before is whole.
                let _ = copier.abandon();
                return Err(error);
            }
        }
        Ok(count)
    }

    fn __repr__(&self) -> String {
        let origin = match &self.origin {
            Origin::Stored(paths, _) => {
                paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
            }
            Origin::Live(socket, _) => format!("capture at {}", socket.display()),
        };
        let filter = if self.filter.is_empty() { "" } else { ", filter " };
        format!("<Packets of {origin}{filter}{}>", self.filter)
    }
}
