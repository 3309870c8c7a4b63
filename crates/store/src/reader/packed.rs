//! Files that other programs have packed, by their first bytes: they are not read, but named.

/// First bytes of a packed file, its format, and the program that unpacks it to standard output.
const FORMATS: [(&[u8], &str, &str); 6] = [
    (&[0x1f, 0x8b], "gzip", "zcat"),
    (&[0x28, 0xb5, 0x2f, 0xfd], "zstd", "zstdcat"),
    (&[0xfd, b'7', b'z', b'X'], "xz", "xzcat"),
    (b"BZh", "bzip2", "bzcat"),
    (&[0x04, 0x22, 0x4d, 0x18], "lz4", "lz4cat"),
    (b"PK\x03\x04", "zip", "unzip -p"),
];

/// The format of a file that begins with `first`, of at least 4 bytes, and the program that unpacks
/// it; nothing if it is not packed.
pub(super) fn format(first: &[u8]) -> Option<(&'static str, &'static str)> {
    let (_, format, program) = FORMATS.iter().find(|(magic, ..)| first.starts_with(magic))?;
    Some((format, program))
}
