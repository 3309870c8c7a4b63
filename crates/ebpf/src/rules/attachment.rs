//! Attachment of rules: a place on an interface, before all captures, for a program with rules.

use super::pinned::{PinnedRules, VERSION};
use super::{FastProgram, RulesProgram};
use crate::Error;
use crate::pins::{Kind, Pins};
use crate::root::{Root, RootConfig};
use ringside_sys::bpf::{self, XdpMode};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Places among the leaves: before all captures.
const RULES_POSITIONS: Range<u32> = 0..2;

/// Where rules are to be attached.
#[derive(Clone, Copy, Debug)]
pub struct RulesAttachmentConfig<'a> {
    /// Name of the interface, for messages.
    pub interface: &'a str,
    /// Its number in the calling thread's network namespace.
    pub ifindex: u32,
    /// The driver takes VLAN tags out of frames: it is asked for them, which takes calls for each
    /// frame.
    pub has_hardware_tags: bool,
    /// Attach to the kernel's generic path if the driver refuses.
    pub generic_allowed: bool,
    /// What is put there is pinned: it outlives the process, and takes the place of what is pinned
    /// there already.
    pub is_pinned: bool,
}

/// A place for rules on an interface; given back on drop, unless the program there is pinned.
#[derive(Debug)]
pub struct RulesAttachment {
    root: Root,
    pins: Option<Pins>,
    /// The program in the place.
    program: Option<OwnedFd>,
}

impl RulesAttachment {
    /// Attaches the root, in the calling thread's network namespace, or joins the one that is
    /// there. Until [`put`](RulesAttachment::put) all frames pass.
    ///
    /// # Errors
    /// A foreign program is on the interface, it takes none, or both places are taken. Where rules
    /// are to be pinned: no BPF file system is mounted, or another process holds those that are
    /// pinned there.
    pub fn open(config: &RulesAttachmentConfig<'_>) -> Result<RulesAttachment, Error> {
        let pins = config.is_pinned.then(|| Pins::prepare(Kind::Rules, config.ifindex));
        let pins = pins.transpose()?;
        let root = Root::open(&RootConfig {
            interface: config.interface,
            ifindex: config.ifindex,
            positions: RULES_POSITIONS,
            wants_metadata: config.has_hardware_tags,
            generic_allowed: config.generic_allowed,
            takes_pinned: config.is_pinned.then_some(Kind::Rules),
        })?;
        let before = root.taken().map(PinnedRules::of).transpose();
        // What cannot be read can be replaced all the same; then nothing is carried over.
        let program = before.ok().flatten().map(PinnedRules::into_program);
        Ok(RulesAttachment { root, pins, program })
    }

    /// The rules that were pinned here before this process came, while they are in force.
    pub fn before(&self) -> Option<PinnedRules> {
        PinnedRules::of(self.root.taken()?).ok()
    }

    /// Where the kernel runs it.
    pub fn mode(&self) -> XdpMode {
        self.root.mode()
    }

    /// What the kernel refused meanwhile, each with its reason.
    pub fn notes(&self) -> &[String] {
        self.root.notes()
    }

    /// Puts a program here, in place of the one before: a frame is judged by the one or the other.
    /// It must have been loaded for this attachment. When this returns, no frame is in the program
    /// before.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn put(&mut self, program: &RulesProgram, fast: Option<&FastProgram>) -> Result<(), Error> {
        self.replace(program, fast, true)
    }

    /// The same for a program that counts where the one before does, and has the same rules: that
    /// one may still be with frames that came before.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn exchange(
        &mut self,
        program: &RulesProgram,
        fast: Option<&FastProgram>,
    ) -> Result<(), Error> {
        self.replace(program, fast, false)
    }

    fn replace(
        &mut self,
        program: &RulesProgram,
        fast: Option<&FastProgram>,
        waits: bool,
    ) -> Result<(), Error> {
        let place = fast.map_or(program.as_fd(), AsFd::as_fd);
        let copy = place.try_clone_to_owned();
        let copy = copy.map_err(|e| Error::kernel("cannot keep a program", e.into()))?;
        let Some(pins) = &self.pins else {
            let waits = waits && self.program.is_some();
            self.set(copy)?;
            if waits {
                bpf::wait_until_left();
            }
            return Ok(());
        };
        let id = libbpf_rs::Program::id_from_fd(place);
        let id = id.map_err(|e| Error::kernel("cannot ask for the number of a program", e))?;
        let (pins, _turn) = (pins.clone(), self.root.turn()?);
        // Before it is in force: whenever this process dies, what is in force has all its names.
        self.root.keep(&pins)?;
        match fast {
            Some(fast) => {
                let own: Vec<_> = fast.objects().collect();
                let is_own = |name: &str| own.iter().any(|(own, _)| *own == name);
                let general = program.objects().filter(|(name, _)| !is_own(name));
                pins.keep_set((VERSION, id), general.chain(own.iter().copied()))?;
            }
            None => pins.keep_set((VERSION, id), program.objects())?,
        }
        self.set(copy)?;
        if waits {
            // Only by these names the kernel keeps the tables of a program that another process
            // has pinned, while it is still with a frame.
            bpf::wait_until_left();
        }
        pins.keep_no_others(id)
    }

    /// Only with what an unprivileged process may do to maps that it has open.
    fn set(&mut self, program: OwnedFd) -> Result<(), Error> {
        self.root.leaves().set(self.root.position(), program.as_fd())?;
        self.program = Some(program);
        Ok(())
    }

    /// Takes the program out. When this returns, all frames pass, and its counters do not change
    /// any more. May take some ten milliseconds.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn clear(&mut self) -> Result<(), Error> {
        if self.program.is_some() {
            self.root.leaves().clear(self.root.position())?;
            bpf::wait_until_left();
            self.program = None;
        }
        Ok(())
    }

    /// Puts a program that stood here to its place again if nothing is there; true if so. See
    /// [`CaptureProgram::put_back_if_gone`](crate::capture::CaptureProgram::put_back_if_gone).
    ///
    /// # Errors
    /// The kernel refused.
    pub fn put_back_if_gone(&self) -> Result<bool, Error> {
        let position = self.root.position();
        let Some(program) = &self.program else { return Ok(false) };
        if self.root.leaves().program_at(position)?.is_some() {
            return Ok(false);
        }
        self.root.leaves().set(position, program.as_fd())?;
        Ok(true)
    }

    pub(super) fn is_pinned(&self) -> bool {
        self.pins.is_some()
    }

    pub(super) fn position(&self) -> u32 {
        self.root.position()
    }

    pub(super) fn has_metadata(&self) -> bool {
        self.root.has_metadata()
    }

    pub(super) fn leaves(&self) -> BorrowedFd<'_> {
        self.root.leaves().as_fd()
    }
}

impl Drop for RulesAttachment {
    fn drop(&mut self) {
        if self.pins.is_some() {
            return;
        }
        // The kernel refuses only what is not there.
        let _ = self.clear();
    }
}
