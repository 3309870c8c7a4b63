//! Devices taken, and opened as ports with their queues and senders.

use crate::error::DpdkError;
use crate::plugin::table;
use crate::port::{Port, taken};
use crate::queue::Queue;
use crate::sender::Sender;
use crate::table::{Device, Request, Table};
use std::ffi::CString;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

/// Most queues of either kind.
pub const QUEUES_MAX: u32 = 256;

/// What a port is opened for.
#[derive(Clone, Debug)]
pub struct PortRequest {
    /// Queues that receive.
    pub receive_queues: u32,
    /// Queues that send.
    pub transmit_queues: u32,
    /// Frames that the card holds for a queue.
    pub descriptors: u32,
    /// Frames that a queue's memory holds.
    pub frames_per_queue: u32,
    /// Bytes of a frame's room.
    pub frame_bytes_max: u32,
    /// Longest packet that the card is set to receive; `None` leaves it.
    pub mtu: Option<u32>,
    /// Receive frames for other stations too.
    pub promiscuous: bool,
}

/// What a device says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Properties {
    /// Its driver, as `net_af_packet`.
    pub driver: String,
    /// Most queues that receive.
    pub receive_queues_max: u32,
    /// Its MTU.
    pub mtu: u32,
    /// It can spread flows over queues.
    pub has_rss: bool,
    /// It can stamp frames.
    pub has_stamps: bool,
    /// Where it is plugged in.
    pub numa_node: Option<u32>,
}

/// A port with all that was asked for.
pub struct Opened {
    /// The port, for its counters.
    pub port: Arc<Port>,
    /// Its receive queues, in order.
    pub queues: Vec<Queue>,
    /// Its senders, in order.
    pub senders: Vec<Sender>,
}

/// A device that DPDK has taken, before it is opened.
pub struct Attached {
    table: &'static Table,
    number: u32,
    /// What it says of itself.
    pub properties: Properties,
    /// It was opened, which closes it in another way.
    is_opened: bool,
}

/// Has DPDK take `device`, by its words: a PCI address, or a driver's name with arguments. DPDK
/// must run ([`eal::start`](crate::eal::start)).
///
/// # Errors
/// No driver takes it.
pub fn attach(device: &str) -> Result<Attached, DpdkError> {
    let table = table()?;
    let what = format!("device {device}");
    let refused = |reason: &str| DpdkError::Refused {
        what: what.clone(),
        reason: reason.to_owned(),
        log: Vec::new(),
    };
    let words = CString::new(device).map_err(|_| refused("a zero byte in its name"))?;
    if !crate::eal::is_started() {
        return Err(refused("DPDK was not started"));
    }
    let mut taken = taken();
    let mut number = 0;
    // SAFETY: a text that ends with zero, and room for the number; EAL runs.
    let done = unsafe { (table.attach)(words.as_ptr(), &raw mut number) };
    table.check(&what, done)?;
    // DPDK takes a device once, and says nothing the second time.
    if taken.contains(&number) {
        return Err(refused("this process receives from it already"));
    }
    let mut found = Device {
        driver: [0; 64],
        receive_queues_max: 0,
        mtu: 0,
        has_rss: 0,
        has_stamps: 0,
        numa_node: -1,
        reserved: 0,
    };
    // SAFETY: room for the answer, and a port that is there.
    let done = unsafe { (table.describe)(number, &raw mut found) };
    if let Err(error) = table.check(&what, done) {
        // SAFETY: the port is there, and was not opened.
        unsafe { (table.close)(number) };
        return Err(error);
    }
    let driver = found.driver.split(|&byte| byte == 0).next().unwrap_or_default();
    let properties = Properties {
        driver: String::from_utf8_lossy(driver).into_owned(),
        receive_queues_max: found.receive_queues_max,
        mtu: found.mtu,
        has_rss: found.has_rss != 0,
        has_stamps: found.has_stamps != 0,
        numa_node: u32::try_from(found.numa_node).ok(),
    };
    taken.insert(number);
    Ok(Attached { table, number, properties, is_opened: false })
}

impl Attached {
    /// Opens it: frames come from now on.
    ///
    /// # Errors
    /// The driver refused, or there is no memory. The device is let go.
    pub fn open(mut self, request: &PortRequest) -> Result<Opened, DpdkError> {
        let count = |queues: u32| queues.min(QUEUES_MAX);
        let raw = Request {
            port: self.number,
            receive_queues: count(request.receive_queues),
            transmit_queues: count(request.transmit_queues),
            descriptors: request.descriptors,
            frames_per_queue: request.frames_per_queue,
            frame_bytes_max: request.frame_bytes_max,
            mtu: request.mtu.unwrap_or(0),
            promiscuous: u32::from(request.promiscuous),
        };
        let mut queues = vec![std::ptr::null_mut(); raw.receive_queues as usize];
        let mut senders = vec![std::ptr::null_mut(); raw.transmit_queues as usize];
        // The plug-in lets go of a device that it could not open.
        let mut taken = taken();
        self.is_opened = true;
        // SAFETY: the arrays have as many places as the request says, and a port is opened once.
        let done =
            unsafe { (self.table.open)(&raw const raw, queues.as_mut_ptr(), senders.as_mut_ptr()) };
        let what = format!("opening a device of {}", self.properties.driver);
        self.table.check(&what, done).inspect_err(|_| {
            taken.remove(&self.number);
        })?;
        let port = Arc::new(Port {
            table: self.table,
            number: self.number,
            counting: Mutex::new(()),
            queues: queues.into_iter().filter_map(NonNull::new).collect(),
            senders: senders.into_iter().filter_map(NonNull::new).collect(),
        });
        let queues = port.queues.iter().map(|&raw| Queue::new(self.table, raw, port.clone()));
        let frame_bytes_max = request.frame_bytes_max;
        let sender = |&raw| Sender::new(self.table, raw, port.clone(), frame_bytes_max);
        let senders = port.senders.iter().map(sender);
        Ok(Opened { queues: queues.collect(), senders: senders.collect(), port: port.clone() })
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if !self.is_opened {
            let mut taken = taken();
            taken.remove(&self.number);
            // SAFETY: the port is there, and was not opened.
            unsafe { (self.table.close)(self.number) };
        }
    }
}
