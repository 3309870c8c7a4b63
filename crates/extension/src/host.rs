//! What an extension works on: the packet, its records and counters.

use crate::ledger::{ExtensionLedger, Refusal};
use crate::limits::{
    COUNTER_NAME_BYTES_MAX, COUNTERS_MAX, MEMORY_BYTES_MAX, PACKET_RECORDS_MAX, TABLE_ENTRIES_MAX,
};
use crate::{Fields, Found};
use ringside_core::InterfaceId;
use ringside_inspect::{DissectedFrame, Received};
use ringside_logs::Sinks;
use ringside_wire::{Layer, Layers, Level};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use wasmi::{Caller, Error, StoreLimits, StoreLimitsBuilder, TrapCode};

/// Fuel of a call of the host, whatever it does: what that costs in time.
const CALL_FUEL: u64 = 20;

/// An interface that no packet came from.
const NO_INTERFACE: InterfaceId = InterfaceId(u32::MAX);

/// What an extension works on.
pub(crate) struct Host {
    pub(crate) name: Arc<str>,
    /// Of a module.
    pub(crate) limits: StoreLimits,
    pub(crate) sinks: Sinks<'static, Found>,
    pub(crate) ledger: ExtensionLedger,
    pub(crate) counters: BTreeMap<String, u64>,
    /// Of the packet that it is shown.
    pub(crate) layers: Option<Layers>,
    /// How much of the packet it has.
    pub(crate) packet_bytes: usize,
    /// The packet's stamp, or that of the last.
    pub(crate) time_ns: u64,
    pub(crate) interface: InterfaceId,
    /// Records that it may still make with this packet.
    pub(crate) records_left: u32,
}

impl Host {
    pub(crate) fn new(name: Arc<str>, sinks: Sinks<'static, Found>) -> Host {
        let limits = StoreLimitsBuilder::new()
            .memory_size(MEMORY_BYTES_MAX)
            .table_elements(TABLE_ENTRIES_MAX)
            .memories(1)
            .tables(1)
            .instances(1)
            .build();
        Host {
            name,
            limits,
            sinks,
            ledger: ExtensionLedger::default(),
            counters: BTreeMap::new(),
            layers: None,
            packet_bytes: 0,
            time_ns: 0,
            interface: NO_INTERFACE,
            records_left: 0,
        }
    }

    /// It is shown a packet, of which it gets at most `bytes_max`: these.
    pub(crate) fn enter_packet<'f>(
        &mut self,
        frame: &DissectedFrame<'f>,
        received: &Received<'_>,
        bytes_max: usize,
    ) -> &'f [u8] {
        let bytes = frame.bytes();
        let bytes = bytes.get(..bytes_max).unwrap_or(bytes);
        self.layers = Some(*frame.layers());
        self.packet_bytes = bytes.len();
        self.time_ns = received.meta.timestamp.0;
        self.interface = received.meta.interface;
        self.records_left = PACKET_RECORDS_MAX;
        bytes
    }

    /// There is no packet: the start, and the end.
    pub(crate) fn leave_packet(&mut self, records: u32) {
        (self.layers, self.packet_bytes) = (None, 0);
        (self.interface, self.records_left) = (NO_INTERFACE, records);
    }

    /// The innermost header of the packet that is this, if it is there with its options.
    pub(crate) fn innermost(&self, is_it: impl Fn(&Layer) -> bool) -> Option<Layer> {
        let layer = self.layers.as_ref()?.iter().rev().find(is_it)?;
        (layer.end() <= self.packet_bytes).then_some(layer)
    }

    /// Where what the innermost transport header carries lies in the packet, without padding.
    pub(crate) fn payload(&self) -> Option<Range<usize>> {
        let payload = self.layers?.transport_payload(Level::Inner)?;
        let end = payload.end.min(self.packet_bytes);
        (payload.start <= end).then_some(payload.start..end)
    }

    /// A record goes to the logs, if it is one.
    pub(crate) fn take_record(&mut self, text: &[u8]) -> Result<(), Refusal> {
        self.records_left = self.records_left.checked_sub(1).ok_or(Refusal::TooMany)?;
        let fields: Fields = serde_json::from_slice(text).map_err(|_| Refusal::NoRecord)?;
        self.write(fields);
        Ok(())
    }

    /// Fields go to the logs as a record.
    pub(crate) fn write(&mut self, fields: Fields) {
        let (time_ns, interface) = (self.time_ns, self.interface);
        self.sinks.put(&Found { extension: self.name.clone(), time_ns, interface, fields });
    }

    /// Adds to a counter, if that is the name of one.
    pub(crate) fn add(&mut self, name: &[u8], number: u64) -> Option<()> {
        let is_named = !name.is_empty()
            && name.len() <= COUNTER_NAME_BYTES_MAX
            && name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(byte));
        let name = std::str::from_utf8(name).ok().filter(|_| is_named)?;
        if let Some(counter) = self.counters.get_mut(name) {
            *counter = counter.saturating_add(number);
            return Some(());
        }
        (self.counters.len() < COUNTERS_MAX).then(|| {
            self.counters.insert(name.to_owned(), number);
        })
    }
}

/// Takes fuel for a call of the host that looks at something.
pub(crate) fn charge(caller: &mut Caller<'_, Host>, fuel: u64) -> Result<(), Error> {
    let left = caller.get_fuel()?.checked_sub(CALL_FUEL + fuel);
    caller.set_fuel(left.unwrap_or(0))?;
    left.map(|_| ()).ok_or_else(|| TrapCode::OutOfFuel.into())
}
