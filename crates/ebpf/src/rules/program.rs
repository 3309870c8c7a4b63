//! One set of tables, and the program that judges by them.

use super::attachment::RulesAttachment;
use super::counters::{COUNTS_BYTES, Counters, OFFENDER_BYTES, TOTALS_BYTES, Totals};
use super::{Words32, Words64};
use crate::abi::METADATA_FULL_BYTES;
use crate::abi::rules::{CHECK_WORDS, Config, EXTRAS_WORDS, Fate, SET_WORDS, parts};
use crate::load::{Embedded, Loaded, embedded, test_run};
use crate::pins::PROGRAM;
use crate::root::LEAVES;
use crate::{Error, TestRun};
use libbpf_rs::{MapCore, MapFlags, MapHandle, OpenObject};
use ringside_sys::bpf;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

static XDP_RULES: Embedded = embedded!("xdp_rules");

/// Room in the tables, in entries of each array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Nodes of 256 classes.
    pub nodes: usize,
    /// Words of a row, and those of its summary, which stand in front.
    pub row_words: usize,
    /// See `row_words`.
    pub summary_words: usize,
    /// Rows of bits, one for each class.
    pub rows: usize,
    /// Bits of a row, with a rule each.
    pub bits: usize,
    /// Exact rules.
    pub flows: usize,
    /// Buckets of exact rules, a power of two.
    pub buckets: usize,
    /// Words of their Bloom filter, a power of two.
    pub bloom: usize,
    /// Rules of all kinds, with those that go.
    pub slots: usize,
    /// Of these, rules with extras.
    pub extras: usize,
    /// Checks of all rules.
    pub checks: usize,
    /// Address sets.
    pub sets: usize,
    /// Words of their Bloom filters.
    pub set_blooms: usize,
    /// Spans of all sets, of IPv4.
    pub spans_v4: usize,
    /// The same of IPv6.
    pub spans_v6: usize,
    /// Pieces of the texts of rules, for processes that read them when this one is gone; 0: there
    /// are no texts.
    pub texts: usize,
}

/// Values of the array of rows are mapped and addressed as wholes.
const WORD_BYTES: usize = 8;
const CONTROL_WORDS: usize = 8;
/// The word of `control` that the writer of rules leaves to us.
pub(super) const CONTROL_DEFAULT: usize = 7;
/// The word with the seed of hashes.
const CONTROL_SEED: usize = 1;
const NODE_BYTES: usize = 1024;
const LINE_BYTES: usize = 64;
const RECORD_BYTES: usize = 8;
const SPAN_V6_WORDS: usize = 4;
const SOURCE_BYTES: usize = 32;
const REPORT_WORDS: usize = 10;

/// Bytes of a piece of text.
pub const TEXT_BYTES: usize = 16;

/// Frames a source may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceLimit {
    /// Frames a second, at least 1; the share of a microsecond is rounded up to 2^-20 frames.
    pub frames_per_second: u32,
    /// Frames at once, at least 1. The clock ticks some hundred times a second, so that a source
    /// that may send r frames a second gets some r / 100 at a time.
    pub burst_frames: u32,
    /// Sources that are known at a time, a power of two; another one begins anew, and takes the
    /// place of one of these. 32 bytes each.
    pub sources: u32,
}

/// What a program is loaded for.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// A capture stands behind, which judges itself what cannot be decided here.
    pub shares: bool,
    /// Frames are judged and counted, and go on.
    pub is_dry: bool,
    /// What was found about each frame is reported, for tests: [`RulesProgram::report`].
    pub reports: bool,
    /// Conversations that each CPU remembers, a power of two; 64 bytes each.
    pub memory: u32,
    /// A limit of frames of each source, for those that no rule drops.
    pub source_limit: Option<SourceLimit>,
    /// Places for sources of dropped frames, for each CPU, a power of two; 0: none are noted.
    pub offenders: u32,
}

/// What was found about the last frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// The words of its key.
    pub key: [u64; 5],
    /// Frames so far.
    pub frames: u64,
    /// What became of it; none if it was not judged.
    pub fate: Option<Fate>,
    /// Slot of the rule that said so.
    pub decided_by: Option<u32>,
    /// Flags of TCP, twelve bits, if it is that.
    pub tcp_flags: Option<u16>,
    /// Where headers are: the first hardware address, network, transport, payload.
    pub offsets: [Option<u32>; 4],
}

