//! Receive side scaling: how an interface spreads frames over its queues. By SIOCETHTOOL, because
//! netlink can set it from 6.17 on only (linux/ethtool.h, `struct ethtool_rxfh` and
//! `struct ethtool_rxnfc`; Documentation/networking/scaling.rst).

use ringside_sys::SysError;
use ringside_sys::ethtool::{
    COMMAND_WORDS, ETHTOOL_GRSSH, ETHTOOL_GRXFH, ETHTOOL_SRSSH, ETHTOOL_SRXFH, RXFH_WORDS,
    control_socket, exchange,
};
use std::io;

/// ETH_RXFH_INDIR_NO_CHANGE.
const TABLE_UNCHANGED: u32 = u32::MAX;
/// ETH_RSS_HASH_TOP: the Toeplitz function.
const TOEPLITZ: u8 = 1;
/// RXH_XFRM_SYM_XOR: addresses and ports are folded by exclusive or before they are hashed.
const SYMMETRIC_XOR: u8 = 1;
/// Entries of a table and bytes of a key: more than any known driver has (mlx5: 2,048 and 40).
const TABLE_MAX: usize = 1 << 16;
const KEY_BYTES_MAX: usize = 1 << 10;
/// With this repeated as its key, the Toeplitz function gives both directions of a flow one value
/// (Woo and Park, "Scalable TCP Session Monitoring with Symmetric Receive-side Scaling", 2012).
const SYMMETRIC_KEY: [u8; 2] = [0x6d, 0x5a];

/// RXH_IP_SRC, RXH_IP_DST, RXH_L4_B_0_1 (source port), RXH_L4_B_2_3 (destination port).
const SOURCE_BITS: u64 = 1 << 4 | 1 << 6;
const DESTINATION_BITS: u64 = 1 << 5 | 1 << 7;

/// Kinds of traffic whose fields can be chosen (TCP_V4_FLOW and so on), with their names.
pub const FLOW_TYPES: [(u32, &str); 6] = [
    (0x01, "TCP over IPv4"),
    (0x02, "UDP over IPv4"),
    (0x03, "SCTP over IPv4"),
    (0x05, "TCP over IPv6"),
    (0x06, "UDP over IPv6"),
    (0x07, "SCTP over IPv6"),
];

/// How frames are spread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rss {
    /// ETH_RSS_HASH_ bits of the function.
    pub function: u8,
    /// RXH_XFRM_ bits: what is done to the fields first.
    pub transform: u8,
    /// The key; empty if the driver has none to be seen.
    pub key: Vec<u8>,
    /// Queue by the hash's lowest bits; empty if there is no table.
    pub table: Vec<u32>,
}

/// What [`set_rss`] does with the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Table {
    /// It stays.
    Keep,
    /// The driver's own, over all queues: then a later change of their number is allowed.
    Default,
    /// This table: a queue for each entry.
    Set(Vec<u32>),
}

impl Rss {
    /// True if both directions of a flow get one value, as far as the fields are those of both.
    pub fn is_symmetric(&self) -> bool {
        self.transform & SYMMETRIC_XOR != 0
            || (self.function == TOEPLITZ
                && !self.key.is_empty()
                && self.key == symmetric_key(self.key.len()))
    }

    /// The same so that it is symmetric: by the key where there is one, else by the transformation,
    /// which few drivers have.
    pub fn symmetric(&self) -> Rss {
        let mut rss = self.clone();
        if self.function == TOEPLITZ && !self.key.is_empty() {
            rss.key = symmetric_key(self.key.len());
        } else {
            rss.transform = SYMMETRIC_XOR;
        }
        rss
    }

    /// The table as drivers make it: all of `queues` in turn.
    pub fn even_table(&self, queues: u32) -> Vec<u32> {
        (0..self.table.len() as u32).map(|entry| entry % queues.max(1)).collect()
    }
}

fn symmetric_key(bytes: usize) -> Vec<u8> {
    SYMMETRIC_KEY.iter().copied().cycle().take(bytes).collect()
}

