//! A running capture as the origin of another run.

use crate::filters::compile;
use crate::note::Notes;
use crate::open::Opened;
use anyhow::Context;
use ringside_capture::run::LaneSource;
use ringside_client::{Attachment, ReadOptions};
use ringside_core::Shown;
use ringside_core::share::HelloLane;
use ringside_filter::Prepared;
use ringside_sys::clock;
use std::path::PathBuf;
use std::time::Duration;

/// What is asked of a running capture whose frames are read along.
#[derive(Clone, Debug)]
pub struct AttachOptions {
    /// The socket at which it shares its ring.
    pub socket: PathBuf,
    /// Frames are read from so long ago on, as far as its memory reaches; `None` for now.
    pub ago: Option<Duration>,
    /// pcap-filter(7) expression; empty for none.
    pub filter: String,
}

impl AttachOptions {
    /// Connects, and says what is to be read; the filter is compiled for each of its interfaces.
    ///
    /// # Errors
    /// No capture shares a ring there, or the filter is none.
    pub fn connect(&self, notes: Notes<'_>) -> anyhow::Result<(Attachment, ReadOptions)> {
        let attachment = Attachment::connect(&self.socket)?;
        let mut filters = Vec::new();
        for interface in &attachment.hello().interfaces {
            let program = compile(&self.filter, interface.link_type, notes)
                .and_then(|program| Ok(program.as_ref().map(Prepared::new).transpose()?));
            filters.extend(program.with_context(|| format!("for interface {}", interface.name))?);
        }
        let from = self.ago.map(|ago| clock::realtime_now().saturating_sub(ago));
        Ok((attachment, ReadOptions { from, filters }))
    }

    /// Its lanes as those of a run of our own.
    pub(crate) fn open(&self, notes: Notes<'_>) -> anyhow::Result<Opened> {
        let (attachment, options) = self.connect(notes)?;
        let hello = attachment.hello();
        let lane = |(source, lane): (_, &HelloLane)| LaneSource {
            source: Box::new(source),
            interface: lane.interface.clone(),
            interface_id: lane.interface_id,
            queue: lane.queue.0,
        };
        Ok(Opened {
            lanes: attachment.sources(&options).into_iter().zip(&hello.lanes).map(lane).collect(),
            interfaces: hello.interfaces.clone(),
            block_timeout_ns: hello.block_timeout_ns,
            description: format!("{} (the capture of process {})", self.socket.shown(), hello.pid),
            ..Opened::default()
        })
    }
}
