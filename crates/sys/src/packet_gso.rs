//! A packet socket that hands the kernel packets longer than the MTU, to be cut into frames there
//! (GSO), or by the interface (TSO).
//!
//! Each packet goes behind a `struct virtio_net_hdr` (linux/virtio_net.h), which says where its
//! checksum is left to be finished and how it is to be cut.

use crate::{SysError, socket};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Parts of one packet: 64 KiB in pages of 4 KiB, with room for headers and pieces that begin in
/// the middle of a page. UIO_MAXIOV would allow 1,024.
pub const GSO_PARTS_MAX: usize = 64;

/// Datagrams that the kernel makes of one packet (UDP_MAX_SEGMENTS); EINVAL beyond.
pub const DATAGRAMS_MAX: usize = 128;

/// VIRTIO_NET_HDR_F_NEEDS_CSUM.
const NEEDS_CSUM: u8 = 1;
/// VIRTIO_NET_HDR_GSO_ECN, a flag in the type.
const GSO_ECN: u8 = 0x80;

/// A checksum that is left to the kernel: what stands in the field is the sum of the pseudo
/// header, not complemented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartialChecksum {
    /// First byte that the checksum covers, from the start of the frame: the transport header.
    pub start: u16,
    /// Where its field is, from `start`.
    pub offset: u16,
}

/// Into what the kernel cuts a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum GsoKind {
    /// TCP over IPv4 (VIRTIO_NET_HDR_GSO_TCPV4).
    TcpV4 = 1,
    /// UDP in IP fragments (VIRTIO_NET_HDR_GSO_UDP). The size counts the UDP header too, and must
    /// be a multiple of 8.
    UdpFragments = 3,
    /// TCP over IPv6 (VIRTIO_NET_HDR_GSO_TCPV6).
    TcpV6 = 4,
    /// UDP in datagrams of their own, at most [`DATAGRAMS_MAX`] (VIRTIO_NET_HDR_GSO_UDP_L4).
    UdpDatagrams = 5,
}

/// That a packet is to be cut, and how. Only for one whose payload is longer than `size`: of what
/// is one frame anyway the kernel may drop some (`tcp_gso_segment`, with TCP options).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gso {
    /// Into what.
    pub kind: GsoKind,
    /// Payload bytes of each frame but the last.
    pub size: u16,
    /// Bytes of all headers, which the kernel keeps in one piece.
    pub header_bytes: u16,
    /// CWR is set (TCP): it stays on the first frame alone.
    pub has_cwr: bool,
}

/// What the kernel must know about a packet. The default is an ordinary frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VnetHeader {
    /// Its checksum, if the kernel is to finish it. Needed for [`Gso`].
    pub checksum: Option<PartialChecksum>,
    /// How to cut it, if it is to be cut.
    pub gso: Option<Gso>,
}

impl VnetHeader {
    /// As `struct virtio_net_hdr`; numbers in the machine's byte order, as packet sockets have it.
    fn to_bytes(self) -> [u8; 10] {
        let (kind, size, header_bytes) = match self.gso {
            Some(gso) => {
                let ecn = if gso.has_cwr { GSO_ECN } else { 0 };
                (gso.kind as u8 | ecn, gso.size, gso.header_bytes)
            }
            None => (0, 0, 0),
        };
        let flags = if self.checksum.is_some() { NEEDS_CSUM } else { 0 };
        let (start, offset) =
            self.checksum.map_or((0, 0), |partial| (partial.start, partial.offset));
        let mut bytes = [0; 10];
        bytes[0] = flags;
        bytes[1] = kind;
        for (to, value) in
            bytes[2..].as_chunks_mut().0.iter_mut().zip([header_bytes, size, start, offset])
        {
            *to = u16::to_ne_bytes(value);
        }
        bytes
    }
}

/// Sends packets on one interface, cut by the kernel where they say so; receives nothing.
pub struct GsoTx {
    socket: OwnedFd,
    ifindex: u32,
}

