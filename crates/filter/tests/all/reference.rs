//! The reference evaluator against libpcap's own, over every capture and every primitive.

use crate::common::{captures, expressions, program};
use pcap::{Capture, Linktype};
use ringside_core::LinkType;
use ringside_filter::libpcap::dlt;
use ringside_filter::{Compiler, Prepared, compile, evaluate};
use std::collections::BTreeSet;

#[test]
fn every_primitive_compiles_for_some_link_type() {
    let mut refused = Vec::new();
    for expression in expressions::all() {
        let compiles = |link_type: &u16| program(expression, LinkType(*link_type), true).is_some();
        if !expressions::LINK_TYPES.iter().any(compiles) {
            refused.push(expression);
        }
    }
    assert!(refused.is_empty(), "refused for every link type: {refused:?}");
    for (expression, words) in expressions::REFUSED {
        let compiler = Compiler::InProcess { optimise: true };
        let answer = compile(expression, LinkType::ETHERNET, 0, &compiler);
        let text = answer.unwrap_err().to_string();
        assert!(text.contains(words) && text.contains(expression), "{text}");
    }
}

#[test]
fn reference_equals_libpcap_on_every_frame() {
    let files = captures("filter reference");
    if files.is_empty() {
        return;
    }
    let link_types: BTreeSet<LinkType> = files.iter().map(|file| file.link_type).collect();
    let (mut compared, mut accepted) = (0u64, 0u64);
    for link_type in link_types {
        let Ok(handle) = Capture::dead(Linktype(dlt(link_type))) else { continue };
        for expression in expressions::all() {
            for optimise in [true, false] {
                let Some(ours) = program(expression, link_type, optimise) else { continue };
                let prepared = Prepared::new(&ours).unwrap();
                let theirs = handle.compile(expression, optimise).unwrap();
                for file in files.iter().filter(|file| file.link_type == link_type) {
                    for (number, frame) in file.frames.iter().enumerate() {
                        let length = frame.bytes.len() as u32;
                        let answer = prepared.accepts(&frame.bytes, length);
                        let path = file.path.display();
                        let context = || format!("{expression} on frame {number} of {path}");
                        assert_eq!(answer, theirs.filter(&frame.bytes), "{}", context());
                        compared += 1;
                        accepted += u64::from(answer);
                    }
                }
            }
        }
    }
    eprintln!("{compared} evaluations, {accepted} accepted");
    assert!(compared > 1_000_000 && accepted > compared / 100);
}

#[test]
fn cut_frames_keep_their_length_on_the_wire_as_in_libpcap() {
    let expressions =
        ["len > 100", "less 128", "greater 1000", "len - 14 >= ip[2:2]", "ether[len - 1] >= 0"];
    let mut cut = 0;
    for file in captures("filter wire length") {
        cut += file.frames.iter().filter(|f| (f.bytes.len() as u32) < f.wire_bytes).count();
        for expression in expressions {
            let Some(ours) = program(expression, file.link_type, true) else { continue };
            let expected =
                file.frames.iter().filter(|f| evaluate(&ours, &f.bytes, f.wire_bytes) != 0);
            let mut capture = Capture::from_file(&file.path).unwrap();
            capture.filter(expression, true).unwrap();
            let mut accepted = 0;
            while capture.next_packet().is_ok() {
                accepted += 1;
            }
            assert_eq!(expected.count(), accepted, "{expression} on {}", file.path.display());
        }
    }
    assert!(cut > 100 || ringside_testkit::capture_dir().is_none());
}
