//! Queues and the NAPIs that poll them: the netlink family `netdev`, in kernels from 6.8 on.

use super::features::FAMILY;
use crate::netlink::generic::{Family, GENERIC_HEADER_BYTES};
use crate::netlink::message::{Attribute, Message, Request, attributes, damaged};
use ringside_sys::SysError;
use std::io;

const NETDEV_CMD_QUEUE_GET: u8 = 10;
const NETDEV_CMD_NAPI_GET: u8 = 11;
const NETDEV_CMD_NAPI_SET: u8 = 14;
const NETDEV_A_NAPI_IFINDEX: u16 = 1;
const NETDEV_A_NAPI_ID: u16 = 2;
const NETDEV_A_NAPI_IRQ: u16 = 3;
const NETDEV_A_NAPI_PID: u16 = 4;
const NETDEV_A_NAPI_DEFER_HARD_IRQS: u16 = 5;
const NETDEV_A_NAPI_GRO_FLUSH_TIMEOUT: u16 = 6;
const NETDEV_A_NAPI_IRQ_SUSPEND_TIMEOUT: u16 = 7;
const NETDEV_A_NAPI_THREADED: u16 = 8;
const NETDEV_A_QUEUE_ID: u16 = 1;
const NETDEV_A_QUEUE_IFINDEX: u16 = 2;
const NETDEV_A_QUEUE_TYPE: u16 = 3;
const NETDEV_A_QUEUE_NAPI_ID: u16 = 4;
const NETDEV_A_QUEUE_XSK: u16 = 7;
/// NETDEV_QUEUE_TYPE_RX; the other is that of transmit queues.
const RECEIVE: u64 = 0;

/// NAPIs and queues of one interface: several for each of as many CPUs as a machine has.
const COUNT_MAX: usize = 1 << 14;

/// A NAPI: what the kernel polls queues by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Napi {
    /// Its number in the whole system, as SO_INCOMING_NAPI_ID tells it.
    pub id: u32,
    /// The interrupt that wakes it, if the driver says.
    pub irq: Option<u32>,
    /// The kernel thread that polls, in the initial PID namespace, if it is threaded.
    pub thread: Option<u32>,
    /// Settings, in kernels from 6.13 on.
    pub settings: Option<NapiSettings>,
}

/// How a NAPI waits before it enables its interrupt again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NapiSettings {
    /// Empty polls before the interrupt is enabled.
    pub defer_hard_irqs: u32,
    /// Nanoseconds after which merged frames are handed on and, with `defer_hard_irqs`, it is
    /// polled again.
    pub gro_flush_timeout_ns: u64,
    /// Nanoseconds for which an application that busy-polls keeps the interrupt off.
    pub irq_suspend_timeout_ns: u64,
    /// A kernel thread polls; none where netlink does not tell (before 6.17).
    pub threaded: Option<bool>,
}

/// A queue of an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// Its number among those of its kind.
    pub id: u32,
    /// It receives; otherwise it sends.
    pub receives: bool,
    /// The NAPI that polls it, if the driver says.
    pub napi: Option<u32>,
    /// An AF_XDP socket is bound to it, in kernels from 6.14 on.
    pub has_socket: bool,
}

/// The NAPIs of an interface, by id; empty where the kernel or the driver does not tell, or while
/// the interface is down.
///
/// # Errors
/// The answer is damaged.
pub fn napis(ifindex: u32) -> Result<Vec<Napi>, SysError> {
    let mut found = list(ifindex, NETDEV_CMD_NAPI_GET, NETDEV_A_NAPI_IFINDEX, read_napi)?;
    found.sort_by_key(|napi| napi.id);
    Ok(found)
}

/// The queues of an interface in use, those that receive first, each kind in order; empty where the
/// kernel does not tell, or while the interface is down.
///
/// # Errors
/// The answer is damaged.
pub fn queue_list(ifindex: u32) -> Result<Vec<Queue>, SysError> {
    let mut found = list(ifindex, NETDEV_CMD_QUEUE_GET, NETDEV_A_QUEUE_IFINDEX, read_queue)?;
    found.sort_by_key(|queue| (!queue.receives, queue.id));
    Ok(found)
}

/// Sets how one NAPI waits, whatever the interface's own files say.
///
/// # Errors
/// There is no such NAPI, the kernel is older than 6.13, or CAP_NET_ADMIN is missing.
pub fn set_napi(id: u32, settings: NapiSettings) -> Result<(), SysError> {
    let failed = |e: io::Error| SysError::io(format!("setting how NAPI {id} waits"), e);
    let Some(mut family) = Family::open(FAMILY)? else {
        return Err(failed(io::Error::from(io::ErrorKind::Unsupported)));
    };
    let mut request = family
        .request(NETDEV_CMD_NAPI_SET)
        .attribute(NETDEV_A_NAPI_ID, &id.to_ne_bytes())
        .attribute(NETDEV_A_NAPI_DEFER_HARD_IRQS, &settings.defer_hard_irqs.to_ne_bytes())
        .attribute(NETDEV_A_NAPI_GRO_FLUSH_TIMEOUT, &settings.gro_flush_timeout_ns.to_ne_bytes())
        .attribute(
            NETDEV_A_NAPI_IRQ_SUSPEND_TIMEOUT,
            &settings.irq_suspend_timeout_ns.to_ne_bytes(),
        );
    if let Some(threaded) = settings.threaded {
        request = request.attribute(NETDEV_A_NAPI_THREADED, &u32::from(threaded).to_ne_bytes());
    }
    family.connection.ask(request, |_| Ok(None::<()>)).map(drop).map_err(failed)
}

