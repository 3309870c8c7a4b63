//! What connections say, and who takes it.

use crate::Datagram;
use ringside_core::Timestamp;
use ringside_inspect::Key;

/// What a direction says, or a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'b> {
    /// The next bytes. How they are cut into pieces means nothing.
    Data(&'b [u8]),
    /// Bytes that will not come. The first event of a direction whose beginning was not seen is a
    /// gap of 0 bytes.
    Gap {
        /// How many.
        bytes: u32,
        /// Why.
        cause: Cause,
    },
    /// The direction has ended as it should.
    Fin,
    /// The connection is over. No event of it follows.
    Closed(Closing),
}

/// Why there is a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The connection is older than what was seen of it.
    BeforeCapture,
    /// The receiver has them, and they did not come here.
    Lost,
    /// They were in a frame that was cut.
    Cut,
    /// The receiver did not have them either, as long as was waited.
    WaitedFor,
    /// Waiting was not asked for.
    NotWaitedFor,
    /// Too much of the direction waited behind them.
    SideFull,
    /// Too much waited in all.
    HeldFull,
    /// The connection was over.
    Ended,
}

/// Why a connection is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Closing {
    /// Both directions have ended.
    Fin,
    /// A reset.
    Reset,
    /// A SYN began another one between the same ports.
    Reused,
    /// No packet came for long.
    Idle,
    /// Another connection needed its place.
    Displaced,
    /// There is nothing more to see.
    Forced,
}

impl Cause {
    /// All causes, each at its [`index`](Cause::index).
    pub const ALL: [Cause; 8] = [
        Cause::BeforeCapture,
        Cause::Lost,
        Cause::Cut,
        Cause::WaitedFor,
        Cause::NotWaitedFor,
        Cause::SideFull,
        Cause::HeldFull,
        Cause::Ended,
    ];

    /// The place in tables.
    pub fn index(self) -> usize {
        self as usize
    }

    /// The name in output formats.
    pub fn name(self) -> &'static str {
        match self {
            Cause::BeforeCapture => "before_capture",
            Cause::Lost => "lost",
            Cause::Cut => "cut",
            Cause::WaitedFor => "waited_for",
            Cause::NotWaitedFor => "not_waited_for",
            Cause::SideFull => "side_full",
            Cause::HeldFull => "held_full",
            Cause::Ended => "ended",
        }
    }
}

/// Where an event belongs.
#[derive(Clone, Copy, Debug)]
pub struct At<'k> {
    /// The connection.
    pub key: &'k Key,
    /// Its number, from 1, in the order of first payloads.
    pub connection: u64,
    /// The higher endpoint of the key said it. Means nothing where the connection is over.
    pub from_high: bool,
    /// The higher endpoint opened the connection or, if that was not seen, sent the first payload.
    pub initiator_high: bool,
    /// When the bytes came; of other events, when they were due.
    pub stamp: Timestamp,
}

/// Takes what connections say.
pub trait Handler {
    /// What is kept of each connection. Large parts belong behind a pointer: the table has room for
    /// all connections.
    type Kept: Default;

    /// True if it wants datagrams: others pay nothing for them.
    const TAKES_DATAGRAMS: bool = false;

    /// The next event of a connection.
    fn event(&mut self, at: &At<'_>, kept: &mut Self::Kept, event: Event<'_>);

    /// A datagram, if it wants them.
    fn datagram(&mut self, datagram: &Datagram<'_>) {
        let _ = datagram;
    }
}
