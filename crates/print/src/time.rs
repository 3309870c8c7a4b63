//! The time before each line.

use super::PrintState;
use ringside_core::Timestamp;
use std::fmt::Write;

/// How time is shown; all with nine digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeStyle {
    /// Local time of day.
    #[default]
    Clock,
    /// Not at all (-t).
    None,
    /// Seconds since the epoch (-tt).
    Epoch,
    /// Since the line before (-ttt).
    Delta,
    /// Local date and time (-tttt).
    Date,
    /// Since the first line (-ttttt).
    SinceFirst,
}

/// Appends the time and a blank.
pub(super) fn stamp(out: &mut String, at: Timestamp, style: TimeStyle, state: &mut PrintState) {
    let previous = state.previous.replace(at).unwrap_or(at);
    let first = *state.first.get_or_insert(at);
    // Writing to a string does not fail.
    let _ = match style {
        TimeStyle::None => Ok(()),
        TimeStyle::Epoch => write!(out, "{at} "),
        TimeStyle::Delta => write_span(out, previous, at),
        TimeStyle::SinceFirst => write_span(out, first, at),
        TimeStyle::Clock | TimeStyle::Date => match jiff::Timestamp::from_nanosecond(at.0.into()) {
            Ok(instant) => {
                let local = state.zone.to_datetime(instant);
                let nanos = at.subsec_nanos();
                if style == TimeStyle::Date {
                    let (year, month, day) = (local.year(), local.month(), local.day());
                    let _ = write!(out, "{year:04}-{month:02}-{day:02} ");
                }
                let (hour, minute, second) = (local.hour(), local.minute(), local.second());
                write!(out, "{hour:02}:{minute:02}:{second:02}.{nanos:09} ")
            }
            Err(_) => write!(out, "{at} "),
        },
    };
}

fn write_span(out: &mut String, from: Timestamp, to: Timestamp) -> std::fmt::Result {
    let sign = if to < from { "-" } else { " " };
    let span = Timestamp(to.0.abs_diff(from.0));
    let (seconds, nanos) = (span.seconds(), span.subsec_nanos());
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    write!(out, "{sign}{hours:02}:{minutes:02}:{:02}.{nanos:09} ", seconds % 60)
}
