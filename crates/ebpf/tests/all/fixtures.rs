//! Every program on known frames: input, verdict, output frame, one line of reason.

use ringside_ebpf::abi::{GENERATE_SIZES_MAX, GenerateConfig};
use ringside_ebpf::{Error, Generator, TestRun, Verdict, XdpProgram};
use ringside_sys::thread::{allowed_cpus, pin_to_cpu};
use ringside_testkit::need_root;

struct Fixture {
    reason: &'static str,
    input: Vec<u8>,
    verdict: Verdict,
    output: Vec<u8>,
}

#[test]
fn xdp_pass_passes_every_frame_unchanged() {
    if !need_root("xdp_pass_passes_every_frame_unchanged") {
        return;
    }
    let frame = |bytes: usize| (0..bytes).map(|i| i as u8).collect::<Vec<u8>>();
    let fixtures = [14, 60, 64, 1514, 3408].map(|bytes| Fixture {
        reason: "no frame is changed or kept from the host",
        input: frame(bytes),
        verdict: Verdict::Pass,
        output: frame(bytes),
    });
    let mut program = XdpProgram::pass().unwrap();
    for f in fixtures {
        let run = program.test_run(&f.input).unwrap();
        assert_eq!(run, TestRun { verdict: f.verdict, frame: f.output }, "{}", f.reason);
    }
}

#[test]
fn programs_that_discard_discard_every_frame() {
    if !need_root("programs_that_discard_discard_every_frame") {
        return;
    }
    for mut program in [XdpProgram::drop_all().unwrap(), XdpProgram::drop_stamp().unwrap()] {
        for bytes in [14, 60, 64, 1514, 3408] {
            let frame = vec![7; bytes];
            let run = program.test_run(&frame).unwrap();
            assert_eq!(run, TestRun { verdict: Verdict::Drop, frame }, "{bytes} bytes");
        }
    }
}

#[test]
fn the_limits_of_forwarding_swap_addresses() {
    if !need_root("the_limits_of_forwarding_swap_addresses") {
        return;
    }
    let loopback = 1;
    for (mut program, verdict) in [
        (XdpProgram::swap().unwrap(), Verdict::Transmit),
        (XdpProgram::redirect(loopback).unwrap(), Verdict::Redirect),
    ] {
        let input: Vec<u8> = (0..64).collect();
        let frame = [&input[6..12], &input[..6], &input[12..]].concat();
        assert_eq!(program.test_run(&input).unwrap(), TestRun { verdict, frame });
    }
}

/// Ethernet, IPv4 with protocol UDP and destination 198.18.0.1, ports 0 to 9, magic "RINGSIDE".
const HEADER: [u8; 64] = [
    0x02, 0x52, 0x53, 0, 0, 0xff, 0x02, 0x52, 0x53, 0, 0, 1, 8, 0, // Ethernet
    0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 0, 0, 0, 0, 198, 18, 0, 1, // IPv4
    0, 0, 0, 9, 0, 0, 0, 0, // UDP
    b'R', b'I', b'N', b'G', b'S', b'I', b'D', b'E', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x3e, 0x3f,
];

/// Of each flow its address (the third crosses a 16-bit word), its port, and the sum of its IPv4
/// header without length, by hand: 0x4500 + 0x4000 + 0x4011 + 0xc612 + 0x0001 + the address.
const FLOWS: [([u8; 4], u8, u16); 3] = [
    ([0x0a, 0x10, 0xff, 0xfe], 0, 0x9534),
    ([0x0a, 0x10, 0xff, 0xff], 1, 0x9535),
    ([0x0a, 0x11, 0x00, 0x00], 0, 0x9536),
];

/// The header of `flow` as a generator keeps it.
fn header(flow: usize) -> [u8; 64] {
    let (address, port, sum) = FLOWS[flow % 3];
    let mut header = HEADER;
    header[24..26].copy_from_slice(&sum.to_be_bytes());
    header[26..30].copy_from_slice(&address);
    header[34..36].copy_from_slice(&[4, port]);
    header[61] = flow as u8;
    header
}

fn config(sizes: &[u16], flow_count: u32) -> GenerateConfig {
    let mut table = [0u16; GENERATE_SIZES_MAX];
    table[..sizes.len()].copy_from_slice(sizes);
    GenerateConfig {
        ifindex: 2,
        flow_count,
        size_count: sizes.len() as u32,
        input_bytes: u32::from(*sizes.iter().max().expect("at least one size")).max(64),
        header_bytes: 64,
        payload_at: 42,
        ipv4_at: 14,
        ipv6_at: 0,
        transport_at: 34,
        udp_at: 34,
        checksum_at: 0,
        number_at: 50,
        stamp_at: 0,
        is_kept: 0,
        discards: 0,
        reserved: 0,
        gap: 0,
        sizes: table,
        sums: [0; GENERATE_SIZES_MAX],
    }
}

