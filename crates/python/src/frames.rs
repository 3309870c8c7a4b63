//! Where packets come from: recordings, or a running capture.

use anyhow::{Context, ensure};
use ringside_client::{Attachment, ReadOptions, Reader};
use ringside_core::{Frame, Source, SourceInterface, Timestamp};
use ringside_search::{Opened, Programs, Search};
use ringside_store::StoredSource;
use ringside_sys::clock;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

/// How long one step waits for packets of a pipe or a capture.
const WAIT: Duration = Duration::from_millis(50);

/// Packets of a capture that one step hands on at most.
const STEP_FRAMES_MAX: u64 = 256;

/// What packets are handed to, with the interfaces that are known.
pub type Each<'e> = &'e mut dyn FnMut(&Frame<'_>, &[SourceInterface]);

/// What a step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// There are more at once.
    Some,
    /// Those that are there were handed on; others may come.
    Idle,
    /// None will come again.
    End,
}

/// Packets of which those that match are meant.
pub trait Frames: Send {
    /// Hands the next that match to `each`, at most `count_max`.
    ///
    /// # Errors
    /// An input cannot be read, or libpcap refuses the filter for its packets.
    fn show(&mut self, count_max: u64, each: Each<'_>) -> anyhow::Result<Step>;

    /// True if packets come as they are received.
    fn is_live(&self) -> bool;

    /// No later packet is older than this.
    fn low_water(&self) -> Timestamp;

    /// The interfaces that are known.
    fn interfaces(&self) -> &[SourceInterface];

    /// Where every packet is. `is_stopped` if the reading ended before its input.
    fn ledger(&self, is_stopped: bool) -> Value;

    /// What of the packets is missing, that the program should know.
    fn missing(&self) -> Vec<String>;
}

/// Of recordings and other captures.
pub struct Stored {
    opened: Opened,
    interfaces: Vec<SourceInterface>,
    read: u64,
    matched: u64,
}

impl Stored {
    /// Opens the inputs.
    ///
    /// # Errors
    /// As [`Search::open`].
    pub fn open(search: &Search) -> anyhow::Result<Stored> {
        let opened = search.open(|_| ())?;
        let interfaces = opened.source.interfaces().to_vec();
        Ok(Stored { opened, interfaces, read: 0, matched: 0 })
    }
}

impl Frames for Stored {
    fn show(&mut self, count_max: u64, each: Each<'_>) -> anyhow::Result<Step> {
        let Stored { opened: Opened { source, filter, .. }, interfaces, read, matched } = self;
        if source.is_finished() {
            return Ok(Step::End);
        }
        let Some(batch) = source.next_batch(WAIT)? else { return Ok(Step::Idle) };
        if batch.interfaces().len() > interfaces.len() {
            *interfaces = batch.interfaces().to_vec();
        }
        let mut left = count_max;
        for frame in batch.iter() {
            if left == 0 {
                break;
            }
            let link_type = SourceInterface::of(&frame.meta, interfaces)?.link_type;
            let is_meant = filter.accepts(&frame, link_type)?;
            *read += 1;
            if is_meant {
                *matched += 1;
                left -= 1;
                each(&frame, interfaces);
            }
        }
        Ok(Step::Some)
    }

    fn is_live(&self) -> bool {
        false
    }

    fn low_water(&self) -> Timestamp {
        self.opened.source.low_water()
    }

    fn interfaces(&self) -> &[SourceInterface] {
        &self.interfaces
    }

    fn ledger(&self, is_stopped: bool) -> Value {
        let is_early = is_stopped && !self.opened.source.is_finished();
        let mut ledger = self.opened.answer(self.matched, is_early).object();
        ledger["packets_read"] = self.read.into();
        ledger["packets_filtered"] = (self.read - self.matched).into();
        ledger
    }

    fn missing(&self) -> Vec<String> {
        let notices = self.opened.source.notices();
        let lost = notices.iter().filter(|notice| notice.condition.is_loss());
        lost.map(ToString::to_string).collect()
    }
}

/// Of a capture that runs.
pub struct Live {
    reader: Reader,
    interfaces: Vec<SourceInterface>,
    filtered: u64,
}

impl Live {
    /// Connects to the socket at which a capture shares its ring. Packets are read from so long ago
    /// on, as far as its memory reaches; `None` for now.
    ///
    /// # Errors
    /// No capture shares a ring there, or libpcap refuses the filter for its interfaces.
    pub fn open(socket: &Path, ago: Option<Duration>, programs: &Programs) -> anyhow::Result<Live> {
        let attachment = Attachment::connect(socket)?;
        let interfaces = attachment.hello().interfaces.clone();
        let mut filters = Vec::new();
        for interface in &interfaces {
            let prepared = programs.prepared(interface.link_type);
            let prepared = prepared.with_context(|| format!("for interface {}", interface.name))?;
            filters.extend(prepared);
        }
        let from = ago.map(|ago| clock::realtime_now().saturating_sub(ago));
        let reader = Reader::new(&attachment, &ReadOptions { from, filters });
        Ok(Live { reader, interfaces, filtered: 0 })
    }
}

impl Frames for Live {
    fn show(&mut self, count_max: u64, each: Each<'_>) -> anyhow::Result<Step> {
        let frames_max = count_max.min(STEP_FRAMES_MAX);
        let (mut timeout, mut shown) = (WAIT, 0);
        while shown < frames_max {
            let Some(frame) = self.reader.next_frame(timeout) else { break };
            each(&frame, &self.interfaces);
            (timeout, shown) = (Duration::ZERO, shown + 1);
        }
        self.filtered = self.reader.filtered();
        ensure!(!self.reader.is_damaged(), "the capture's shared memory contradicts itself");
        Ok(match () {
            () if shown == frames_max => Step::Some,
            () if self.reader.is_finished() => Step::End,
            () => Step::Idle,
        })
    }

    fn is_live(&self) -> bool {
        true
    }

    fn low_water(&self) -> Timestamp {
        self.reader.low_water()
    }

    fn interfaces(&self) -> &[SourceInterface] {
        &self.interfaces
    }

    fn ledger(&self, is_stopped: bool) -> Value {
        json!({
            "packets": self.reader.delivered(),
            "packets_filtered": self.filtered,
            "packets_missed": self.reader.missed(),
            "packets_lost_before": self.reader.dropped_before(),
            "end": if is_stopped { "stopped" } else { "complete" },
        })
    }

    fn missing(&self) -> Vec<String> {
        let missed = self.reader.missed();
        let text = format!("{missed} packets came faster than they were read, and are missing");
        if missed == 0 { Vec::new() } else { vec![text] }
    }
}