/// A loaded program with its tables.
#[derive(Debug)]
pub struct RulesProgram {
    program: OwnedFd,
    cpus: u32,
    sizes: Sizes,
    options: Options,
    counters: Counters,
    reports: Words64,
    samples: Words64,
    control: Words64,
    cpu_map: MapHandle,
    maps: BTreeMap<&'static str, MapHandle>,
}

impl RulesProgram {
    /// Makes tables, all 0, and loads the program for an attachment; without one it can only be run
    /// on test data.
    ///
    /// # Errors
    /// No privilege, no memory, or the kernel refused.
    pub fn load(
        sizes: &Sizes,
        options: &Options,
        attachment: Option<&RulesAttachment>,
    ) -> Result<RulesProgram, Error> {
        let cpus = bpf::cpu_numbers()?;
        let config = config(sizes, options, attachment, cpus).to_bytes();
        let entries = Entries { sizes, options, cpus: cpus as usize };
        let mut loaded = Loaded::prepared(&XDP_RULES, Some(&config), |object| {
            entries.size(object, attachment.map(RulesAttachment::leaves))
        })?;
        let handle = |name: &'static str| loaded.map(name).map(|map| (name, map));
        let maps = TABLES.into_iter().map(handle).collect::<Result<BTreeMap<_, _>, Error>>()?;
        let words = |name: &str, count: usize| map_words(&maps[name], name, count);
        let [totals, counts, offenders] =
            Counters::words(cpus as usize, sizes.slots, options.offenders as usize);
        let program = RulesProgram {
            cpus,
            sizes: *sizes,
            options: *options,
            counters: Counters {
                cpus: cpus as usize,
                slots: sizes.slots,
                totals: words("totals", totals)?,
                counts: words("counts", counts)?,
                offenders: words("offenders", offenders)?,
            },
            reports: words("reports", REPORT_WORDS)?,
            samples: words("samples", cpus as usize * sizes.extras)?,
            control: words("control", CONTROL_WORDS)?,
            cpu_map: loaded.map("cpus")?,
            program: loaded.program_fd()?,
            maps,
        };
        program.set_default(Fate::Pass);
        Ok(program)
    }

    /// Sets all words of all tables to 0; no frame may be with the program, and none of its rules
    /// is there any more.
    ///
    /// # Errors
    /// The kernel refused to map a table.
    pub fn clear(&self) -> Result<(), Error> {
        for (name, map) in &self.maps {
            let bytes = map.max_entries() as usize * map.value_size() as usize;
            for word in map_words(map, name, bytes / WORD_BYTES)?.iter() {
                word.store(0, Ordering::Relaxed);
            }
        }
        self.set_default(Fate::Pass);
        Ok(())
    }

    /// Sets the fate of frames that no rule decides about: pass, which it is first, take or drop.
    pub fn set_default(&self, fate: Fate) {
        // The rest is for processes that read the tables without this one.
        let word = u64::from(fate as u32) | u64::from(self.options.is_dry) << 32;
        self.control[CONTROL_DEFAULT].store(word, Ordering::Release);
    }

    /// The tables of classes, 256 words of 32 bits a node.
    ///
    /// # Errors
    /// The kernel refused to map it.
    pub fn nodes(&self) -> Result<Words32, Error> {
        Words32::of_array(&self.maps["nodes"], self.sizes.nodes * NODE_BYTES / 4)
            .map_err(|e| Error::mapping("nodes", e))
    }

    /// One of the other tables, by the name that it has in `bpf/rules.h` and the headers next to
    /// it.
    ///
    /// # Errors
    /// There is no such table, or the kernel refused to map it.
    pub fn table(&self, name: &'static str) -> Result<Words64, Error> {
        let entries = Entries { sizes: &self.sizes, options: &self.options, cpus: 0 };
        let bytes = entries.of(name).map(|(count, bytes)| count * bytes);
        let part = || Error::Object { object: XDP_RULES.name, part: format!("table {name}") };
        let map = self.maps.get(name).ok_or_else(part)?;
        map_words(map, name, bytes.ok_or_else(part)? / WORD_BYTES)
    }

    /// Frames and bytes that a rule counted, on all CPUs and before.
    pub fn counts(&self, slot: u32) -> (u64, u64) {
        self.counters.of(slot)
    }

    /// Sets what a rule counted to 0; no frame may be able to meet it.
    pub fn clear_counts(&self, slot: u32) {
        self.counters.clear(slot);
    }

    /// Says what a rule had counted before this program came: it is added to what it counts here.
    pub fn carry_counts(&self, slot: u32, frames_and_bytes: (u64, u64)) {
        self.counters.carry_counts(slot, frames_and_bytes);
    }

