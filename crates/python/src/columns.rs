//! Packets as columns.

use arrow_array::builder::{
    BinaryBuilder, StringBuilder, TimestampNanosecondBuilder, UInt8Builder, UInt16Builder,
    UInt32Builder,
};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef, TimeUnit};
use ringside_core::{Frame, LinkType, SourceInterface};
use ringside_inspect::DissectedFrame;
use ringside_wire::{FlowKey, LayerKind, Level, Tcp};
use std::fmt::{self, Display, Write};
use std::sync::Arc;

/// Names and types, but for that of the bytes.
fn fields() -> Vec<Field> {
    let time = DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
    vec![
        Field::new("time", time, true),
        Field::new("interface", DataType::Utf8, true),
        Field::new("wire_bytes", DataType::UInt32, false),
        Field::new("captured_bytes", DataType::UInt32, false),
        Field::new("vlan", DataType::UInt16, true),
        Field::new("src", DataType::Utf8, true),
        Field::new("dst", DataType::Utf8, true),
        Field::new("protocol", DataType::UInt8, true),
        Field::new("src_port", DataType::UInt16, true),
        Field::new("dst_port", DataType::UInt16, true),
        Field::new("tcp_flags", DataType::UInt16, true),
        Field::new("payload_bytes", DataType::UInt32, true),
    ]
}

/// The columns; `data` is the last, if it is wanted.
pub fn schema(has_data: bool) -> SchemaRef {
    let data = has_data.then(|| Field::new("data", DataType::Binary, false));
    Arc::new(Schema::new(fields().into_iter().chain(data).collect::<Vec<_>>()))
}

/// Packets on their way into a batch.
pub struct PacketColumns {
    schema: SchemaRef,
    time: TimestampNanosecondBuilder,
    interface: StringBuilder,
    wire_bytes: UInt32Builder,
    captured_bytes: UInt32Builder,
    vlan: UInt16Builder,
    src: StringBuilder,
    dst: StringBuilder,
    protocol: UInt8Builder,
    src_port: UInt16Builder,
    dst_port: UInt16Builder,
    tcp_flags: UInt16Builder,
    payload_bytes: UInt32Builder,
    data: Option<BinaryBuilder>,
    len: usize,
}

impl PacketColumns {
    /// None yet.
    pub fn new(has_data: bool) -> PacketColumns {
        PacketColumns {
            schema: schema(has_data),
            time: TimestampNanosecondBuilder::new().with_timezone("UTC"),
            interface: StringBuilder::new(),
            wire_bytes: UInt32Builder::new(),
            captured_bytes: UInt32Builder::new(),
            vlan: UInt16Builder::new(),
            src: StringBuilder::new(),
            dst: StringBuilder::new(),
            protocol: UInt8Builder::new(),
            src_port: UInt16Builder::new(),
            dst_port: UInt16Builder::new(),
            tcp_flags: UInt16Builder::new(),
            payload_bytes: UInt32Builder::new(),
            data: has_data.then(BinaryBuilder::new),
            len: 0,
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Bytes of packets that wait.
    pub fn data_bytes(&self) -> usize {
        self.data.as_ref().map_or(0, |data| data.values_slice().len())
    }

    /// Adds a packet.
    ///
    /// # Errors
    /// None: writing into memory cannot fail.
    pub fn put(&mut self, frame: &Frame<'_>, interfaces: &[SourceInterface]) -> fmt::Result {
        let interface = SourceInterface::of(&frame.meta, interfaces).ok();
        let link_type = interface.map_or(LinkType::UNKNOWN, |one| one.link_type);
        let name = interface.map(|one| &*one.name).filter(|name| !name.is_empty());
        // A stamp beyond the year 2262, or none.
        let stamp = Some(frame.meta.timestamp.0).filter(|&ns| ns > 0);
        self.time.append_option(stamp.and_then(|ns| i64::try_from(ns).ok()));
        self.interface.append_option(name);
        self.wire_bytes.append_value(frame.meta.wire_bytes);
        self.captured_bytes.append_value(frame.bytes.len() as u32);
        if let Some(data) = &mut self.data {
            data.append_value(frame.bytes);
        }
        self.len += 1;
        self.put_headers(&DissectedFrame::new(frame.bytes, frame.meta.wire_bytes, link_type))
    }

    fn put_headers(&mut self, frame: &DissectedFrame<'_>) -> fmt::Result {
        let level = Level::Inner;
        let layers = frame.layers();
        self.vlan.append_option(FlowKey::vlan_of(frame.bytes(), layers, level));
        let tuple = frame.tuple(level);
        put_text(&mut self.src, tuple.map(|tuple| tuple.source))?;
        put_text(&mut self.dst, tuple.map(|tuple| tuple.destination))?;
        self.protocol.append_option(tuple.map(|tuple| tuple.protocol.0));
        let ports = tuple.and_then(|tuple| tuple.ports);
        self.src_port.append_option(ports.map(|(from, _)| from.0));
        self.dst_port.append_option(ports.map(|(_, to)| to.0));
        let segment = layers.transport(level).filter(|layer| layer.kind == LayerKind::Tcp);
        let segment = segment.and_then(|layer| Tcp::new(frame.from(layer)).ok());
        self.tcp_flags.append_option(segment.map(|segment| segment.flags()));
        let payload = frame.payload(level);
        self.payload_bytes.append_option(payload.map(|bytes| bytes.len() as u32));
        Ok(())
    }

    /// The batch, and no packets again.
    ///
    /// # Errors
    /// The columns differ in length, which is a mistake of ours.
    pub fn finish(&mut self) -> Result<RecordBatch, ArrowError> {
        self.len = 0;
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(self.time.finish()),
            Arc::new(self.interface.finish()),
            Arc::new(self.wire_bytes.finish()),
            Arc::new(self.captured_bytes.finish()),
            Arc::new(self.vlan.finish()),
            Arc::new(self.src.finish()),
            Arc::new(self.dst.finish()),
            Arc::new(self.protocol.finish()),
            Arc::new(self.src_port.finish()),
            Arc::new(self.dst_port.finish()),
            Arc::new(self.tcp_flags.finish()),
            Arc::new(self.payload_bytes.finish()),
        ];
        if let Some(data) = &mut self.data {
            columns.push(Arc::new(data.finish()));
        }
        RecordBatch::try_new(Arc::clone(&self.schema), columns)
    }
}

/// Adds a value as text, without memory of its own.
fn put_text(cells: &mut StringBuilder, value: Option<impl Display>) -> fmt::Result {
    match value {
        Some(value) => {
            write!(cells, "{value}")?;
            cells.append_value("");
        }
        None => cells.append_null(),
    }
    Ok(())
}
