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
use std::fmt::{self, Write};
use std::net::{IpAddr, Ipv4Addr};
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
    /// That there is memory for.
    rows: usize,
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
    /// None yet, with memory for `rows`: columns that grow are copied each time.
    pub fn new(has_data: bool, rows: usize) -> PacketColumns {
        let text = |bytes| StringBuilder::with_capacity(rows, rows * bytes);
        let time = TimestampNanosecondBuilder::with_capacity(rows).with_timezone("UTC");
        PacketColumns {
            schema: schema(has_data),
            rows,
            time,
            interface: text(0),
            wire_bytes: UInt32Builder::with_capacity(rows),
            captured_bytes: UInt32Builder::with_capacity(rows),
            vlan: UInt16Builder::with_capacity(rows),
            src: text(IPV4_TEXT_BYTES_MAX),
            dst: text(IPV4_TEXT_BYTES_MAX),
            protocol: UInt8Builder::with_capacity(rows),
            src_port: UInt16Builder::with_capacity(rows),
            dst_port: UInt16Builder::with_capacity(rows),
            tcp_flags: UInt16Builder::with_capacity(rows),
            payload_bytes: UInt32Builder::with_capacity(rows),
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
        put_address(&mut self.src, tuple.map(|tuple| tuple.source))?;
        put_address(&mut self.dst, tuple.map(|tuple| tuple.destination))?;
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
        let next = PacketColumns::new(self.data.is_some(), self.rows);
        let mut full = std::mem::replace(self, next);
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(full.time.finish()),
            Arc::new(full.interface.finish()),
            Arc::new(full.wire_bytes.finish()),
            Arc::new(full.captured_bytes.finish()),
            Arc::new(full.vlan.finish()),
            Arc::new(full.src.finish()),
            Arc::new(full.dst.finish()),
            Arc::new(full.protocol.finish()),
            Arc::new(full.src_port.finish()),
            Arc::new(full.dst_port.finish()),
            Arc::new(full.tcp_flags.finish()),
            Arc::new(full.payload_bytes.finish()),
        ];
        if let Some(mut data) = full.data {
            columns.push(Arc::new(data.finish()));
        }
        if full.len < full.rows {
            // Of a capture that runs many small batches may be kept.
            columns.iter_mut().filter_map(Arc::get_mut).for_each(|column| column.shrink_to_fit());
        }
        RecordBatch::try_new(full.schema, columns)
    }
}

/// Adds an address as text, without memory of its own.
fn put_address(cells: &mut StringBuilder, address: Option<IpAddr>) -> fmt::Result {
    match address {
        Some(IpAddr::V4(address)) => {
            let mut text = [0; IPV4_TEXT_BYTES_MAX];
            cells.append_value(ipv4_text(address, &mut text));
        }
        Some(IpAddr::V6(address)) => {
            write!(cells, "{address}")?;
            cells.append_value("");
        }
        None => cells.append_null(),
    }
    Ok(())
}

/// `255.255.255.255`.
const IPV4_TEXT_BYTES_MAX: usize = 15;

/// What `Display` writes, which takes an eighth of all time where each packet has two.
fn ipv4_text(address: Ipv4Addr, text: &mut [u8; IPV4_TEXT_BYTES_MAX]) -> &str {
    let mut len = 0;
    let mut put = |byte: u8| {
        text[len] = byte;
        len += 1;
    };
    for (number, octet) in address.octets().into_iter().enumerate() {
        if number > 0 {
            put(b'.');
        }
        if octet >= 100 {
            put(b'0' + octet / 100);
        }
        if octet >= 10 {
            put(b'0' + octet / 10 % 10);
        }
        put(b'0' + octet % 10);
    }
    // Digits and dots are always text.
    std::str::from_utf8(&text[..len]).unwrap_or_default()
}
