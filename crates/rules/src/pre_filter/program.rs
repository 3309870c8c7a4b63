//! A tree of questions as a classic BPF program.
//!
//! It reads what nearly all frames are: Ethernet with up to two tags, IPv4 without options or IPv6
//! without extension headers, and whole headers of TCP, UDP and SCTP, as `wire` reads them. Of any
//! other frame, and of one whose headers contradict themselves or lie beyond the snapshot length,
//! it does not know what the rules would see: it accepts. No load of it can reach beyond a frame.

use super::assembler::{Alu, Assembler, Label, Test, With};
use super::shape::{DESTINATION, DESTINATION_PORT, PROTOCOL, SOURCE, SOURCE_PORT, WORDS};
use super::tree::{Next, Question, Tree};
use crate::key::NO_PORT;
use ringside_core::LinkType;
use ringside_core::bpf::ClassicProgram;
use ringside_wire::{EtherType, Ethernet, IpProtocol, Ipv4, Ipv6, Sctp, Tcp, Udp, Vlan};

/// Tags that are looked behind.
const TAGS_MAX: u32 = 2;

/// Longest header of TCP.
const TCP_BYTES_MAX: u32 = 60;

/// Shortest frame, and snapshot length, of which anything is known: one with the whole header of
/// IPv4 and no tag. With them types behind two tags are there too.
pub(super) const BYTES_MIN: u32 = (Ethernet::BYTES + Ipv4::BYTES_MIN) as u32;

/// Which trees decide, and about which frames.
pub(super) struct Parts<'t> {
    pub(super) link: LinkType,
    /// Bytes of a frame that the rules see.
    pub(super) snaplen: u32,
    pub(super) v4: &'t Tree,
    pub(super) v6: &'t Tree,
    /// Frames without IP are accepted.
    pub(super) others: bool,
}

/// The program: not 0 for a frame that some rule may match.
pub(super) fn program(parts: &Parts<'_>) -> ClassicProgram {
    let mut code = Assembler::default();
    let ends = Ends { accept: code.label(), reject: code.label() };
    let [v4, v6] = [parts.v4, parts.v6].map(|tree| {
        let label = code.label();
        Version { asked: tree.asked_words(), decide: label }
    });
    let mut writer = Writer { code, snaplen: parts.snaplen, ends, v4, v6 };
    if parts.link == LinkType::ETHERNET {
        writer.ethernet(parts.others);
    } else {
        writer.raw();
    }
    writer.decide(writer.v4.decide, parts.v4);
    writer.decide(writer.v6.decide, parts.v6);
    let Writer { mut code, ends, .. } = writer;
    code.here(ends.accept);
    code.end(u32::MAX);
    code.here(ends.reject);
    code.end(0);
    code.finish()
}

#[derive(Clone, Copy)]
struct Ends {
    accept: Label,
    reject: Label,
}

/// What is asked about packets of a version of IP, and where.
#[derive(Clone, Copy)]
struct Version {
    asked: [bool; WORDS],
    decide: Label,
}

impl Version {
    fn asks_ports(&self) -> bool {
        self.asked[SOURCE_PORT] || self.asked[DESTINATION_PORT]
    }

    fn asks_protocol(&self) -> bool {
        self.asked[PROTOCOL] || self.asks_ports()
    }
}

struct Writer {
    code: Assembler,
    snaplen: u32,
    ends: Ends,
    v4: Version,
    v6: Version,
}

/// Offsets in a frame.
#[derive(Clone, Copy)]
struct Offsets {
    /// Of what follows the IP header.
    transport: u32,
    /// From where on the length of the packet, which is in X, counts.
    length_from: u32,
}

