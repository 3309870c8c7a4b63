//! The protection of Initial packets, which anybody who sees the first of them can remove (RFC 9001
//! section 5, RFC 9369 section 3.3).

use aes_gcm::aes::Aes128;
use aes_gcm::aes::cipher::BlockCipherEncrypt;
use aes_gcm::{AeadInOut, Aes128Gcm, KeyInit};
use hkdf::Hkdf;
use ringside_proto::quic::{Initial, Version};
use sha2::Sha256;
use std::ops::Range;

/// Bytes of a key, and of what is encrypted at once.
const KEY_BYTES: usize = 16;
/// Bytes of a nonce.
const NONCE_BYTES: usize = 12;
/// Bytes behind what is encrypted, by which it is authentic.
const TAG_BYTES: usize = 16;
/// The longest number of a packet. Behind a number of this length, as if it were, lies the sample
/// by which the header is protected.
const NUMBER_BYTES_MAX: usize = 4;

const SALT_V1: [u8; 20] = [
    0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17, 0x9a, 0xe6, 0xa4, 0xc8, 0x0c, 0xad,
    0xcc, 0xbb, 0x7f, 0x0a,
];
const SALT_V2: [u8; 20] = [
    0x0d, 0xed, 0xe3, 0xde, 0xf7, 0x00, 0xa6, 0xdb, 0x81, 0x93, 0x81, 0xbe, 0x6e, 0x26, 0x9d, 0xcb,
    0xf9, 0xbd, 0x2e, 0xd9,
];
/// Of the drafts 29 to 32; later ones have that of version 1.
const SALT_DRAFT_29: [u8; 20] = [
    0xaf, 0xbf, 0xec, 0x28, 0x99, 0x93, 0xd2, 0x4c, 0x9e, 0x97, 0x86, 0xf1, 0x9c, 0x61, 0x11, 0xe0,
    0x43, 0x90, 0xa8, 0x99,
];
/// Of the drafts before.
const SALT_DRAFT_23: [u8; 20] = [
    0xc3, 0xee, 0xf7, 0x12, 0xc7, 0x2e, 0xbb, 0x5a, 0x11, 0xa7, 0xd2, 0x43, 0x2b, 0xb4, 0x63, 0x65,
    0xbe, 0xf9, 0xf5, 0x02,
];

/// Who sent a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Client,
    Server,
}

/// What protects the Initial packets of a connection, of each [`Role`] at its number.
#[derive(Clone, Debug)]
pub(crate) struct Keys([Secrets; 2]);

#[derive(Clone, Debug, Default)]
struct Secrets {
    key: [u8; KEY_BYTES],
    nonce: [u8; NONCE_BYTES],
    header_key: [u8; KEY_BYTES],
}

/// A packet without its protection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Opened {
    pub number: u64,
    /// Where its frames lie.
    pub payload: Range<usize>,
}

impl Keys {
    /// Of a connection whose client called the server `destination` first, in a version that is
    /// known.
    pub fn new(version: Version, destination: &[u8]) -> Keys {
        let salt = match (version, version.draft()) {
            (Version::V2, _) => SALT_V2,
            (_, Some(..29)) => SALT_DRAFT_23,
            (_, Some(..33)) => SALT_DRAFT_29,
            _ => SALT_V1,
        };
        let initial = Hkdf::<Sha256>::new(Some(&salt), destination);
        let labels = match version {
            Version::V2 => ["quicv2 key", "quicv2 iv", "quicv2 hp"],
            _ => ["quic key", "quic iv", "quic hp"],
        };
        Keys(["client in", "server in"].map(|side| {
            let mut secret = [0; 32];
            expand(&initial, side, &mut secret);
            let side = Hkdf::from_prk(&secret).expect("as long as the hash");
            let mut secrets = Secrets::default();
            expand(&side, labels[0], &mut secrets.key);
            expand(&side, labels[1], &mut secrets.nonce);
            expand(&side, labels[2], &mut secrets.header_key);
            secrets
        }))
    }

    /// Removes a packet's protection, in `scratch`. None if these are not its keys, or if it was
    /// damaged. `expected` is the number behind the highest that came from its sender.
    pub fn open(
        &self,
        sender: Role,
        packet: &Initial<'_>,
        expected: u64,
        scratch: &mut Vec<u8>,
    ) -> Option<Opened> {
        let secrets = &self.0[sender as usize];
        let sample = packet.bytes.get(packet.number_at + NUMBER_BYTES_MAX..)?.first_chunk()?;
        let mask = secrets.mask(sample);
        scratch.clear();
        scratch.extend(packet.bytes);
        scratch[0] ^= mask[0] & 0x0f;
        let number_bytes = usize::from(scratch[0] & 3) + 1;
        let header_bytes = packet.number_at + number_bytes;
        let mut cut = 0;
        for (byte, mask) in scratch[packet.number_at..header_bytes].iter_mut().zip(&mask[1..]) {
            *byte ^= mask;
            cut = cut << 8 | u64::from(*byte);
        }
        let number = whole_number(cut, number_bytes, expected);
        let (header, rest) = scratch.split_at_mut(header_bytes);
        let (payload, tag) = rest.split_last_chunk_mut::<TAG_BYTES>()?;
        let cipher = Aes128Gcm::new(&secrets.key.into());
        let nonce = secrets.nonce_of(number).into();
        let tag = (*tag).into();
        let payload_bytes = payload.len();
        cipher.decrypt_inout_detached(&nonce, header, payload.into(), &tag).ok()?;
        Some(Opened { number, payload: header_bytes..header_bytes + payload_bytes })
    }
}

impl Secrets {
    /// What the first byte of a header and the number in it are masked with.
    fn mask(&self, sample: &[u8; KEY_BYTES]) -> [u8; KEY_BYTES] {
        let mut block = (*sample).into();
        Aes128::new(&self.header_key.into()).encrypt_block(&mut block);
        block.into()
    }

    fn nonce_of(&self, number: u64) -> [u8; NONCE_BYTES] {
        let mut nonce = self.nonce;
        for (byte, part) in nonce.iter_mut().rev().zip(number.to_be_bytes().iter().rev()) {
            *byte ^= part;
        }
        nonce
    }
}

/// HKDF-Expand-Label without a context (RFC 8446 section 7.1).
fn expand(secret: &Hkdf<Sha256>, label: &str, out: &mut [u8]) {
    const PREFIX: &str = "tls13 ";
    let mut info = Vec::with_capacity(PREFIX.len() + label.len() + 4);
    info.extend((out.len() as u16).to_be_bytes());
    info.push((PREFIX.len() + label.len()) as u8);
    info.extend(PREFIX.bytes().chain(label.bytes()));
    info.push(0);
    secret.expand(&info, out).expect("no longer than 255 hashes");
}

/// The number whose last bytes are `cut`, and that is nearest to `expected` (RFC 9000 appendix
/// A.3).
fn whole_number(cut: u64, bytes: usize, expected: u64) -> u64 {
    const NUMBER_MAX: u64 = (1 << 62) - 1;
    let window = 1_u64 << (8 * bytes);
    let candidate = expected & !(window - 1) | cut;
    if candidate + window / 2 <= expected && candidate <= NUMBER_MAX - window {
        return candidate + window;
    }
    if candidate > expected + window / 2 && candidate >= window {
        return candidate - window;
    }
    candidate
}

#[cfg(test)]
pub(super) mod tests;
