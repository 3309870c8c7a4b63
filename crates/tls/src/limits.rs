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

/// Connections over QUIC of which something is kept: their handshake is not over, or was a short
/// time ago. One more takes the place of one of the oldest; some 17 MB.
pub(crate) const QUIC_CONNECTIONS_MAX: usize = 1 << 16;
/// How long a connection over QUIC is kept after its last Initial packet. Clients give up after 10
/// to 30 seconds without an answer.
pub(crate) const QUIC_IDLE_NS: u64 = 30_000_000_000;
/// Packets of a datagram that are looked at. Hosts put at most a few into one.
pub(crate) const DATAGRAM_PACKETS_MAX: usize = 16;
/// Pieces apart from each other in which a message may come over QUIC. Browsers cut a hello into
/// some twenty on purpose.
pub(crate) const CRYPTO_PIECES_MAX: usize = 128;
