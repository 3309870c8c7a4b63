//! One interface, several programs: a root that tries them in order by tail calls
//! (`bpf/xdp_root.bpf.c`). No trampolines, which some kernels refuse.
//!
//! The first process attaches the root by a link; every process holds the link and the array of
//! leaves by descriptors, so that the kernel takes the root off when the last one is gone, in
//! whatever way. Later processes find both through the kernel: interface, program, link, maps. A
//! *standing* root, which a test network has, is on the interface by netlink: it has no link, and
//! stays.
//!
//! **Claims.** A process that has a place among the leaves holds a name for it (`claims.rs`). So
//! two processes never get one place, and what a dead process left differs from what is in use. A
//! claim also says that its holder has root and array open: it is freed before them.
//!
//! **Pins.** What is to outlive its process has names in the BPF file system (`pins.rs`). A place
//! whose program is pinned is taken, whether or not a process claims it.

use crate::Error;
use crate::abi::ROOT_POSITIONS;
use crate::attached;
use crate::claims::{self, Claims, take_turn};
use crate::load::{Embedded, Loaded, embedded};
use crate::pins::{self, InForce, Kind, PROGRAM, Pins, RootParts};
use libbpf_rs::query::{LinkInfoIter, LinkTypeInfo, ProgInfoIter, ProgInfoQueryOptions};
use libbpf_rs::{MapCore, MapHandle, MapType};
use ringside_sys::bpf::{self, FdArray, XdpMode};
use std::ffi::OsStr;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

pub(crate) static XDP_ROOT: Embedded = embedded!("xdp_root");
static XDP_ROOT_BOUND: Embedded = embedded!("xdp_root_bound");

/// BPF_F_XDP_DEV_BOUND_ONLY of linux/bpf.h (Linux 6.3).
const DEV_BOUND_ONLY: u32 = 1 << 6;

/// Name of the array of leaves in bpf/leaves.h; with the root's name it marks ours.
pub(crate) const LEAVES: &str = "ringside_leaves";

/// How often to look again where another program came or goes at the same moment: the kernel takes
/// a root off some time after its last descriptor is closed.
const TRIES_MAX: u32 = 100;
/// How long to wait in between.
const RETRY: Duration = Duration::from_millis(5);

/// What a root must be.
pub(crate) struct RootConfig<'a> {
    /// Name of the interface, for messages.
    pub interface: &'a str,
    /// Its number in the calling thread's network namespace.
    pub ifindex: u32,
    /// Places that will do, the first free one is taken.
    pub positions: Range<u32>,
    /// Have what the driver knows of a frame put in front of it, if it can be had.
    pub wants_metadata: bool,
    /// Attach to the kernel's generic path where the driver refuses.
    pub generic_allowed: bool,
    /// Take the place of what is pinned of this kind, if something is.
    pub takes_pinned: Option<Kind>,
}

/// The root on an interface, with a place among its leaves.
#[derive(Debug)]
pub(crate) struct Root {
    /// Freed first: a process that still finds the claim finds the leaves.
    claim: UnixDatagram,
    leaves: FdArray,
    hold: Hold,
    position: u32,
    mode: XdpMode,
    has_metadata: bool,
    notes: Vec<String>,
    interface: String,
    ifindex: u32,
    /// What is in force at its own place by pins.
    taken: Option<InForce>,
}

