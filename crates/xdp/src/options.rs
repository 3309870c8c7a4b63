//! How rules are put to work.

use ringside_ebpf::rules::SourceLimit;

/// What the rules are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// To protect the host: every rule must be at work in the driver. Frames that pass go on to the
    /// programs behind, and to the host.
    Protect,
    /// Before a capture with the same rules: the driver drops and passes what it can decide, and
    /// hands up, uncounted, all that a rule takes or that it cannot decide. A frame that it passes
    /// goes to the host at once.
    Share,
}

/// How rules are put to work.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// What they are for.
    pub mode: Mode,
    /// Frames are judged and counted, and all go on.
    pub is_dry: bool,
    /// Conversations that each CPU remembers, a power of two; 64 bytes each. Three times as many as
    /// there are at a time leave few that take each other's place.
    pub conversations: u32,
    /// A limit of frames of each source address, for those that no rule drops.
    pub source_limit: Option<SourceLimit>,
    /// Places for sources of dropped frames, for each CPU, a power of two, 32 bytes each; 0: none
    /// are noted.
    pub offenders: u32,
    /// Attach to the kernel's generic path if the driver refuses.
    pub generic_allowed: bool,
    /// What was found about each frame is reported, for tests.
    pub reports: bool,
    /// A second set of tables is made, so that all rules can be replaced by a process that may load
    /// no program any more. They have the room that the rules of the start need, and some more.
    pub has_spare: bool,
    /// Make room for at least this number of exact rules, and as many others.
    pub room: usize,
    /// Rules stay in force when the process is gone. What is pinned on the interface already is
    /// replaced.
    pub is_pinned: bool,
}

impl Options {
    /// True if a fast path, which only drops, passes and counts, may stand in front.
    pub(crate) fn may_be_fast(&self) -> bool {
        let Options { mode, is_dry, source_limit, reports, has_spare, .. } = self;
        *mode == Mode::Protect && !is_dry && source_limit.is_none() && !reports && !has_spare
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            mode: Mode::Protect,
            is_dry: false,
            conversations: 32_768,
            source_limit: None,
            offenders: 1024,
            generic_allowed: false,
            reports: false,
            has_spare: false,
            room: 0,
            is_pinned: false,
        }
    }
}
