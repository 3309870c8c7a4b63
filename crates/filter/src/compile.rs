//! From an expression to a checked classic program, within limits of time and memory.

use crate::child::{CHILD_MEMORY_BYTES, Request, Running};
use crate::libpcap::{self, EXPRESSION_BYTES_MAX};
use crate::{FilterError, Operation, validate};
use ringside_core::LinkType;
use ringside_core::bpf::{ClassicProgram, Instruction};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Time for the attempt with libpcap's optimiser. It needs 1.2 s for 300 `host` terms and 43 s for
/// 1,000; a user waits two seconds gladly for a shorter program, but not longer.
const OPTIMISED_BUDGET: Duration = Duration::from_secs(2);

/// After this a second child, without the optimiser, starts in parallel: nearly every filter
/// is compiled by then, and 1,000 `host` terms take seconds even so.
const SECOND_START: Duration = Duration::from_millis(300);

/// Time for both together: a user has an answer within 10 seconds.
const TOTAL_BUDGET: Duration = Duration::from_secs(9);

/// Where libpcap runs.
#[derive(Clone, Debug)]
pub enum Compiler {
    /// In this process, without a time limit: for tests and for expressions of our own.
    InProcess {
        /// Run libpcap's optimiser.
        optimise: bool,
    },
    /// In a child process with limited time and memory, which must call
    /// [`child_main`](crate::child_main) on its standard input and output.
    Child {
        /// Program to start.
        exe: PathBuf,
        /// Arguments of the program.
        args: Vec<OsString>,
    },
}

/// A compiled filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiled {
    /// The program; checked. It returns the snapshot length for a frame that it accepts.
    pub program: ClassicProgram,
    /// False if libpcap's optimiser did not finish in time (or was not asked): the meaning is the
    /// same, the program is longer.
    pub optimised: bool,
}

/// Compiles a pcap-filter(7) expression for frames of `link_type`. The program returns
/// `snaplen_bytes` for an accepted frame (0 stands for whole frames: `u32::MAX`) and 0 for a
/// rejected one. An empty expression accepts every frame.
///
/// VLAN tags are expected in the frame; nothing of the kernel's VLAN extensions is generated.
///
/// # Errors
/// libpcap's refusal with its text, or a limit that was met. With [`Compiler::Child`] an answer
/// comes within 10 seconds.
pub fn compile(
    expression: &str,
    link_type: LinkType,
    snaplen_bytes: u32,
    compiler: &Compiler,
) -> Result<Compiled, FilterError> {
    if expression.len() > EXPRESSION_BYTES_MAX {
        return Err(FilterError::ExpressionTooLong {
            bytes: expression.len(),
            limit: EXPRESSION_BYTES_MAX,
        });
    }
    let (mut program, optimised) = if expression.trim().is_empty() {
        // libpcap refuses link types that it cannot filter at all even then.
        (accept_all(), true)
    } else {
        match compiler {
            Compiler::InProcess { optimise } => {
                let answer = libpcap::compile(expression, link_type, *optimise);
                (refused(answer, expression)?, *optimise)
            }
            Compiler::Child { exe, args } => in_child(expression, link_type, exe, args)?,
        }
    };
    let operations = validate(&program)?;
    if let Some(offset) = operations.iter().find_map(offset_outside_frame) {
        return Err(FilterError::NotInFrame { expression: expression.to_owned(), offset });
    }
    set_accept_value(&mut program, snaplen_bytes);
    Ok(Compiled { program, optimised })
}

fn accept_all() -> ClassicProgram {
    let accept = Instruction { code: 0x06, jump_true: 0, jump_false: 0, k: u32::MAX };
    ClassicProgram { instructions: vec![accept] }
}

fn refused<T>(answer: Result<T, String>, expression: &str) -> Result<T, FilterError> {
    answer.map_err(|message| match message.as_str() {
        // libpcap names the function that failed (gencode.c, optimize.c).
        "malloc" | "calloc" | "realloc" | "out of memory" => FilterError::OutOfMemory {
            bytes: expression.len(),
            limit_mib: CHILD_MEMORY_BYTES >> 20,
        },
        _ => FilterError::Refused { expression: expression.to_owned(), message },
    })
}

fn in_child(
    expression: &str,
    link_type: LinkType,
    exe: &std::path::Path,
    args: &[OsString],
) -> Result<(ClassicProgram, bool), FilterError> {
    let start = Instant::now();
    let run = |optimise| Running::start(exe, args, &Request { link_type, optimise, expression });
    let mut optimised = run(true)?;
    if let Some(answer) = optimised.wait_until(start + SECOND_START)? {
        return Ok((refused(answer, expression)?, true));
    }
    let mut plain = run(false)?;
    if let Some(answer) = optimised.wait_until(start + OPTIMISED_BUDGET)? {
        return Ok((refused(answer, expression)?, true));
    }
    drop(optimised);
    match plain.wait_until(start + TOTAL_BUDGET)? {
        Some(answer) => Ok((refused(answer, expression)?, false)),
        None => Err(FilterError::TimedOut {
            expression: expression.to_owned(),
            seconds: TOTAL_BUDGET.as_secs(),
        }),
    }
}

/// On Linux libpcap turns `inbound` into a load at one of the kernel's extensions even for a dead
/// handle. A filter here is about the frame, in files as in the kernel, so it is refused.
fn offset_outside_frame(operation: &Operation) -> Option<u32> {
    match *operation {
        Operation::LoadAbsolute(_, k) | Operation::LoadHeaderLength(k) => {
            (k > i32::MAX as u32).then_some(k)
        }
        _ => None,
    }
}

/// libpcap gives a dead handle's snapshot length, 65,535, as the value of an accepted frame.
fn set_accept_value(program: &mut ClassicProgram, snaplen_bytes: u32) {
    let value = if snaplen_bytes == 0 { u32::MAX } else { snaplen_bytes };
    for instruction in &mut program.instructions {
        if instruction.code == 0x06 && instruction.k != 0 {
            instruction.k = value;
        }
    }
}
