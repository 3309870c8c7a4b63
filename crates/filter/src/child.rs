//! The bounded child in which libpcap compiles, and the format in which the two talk.
//!
//! Request, little endian: magic `RSF1`, link type (u16), optimise (u8), length (u32), expression.
//! Answer: magic `RSF2`, status (u8: 0 a program, 1 libpcap's refusal), length of the rest in bytes
//! (u32), then instructions of 8 bytes each (code u16, both jumps u8, k u32) or the text.
//! Both ends check every length; the parent trusts no answer before [`validate`](crate::validate).

use crate::FilterError;
use crate::bounded::{BoundedChild, limit_this_process};
use crate::classic::PROGRAM_INSTRUCTIONS_MAX;
use crate::libpcap::{self, EXPRESSION_BYTES_MAX};
use ringside_core::LinkType;
use ringside_core::bpf::{ClassicProgram, Instruction};
use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::Path;
use std::process::ExitStatus;
use std::time::Instant;

const REQUEST_MAGIC: [u8; 4] = *b"RSF1";
const ANSWER_MAGIC: [u8; 4] = *b"RSF2";
const REQUEST_HEADER_BYTES: usize = 11;
const ANSWER_HEADER_BYTES: usize = 9;
const INSTRUCTION_BYTES: usize = 8;
const STATUS_PROGRAM: u8 = 0;
const STATUS_REFUSED: u8 = 1;

/// Longest text of a refusal, in bytes: libpcap's own buffer has 256.
const REFUSAL_BYTES_MAX: usize = 4096;

/// Longest answer, in bytes.
const ANSWER_BYTES_MAX: usize =
    ANSWER_HEADER_BYTES + PROGRAM_INSTRUCTIONS_MAX * INSTRUCTION_BYTES + REFUSAL_BYTES_MAX;

/// Processor time of the child, in seconds: a second guard, if the parent that kills it is gone.
const CHILD_CPU_SECONDS: u64 = 10;

/// Address space of the child, in bytes. 1,000 `host` terms take well below 100 MiB.
pub(crate) const CHILD_MEMORY_BYTES: u64 = 1 << 30;

/// What the parent asks for.
pub(crate) struct Request<'a> {
    pub link_type: LinkType,
    pub optimise: bool,
    pub expression: &'a str,
}

/// Runs the child's side: limits this process, reads one request from `stdin`, compiles it and
/// writes the answer to `stdout`. Returns the exit status: 0 if an answer was written (also a
/// refusal), 2 if not.
///
/// It limits the processor time and memory of the whole process, so nothing else must run in it.
pub fn child_main(stdin: impl Read, mut stdout: impl Write) -> i32 {
    limit_this_process(CHILD_CPU_SECONDS, CHILD_MEMORY_BYTES);
    let mut request = Vec::new();
    let bytes_max = (REQUEST_HEADER_BYTES + EXPRESSION_BYTES_MAX + 1) as u64;
    if stdin.take(bytes_max).read_to_end(&mut request).is_err() {
        return 2;
    }
    let Some(request) = decode_request(&request) else { return 2 };
    let answer = libpcap::compile(request.expression, request.link_type, request.optimise);
    match stdout.write_all(&encode_answer(answer)).and_then(|()| stdout.flush()) {
        Ok(()) => 0,
        Err(_) => 2,
    }
}

/// A child at work on one request; killed when dropped.
pub(crate) struct Running(BoundedChild);

impl Running {
    /// Starts a child and sends it the request.
    pub fn start(
        exe: &Path,
        args: &[OsString],
        request: &Request<'_>,
    ) -> Result<Running, FilterError> {
        let question = encode_request(request);
        let child = BoundedChild::start(exe, args, question, ANSWER_BYTES_MAX);
        child.map(Running).map_err(|error| FilterError::Compiler {
            what: "cannot be started",
            detail: format!("{}: {error}", exe.display()),
        })
    }

    /// Waits for the answer, a program or libpcap's refusal; `None` if there is none by `deadline`.
    pub fn wait_until(
        &mut self,
        deadline: Instant,
    ) -> Result<Option<Result<ClassicProgram, String>>, FilterError> {
        let failed = |what, detail| FilterError::Compiler { what, detail };
        let answer = self.0.wait_until(deadline);
        let answer = answer.map_err(|error| failed("cannot be read", error.to_string()))?;
        let Some(answer) = answer else { return Ok(None) };
        match decode_answer(&answer) {
            Some(answer) => Ok(Some(answer)),
            None => {
                let status = self.0.status();
                Err(failed("gave no valid answer", describe(status, answer.len())))
            }
        }
    }
}

