//! Classic BPF to eBPF, for a filter that sees the frame as it was on the wire.
//!
//! The kernel takes the outer VLAN tag out of a received Ethernet frame and keeps it in
//! the metadata. The translated program puts it back for itself: a *head*, the first bytes of the
//! frame with the tag in place, is copied to the stack once, and loads with a small offset read
//! there. Loads beyond the head ask the kernel for the bytes (`bpf_skb_load_bytes`, which reaches
//! beyond the linear part) at the offset less 4 where a tag was taken out. So every load,
//! straddling the tag or not, sees exactly the frame on the wire, and `len` is its length.
//!
//! Why not LD_ABS and LD_IND, which classic programs become in the kernel: each is a call, the
//! tag would need a slow path at every load, and the loader rewrites each of them in time
//! proportional to the program, which is minutes for 1,000 `host` terms.
//!
//! On a socket the program returns the bytes of the socket buffer to keep; see
//! [`TranslateOptions`]. The same instructions load as a socket filter and, for
//! BPF_PROG_TEST_RUN, as a tc classifier. Needs Linux 5.12 (reads of the stack at variable
//! offsets) and no capability beyond those of loading.
//!
//! In XDP the tag comes from our own metadata, and there are two programs ([`Target`]): one as
//! above, and a fast one, which reads the frame where it lies. That one checks once that the first
//! bytes are in one piece and that no tag was taken out, which is so for nearly every frame; of
//! the others it says that it does not know. Both are functions of the context, to be called.

mod block;
mod layout;
mod operations;
mod prologue;
mod second;
mod threading;

use crate::FilterError;
use crate::classic::{Operation, SCRATCH_WORDS, validate};
use operations::{Part, Site};
use ringside_core::LinkType;
use ringside_core::bpf::{ClassicProgram, EbpfInstruction};
pub use second::{Second, translate_two};

/// Most instructions of an eBPF program that the kernel takes (BPF_COMPLEXITY_LIMIT_INSNS).
pub const EBPF_INSTRUCTIONS_MAX: usize = 1_000_000;

/// Longest head, in bytes: reaches the end of Ethernet, two tags, IPv6 and TCP without options,
/// and leaves most of the 512 bytes of stack.
const HEAD_BYTES_MAX: u32 = 128;

/// Head of a program with indirect loads: Ethernet, IPv4 and the first 20 bytes behind it.
const HEAD_BYTES_INDIRECT: u32 = 56;

/// Shortest head of an Ethernet program: beyond it no load can touch the tag.
const HEAD_BYTES_ETHERNET: u32 = 24;

/// Most bytes that the fast program wants in one piece: the shortest Ethernet frame's, and the end
/// of the ports behind IPv6. Loads beyond are checked one by one.
const FAST_HEAD_BYTES_MAX: u32 = 60;

/// What a function for XDP returns: the frame is rejected.
pub const XDP_REJECTS: u32 = 0;

/// The frame is accepted.
pub const XDP_ACCEPTS: u32 = 1;

/// The fast program does not know; the other one does.
pub const XDP_ASKS: u32 = 2;

/// `struct xdp_metadata` of `bpf/abi.h`, which `ebpf::abi` compares with these: its size.
pub const METADATA_BYTES: i32 = 24;
/// Offset of its flags.
pub const METADATA_FLAGS: i16 = 8;
/// Offset of the tag's type.
pub const METADATA_TPID: i16 = 16;
/// Offset of the tag.
pub const METADATA_TCI: i16 = 18;
/// Flag: a tag was taken out.
pub const METADATA_VLAN: i32 = 4;

/// Where a translated program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// As a filter of a socket, or as a tc classifier.
    Socket,
    /// As a function of an XDP program: gets the context, returns [`XDP_REJECTS`] or
    /// [`XDP_ACCEPTS`]. Needs Linux 5.18.
    Xdp {
        /// `struct xdp_metadata` of `bpf/abi.h` stands in front of the frame and may have a tag.
        tags: bool,
    },
    /// As [`Target::Xdp`], but returns [`XDP_ASKS`] for a frame with a tag there, or whose first
    /// bytes, those that the program reads and at most 60, are not there in one piece.
    XdpFast {
        /// As in [`Target::Xdp`].
        tags: bool,
    },
}

