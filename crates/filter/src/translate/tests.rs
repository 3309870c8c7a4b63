use super::*;
use ringside_core::bpf::Instruction;

const WHOLE: TranslateOptions = TranslateOptions {
    target: Target::Socket,
    link_type: LinkType::ETHERNET,
    snaplen_bytes: 0,
    counters: None,
};

fn code(code: u16, jump_true: u8, jump_false: u8, k: u32) -> Instruction {
    Instruction { code, jump_true, jump_false, k }
}

const ACCEPT: Instruction = Instruction { code: 0x06, jump_true: 0, jump_false: 0, k: u32::MAX };
const REJECT: Instruction = Instruction { code: 0x06, jump_true: 0, jump_false: 0, k: 0 };

fn translated(instructions: Vec<Instruction>) -> Result<Vec<EbpfInstruction>, FilterError> {
    translate(&ClassicProgram { instructions }, &WHOLE)
}

/// Every jump lands inside, and every instruction can be reached, as the verifier demands.
fn check_flow(code: &[EbpfInstruction]) {
    let mut live = vec![false; code.len()];
    let mut open = vec![0usize];
    while let Some(at) = open.pop() {
        assert!(at < code.len(), "runs out of the program");
        if std::mem::replace(&mut live[at], true) {
            continue;
        }
        let i = code[at];
        let class = i.code & 7;
        let target = || at.checked_add_signed(1 + i.offset as isize).unwrap();
        match i.code {
            0x95 => {}
            0x05 => open.push(target()),
            0x85 => open.push(at + 1),
            0x18 => {
                live[at + 1] = true;
                open.push(at + 2);
            }
            _ if class == 5 || class == 6 => open.extend([at + 1, target()]),
            _ => open.push(at + 1),
        }
    }
    assert!(live.iter().all(|live| *live), "unreachable instructions");
}

#[test]
fn dead_code_is_left_out() {
    let program = vec![
        code(0x05, 0, 0, 2), // over the next two
        code(0x30, 0, 0, 3),
        ACCEPT,
        code(0x28, 0, 0, 0x8000_0000), // always rejects
        code(0x15, 0, 1, 7),
        ACCEPT,
        REJECT,
    ];
    let code = translated(program).unwrap();
    check_flow(&code);
}

#[test]
fn two_programs_are_one_whose_every_instruction_is_reached() {
    let type_is_ip = vec![code(0x28, 0, 0, 12), code(0x15, 0, 1, 0x800), ACCEPT, REJECT];
    let port_is_53 = vec![code(0x48, 0, 0, 14), code(0x15, 0, 1, 53), ACCEPT, REJECT];
    let returns_a = vec![code(0x30, 0, 0, 1), code(0x16, 0, 0, 0)];
    let far = [vec![code(0x30, 0, 0, 3)], vec![code(0x15, 0, 1, 9), code(0x05, 0, 0, 59_998)]];
    let far = [far.concat(), vec![code(0x02, 0, 0, 4); 59_998], vec![ACCEPT, REJECT]].concat();
    let programs = [type_is_ip, port_is_53, returns_a, far, vec![ACCEPT], vec![REJECT]];
    let programs = programs.map(|instructions| ClassicProgram { instructions });
    for first in &programs {
        for program in &programs {
            let options = TranslateOptions { counters: Some(3), ..WHOLE };
            let second = Second { program, switch: 4 };
            let code = translate_two(first, &second, &options).unwrap();
            check_flow(&code);
            let asks_switch = code.iter().any(|i| (i.code, i.src) == (0x18, 2));
            assert_eq!(asks_switch, first.instructions != [REJECT]);
        }
    }
}

#[test]
fn long_jumps_go_by_islands_and_stay_in_reach() {
    // Each test jumps to one of two ends, as a long chain of `or` does.
    let mut program = Vec::new();
    for term in 0..20_000 {
        program.push(code(0x28, 0, 0, 12 + term % 3));
        program.push(code(0x15, 0, 1, term));
        program.push(code(0x05, 0, 0, 0)); // patched below
    }
    let last = program.len() as u32;
    for (at, instruction) in program.iter_mut().enumerate().filter(|(_, i)| i.code == 0x05) {
        instruction.k = last - at as u32 - 1 + (at % 2) as u32;
    }
    program.extend([REJECT, ACCEPT]);
    let code = translated(program).unwrap();
    check_flow(&code);
    assert!(code.len() > 100_000, "{}", code.len());
}

#[test]
fn what_cannot_be_written_is_refused_with_the_limit() {
    // 30,000 jumps, each with a far target of its own.
    let count = 30_000;
    let mut program = Vec::new();
    for _ in 0..count {
        program.push(code(0x15, 0, 1, 1));
        program.push(code(0x05, 0, 0, 2 * count));
    }
    program.extend(vec![code(0x80, 0, 0, 0); 3 * count as usize]);
    program.push(ACCEPT);
    let error = translated(program).unwrap_err().to_string();
    assert!(error.contains("10900"), "{error}");

    let many = vec![code(0x40, 0, 0, 0); 100_000];
    let error = translated([many, vec![ACCEPT]].concat()).unwrap_err().to_string();
    assert!(error.contains("1000000"), "{error}");
}

#[test]
fn the_common_field_costs_no_call() {
    let program = vec![code(0x28, 0, 0, 12), code(0x15, 0, 1, 0x800), ACCEPT, REJECT];
    let code = translated(program).unwrap();
    let calls = code.iter().filter(|i| i.code == 0x85).count();
    assert_eq!(calls, 3, "the head is copied at once, or in two pieces round a tag");
}

#[test]
fn questions_that_a_path_has_answered_are_not_asked_again() {
    let terms: Vec<String> = (0..100).map(|n| format!("host 10.0.0.{n}")).collect();
    let here = crate::Compiler::InProcess { optimise: false };
    let compiled = crate::compile(&terms.join(" or "), LinkType::ETHERNET, 0, &here).unwrap();
    let asked = |imm: i32, codes: [u8; 2], code: &[EbpfInstruction]| {
        code.iter().filter(|i| i.imm == imm && codes.contains(&i.code)).count()
    };
    let classic = compiled.program.instructions.iter();
    assert_eq!(classic.filter(|i| i.code == 0x15 && i.k == 0x800).count(), 200);
    let code = translate(&compiled.program, &WHOLE).unwrap();
    check_flow(&code);
    // Once at the start; again only where frames of no known type are led on in steps.
    assert!(asked(0x800, [0x16, 0x56], &code) <= 10);
}
