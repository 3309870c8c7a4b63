//! Sizes and durations as people type them.

use ringside_core::Timestamp;
use std::time::Duration;

/// Longest duration: what is longer is a slip, and could not be added to a clock.
const DURATION_MAX: Duration = Duration::from_secs(100 * 366 * 24 * 3600);

/// A size in bytes: `65536`, `64KiB`, `100MB`.
pub fn bytes(text: &str) -> Result<u64, String> {
    parse_size::parse_size(text)
        .map_err(|error| format!("{error}; write bytes, or a unit, as 64MiB or 2GB"))
}

/// A file size in tcpdump's habit: a bare number counts millions of bytes.
pub fn file_bytes(text: &str) -> Result<u64, String> {
    let bytes = match text.parse::<u64>() {
        Ok(millions) => millions.checked_mul(1_000_000).ok_or("too large")?,
        Err(_) => bytes(text)?,
    };
    if bytes == 0 { Err("a file cannot have size 0".into()) } else { Ok(bytes) }
}

/// A duration: `90` (seconds), `1.5s`, `10m`, `1h 30m`, `30d` (of 24 hours).
pub fn duration(text: &str) -> Result<Duration, String> {
    let fix = "write seconds, or units, as 10s, 5m or 1h 30m";
    let seconds = text.parse::<f64>().ok();
    let duration = match seconds {
        Some(seconds) => Duration::try_from_secs_f64(seconds).map_err(|e| e.to_string()),
        None => text
            .parse::<jiff::Span>()
            .and_then(|span| span.to_duration(jiff::SpanRelativeTo::days_are_24_hours()))
            .map_err(|error| error.to_string())
            .and_then(|duration| Duration::try_from(duration).map_err(|e| e.to_string())),
    }
    .map_err(|error| format!("{error}; {fix}"))?;
    if duration.is_zero() || duration > DURATION_MAX {
        return Err(format!("must be longer than 0 and at most 100 years; {fix}"));
    }
    Ok(duration)
}

/// Shortest period of a rotation: a file is made each time, and synced.
const PERIOD_MIN: Duration = Duration::from_millis(100);

/// The period of a rotation.
pub fn period(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        short if short < PERIOD_MIN => Err("must be 0.1 s at least".into()),
        period => Ok(period),
    }
}

/// A moment: seconds since 1970 (`1700000000.25`), or a date with the time of day, in the local
/// zone unless it says another (`2026-03-01T12:00:00Z`, `2026-03-01 12:00:00.5`).
pub fn moment(text: &str) -> Result<Timestamp, String> {
    let fix = "write a date as 2026-03-01T12:00:00Z, or seconds since 1970";
    let instant = match epoch(text) {
        Some(stamp) => return Ok(stamp),
        None => text.parse::<jiff::Timestamp>().or_else(|_| {
            let local = text.parse::<jiff::civil::DateTime>()?;
            Ok(local.to_zoned(jiff::tz::TimeZone::system())?.timestamp())
        }),
    };
    let instant = instant.map_err(|error: jiff::Error| format!("{error}; {fix}"))?;
    let nanos = u64::try_from(instant.as_nanosecond());
    nanos.map(Timestamp).map_err(|_| format!("lies outside 1970 to 2554; {fix}"))
}

/// A moment of recorded time: by itself, or by how long before the newest packet it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// The point of time.
    At(Timestamp),
    /// This time before the newest packet of the input.
    BeforeNewest(Duration),
}

/// A [`moment`], or a [`duration`] before the newest packet: `-10m`.
///
/// # Errors
/// It is neither; the text says what is understood.
pub fn when(text: &str) -> Result<When, String> {
    match text.strip_prefix('-') {
        Some(ago) => duration(ago).map(When::BeforeNewest),
        None => moment(text)
            .map(When::At)
            .map_err(|error| format!("{error}, or -10m for 10 minutes before the newest packet")),
    }
}

/// Seconds since 1970 with up to nine digits behind the point.
fn epoch(text: &str) -> Option<Timestamp> {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(seconds) || !digits(fraction) || !(1..=9).contains(&fraction.len()) {
        return None;
    }
    let nanos = format!("{fraction:0<9}").parse().ok()?;
    Some(Timestamp::from_parts(seconds.parse().ok()?, nanos))
}

/// How many of what: `1 packet`, `1,000 packets`. For nouns whose plural ends in s.
pub fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", grouped(number))
}

/// A number with thousands separated, for people.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A number with a decimal prefix, for a live line: `1.42 M`.
pub fn scaled(number: f64) -> String {
    for (limit, divisor, prefix) in [(1e3, 1.0, ""), (1e6, 1e3, "k"), (1e9, 1e6, "M")] {
        if number < limit {
            return format!(
                "{:.prec$} {prefix}",
                number / divisor,
                prec = usize::from(divisor > 1.0) * 2
            );
        }
    }
    format!("{:.2} G", number / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(bytes("64KiB"), Ok(65_536));
        assert_eq!(bytes("100"), Ok(100));
        assert_eq!(file_bytes("2"), Ok(2_000_000));
        assert_eq!(file_bytes("2MiB"), Ok(2 << 20));
        assert!(file_bytes("0").is_err() && bytes("many").is_err());
    }

    #[test]
    fn durations() {
        assert_eq!(duration("90"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("10m"), Ok(Duration::from_secs(600)));
        assert_eq!(duration("1h 30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(duration("30d 12h"), Ok(Duration::from_secs((30 * 24 + 12) * 3600)));
        for wrong in ["0", "-3s", "soon", "-1", "1e400", "1e19", "1 month"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn moments() {
        let at = |seconds, nanos| Ok(Timestamp::from_parts(seconds, nanos));
        assert_eq!(moment("1700000000"), at(1_700_000_000, 0));
        assert_eq!(moment("1700000000.000000250"), at(1_700_000_000, 250));
        assert_eq!(moment("1700000000.25"), at(1_700_000_000, 250_000_000));
        assert_eq!(moment("2023-11-14T22:13:20Z"), at(1_700_000_000, 0));
        assert_eq!(moment("2023-11-14T23:13:20.5+01:00"), at(1_700_000_000, 500_000_000));
        assert!(moment("2023-11-14 22:13:20").is_ok());
        for wrong in ["", "-1", "noon", "1.", "1.0000000001", "1960-01-01T00:00:00Z", "1e9"] {
            assert!(moment(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn moments_before_the_newest_packet() {
        let at = |seconds| Ok(When::At(Timestamp::from_parts(seconds, 0)));
        assert_eq!(when("2023-11-14T22:13:20Z"), at(1_700_000_000));
        assert_eq!(when("1700000000"), at(1_700_000_000));
        assert_eq!(when("-10m"), Ok(When::BeforeNewest(Duration::from_secs(600))));
        assert_eq!(when("-1.5"), Ok(When::BeforeNewest(Duration::from_millis(1500))));
        for (wrong, fix) in [("noon", "2026-03-01T12:00:00Z"), ("10m", "-10m"), ("-", "5m")] {
            let error = when(wrong).unwrap_err();
            assert!(error.contains(fix), "{wrong}: {error}");
        }
    }

    #[test]
    fn periods() {
        assert_eq!(period("1"), Ok(Duration::from_secs(1)));
        assert!(period("20ms").is_err());
    }

    #[test]
    fn numbers_for_people() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(scaled(17.0), "17 ");
        assert_eq!(scaled(1_420_000.0), "1.42 M");
        assert_eq!(scaled(9_870_000_000.0), "9.87 G");
    }
}
