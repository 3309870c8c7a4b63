//! Community ID, version 1: a name for a conversation that Zeek, Suricata, Arkime and Wireshark
//! give it too.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ringside_wire::IpProtocol;
use sha1::{Digest, Sha1};
use std::net::IpAddr;

/// One end of a conversation: address, and port or what stands for it.
pub type Endpoint = (IpAddr, u16);

/// The Community ID of a conversation, with this seed: 0 unless a site has its own. By the
/// specification of Corelight: SHA-1 over the seed, the lower and the higher address, protocol and
/// ports, of which ICMP has its types. Of protocols without ports there are none in it. Messages of
/// ICMP that have no answer (`is_one_way`) keep their order.
pub fn community_id(
    source: Endpoint,
    destination: Endpoint,
    protocol: IpProtocol,
    is_one_way: bool,
    seed: u16,
) -> String {
    let (source, destination) = (octets(source), octets(destination));
    let is_in_order = is_one_way || source <= destination;
    let (low, high) = if is_in_order { (source, destination) } else { (destination, source) };
    let mut hash = Sha1::new();
    hash.update(seed.to_be_bytes());
    hash.update(&low.0);
    hash.update(&high.0);
    hash.update([protocol.0, 0]);
    if has_ports(protocol) {
        hash.update(low.1.to_be_bytes());
        hash.update(high.1.to_be_bytes());
    }
    format!("1:{}", BASE64_STANDARD.encode(hash.finalize()))
}

fn has_ports(protocol: IpProtocol) -> bool {
    use IpProtocol as P;
    matches!(protocol, P::TCP | P::UDP | P::SCTP | P::ICMP | P::ICMPV6)
}

fn octets((address, port): Endpoint) -> (Vec<u8>, u16) {
    let octets = match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    (octets, port)
}
