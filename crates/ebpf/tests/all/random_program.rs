//! Programs of classic BPF that no compiler would write.

use ringside_core::bpf::{ClassicProgram, Instruction};
use ringside_testkit::Random;

/// A valid program of random instructions. Offsets gather where frames have their fields.
pub fn random_program(random: &mut Random) -> ClassicProgram {
    const CODES: [u16; 47] = [
        0x20, 0x28, 0x30, 0x40, 0x48, 0x50, 0xb1, 0x80, 0x81, 0x00, 0x01, 0x60, 0x61, 0x02, 0x03,
        0x07, 0x87, 0x84, 0x04, 0x0c, 0x14, 0x1c, 0x24, 0x2c, 0x34, 0x3c, 0x94, 0x9c, 0x44, 0x4c,
        0x54, 0x5c, 0xa4, 0xac, 0x64, 0x6c, 0x74, 0x7c, 0x05, 0x15, 0x1d, 0x25, 0x2d, 0x35, 0x3d,
        0x45, 0x16,
    ];
    let length = 2 + random.below(60);
    let mut instructions: Vec<Instruction> = (0..length - 1)
        .map(|at| {
            let code = CODES[random.below(CODES.len())];
            let room = (length - 2 - at).min(255) + 1;
            let mut k = match random.below(8) {
                0 => random.next_u64() as u32,
                1 => [0, 1, 31, 0x7fff_fffc, 0x7fff_ffff, 0x8000_0000, u32::MAX][random.below(7)],
                2 => random.below(1_600) as u32,
                _ => random.below(80) as u32,
            };
            match code {
                0x60 | 0x61 | 0x02 | 0x03 => k %= 16,
                0x64 | 0x74 => k %= 32,
                0x34 | 0x94 => k = k.max(1),
                0x05 => k = random.below(room) as u32,
                _ => {}
            }
            let (jump_true, jump_false) = (random.below(room) as u8, random.below(room) as u8);
            Instruction { code, jump_true, jump_false, k }
        })
        .collect();
    let k = [0, 1, 12, 13, 15, 16, 60, u32::MAX][random.below(8)];
    let code = [0x06, 0x16][random.below(2)];
    instructions.push(Instruction { code, jump_true: 0, jump_false: 0, k });
    // Early returns would end most programs at once.
    for instruction in instructions.iter_mut().rev().skip(1) {
        if instruction.code == 0x16 && random.below(3) > 0 {
            instruction.code = 0x87;
        }
    }
    ClassicProgram { instructions }
}
