//! Frames that a program inside the driver copies: options.

use super::{OpenArgs, Plan, Sources};
use anyhow::{Context, bail};
use ringside_capture::backend::af_xdp::Waiting;
use ringside_capture::backend::xdp_ring::{XdpRingConfig, XdpRingSource, open};
use ringside_capture::backend::{merge_warning, stripped_tags};
use ringside_core::Source;
use ringside_keeper::{Knobs, Request, Wish};
use ringside_terminal::say;

impl Plan<'_> {
    pub(super) fn xdp_ring(
        &self,
        args: &OpenArgs,
        cpus: &[usize],
        knobs: &Knobs<'_>,
        warnings: &mut Vec<String>,
    ) -> anyhow::Result<Sources> {
        self.check_direction()?;
        if args.hardware_time {
            bail!(
                "xdp-ring stamps frames itself: leave out --hardware-time, or use --backend af-xdp"
            );
        }
        let waiting = self.waiting(args, cpus);
        if matches!(waiting, Waiting::Poll | Waiting::BusyPoll) {
            bail!(
                "nothing wakes a worker of xdp-ring: use --wait sleep or spin, or --backend af-xdp"
            );
        }
        self.leave_tags_in_frames(knobs)?;
        let opened = open(&XdpRingConfig {
            interface: self.name.to_owned(),
            interface_id: self.interface_id,
            lanes: args.queues,
            ring_bytes: args.kernel_ring_bytes(),
            snaplen_bytes: args.snaplen_bytes(),
            promiscuous: !args.no_promiscuous,
            filter: self.filter.clone().map(|program| (program, args.expression())),
            has_stamps: !args.af_xdp.no_stamps,
            waiting,
        })?;
        for note in &opened.notes {
            say::message(format_args!("ringside: {note}"));
        }
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
    fn leave_tags_in_frames(&self, knobs: &Knobs<'_>) -> anyhow::Result<()> {
        // What cannot be asked is refused by the opening, with its reason.
        for feature in stripped_tags(self.name).unwrap_or_default() {
            let wish = Wish::Feature { feature: feature.into(), on: false };
            let request = Request::Interface { interface: self.name.to_owned(), wish };
            knobs.turn(&request).context("xdp-ring wants tags left in frames; --backend af-xdp")?;
        }
        Ok(())
    }
}
