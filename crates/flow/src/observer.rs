//! From a stream of frames to records in sinks.

use crate::packet::{application, plain};
use crate::sink::RecordSink;
use crate::{FlowTable, Packet, PacketReader, Record};
use ringside_core::Timestamp;
use ringside_inspect::{Ahead, DissectedFrame, InterfaceNames, Observer, Received};

/// Drives a table and sinks by every frame of a stream.
pub struct FlowObserver<'s> {
    reader: PacketReader,
    table: FlowTable,
    sinks: Vec<Box<dyn RecordSink + 's>>,
    /// Of the interfaces that frames came from, by their ids.
    interfaces: InterfaceNames,
    /// The latest stamp, which messages to collectors are dated with.
    now: Timestamp,
    /// Frames that were looked at ahead, and how many of them were seen.
    ahead: Vec<Option<(Packet, u32)>>,
    seen: usize,
}

impl<'s> FlowObserver<'s> {
    /// Records of `table` go to each of `sinks`.
    pub fn new(table: FlowTable, sinks: Vec<Box<dyn RecordSink + 's>>) -> FlowObserver<'s> {
        FlowObserver {
            reader: PacketReader::new(),
            table,
            sinks,
            interfaces: InterfaceNames::default(),
            now: Timestamp::default(),
            ahead: Vec::with_capacity(Ahead::FRAMES_MAX),
            seen: 0,
        }
    }

    /// The table, with its account.
    pub fn table(&self) -> &FlowTable {
        &self.table
    }

    /// The same, for other time-outs.
    pub(crate) fn table_mut(&mut self) -> &mut FlowTable {
        &mut self.table
    }

    /// The sinks, with theirs.
    pub fn sinks(&self) -> &[Box<dyn RecordSink + 's>] {
        &self.sinks
    }

    /// Names of the interfaces that frames came from, by their numbers.
    pub fn interfaces(&self) -> &[String] {
        self.interfaces.as_slice()
    }

    /// The time of the packets.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Names the interfaces, by their numbers in keys: for packets that no frame brings.
    pub fn set_interfaces(&mut self, names: Vec<String>) {
        self.interfaces = InterfaceNames::new(names);
    }

    /// Has `work` add packets that were added up elsewhere; what it gives out goes to the sinks.
    pub fn feed<T>(
        &mut self,
        now: Timestamp,
        work: impl FnOnce(&mut FlowTable, &mut dyn FnMut(Record)) -> T,
    ) -> T {
        self.now = now;
        let FlowObserver { table, sinks, interfaces, .. } = self;
        let done = work(table, &mut hand_out(sinks, interfaces, now));
        sinks.iter_mut().for_each(|sink| sink.tick(now));
        done
    }

    /// No record will come again.
    pub fn close(&mut self) {
        self.sinks.iter_mut().for_each(|sink| sink.finish(self.now));
    }
}

/// Hands a record to all sinks.
fn hand_out<'a>(
    sinks: &'a mut [Box<dyn RecordSink + '_>],
    interfaces: &'a InterfaceNames,
    now: Timestamp,
) -> impl FnMut(Record) + 'a {
    move |record| {
        let name = interfaces.of(record.interface);
        for sink in sinks.iter_mut() {
            sink.put(&record, name, now);
        }
    }
}

impl Observer for FlowObserver<'_> {
    #[inline]
    fn see(&mut self, frame: &DissectedFrame<'_>, received: &Received<'_>) {
        self.interfaces.learn(received);
        if received.meta.timestamp != Timestamp::default() {
            self.now = received.meta.timestamp;
        }
        let FlowObserver { reader, table, sinks, interfaces, now, ahead, seen } = self;
        let looked_at = ahead.get(*seen).and_then(Option::as_ref);
        *seen += 1;
        let mut out = hand_out(sinks, interfaces, *now);
        if let Some((packet, hash)) = looked_at {
            table.add_hashed(packet, *hash, &|| application(frame), &mut out);
            return;
        }
        match reader.read(frame, received) {
            Ok(packet) => table.add(&packet, &|| application(frame), &mut out),
            Err(cause) => table.ledger_mut().add_no_flow(cause, frame.wire_bytes()),
        }
    }

    fn look_ahead(&mut self, frames: &Ahead<'_>) {
        let FlowObserver { table, ahead, seen, .. } = self;
        ahead.clear();
        *seen = 0;
        frames.for_each(|frame, received| {
            let packet = plain(frame.bytes, received.meta, received.interface.link_type);
            ahead.push(packet.map(|packet| (packet, table.look_ahead(&packet))));
        });
        for (packet, hash) in ahead.iter().flatten() {
            table.fetch(packet, *hash);
        }
    }

    fn tick(&mut self, low_water: Timestamp) {
        self.now = low_water;
        let FlowObserver { reader, table, sinks, interfaces, now, .. } = self;
        table.advance(low_water, &mut hand_out(sinks, interfaces, *now));
        table.ledger_mut().fragments_without_ports = reader.fragments_without_ports();
        for sink in sinks {
            sink.tick(*now);
        }
    }

    fn finish(&mut self) {
        let FlowObserver { reader, table, sinks, interfaces, now, .. } = self;
        table.flush(&mut hand_out(sinks, interfaces, *now));
        table.ledger_mut().fragments_without_ports = reader.fragments_without_ports();
        self.close();
    }
}

#[cfg(test)]
mod tests;