impl Root {
    /// Takes a place, and joins the root of other processes or attaches one.
    pub fn open(config: &RootConfig<'_>) -> Result<Root, Error> {
        let _turn = take_turn(config.interface, config.ifindex)?;
        // Held to the end: the kernel clears an array of leaves a moment after its last descriptor
        // is closed, and with it the leaf that is added now.
        let before = find(config)?;
        let pinned = pinned(config, &before)?;
        let (position, claim) = claim(config, &before, &pinned)?;
        let mut notes = Vec::new();
        let mut in_the_way = None;
        for attempt in 0..TRIES_MAX {
            if attempt > 0 {
                std::thread::sleep(RETRY);
            }
            notes.clear();
            let found = match find(config)? {
                There::Nothing => attach(config, &mut notes)?,
                // Asked when root and array are open here: a process that is there held them till
                // now.
                There::Ours(Found { hold: Hold::Link(link), leaves, .. })
                    if pinned.is_empty() && !has_others(config.ifindex, position, &leaves) =>
                {
                    // Its last process is just going, or it was left by accident. Its array may be
                    // about to be cleared, as the kernel does when no process holds it any more.
                    bpf::detach_link(link.as_fd())?;
                    None
                }
                There::Ours(found) if found.mode == XdpMode::Generic && !config.generic_allowed => {
                    let refused = vec!["a root is there in the generic path".to_owned()];
                    let interface = config.interface.into();
                    in_the_way = Some(Error::Attach { interface, refused });
                    None
                }
                There::Ours(found) => Some(found),
                There::Unknown(error) => {
                    in_the_way = Some(error);
                    None
                }
            };
            let Some(Found { hold, leaves, mode, has_metadata }) = found else { continue };
            if config.wants_metadata && !has_metadata && notes.is_empty() {
                notes.push("metadata: another process attached a root without it".into());
            }
            let (interface, ifindex) = (config.interface.to_owned(), config.ifindex);
            let kept: Vec<u32> = pinned.iter().map(|set| set.position).collect();
            let taken = pinned.into_iter().find(|set| set.position == position);
            let root = Root {
                claim,
                leaves,
                hold,
                position,
                mode,
                has_metadata,
                notes,
                interface,
                ifindex,
                taken,
            };
            root.clear_unclaimed(&kept)?;
            drop(before);
            return Ok(root);
        }
        let reason = "other programs come and go on it without end".to_owned();
        let gave_up = Error::Attach { interface: config.interface.into(), refused: vec![reason] };
        Err(in_the_way.unwrap_or(gave_up))
    }

    /// Its place among the leaves.
    pub fn position(&self) -> u32 {
        self.position
    }

    pub fn mode(&self) -> XdpMode {
        self.mode
    }

    /// True if it puts `struct xdp_metadata` in front of every frame, wanted or not.
    pub fn has_metadata(&self) -> bool {
        self.has_metadata
    }

    /// What was refused on the way, and why.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    pub fn leaves(&self) -> &FdArray {
        &self.leaves
    }

    /// What keeps it on the interface: its link, or of a standing root the program.
    pub fn hold(&self) -> BorrowedFd<'_> {
        match &self.hold {
            Hold::Link(fd) | Hold::Standing(fd) => fd.as_fd(),
        }
    }

    pub fn claim(&self) -> BorrowedFd<'_> {
        self.claim.as_fd()
    }

    /// What is in force at its own place by pins.
    pub fn taken(&self) -> Option<&InForce> {
        self.taken.as_ref()
    }

    /// No other process opens or pins a root on the interface until this is dropped.
    pub fn turn(&self) -> Result<UnixDatagram, Error> {
        take_turn(&self.interface, self.ifindex)
    }

    /// Lets it stay on the interface when its processes are gone; in a turn.
    pub fn keep(&self, pins: &Pins) -> Result<(), Error> {
        let program = attached::attached_program(self.ifindex)?.unwrap_or_default();
        let link = match &self.hold {
            Hold::Link(fd) => Some(fd.as_fd()),
            Hold::Standing(_) => None,
        };
        let (interface, leaves) = (self.interface.as_str(), self.leaves.as_fd());
        pins.keep_root(&RootParts { interface, program, link, leaves })
    }

    /// Puts a program into its place that stays when this process is gone, with the `objects` that
    /// it needs, whose form has a version. When this returns, no frame is in the one before.
    pub fn put_to_stay<'o>(
        &self,
        pins: &Pins,
        version: u32,
        program: BorrowedFd<'o>,
        objects: impl Iterator<Item = (&'static str, BorrowedFd<'o>)>,
    ) -> Result<(), Error> {
        let unknown = |e| Error::kernel("cannot ask for the number of a program", e);
        let id = libbpf_rs::Program::id_from_fd(program).map_err(unknown)?;
        let _turn = self.turn()?;
        // Before it is in force: whenever this process dies, what is in force has all its names.
        self.keep(pins)?;
        pins.keep_set((version, id), objects.chain([(PROGRAM, program)]))?;
        self.leaves.set(self.position, program)?;
        if self.taken.is_some() {
            bpf::wait_until_left();
        }
        pins.keep_no_others(id)
    }

    /// Takes out what dead processes left: its place is not claimed, and none of those `kept`.
    fn clear_unclaimed(&self, kept: &[u32]) -> Result<(), Error> {
        let claims = Claims::list(self.ifindex);
        for position in (0..ROOT_POSITIONS).filter(|position| !kept.contains(position)) {
            if position == self.position || !claims.is_taken(position, &self.leaves) {
                self.leaves.clear(position)?;
            }
        }
        Ok(())
    }
}