fn list<T>(
    ifindex: u32,
    command: u8,
    key: u16,
    read: impl Fn(&[Attribute<'_>]) -> T,
) -> Result<Vec<T>, SysError> {
    let Some(mut family) = Family::open(FAMILY)? else { return Ok(Vec::new()) };
    let request: Request = family.request(command).attribute(key, &ifindex.to_ne_bytes());
    let decode = |message: &Message<'_>| {
        let body = message.body.get(GENERIC_HEADER_BYTES..).ok_or_else(damaged)?;
        Ok(Some(read(&attributes(body)?)))
    };
    match family.connection.dump(request, COUNT_MAX, decode) {
        // The family of 6.3 does not know the command.
        Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(Vec::new()),
        other => other.map_err(|e| {
            SysError::io(format!("listing queues of the interface with index {ifindex}"), e)
        }),
    }
}

fn read_napi(parts: &[Attribute<'_>]) -> Napi {
    let mut napi = Napi::default();
    let mut settings = NapiSettings::default();
    for part in parts {
        match part.kind {
            NETDEV_A_NAPI_ID => napi.id = part.word(),
            NETDEV_A_NAPI_IRQ => napi.irq = Some(part.word()),
            NETDEV_A_NAPI_PID => napi.thread = Some(part.word()),
            NETDEV_A_NAPI_DEFER_HARD_IRQS => settings.defer_hard_irqs = part.word(),
            NETDEV_A_NAPI_GRO_FLUSH_TIMEOUT => settings.gro_flush_timeout_ns = part.number(),
            NETDEV_A_NAPI_IRQ_SUSPEND_TIMEOUT => settings.irq_suspend_timeout_ns = part.number(),
            NETDEV_A_NAPI_THREADED => settings.threaded = Some(part.number() != 0),
            _ => {}
        }
    }
    let told = parts.iter().any(|part| part.kind == NETDEV_A_NAPI_DEFER_HARD_IRQS);
    Napi { settings: told.then_some(settings), ..napi }
}

fn read_queue(parts: &[Attribute<'_>]) -> Queue {
    let mut queue = Queue::default();
    for part in parts {
        match part.kind {
            NETDEV_A_QUEUE_ID => queue.id = part.word(),
            NETDEV_A_QUEUE_TYPE => queue.receives = part.number() == RECEIVE,
            NETDEV_A_QUEUE_NAPI_ID => queue.napi = Some(part.word()),
            NETDEV_A_QUEUE_XSK => queue.has_socket = true,
            _ => {}
        }
    }
    queue
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::message::joined_attributes;

    fn napi_answer() -> Vec<u8> {
        joined_attributes(&[
            (NETDEV_A_NAPI_ID, &[9, 1, 0, 0]),
            (NETDEV_A_NAPI_IRQ, &[38, 0, 0, 0]),
            (NETDEV_A_NAPI_DEFER_HARD_IRQS, &[2, 0, 0, 0]),
            (NETDEV_A_NAPI_GRO_FLUSH_TIMEOUT, &[0, 0, 1, 0]),
            (NETDEV_A_NAPI_THREADED, &[1, 0, 0, 0]),
        ])
    }

    fn queue_answer() -> Vec<u8> {
        joined_attributes(&[
            (NETDEV_A_QUEUE_ID, &[3, 0, 0, 0]),
            (NETDEV_A_QUEUE_TYPE, &[0, 0, 0, 0]),
            (NETDEV_A_QUEUE_NAPI_ID, &[9, 1, 0, 0]),
            (NETDEV_A_QUEUE_XSK, &[]),
        ])
    }

    #[test]
    fn made_answers_are_read() {
        let bytes = napi_answer();
        let napi = read_napi(&attributes(&bytes).unwrap());
        let settings = NapiSettings {
            defer_hard_irqs: 2,
            gro_flush_timeout_ns: 65_536,
            irq_suspend_timeout_ns: 0,
            threaded: Some(true),
        };
        let expected = Napi { id: 265, irq: Some(38), thread: None, settings: Some(settings) };
        assert_eq!(napi, expected);
        assert_eq!(read_napi(&attributes(&bytes[..16]).unwrap()).settings, None, "an older kernel");
        let queue = read_queue(&attributes(&queue_answer()).unwrap());
        assert_eq!(queue, Queue { id: 3, receives: true, napi: Some(265), has_socket: true });
    }

    #[test]
    fn the_loopback_interface_has_no_napi() {
        assert!(napis(1).unwrap().is_empty());
        assert!(queue_list(1).unwrap().iter().all(|queue| queue.napi.is_none()));
        assert!(set_napi(u32::MAX, NapiSettings::default()).is_err());
    }

    #[test]
    fn mutated_answers_end() {
        ringside_testkit::fuzz("netdev-napi", 500_000, &[napi_answer(), queue_answer()], |input| {
            if let Ok(parts) = attributes(input) {
                read_napi(&parts);
                read_queue(&parts);
            }
        });
    }
}
