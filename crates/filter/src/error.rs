//! Why a filter was refused.

use thiserror::Error;

/// Why an expression or a program cannot be used.
#[derive(Debug, Error)]
pub enum FilterError {
    /// libpcap refused the expression.
    #[error("filter '{}' is refused by libpcap: {message}{}", shown(.expression), hint(.message))]
    Refused {
        /// The expression.
        expression: String,
        /// libpcap's own words.
        message: String,
    },
    /// The expression asks for what the kernel knows beside the frame.
    #[error(
        "filter '{}' asks for something that is not in the frame (offset {offset:#x})",
        shown(.expression)
    )]
    NotInFrame {
        /// The expression.
        expression: String,
        /// Offset of the load: one of the kernel's extensions from 0xfffff000 on, or nonsense.
        offset: u32,
    },
    /// The expression is longer than may be compiled.
    #[error(
        "the filter has {bytes} bytes, {limit} are allowed; match networks (`net 10.0.0.0/8`) \
         instead of single hosts"
    )]
    ExpressionTooLong {
        /// Its length.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The compiled program is longer than the named limit.
    #[error(
        "the filter compiles to {instructions} instructions, {limit} are allowed; match networks \
         (`net 10.0.0.0/8`) instead of single hosts, or record without a filter and filter later"
    )]
    ProgramTooLong {
        /// Its length.
        instructions: usize,
        /// The limit.
        limit: usize,
    },
    /// libpcap ran out of memory.
    #[error(
        "the filter is too long: its {bytes} bytes do not compile within {limit_mib} MiB of \
         memory; match networks (`net 10.0.0.0/8`) instead of single hosts, or record without a \
         filter and filter later"
    )]
    OutOfMemory {
        /// Length of the expression.
        bytes: usize,
        /// Memory that was allowed, in MiB.
        limit_mib: u64,
    },
    /// libpcap did not finish, with and without its optimiser.
    #[error(
        "filter '{}' was not compiled within {seconds} s: its {} bytes are too long, or a name in \
         it does not resolve; use numeric addresses, and networks (`net 10.0.0.0/8`) instead of \
         single hosts",
        shown(.expression), .expression.len()
    )]
    TimedOut {
        /// The expression.
        expression: String,
        /// Time that was allowed, both attempts.
        seconds: u64,
    },
    /// The compiling child could not be run, or answered nonsense.
    #[error("the filter compiler {what}: {detail}")]
    Compiler {
        /// Which step failed.
        what: &'static str,
        /// The system's or the child's reason.
        detail: String,
    },
    /// The program breaks a rule of classic BPF.
    #[error("classic BPF program: instruction {index} {reason}")]
    Invalid {
        /// Number of the instruction, from 0.
        index: usize,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The program cannot be written as eBPF within the kernel's limits.
    #[error(
        "the filter needs {what} as eBPF: {value}, the limit is {limit}; shorten it, or record \
         without a filter and filter later"
    )]
    TranslationTooLong {
        /// What is too large.
        what: &'static str,
        /// How large.
        value: usize,
        /// The limit.
        limit: usize,
    },
}

/// Longest part of an expression in a message, in characters: a screen line or two.
const SHOWN_MAX: usize = 160;

/// An expression as messages show it: cut to a line or two.
pub fn shown(expression: &str) -> String {
    match expression.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}…", &expression[..end]),
        None => expression.to_owned(),
    }
}

/// The fix for the messages of libpcap that users meet most.
fn hint(message: &str) -> &'static str {
    let text = message.to_ascii_lowercase();
    if text.contains("unknown host") || text.contains("unknown network") {
        "; write the address in numbers, or quote the expression as one word"
    } else if text.contains("syntax error") || text.contains("illegal") {
        "; see pcap-filter(7), and quote the expression so that the shell does not change it"
    } else if text.contains("unknown port") || text.contains("unknown protocol") {
        "; names come from /etc/services and /etc/protocols, a number always works"
    } else if text.contains("no vlan") || text.contains("only for") || text.contains("not support")
    {
        "; this primitive does not exist for the interface's link type"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_carry_the_expression_cut_to_a_line_and_the_fix() {
        let error =
            FilterError::Refused { expression: "é".repeat(400), message: "syntax error".into() };
        let text = error.to_string();
        assert!(text.contains("pcap-filter(7)") && text.contains('…'), "{text}");
        assert!(text.len() < 500, "{text}");
    }
}
