//! A template with the sizes of a link: how large frames may be, and how many a payload takes.

use crate::field::{Field, IdStep};
use crate::fragment::{Form, Fragments};
use crate::{Position, SegPlan, SegmentError, Template};
use ringside_wire::Ipv6;
use ringside_wire::checksum::Sum;

/// Largest MTU: the length field of IPv4 has 16 bits.
pub const MTU_BYTES_MAX: usize = 65_535;

/// What the frames are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cut {
    /// Segments of TCP, or datagrams of UDP with a header each (as UDP_SEGMENT of udp(7)).
    #[default]
    Segments,
    /// One UDP datagram in fragments of its IP packet.
    Fragments {
        /// Identification of the first datagram over IPv6; that over IPv4 is the template's.
        id: u32,
    },
}

/// How the ids of IPv4 headers go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ids {
    /// One more in each frame, whatever DF says.
    #[default]
    Counted,
    /// Headers with DF keep theirs, which has no meaning then (RFC 6864; SKB_GSO_TCP_FIXEDID);
    /// others count.
    FixedWithDf,
}

/// What CWR of TCP means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cwr {
    /// An event: only the first segment reports it (RFC 3168).
    #[default]
    First,
    /// Part of a counter that all segments carry (RFC 9768, SKB_GSO_TCP_ACCECN).
    All,
}

/// How to cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// What the frames are.
    pub cut: Cut,
    /// Largest packet of the link, in bytes: what follows Ethernet and its VLAN tags.
    pub mtu_bytes: usize,
    /// Payload bytes of each frame but the last; of fragments the bytes behind the IP headers, UDP
    /// included, a multiple of 8. `None` takes what the MTU has room for.
    pub mss_bytes: Option<usize>,
    /// How IPv4 ids go on.
    pub ids: Ids,
    /// What CWR means.
    pub cwr: Cwr,
}

impl Settings {
    /// Segments as large as `mtu_bytes` allows.
    pub fn mtu(mtu_bytes: usize) -> Settings {
        Settings {
            cut: Cut::default(),
            mtu_bytes,
            mss_bytes: None,
            ids: Ids::default(),
            cwr: Cwr::default(),
        }
    }
}

/// Cuts payloads into frames with the headers of a template.
#[derive(Clone, Debug)]
pub struct Segmenter {
    /// Headers of frames that are no fragments.
    pub(crate) whole: Form,
    pub(crate) fragments: Option<Fragments>,
    pub(crate) mss_bytes: usize,
    pub(crate) cwr: Cwr,
    pub(crate) fragment_id: u32,
    obstacle: Option<&'static str>,
    /// Longest payload that is sent as one frame.
    whole_payload_bytes_max: usize,
}

impl Segmenter {
    /// Checks the sizes.
    ///
    /// # Errors
    /// An MTU beyond [`MTU_BYTES_MAX`] or without room for the headers; an MSS of 0, above what
    /// the MTU allows, or for fragments no multiple of 8; fragments of TCP or despite DF.
    pub fn new(template: &Template, settings: Settings) -> Result<Segmenter, SegmentError> {
        let Settings { cut, mtu_bytes, mss_bytes, ids, cwr } = settings;
        if mtu_bytes > MTU_BYTES_MAX {
            return Err(SegmentError::Mtu { mtu_bytes });
        }
        let (fragments, fragment_id) = match cut {
            Cut::Segments => (None, 0),
            Cut::Fragments { id } => (Some(Fragments::of(template)?), id),
        };
        let whole = Form { header: template.header.clone(), fields: template.fields.clone() };
        let room = |header_bytes: usize| {
            let header_bytes = header_bytes - template.link_bytes;
            let none = SegmentError::NoRoom { mtu_bytes, header_bytes };
            mtu_bytes.checked_sub(header_bytes).ok_or(none)
        };
        let whole_room = room(whole.header.len())?;
        let (mss_min, mss_max) = match &fragments {
            None => (1, whole_room),
            Some(fragments) => {
                let most = room(fragments.later.header.len())? & !7;
                (fragments.carried_bytes.next_multiple_of(8), most)
            }
        };
        if mss_max < mss_min {
            let header_bytes = mtu_bytes - mss_max;
            return Err(SegmentError::NoRoom { mtu_bytes, header_bytes });
        }
        let mss = mss_bytes.unwrap_or(mss_max);
        if !(mss_min..=mss_max).contains(&mss) {
            let (mss_bytes_min, mss_bytes_max) = (mss_min, mss_max);
            return Err(SegmentError::Mss { mss_bytes: mss, mss_bytes_min, mss_bytes_max });
        }
        if fragments.is_some() && !mss.is_multiple_of(8) {
            return Err(SegmentError::FragmentSize { mss_bytes: mss });
        }
        let whole_payload_bytes_max = match &fragments {
            // What fits is not fragmented, though a fragment would have less room.
            Some(_) if mss_bytes.is_none() => whole_room,
            Some(fragments) => mss - fragments.carried_bytes,
            None => mss,
        };
        let mut segmenter = Segmenter {
            whole,
            fragments,
            mss_bytes: mss,
            cwr,
            fragment_id,
            obstacle: template.obstacle,
            whole_payload_bytes_max,
        };
        segmenter.prepare_ipv4(ids, template.network.start());
        Ok(segmenter)
    }

