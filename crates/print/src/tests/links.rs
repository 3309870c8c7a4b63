//! Frames of links that captures seldom hold, built here, next to tcpdump's lines of them.

use super::{built, ip, lines, tcpdump};
use crate::{Bytes, HexDump, PrintOptions, TimeStyle};
use ringside_core::LinkType;
use ringside_testkit::need_tool;

const SNAP: [u8; 8] = [0xaa, 0xaa, 3, 0, 0, 0, 8, 0];
const ADDRESSES: [[u8; 6]; 4] =
    [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 3], [2, 0, 0, 0, 0, 4]];

/// A datagram in IPv4.
fn packet() -> Vec<u8> {
    ip(4, 17, &[0x10, 0x92, 0x10, 0x93, 0, 10, 0, 0, 7, 7], 0)
}

/// Our options, and tcpdump's.
type Style = (PrintOptions, Vec<&'static str>);

/// The styles in which whole texts are compared.
fn styles() -> Vec<Style> {
    let plain = PrintOptions { time: TimeStyle::Epoch, ..PrintOptions::default() };
    vec![
        (plain, vec![]),
        (PrintOptions { link_header: true, ..plain }, vec!["-e"]),
        (PrintOptions { link_header: true, verbosity: 1, ..plain }, vec!["-e", "-v"]),
        (PrintOptions { link_header: true, quick: true, ..plain }, vec!["-e", "-q"]),
    ]
}

/// All texts of the frames in all styles are tcpdump's.
fn same(test: &str, link: LinkType, packets: &[Vec<u8>]) {
    same_in(test, link, packets, &styles());
}

/// As [`same`], in these styles.
fn same_in(test: &str, link: LinkType, packets: &[Vec<u8>], styles: &[Style]) {
    if !need_tool(test, "tcpdump") {
        return;
    }
    let (frames, path) = built(link, packets);
    let mut differ = Vec::new();
    for (options, args) in styles {
        let ours = lines(&frames, options);
        let nanos = [&["--time-stamp-precision=nano"][..], args].concat();
        let theirs = tcpdump(&path, &nanos);
        assert_eq!(ours.len(), theirs.len());
        for (ours, theirs) in ours.iter().zip(&theirs).filter(|(ours, theirs)| ours != theirs) {
            differ.push(format!("{args:?}\n{ours}\n{theirs}\n"));
        }
    }
    assert!(differ.is_empty(), "{} differ:\n{}", differ.len(), differ.join("\n"));
}

/// A header of 802.11: frame control, addresses as many as given.
fn wlan(kind: u8, flags: u8, addresses: usize, behind: &[u8]) -> Vec<u8> {
    let three = addresses.min(3);
    let sequence: &[u8] = if addresses > 2 { &[0x10, 0] } else { &[] };
    let head = [&[kind, flags, 0x3a, 1][..], &ADDRESSES[..three].concat(), sequence].concat();
    [&head[..], &ADDRESSES[three..addresses].concat(), behind].concat()
}

/// Elements: name, rates, channel.
const ELEMENTS: [u8; 18] =
    [0, 4, b'h', b'o', 0xe9, b'e', 1, 4, 0x82, 0x84, 11, 22, 3, 1, 6, 221, 1, 9];

/// Frames that manage a network.
pub(super) fn management() -> Vec<Vec<u8>> {
    let time = [1, 2, 3, 4, 5, 6, 7, 8, 100, 0];
    let beacon = |capabilities: u8| [&time[..], &[capabilities, 0], &ELEMENTS].concat();
    let bodies: Vec<(u8, Vec<u8>)> = vec![
        (0x00, [&[0x11, 0, 5, 0][..], &ELEMENTS].concat()),
        (0x10, [&[0x11, 0, 0, 0, 1, 0xc0][..], &ELEMENTS].concat()),
        (0x10, vec![1, 0, 1, 0, 1, 0xc0]),
        (0x20, [&[0x11, 0, 5, 0][..], &ADDRESSES[3], &ELEMENTS].concat()),
        (0x30, [&[0x11, 0, 0, 0, 1, 0xc0][..], &ELEMENTS].concat()),
        (0x40, ELEMENTS.to_vec()),
        (0x40, vec![0, 0, 1, 8, 0x82]),
        (0x50, beacon(0x31)),
        (0x80, beacon(0x11)),
        (0x80, beacon(0x02)),
        (0x80, time[..5].to_vec()),
        (0x80, [&beacon(1)[..], &[0, 9, b'x']].concat()),
        (0x90, vec![]),
        (0xa0, vec![4, 0]),
        (0xa0, vec![4]),
        (0xb0, vec![0, 0, 1, 0, 0, 0]),
        (0xb0, vec![0, 0, 2, 0, 0, 0]),
        (0xb0, vec![1, 0, 3, 0, 1, 0]),
        (0xb0, vec![9, 0, 1, 0, 1, 0]),
        (0xc0, vec![7, 0]),
        (0xd0, vec![3, 0, 1]),
        (0xd0, vec![3, 1, 1]),
        (0xd0, vec![3, 2, 1]),
        (0xd0, vec![7, 0]),
        (0xd0, vec![0, 4]),
        (0xd0, vec![200, 4]),
        (0xe0, vec![1]),
    ];
    bodies.iter().map(|(kind, body)| wlan(*kind, 0, 3, body)).collect()
}

#[test]
fn what_manages_a_wireless_network() {
    same("what_manages_a_wireless_network", LinkType::IEEE802_11, &management());
}

#[test]
fn what_controls_a_wireless_network() {
    let mut frames = vec![
        wlan(0x84, 0, 2, &[5, 0, 0x10, 0x20]),
        wlan(0xa4, 0x10, 2, &[]),
        wlan(0xb4, 0, 2, &[]),
        wlan(0xc4, 0, 1, &[]),
        wlan(0xd4, 0x08, 1, &[]),
        wlan(0xe4, 0, 2, &[]),
        wlan(0xf4, 0, 2, &[]),
        wlan(0x14, 0, 2, &[]),
        wlan(0x0c, 0, 2, &[]),
    ];
    frames.push(wlan(0xb4, 0, 1, &[]));
    frames.push(vec![0xb4]);
    same("what_controls_a_wireless_network", LinkType::IEEE802_11, &frames);
}

#[test]
fn what_a_wireless_network_carries() {
    let packet = [&SNAP[..], &packet()].concat();
    let mut arp = [&SNAP[..6], &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]].concat();
    arp.extend([&ADDRESSES[0][..], &[10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2]].concat());
    let frames = [
        wlan(0x08, 0x00, 3, &packet),
        wlan(0x08, 0x01, 3, &packet),
        wlan(0x08, 0x0a, 3, &packet),
        wlan(0x08, 0x03, 4, &packet),
        wlan(0x88, 0x02, 3, &[&[5, 0][..], &packet].concat()),
        wlan(0x18, 0x21, 3, &packet),
        wlan(0x38, 0x11, 3, &packet),
        wlan(0x08, 0x01, 3, &arp),
        wlan(0x48, 0x11, 3, &[]),
        wlan(0x08, 0x41, 3, &[1, 2, 3, 0x40, 9, 9, 9, 9]),
        wlan(0x08, 0x41, 3, &[1, 2, 3]),
        wlan(0x08, 0x01, 3, &[0xaa, 0xaa, 3, 0, 0, 0, 0x12, 0x34, 5, 6]),
        wlan(0x08, 0x02, 3, &[0xf0, 0xf0, 3, 5, 6]),
        wlan(0x08, 0x02, 3, &[0xe0, 0xf0, 3, 5, 6]),
    ];
    same("what_a_wireless_network_carries", LinkType::IEEE802_11, &frames);
}

