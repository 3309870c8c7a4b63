//! Frames that a program inside the driver copies.

use super::{Opening, Plan, Sources};
use crate::note::Note;
use crate::refused::Refused;
use ringside_capture::backend::af_xdp::Waiting;
use ringside_capture::backend::xdp_ring::{XdpRingConfig, XdpRingSource, open};
use ringside_capture::backend::{merge_warning, stripped_tags};
use ringside_core::Source;
use ringside_keeper::{Request, Wish};

impl Plan<'_> {
    pub(super) fn xdp_ring(
        &self,
        cpus: &[usize],
        warnings: &mut Vec<String>,
    ) -> anyhow::Result<Sources> {
        let Opening { options, notes, .. } = self.opening;
        self.check_direction()?;
        if options.hardware_time {
            return Err(Refused::OwnStamps.into());
        }
        let waiting = self.waiting(cpus);
        if matches!(waiting, Waiting::Poll | Waiting::BusyPoll) {
            return Err(Refused::NothingWakes.into());
        }
        self.leave_tags_in_frames()?;
        let opened = open(&XdpRingConfig {
            interface: self.name.to_owned(),
            interface_id: self.interface_id,
            lanes: options.lanes,
            ring_bytes: options.kernel_ring_bytes,
            snaplen_bytes: options.snaplen_bytes,
            promiscuous: options.promiscuous,
            filter: self.filter.clone().map(|program| (program, options.filter.clone())),
            has_stamps: options.has_stamps,
            waiting,
        })?;
        opened.notes.into_iter().for_each(|note| notes(Note::Backend(note)));
        warnings.extend(merge_warning(self.name));
        let with_handles = |source: XdpRingSource| {
            // Without a descriptor left the run goes on; only its end after a crash knows less.
            let handles = source.kernel_side().ok();
            (Box::new(source) as Box<dyn Source>, handles)
        };
        Ok(opened.sources.into_iter().map(with_handles).collect())
    }

    /// The program copies a frame as it lies there. What is turned off for that is turned on again
    /// at the end.
    fn leave_tags_in_frames(&self) -> anyhow::Result<()> {
        // What cannot be asked is refused by the opening, with its reason.
        for feature in stripped_tags(self.name).unwrap_or_default() {
            let wish = Wish::Feature { feature: feature.into(), on: false };
            let request = Request::Interface { interface: self.name.to_owned(), wish };
            self.opening.knobs.turn(&request).map_err(Refused::Tags)?;
        }
        Ok(())
    }
}
