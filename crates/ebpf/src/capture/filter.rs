//! A filter in front of the capture leaf.
//!
//! The *fast* program is at the capture's place among the leaves and judges nearly every frame;
//! what it cannot judge goes to the *whole* program. From either one a frame goes by a tail call
//! to the leaf that steers, or to the one that counts it as passed. Both are written at run time:
//! a small main program, and the translated filter as a function behind it.

use crate::Error;
use ringside_core::LinkType;
use ringside_core::bpf::{ClassicProgram, EbpfInstruction};
use ringside_filter::translate::{XDP_ACCEPTS, XDP_ASKS};
use ringside_filter::{Target, TranslateOptions, translate};
use ringside_sys::bpf::{FdArray, Program, ProgramType};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

/// Name in `bpftool prog`.
const NAME: &str = "ringside_filter";

/// Name in `bpftool map`.
const STEPS_NAME: &str = "ringside_steps";

/// Where an accepted frame goes.
const STEER: i32 = 0;
/// Where a rejected frame goes.
const PASS: i32 = 1;
/// Where a frame goes that the fast program cannot judge.
const WHOLE: i32 = 2;
/// Places in the array.
const STEPS: u32 = 3;

/// A loaded filter.
#[derive(Debug)]
pub(super) struct Filter {
    fast: Program,
    steps: FdArray,
}

impl Filter {
    /// Loads `program`, which sends accepted frames to `steer` and others to `pass`. `tags`: the
    /// metadata tells of VLAN tags that were taken out.
    pub fn load(
        program: &ClassicProgram,
        link_type: LinkType,
        tags: bool,
        steer: BorrowedFd<'_>,
        pass: BorrowedFd<'_>,
    ) -> Result<Filter, Error> {
        let steps = FdArray::create_for_programs(STEPS_NAME, STEPS)?;
        let array = steps.as_fd().as_raw_fd();
        let load = |target| -> Result<Program, Error> {
            let options = TranslateOptions { target, link_type, snaplen_bytes: 0, counters: None };
            let code = with_main(translate(program, &options)?, array);
            Ok(Program::load(ProgramType::Xdp, NAME, &code)?)
        };
        let whole = load(Target::Xdp { tags })?;
        let fast = load(Target::XdpFast { tags })?;
        steps.set(STEER as u32, steer)?;
        steps.set(PASS as u32, pass)?;
        steps.set(WHOLE as u32, whole.as_fd())?;
        Ok(Filter { fast, steps })
    }

    /// The program that frames come to.
    pub fn entry(&self) -> BorrowedFd<'_> {
        self.fast.as_fd()
    }

    /// The array of the others. When its last descriptor is closed the kernel empties it; then
    /// every frame passes, uncounted.
    pub fn steps(&self) -> BorrowedFd<'_> {
        self.steps.as_fd()
    }
}

const R0: u8 = 0;
const R1: u8 = 1;
const R2: u8 = 2;
const R3: u8 = 3;
const CONTEXT: u8 = 6;

/// Codes of linux/bpf.h.
const MOVE_REGISTER: u8 = 0xbf;
const MOVE: u8 = 0xb4;
const LOAD_64: u8 = 0x18;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
const JUMP32_IF_EQUAL: u8 = 0x16;
/// `src` of LOAD_64: the constant is a map's descriptor.
const PSEUDO_MAP: u8 = 1;
/// `src` of CALL: the constant is a distance to a function of the same program.
const PSEUDO_CALL: u8 = 1;
/// bpf_tail_call in `enum bpf_func_id`.
const TAIL_CALL: i32 = 12;
const XDP_PASS: i32 = 2;

/// Instructions of a tail call with what follows if there is nothing to go to.
const GO_TO_STEP: usize = 7;
/// Instructions before the first tail call.
const HEAD: usize = 4;

/// Puts the main program in front of `function`.
fn with_main(function: Vec<EbpfInstruction>, steps: RawFd) -> Vec<EbpfInstruction> {
    let main_length = HEAD + 3 * GO_TO_STEP;
    let op = |code, dst, src, offset, imm| EbpfInstruction { code, dst, src, offset, imm };
    // Distances count from the instruction behind.
    let to = |from: usize, target: usize| target as i16 - from as i16 - 1;
    let mut code = vec![
        op(MOVE_REGISTER, CONTEXT, R1, 0, 0),
        op(CALL, 0, PSEUDO_CALL, 0, i32::from(to(1, main_length))),
        op(JUMP32_IF_EQUAL, R0, 0, to(2, HEAD + GO_TO_STEP), XDP_ACCEPTS as i32),
        op(JUMP32_IF_EQUAL, R0, 0, to(3, HEAD + 2 * GO_TO_STEP), XDP_ASKS as i32),
    ];
    for step in [PASS, STEER, WHOLE] {
        code.extend([
            op(MOVE_REGISTER, R1, CONTEXT, 0, 0),
            op(LOAD_64, R2, PSEUDO_MAP, 0, steps),
            op(0, 0, 0, 0, 0),
            op(MOVE, R3, 0, 0, step),
            op(CALL, 0, 0, 0, TAIL_CALL),
            op(MOVE, R0, 0, 0, XDP_PASS),
            op(EXIT, 0, 0, 0, 0),
        ]);
    }
    debug_assert_eq!(code.len(), main_length);
    code.extend(function);
    code
}