/// A generator whose stream 3 is that of the CPU on which the calling thread is from now on.
fn load(config: &GenerateConfig) -> Result<Generator, Error> {
    let cpu = allowed_cpus().expect("CPUs")[0];
    pin_to_cpu(cpu).expect("a CPU that is allowed");
    let generator = load_for(config, &[(cpu, 3)])?;
    assert_eq!(generator.state(cpu)?.stream, 3 << 48);
    Ok(generator)
}

fn load_for(config: &GenerateConfig, streams: &[(usize, u16)]) -> Result<Generator, Error> {
    let headers: Vec<u8> = (0..config.flow_count as usize).flat_map(header).collect();
    let input = (0..config.input_bytes).map(|offset| offset as u8).collect();
    Generator::load(config, &headers, streams, input)
}

#[test]
fn generate_writes_every_varying_field() {
    if !need_root("generate_writes_every_varying_field") {
        return;
    }
    let generator = load(&config(&[66], 3)).unwrap();
    // Flow, and the checksum by hand.
    let expected: [(usize, u16); 4] = [(0, 0x6a97), (1, 0x6a96), (2, 0x6a95), (0, 0x6a97)];
    for (sequence, (flow, checksum)) in expected.into_iter().enumerate() {
        let mut frame: Vec<u8> = header(flow).to_vec();
        frame.extend([64, 65]);
        frame[17] = 52; // total length
        frame[24..26].copy_from_slice(&checksum.to_be_bytes());
        frame[39] = 32; // UDP length
        frame[50..58].copy_from_slice(&[0, 3, 0, 0, 0, 0, 0, sequence as u8]);
        let run = generator.run_once().unwrap();
        assert_eq!(run, TestRun { verdict: Verdict::Redirect, frame }, "frame {sequence}");
        let sum = run.frame[14..34].chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1]));
        let sum: u32 = sum.sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff, "an IPv4 header sums to all ones");
    }
    let state = generator.state(allowed_cpus().unwrap()[0]).unwrap();
    assert_eq!((state.next_sequence, state.refused, state.next_flow), (4, 0, 1));
}

#[test]
fn generate_cuts_frames_to_size() {
    if !need_root("generate_cuts_frames_to_size") {
        return;
    }
    for bytes in [14, 15, 42, 57, 58, 60, 62, 64, 65, 1514, 3408] {
        let generator = load(&config(&[bytes], 1)).unwrap();
        let run = generator.run_once().unwrap();
        assert_eq!(run.verdict, Verdict::Redirect, "{bytes} bytes");
        assert_eq!(run.frame.len(), usize::from(bytes));
        assert_eq!(run.frame[..14], HEADER[..14]);
        if let Some(pattern) = run.frame.get(64..) {
            assert!(pattern.iter().zip(64u32..).all(|(&byte, offset)| byte == offset as u8));
        }
    }
}

#[test]
fn a_mix_of_sizes_is_even() {
    if !need_root("a_mix_of_sizes_is_even") {
        return;
    }
    let generator = load(&config(&[64, 512, 1514], 7)).unwrap();
    let mut counts = [0u32; 3];
    for _ in 0..300 {
        match generator.run_once().unwrap().frame.len() {
            64 => counts[0] += 1,
            512 => counts[1] += 1,
            1514 => counts[2] += 1,
            other => panic!("a frame of {other} bytes"),
        }
    }
    assert!(counts.iter().all(|&count| (98..=102).contains(&count)), "{counts:?}");
}

#[test]
fn what_live_frames_cannot_carry_is_refused() {
    for bytes in [0, 13, 3409, 3412, 65535] {
        let refused = load(&config(&[bytes], 1)).err().unwrap();
        assert!(matches!(refused, Error::FrameSize { .. }), "{refused}");
        assert!(refused.to_string().contains("14 to 3408"), "{refused}");
    }
    assert!(load(&config(&[64], 0)).is_err());
    let refused =
        |streams: &[(usize, u16)]| load_for(&config(&[64], 1), streams).err().unwrap().to_string();
    assert!(refused(&[(0, 0), (0, 1)]).contains("given once"));
    assert!(refused(&[(100_000, 0)]).contains("100000"));
    let none = GenerateConfig { size_count: 0, ..config(&[64], 1) };
    assert!(load(&none).is_err());
    let many = GenerateConfig { size_count: 1025, ..config(&[64], 1) };
    assert!(load(&many).is_err());
    let outside = GenerateConfig { number_at: 57, ..config(&[64], 1) };
    assert!(load(&outside).err().unwrap().to_string().contains("place of the number"));
    let few = Generator::load(&config(&[64], 2), &header(0), &[(0, 0)], vec![0; 64]);
    assert!(few.err().unwrap().to_string().contains("length of all headers"));
}
