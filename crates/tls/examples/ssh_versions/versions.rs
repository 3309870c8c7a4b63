//! Who speaks which SSH: what both ends of a connection say first (RFC 4253 section 4.2).

use ringside_core::{InterfaceId, Timestamp};
use ringside_inspect::{DissectedFrame, Observer, Received};
use ringside_logs::{Logged, RecordSink, Sinks};
use ringside_record::{Column, Field, Kind, Names, Record};
use ringside_streams::{At, Event, Handler, Limits, Transport};
use std::net::IpAddr;

/// Bytes of a line, with its end: no longer one is allowed.
const LINE_BYTES_MAX: usize = 255;

/// What the ends of a connection have said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versions {
    pub interface: InterfaceId,
    pub ends: [(IpAddr, u16); 2],
    /// The line of each end.
    pub lines: [String; 2],
    pub end_ns: u64,
}

const LOW: Field<Versions> =
    Field::new(Kind::Address, |row| row.record.ends[0].0.to_string().into());
const HIGH: Field<Versions> =
    Field::new(Kind::Address, |row| row.record.ends[1].0.to_string().into());
const LOW_LINE: Field<Versions> = Field::new(Kind::Text, |row| row.record.lines[0].as_str().into());
const HIGH_LINE: Field<Versions> =
    Field::new(Kind::Text, |row| row.record.lines[1].as_str().into());
const END: Field<Versions> = Field::new(Kind::Time, |row| row.record.end_ns.into());

impl Record for Versions {
    const LOG: &'static str = "ssh";

    fn columns(names: Names) -> &'static [Column<Versions>] {
        const OURS: &[Column<Versions>] = &[
            END.called("end_ns"),
            LOW.called("low"),
            HIGH.called("high"),
            LOW_LINE.called("low_version"),
            HIGH_LINE.called("high_version"),
        ];
        const ECS: &[Column<Versions>] = &[
            END.called("@timestamp"),
            LOW.called("source.ip"),
            HIGH.called("destination.ip"),
            LOW_LINE.called("ssh.source.version"),
            HIGH_LINE.called("ssh.destination.version"),
        ];
        if names == Names::Ecs { ECS } else { OURS }
    }
}

impl Logged for Versions {
    fn end(&self) -> Timestamp {
        Timestamp(self.end_ns)
    }

    fn interface(&self) -> InterfaceId {
        self.interface
    }
}

/// What is kept of a connection. Most carry something else, so it is small and has a limit.
#[derive(Debug, Default)]
pub struct Kept {
    lines: [Vec<u8>; 2],
    /// It is no SSH, or both lines are known.
    is_over: bool,
}

/// Reads what connections say.
struct Finder<'f, 's> {
    sinks: &'f mut Sinks<'s, Versions>,
    found: &'f mut u64,
}

impl Handler for Finder<'_, '_> {
    type Kept = Kept;

    fn event(&mut self, at: &At<'_>, kept: &mut Kept, event: Event<'_>) {
        let Event::Data(bytes) = event else { return };
        let line = &mut kept.lines[usize::from(at.from_high)];
        if kept.is_over || line.ends_with(b"\n") {
            return;
        }
        let end = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1);
        line.extend(&bytes[..end.min(LINE_BYTES_MAX - line.len())]);
        let (start, is_full) = (line.len().min(4), line.len() == LINE_BYTES_MAX);
        kept.is_over = line[..start] != b"SSH-"[..start] || is_full && !line.ends_with(b"\n");
        if kept.is_over || kept.lines.iter().any(|line| !line.ends_with(b"\n")) {
            return;
        }
        kept.is_over = true;
        *self.found += 1;
        self.sinks.put(&Versions {
            interface: at.key.interface(),
            ends: [at.key.low(), at.key.high()],
            lines: kept
                .lines
                .each_ref()
                .map(|line| line.trim_ascii_end().escape_ascii().to_string()),
            end_ns: at.stamp.0,
        });
    }
}

/// Drives streams by every frame, and hands what is found to sinks.
pub struct SshObserver<'s> {
    transport: Transport<Kept>,
    sinks: Sinks<'s, Versions>,
    found: u64,
}

impl<'s> SshObserver<'s> {
    pub fn new(sinks: Vec<(String, Box<dyn RecordSink<Versions> + 's>)>) -> SshObserver<'s> {
        let transport = Transport::new(Limits::default());
        SshObserver { transport, sinks: Sinks::new(sinks), found: 0 }
    }

    /// True if no byte and no record is missing.
    pub fn balances(&self) -> bool {
        self.transport.streams().balances() && self.sinks.were_given(self.found)
    }
}

impl Observer for SshObserver<'_> {
    fn see(&mut self, frame: &DissectedFrame<'_>, received: &Received<'_>) {
        self.sinks.learn(received);
        let SshObserver { transport, sinks, found } = self;
        transport.take_in(frame, received, &mut Finder { sinks, found });
    }

    fn tick(&mut self, low_water: Timestamp) {
        let SshObserver { transport, sinks, found } = self;
        transport.tick(low_water, &mut Finder { sinks, found });
        self.sinks.tick();
    }

    fn finish(&mut self) {
        let SshObserver { transport, sinks, found } = self;
        transport.finish(&mut Finder { sinks, found });
        self.sinks.finish();
    }
}