impl Writer {
    fn ethernet(&mut self, others: bool) {
        self.need_bytes(BYTES_MIN);
        // A destination of Cisco ISL: another frame begins behind it (`Isl::is_isl`).
        self.code.word(0);
        self.code.alu(Alu::And, 0x00ff_ffff);
        self.code.when(Test::Equal, With::Value(0x0000_0c00), self.ends.accept);
        let arp = self.code.label();
        let mut blocks = Vec::new();
        for tags in 0..=TAGS_MAX {
            let offset = Ethernet::BYTES as u32 + tags * Vlan::BYTES as u32;
            let (v4, v6, tag) = (self.code.label(), self.code.label(), self.code.label());
            self.code.half(offset - 2);
            self.code.when(Test::Equal, With::Value(EtherType::IPV4.0.into()), v4);
            self.code.when(Test::Equal, With::Value(EtherType::IPV6.0.into()), v6);
            self.code.when(Test::Equal, With::Value(EtherType::ARP.0.into()), arp);
            if tags < TAGS_MAX {
                for tpid in [EtherType::VLAN, EtherType::QINQ, EtherType::QINQ_OLD] {
                    self.code.when(Test::Equal, With::Value(tpid.0.into()), tag);
                }
            }
            self.code.jump(self.ends.accept);
            self.code.here(tag);
            blocks.push((offset, v4, v6));
        }
        for (offset, v4, v6) in blocks {
            self.code.here(v4);
            self.ipv4(offset);
            self.code.here(v6);
            self.ipv6(offset);
        }
        // ARP is not IP, whatever its header says.
        self.code.here(arp);
        self.code.jump(if others { self.ends.accept } else { self.ends.reject });
    }

    /// Frames that begin with an IP header.
    fn raw(&mut self) {
        self.need_bytes(Ipv4::BYTES_MIN as u32);
        let v6 = self.code.label();
        self.code.byte(0);
        self.code.alu(Alu::Right, 4);
        self.code.when(Test::Equal, With::Value(6), v6);
        self.ipv4(0);
        self.code.here(v6);
        self.ipv6(0);
    }

    /// Accepts a frame that has fewer than `bytes` bytes for the rules to see.
    fn need_bytes(&mut self, bytes: u32) {
        if bytes > self.snaplen {
            self.code.jump(self.ends.accept);
        }
        self.code.length();
        self.code.unless(Test::AtLeast, With::Value(bytes), self.ends.accept);
    }

    fn ipv4(&mut self, ip: u32) {
        let version = self.v4;
        let header = Ipv4::BYTES_MIN as u32;
        self.need_bytes(ip + header);
        self.code.byte(ip);
        self.code.unless(Test::Equal, With::Value(0x45), self.ends.accept);
        self.code.half(ip + 2);
        self.code.unless(Test::AtLeast, With::Value(header), self.ends.accept);
        self.code.set_x();
        self.keep(&version, SOURCE, 1, ip + 12);
        self.keep(&version, DESTINATION, 1, ip + 16);
        if version.asks_protocol() {
            let later_fragment = self.code.label();
            self.code.half(ip + 6);
            self.code.alu(Alu::And, 0x1fff);
            self.code.unless(Test::Equal, With::Value(0), later_fragment);
            let offsets = Offsets { transport: ip + header, length_from: ip };
            self.protocol(&version, offsets, ip + 9, &[IpProtocol::AUTH]);
            self.code.here(later_fragment);
            self.code.byte(ip + 9);
            self.code.store(PROTOCOL);
            self.no_ports(&version);
        }
        self.code.jump(version.decide);
    }

    fn ipv6(&mut self, ip: u32) {
        let version = self.v6;
        let header = Ipv6::BYTES as u32;
        self.need_bytes(ip + header);
        self.code.byte(ip);
        self.code.alu(Alu::Right, 4);
        self.code.unless(Test::Equal, With::Value(6), self.ends.accept);
        self.keep(&version, SOURCE, 4, ip + 8);
        self.keep(&version, DESTINATION, 4, ip + 24);
        if version.asks_protocol() {
            self.code.half(ip + 4);
            self.code.when(Test::Equal, With::Value(0), self.ends.accept);
            self.code.set_x();
            let offsets = Offsets { transport: ip + header, length_from: ip + header };
            let extensions = [
                IpProtocol::HOP_BY_HOP,
                IpProtocol::ROUTING,
                IpProtocol::FRAGMENT,
                IpProtocol::AUTH,
                IpProtocol::DESTINATION_OPTIONS,
            ];
            self.protocol(&version, offsets, ip + 6, &extensions);
        }
        self.code.jump(version.decide);
    }

    /// Keeps the words of an address that are asked about.
    fn keep(&mut self, version: &Version, first: usize, words: usize, offset: u32) {
        for (at, word) in (0u32..).zip(first..first + words) {
            if version.asked[word] {
                self.code.word(offset + 4 * at);
                self.code.store(word);
            }
        }
    }

