//! Network cards: what veth pairs cannot show. Runs inside the emulated machine of `make test-vm`
//! (docs/vm.md), where every interface is there for these tests.
//!
//! Each test stands alone: the cards are found by their driver, and nothing a test leaves behind
//! matters to the next. What the binary has no option for is skipped.

#![allow(clippy::unwrap_used)] // a test may panic, and its helpers with it

#[path = "all/common/mod.rs"]
mod common;

#[path = "vm/bind.rs"]
mod bind;
#[path = "vm/doctor.rs"]
mod doctor;
#[path = "vm/exactness.rs"]
mod exactness;
#[path = "vm/ipvs.rs"]
mod ipvs;
#[path = "vm/kill.rs"]
mod kill;
#[path = "all/balance/link.rs"]
#[expect(dead_code, reason = "the end-to-end tests use all of it")]
mod link;
#[path = "../../route/tests/all/net/mod.rs"]
mod net;
#[path = "vm/pair.rs"]
mod pair;
#[path = "vm/route.rs"]
mod route;
#[path = "vm/sinks.rs"]
mod sinks;
#[path = "vm/symmetry.rs"]
mod symmetry;
#[path = "vm/vfio.rs"]
mod vfio;
