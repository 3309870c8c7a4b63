//! Records that are delivered together, and the file that they are until then:
//! `docs/formats/outlet-spool.md`.

use ringside_flow::{RecordSums, Sums};
use ringside_wire::crc32c::Crc32c;
use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};

const MAGIC: &[u8; 8] = b"RINGOUT1";

/// Before the records: magic, run, sequence, what is held, length and checksum of the records, and
/// a checksum of all that.
pub(crate) const HEAD_BYTES: usize = 68;

/// What the head's checksum covers.
const HEAD_CHECKED: usize = HEAD_BYTES - 4;

/// Longest batch, in bytes of its records: what a start believes of a file. Those that are made are
/// far shorter.
pub(crate) const BODY_BYTES_MAX: u64 = 64 << 20;

/// Records, as their engine takes them.
#[derive(Clone, PartialEq, Eq)]
pub struct Batch {
    /// The run that they come from: a random number.
    pub run: u128,
    /// Number among the batches of that run.
    pub sequence: u64,
    /// What is in it.
    pub held: RecordSums,
    /// The records one behind the other.
    pub body: Vec<u8>,
}

/// What stands above the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub run: u128,
    pub sequence: u64,
    pub held: RecordSums,
    body_bytes: u32,
    body_checksum: u32,
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "batch {} of {} records", self.token(), self.held.records)
    }
}

impl Batch {
    /// The same for each try to deliver it, and for no other batch: a server that knows it has
    /// these records already.
    pub fn token(&self) -> String {
        format!("{:032x}-{}", self.run, self.sequence)
    }

    pub(crate) fn to_file(&self) -> Vec<u8> {
        let Sums { packets, octets } = self.held.held;
        let mut file = Vec::with_capacity(HEAD_BYTES + self.body.len());
        file.extend(MAGIC);
        file.extend(self.run.to_le_bytes());
        for number in [self.sequence, self.held.records, packets, octets] {
            file.extend(number.to_le_bytes());
        }
        file.extend((self.body.len() as u32).to_le_bytes());
        file.extend(Crc32c::new().bytes(&self.body).finish().to_le_bytes());
        let checksum = Crc32c::new().bytes(&file).finish();
        file.extend(checksum.to_le_bytes());
        file.extend(&self.body);
        file
    }

    /// `None` unless it is whole.
    pub(crate) fn from_file(file: &[u8]) -> Option<Batch> {
        let head = Head::of_file(file, file.len() as u64)?;
        let body = &file[HEAD_BYTES..];
        let is_whole = Crc32c::new().bytes(body).finish() == head.body_checksum;
        let Head { run, sequence, held, .. } = head;
        is_whole.then(|| Batch { run, sequence, held, body: body.to_vec() })
    }
}

impl Head {
    /// Of a file of `length` bytes that begins so; `None` if it is no batch's.
    pub fn of_file(begin: &[u8], length: u64) -> Option<Head> {
        let head: &[u8; HEAD_BYTES] = begin.first_chunk()?;
        let (checked, checksum) = head.split_at(HEAD_CHECKED);
        let checksum = u32::from_le_bytes(checksum.try_into().ok()?);
        if !head.starts_with(MAGIC) || Crc32c::new().bytes(checked).finish() != checksum {
            return None;
        }
        let u64_at = |at: usize| checked[at..].first_chunk().copied().map(u64::from_le_bytes);
        let u32_at = |at: usize| checked[at..].first_chunk().copied().map(u32::from_le_bytes);
        let held = Sums { packets: u64_at(40)?, octets: u64_at(48)? };
        let held = RecordSums { records: u64_at(32)?, held };
        let body_bytes = u32_at(56)?;
        // A record has a byte at least, so that sums of crafted files stay small.
        let is_whole = u64::from(body_bytes) <= BODY_BYTES_MAX
            && held.records <= u64::from(body_bytes)
            && length == HEAD_BYTES as u64 + u64::from(body_bytes);
        is_whole.then_some(Head {
            run: u128::from_le_bytes(*checked[8..].first_chunk()?),
            sequence: u64_at(24)?,
            held,
            body_bytes,
            body_checksum: u32_at(60)?,
        })
    }
}

/// A number that no other run has: of the standard library's random seeds.
pub(crate) fn random_run() -> u128 {
    let half = |salt: u8| {
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_u8(salt);
        hasher.write_u32(std::process::id());
        u128::from(hasher.finish())
    };
    half(0) << 64 | half(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_written_and_read_back_and_each_cut_is_seen() {
        let held = RecordSums { records: 3, held: Sums { packets: 7, octets: 900 } };
        let batch = Batch { run: 1 << 100 | 9, sequence: 12, held, body: b"{}\n{}\n{}\n".to_vec() };
        let file = batch.to_file();
        assert_eq!(Batch::from_file(&file).as_ref(), Some(&batch));
        assert_eq!(batch.token(), "00000010000000000000000000000009-12");
        for length in 0..file.len() {
            assert_eq!(Batch::from_file(&file[..length]), None, "{length}");
        }
        for at in 0..file.len() {
            let mut other = file.clone();
            other[at] ^= 0x10;
            assert_eq!(Batch::from_file(&other), None, "{at}");
        }
    }

    #[test]
    fn runs_have_numbers_of_their_own() {
        assert_ne!(random_run(), random_run());
    }
}
