//! Messages of ICMP and ICMPv6: which are questions, and what their answers are.

use ringside_wire::{Icmp, Icmpv6, IpProtocol, LayerKind};

/// A message, and what stands for the ports of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Message {
    /// Type: the port of its sender.
    pub kind: u8,
    /// Type of its counterpart or, without one, its code: the other port.
    pub other: u8,
    /// It has no counterpart.
    pub is_one_way: bool,
    /// It asks for its counterpart.
    pub is_question: bool,
}

/// Questions and their answers, of ICMP.
const PAIRS: [(u8, u8); 5] = [(8, 0), (10, 9), (13, 14), (15, 16), (17, 18)];
/// The same, of ICMPv6. Multicast listeners (130, 131) are what Community ID has too.
const PAIRS_V6: [(u8, u8); 6] =
    [(128, 129), (130, 131), (133, 134), (135, 136), (139, 140), (144, 145)];

/// True if a message of ICMP or ICMPv6 of this type asks for its counterpart.
pub fn is_question(protocol: IpProtocol, kind: u16) -> bool {
    let pairs = if protocol == IpProtocol::ICMP { PAIRS.as_slice() } else { PAIRS_V6.as_slice() };
    pairs.iter().any(|&(question, _)| u16::from(question) == kind)
}

/// The message that `bytes` begin with, if their header is of such a kind.
pub(super) fn message(bytes: &[u8], kind: LayerKind) -> Option<Message> {
    let (kind, code, pairs) = match kind {
        LayerKind::Icmp => {
            let icmp = Icmp::new(bytes).ok()?;
            (icmp.kind(), icmp.code(), PAIRS.as_slice())
        }
        LayerKind::Icmpv6 => {
            let icmp = Icmpv6::new(bytes).ok()?;
            (icmp.kind(), icmp.code(), PAIRS_V6.as_slice())
        }
        _ => return None,
    };
    let paired = pairs.iter().find_map(|&(question, answer)| match kind {
        kind if kind == question => Some((answer, true)),
        kind if kind == answer => Some((question, false)),
        _ => None,
    });
    let (other, is_question) = paired.unwrap_or((code, false));
    Some(Message { kind, other, is_one_way: paired.is_none(), is_question })
}
