//! Translated filters on packet sockets behind a veth pair: here the kernel really takes VLAN tags
//! out of the frames, and long frames really are not linear.

use crate::common::{captures, expressions, program};
use crate::pair::{Pair, send};
use ringside_core::LinkType;
use ringside_ebpf::socket_filter::{FilterCounters, SocketFilter};
use ringside_filter::Prepared;
use ringside_testkit::need_root;
use rustix::net::{RecvFlags, recv};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Longest frame on an interface with the largest MTU.
const FRAME_BYTES_MAX: usize = 65_535 + 14;

/// Frames that reach a packet socket: the kernel drops a tagged frame without room for a type
/// behind the tag, and the interface takes none that is longer or has no header.
fn reaches(bytes: &[u8]) -> bool {
    let tagged = matches!(bytes.get(12..14), Some([0x81, 0x00] | [0x88, 0xa8]));
    (if tagged { 20 } else { 14 }..=FRAME_BYTES_MAX).contains(&bytes.len())
}

#[test]
fn every_primitive_accepts_the_same_frames_from_the_wire() {
    let test = "live filters";
    if !need_root(test) {
        return;
    }
    let files: Vec<_> =
        captures(test).into_iter().filter(|f| f.link_type == LinkType::ETHERNET).collect();
    let pair = Pair::new("all");
    let programs: Vec<_> = expressions::all()
        .into_iter()
        .enumerate()
        .filter_map(|(at, text)| Some((text, program(text, LinkType::ETHERNET, at % 3 != 0)?)))
        .collect();
    let references: Vec<_> = programs.iter().map(|(_, p)| Prepared::new(p).unwrap()).collect();
    let filters: Vec<_> = programs
        .iter()
        .map(|(_, p)| SocketFilter::load(p, LinkType::ETHERNET, 0).unwrap())
        .collect();
    let sockets = pair.sockets(filters.len());
    for (filter, socket) in filters.iter().zip(&sockets) {
        filter.attach(socket).unwrap();
    }
    let transmitter = pair.transmitter();
    let mut expected = vec![FilterCounters::default(); filters.len()];
    let (mut sent, mut tagged) = (0, 0);
    for file in &files {
        let frames: Vec<&[u8]> =
            file.frames.iter().map(|f| &f.bytes[..]).filter(|bytes| reaches(bytes)).collect();
        // The last socket gets each frame last.
        send(&transmitter, &frames, filters.last().unwrap());
        sent += frames.len();
        tagged += frames.iter().filter(|bytes| bytes[12..14] == [0x81, 0]).count();
        for (at, filter) in filters.iter().enumerate() {
            let accepts = |bytes: &&&[u8]| references[at].accepts(bytes, bytes.len() as u32);
            expected[at].seen += frames.len() as u64;
            expected[at].accepted += frames.iter().filter(accepts).count() as u64;
            let counters = settled(filter, expected[at].seen);
            let text = programs[at].0;
            assert_eq!(counters, expected[at], "{text} on {}", file.path.display());
        }
    }
    eprintln!("{} filters, {sent} frames, {tagged} tagged", filters.len());
    assert!(files.is_empty() || (sent > 20_000 && tagged > 20 && filters.len() > 200));
}

fn settled(filter: &SocketFilter, seen: u64) -> FilterCounters {
    let start = Instant::now();
    loop {
        let counters = filter.counters().unwrap();
        if counters.seen >= seen || start.elapsed() > Duration::from_secs(20) {
            return counters;
        }
        std::thread::yield_now();
    }
}

/// A frame to no host with `tags` before an unknown type and a countable body.
fn frame(tags: &[u16], length: usize) -> Vec<u8> {
    let mut bytes = vec![2; 12];
    for (tpid, id) in [0x88a8u16, 0x8100, 0x8100][3 - tags.len()..].iter().zip(tags) {
        bytes.extend(tpid.to_be_bytes());
        bytes.extend((0x6000 | id).to_be_bytes());
    }
    bytes.extend([0x88, 0xb5]);
    let body = bytes.len()..length;
    bytes.extend(body.map(|at| (at * 7) as u8));
    bytes.truncate(length);
    bytes
}