/// What is in force by pins on the interface; removes pins that are of no use.
fn pinned(config: &RootConfig<'_>, there: &There) -> Result<Vec<InForce>, Error> {
    match there {
        There::Ours(found) => pins::settle(config.ifindex, Some(&found.leaves)),
        There::Nothing => pins::settle(config.ifindex, None),
        There::Unknown(_) => Ok(Vec::new()),
    }
}

/// True if others have places.
fn has_others(ifindex: u32, own: u32, leaves: &FdArray) -> bool {
    Claims::list(ifindex).has_others(own, leaves)
}

/// Takes the first free place; in a turn.
fn claim(
    config: &RootConfig<'_>,
    there: &There,
    pinned: &[InForce],
) -> Result<(u32, UnixDatagram), Error> {
    let own = pinned.iter().find(|set| Some(set.kind) == config.takes_pinned);
    let claims = Claims::list(config.ifindex);
    let is_free = |position: &u32| match there {
        There::Ours(found) => !claims.is_taken(*position, &found.leaves),
        _ => !claims.is_claimed(*position),
    };
    let is_meant = |position: u32| match own {
        Some(set) => set.position == position,
        None => pinned.iter().all(|set| set.position != position),
    };
    let may_take = |position: &u32| is_meant(*position) && is_free(position);
    if let Some(position) = config.positions.clone().find(may_take) {
        let refused = |source| Error::Claim { interface: config.interface.into(), source };
        return Ok((position, claims::claim(config.ifindex, position).map_err(refused)?));
    }
    if own.is_some() {
        return Err(Error::PinsHeld { interface: config.interface.into() });
    }
    Err(Error::NoPlace {
        interface: config.interface.into(),
        places: config.positions.len(),
        claim: claims::prefix(config.ifindex),
    })
}

/// How a root is on its interface.
#[derive(Debug)]
enum Hold {
    /// By a link, while a process holds it.
    Link(OwnedFd),
    /// By netlink, as long as the interface; this is the program.
    Standing(OwnedFd),
}

/// A root on its interface.
struct Found {
    hold: Hold,
    leaves: FdArray,
    mode: XdpMode,
    has_metadata: bool,
}

/// What is on an interface.
enum There {
    Nothing,
    Ours(Found),
    /// A program that is just going, or that cannot be looked at; then with this error.
    Unknown(Error),
}

/// Looks what is on the interface.
fn find(config: &RootConfig<'_>) -> Result<There, Error> {
    let Some((id, mode)) = attached::attached(config.ifindex)? else { return Ok(There::Nothing) };
    let foreign = |name: &OsStr| Error::Foreign {
        interface: config.interface.into(),
        program: name.to_string_lossy().into_owned(),
        id,
    };
    let options = ProgInfoQueryOptions::default().include_map_ids(true);
    let Some(program) = ProgInfoIter::with_query_opts(options).find(|p| p.id == id) else {
        return Ok(There::Unknown(foreign(OsStr::new("with a name that only root may read"))));
    };
    let has_metadata = program.name == OsStr::new(XDP_ROOT_BOUND.name);
    if !has_metadata && program.name != OsStr::new(XDP_ROOT.name) {
        return Err(foreign(&program.name));
    }
    // What holds it goes first: while that is there the program and its maps are.
    let mut links = LinkInfoIter::default();
    let link = links.find(|link| link.prog_id == id && matches!(link.info, LinkTypeInfo::Xdp(_)));
    let hold = match link {
        Some(link) => bpf::link_by_id(link.id).map(Hold::Link).ok(),
        None => libbpf_rs::Program::fd_from_id(id).map(Hold::Standing).ok(),
    };
    let mut maps = program.map_ids.iter().filter_map(|id| MapHandle::from_map_id(*id).ok());
    let leaves = maps.find(|map| {
        map.name() == LEAVES
            && map.map_type() == MapType::ProgArray
            && map.max_entries() == ROOT_POSITIONS
    });
    match (hold, leaves) {
        (Some(hold), Some(leaves)) => {
            Ok(There::Ours(Found { hold, leaves: fd_array(&leaves)?, mode, has_metadata }))
        }
        _ => Ok(There::Unknown(foreign(&program.name))),
    }
}

