//! Records of a batch by the hour that they are of.

use jiff::Timestamp;
use ringside_arrow::WrongRecord;
use ringside_core::time::NANOS_PER_SEC;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

const HOUR_NS: u64 = 3_600 * NANOS_PER_SEC;

/// Hours of a batch that have files of their own. A batch is a minute of records, and a flow may
/// have begun long before it ended; more than these are stamps that a sender made up, or files of
/// many days, which then lie in fewer folders.
pub(super) const HOURS_MAX: usize = 256;

/// An hour since 1970, UTC; `None` for records without a time. That is the first in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Hour(Option<u64>);

/// A record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'b> {
    /// When it is of.
    pub stamp_ns: Option<u64>,
    /// Its JSON.
    pub json: &'b [u8],
}

impl Hour {
    pub fn of(stamp_ns: Option<u64>) -> Hour {
        Hour(stamp_ns.map(|ns| ns / HOUR_NS))
    }

    /// The hour of a folder's name, as [`Display`] writes it.
    pub fn read(day: &str, hour: &str) -> Option<Hour> {
        let (date, number) = (day.strip_prefix("date=")?, hour.strip_prefix("hour=")?);
        let read = if date == UNKNOWN && number == UNKNOWN {
            Hour(None)
        } else {
            let instant: Timestamp = format!("{date}T{number}:00:00Z").parse().ok()?;
            Hour::of(Some(u64::try_from(instant.as_nanosecond()).ok()?))
        };
        (read.folders() == (day.to_owned(), hour.to_owned())).then_some(read)
    }

    /// The names of its folders, which engines read as columns.
    pub fn folders(self) -> (String, String) {
        let instant = self.0.map(|hour| Timestamp::from_nanosecond((hour * HOUR_NS).into()));
        match instant {
            Some(Ok(instant)) => (
                instant.strftime("date=%Y-%m-%d").to_string(),
                instant.strftime("hour=%H").to_string(),
            ),
            // Nanoseconds in 64 bits end long before the calendar.
            _ => (format!("date={UNKNOWN}"), format!("hour={UNKNOWN}")),
        }
    }
}

/// What Hive, and what reads folders as it does, takes for null.
const UNKNOWN: &str = "__HIVE_DEFAULT_PARTITION__";

/// Both folders, as a path.
impl Display for Hour {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (day, hour) = self.folders();
        write!(f, "{day}/{hour}")
    }
}

/// The records of a batch by hour, in each in the order of time. `key` is the field that says when
/// a record is of.
///
/// # Errors
/// A line is no object.
pub(super) fn by_hour<'b>(
    body: &'b [u8],
    key: Option<&str>,
) -> Result<BTreeMap<Hour, Vec<Line<'b>>>, WrongRecord> {
    let mut hours: BTreeMap<Hour, Vec<Line<'b>>> = BTreeMap::new();
    for json in body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let fields = fields(json)?;
        let stamp_ns = key.and_then(|key| fields.get(key)).and_then(Value::as_u64);
        let mut hour = Hour::of(stamp_ns);
        if hours.len() >= HOURS_MAX && !hours.contains_key(&hour) {
            hour = nearest(&hours, hour);
        }
        hours.entry(hour).or_default().push(Line { stamp_ns, json });
    }
    for lines in hours.values_mut() {
        lines.sort_by_key(|line| line.stamp_ns);
    }
    Ok(hours)
}

/// The hour before, or else the first: one that is there.
fn nearest<T>(hours: &BTreeMap<Hour, T>, hour: Hour) -> Hour {
    let before = hours.range(..hour).next_back();
    before.or(hours.first_key_value()).map_or(hour, |(found, _)| *found)
}

/// The fields of a record.
///
/// # Errors
/// It is no object.
pub(super) fn fields(json: &[u8]) -> Result<Map<String, Value>, WrongRecord> {
    serde_json::from_slice(json).map_err(|error| WrongRecord(format!("no record: {error}")))
}
