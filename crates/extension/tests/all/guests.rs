//! The examples in other languages than text.

use crate::support::{Kept, guest, see, udp};
use ringside_extension::{ExtensionObserver, read_extension, text};
use ringside_inspect::Observer;
use ringside_testkit::need_tool;
use std::process::Command;

/// The example of TFTP, compiled.
fn compiled(test: &str) -> Option<Vec<u8>> {
    if !need_tool(test, "clang") || !need_tool(test, "wasm-ld") {
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let module = folder.path().join("tftp.wasm");
    let mut command = Command::new("clang");
    command.args(["--target=wasm32", "-O2", "-nostdlib", "-Wl,--no-entry", "-Wall", "-Werror"]);
    command.arg("-o").arg(&module).arg(guest("tftp.c"));
    assert!(command.status().unwrap().success());
    Some(read_extension(&module).unwrap())
}

#[test]
fn files_that_tftp_asks_for_are_records() {
    let Some(module) = compiled("files_that_tftp_asks_for_are_records") else { return };
    let kept = Kept::default();
    let mut observer = ExtensionObserver::new("tftp", &module, kept.sinks()).unwrap();
    let long = [b"\0\x01".as_slice(), &[b'\n'; 511], b"\0octet\0"].concat();
    let too_long = [b"\0\x01".as_slice(), &[b'a'; 600], b"\0octet\0"].concat();
    for (port, payload) in [
        (69, b"\0\x01boot/pxelinux.0\0octet\0".as_slice()),
        (70, b"\0\x01another port\0octet\0"),
        (69, b"\0\x02a \"name\"\\ \x1b[0m\xff\0netascii\0"),
        (69, b"\0\x03data"),
        (69, b"\0\x01without an end"),
        (69, b"\0"),
        (69, &long),
        (69, &too_long),
    ] {
        see(&mut observer, &udp(port, payload), 1_700_000_000_000_000_000);
    }
    observer.finish();
    assert!(observer.balances() && observer.first_fault().is_none());
    let fields = kept.fields();
    assert_eq!(fields[0], r#"{"file":"boot/pxelinux.0","request":"read"}"#);
    assert_eq!(
        fields[1],
        "{\"file\":\"a \\\"name\\\"\\\\ \\u001b[0m\u{ff}\",\"request\":\"write\"}"
    );
    assert_eq!(fields.len(), 3);
    assert_eq!(observer.counters().get("no_request"), Some(&3));
    let found = kept.0.lock().unwrap();
    let first = "2023-11-14T22:13:20.000000Z tftp file=\"boot/pxelinux.0\" request=\"read\"";
    assert_eq!(text(&found[0]), first);
    assert!(found.iter().all(|found| !text(found).contains(char::is_control)));
}
