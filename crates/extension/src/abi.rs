//! What a module and this program agree on: names, types, and the functions that a module may
//! import. docs/extensions.md says the same for those who write modules.

use crate::host::{Host, charge};
use crate::ledger::Refusal;
use crate::limits::{COUNTER_NAME_BYTES_MAX, HOST_FUEL_A_BYTE, RECORD_BYTES_MAX};
use ringside_wire::{EtherType, IpProtocol, LayerKind};
use wasmi::errors::LinkerError;
use wasmi::{Caller, Engine, Error, Extern, Linker};

/// Version of all this. What is added later keeps it, what changes does not.
pub(crate) const VERSION: i32 = 1;

/// The module that everything is imported from.
pub(crate) const MODULE: &str = "ringside";

/// What can be imported.
pub(crate) const IMPORTS: [&str; 5] =
    ["emit", "count", "header", "payload_offset", "payload_bytes"];

/// What a call that did what was asked returns.
const DONE: i32 = 0;
/// What a call that did not returns.
const REFUSED: i32 = 1;
/// What there is not.
const NONE: i32 = -1;

/// The functions that can be imported.
pub(crate) fn linker(engine: &Engine) -> Result<Linker<Host>, LinkerError> {
    let mut linker = Linker::new(engine);
    let [emit_name, count_name, header_name, offset_name, bytes_name] = IMPORTS;
    linker.func_wrap(MODULE, emit_name, emit)?;
    linker.func_wrap(MODULE, count_name, count)?;
    linker.func_wrap(MODULE, header_name, header)?;
    linker.func_wrap(MODULE, offset_name, payload_offset)?;
    linker.func_wrap(MODULE, bytes_name, payload_bytes)?;
    Ok(linker)
}

/// `emit(address, bytes)`: a record, as a JSON object.
fn emit(mut caller: Caller<'_, Host>, address: u32, bytes: u32) -> Result<i32, Error> {
    let is_too_long = bytes as usize > RECORD_BYTES_MAX;
    charge(&mut caller, if is_too_long { 0 } else { u64::from(bytes) * HOST_FUEL_A_BYTE })?;
    let outcome = match is_too_long {
        true => Err(Refusal::TooLong),
        false => match lent(&mut caller, address, bytes) {
            Some((text, host)) => host.take_record(text),
            None => Err(Refusal::OutsideMemory),
        },
    };
    let ledger = &mut caller.data_mut().ledger;
    ledger.emitted += 1;
    match outcome {
        Ok(()) => ledger.taken += 1,
        Err(refusal) => ledger.refused[refusal.index()] += 1,
    }
    Ok(if outcome.is_ok() { DONE } else { REFUSED })
}

/// `count(address, bytes, number)`: adds to the counter of a name.
fn count(
    mut caller: Caller<'_, Host>,
    address: u32,
    bytes: u32,
    number: u64,
) -> Result<i32, Error> {
    charge(&mut caller, COUNTER_NAME_BYTES_MAX as u64)?;
    let counted = match lent(&mut caller, address, bytes) {
        Some((name, host)) => host.add(name, number),
        None => None,
    };
    if counted.is_none() {
        caller.data_mut().ledger.counts_refused += 1;
    }
    Ok(if counted.is_some() { DONE } else { REFUSED })
}

/// `header(number)`: where the innermost header of this EtherType or IP protocol begins.
fn header(mut caller: Caller<'_, Host>, number: u32) -> Result<i32, Error> {
    charge(&mut caller, 0)?;
    let kind = kind_of(number);
    let layer = kind.and_then(|kind| caller.data().innermost(|layer| layer.kind == kind));
    Ok(layer.map_or(NONE, |layer| layer.offset as i32))
}

/// `payload_offset()`: where what the innermost transport header carries begins.
fn payload_offset(mut caller: Caller<'_, Host>) -> Result<i32, Error> {
    charge(&mut caller, 0)?;
    Ok(caller.data().payload().map_or(NONE, |payload| payload.start as i32))
}

/// `payload_bytes()`: how much of it there is, without padding behind it.
fn payload_bytes(mut caller: Caller<'_, Host>) -> Result<i32, Error> {
    charge(&mut caller, 0)?;
    Ok(caller.data().payload().map_or(0, |payload| payload.len() as i32))
}

/// Bytes of the module's memory, and the host; none if they do not lie there.
fn lent<'c>(
    caller: &'c mut Caller<'_, Host>,
    address: u32,
    bytes: u32,
) -> Option<(&'c [u8], &'c mut Host)> {
    let Some(Extern::Memory(memory)) = caller.get_export("memory") else { return None };
    let (data, host) = memory.data_and_store_mut(caller);
    let start = address as usize;
    Some((data.get(start..start.checked_add(bytes as usize)?)?, host))
}

/// What IP protocols announce, of what is dissected behind IP.
const TRANSPORTS: [(IpProtocol, LayerKind); 6] = [
    (IpProtocol::ICMP, LayerKind::Icmp),
    (IpProtocol::IGMP, LayerKind::Igmp),
    (IpProtocol::TCP, LayerKind::Tcp),
    (IpProtocol::UDP, LayerKind::Udp),
    (IpProtocol::ICMPV6, LayerKind::Icmpv6),
    (IpProtocol::SCTP, LayerKind::Sctp),
];

/// The IP protocol that announces a transport header.
pub(crate) fn protocol_of(kind: LayerKind) -> Option<u8> {
    TRANSPORTS.iter().find(|(_, of)| *of == kind).map(|(protocol, _)| protocol.0)
}

/// The header that an EtherType or an IP protocol announces. Numbers of both do not meet: those of
/// IP have 8 bits, EtherTypes begin with 0x600.
fn kind_of(number: u32) -> Option<LayerKind> {
    if let Ok(protocol) = u8::try_from(number) {
        let protocol = IpProtocol(protocol);
        let transport = TRANSPORTS.iter().find(|(of, _)| *of == protocol).map(|(_, kind)| *kind);
        return transport.or((protocol == IpProtocol::GRE).then_some(LayerKind::Gre));
    }
    Some(match EtherType(u16::try_from(number).ok()?) {
        EtherType::IPV4 => LayerKind::Ipv4,
        EtherType::ARP => LayerKind::Arp,
        EtherType::VLAN => LayerKind::Vlan,
        EtherType::IPV6 => LayerKind::Ipv6,
        EtherType::MPLS => LayerKind::Mpls,
        EtherType::PPPOE_SESSION => LayerKind::Pppoe,
        EtherType::QINQ => LayerKind::QinQ,
        _ => return None,
    })
}