#[test]
fn loads_round_the_tag_see_the_wire_and_reach_beyond_the_linear_part() {
    if !need_root("live tag borders") {
        return;
    }
    let mut frames = vec![frame(&[5], 20), frame(&[5], 21), frame(&[], 14), frame(&[], 15)];
    for length in [22, 60, 64, 128, 133, 1_514, 60_000] {
        frames.extend([&[][..], &[5], &[5, 6], &[4095, 1, 2]].map(|tags| frame(tags, length)));
    }
    let mut texts: Vec<String> = Vec::new();
    for offset in (0..30).chain([52, 53, 56, 59, 60, 61, 120, 124, 126, 127, 128, 129, 1_510]) {
        for size in [1, 2, 4] {
            let value = &frames[9][..]; // One tag, 60 bytes.
            let field = value.get(offset..offset + size).unwrap_or(&[0x37; 4][..size]);
            let number = field.iter().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
            texts.push(format!("ether[{offset}:{size}] = {number}"));
            // The same by an indirect load: the first byte of every frame is 2.
            if let Some(rest) = offset.checked_sub(2) {
                texts.push(format!("ether[ether[0] + {rest}:{size}] <= {number}"));
            }
        }
    }
    let at_59990 = format!("{:#x}", (59_990usize * 7) as u8);
    texts.push(format!("ether[59990] = {at_59990}"));
    texts.extend(
        ["len = 60", "len > 1000", "ether[len - 1] > 99", "ether[len - 4:4] > 0x80000000"]
            .map(String::from),
    );
    let pair = Pair::new("tag");
    let sockets = pair.sockets(texts.len());
    let transmitter = pair.transmitter();
    let filters: Vec<_> = texts
        .iter()
        .zip(&sockets)
        .map(|(text, socket)| {
            let classic = program(text, LinkType::ETHERNET, true).unwrap();
            let filter = SocketFilter::load(&classic, LinkType::ETHERNET, 0).unwrap();
            filter.attach(socket).unwrap();
            (text, Prepared::new(&classic).unwrap(), filter)
        })
        .collect();
    let mut accepted = vec![0; filters.len()];
    for (number, bytes) in frames.iter().enumerate() {
        send(&transmitter, &[bytes], &filters.last().unwrap().2);
        for ((text, reference, filter), accepted) in filters.iter().zip(&mut accepted) {
            *accepted += u64::from(reference.accepts(bytes, bytes.len() as u32));
            let counters = settled(filter, number as u64 + 1);
            let (seen, length) = (number as u64 + 1, bytes.len());
            assert_eq!(
                counters,
                FilterCounters { seen, accepted: *accepted, ..FilterCounters::default() },
                "{text} on frame {number} of {length} bytes"
            );
        }
    }
    assert!(accepted.iter().filter(|count| **count > 0).count() > texts.len() / 2);
    assert!(accepted[texts.iter().position(|text| text.contains("59990")).unwrap()] >= 4);
}

/// The next frame, as the kernel gives it.
fn receive(socket: &OwnedFd) -> Vec<u8> {
    let mut buffer = [0u8; 200];
    let start = Instant::now();
    loop {
        match recv(socket, &mut buffer[..], RecvFlags::empty()) {
            Ok((length, _)) => return buffer[..length].to_vec(),
            Err(error) => {
                assert_eq!(error, rustix::io::Errno::AGAIN);
                assert!(start.elapsed() < Duration::from_secs(20), "no frame came");
                std::thread::yield_now();
            }
        }
    }
}

#[test]
fn a_tagged_frame_is_cut_so_that_it_has_the_snapshot_length_with_its_tag() {
    if !need_root("live snaplen") {
        return;
    }
    let pair = Pair::new("cut");
    let snaplens = [0u32, 1, 5, 12, 13, 14, 15, 16, 17, 60, 96, 100, 101, 65_535];
    let sockets = pair.sockets(snaplens.len());
    let transmitter = pair.transmitter();
    let filters: Vec<_> = snaplens
        .iter()
        .zip(&sockets)
        .map(|(snaplen, socket)| {
            let filter = SocketFilter::load_accept_all(LinkType::ETHERNET, *snaplen).unwrap();
            filter.attach(socket).unwrap();
            filter
        })
        .collect();
    for tags in [&[][..], &[5], &[5, 6]] {
        let sent = frame(tags, 100);
        send(&transmitter, &[&sent], filters.last().unwrap());
        for (snaplen, socket) in snaplens.iter().zip(&sockets) {
            let mut bytes = receive(socket);
            let length = bytes.len();
            // What a reader does: the tag goes back behind the addresses, then the limit holds.
            if !tags.is_empty() && length >= 12 {
                bytes.splice(12..12, sent[12..16].iter().copied());
            }
            let limit = if *snaplen == 0 { usize::MAX } else { *snaplen as usize };
            // Only a limit within the tag, or at it, leaves a few bytes to cut.
            if !(12..16).contains(&limit) {
                assert!(bytes.len() <= limit, "snaplen {snaplen} needs no cut");
            }
            bytes.truncate(limit);
            assert_eq!(bytes, sent[..limit.min(sent.len())], "snaplen {snaplen}, tags {tags:?}");
        }
    }
}