#[test]
fn what_a_radio_says() {
    let radio = |present: u32, fields: &[u8]| {
        let mut header = vec![0, 0];
        header.extend((8 + fields.len() as u16).to_le_bytes());
        header.extend(present.to_le_bytes());
        header.extend(fields);
        header
    };
    let channel = |low: u8, high: u8| radio(8, &[0x85, 9, low, high]);
    let mut headers = vec![
        radio(0, &[]),
        radio(1, &[1, 2, 3, 4, 5, 6, 7, 8]),
        radio(0x6, &[0x4f, 11]),
        radio(0x4, &[0x83]),
        radio(0x60, &[200, 160]),
        radio(0x80, &[1, 2]),
        radio(0x100, &[1, 2]),
        radio(0x1c00, &[250, 2, 30]),
        radio(0x6000, &[40, 0, 1, 0]),
        radio(0x4_0000, &[0x40, 1, 2, 0, 0x3c, 0x14, 36, 40]),
        radio(0x10_0000, &[1, 2, 3, 4, 5, 6, 7, 8]),
        radio(0x20_0000, &[0xff, 1, 4, 4, 0x91, 0x22, 0, 0, 2, 1, 5, 6]),
        radio(0x20_0000, &[0x40, 0, 0, 11, 0x91, 0, 0, 0, 0, 1, 5, 6]),
        radio(0x1000_0000, &[1, 2]),
        radio(0x8_0008, &[0x85, 9, 0xa0, 0, 0x3f, 0x1d, 7]),
        radio(1, &[1, 2]),
    ];
    headers
        .extend([(0x80, 0x08), (0x40, 0x01), (0xc0, 0), (0x80, 0x04)].map(|(a, b)| channel(a, b)));
    headers.extend([(0xa0, 0), (0xb0, 0), (0x40, 0x41), (0x80, 0x84)].map(|(a, b)| channel(a, b)));
    for known in [0x02, 0x03, 0x07, 0x3f] {
        for (flags, index) in [(0, 0), (1, 7), (5, 15), (0x7e, 31), (4, 3), (2, 100)] {
            headers.push(radio(0x8_0000, &[known, flags, index]));
        }
    }
    let data = wlan(0x08, 0x01, 3, &[&SNAP[..], &packet()].concat());
    let mut frames: Vec<_> = headers.iter().map(|radio| [&radio[..], &data].concat()).collect();
    let quality = wlan(0x88, 0x02, 3, &[&[5, 0, 0, 0][..], &SNAP, &packet(), &[9; 4]].concat());
    frames.push([&radio(2, &[0x30])[..], &quality].concat());
    let beacon = [&management()[8][..], &[1, 2, 3, 4]].concat();
    frames.push([&radio(2, &[0x10])[..], &beacon].concat());
    frames.push(radio(2, &[0x10]));
    frames.push(vec![0, 0, 90, 0, 0, 0, 0, 0, 0]);
    same("what_a_radio_says", LinkType::IEEE802_11_RADIOTAP, &frames);
}

