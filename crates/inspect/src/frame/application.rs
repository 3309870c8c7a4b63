//! The application message of one payload: each protocol is read once, if anybody asks.

use ringside_proto::{Http1, Name, Sip, dns, http1, sip, tls};
use ringside_wire::LayerKind;
use std::cell::OnceCell;

/// What was read so far. A protocol that the payload does not look like is not parsed: its parser
/// believes more than a guess may.
#[derive(Debug, Default)]
pub(super) struct Application<'f> {
    http: OnceCell<Option<Http1<'f>>>,
    sip: OnceCell<Option<Sip<'f>>>,
    dns: OnceCell<Option<Name>>,
    tls: OnceCell<Option<Name>>,
}

impl<'f> Application<'f> {
    pub(super) fn http(&self, (payload, _): (&'f [u8], LayerKind)) -> Option<Http1<'f>> {
        let read = || http1::looks_like(payload).then(|| http1::parse(payload).found()).flatten();
        *self.http.get_or_init(read)
    }

    pub(super) fn sip(&self, (payload, _): (&'f [u8], LayerKind)) -> Option<Sip<'f>> {
        let read = || sip::looks_like(payload).then(|| sip::parse(payload).found()).flatten();
        *self.sip.get_or_init(read)
    }

    pub(super) fn dns_name(&self, (payload, carrier): (&'f [u8], LayerKind)) -> Option<&[u8]> {
        let read = || {
            let mut name = Name::new();
            let found = match carrier {
                LayerKind::Tcp if dns::looks_like_tcp(payload) => {
                    dns::parse_tcp(payload, &mut name)
                }
                LayerKind::Udp if dns::looks_like(payload) => dns::parse(payload, &mut name),
                _ => return None,
            };
            let has_name = found.found()?.qname.is_some();
            has_name.then_some(name)
        };
        self.dns.get_or_init(read).as_ref().map(Name::as_bytes)
    }

    pub(super) fn tls_name(&self, (payload, carrier): (&'f [u8], LayerKind)) -> Option<&[u8]> {
        let read = || {
            if carrier != LayerKind::Tcp || !tls::looks_like(payload) {
                return None;
            }
            let mut name = Name::new();
            let has_name = tls::parse(payload, &mut name).found()?.sni.is_some();
            has_name.then_some(name)
        };
        self.tls.get_or_init(read).as_ref().map(Name::as_bytes)
    }
}
