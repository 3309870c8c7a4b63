//! What all tests of this crate share: the protocols behind one shape, and messages of the RFCs.

#![allow(dead_code)] // each test binary uses its part

pub mod messages;

use ringside_proto::{Name, Outcome, dns, http1, sip, tls};

/// The fields that one parser gives, in its order.
pub type Found = Vec<Option<Vec<u8>>>;

/// A parser, for properties that hold for all of them.
#[derive(Clone, Copy)]
pub struct Protocol {
    pub name: &'static str,
    pub parse: fn(&[u8]) -> Outcome<Found>,
    pub looks_like: fn(&[u8]) -> bool,
}

pub const HTTP1: Protocol = Protocol {
    name: "http1",
    parse: |payload| {
        map(http1::parse(payload), |http| {
            let status = http.status.map(|status| status.to_string().into_bytes());
            let version = http.minor_version.map(|digit| vec![digit]);
            vec![own(http.method), own(http.target), status, version, own(http.host)]
        })
    },
    looks_like: http1::looks_like,
};

pub const SIP: Protocol = Protocol {
    name: "sip",
    parse: |payload| {
        map(sip::parse(payload), |sip| {
            let status = sip.status.map(|status| status.to_string().into_bytes());
            let party = |party: Option<sip::Address<'_>>| {
                [own(party.and_then(|p| p.uri())), own(party.map(|p| p.value().raw()))]
            };
            let mut found = vec![own(sip.method), own(sip.uri), status, own(sip.call_id)];
            found.push(sip.via.map(|via| via.bytes().collect()));
            found.extend(party(sip.from).into_iter().chain(party(sip.to)));
            found
        })
    },
    looks_like: sip::looks_like,
};

pub const DNS: Protocol = Protocol {
    name: "dns",
    parse: |payload| map(dns::parse(payload, &mut Name::new()), of_dns),
    looks_like: dns::looks_like,
};

pub const DNS_TCP: Protocol = Protocol {
    name: "dns over tcp",
    parse: |payload| map(dns::parse_tcp(payload, &mut Name::new()), of_dns),
    looks_like: dns::looks_like_tcp,
};

pub const TLS: Protocol = Protocol {
    name: "tls",
    parse: |payload| map(tls::parse(payload, &mut Name::new()), |hello| vec![own(hello.sni)]),
    looks_like: tls::looks_like,
};

pub const PROTOCOLS: [Protocol; 5] = [HTTP1, SIP, DNS, DNS_TCP, TLS];

fn of_dns(dns: ringside_proto::Dns<'_>) -> Found {
    let qtype = dns.qtype.map(|qtype| qtype.to_be_bytes().to_vec());
    vec![dns.is_response.map(|is| vec![u8::from(is)]), own(dns.qname), qtype]
}

fn own(field: Option<&[u8]>) -> Option<Vec<u8>> {
    field.map(<[u8]>::to_vec)
}

fn map<T>(outcome: Outcome<T>, own: impl Fn(T) -> Found) -> Outcome<Found> {
    match outcome {
        Outcome::Fields(fields) => Outcome::Fields(own(fields)),
        Outcome::Incomplete(fields) => Outcome::Incomplete(own(fields)),
        Outcome::NotThis => Outcome::NotThis,
    }
}

/// Text of a field, for messages and for comparing with what other programs print.
pub fn text(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

/// No longer prefix of `payload` takes back what a shorter one said. Every `step`th is looked at.
#[track_caller]
pub fn check_prefixes(protocol: Protocol, payload: &[u8], step: usize) {
    let mut before = (protocol.parse)(&[]);
    for end in (0..=payload.len()).step_by(step).chain([payload.len()]) {
        let now = (protocol.parse)(&payload[..end]);
        let context = || format!("{} at {end}: {}", protocol.name, text(&payload[..end]));
        match (&before, &now) {
            (Outcome::NotThis, _) | (Outcome::Fields(_), _) => {
                assert_eq!(now, before, "{}", context())
            }
            (Outcome::Incomplete(_), Outcome::NotThis) => {}
            (Outcome::Incomplete(was), Outcome::Incomplete(is) | Outcome::Fields(is)) => {
                for (was, is) in was.iter().zip(is) {
                    assert!(was.is_none() || was == is, "{was:?} {is:?} {}", context());
                }
            }
        }
        before = now;
    }
}