/// Attaches a new root; `None` if another process was faster.
fn attach(config: &RootConfig<'_>, notes: &mut Vec<String>) -> Result<Option<Found>, Error> {
    if config.wants_metadata {
        match load_bound(config.ifindex).and_then(|loaded| Attachable::new(loaded, true)) {
            Ok(bound) => match bound.attach(config.ifindex, XdpMode::Native) {
                Ok(found) => return Ok(Some(found)),
                Err(e) if is_busy(&e) => return Ok(None),
                Err(e) => notes.push(format!("metadata: the driver refused the program: {e}")),
            },
            Err(e) => notes.push(format!("metadata: {e}")),
        }
    }
    let plain = Attachable::new(Loaded::new(&XDP_ROOT, None)?, false)?;
    let native = match plain.attach(config.ifindex, XdpMode::Native) {
        Ok(found) => return Ok(Some(found)),
        Err(e) if is_busy(&e) => return Ok(None),
        Err(e) => format!("in the driver: {e}{}", native_fix(&e)),
    };
    if !config.generic_allowed {
        let (interface, refused) = (config.interface.into(), vec![native]);
        return Err(Error::Attach { interface, refused });
    }
    match plain.attach(config.ifindex, XdpMode::Generic) {
        Ok(found) => {
            notes.push(native);
            Ok(Some(found))
        }
        Err(e) if is_busy(&e) => Ok(None),
        Err(e) => {
            let refused = vec![native, format!("in the generic path: {e}")];
            Err(Error::Attach { interface: config.interface.into(), refused })
        }
    }
}

/// The root that asks the driver about each frame, bound to the interface's device.
fn load_bound(ifindex: u32) -> Result<Loaded, Error> {
    Loaded::prepared(&XDP_ROOT_BOUND, None, |object| {
        for mut program in object.progs_mut() {
            program.set_ifindex(ifindex);
            program.set_flags(DEV_BOUND_ONLY);
        }
        Ok(())
    })
}

/// A loaded root.
struct Attachable {
    program: OwnedFd,
    leaves: MapHandle,
    has_metadata: bool,
}

impl Attachable {
    fn new(mut loaded: Loaded, has_metadata: bool) -> Result<Attachable, Error> {
        let (program, leaves) = (loaded.program_fd()?, loaded.map(LEAVES)?);
        Ok(Attachable { program, leaves, has_metadata })
    }

    fn attach(&self, ifindex: u32, mode: XdpMode) -> io::Result<Found> {
        let hold = Hold::Link(bpf::attach_xdp(self.program.as_fd(), ifindex, mode)?);
        let leaves = fd_array(&self.leaves).map_err(io::Error::other)?;
        Ok(Found { hold, leaves, mode, has_metadata: self.has_metadata })
    }
}

/// Takes a program out of its place among the leaves, if it is there. When this returns, no CPU is
/// within it. May take some ten milliseconds.
pub(crate) fn take_out(leaves: &FdArray, program: BorrowedFd<'_>) -> Result<(), Error> {
    let refused = |e| Error::kernel("cannot look for a program among those of an interface", e);
    let ours = libbpf_rs::Program::id_from_fd(program).map_err(refused)?;
    for position in 0..ROOT_POSITIONS {
        if leaves.program_at(position)? == Some(ours) {
            leaves.clear(position)?;
        }
    }
    bpf::wait_until_left();
    Ok(())
}

/// A map of libbpf's by a descriptor of its own.
pub(crate) fn fd_array(map: &MapHandle) -> Result<FdArray, Error> {
    let copy = map.as_fd().try_clone_to_owned();
    let copy = copy.map_err(|e| Error::kernel("cannot keep a map", e.into()))?;
    Ok(FdArray::from_fd(copy)?)
}

fn is_busy(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EEXIST))
}

/// The kernel says the rest only to its log.
fn native_fix(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EOPNOTSUPP) => " (the driver has no XDP)",
        Some(libc::EPERM) => " (it needs CAP_NET_ADMIN and CAP_BPF: run it as root)",
        _ => " (is its MTU within the driver's limit, and are LRO and the like off?)",
    }
}
