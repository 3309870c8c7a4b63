//! Policy rules: what they ask of a packet (rtnetlink(7): RTM_GETRULE; linux/fib_rules.h).

use crate::netlink::Connection;
use crate::netlink::message::{Message, Request, attributes, damaged};
use ringside_sys::SysError;
use std::io;

/// `struct fib_rule_hdr`.
const RULE_HEADER_BYTES: usize = 12;
/// Rules that are read at most, of each version of IP: lists are a few, and the kernel goes through
/// them one by one.
const RULES_MAX: usize = 65_536;
/// FRA_IP_PROTO, FRA_SPORT_RANGE, FRA_DPORT_RANGE.
const TRANSPORT: [u16; 3] = [22, 23, 24];

/// True if a policy rule of the calling thread's network namespace asks for the protocol or the
/// ports of a packet, so that these decide about its route.
///
/// # Errors
/// Netlink is not there, or its answer is damaged.
pub fn rules_ask_for_transport() -> Result<bool, SysError> {
    let mut connection = Connection::route()?;
    for family in [libc::AF_INET, libc::AF_INET6] {
        let mut header = [0; RULE_HEADER_BYTES];
        header[0] = family as u8;
        let found = connection.dump(
            Request::new(libc::RTM_GETRULE, &header),
            RULES_MAX,
            asks_for_transport,
        );
        match found {
            Ok(rules) if rules.contains(&true) => return Ok(true),
            Ok(_) => {}
            // A kernel without policy rules for this version of IP.
            Err(error) if error.raw_os_error() == Some(libc::EAFNOSUPPORT) => {}
            Err(error) => return Err(SysError::io("listing policy rules by rtnetlink", error)),
        }
    }
    Ok(false)
}

fn asks_for_transport(message: &Message<'_>) -> io::Result<Option<bool>> {
    if message.kind != libc::RTM_NEWRULE {
        return Ok(None);
    }
    let rest = message.body.get(RULE_HEADER_BYTES..).ok_or_else(damaged)?;
    Ok(Some(attributes(rest)?.iter().any(|attribute| TRANSPORT.contains(&attribute.kind))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::message::joined_attributes;

    fn rule(kind: u16, attributes: &[(u16, &[u8])]) -> io::Result<Option<bool>> {
        let body = [vec![0; RULE_HEADER_BYTES], joined_attributes(attributes)].concat();
        asks_for_transport(&Message { kind, flags: 0, sequence: 1, body: &body })
    }

    #[test]
    fn rules_of_protocols_and_ports_are_told_from_others() {
        let (priority, destination) = ((6, &[0; 4][..]), (1, &[10, 0, 0, 1][..]));
        let of = |more: &[(u16, &[u8])]| {
            rule(libc::RTM_NEWRULE, &[&[priority, destination], more].concat()).unwrap()
        };
        assert_eq!(of(&[]), Some(false));
        for kind in TRANSPORT {
            assert_eq!(of(&[(kind, &[53, 0, 53, 0])]), Some(true));
        }
        assert_eq!(rule(libc::RTM_DELRULE, &[]).unwrap(), None);
        let short = Message { kind: libc::RTM_NEWRULE, flags: 0, sequence: 1, body: &[0; 5] };
        assert!(asks_for_transport(&short).is_err());
    }
}
