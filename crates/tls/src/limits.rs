//! What handshakes may use in addition to their streams.

/// Bytes of a handshake message that is read. Chains of certificates have some 3 to 10 KiB.
pub(crate) const MESSAGE_BYTES_MAX: usize = 64 << 10;

/// Bytes of a record that is not encrypted (RFC 8446 section 5.1).
pub(crate) const RECORD_BYTES_MAX: usize = 1 << 14;

/// Memory of all messages that are not whole, and of all handshakes that are not over: some 100,000
/// of a usual size. What comes beyond that is counted, and not kept.
pub(crate) const KEPT_BYTES_MAX: usize = 64 << 20;

/// Bytes that are kept of a name, of a protocol's name, and of all of these of a hello.
pub(crate) const NAME_BYTES_MAX: usize = 255;
/// Protocols that are kept of those that a client offers; browsers offer two.
pub(crate) const PROTOCOLS_MAX: usize = 8;
/// Characters that are kept of a certificate's subject, and of its issuer.
pub(crate) const SUBJECT_CHARS_MAX: usize = 512;