impl Target {
    /// A tag may have been taken out of an Ethernet frame.
    fn has_tags(self) -> bool {
        match self {
            Target::Socket => true,
            Target::Xdp { tags } | Target::XdpFast { tags } => tags,
        }
    }

    fn is_fast(self) -> bool {
        matches!(self, Target::XdpFast { .. })
    }
}

/// How a program is to be translated.
#[derive(Clone, Copy, Debug)]
pub struct TranslateOptions {
    /// Where it runs.
    pub target: Target,
    /// Link type of the frames. For Ethernet a tag in the metadata is put back.
    pub link_type: LinkType,
    /// Longest capture in bytes; 0 stands for whole frames. Means nothing in XDP.
    ///
    /// An accepted frame of which the classic program keeps `n` bytes returns `min(n, snaplen)`.
    /// Where a tag is in the metadata, 4 less, so that the frame has exactly that many bytes when
    /// the reader has put the tag back behind the first 12. A limit between 13 and 15 cuts within
    /// the tag: then 12 bytes are kept and the reader cuts after putting it back; below it there is
    /// no place for the tag and the reader leaves it out. An accepted frame never returns 0.
    pub snaplen_bytes: u32,
    /// File descriptor of a per-CPU array whose value 0 is two u64: frames seen, frames accepted.
    /// For two programs ([`translate_two`]) it is four: frames that the first accepts, and of those
    /// that the second rejects, the frames and their bytes on the wire.
    pub counters: Option<i32>,
}

/// What a program needs, known before its first instruction is written.
struct Plan {
    options: TranslateOptions,
    /// A tag may be in the metadata, and is put back.
    tags: bool,
    /// Bytes of the head, 0 without packet loads. A multiple of 8 where it is copied.
    head_bytes: u32,
    /// Scratch words that must be zeroed.
    scratch: [bool; SCRATCH_WORDS],
    /// Has backward jumps.
    loops: bool,
}

/// Translates `program` to eBPF.
///
/// # Errors
/// The program breaks a rule of classic BPF, or needs more instructions or longer jumps than the
/// kernel takes.
pub fn translate(
    program: &ClassicProgram,
    options: &TranslateOptions,
) -> Result<Vec<EbpfInstruction>, FilterError> {
    let code = Code::new(program)?;
    let plan = Plan::new(&[&code], *options);
    let mut output = layout::Layout::new(code.operations.len());
    output.place_unnumbered(prologue::prologue(&plan))?;
    code.place(&mut output, &plan, 0, Part::Only)?;
    output.finish()
}

/// A checked program, and where its instructions lead.
struct Code {
    operations: Vec<Operation>,
    targets: Vec<threading::Targets>,
    /// Which of them can be reached. The kernel refuses others.
    live: Vec<bool>,
}

impl Code {
    fn new(program: &ClassicProgram) -> Result<Code, FilterError> {
        let operations = validate(program)?;
        let targets = threading::targets(&operations);
        let live = layout::reachable(&operations, &targets);
        Ok(Code { operations, targets, live })
    }

    /// Its operations that can be reached.
    fn reached(&self) -> impl Iterator<Item = (usize, &Operation)> {
        self.operations.iter().enumerate().filter(|(index, _)| self.live[*index])
    }

    /// Places it from the place `start` on.
    fn place(
        &self,
        output: &mut layout::Layout,
        plan: &Plan,
        start: usize,
        program: Part,
    ) -> Result<(), FilterError> {
        let mut reached = self.reached().peekable();
        while let Some((index, operation)) = reached.next() {
            let next = reached.peek().map_or(self.operations.len(), |(next, _)| *next);
            let (on_true, on_false) = self.targets[index];
            let targets = (start + on_true, start + on_false);
            let site = Site { index: start + index, next: start + next, targets, program };
            output.place(site.index, operations::operation(plan, operation, site))?;
        }
        Ok(())
    }
}

