//! Capture systems that are not installed where tests run, played by what stands in their place; or
//! the real ones, where `RINGSIDE_CONFORMANCE` names them.

mod netmap;

use self::netmap::Port;
use crate::backend::opening::{OpenRequest, OpenedLanes};
use crate::backend::{self, BackendError, Description};
use ringside_pfring::Library;
use ringside_testkit::fakes;
use std::sync::OnceLock;

/// Names the systems, with commas between, whose modules this machine has.
const REAL: &str = "RINGSIDE_CONFORMANCE";

fn is_real(name: &str) -> bool {
    std::env::var(REAL).is_ok_and(|names| names.split(',').any(|one| one == name))
}

/// PF_RING's backend, with the library that plays it.
pub(super) static PF_RING: Description = Description { open: open_pf_ring, ..backend::PF_RING };

/// Why neither library can be had.
pub(super) fn no_pf_ring() -> Option<String> {
    library().err()
}

fn library() -> Result<Library, String> {
    static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
    let open = || {
        if is_real(backend::PF_RING.name) {
            return Library::find().map_err(|error| error.to_string());
        }
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        Library::at(&fakes::pf_ring(folder.path())?).map_err(|error| error.to_string())
    };
    LIBRARY.get_or_init(open).clone()
}

fn open_pf_ring(request: &OpenRequest) -> Result<OpenedLanes, BackendError> {
    backend::pf_ring::open_by(library().unwrap(), request)
}

/// netmap's backend, with the kernel's side played.
pub(super) static NETMAP: Description = Description { open: open_netmap, ..backend::NETMAP };

fn open_netmap(request: &OpenRequest) -> Result<OpenedLanes, BackendError> {
    if is_real(backend::NETMAP.name) {
        return backend::NETMAP.open(request);
    }
    let mut port = None;
    backend::netmap::open_by(request, &mut || {
        let is_first = port.is_none();
        if is_first {
            port = Some(Port::of(request, &backend::netmap::kernel_name(&request.interface))?);
        }
        let handle = port.as_mut().map(|port| port.handle(is_first));
        Ok(Box::new(handle.expect("it was made")) as _)
    })
}