#[test]
fn frame_relay_is_tcpdumps() {
    let packet = packet();
    let frames: Vec<Vec<u8>> = [
        &[0x18, 0x41, 3, 0xcc][..],
        &[0x1a, 0x4f, 3, 0xcc],
        &[0x18, 0x41, 8, 0],
        &[0x18, 0x40, 0x81, 3, 0, 0xcc],
        &[0x18, 0x40, 2, 0x0f, 3, 0xcc],
        &[0x18, 0x41, 3, 0x80, 0, 0, 0, 8, 0],
        &[0x18, 0x41, 3, 0x44],
        &[0x18, 0x41, 3],
        &[0x19, 0x41, 3, 0xcc],
    ]
    .iter()
    .map(|head| [head, &packet[..]].concat())
    .collect();
    same("frame_relay_is_tcpdumps", LinkType::FRELAY, &frames);
}

#[test]
fn logs_of_the_kernel_are_tcpdumps() {
    let packet = packet();
    let log = |family: u8, packet: &[u8]| {
        let length = (4 + packet.len() as u16).to_le_bytes();
        let head = [family, 0, 0, 7, 6, 0, 10, 0, b'x', 0, 0, 0, length[0], length[1], 9, 0];
        let padding = vec![0; packet.len().next_multiple_of(4) - packet.len()];
        [&head[..], packet, &padding].concat()
    };
    let frames = [
        log(2, &packet),
        log(10, &ip(6, 17, &[0x10, 0x92, 0x10, 0x93, 0, 8, 0, 0], 0)),
        log(7, &[1, 2, 3, 4]),
    ];
    same("logs_of_the_kernel_are_tcpdumps", LinkType::NFLOG, &frames);
}