    /// Says how ids go on, and adds up what stays the same.
    fn prepare_ipv4(&mut self, ids: Ids, network_at: usize) {
        let is_fragmented = self.fragments.is_some();
        let forms = self.fragments.iter_mut().flat_map(|f| [&mut f.first, &mut f.later]);
        for form in forms.chain([&mut self.whole]) {
            for field in &mut form.fields {
                let Field::Ipv4 { at, header_bytes, id, rest } = field else { continue };
                let header = &form.header[*at..*at + *header_bytes];
                *rest = Sum::new().bytes(&header[..2]).bytes(&header[8..10]).bytes(&header[12..]);
                let dont_fragment = header[6] & 0x40 != 0;
                *id = match ids {
                    Ids::FixedWithDf if dont_fragment => IdStep::Keep,
                    _ if is_fragmented && *at == network_at => IdStep::PerDatagram,
                    _ => IdStep::PerFrame,
                };
            }
        }
    }

    /// Cuts `payload_bytes` bytes that are sent at `position`: the default for the first payload
    /// of the template, [`SegPlan::end`] of the one before for the next.
    ///
    /// # Errors
    /// The headers allow one frame only and more are needed; a datagram longer than IP can say.
    pub fn plan(
        &self,
        position: Position,
        payload_bytes: usize,
    ) -> Result<SegPlan<'_>, SegmentError> {
        if let Some(Fragments { payload_bytes_max, .. }) = self.fragments
            && payload_bytes > payload_bytes_max
        {
            return Err(SegmentError::TooLong { payload_bytes, payload_bytes_max });
        }
        let frame_count = match &self.fragments {
            _ if payload_bytes <= self.whole_payload_bytes_max => 1,
            Some(fragments) => (fragments.carried_bytes + payload_bytes).div_ceil(self.mss_bytes),
            None => payload_bytes.div_ceil(self.mss_bytes),
        };
        match self.obstacle {
            Some(what) if frame_count > 1 => Err(SegmentError::NotDivisible { what, frame_count }),
            _ => Ok(SegPlan::new(self, position, payload_bytes, frame_count)),
        }
    }

    /// Payload bytes of each frame but the last, as in [`Settings::mss_bytes`].
    pub fn mss_bytes(&self) -> usize {
        self.mss_bytes
    }

    /// Longest headers of a frame: the size of a slot.
    pub fn header_bytes_max(&self) -> usize {
        let first = self.fragments.as_ref().map_or(0, |fragments| fragments.first.header.len());
        first.max(self.whole.header.len())
    }

    /// Length of the longest frame, in bytes.
    pub fn frame_bytes_max(&self) -> usize {
        let whole = self.whole.header.len() + self.whole_payload_bytes_max;
        let part = |fragments: &Fragments| fragments.later.header.len() + self.mss_bytes;
        self.fragments.as_ref().map_or(0, part).max(whole)
    }

    /// Longest payload of one packet, by its length fields.
    pub(crate) fn uncut_payload_bytes_max(&self) -> usize {
        let counted = |field: &Field| match *field {
            Field::Ipv4 { at, .. } | Field::Udp { at, .. } => self.whole.header.len() - at,
            Field::Ipv6 { at } => self.whole.header.len() - at - Ipv6::BYTES,
            _ => 0,
        };
        usize::from(u16::MAX) - self.whole.fields.iter().map(counted).max().unwrap_or(0)
    }
}
