//! What is done with a frame that matches.

use super::limits::INTERFACE_NAME_BYTES_MAX;
use super::ranges::Ranges;
use ringside_core::QueueId;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

/// Everything that one rule does. The parser lets no contradiction through: what excludes what
/// stands at the fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Actions {
    /// The frame's fate. Not together with a redirect.
    pub verdict: Option<Verdict>,
    /// Where the frame is sent. Not together with a verdict.
    pub redirect: Option<Redirect>,
    /// Where a copy of the frame is sent.
    pub mirror: Option<InterfaceName>,
    /// What is kept of the frame's bytes where it is taken. Not together with drop, pass or a
    /// redirect.
    pub trim: Option<Trim>,
    /// Only some of the frames that match are meant.
    pub sample: Option<Sample>,
    /// The rule is there to count. (Every rule counts.)
    pub count: bool,
    /// A short record of the frame is handed over instead of its bytes. Not together with take or a
    /// trim.
    pub digest: bool,
    /// The files of the recording that hold the frame are kept. Not together with drop, pass or a
    /// redirect.
    pub pin: bool,
    /// Whether later rules are asked too.
    pub next: Next,
}

impl Actions {
    /// What `next` is where the text does not say.
    pub fn usual_next(&self) -> Next {
        match self.verdict.is_some() || self.redirect.is_some() || self.digest {
            true => Next::Stop,
            false => Next::Continue,
        }
    }
}

/// The fate of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It goes on to the host's own stack.
    #[default]
    Pass,
    /// It is taken for the consumers of the run.
    Take,
    /// It ends here.
    Drop,
}

/// Whether rules behind this one are asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Next {
    /// They are. What was decided stands; they add to it.
    #[default]
    Continue,
    /// They are not.
    Stop,
}

/// What is kept of a frame's bytes. Its wire length is kept in any case.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Trim {
    /// Only this number of first bytes; not 0.
    Cap(u32),
    /// The bytes at these offsets, from 0. Shared, so that a judgement carries them at no cost.
    Keep(Arc<Ranges<u32>>),
}

/// One frame in N is meant, the others are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sample(pub NonZeroU32);

/// Where a frame is sent instead of to the host.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Redirect {
    /// Out of another interface.
    Interface(InterfaceName),
    /// To the receiver of a queue.
    Queue(QueueId),
    /// To the host's stack on another CPU.
    Cpu(CpuId),
}

/// Number of a CPU, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CpuId(pub u32);

impl fmt::Display for CpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A name that the kernel allows for an interface; whether there is one is not known here.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterfaceName(Box<str>);

impl InterfaceName {
    /// Checks a name as the kernel does (`dev_valid_name`); control characters are refused too.
    pub fn new(name: &str) -> Option<InterfaceName> {
        let is_wrong = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '/' | ':');
        let wrong = name.is_empty()
            || name.len() > INTERFACE_NAME_BYTES_MAX
            || [".", ".."].contains(&name)
            || name.contains(is_wrong);
        (!wrong).then(|| InterfaceName(name.into()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
