//! DPDK by drivers that need no card. The tests of a process share one EAL: each has devices of its
//! own names, that are taken and let go while it runs.

#![allow(clippy::unwrap_used)]

mod drivers;

use ringside_dpdk::{Opened, PortRequest, Queue, eal, release};
use ringside_testkit::wait_until;

/// True if DPDK is here and runs; else skips `test`.
fn need_dpdk(test: &str) -> bool {
    if let Err(error) = release() {
        ringside_testkit::skip(test, &error.to_string());
        return false;
    }
    eal::start(&eal::Memory::Ordinary { megabytes: 256 }).unwrap();
    true
}

fn request() -> PortRequest {
    PortRequest {
        receive_queues: 1,
        transmit_queues: 0,
        descriptors: 512,
        frames_per_queue: 2047,
        frame_bytes_max: 1522,
        mtu: None,
        promiscuous: false,
    }
}

fn open(device: &str, request: &PortRequest) -> Opened {
    ringside_dpdk::attach(device).unwrap().open(request).unwrap()
}

/// The bytes of the next `count` frames.
fn take(queue: &mut Queue, count: usize) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    wait_until("the frames", || {
        queue.receive();
        let memory = queue.memory();
        frames.extend(queue.frames().map(|frame| {
            assert_eq!(frame.bytes, frame.wire_bytes);
            memory[frame.offset..][..frame.bytes as usize].to_vec()
        }));
        frames.len() >= count
    });
    assert_eq!(frames.len(), count);
    frames
}