impl GsoTx {
    /// Opens it. With `qdisc_bypass` packets go straight to the driver, and the kernel cuts none
    /// (`__dev_direct_xmit`): that is only for interfaces that do it themselves (TSO,
    /// `tx-udp-segmentation`).
    ///
    /// # Errors
    /// CAP_NET_RAW is missing, or there is no such interface.
    pub fn open(ifindex: u32, qdisc_bypass: bool) -> Result<GsoTx, SysError> {
        let (family, kind) = (AddressFamily::PACKET, SocketType::RAW);
        let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None)
            .map_err(|e| SysError::io("opening a packet socket to send long packets", e))?;
        let set = |option, value: u32, name| {
            socket::set_option(&socket, libc::SOL_PACKET, option, value, name)
        };
        set(libc::PACKET_VNET_HDR, 1, "PACKET_VNET_HDR")?;
        set(libc::PACKET_QDISC_BYPASS, u32::from(qdisc_bypass), "PACKET_QDISC_BYPASS")?;
        // Protocol 0: the socket receives nothing.
        socket::bind_packet(&socket, ifindex, 0)?;
        Ok(GsoTx { socket, ifindex })
    }

    /// Sends the packet that `parts` are together, headers first, and waits for room in the
    /// socket's buffer if it must ([`bound_wait`](crate::packet_tx::bound_wait)). The kernel copies
    /// it once. What it cannot cut (see [`Gso`]) it drops behind the interface's queue, without a
    /// word.
    ///
    /// # Errors
    /// EINVAL: more than [`GSO_PARTS_MAX`] parts, or `header` contradicts the bytes. EMSGSIZE:
    /// longer than the interface takes uncut, or than the kernel takes at all. ENOBUFS: the queue
    /// had no room; past the queue, the interface had none or cannot cut.
    pub fn send(&self, header: VnetHeader, parts: &[&[u8]]) -> io::Result<()> {
        if parts.len() > GSO_PARTS_MAX {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let header = header.to_bytes();
        let empty = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        let mut vectors = [empty; GSO_PARTS_MAX + 1];
        let all = std::iter::once(&header[..]).chain(parts.iter().copied());
        for (vector, part) in vectors.iter_mut().zip(all) {
            vector.iov_base = part.as_ptr().cast_mut().cast();
            vector.iov_len = part.len();
        }
        // SAFETY: all zero bytes are a valid msghdr: no address, no vectors, no control data.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = vectors.as_mut_ptr();
        message.msg_iovlen = parts.len() + 1;
        // SAFETY: the first `parts.len() + 1` vectors were set above and describe `header` and the
        // parts, which live during the call; the kernel only reads what they describe.
        let sent = unsafe { libc::sendmsg(self.socket.as_raw_fd(), &message, 0) };
        // A packet goes as a whole or not at all.
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Kernel index of the interface.
    pub fn ifindex(&self) -> u32 {
        self.ifindex
    }
}

impl AsFd for GsoTx {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_has_the_kernels_layout() {
        assert_eq!(VnetHeader::default().to_bytes(), [0; 10]);
        let header = VnetHeader {
            checksum: Some(PartialChecksum { start: 34, offset: 16 }),
            gso: Some(Gso { kind: GsoKind::TcpV6, size: 1448, header_bytes: 66, has_cwr: true }),
        };
        let mut expected = vec![1, 0x84];
        [66u16, 1448, 34, 16].iter().for_each(|n| expected.extend(n.to_ne_bytes()));
        assert_eq!(header.to_bytes(), expected[..]);
    }

    #[test]
    fn too_many_parts_are_refused() {
        if !ringside_testkit::need_root("packet_gso") {
            return;
        }
        let loopback = rustix::net::netdevice::name_to_index(
            rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None).unwrap(),
            "lo",
        );
        let socket = GsoTx::open(loopback.unwrap(), false).unwrap();
        let error =
            socket.send(VnetHeader::default(), &[&[0; 1][..]; GSO_PARTS_MAX + 1]).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
        // Shorter than a link-layer header.
        assert!(socket.send(VnetHeader::default(), &[&[0; 4]]).is_err());
    }
}
