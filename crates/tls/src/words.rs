//! Names of versions.

use ringside_proto::quic::Version;
use std::borrow::Cow;

/// The name of a version, or its number.
pub(crate) fn version(number: u16) -> Cow<'static, str> {
    match number {
        0x0300 => "SSL 3.0".into(),
        0x0301 => "TLS 1.0".into(),
        0x0302 => "TLS 1.1".into(),
        0x0303 => "TLS 1.2".into(),
        0x0304 => "TLS 1.3".into(),
        0x7f00..=0x7fff => format!("TLS 1.3 draft {}", number & 0xff).into(),
        _ => format!("{number:#06x}").into(),
    }
}

/// The name of a version of QUIC.
pub(crate) fn quic_version(version: Version) -> Cow<'static, str> {
    match (version, version.draft()) {
        (Version::V1, _) => "1".into(),
        (Version::V2, _) => "2".into(),
        (_, Some(number)) => format!("draft-{number}").into(),
        _ => format!("{:#010x}", version.0).into(),
    }
}
