use super::*;
use crate::numa::{CPUS_MAX, cpu_list};
use ringside_core::bpf::{ClassicProgram, Instruction};
use ringside_testkit::need_root;
use std::os::unix::net::UnixDatagram;

fn instruction(code: u8, dst: u8, src: u8, offset: i16, imm: i32) -> EbpfInstruction {
    EbpfInstruction { code, dst, src, offset, imm }
}

#[test]
fn cpus_are_counted_as_they_are_listed() {
    let seeds = ["0-3,8-11,15\n", "0", "0-8191", "0-18446744073709551615", "8192", "3-0"];
    let seeds = seeds.map(|text| text.as_bytes().to_vec());
    ringside_testkit::fuzz("possible-cpus", 500_000, &seeds, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        assert!(arrays::highest_cpu(&text).is_none_or(|highest| (highest as usize) < CPUS_MAX));
        let Some(count) = arrays::count_cpus(&text) else { return };
        assert!((1..=CPUS_MAX).contains(&count));
        let numbers = text.trim().split([',', '-']).map(|number| number.parse::<usize>());
        if numbers.flatten().all(|number| number < CPUS_MAX) {
            assert_eq!(cpu_list(&text).len(), count);
        }
    });
}

#[test]
fn cpu_lists_are_counted_and_nonsense_is_refused() {
    assert_eq!(arrays::count_cpus("0-1\n"), Some(2));
    assert_eq!(arrays::count_cpus("0"), Some(1));
    assert_eq!(arrays::count_cpus("0-3,8-11,15"), Some(9));
    for nonsense in ["", "a", "3-1", "0-99999", "0-18446744073709551615", "1,,2"] {
        assert_eq!(arrays::count_cpus(nonsense), None, "{nonsense}");
    }
}

#[test]
fn a_program_runs_on_test_data_and_counts_per_cpu() {
    if !need_root("sys::bpf test run") {
        return;
    }
    let map = PerCpuArray::create("rs-test", 2).unwrap();
    let fd = map.as_fd().as_raw_fd();
    let program = [
        instruction(0x62, 10, 0, -4, 0), // *(u32 *)(r10 - 4) = 0
        instruction(0x18, 1, 1, 0, fd),  // r1 = map
        instruction(0, 0, 0, 0, 0),
        instruction(0xbf, 2, 10, 0, 0), // r2 = r10
        instruction(0x07, 2, 0, 0, -4), // r2 -= 4
        instruction(0x85, 0, 0, 0, 1),  // bpf_map_lookup_elem
        instruction(0x55, 0, 0, 1, 0),  // if r0 != 0 skip
        instruction(0x95, 0, 0, 0, 0),
        instruction(0xb7, 1, 0, 0, 1),  // r1 = 1
        instruction(0xdb, 0, 1, 8, 0),  // lock *(u64 *)(r0 + 8) += r1
        instruction(0xb7, 0, 0, 0, 77), // r0 = 77
        instruction(0x95, 0, 0, 0, 0),
    ];
    let program = Program::load(ProgramType::SchedCls, "rs test", &program).unwrap();
    assert_eq!(program.test_run(&[0; 60], 3).unwrap().return_value, 77);
    assert_eq!(map.sums().unwrap(), [0, 3]);
}

#[test]
fn a_refused_program_brings_the_verifiers_reason() {
    if !need_root("sys::bpf verifier log") {
        return;
    }
    // Exits without having set R0.
    let error =
        Program::load(ProgramType::SocketFilter, "rs_bad", &[instruction(0x95, 0, 0, 0, 0)])
            .unwrap_err();
    assert!(error.to_string().contains("R0"), "{error}");
}

#[test]
fn classic_filters_decide_what_a_socket_receives() {
    // ldb [0]; jeq #7, accept, reject
    let code = |code, jump_true, jump_false, k| Instruction { code, jump_true, jump_false, k };
    let instructions =
        vec![code(0x30, 0, 0, 0), code(0x15, 0, 1, 7), code(0x06, 0, 0, 100), code(0x06, 0, 0, 0)];
    let (ours, theirs) = UnixDatagram::pair().unwrap();
    attach_classic(ours.as_fd(), &ClassicProgram { instructions }).unwrap();
    ours.set_nonblocking(true).unwrap();
    theirs.set_nonblocking(true).unwrap();
    // A filter that rejects a Unix datagram drops it silently.
    theirs.send(&[7, 1]).unwrap();
    theirs.send(&[8, 2]).unwrap();
    theirs.send(&[7, 3]).unwrap();
    let mut buffer = [0; 8];
    assert_eq!(ours.recv(&mut buffer).unwrap(), 2);
    assert_eq!(buffer[1], 1);
    ours.recv(&mut buffer).unwrap();
    assert_eq!(buffer[1], 3);
    assert!(ours.recv(&mut buffer).is_err());
    let long = ClassicProgram { instructions: vec![code(0x06, 0, 0, 0); 70_000] };
    assert!(attach_classic(ours.as_fd(), &long).is_err());
}
