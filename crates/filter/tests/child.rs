//! The bounded child, run for real. This test program is its own child (`harness = false`): libtest
//! would write its own lines between the answers.
#![allow(clippy::unwrap_used)]

use ringside_core::LinkType;
use ringside_filter::{Compiler, Prepared, child_main, compile};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const CHILD_ARGUMENT: &str = "compile-one-filter";

fn main() {
    if std::env::args().nth(1).as_deref() == Some(CHILD_ARGUMENT) {
        std::process::exit(child_main(std::io::stdin(), std::io::stdout()));
    }
    let tests: [(&str, fn()); 5] = [
        ("an_answer_is_the_same_as_in_process", an_answer_is_the_same_as_in_process),
        ("refusals_carry_libpcaps_words_and_a_fix", refusals_carry_libpcaps_words_and_a_fix),
        ("a_child_that_misbehaves_is_an_error", a_child_that_misbehaves_is_an_error),
        ("deep_nesting_is_an_error_and_no_crash", deep_nesting_is_an_error_and_no_crash),
        ("a_thousand_hosts_in_time", a_thousand_hosts_in_time),
    ];
    if std::env::args().any(|argument| argument == "--list") {
        tests.iter().for_each(|(name, _)| println!("{name}: test"));
        return;
    }
    // Arguments of `cargo test` select by name, as libtest does.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    for (name, test) in tests {
        if wanted.is_empty() || wanted.iter().any(|part| name.contains(part.as_str())) {
            test();
            println!("test {name} ... ok");
        }
    }
}

fn child() -> Compiler {
    let exe = std::env::current_exe().unwrap();
    Compiler::Child { exe, args: vec![CHILD_ARGUMENT.into()] }
}

fn an_answer_is_the_same_as_in_process() {
    for expression in ["", "  ", "tcp port 80 and not host 10.0.0.1", "ip6 protochain 6"] {
        let here = Compiler::InProcess { optimise: true };
        let expected = compile(expression, LinkType::ETHERNET, 96, &here).unwrap();
        let answer = compile(expression, LinkType::ETHERNET, 96, &child()).unwrap();
        assert_eq!(answer, expected);
        assert!(answer.optimised);
        let values: Vec<u32> =
            answer.program.instructions.iter().filter(|i| i.code == 6).map(|i| i.k).collect();
        assert!(values.contains(&96) && values.iter().all(|value| [0, 96].contains(value)));
    }
}

fn refusals_carry_libpcaps_words_and_a_fix() {
    for (expression, words, fix) in [
        ("tcp prot 80", "syntax error", "pcap-filter(7)"),
        ("inbound", "not in the frame", "offset"),
        ("port nosuchservice", "nosuchservice", "/etc/services"),
        ("type mgt", "802.11", "link"),
    ] {
        let error = compile(expression, LinkType::ETHERNET, 0, &child()).unwrap_err().to_string();
        let found = error.contains(words) && error.contains(fix) && error.contains(expression);
        assert!(found, "{expression}: {error}");
    }
    let long = "x".repeat((1 << 20) + 1);
    let error = compile(&long, LinkType::ETHERNET, 0, &child()).unwrap_err().to_string();
    assert!(error.contains("1048577") && error.len() < 300, "{error}");
    let error = compile("ip\0", LinkType::ETHERNET, 0, &child()).unwrap_err().to_string();
    assert!(error.contains("refused"), "{error}");
}

fn a_child_that_misbehaves_is_an_error() {
    let run = |exe: &str, args: &[&str]| {
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        let compiler = Compiler::Child { exe: PathBuf::from(exe), args };
        compile("ip", LinkType::ETHERNET, 0, &compiler).unwrap_err().to_string()
    };
    assert!(run("/nonexistent", &[]).contains("cannot be started"));
    assert!(run("/bin/true", &[]).contains("no valid answer"));
    assert!(run("/bin/cat", &[]).contains("no valid answer"));
    assert!(run("/bin/sh", &["-c", "kill -SEGV $$"]).contains("signal"));
    assert!(run("/bin/sh", &["-c", "exec yes"]).contains("no valid answer"), "endless output");
    let start = Instant::now();
    assert!(run("/bin/sleep", &["60"]).contains("was not compiled within 9 s"));
    assert!(start.elapsed() < Duration::from_secs(20));
    assert!(Path::new("/bin/sleep").exists());
}

fn deep_nesting_is_an_error_and_no_crash() {
    for (open, close) in [("(", ")"), ("not (", ")"), ("not ", ""), ("ip[", "]"), ("-", "")] {
        let depth = 100_000;
        let expression = format!("{}1{}", open.repeat(depth), close.repeat(depth));
        // Whatever it says; the child may run out of stack, this process must not.
        if let Err(error) = compile(&expression, LinkType::ETHERNET, 0, &child()) {
            assert!(error.to_string().len() < 1_000);
        }
    }
}

fn a_thousand_hosts_in_time() {
    let address = |n: u32| format!("10.{}.{}.7", n / 250, n % 250);
    let terms: Vec<String> = (0..1000).map(|n| format!("host {}", address(n))).collect();
    let start = Instant::now();
    let compiled = match compile(&terms.join(" or "), LinkType::ETHERNET, 0, &child()) {
        Ok(compiled) => compiled,
        // On a machine that is too slow the refusal says what to do.
        Err(error) => {
            let fix = "networks (`net 10.0.0.0/8`) instead of single hosts";
            return assert!(error.to_string().contains(fix), "{error}");
        }
    };
    let took = start.elapsed();
    let program = Prepared::new(&compiled.program).unwrap();
    let mut frame = [0u8; 60];
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[14] = 0x45;
    for (n, last, expected) in [(0, 7, true), (999, 7, true), (999, 8, false), (500, 7, true)] {
        frame[30..34].copy_from_slice(&[10, (n / 250) as u8, (n % 250) as u8, last]);
        assert_eq!(program.accepts(&frame, 60), expected);
    }
    let instructions = compiled.program.instructions.len();
    println!("1,000 hosts: {took:?}, optimised {}, {instructions}", compiled.optimised);
}