#[test]
fn fddi_is_tcpdumps() {
    let frame = |control: u8, behind: &[u8]| {
        [&[control][..], &ADDRESSES[0], &ADDRESSES[1], behind].concat()
    };
    let frames = [
        frame(0x54, &[&SNAP[..], &packet()].concat()),
        frame(0x50, &[0xf0, 0xe0, 3, 1, 2]),
        frame(0xc2, &[1, 2, 3]),
        frame(0xd1, &[1, 2, 3]),
        frame(0x80, &[]),
        frame(0x13, &[1]),
    ];
    same("fddi_is_tcpdumps", LinkType::FDDI, &frames);
}

#[test]
fn tags_of_switches_are_tcpdumps() {
    let packet = packet();
    for (link, extra) in
        [(LinkType::DSA_TAG_DSA, &[][..]), (LinkType::DSA_TAG_EDSA, &[0xda, 0xda, 1, 2])]
    {
        let mut frames = Vec::new();
        for first in [0x03, 0x43, 0x83, 0xc3, 0xe3] {
            for second in [0x28, 0x2c, 0x2b] {
                let tag = [first, second, 0xb1, 0x23];
                let head = [&ADDRESSES[0][..], &ADDRESSES[1], extra, &tag].concat();
                frames.push([&head[..], &[8, 0], &packet].concat());
                frames.push([&head[..], &[0x12, 0x34, 1, 2, 3]].concat());
            }
        }
        same("tags_of_switches_are_tcpdumps", link, &frames);
    }
}

/// The layers have their names in JSON, and the line is there as a summary.
#[test]
fn json_names_the_layers_of_a_wireless_frame() {
    let radio = [0, 0, 9, 0, 4, 0, 0, 0, 11];
    let data = wlan(0x08, 0x01, 3, &[&SNAP[..], &packet()].concat());
    let frame = super::frame(&[&radio[..], &data].concat());
    let link = LinkType::IEEE802_11_RADIOTAP;
    let json = super::packet_json(&frame.as_frame(), link, &Default::default());
    let expected = ["radiotap", "ieee80211", "llc", "snap", "ipv4", "udp"];
    assert_eq!((&json["layers"], &json["src_port"]), (&expected.as_slice().into(), &4242.into()));
}

/// Bytes are shown from the network header on.
#[test]
fn bytes_begin_behind_the_headers_of_the_link() {
    let bytes = Bytes { dump: HexDump::Plain, with_link_header: false };
    let options = PrintOptions { time: TimeStyle::Epoch, bytes, ..PrintOptions::default() };
    let style = [(options, vec!["-x"])];
    let (packet, snap) = (packet(), [&SNAP[..], &packet()].concat());
    let addresses = ADDRESSES[..2].concat();
    let behind = |head: &[u8], rest: &[u8]| vec![[head, rest].concat()];
    let radio = [0, 0, 9, 0, 4, 0, 0, 0, 11];
    let data = wlan(0x08, 0x01, 3, &snap);
    let ring = [&[0x54][..], &addresses].concat();
    let tagged = [&addresses[..], &[0x43, 0x28, 0, 1, 8, 0]].concat();
    let test = "bytes_begin_behind_the_headers_of_the_link";
    for (link, frames) in [
        (LinkType::IEEE802_11_RADIOTAP, behind(&radio, &data)),
        (LinkType::IEEE802_11, behind(&data, &[])),
        (LinkType::FDDI, behind(&ring, &snap)),
        (LinkType::DSA_TAG_DSA, behind(&tagged, &packet)),
        (LinkType::FRELAY, behind(&[0x18, 0x41, 3, 0xcc], &packet)),
    ] {
        same_in(test, link, &frames, &style);
    }
}
