//! Which template a record is written by.

use super::Format;
use super::element::{Context, Element, Ways, ipfix, netflow9};
use super::message::Writer;
use crate::Record;
use ringside_core::Timestamp;

/// A template: its number, from 256, and its fields.
pub(super) struct Template {
    pub id: u16,
    pub fields: Vec<Element>,
    /// Octets of one record.
    pub bytes: usize,
}

/// Number of the template that says how packets were sampled.
pub(super) const OPTIONS_ID: u16 = 300;

const FIRST_ID: u16 = 256;

/// All templates of a format: IPv4, then IPv6; of biflows in the order of [`Ways`].
pub(super) fn all(format: Format) -> Vec<Template> {
    let fields: Vec<Vec<Element>> = match format {
        Format::Netflow5 => Vec::new(),
        Format::Netflow9 => [false, true].map(netflow9).into(),
        Format::IpfixUniflow => [false, true].map(|is_v6| ipfix(is_v6, false, Ways::Each)).into(),
        Format::Ipfix | Format::IpfixNanoseconds => [false, true]
            .into_iter()
            .flat_map(|is_v6| [Ways::Forward, Ways::Reversed, Ways::Both].map(|ways| (is_v6, ways)))
            .map(|(is_v6, ways)| ipfix(is_v6, format == Format::IpfixNanoseconds, ways))
            .collect(),
    };
    let template = |(id, fields): (u16, Vec<Element>)| {
        let bytes = fields.iter().map(|field| usize::from(field.bytes)).sum();
        Template { id, fields, bytes }
    };
    (FIRST_ID..).zip(fields).map(template).collect()
}

/// Writes a record: as one, or as one for each direction that had packets.
pub(super) fn put(
    writer: &mut Writer,
    record: &Record,
    now: Timestamp,
    out: &mut dyn FnMut(&[u8]),
) {
    let family = usize::from(record.source.is_ipv6());
    let has = (record.forward.packets > 0, record.reverse.packets > 0);
    let begun_ns = writer.begun_ns();
    if writer.format().has_uniflows() {
        // Both in one message: it is delivered or lost as a whole.
        writer.make_room(family, 2, now, out);
        if has.0 {
            writer.put(family, &Context { record, begun_ns }, now, out);
        }
        if has.1 {
            let record = &record.reversed();
            writer.put(family, &Context { record, begun_ns }, now, out);
        }
        return;
    }
    match has {
        (true, false) => writer.put(3 * family, &Context { record, begun_ns }, now, out),
        (false, _) => {
            let record = &record.reversed();
            writer.put(3 * family + 1, &Context { record, begun_ns }, now, out);
        }
        (true, true) => writer.put(3 * family + 2, &Context { record, begun_ns }, now, out),
    }
}