    /// Keeps protocol and ports, and goes on to the questions. Behind `extensions` there is another
    /// protocol than the header names.
    fn protocol(
        &mut self,
        version: &Version,
        offsets: Offsets,
        at: u32,
        extensions: &[IpProtocol],
    ) {
        self.code.byte(at);
        self.code.store(PROTOCOL);
        for extension in extensions {
            self.code.when(Test::Equal, With::Value(extension.0.into()), self.ends.accept);
        }
        if version.asks_ports() {
            let transports = [
                (IpProtocol::TCP, Tcp::BYTES_MIN),
                (IpProtocol::UDP, Udp::BYTES),
                (IpProtocol::SCTP, Sctp::BYTES),
            ];
            let labels = transports.map(|_| self.code.label());
            for ((protocol, _), label) in transports.into_iter().zip(labels) {
                self.code.when(Test::Equal, With::Value(protocol.0.into()), label);
            }
            self.no_ports(version);
            self.code.jump(version.decide);
            for ((protocol, bytes), label) in transports.into_iter().zip(labels) {
                self.code.here(label);
                self.ports(offsets, protocol, bytes as u32);
                self.code.jump(version.decide);
            }
        } else {
            self.code.jump(version.decide);
        }
    }

    fn no_ports(&mut self, version: &Version) {
        if version.asks_ports() {
            self.code.constant(NO_PORT);
            self.code.store(SOURCE_PORT);
            self.code.store(DESTINATION_PORT);
        }
    }

    /// Keeps the ports of a transport header of at least `bytes` bytes, if it is whole and right.
    fn ports(&mut self, offsets: Offsets, protocol: IpProtocol, bytes: u32) {
        let Offsets { transport, length_from } = offsets;
        let accept = self.ends.accept;
        if transport + bytes > self.snaplen {
            self.code.jump(accept);
        }
        // X is where the packet ends, and the frame reaches there.
        self.code.load_x();
        let least = transport + bytes - length_from;
        self.code.unless(Test::AtLeast, With::Value(least), accept);
        self.code.alu(Alu::Add, length_from);
        self.code.set_x();
        self.code.length();
        self.code.unless(Test::AtLeast, With::X, accept);
        match protocol {
            IpProtocol::TCP => {
                // Where the options end.
                self.code.byte(transport + 12);
                self.code.alu(Alu::Right, 4);
                self.code.alu(Alu::Left, 2);
                self.code.unless(Test::AtLeast, With::Value(bytes), accept);
                self.code.alu(Alu::Add, transport);
                self.code.when(Test::Greater, With::X, accept);
                if self.snaplen < transport + TCP_BYTES_MAX {
                    self.code.when(Test::Greater, With::Value(self.snaplen), accept);
                }
            }
            IpProtocol::UDP => {
                let unknown = self.code.label();
                self.code.half(transport + 4);
                self.code.when(Test::Equal, With::Value(0), unknown);
                self.code.unless(Test::AtLeast, With::Value(bytes), accept);
                self.code.here(unknown);
            }
            _ => {}
        }
        for (word, at) in [(SOURCE_PORT, 0), (DESTINATION_PORT, 2)] {
            self.code.half(transport + at);
            self.code.store(word);
        }
    }

    /// The questions of a tree.
    fn decide(&mut self, start: Label, tree: &Tree) {
        let labels: Vec<Label> = tree.in_order().map(|_| self.code.label()).collect();
        let ends = self.ends;
        let label = |next| match next {
            Next::Accept => ends.accept,
            Next::Reject => ends.reject,
            Next::Ask(index) => labels[index],
        };
        self.code.here(start);
        self.code.jump(label(tree.root()));
        for (index, question) in tree.in_order() {
            self.code.here(labels[index]);
            match question {
                Question::Within { word, span, inside } => {
                    self.code.recall(word);
                    if span.first > 0 {
                        let test = With::Value(span.first);
                        self.code.unless(Test::AtLeast, test, ends.reject);
                    }
                    if span.last < u32::MAX {
                        self.code.when(Test::Greater, With::Value(span.last), ends.reject);
                    }
                    self.code.jump(label(inside));
                }
                Question::Below { word, at, below, above } => {
                    self.code.recall(word);
                    self.code.unless(Test::AtLeast, With::Value(at), label(below));
                    self.code.jump(label(above));
                }
            }
        }
    }
}
