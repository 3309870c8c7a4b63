//! Loading embedded objects, and running a loaded program on one frame.

use crate::Error;
use libbpf_rs::{ErrorExt, MapCore, MapHandle, Object, ObjectBuilder, ProgramInput, ProgramMut};

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

/// One loaded object with one program; unloaded on drop.
pub(crate) struct Loaded {
    name: &'static str,
    object: Object,
}

impl Loaded {
    /// Loads `embedded`; `constants` become its read-only data where given.
    pub fn new(embedded: &Embedded, constants: Option<&[u8]>) -> Result<Loaded, Error> {
        let name = embedded.name;
        let refused = |e| Error::kernel(format!("cannot load the eBPF program {name}"), e);
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
        let mut out = vec![0u8; frame.len() + TEST_RUN_GROWTH_BYTES];
        let name = self.name;
        let input = ProgramInput {
            data_in: Some(frame),
            data_out: Some(&mut out),
            ..ProgramInput::default()
        };
        let output = self
            .program()?
            .test_run(input)
            .context("BPF_PROG_TEST_RUN")
            .map_err(|e| Error::kernel(format!("cannot run {name} on a test frame"), e))?;
        let verdict = Verdict::from_kernel(output.return_value);
        let frame = output.data.map(|data| data.to_vec()).unwrap_or_default();
        Ok(TestRun { verdict, frame })
    }
}

/// Programs may make a frame longer by at most the headroom and tailroom of a page.
const TEST_RUN_GROWTH_BYTES: usize = 1024;

/// What a program did to one frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestRun {
    /// What it decided.
    pub verdict: Verdict,
    /// The frame afterwards.
    pub frame: Vec<u8>,
}

/// The verdict of an XDP program, `enum xdp_action` of linux/bpf.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A bug of the program.
    Aborted,
    /// Discard.
    Drop,
    /// On to the host.
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