impl Plan {
    fn new(programs: &[&Code], options: TranslateOptions) -> Plan {
        let target = options.target;
        let tags = options.link_type == LinkType::ETHERNET && target.has_tags();
        let (head_max, indirect) = match target.is_fast() {
            true => (FAST_HEAD_BYTES_MAX, 1),
            false => (HEAD_BYTES_MAX, HEAD_BYTES_INDIRECT),
        };
        let mut reach = 0;
        let mut scratch = [false; SCRATCH_WORDS];
        let mut loops = false;
        for (_, operation) in programs.iter().flat_map(|code| code.reached()) {
            match *operation {
                Operation::LoadAbsolute(width, k) => {
                    let end = k.saturating_add(width.bytes());
                    reach = reach.max(if end > head_max { 1 } else { end });
                }
                Operation::LoadHeaderLength(k) => {
                    reach = reach.max(if k >= head_max { 1 } else { k + 1 });
                }
                Operation::LoadIndirect(..) => reach = reach.max(indirect),
                Operation::LoadScratch(k)
                | Operation::LoadScratchX(k)
                | Operation::Store(k)
                | Operation::StoreX(k) => scratch[usize::from(k)] = true,
                Operation::Jump(by) if by < 0 => loops = true,
                _ => {}
            }
        }
        if target.is_fast() {
            return Plan { options, tags: false, head_bytes: reach, scratch, loops };
        }
        if tags && reach > 0 {
            reach = reach.max(HEAD_BYTES_ETHERNET);
        }
        let head_bytes = reach.next_multiple_of(8);
        Plan { options, tags, head_bytes, scratch, loops }
    }

    fn is_fast(&self) -> bool {
        self.options.target.is_fast()
    }

    fn is_xdp(&self) -> bool {
        self.options.target != Target::Socket
    }

    /// Offset of the head from the frame pointer. Ethernet's header has 14 bytes: with the head at
    /// 2 modulo 4 the fields behind it are aligned, as the verifier demands of stack reads; at 6
    /// modulo 8 the tag does not stand in an aligned slot.
    fn head(&self) -> i16 {
        HEAD_END - self.head_bytes as i16 - 8 + self.lead() as i16
    }

    fn lead(&self) -> u32 {
        if self.options.link_type == LinkType::ETHERNET { 6 } else { 0 }
    }

    fn snaplen(&self) -> u32 {
        match self.options.snaplen_bytes {
            0 => u32::MAX,
            bytes => bytes,
        }
    }
}

// The stack. The verifier follows what it knows of a u64-aligned slot, and would walk every way
// through the program once for each length, tag and X that it can tell apart. Values at 4 modulo 8
// it forgets: it then walks each way once, and loads 1,000 `host` terms.

/// Pointer to the counters.
const COUNTERS: i16 = -8;
/// u32: bytes that were taken out of the frame: 4 where a tag is in the metadata, else 0.
const TAKEN: i16 = -12;
/// u64: backward jumps so far. This one the verifier must follow, to see that the loop ends.
const JUMPS: i16 = -24;
/// u32: bytes in the head: the frame's length on the wire or the head's size, the smaller.
const AVAILABLE: i16 = -28;
/// u32: a value on its way to being forgotten.
const FORGET: i16 = -36;
/// Where the kernel puts bytes beyond the head; also the map's key.
const FETCHED: i16 = -48;
/// u32: bytes to keep, as the first of two programs says.
const KEPT: i16 = -44;
/// M[0] to M[15], each u32 in the upper half of 8 bytes.
const SCRATCH: i16 = FETCHED - 8 * SCRATCH_WORDS as i16;
/// The head ends here.
const HEAD_END: i16 = SCRATCH;

fn scratch(word: u8) -> i16 {
    SCRATCH + 8 * i16::from(word) + 4
}

#[cfg(test)]
mod tests;
