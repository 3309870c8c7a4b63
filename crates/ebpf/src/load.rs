//! Loading embedded objects, and running a loaded program on one frame.

use crate::Error;
use libbpf_rs::{
    MapCore, MapHandle, Object, ObjectBuilder, OpenObject, PrintLevel, ProgramMut, set_print,
};
use ringside_sys::bpf;
use std::cell::RefCell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Once;

/// An object as the linker placed it; libelf reads it in place when it is aligned.
#[repr(align(8))]
pub(crate) struct Aligned<T: ?Sized>(pub T);

/// An embedded object with one program.
pub(crate) struct Embedded {
    /// Name of the object and of its program.
    pub name: &'static str,
    /// The ELF file.
    pub elf: &'static Aligned<[u8]>,
}

macro_rules! embedded {
    ($name:literal) => {
        $crate::load::Embedded {
            name: $name,
            elf: &$crate::load::Aligned(*include_bytes!(concat!(
                env!("OUT_DIR"),
                "/",
                $name,
                ".bpf.o"
            ))),
        }
    };
}
pub(crate) use embedded;

/// Most that is kept of what libbpf says, in bytes: the end, which has the verifier's reason.
const SAID_BYTES_MAX: usize = 600;

thread_local! {
    /// What libbpf has said on this thread since [`listen`].
    static SAID: RefCell<String> = const { RefCell::new(String::new()) };
}

/// libbpf writes its reasons to standard error, also where a refusal is expected and there is
/// another way. From now on they are kept instead, for the error's text.
pub(crate) fn listen() {
    static SET: Once = Once::new();
    SET.call_once(|| {
        set_print(Some((PrintLevel::Warn, |_, text| SAID.with_borrow_mut(|said| *said += &text))));
    });
    SAID.take();
}

/// The end of what libbpf said, in parentheses.
pub(crate) fn said() -> String {
    let all = SAID.take();
    let lines: Vec<&str> = all.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let text = lines.join(" | ");
    let start = (text.len().saturating_sub(SAID_BYTES_MAX)..).find(|at| text.is_char_boundary(*at));
    let end = start.and_then(|start| text.get(start..)).unwrap_or_default();
    if end.is_empty() { String::new() } else { format!(" ({end})") }
}

/// One loaded object with one program; unloaded on drop.
pub(crate) struct Loaded {
    name: &'static str,
    object: Object,
}

impl Loaded {
    /// Loads `embedded`; `constants` become its read-only data where given.
    pub fn new(embedded: &Embedded, constants: Option<&[u8]>) -> Result<Loaded, Error> {
        Loaded::prepared(embedded, constants, |_| Ok(()))
    }

    /// As [`new`](Loaded::new); `prepare` may change sizes and flags before the kernel sees them.
    pub fn prepared(
        embedded: &Embedded,
        constants: Option<&[u8]>,
        prepare: impl FnOnce(&mut OpenObject) -> Result<(), libbpf_rs::Error>,
    ) -> Result<Loaded, Error> {
        let name = embedded.name;
        listen();
        let refused =
            |e| Error::kernel(format!("cannot load the eBPF program {name}{}", said()), e);
        let mut builder = ObjectBuilder::default();
        builder.name(name).map_err(refused)?;
        let mut open = builder.open_memory(&embedded.elf.0).map_err(refused)?;
        if let Some(constants) = constants {
            let mut map = open
                .maps_mut()
                .find(|map| map.name().to_string_lossy().ends_with(".rodata"))
                .ok_or_else(|| Error::Object { object: name, part: "read-only data".into() })?;
            map.set_initial_value(constants).map_err(refused)?;
        }
        prepare(&mut open).map_err(refused)?;
        let object = open.load().map_err(refused)?;
        let loaded = Loaded { name, object };
        if loaded.object.progs().all(|program| program.name() != name) {
            return Err(Error::Object { object: name, part: format!("program {name}") });
        }
        Ok(loaded)
    }

    /// The program that bears the object's name.
    pub fn program(&mut self) -> Result<ProgramMut<'_>, Error> {
        let name = self.name;
        self.object
            .progs_mut()
            .find(|program| program.name() == name)
            .ok_or_else(|| Error::Object { object: name, part: format!("program {name}") })
    }

    /// A descriptor of the program, which stays usable on its own.
    pub fn program_fd(&mut self) -> Result<OwnedFd, Error> {
        let name = self.name;
        let copy = self.program()?.as_fd().try_clone_to_owned();
        copy.map_err(|e| Error::kernel(format!("cannot keep the program {name}"), e.into()))
    }

    /// A handle of the map `map`, which stays usable on its own.
    pub fn map(&self, map: &str) -> Result<MapHandle, Error> {
        let found = self.object.maps().find(|m| m.name() == map);
        let found =
            found.ok_or_else(|| Error::Object { object: self.name, part: format!("map {map}") })?;
        MapHandle::try_from(&found)
            .map_err(|e| Error::kernel(format!("cannot open the map {map}"), e))
    }

    /// Runs the program once on a copy of `frame`.
    pub fn test_run(&mut self, frame: &[u8]) -> Result<TestRun, Error> {
        test_run(self.program()?.as_fd(), frame)
    }
}

/// Runs an XDP program once on a copy of `frame`.
pub(crate) fn test_run(program: BorrowedFd<'_>, frame: &[u8]) -> Result<TestRun, Error> {
    let mut out = vec![0u8; frame.len() + TEST_RUN_GROWTH_BYTES];
    let (run, length) = bpf::test_run(program, frame, 1, &mut out)?;
    out.truncate(length);
    Ok(TestRun { verdict: Verdict::from_kernel(run.return_value), frame: out })
}

/// Programs may make a frame longer by at most the headroom and tailroom of a page.
const TEST_RUN_GROWTH_BYTES: usize = 1024;

/// What a program did to one frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestRun {
    /// What it decided.
    pub verdict: Verdict,
    /// The frame afterwards, with the metadata in front of it.
    pub frame: Vec<u8>,
}

/// The verdict of an XDP program, `enum xdp_action` of linux/bpf.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A bug of the program.
    Aborted,
    /// The frame is discarded.
    Drop,
    /// The frame goes on to the host's stack.
    Pass,
    /// Out of the same interface.
    Transmit,
    /// To another interface, queue or socket.
    Redirect,
    /// No such verdict.
    Unknown(u32),
}

impl Verdict {
    fn from_kernel(value: u32) -> Verdict {
        match value {
            0 => Verdict::Aborted,
            1 => Verdict::Drop,
            2 => Verdict::Pass,
            3 => Verdict::Transmit,
            4 => Verdict::Redirect,
            other => Verdict::Unknown(other),
        }
    }
}