/// How an interface spreads frames.
///
/// # Errors
/// There is no such interface, or its driver has one way only.
pub fn rss(name: &str) -> Result<Rss, SysError> {
    let socket = control_socket()?;
    let mut sizes = [0; RXFH_WORDS];
    sizes[0] = ETHTOOL_GRSSH;
    exchange(&socket, name, &mut sizes)?;
    let (entries, key_bytes) = (sizes[2] as usize, sizes[3] as usize);
    if entries > TABLE_MAX || key_bytes > KEY_BYTES_MAX {
        let limit = format!("{TABLE_MAX} entries and {KEY_BYTES_MAX} bytes of key");
        return Err(SysError::Limit { what: "the RSS table", value: entries as u64, limit });
    }
    let mut words = vec![0; RXFH_WORDS + entries + key_bytes.div_ceil(4)];
    words[..RXFH_WORDS].copy_from_slice(&[ETHTOOL_GRSSH, 0, sizes[2], sizes[3], 0, 0]);
    exchange(&socket, name, &mut words)?;
    Ok(read_rss(&words))
}

/// A `struct ethtool_rxfh` that the kernel has filled.
fn read_rss(words: &[u32]) -> Rss {
    let word = |index: usize| words.get(index).copied().unwrap_or(0);
    let rest = words.get(RXFH_WORDS..).unwrap_or_default();
    let (table, key) = rest.split_at((word(2) as usize).min(rest.len()));
    let [function, transform, ..] = word(4).to_ne_bytes();
    let key = key.iter().flat_map(|word| word.to_ne_bytes()).take(word(3) as usize).collect();
    Rss { function, transform, key, table: table.to_vec() }
}

/// Sets key and transformation as in `wanted`, and the table. An empty key and a function of 0 stay
/// as they are.
///
/// # Errors
/// The driver cannot do that, or CAP_NET_ADMIN is missing.
pub fn set_rss(name: &str, wanted: &Rss, table: &Table) -> Result<(), SysError> {
    let mut words = order(wanted, table);
    exchange(control_socket()?, name, &mut words)
}

fn order(wanted: &Rss, table: &Table) -> Vec<u32> {
    let (entries, table): (u32, &[u32]) = match table {
        Table::Keep => (TABLE_UNCHANGED, &[]),
        Table::Default => (0, &[]),
        Table::Set(table) => (table.len() as u32, table),
    };
    let by = u32::from_ne_bytes([wanted.function, wanted.transform, 0, 0]);
    let mut words = vec![ETHTOOL_SRSSH, 0, entries, wanted.key.len() as u32, by, 0];
    words.extend(table);
    words.extend(wanted.key.chunks(4).map(|chunk| {
        let mut bytes = [0; 4];
        bytes[..chunk.len()].copy_from_slice(chunk);
        u32::from_ne_bytes(bytes)
    }));
    words
}

/// Which fields of a frame are hashed (RXH_ bits).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowFields {
    /// One of [`FLOW_TYPES`].
    pub flow_type: u32,
    /// RXH_ bits.
    pub fields: u64,
}

impl FlowFields {
    /// The same so that what is hashed of the source is hashed of the destination too.
    pub fn of_both_directions(self) -> FlowFields {
        let source = self.fields & SOURCE_BITS | (self.fields & DESTINATION_BITS) >> 1;
        FlowFields { fields: self.fields | source | source << 1, ..self }
    }
}

/// The fields that are hashed of one kind of traffic.
///
/// # Errors
/// There is no such interface, or its driver does not say.
pub fn flow_fields(name: &str, flow_type: u32) -> Result<FlowFields, SysError> {
    let mut words = flow_words(ETHTOOL_GRXFH, FlowFields { flow_type, fields: 0 });
    exchange(control_socket()?, name, &mut words)?;
    Ok(FlowFields { flow_type, fields: u64::from(words[2]) | u64::from(words[3]) << 32 })
}

/// Chooses the fields that are hashed of one kind of traffic.
///
/// # Errors
/// The driver cannot do that, or CAP_NET_ADMIN is missing.
pub fn set_flow_fields(name: &str, wanted: FlowFields) -> Result<(), SysError> {
    if cfg!(target_endian = "big") {
        // The words of `data` are in the other order there; it was never tried.
        let context = format!("choosing the hashed fields of interface {name}");
        return Err(SysError::io(context, io::Error::from(io::ErrorKind::Unsupported)));
    }
    exchange(control_socket()?, name, &mut flow_words(ETHTOOL_SRXFH, wanted))
}

