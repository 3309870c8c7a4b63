//! An eBPF object: the kernel runs its program on each packet, and its tables are its records.

use crate::abi::protocol_of;
use crate::host::Host;
use crate::ledger::{Fault, Faulted};
use crate::limits::{
    EDGE_RECORDS_MAX, FIELDS_MAX, MEMORY_BYTES_MAX, OBJECT_MAPS_MAX, OBJECT_PACKET_BYTES_MAX,
};
use crate::{ExtensionError, Fields, Found};
use ringside_ebpf::object::{Cell, ObjectError, ObjectLimits, Table, UserObject};
use ringside_inspect::{DissectedFrame, Received};
use ringside_logs::Sinks;
use serde_json::{Map, Value};
use std::sync::Arc;

const LIMITS: ObjectLimits = ObjectLimits {
    maps: OBJECT_MAPS_MAX,
    memory_bytes: MEMORY_BYTES_MAX as u64,
    rows: EDGE_RECORDS_MAX as u64,
    fields: FIELDS_MAX,
};

/// Bytes in front of a packet (`struct ringside_packet`); the kernel takes as many.
const HEAD_BYTES: usize = 32;
/// An offset of what is not there, and a protocol (`RINGSIDE_NONE`, `RINGSIDE_NO_PROTOCOL`).
const NONE: u16 = 0xffff;
const NO_PROTOCOL: u8 = 0xff;

/// The shortest frame that the kernel runs a program on; others have zeros behind.
const FRAME_BYTES_MIN: usize = 14;

/// What a program returns when it gives up (`XDP_ABORTED`).
const ABORTED: u32 = 0;

/// An object, ready for packets.
pub(crate) struct ObjectGuest {
    object: UserObject,
    host: Host,
    /// The last packet with what is in front of it.
    data: Vec<u8>,
}

impl ObjectGuest {
    /// Loads an object into the kernel.
    pub(crate) fn new(
        name: Arc<str>,
        elf: &[u8],
        sinks: Sinks<'static, Found>,
    ) -> Result<ObjectGuest, ExtensionError> {
        Ok(ObjectGuest { object: load(elf)?, host: Host::new(name, sinks), data: Vec::new() })
    }

    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    pub(crate) fn host_mut(&mut self) -> &mut Host {
        &mut self.host
    }

    /// Bytes of its maps.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.object.memory_bytes() as usize
    }

    /// Shows it a packet.
    pub(crate) fn see(
        &mut self,
        frame: &DissectedFrame<'_>,
        received: &Received<'_>,
    ) -> Result<(), Faulted> {
        let bytes = self.host.enter_packet(frame, received, OBJECT_PACKET_BYTES_MAX);
        self.data.clear();
        self.data.extend(head(&self.host, frame, received));
        self.data.extend(bytes);
        let least = HEAD_BYTES + FRAME_BYTES_MIN;
        self.data.resize(self.data.len().max(least), 0);
        match self.object.run(&self.data, HEAD_BYTES) {
            Ok(ABORTED) => {
                Err(Faulted { fault: Fault::Trapped, text: "it returned XDP_ABORTED".into() })
            }
            Ok(_) => Ok(()),
            Err(error) => Err(Faulted { fault: Fault::NotRun, text: error.to_string() }),
        }
    }

    /// There are no more packets: its tables become records.
    pub(crate) fn end(&mut self) -> Result<(), Faulted> {
        self.host.leave_packet(0);
        for table in self.object.tables() {
            let not_read =
                |error: ObjectError| Faulted { fault: Fault::NotRun, text: error.to_string() };
            for row in table.rows().map_err(not_read)? {
                self.host.ledger.emitted += 1;
                self.host.ledger.taken += 1;
                self.host.write(fields(table, row));
            }
        }
        Ok(())
    }
}

/// Loads an object into the kernel, with the limits of extensions.
pub(crate) fn load(elf: &[u8]) -> Result<UserObject, ObjectError> {
    UserObject::load(elf, &LIMITS)
}

/// What stands in front of a packet, in the machine's order of bytes.
fn head(host: &Host, frame: &DissectedFrame<'_>, received: &Received<'_>) -> Vec<u8> {
    let start = |offset: usize| u16::try_from(offset).unwrap_or(NONE);
    let network = host.innermost(|layer| layer.kind.is_network());
    let transport = host.innermost(|layer| layer.kind.is_transport());
    let protocol = transport.and_then(|layer| protocol_of(layer.kind));
    let payload = host.payload();
    let mut out = Vec::with_capacity(HEAD_BYTES);
    out.extend(host.time_ns.to_ne_bytes());
    out.extend((host.packet_bytes as u32).to_ne_bytes());
    out.extend(frame.wire_bytes().to_ne_bytes());
    out.extend(received.meta.interface.0.to_ne_bytes());
    out.extend(frame.link().0.to_ne_bytes());
    out.extend(network.map_or(NONE, |layer| start(layer.start())).to_ne_bytes());
    out.extend(transport.map_or(NONE, |layer| start(layer.start())).to_ne_bytes());
    out.extend(payload.as_ref().map_or(NONE, |payload| start(payload.start)).to_ne_bytes());
    out.extend(payload.map_or(0, |payload| start(payload.len())).to_ne_bytes());
    out.extend([protocol.unwrap_or(NO_PROTOCOL), 0]);
    out
}

/// A row as a record.
fn fields(table: &Table, row: Vec<Cell>) -> Fields {
    let mut fields = Map::new();
    fields.insert(Table::NAME.into(), table.name().into());
    for (name, cell) in table.columns().zip(row) {
        let value = match cell {
            Cell::Unsigned(number) => Value::from(number),
            Cell::Signed(number) => number.into(),
            Cell::Bool(flag) => flag.into(),
            Cell::Text(text) => text.into(),
        };
        fields.insert(name.into(), value);
    }
    Fields(fields)
}
