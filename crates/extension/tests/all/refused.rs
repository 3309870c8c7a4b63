//! Modules that are no extensions are refused, with what is wrong.

use crate::support::{module, open, refusal};
use ringside_extension::ExtensionError;
use ringside_extension::limits::FILE_BYTES_MAX;

/// A module without one of its exports.
fn without(name: &str) -> String {
    let all = module("", "");
    assert!(all.contains(&format!("(export \"{name}\")")));
    all.replace(&format!("(export \"{name}\")"), "")
}

#[test]
fn what_is_missing_is_named() {
    for name in ["memory", "ringside_abi", "ringside_buffer", "ringside_packet"] {
        let error = refusal(&without(name)).to_string();
        assert!(error.contains(name), "{name}: {error}");
    }
    let other = module("", "").replace("(i32.const 1))", "(i32.const 2))");
    assert!(matches!(refusal(&other), ExtensionError::Version(2)));
    let end = module(r#"(func (export "ringside_end") (result i32) (i32.const 0))"#, "");
    assert!(refusal(&end).to_string().contains("ringside_end"));
}

#[test]
fn other_imports_are_refused_by_name() {
    let with = |import: &str| module("", "").replacen("(module", &format!("(module {import}"), 1);
    for import in [
        r#"(import "env" "abort" (func))"#,
        r#"(import "wasi_snapshot_preview1" "fd_close" (func (param i32) (result i32)))"#,
        r#"(import "ringside" "clock" (func (result i64)))"#,
    ] {
        let error = refusal(&with(import));
        assert!(matches!(error, ExtensionError::Import { .. }), "{error}");
        assert!(error.to_string().contains("ringside.emit"), "{error}");
    }
    // Ours, with another type; and a memory of that name.
    for import in [
        r#"(import "ringside" "emit" (func $other (param i64)))"#,
        r#"(import "ringside" "emit" (memory 1))"#,
    ] {
        refusal(&with(import));
    }
}

#[test]
fn what_takes_too_much_does_not_start() {
    let memory = module("", "").replace("\"memory\") 2", "\"memory\") 300");
    assert!(matches!(refusal(&memory), ExtensionError::Start(_)));
    let table = module("(table 30000 funcref)", "");
    assert!(matches!(refusal(&table), ExtensionError::Start(_)));
    let endless = module("(func $on (loop $on (br $on))) (start $on)", "");
    assert!(matches!(refusal(&endless), ExtensionError::Start(_)));
    let buffer = module("", "").replace("(i32.const 0x10000))", "(i32.const 0x10001))");
    assert!(matches!(refusal(&buffer), ExtensionError::Buffer(0x10001)));
    let buffer = module("", "").replace("(i32.const 0x10000))", "(i32.const -1))");
    assert!(matches!(refusal(&buffer), ExtensionError::Buffer(u32::MAX)));
    assert!(matches!(refusal(&" ".repeat(FILE_BYTES_MAX + 1)), ExtensionError::TooLong));
    for text in ["", "(module", "\0asm", "hello", &"(".repeat(100_000)] {
        assert!(matches!(refusal(text), ExtensionError::Module(_)), "{text:.20}");
    }
    open(&module("", ""));
}
