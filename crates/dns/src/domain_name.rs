//! A domain name in its own memory.

use ringside_proto::Stop;
use ringside_proto::dns::Labels;
use std::fmt;

/// A name as it was sent, without pointers: each label after its length.
#[derive(Clone, Debug, Default)]
pub struct DomainName(Box<[u8]>);

impl DomainName {
    /// Of the labels of a message.
    pub(crate) fn read(labels: Labels<'_>) -> Result<DomainName, Stop> {
        let mut wire = Vec::new();
        for label in labels {
            let label = label?;
            wire.push(label.len() as u8);
            wire.extend(label);
        }
        Ok(DomainName(wire.into()))
    }
}

/// Names are the same whatever the case of their letters (RFC 4343); a length is no letter.
impl PartialEq for DomainName {
    fn eq(&self, other: &DomainName) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

impl Eq for DomainName {}

/// Without the last dot; the root is `.`. Bytes that are no printing ASCII stand as `\DDD`, and
/// dots and backslashes of a label behind a backslash (RFC 1035 section 5.1).
impl fmt::Display for DomainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = &*self.0;
        if rest.is_empty() {
            return f.write_str(".");
        }
        let mut is_first = true;
        while let [bytes, after @ ..] = rest {
            let (label, after) = after.split_at(usize::from(*bytes).min(after.len()));
            if !std::mem::take(&mut is_first) {
                f.write_str(".")?;
            }
            for &byte in label {
                escape(f, byte, b".\\")?;
            }
            rest = after;
        }
        Ok(())
    }
}

/// One byte of a text: `special` ones behind a backslash, and what is no printing ASCII as `\DDD`.
pub(crate) fn escape(out: &mut impl fmt::Write, byte: u8, special: &[u8]) -> fmt::Result {
    match byte {
        byte if special.contains(&byte) => write!(out, "\\{}", byte as char),
        b' '..=b'~' => out.write_char(byte as char),
        _ => write!(out, "\\{byte:03}"),
    }
}
