//! Frames as the kernel hands them to everybody: packet sockets, and libpcap.

use super::{Plan, Sources};
use crate::keep;
use crate::refused::Refused;
use ringside_capture::backend::af_packet::{self, AfPacketSource};
use ringside_capture::backend::{merge_warning, pcap};
use ringside_core::Source;

/// Longest classic program that the kernel takes (BPF_MAXINSNS of linux/bpf_common.h).
const PCAP_INSTRUCTIONS_MAX: usize = 4096;

impl Plan<'_> {
    pub(super) fn af_packet(&self, warnings: &mut Vec<String>) -> anyhow::Result<Sources> {
        let options = self.opening.options;
        let hardware_timestamps = options.hardware_time && self.stamps_by_hardware(warnings);
        let opened = af_packet::open(&af_packet::AfPacketConfig {
            interface: self.name.to_owned(),
            interface_id: self.interface_id,
            lanes: options.lanes.unwrap_or(1),
            fanout: options.fanout,
            ring_bytes: options.kernel_ring_bytes,
            block_timeout_ms: options.block_timeout_ms,
            snaplen_bytes: options.snaplen_bytes,
            promiscuous: options.promiscuous,
            direction: self.direction,
            filter: self.filter.clone().map(|program| (program, options.filter.clone())),
            hardware_timestamps,
            rules: self.opening.rules.cloned(),
        })?;
        warnings.extend(opened.warnings);
        if let Some(rules) = self.opening.rules {
            keep::tell_pre_filter(rules, self.name, self.opening.notes);
        }
        let with_handles = |source: AfPacketSource| {
            // Without a descriptor left the run goes on; only its end after a crash knows less.
            let handles = source.kernel_side().ok();
            (Box::new(source) as Box<dyn Source>, handles)
        };
        Ok(opened.sources.into_iter().map(with_handles).collect())
    }

    pub(super) fn pcap(&self, warnings: &mut Vec<String>) -> anyhow::Result<Sources> {
        let options = self.opening.options;
        if options.lane_count() > 1 {
            return Err(Refused::OneLane.into());
        }
        let instructions = self.filter.as_ref().map_or(0, |program| program.instructions.len());
        if instructions > PCAP_INSTRUCTIONS_MAX {
            // libpcap compiles in this process, and its optimiser would take minutes.
            let max = PCAP_INSTRUCTIONS_MAX;
            return Err(Refused::LongFilter { instructions, max }.into());
        }
        warnings.extend(merge_warning(self.name));
        let expression = options.filter.clone();
        let source = pcap::open(&pcap::PcapConfig {
            device: self.name.to_owned(),
            interface_id: self.interface_id,
            ring_bytes: options.kernel_ring_bytes,
            block_timeout_ms: options.block_timeout_ms,
            snaplen_bytes: options.snaplen_bytes,
            promiscuous: options.promiscuous,
            direction: self.direction,
            filter: (!expression.is_empty()).then_some(expression),
        })?;
        Ok(vec![(Box::new(source), None)])
    }
}
