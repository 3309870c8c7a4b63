//! From what connections and datagrams say to messages.

use crate::conversation::{Bytes, DNS_PORT, Kept};
use crate::ledger::DnsLedger;
use crate::read::Read;
use crate::transaction::{Protocol, Transport};
use crate::transactions::{Met, Out, Transactions};
use ringside_proto::Stop;
use ringside_proto::dns::looks_like;
use ringside_streams::{At, Datagram, Event, Handler};

/// Multicast DNS.
const MDNS_PORT: u16 = 5353;
/// Link-local multicast name resolution.
const LLMNR_PORT: u16 = 5355;
/// The name service of NetBIOS has messages of the same form, and is another protocol.
const NETBIOS_PORT: u16 = 137;

/// What all messages share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub ledger: DnsLedger,
    pub transactions: Transactions,
    pub bytes: Bytes,
    /// Datagrams that are none of DNS.
    pub other_datagrams: u64,
}

/// Takes what came, and gives transactions out.
pub(crate) struct Tracker<'t> {
    pub shared: &'t mut Shared,
    pub out: &'t mut Out<'t>,
}

impl Handler for Tracker<'_> {
    type Kept = Kept;

    const TAKES_DATAGRAMS: bool = true;

    #[inline]
    fn event(&mut self, at: &At<'_>, kept: &mut Kept, event: Event<'_>) {
        let side = usize::from(at.from_high);
        let Shared { ledger, transactions, bytes: shared, .. } = &mut *self.shared;
        match event {
            Event::Data(bytes) => {
                let ports = [at.key.low().1, at.key.high().1];
                kept.data(side, ports, bytes, shared, &mut |message| {
                    ledger.messages += 1;
                    ledger.message_bytes += message.len() as u64;
                    let met = Met {
                        key: at.key,
                        from_high: at.from_high,
                        stamp: at.stamp,
                        protocol: Protocol::Dns,
                        transport: Transport::Tcp,
                        bytes: message.len() as u32,
                    };
                    match Read::message(message) {
                        Ok(read) => transactions.take_in(&met, read, ledger, self.out),
                        Err(_) => ledger.malformed += 1,
                    }
                });
            }
            Event::Gap { .. } => kept.gap(side, shared),
            Event::Fin => {}
            Event::Closed(_) => kept.close(shared),
        }
    }

    #[inline]
    fn datagram(&mut self, datagram: &Datagram<'_>) {
        let ports = [datagram.key.low().1, datagram.key.high().1];
        let protocol = match ports {
            ports if ports.contains(&DNS_PORT) => Some(Protocol::Dns),
            ports if ports.contains(&MDNS_PORT) => Some(Protocol::Mdns),
            ports if ports.contains(&LLMNR_PORT) => Some(Protocol::Llmnr),
            _ => None,
        };
        let is_netbios = ports.contains(&NETBIOS_PORT);
        let may_be = protocol.is_some() || !is_netbios && looks_like(datagram.payload);
        let read = may_be.then(|| Read::message(datagram.payload));
        let Shared { ledger, transactions, other_datagrams, .. } = &mut *self.shared;
        let is_cut = (datagram.payload.len() as u32) < datagram.payload_bytes;
        // On other ports only what is a message to its end is believed to be one.
        let is_sure = matches!(&read, Some(Ok(read)) if read.is_whole);
        let Some(read) = read.filter(|_| protocol.is_some() || is_sure) else {
            *other_datagrams += 1;
            return;
        };
        ledger.messages += 1;
        let met = Met {
            key: &datagram.key,
            from_high: datagram.from_high,
            stamp: datagram.stamp,
            protocol: protocol.unwrap_or(Protocol::Dns),
            transport: Transport::Udp,
            bytes: datagram.payload_bytes,
        };
        match read {
            Ok(read) => transactions.take_in(&met, read, ledger, self.out),
            Err(Stop::Cut) if is_cut => ledger.cut += 1,
            Err(_) => ledger.malformed += 1,
        }
    }
}
