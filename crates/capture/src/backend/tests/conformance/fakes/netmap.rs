//! A port of netmap's whose kernel is played ([`ringside_testkit::netmap`]), fed by what takes
//! frames inside the driver.

use crate::backend::opening::OpenRequest;
use crate::backend::{AF_XDP, BackendError};
use ringside_core::Source;
use ringside_sys::SysError;
use ringside_sys::mmap::Mapping;
use ringside_sys::netmap::{Control, PortInfo, Register, Registered, RingChoice, Way};
use ringside_testkit::netmap::Kernel;
use std::collections::VecDeque;
use std::io;
use std::time::Duration;

/// Buffers that the kernel lends in addition: as many as a backend asks for.
const EXTRA_BUFFERS: u32 = 256;

/// A port with as many rings as lanes are asked for.
pub(super) struct Port {
    rings: VecDeque<Box<dyn Source>>,
    count: u16,
}

impl Port {
    pub fn of(request: &OpenRequest, device: &str) -> Result<Port, BackendError> {
        let lanes = request.lanes.unwrap_or(1);
        let own = OpenRequest { lanes: Some(lanes), ..OpenRequest::new(device) };
        let mut opened = AF_XDP.open(&own)?;
        let start = |(mut source, _): (Box<dyn Source>, _)| {
            source.start().unwrap();
            source
        };
        Ok(Port { rings: opened.lanes.drain(..).map(start).collect(), count: lanes })
    }

    /// A handle, as of opening /dev/netmap once more.
    pub fn handle(&mut self, is_first: bool) -> Handle {
        let feed = if is_first { None } else { self.rings.pop_front() };
        let kernel = Kernel::new(self.count, EXTRA_BUFFERS);
        Handle { kernel, count: self.count, feed, waiting: VecDeque::new() }
    }
}

pub(super) struct Handle {
    kernel: Kernel,
    count: u16,
    feed: Option<Box<dyn Source>>,
    waiting: VecDeque<Vec<u8>>,
}

impl Control for Handle {
    fn info(&mut self, _port: &str) -> io::Result<PortInfo> {
        Ok(PortInfo { rx_rings: self.count, host_rx_rings: 1 })
    }

    fn register(&mut self, request: &Register) -> io::Result<Registered> {
        let (RingChoice::Card(ring), Way::Receive) = (request.ring, request.way) else {
            panic!("{request:?}")
        };
        let answer = self.kernel.register(false, ring, request.extra_buffers);
        let (offset, extra_buffers) = (answer.offset, answer.extra_buffers);
        Ok(Registered { offset, memory_bytes: answer.memory_bytes, extra_buffers })
    }

    fn map(&self, bytes: usize) -> Result<Mapping, SysError> {
        Mapping::shared(self.kernel.memory(), bytes)
    }

    fn sync(&mut self, _way: Way) -> io::Result<()> {
        let (feed, waiting) = (&mut self.feed, &mut self.waiting);
        self.kernel.receive(|| {
            if let (true, Some(feed)) = (waiting.is_empty(), &mut *feed)
                // An interface that is gone brings nothing more.
                && let Ok(Some(batch)) = feed.next_batch(Duration::ZERO)
            {
                waiting.extend(batch.iter().map(|frame| frame.bytes.to_vec()));
            }
            waiting.pop_front()
        });
        Ok(())
    }

    fn wait(&self, time: Duration) -> io::Result<()> {
        std::thread::sleep(time.min(Duration::from_micros(500)));
        Ok(())
    }
}
