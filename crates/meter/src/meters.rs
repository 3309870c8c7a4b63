//! Meters of several interfaces, over one flow table.

use crate::{Ledger, Meter, MeterError};
use ringside_core::Timestamp;
use ringside_flow::{FlowTable, Record, Sums};
use ringside_sys::clock;

/// Meters whose flows are in one table. The number of each interface is its place here.
pub struct Meters {
    meters: Vec<Meter>,
    /// What records of each interface hold that were given out.
    exported: Vec<Sums>,
}

impl Meters {
    /// Of these, whose interfaces are numbered from 0.
    pub fn new(meters: Vec<Meter>) -> Meters {
        let exported = vec![Sums::default(); meters.len()];
        Meters { meters, exported }
    }

    /// Each.
    pub fn iter(&self) -> impl Iterator<Item = &Meter> {
        self.meters.iter()
    }

    /// The time in which records are made: now, in UTC.
    pub fn now() -> Timestamp {
        Timestamp(clock::tai_ns().saturating_sub(clock::tai_offset_ns()))
    }

    /// As [`Meter::poll`], for each.
    ///
    /// # Errors
    /// As there, for the first of which it is so.
    pub fn poll(
        &mut self,
        table: &mut FlowTable,
        out: &mut dyn FnMut(Record),
    ) -> Result<(), MeterError> {
        self.each(out, |meter, out| meter.poll(table, out))
    }

    /// As [`Meter::finish`], for each: all of them are off their interfaces when this returns.
    ///
    /// # Errors
    /// As there, for the first of which it is so.
    pub fn finish(
        &mut self,
        table: &mut FlowTable,
        out: &mut dyn FnMut(Record),
    ) -> Result<Vec<Ledger>, MeterError> {
        self.each(out, |meter, out| meter.finish(table, out).map(drop))?;
        Ok(self.meters.iter().map(Meter::ledger).collect())
    }

    /// The part of the fullest ring that was in use when it was read last.
    pub fn ring_fill(&self) -> f64 {
        self.meters.iter().map(|meter| meter.status().ring_fill).fold(0.0, f64::max)
    }

    /// Leaves word of what was given out, for a process that goes on for this one: to be called
    /// when it is out of this process' hands.
    pub fn note_exported(&self) {
        for (meter, exported) in self.meters.iter().zip(&self.exported) {
            meter.note_exported(*exported);
        }
    }

    /// Does `work` for each.
    fn each(
        &mut self,
        out: &mut dyn FnMut(Record),
        mut work: impl FnMut(&mut Meter, &mut dyn FnMut(Record)) -> Result<(), MeterError>,
    ) -> Result<(), MeterError> {
        let Meters { meters, exported } = self;
        let mut counting = |record: Record| {
            if let Some(exported) = exported.get_mut(record.interface.0 as usize) {
                *exported += Sums { packets: record.packets(), octets: record.octets() };
            }
            out(record);
        };
        let mut done = Ok(());
        for meter in meters {
            let one = work(meter, &mut counting);
            done = done.and(one);
        }
        done
    }
}
