//! The same frames through the kernel's own forwarding and through ours.

use crate::frames::any;
use crate::net::{Net, send};
use crate::routing::{Routing, options};
use crate::testbed::testbed;
use ringside_testkit::{Random, by_run, need_root, wait_until};
use std::collections::BTreeMap;
use std::time::Duration;

/// Where frames come out: the far ends of all interfaces of the testbed.
const FAR: [&str; 4] = ["a", "b", "c", "d"];

/// What came out where, with how often.
type Out = BTreeMap<(&'static str, Vec<u8>), u64>;

/// Answers that the host has made and could not send, or left out because there were too many.
fn unsent(net: &Net) -> u64 {
    let read = |file: &str| std::fs::read_to_string(format!("/proc/thread-self/net/{file}"));
    let (v4, v6) = net.inside("r", || (read("snmp").unwrap(), read("snmp6").unwrap()));
    let mut of_v4 = v4.lines().filter(|line| line.starts_with("Icmp: "));
    let (names, values) = (of_v4.next().unwrap(), of_v4.next().unwrap());
    let of_v4 = names.split(' ').zip(values.split(' '));
    let of_v6 = v6.lines().filter_map(|line| line.split_once(char::is_whitespace));
    let is_unsent = |name: &str| name.ends_with("OutErrors") || name.contains("OutRateLimit");
    let all = of_v4.chain(of_v6).filter(|(name, _)| name.contains("Out") && is_unsent(name));
    all.map(|(_, value)| value.trim().parse::<u64>().unwrap()).sum()
}

/// Sends the frames to `in0`, and gives what comes out, and how many answers the host left unsent.
fn through(net: &Net, frames: &[Vec<u8>]) -> (Out, u64) {
    let before = unsent(net);
    let taps = FAR.map(|far| (far, net.tap(far)));
    send(&net.transmitter("a", "far"), frames);
    let mut out = Out::new();
    let mut quiet = 0;
    // Until nothing has come for a while: what is on its way is done within microseconds.
    wait_until("the last frame", || {
        let mut is_new = false;
        for (far, tap) in &taps {
            for frame in tap.frames() {
                is_new = true;
                if let Some(frame) = essence(frame) {
                    *out.entry((*far, frame)).or_default() += 1;
                }
            }
        }
        quiet = if is_new { 0 } else { quiet + 1 };
        std::thread::sleep(Duration::from_millis(10));
        quiet >= 20
    });
    (out, unsent(net) - before)
}

/// True for an error that the router's host sends. Now and then it has no room for one, and counts
/// that.
fn is_answer(frame: &[u8]) -> bool {
    match [frame[12], frame[13]] {
        [0x08, 0x00] => frame[23] == 1 && frame[26] == 10 && frame[28..30] == [0, 1],
        _ => frame[20] == 58 && frame[54] < 128,
    }
}

/// A frame without what may differ; none of those that come by themselves or by the clock.
///
/// The kernel takes off what is behind a packet, where we leave it; and it numbers its own packets
/// of IPv4. How often it answers that something cannot be reached depends on the time.
fn essence(mut frame: Vec<u8>) -> Option<Vec<u8>> {
    if frame[0] & 1 == 1 {
        return None;
    }
    match [frame[12], frame[13]] {
        [0x08, 0x00] => {
            let bytes = usize::from(u16::from_be_bytes([frame[16], frame[17]]));
            frame.truncate(14 + bytes);
            let is_own = frame[26] == 10 && frame[28..30] == [0, 1];
            if is_own {
                frame[18..20].fill(0);
                frame[24..26].fill(0);
                if frame[23] == 1 && frame[34] == 3 && frame[35] != 4 {
                    return None;
                }
            }
            Some(frame)
        }
        [0x86, 0xdd] => {
            let bytes = usize::from(u16::from_be_bytes([frame[18], frame[19]]));
            frame.truncate(54 + bytes);
            // Unreachable, neighbour discovery, redirects.
            let is_kind = frame[54] == 1 || (133..=143).contains(&frame[54]);
            let is_noise = frame[20] == 58 && is_kind;
            (!is_noise).then_some(frame)
        }
        _ => None,
    }
}

#[test]
fn the_kernel_forwards_the_same_frames_in_the_same_way() {
    if !need_root("the_kernel_forwards_the_same_frames_in_the_same_way") {
        return;
    }
    let net = testbed();
    net.sysctl("r", "net.ipv4.icmp_ratemask", "0");
    // Of a type that no error has.
    net.sysctl("r", "net.ipv6.icmp.ratemask", "255");
    // Else the host's own packets have labels by chance.
    net.sysctl("r", "net.ipv6.auto_flowlabels", "0");
    for far in FAR {
        net.pass(far, "far");
    }
    let mut random = Random::new(10);
    let frames: Vec<Vec<u8>> = (0..by_run(2500, 10_000)).map(|_| any(&mut random)).collect();
    let (by_kernel, unsent_before) = through(&net, &frames);
    let routing = Routing::start(&net, "r", options(&["in0", "out0", "out1"]));
    let (by_us, unsent_then) = through(&net, &frames);
    let ledger = routing.stop();
    let keys = by_kernel.keys().chain(by_us.keys().filter(|key| !by_kernel.contains_key(*key)));
    let count = |out: &Out, key| out.get(key).copied().unwrap_or_default();
    let differing = keys
        .map(|key| (count(&by_kernel, key), count(&by_us, key), key))
        .filter(|(by_kernel, by_us, _)| by_kernel != by_us);
    let (answers, others): (Vec<_>, Vec<_>) = differing.partition(|(.., key)| is_answer(&key.1));
    let first = &others[..others.len().min(5)];
    assert!(others.is_empty(), "{} frames, {first:02x?}", others.len());
    let missing: u64 = answers.iter().map(|(kernel, us, _)| kernel.abs_diff(*us)).sum();
    let unsent = unsent_before + unsent_then;
    assert!(missing <= unsent, "of answers {missing} are missing, {unsent} unsent: {answers:02x?}");
    assert_eq!(ledger.balance(), Ok(()), "{ledger:#?}");
    let [from, to_b, to_c] = &ledger.interfaces[..] else { panic!("{ledger:#?}") };
    assert_eq!(from.received, frames.len() as u64, "{ledger:#?}");
    assert!(from.forwarded > from.received / 3, "{ledger:#?}");
    assert!(to_b.sent > 0 && to_c.sent > 0 && to_b.lost + to_c.lost == 0, "{ledger:#?}");
    for one in &ledger.interfaces {
        assert_eq!((one.device.send_errors, one.device.send_dropped), (0, 0), "{ledger:#?}");
        // The host's own frames are in this too.
        assert!(one.device.sent >= one.sent, "{ledger:#?}");
    }
}
