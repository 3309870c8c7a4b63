//! One packet after the other.

use crate::frames::Step;
use crate::interpreter;
use crate::reading::Reading;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use ringside_core::{Frame, LinkType, SourceInterface};
use ringside_inspect::DissectedFrame;
use ringside_wire::{FiveTuple, FlowKey, Level};
use std::collections::VecDeque;
use std::sync::Mutex;

/// A packet: its bytes, when and where it was received, and what its headers say.
///
/// Addresses and ports are those of the innermost IP header, as in records of flows; what a packet
/// does not have is None.
#[pyclass(frozen, module = "ringside")]
pub struct Packet {
    /// When it was received, nanoseconds since 1970, UTC.
    #[pyo3(get)]
    time_ns: u64,
    /// Bytes on the wire, of which some may not have been captured.
    #[pyo3(get)]
    wire_bytes: u32,
    /// Name of the interface; None where a file gives none.
    #[pyo3(get)]
    interface: Option<String>,
    link_type: LinkType,
    bytes: Vec<u8>,
}

impl Packet {
    fn of(frame: &Frame<'_>, interfaces: &[SourceInterface]) -> Packet {
        let interface = SourceInterface::of(&frame.meta, interfaces).ok();
        Packet {
            time_ns: frame.meta.timestamp.0,
            wire_bytes: frame.meta.wire_bytes,
            interface: interface.map(|one| one.name.clone()).filter(|name| !name.is_empty()),
            link_type: interface.map_or(LinkType::UNKNOWN, |one| one.link_type),
            bytes: frame.bytes.to_vec(),
        }
    }

    fn dissected(&self) -> DissectedFrame<'_> {
        DissectedFrame::new(&self.bytes, self.wire_bytes, self.link_type)
    }

    fn tuple(&self) -> Option<FiveTuple> {
        self.dissected().tuple(Level::Inner)
    }
}

#[pymethods]
impl Packet {
    /// The captured bytes, from the link layer's header on.
    #[getter]
    fn data<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.bytes)
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        self.data(py)
    }

    /// Captured bytes.
    fn __len__(&self) -> usize {
        self.bytes.len()
    }

    /// When it was received, as a datetime in UTC: to the microsecond, which is all that it has.
    #[getter]
    fn time<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let datetime = py.import("datetime")?;
        let utc = datetime.getattr("timezone")?.getattr("utc")?;
        let epoch = datetime.getattr("datetime")?.call1((1970, 1, 1, 0, 0, 0, 0, utc))?;
        let since = PyDict::new(py);
        since.set_item("microseconds", self.time_ns / 1_000)?;
        epoch.add(datetime.getattr("timedelta")?.call((), Some(&since))?)
    }

    /// Number of the link type, as capture files have it: 1 is Ethernet.
    #[getter]
    fn link_type(&self) -> u16 {
        self.link_type.0
    }

    /// Address of the sender, as text.
    #[getter]
    fn src(&self) -> Option<String> {
        self.tuple().map(|tuple| tuple.source.to_string())
    }

    /// Address of the receiver, as text.
    #[getter]
    fn dst(&self) -> Option<String> {
        self.tuple().map(|tuple| tuple.destination.to_string())
    }

    /// Number of the protocol above IP: 6 is TCP.
    #[getter]
    fn protocol(&self) -> Option<u8> {
        self.tuple().map(|tuple| tuple.protocol.0)
    }

    /// Port of the sender.
    #[getter]
    fn src_port(&self) -> Option<u16> {
        self.tuple()?.ports.map(|(port, _)| port.0)
    }

    /// Port of the receiver.
    #[getter]
    fn dst_port(&self) -> Option<u16> {
        self.tuple()?.ports.map(|(_, port)| port.0)
    }

    /// Id of the VLAN tag nearest to the IP header.
    #[getter]
    fn vlan(&self) -> Option<u16> {
        FlowKey::vlan_of(&self.bytes, self.dissected().layers(), Level::Inner)
    }

    /// Short names of the headers, outermost first: ["ethernet", "ipv4", "tcp"].
    #[getter]
    fn layers(&self) -> Vec<&'static str> {
        let frame = self.dissected();
        frame.layers().as_slice().iter().map(|layer| layer.kind.name()).collect()
    }

    /// What follows the transport header, as far as it was captured; None without one.
    #[getter]
    fn payload<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.dissected().payload(Level::Inner).map(|payload| PyBytes::new(py, payload))
    }

    fn __repr__(&self) -> String {
        let between = self.tuple().map(|tuple| {
            let (from, to) = tuple
                .ports
                .map_or_else(Default::default, |(from, to)| (format!(":{from}"), format!(":{to}")));
            let (source, destination) = (tuple.source, tuple.destination);
            format!(" {source}{from} > {destination}{to} protocol {}", tuple.protocol.0)
        });
        let between = between.unwrap_or_default();
        format!("<Packet {}{between}, {} bytes>", self.time_ns, self.wire_bytes)
    }
}

/// Packets one by one: what `for` loops over.
#[pyclass(frozen, module = "ringside")]
pub struct PacketIterator(Mutex<State>);

struct State {
    reading: Reading,
    /// Of the last step, which hands on a few hundred.
    waiting: VecDeque<Packet>,
    is_over: bool,
    /// Why it is, to be said once what came before was handed on.
    failure: Option<anyhow::Error>,
}

impl PacketIterator {
    /// Of a reading.
    pub fn new(reading: Reading) -> PacketIterator {
        let waiting = VecDeque::new();
        PacketIterator(Mutex::new(State { reading, waiting, is_over: false, failure: None }))
    }
}

impl State {
    /// The next packet, the end, or nothing yet.
    fn step(&mut self) -> anyhow::Result<Option<Option<Packet>>> {
        let State { reading, waiting, is_over, failure } = self;
        if waiting.is_empty() && !*is_over {
            let step = reading.show(&mut |frame, interfaces| {
                waiting.push_back(Packet::of(frame, interfaces));
            });
            *is_over = !matches!(step, Ok(Step::Some | Step::Idle));
            *failure = step.err();
        }
        if let Some(packet) = waiting.pop_front() {
            return Ok(Some(Some(packet)));
        }
        match failure.take() {
            Some(error) => Err(error),
            None => Ok(is_over.then_some(None)),
        }
    }
}

#[pymethods]
impl PacketIterator {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Packet>> {
        let packet = interpreter::run(py, &self.0, State::step)?;
        if packet.is_none() {
            let missing = interpreter::ask(py, &self.0, |state| state.reading.missing());
            interpreter::warn_all(py, &missing)?;
        }
        Ok(packet)
    }

    /// Where every packet is that was read so far, as `Packets.ledger` says it.
    fn ledger<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let ledger = interpreter::ask(py, &self.0, |state| state.reading.ledger());
        interpreter::to_python(py, &ledger)
    }
}