/// `struct ethtool_rxnfc`: command, flow type, 64 bits of fields.
fn flow_words(command: u32, wanted: FlowFields) -> [u32; COMMAND_WORDS] {
    let mut words = [0; COMMAND_WORDS];
    let (low, high) = (wanted.fields as u32, (wanted.fields >> 32) as u32);
    words[..4].copy_from_slice(&[command, wanted.flow_type, low, high]);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ordered_is_what_is_read() {
        let key: Vec<u8> = (0..10).collect();
        let rss = Rss { function: TOEPLITZ, transform: 1, key, table: vec![0, 1, 2, 0] };
        let words = order(&rss, &Table::Set(rss.table.clone()));
        assert_eq!(words.len(), RXFH_WORDS + 4 + 3);
        assert_eq!(read_rss(&words), rss);
        assert_eq!(order(&rss, &Table::Keep)[2], u32::MAX);
        let default = order(&rss, &Table::Default);
        assert_eq!((default[2], default.len()), (0, RXFH_WORDS + 3));
        assert_eq!(read_rss(&words[..3]), Rss::default(), "a short answer");
    }

    #[test]
    fn symmetry_is_by_the_key_where_there_is_one() {
        let rss = Rss { function: TOEPLITZ, key: vec![1, 2, 3], ..Rss::default() };
        assert!(!rss.is_symmetric());
        let symmetric = rss.symmetric();
        assert_eq!((&symmetric.key[..], symmetric.transform), (&[0x6d, 0x5a, 0x6d][..], 0));
        assert!(symmetric.is_symmetric());
        for rss in [Rss { key: vec![], ..rss.clone() }, Rss { function: 2, ..rss }] {
            let symmetric = rss.symmetric();
            assert!(symmetric.is_symmetric() && symmetric.key == rss.key, "{symmetric:?}");
        }
    }

    /// The Toeplitz function as Microsoft's specification of RSS has it.
    fn toeplitz(key: &[u8], input: &[u8]) -> u32 {
        let key_bit = |bit: usize| u32::from(key[bit / 8 % key.len()] >> (7 - bit % 8) & 1);
        let window = |from: usize| (0..32).fold(0, |word, bit| word << 1 | key_bit(from + bit));
        let bits = (0..input.len() * 8).filter(|bit| input[bit / 8] >> (7 - bit % 8) & 1 == 1);
        bits.fold(0, |hash, bit| hash ^ window(bit))
    }

    #[test]
    fn the_symmetric_key_gives_both_directions_one_value() {
        let key = symmetric_key(40);
        let [a, b, p, q] = [[10, 0, 0, 1], [192, 168, 7, 9], [0, 80, 0, 0], [200, 17, 0, 0]];
        let there = [&a[..], &b, &p[..2], &q[..2]].concat();
        let back = [&b[..], &a, &q[..2], &p[..2]].concat();
        assert_eq!(toeplitz(&key, &there), toeplitz(&key, &back));
        let usual: Vec<u8> = (0..40u8).map(|byte| byte.wrapping_mul(7) + 1).collect();
        assert_ne!(toeplitz(&usual, &there), toeplitz(&usual, &back), "another is not");
    }

    #[test]
    fn fields_are_completed_to_both_directions() {
        let both = |fields| FlowFields { flow_type: 1, fields }.of_both_directions().fields;
        assert_eq!(both(0x10), 0x30);
        assert_eq!(both(0x20), 0x30);
        assert_eq!(both(0xf0), 0xf0);
        assert_eq!(both(0x84), 0xc4, "the VLAN stays");
        assert_eq!(both(0), 0);
    }

    #[test]
    fn tables_are_even() {
        let rss = Rss { table: vec![0; 5], ..Rss::default() };
        assert_eq!(rss.even_table(2), [0, 1, 0, 1, 0]);
        assert_eq!(rss.even_table(0), [0; 5]);
    }

    #[test]
    fn an_interface_without_it_is_refused() {
        assert!(rss("lo").is_err());
        assert!(flow_fields("lo", 1).is_err());
        assert!(set_rss("rsafp-none", &Rss::default(), &Table::Keep).is_err());
    }

    #[test]
    fn mutated_answers_end() {
        let rss = Rss { function: 1, key: vec![7; 40], table: vec![1; 16], ..Rss::default() };
        let words = order(&rss, &Table::Set(rss.table.clone()));
        let seed: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        ringside_testkit::fuzz("ethtool-rss", 500_000, &[seed], |input| {
            let word =
                |chunk: &[u8]| chunk.iter().fold(0, |word, &byte| word << 8 | u32::from(byte));
            read_rss(&input.chunks(4).map(word).collect::<Vec<_>>());
        });
    }
}