    /// The same of all frames.
    pub fn carry(&self, totals: Totals) {
        self.counters.carry(totals);
    }

    /// Begins the sample of a rule anew; no frame may be able to meet it.
    pub fn clear_sample(&self, extra: u32) {
        for cpu in 0..self.cpus as usize {
            let at = cpu * self.sizes.extras + extra as usize;
            self.samples[at].store(0, Ordering::Relaxed);
        }
    }

    /// Frames so far, and those that were carried over: exact while none come.
    pub fn totals(&self) -> Totals {
        self.counters.totals()
    }

    /// Sources of dropped frames as the CPUs noted them: address words, version of IP, frames. A
    /// source may be there once for each CPU.
    pub fn offenders(&self) -> impl Iterator<Item = ([u64; 2], u64, u64)> {
        self.counters.offenders()
    }

    /// Lets frames be sent to the host's stack on another CPU, which gets a queue for them.
    ///
    /// # Errors
    /// There is no such CPU, or the kernel refused.
    pub fn enable_cpu(&self, cpu: u32, queue_frames: u32) -> Result<(), Error> {
        self.cpu_map
            .update(&cpu.to_ne_bytes(), &queue_frames.to_ne_bytes(), MapFlags::ANY)
            .map_err(|e| Error::kernel(format!("cannot send frames to CPU {cpu}"), e))
    }

    /// What must stay where its process does not, each with its name.
    pub(super) fn objects(&self) -> impl Iterator<Item = (&'static str, BorrowedFd<'_>)> {
        let maps = self.maps.iter().map(|(name, map)| (*name, map.as_fd()));
        maps.chain([("cpus", self.cpu_map.as_fd()), (PROGRAM, self.as_fd())])
    }

    /// One of its tables, by its name.
    pub(super) fn map(&self, name: &str) -> BorrowedFd<'_> {
        self.maps[name].as_fd()
    }

    /// The seed of hashes, from the writer of the rules.
    pub fn seed(&self) -> u64 {
        self.control[CONTROL_SEED].load(Ordering::Relaxed)
    }

    /// What it was loaded for.
    pub(super) fn options(&self) -> &Options {
        &self.options
    }

    /// How many numbers of CPUs there are.
    pub fn cpus(&self) -> u32 {
        self.cpus
    }

    /// The room that it was loaded with.
    pub fn sizes(&self) -> &Sizes {
        &self.sizes
    }

    /// Bytes of all its tables.
    pub fn memory_bytes(&self) -> usize {
        let entries =
            Entries { sizes: &self.sizes, options: &self.options, cpus: self.cpus as usize };
        TABLES.iter().filter_map(|name| entries.of(name)).map(|(count, bytes)| count * bytes).sum()
    }

    /// Runs the program once on a copy of `frame`; it is counted.
    ///
    /// # Errors
    /// The kernel refused; a frame of less than 14 bytes is.
    pub fn test_run(&self, frame: &[u8]) -> Result<TestRun, Error> {
        test_run(self.program.as_fd(), frame)
    }

    /// What was found about the last frame, if the program was loaded to report.
    pub fn report(&self) -> Report {
        let word = |at: usize| self.reports[at].load(Ordering::Relaxed);
        let halves = |at: usize| parts(word(at));
        let ((fate, decided), (is_judged, flags)) = (halves(6), halves(7));
        let ((mac, network), (transport, payload)) = (halves(8), halves(9));
        Report {
            key: std::array::from_fn(word),
            frames: word(5),
            fate: (is_judged != 0).then(|| Fate::of(fate)).flatten(),
            decided_by: decided.checked_sub(1),
            tcp_flags: u16::try_from(flags).ok().filter(|flags| *flags <= 0xfff),
            offsets: [mac, network, transport, payload].map(|at| (at != u32::MAX).then_some(at)),
        }
    }
}

impl AsFd for RulesProgram {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.program.as_fd()
    }
}

fn map_words(map: &MapHandle, name: &str, count: usize) -> Result<Words64, Error> {
    Words64::of_array(map, count).map_err(|e| Error::mapping(name, e))
}

