//! Fingerprints of hellos: JA3 and JA3S (Salesforce), and JA4 (FoxIO, of which this part is under
//! the BSD licence: the client's alone).

use md5::Md5;
use ringside_proto::tls::{ClientHelloBody, Numbers, ServerHello};
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// Extension types.
pub(crate) const SERVER_NAME: u16 = 0;
const SUPPORTED_GROUPS: u16 = 10;
const POINT_FORMATS: u16 = 11;
const SIGNATURE_ALGORITHMS: u16 = 13;
pub(crate) const PROTOCOLS: u16 = 16;
pub(crate) const PRE_SHARED_KEY: u16 = 41;
pub(crate) const SUPPORTED_VERSIONS: u16 = 43;

/// Values without meaning that some clients send, so that servers do not refuse new ones
/// (RFC 8701).
pub fn is_grease(value: u16) -> bool {
    value & 0x0f0f == 0x0a0a && value >> 8 == value & 0xff
}

/// JA3 of a ClientHello: MD5 over version, cipher suites, extensions, groups and point formats.
pub fn ja3(hello: &ClientHelloBody<'_>) -> String {
    let ciphers = decimal(hello.cipher_suites);
    let extensions = decimal(hello.extensions.map(|(kind, _)| kind));
    let groups = Numbers::of_vector(extension(hello, SUPPORTED_GROUPS), 2);
    let formats = extension(hello, POINT_FORMATS).iter().skip(1).map(|byte| u16::from(*byte));
    let (groups, formats) = (decimal(groups), formats.map(|f| f.to_string()).collect::<Vec<_>>());
    let version = hello.legacy_version;
    md5_of(&format!("{version},{ciphers},{extensions},{groups},{}", formats.join("-")))
}

/// JA3S of a ServerHello: MD5 over version, cipher suite and extensions.
pub fn ja3s(hello: &ServerHello<'_>) -> String {
    let extensions: Vec<String> = hello.extensions.map(|(kind, _)| kind.to_string()).collect();
    let (version, cipher) = (hello.legacy_version, hello.cipher_suite);
    md5_of(&format!("{version},{cipher},{}", extensions.join("-")))
}

/// JA4 of a ClientHello: what carried it (`t` for TCP, `q` for QUIC), version, whether it names a
/// server, how many cipher suites and extensions, the first protocol; then the cipher suites in
/// order, hashed, and the extensions in order with the signature algorithms.
pub fn ja4(hello: &ClientHelloBody<'_>, carrier: char) -> String {
    let mut ciphers: Vec<u16> = hello.cipher_suites.filter(|value| !is_grease(*value)).collect();
    let kinds = hello.extensions.map(|(kind, _)| kind).filter(|kind| !is_grease(*kind));
    let mut kinds: Vec<u16> = kinds.collect();
    let has_name = kinds.contains(&SERVER_NAME);
    let head = format!(
        "{carrier}{}{}{:02}{:02}{}",
        version(hello),
        if has_name { 'd' } else { 'i' },
        ciphers.len().min(99),
        kinds.len().min(99),
        protocol(hello)
    );
    ciphers.sort_unstable();
    kinds.retain(|kind| !matches!(*kind, SERVER_NAME | PROTOCOLS));
    kinds.sort_unstable();
    let mut extensions = hexadecimal(&kinds);
    let algorithms = Numbers::of_vector(extension(hello, SIGNATURE_ALGORITHMS), 2);
    let algorithms: Vec<u16> = algorithms.filter(|value| !is_grease(*value)).collect();
    if !algorithms.is_empty() {
        let _ = write!(extensions, "_{}", hexadecimal(&algorithms));
    }
    format!("{head}_{}_{}", short_hash(&hexadecimal(&ciphers)), short_hash(&extensions))
}

/// The highest version that the client takes.
pub(crate) fn highest_version(hello: &ClientHelloBody<'_>) -> u16 {
    let versions = Numbers::of_vector(extension(hello, SUPPORTED_VERSIONS), 1);
    versions.filter(|value| !is_grease(*value)).max().unwrap_or(hello.legacy_version)
}

fn version(hello: &ClientHelloBody<'_>) -> &'static str {
    match highest_version(hello) {
        0x0304 => "13",
        0x0303 => "12",
        0x0302 => "11",
        0x0301 => "10",
        0x0300 => "s3",
        0x0002 => "s2",
        0xfeff => "d1",
        0xfefd => "d2",
        0xfefc => "d3",
        _ => "00",
    }
}

/// First and last character of the first protocol; of one whose ends are no letters or digits, the
/// first and the last of its hexadecimal digits.
fn protocol(hello: &ClientHelloBody<'_>) -> String {
    let Some(first) = protocols(extension(hello, PROTOCOLS)).next() else { return "00".into() };
    match first {
        [] => "00".into(),
        [one, .., other] | [one @ other]
            if [one, other].iter().all(|b| b.is_ascii_alphanumeric()) =>
        {
            format!("{}{}", *one as char, *other as char)
        }
        [one, ..] => {
            let other = first.last().unwrap_or(one);
            let (one, other) = (format!("{one:02x}"), format!("{other:02x}"));
            format!("{}{}", &one[..1], &other[1..])
        }
    }
}

/// The protocols of an extension (RFC 7301).
pub(crate) fn protocols(extension: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = ringside_proto::tls::vector(&mut { extension }, 2).unwrap_or_default();
    std::iter::from_fn(move || ringside_proto::tls::vector(&mut rest, 1).ok())
}

/// The first extension of a type; empty if there is none.
pub(crate) fn extension<'a>(hello: &ClientHelloBody<'a>, wanted: u16) -> &'a [u8] {
    let mut extensions = hello.extensions;
    extensions.find(|(kind, _)| *kind == wanted).map_or(&[], |(_, data)| data)
}

fn decimal(values: impl Iterator<Item = u16>) -> String {
    let known = values.filter(|value| !is_grease(*value));
    known.map(|value| value.to_string()).collect::<Vec<_>>().join("-")
}

fn hexadecimal(values: &[u16]) -> String {
    values.iter().map(|value| format!("{value:04x}")).collect::<Vec<_>>().join(",")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn md5_of(text: &str) -> String {
    hex(&Md5::digest(text.as_bytes()))
}

/// Twelve digits of SHA-256; zeros for nothing.
fn short_hash(text: &str) -> String {
    if text.is_empty() {
        return "000000000000".into();
    }
    hex(&Sha256::digest(text.as_bytes())[..6])
}

#[cfg(test)]
mod tests;
