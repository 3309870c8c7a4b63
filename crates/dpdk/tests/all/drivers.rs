//! What the drivers without a card do.

use crate::*;

/// Frames of every length, each with its number.
fn numbered(count: u32) -> Vec<Vec<u8>> {
    let frame = |number: u32| {
        let mut frame = number.to_be_bytes().to_vec();
        frame.resize(14 + number as usize * 37 % 1500, number as u8);
        frame
    };
    (0..count).map(frame).collect()
}

/// The ring of net_ring hands what was sent to the receiver, in memory of the sender's.
#[test]
fn what_a_ring_is_given_comes_out_of_it() {
    if !need_dpdk("what_a_ring_is_given_comes_out_of_it") {
        return;
    }
    let request = PortRequest { transmit_queues: 1, ..request() };
    let mut opened = open("net_ring0", &request);
    let (queue, sender) = (&mut opened.queues[0], &mut opened.senders[0]);
    let frames = numbered(20_000);
    for piece in frames.chunks(200) {
        for frame in piece {
            assert!(sender.put(frame.len(), |room| room.copy_from_slice(frame)));
        }
        assert_eq!(sender.flush(), piece.len());
        assert!(take(queue, piece.len()) == piece);
    }
    let counters = opened.port.counters().unwrap();
    assert_eq!((counters.received, counters.sent), (20_000, 20_000));
    assert!(!sender.put(2_000, |_| unreachable!("it is longer than a frame's room")));
    // What the ring holds is there after the end, and nothing that comes later.
    for (at, frame) in frames[..300].iter().enumerate() {
        if at == 200 {
            assert_eq!(sender.flush(), 200);
            assert_eq!((queue.waiting(), queue.finish()), (200, 200));
        }
        if at < 256 {
            assert!(sender.put(frame.len(), |room| room.copy_from_slice(frame)));
        }
    }
    assert_eq!(sender.flush(), 56);
    assert!(take(queue, 200) == frames[..200]);
    assert_eq!(queue.receive(), 0);
}

/// A driver that always has a frame: its frames lie in the queue's own memory.
#[test]
fn endless_frames_are_lent_and_given_back() {
    if !need_dpdk("endless_frames_are_lent_and_given_back") {
        return;
    }
    let mut opened = open("net_null0,size=60,copy=1", &request());
    let queue = &mut opened.queues[0];
    // Many times the memory: all of it comes back.
    let mut count = 0;
    while count < 50_000 {
        let burst = queue.receive();
        assert!(burst > 0, "{count}");
        count += burst;
        assert!(queue.frames().all(|frame| frame.bytes == 60));
        assert!(queue.frames().all(|frame| frame.offset + 60 <= queue.memory().len()));
    }
    queue.discard();
    // The end takes what there is room for, once.
    let rest = queue.finish();
    assert!((1_000..=2_047 + 256).contains(&rest), "{rest}");
    let mut lent = 0;
    while queue.receive() > 0 {
        lent += queue.frames().count();
    }
    assert_eq!(lent, rest);
    let twice = ringside_dpdk::attach("net_null0").err().unwrap().to_string();
    assert!(twice.contains("already"), "{twice}");
    drop(opened);
    // The device was let go: there is one of that name again.
    assert!(open("net_null0,size=60", &request()).queues[0].receive() > 0);
}

/// Every frame of a real capture, byte for byte, on as many threads as there are queues.
#[test]
fn captures_come_as_they_are() {
    if !need_dpdk("captures_come_as_they_are") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let frames = numbered(1_000);
    let mut words = "net_pcap0".to_owned();
    for queue in 0..2 {
        let path = folder.path().join(format!("{queue}.pcap"));
        std::fs::write(&path, capture_of(&frames)).unwrap();
        words.push_str(&format!(",rx_pcap={}", path.display()));
    }
    let opened = open(&words, &PortRequest { receive_queues: 2, ..request() });
    std::thread::scope(|scope| {
        for mut queue in opened.queues {
            let frames = &frames;
            scope.spawn(move || {
                assert!(take(&mut queue, frames.len()) == *frames);
                assert_eq!(queue.receive(), 0, "a file's end is a silent device");
            });
        }
    });
    assert_eq!(opened.port.counters().unwrap().received, 2_000);
}

/// A pcap file of microseconds, in this machine's order.
fn capture_of(frames: &[Vec<u8>]) -> Vec<u8> {
    let words = [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65_535, 1];
    let mut bytes: Vec<u8> = words.into_iter().flat_map(u32::to_ne_bytes).collect();
    for (number, frame) in (0u32..).zip(frames) {
        let length = frame.len() as u32;
        bytes.extend([number, 7, length, length].into_iter().flat_map(u32::to_ne_bytes));
        bytes.extend(frame);
    }
    bytes
}

#[test]
fn what_no_driver_takes_is_refused_in_words() {
    if !need_dpdk("what_no_driver_takes_is_refused_in_words") {
        return;
    }
    for device in ["net_none0", "0000:ff:1f.7", "net_pcap9,rx_pcap=/none", "net\0ring", ""] {
        let error = match ringside_dpdk::attach(device) {
            Err(error) => error,
            Ok(attached) => attached.open(&request()).err().unwrap(),
        };
        assert!(!error.to_string().is_empty(), "{error}");
    }
    let attached = ringside_dpdk::attach("net_null7").unwrap();
    let many = PortRequest { frames_per_queue: 1 << 24, ..request() };
    let error = attached.open(&many).err().unwrap().to_string();
    assert!(error.contains("no memory for 16777216 frames"), "{error}");
}

/// EAL's thread has no rights left, and devices are opened all the same.
#[test]
fn the_threads_of_dpdk_give_their_rights_up() {
    if !need_dpdk("the_threads_of_dpdk_give_their_rights_up") {
        return;
    }
    eal::limit_threads().unwrap();
    let rights = |name: &str| {
        let threads = std::fs::read_dir("/proc/self/task").unwrap();
        let statuses = threads
            .flatten()
            .filter_map(|thread| std::fs::read_to_string(thread.path().join("status")).ok());
        let found: Vec<String> = statuses.filter(|text| text.contains(name)).collect();
        assert!(!found.is_empty(), "no thread {name}");
        found
    };
    for status in rights("eal-intr-thread") {
        for line in ["CapEff:\t0000000000000000", "CapPrm:\t0000000000000000", "NoNewPrivs:\t1"] {
            assert!(status.contains(line), "{status}");
        }
    }
    assert!(open("net_null8", &request()).queues[0].receive() > 0);
}
