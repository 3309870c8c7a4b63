//! Sizes and durations as people type them.

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
    let mend = "write seconds, or units, as 10s, 5m or 1h 30m";
    let seconds = text.parse::<f64>().ok();
    let duration = match seconds {
        Some(seconds) => Duration::try_from_secs_f64(seconds).map_err(|e| e.to_string()),
        None => text
            .parse::<jiff::Span>()
            .and_then(|span| span.to_duration(jiff::SpanRelativeTo::days_are_24_hours()))
            .map_err(|error| error.to_string())
            .and_then(|duration| Duration::try_from(duration).map_err(|e| e.to_string())),
    }
    .map_err(|error| format!("{error}; {mend}"))?;
    if duration.is_zero() || duration > DURATION_MAX {
        return Err(format!("must be longer than 0 and at most 100 years; {mend}"));
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
