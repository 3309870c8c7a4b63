//! Network cards: what veth pairs cannot show. Runs inside the emulated machine of `make test-vm`
//! (docs/vm.md), where every interface is there for these tests.

#![allow(clippy::unwrap_used)] // a test may panic, and its helpers with it

mod common;

use common::*;

#[test]
fn the_binary_runs() {
    assert_eq!(run_ringside(&["--version"]).code(), Some(0));
    println!("{}", run("ip", &["-br", "link"]).text());
}