fn config(
    sizes: &Sizes,
    options: &Options,
    attachment: Option<&RulesAttachment>,
    cpus: u32,
) -> Config {
    let (tokens_per_us, tokens_max) = options.source_limit.as_ref().map_or((0, 0), tokens);
    Config {
        position: attachment.map_or(0, RulesAttachment::position),
        metadata: match attachment {
            Some(attachment) if !attachment.has_metadata() => 0,
            _ => METADATA_FULL_BYTES,
        },
        shares: options.shares.into(),
        is_dry: options.is_dry.into(),
        reports: options.reports.into(),
        cpus,
        slots: sizes.slots as u32,
        words: (sizes.row_words - sizes.summary_words) as u32,
        summary: sizes.summary_words as u32,
        memory: options.memory,
        sources: options.source_limit.map_or(0, |limit| limit.sources),
        offenders: options.offenders,
        extras: sizes.extras as u32,
        stays: attachment.is_some_and(RulesAttachment::is_pinned).into(),
        tokens_per_us,
        tokens_max,
    }
}

/// Frames, as the program counts tokens.
const TOKENS_PER_FRAME: u64 = 1 << 20;

fn tokens(limit: &SourceLimit) -> (u64, u64) {
    let per_second = u64::from(limit.frames_per_second) * TOKENS_PER_FRAME;
    (per_second.div_ceil(1_000_000), u64::from(limit.burst_frames.max(1)) * TOKENS_PER_FRAME)
}

/// The arrays, by their names in `bpf/`.
const TABLES: [&str; 23] = [
    "control",
    "nodes",
    "rows",
    "bits",
    "flows",
    "buckets",
    "bloom",
    "records",
    "extras",
    "checks",
    "sets",
    "set_blooms",
    "spans_v4",
    "spans_v6",
    "memory",
    "counts",
    "samples",
    "totals",
    "reports",
    "sources",
    "offenders",
    "titles",
    "texts",
];

/// What the arrays must be.
struct Entries<'e> {
    sizes: &'e Sizes,
    options: &'e Options,
    cpus: usize,
}

impl Entries<'_> {
    /// Entries of an array, and the bytes of each; none if user space does not size it.
    fn of(&self, name: &str) -> Option<(usize, usize)> {
        let (sizes, options, cpus) = (self.sizes, self.options, self.cpus);
        let sources = options.source_limit.map_or(1, |limit| limit.sources as usize);
        Some(match name {
            "control" => (1, CONTROL_WORDS * WORD_BYTES),
            "nodes" => (sizes.nodes, NODE_BYTES),
            "rows" => (sizes.rows, sizes.row_words * WORD_BYTES),
            "bits" => (sizes.bits, WORD_BYTES),
            "flows" => (sizes.flows, LINE_BYTES),
            "buckets" => (sizes.buckets, LINE_BYTES),
            "bloom" => (sizes.bloom, WORD_BYTES),
            "records" => (sizes.slots, RECORD_BYTES),
            "extras" => (sizes.extras, EXTRAS_WORDS * WORD_BYTES),
            "checks" => (sizes.checks, CHECK_WORDS * WORD_BYTES),
            "sets" => (sizes.sets, SET_WORDS * WORD_BYTES),
            "set_blooms" => (sizes.set_blooms, WORD_BYTES),
            "spans_v4" => (sizes.spans_v4, WORD_BYTES),
            "spans_v6" => (sizes.spans_v6, SPAN_V6_WORDS * WORD_BYTES),
            "memory" => (cpus * options.memory as usize, LINE_BYTES),
            "counts" => (Counters::parts(cpus) * sizes.slots, COUNTS_BYTES),
            "samples" => (cpus * sizes.extras, WORD_BYTES),
            "totals" => (Counters::parts(cpus), TOTALS_BYTES),
            "reports" => (1, REPORT_WORDS * WORD_BYTES),
            "sources" => (sources, SOURCE_BYTES),
            "offenders" => (cpus * options.offenders as usize, OFFENDER_BYTES),
            "titles" => (if sizes.texts > 0 { sizes.slots } else { 1 }, WORD_BYTES),
            "texts" => (sizes.texts.max(1), TEXT_BYTES),
            _ => return None,
        })
    }

    fn size(
        &self,
        object: &mut OpenObject,
        leaves: Option<BorrowedFd<'_>>,
    ) -> Result<(), libbpf_rs::Error> {
        for mut map in object.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            if name == LEAVES {
                if let Some(leaves) = leaves {
                    map.reuse_fd(leaves)?;
                }
            } else if name == "cpus" {
                map.set_max_entries(self.cpus as u32)?;
            } else if let Some((entries, bytes)) = self.of(&name) {
                map.set_max_entries(entries.max(1) as u32)?;
                map.set_value_size(bytes as u32)?;
            }
        }
        Ok(())
    }
}