fn describe(status: Option<ExitStatus>, bytes: usize) -> String {
    match status {
        Some(status) => format!(
            "{status} after {bytes} bytes; the expression may be nested too deeply or have too \
             many terms"
        ),
        None => format!("{bytes} bytes"),
    }
}

fn encode_request(request: &Request<'_>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(REQUEST_HEADER_BYTES + request.expression.len());
    bytes.extend(REQUEST_MAGIC);
    bytes.extend(request.link_type.0.to_le_bytes());
    bytes.push(u8::from(request.optimise));
    bytes.extend((request.expression.len() as u32).to_le_bytes());
    bytes.extend(request.expression.as_bytes());
    bytes
}

fn decode_request(bytes: &[u8]) -> Option<Request<'_>> {
    let (header, expression) = bytes.split_first_chunk::<REQUEST_HEADER_BYTES>()?;
    let [magic @ .., low, high, optimise, l0, l1, l2, l3] = *header;
    let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
    let sound = magic == REQUEST_MAGIC && optimise <= 1 && length == expression.len();
    if !sound || length > EXPRESSION_BYTES_MAX {
        return None;
    }
    Some(Request {
        link_type: LinkType(u16::from_le_bytes([low, high])),
        optimise: optimise == 1,
        expression: std::str::from_utf8(expression).ok()?,
    })
}

fn encode_answer(answer: Result<ClassicProgram, String>) -> Vec<u8> {
    let (status, rest) = match answer {
        Ok(program) if program.instructions.len() <= PROGRAM_INSTRUCTIONS_MAX => {
            (STATUS_PROGRAM, encode_instructions(&program))
        }
        Ok(program) => {
            let text = format!(
                "{} instructions, {PROGRAM_INSTRUCTIONS_MAX} are allowed",
                program.instructions.len()
            );
            (STATUS_REFUSED, text.into_bytes())
        }
        Err(text) => (STATUS_REFUSED, text.into_bytes()),
    };
    let rest = if status == STATUS_REFUSED {
        rest.into_iter().take(REFUSAL_BYTES_MAX).collect()
    } else {
        rest
    };
    let mut bytes = Vec::with_capacity(ANSWER_HEADER_BYTES + rest.len());
    bytes.extend(ANSWER_MAGIC);
    bytes.push(status);
    bytes.extend((rest.len() as u32).to_le_bytes());
    bytes.extend(rest);
    bytes
}

fn encode_instructions(program: &ClassicProgram) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(program.instructions.len() * INSTRUCTION_BYTES);
    for instruction in &program.instructions {
        bytes.extend(instruction.code.to_le_bytes());
        bytes.extend([instruction.jump_true, instruction.jump_false]);
        bytes.extend(instruction.k.to_le_bytes());
    }
    bytes
}

fn decode_answer(bytes: &[u8]) -> Option<Result<ClassicProgram, String>> {
    let (header, rest) = bytes.split_first_chunk::<ANSWER_HEADER_BYTES>()?;
    let [magic @ .., status, l0, l1, l2, l3] = *header;
    let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
    if magic != ANSWER_MAGIC || length != rest.len() {
        return None;
    }
    match status {
        STATUS_PROGRAM => decode_instructions(rest).map(Ok),
        STATUS_REFUSED if length <= REFUSAL_BYTES_MAX => {
            Some(Err(String::from_utf8_lossy(rest).into_owned()))
        }
        _ => None,
    }
}

fn decode_instructions(bytes: &[u8]) -> Option<ClassicProgram> {
    let (chunks, rest) = bytes.as_chunks::<INSTRUCTION_BYTES>();
    if !rest.is_empty() || chunks.len() > PROGRAM_INSTRUCTIONS_MAX {
        return None;
    }
    let instruction = |&[c0, c1, jump_true, jump_false, k0, k1, k2, k3]: &[u8; 8]| Instruction {
        code: u16::from_le_bytes([c0, c1]),
        jump_true,
        jump_false,
        k: u32::from_le_bytes([k0, k1, k2, k3]),
    };
    Some(ClassicProgram { instructions: chunks.iter().map(instruction).collect() })
}

#[cfg(test)]
mod tests;
