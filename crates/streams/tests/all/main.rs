//! Tests of the crate from outside, one binary:
//! `cargo test -p ringside-streams --test all MODULE::`.

#![allow(clippy::unwrap_used)] // a test may panic, and its helpers with it

mod follow;
mod fuzz;

use ringside_core::Timestamp;
use ringside_inspect::{DissectedFrame, Observer, Received};
use ringside_streams::{At, Defragmenter, Event, Handler, Limits, Segment, Streams};

/// What a direction of a connection said: bytes, and how many are missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Side {
    /// Those that came.
    pub bytes: Vec<u8>,
    /// Those that did not.
    pub missing: u64,
}

/// All connections, by number: endpoints, and what each said.
#[derive(Default)]
pub struct Said(pub Vec<(Endpoints, [Side; 2])>);

/// The lower endpoint of a connection, and the higher.
type Endpoints = [(std::net::IpAddr, u16); 2];

impl Handler for Said {
    type Kept = ();

    fn event(&mut self, at: &At<'_>, (): &mut (), event: Event<'_>) {
        let index = at.connection as usize - 1;
        while self.0.len() <= index {
            self.0.push(([at.key.low(), at.key.high()], Default::default()));
        }
        let side = &mut self.0[index].1[usize::from(at.from_high)];
        match event {
            Event::Data(bytes) => side.bytes.extend(bytes),
            Event::Gap { bytes, .. } => side.missing += u64::from(bytes),
            Event::Fin | Event::Closed(_) => {}
        }
    }
}

/// Puts streams together by every frame.
pub struct Follower {
    /// TCP.
    pub streams: Streams<()>,
    /// IP.
    pub fragments: Defragmenter,
    /// What was found.
    pub said: Said,
}

impl Default for Follower {
    fn default() -> Follower {
        Follower {
            streams: Streams::new(Limits { connections: 1 << 12, ..Limits::default() }),
            fragments: Defragmenter::new(),
            said: Said::default(),
        }
    }
}

impl Observer for Follower {
    fn see(&mut self, frame: &DissectedFrame<'_>, received: &Received<'_>) {
        if let Some(segment) = Segment::of(frame, received) {
            self.streams.take_in(&segment, &mut self.said);
        } else if Defragmenter::is_fragment(frame) {
            let Follower { streams, fragments, said } = self;
            if let Some((packet, place)) = fragments.take_in(frame, received) {
                let link = ringside_core::LinkType::RAW;
                let whole = DissectedFrame::new(packet, packet.len() as u32, link);
                if let Some(segment) = Segment::read(&whole, received.meta.timestamp, place) {
                    streams.take_in(&segment, said);
                }
            }
        }
    }

    fn tick(&mut self, low_water: Timestamp) {
        self.streams.tick(low_water, &mut self.said);
    }

    fn finish(&mut self) {
        self.streams.finish(&mut self.said);
    }
}
