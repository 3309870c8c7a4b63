//! libpcap's compiler, called in this process.

use ringside_core::LinkType;
use ringside_core::bpf::{ClassicProgram, Instruction};

/// Longest expression, in bytes: 1 MiB is 40,000 `host` terms, far above what compiles in time.
pub const EXPRESSION_BYTES_MAX: usize = 1 << 20;

/// Compiles in this process; the error is libpcap's text.
pub(crate) fn compile(
    expression: &str,
    link_type: LinkType,
    optimise: bool,
) -> Result<ClassicProgram, String> {
    let text = |error: pcap::Error| match error {
        pcap::Error::PcapError(text) => text,
        other => other.to_string(),
    };
    let handle = pcap::Capture::dead(pcap::Linktype(dlt(link_type))).map_err(text)?;
    let program = handle.compile(expression, optimise).map_err(text)?;
    let instructions = program
        .get_instructions()
        .iter()
        .map(|instruction| read_instruction(&instruction.to_string()))
        .collect::<Option<Vec<_>>>()
        .ok_or("an instruction of libpcap's program cannot be read")?;
    Ok(ClassicProgram { instructions })
}

/// The `pcap` crate shows an instruction only as text: code, both jumps and k, in decimal.
fn read_instruction(text: &str) -> Option<Instruction> {
    let mut words = text.split_ascii_whitespace();
    Some(Instruction {
        code: words.next()?.parse().ok()?,
        jump_true: words.next()?.parse().ok()?,
        jump_false: words.next()?.parse().ok()?,
        k: words.next()?.parse().ok()?,
    })
}

/// libpcap's DLT_ number of a link type: the same but for a few old ones, whose numbers differ
/// between systems (<https://www.tcpdump.org/linktypes.html>; here those of Linux).
pub fn dlt(link_type: LinkType) -> i32 {
    match link_type.0 {
        100 => 11,
        101 => 12,
        102 => 16,
        103 => 15,
        106 => 19,
        other => i32::from(other),
    }
}
