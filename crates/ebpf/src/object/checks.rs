//! What an object may not have, though the kernel would take it.

use super::{ObjectError, ObjectLimits, PROGRAM, tables};
use libbpf_rs::libbpf_sys::{
    BPF_FUNC_csum_diff, BPF_FUNC_map_delete_elem, BPF_FUNC_map_lookup_elem,
    BPF_FUNC_map_lookup_percpu_elem, BPF_FUNC_map_update_elem, BPF_FUNC_xdp_get_buff_len,
    BPF_FUNC_xdp_load_bytes, bpf_func_id, bpf_insn,
};
use libbpf_rs::{MapType, OpenMap, OpenObject, ProgramType, num_possible_cpus};

/// Helpers that end soon, give the same for the same packets, and reach nothing but the packet and
/// the object's own maps. Not among them: clocks, tail calls, loops by callback, everything that
/// sends or changes something.
const CALLS: [bpf_func_id; 7] = [
    BPF_FUNC_map_lookup_elem,
    BPF_FUNC_map_update_elem,
    BPF_FUNC_map_delete_elem,
    BPF_FUNC_csum_diff,
    BPF_FUNC_xdp_get_buff_len,
    BPF_FUNC_xdp_load_bytes,
    BPF_FUNC_map_lookup_percpu_elem,
];

/// What the kernel keeps with a hash table's entry in addition to key and value: the element's
/// head, its buckets, and its node of an LRU list.
const ENTRY_BYTES: u64 = 128;

/// Refuses maps before they are made; returns how much memory they take.
pub(super) fn before_load(open: &OpenObject, limits: &ObjectLimits) -> Result<u64, ObjectError> {
    let programs: Vec<_> = open.progs().collect();
    let [program] = programs.as_slice() else {
        return Err(ObjectError::Programs(programs.len()));
    };
    let name = program.name().to_string_lossy();
    if program.prog_type() != ProgramType::Xdp || name != PROGRAM {
        let section = program.section().to_string_lossy();
        let text = format!("{} in SEC(\"{}\")", name.escape_debug(), section.escape_debug());
        return Err(ObjectError::Program(text));
    }
    let maps: Vec<_> = open.maps().collect();
    if maps.len() > limits.maps {
        return Err(ObjectError::Maps { count: maps.len(), limit: limits.maps });
    }
    let cpus = num_possible_cpus().map_or(1, |cpus| cpus as u64);
    let (mut bytes, mut rows) = (0_u64, 0_u64);
    for map in &maps {
        bytes = bytes.saturating_add(bytes_of(map, cpus)?);
        if tables::is_shown(map.name()) {
            rows = rows.saturating_add(map.max_entries().into());
        }
    }
    if bytes > limits.memory_bytes {
        return Err(ObjectError::Memory { bytes, limit: limits.memory_bytes });
    }
    if rows > limits.rows {
        return Err(ObjectError::Rows { rows, limit: limits.rows });
    }
    Ok(bytes)
}

/// Memory of a map, no less than the kernel takes.
fn bytes_of(map: &OpenMap<'_>, cpus: u64) -> Result<u64, ObjectError> {
    let [key, value] = [map.key_size(), map.value_size()].map(|size| u64::from(size) + 8);
    let entry = match map.map_type() {
        MapType::Array => value,
        MapType::PercpuArray => value * cpus,
        MapType::Hash | MapType::LruHash => key + value + ENTRY_BYTES,
        MapType::PercpuHash | MapType::LruPercpuHash => key + value * cpus + ENTRY_BYTES,
        other => {
            let map = map.name().to_string_lossy().escape_debug().to_string();
            return Err(ObjectError::MapType { map, of: format!("{other:?}") });
        }
    };
    Ok(entry.saturating_mul(map.max_entries().into()))
}

/// `BPF_JMP | BPF_CALL`, and the registers that say whom.
const CALL: u8 = 0x85;
const CALL_BY_REGISTER: u8 = 0x8d;
const CALLS_HELPER: u8 = 0;
const CALLS_OWN: u8 = 1;
/// `BPF_JMP | BPF_JCOND`.
const MAY_GOTO: u8 = 0xe5;

/// Refuses a loaded program that calls what it may not. It has not run yet.
pub(super) fn instructions(code: &[bpf_insn]) -> Result<(), ObjectError> {
    if code.is_empty() {
        return Err(ObjectError::Programs(0));
    }
    for instruction in code {
        match (instruction.code, instruction.src_reg()) {
            (MAY_GOTO, _) => return Err(ObjectError::Loop),
            (CALL, CALLS_OWN) => {}
            (CALL, CALLS_HELPER) if CALLS.contains(&(instruction.imm as bpf_func_id)) => {}
            (CALL, CALLS_HELPER) => {
                return Err(ObjectError::Call(format!("helper {}", instruction.imm)));
            }
            (CALL | CALL_BY_REGISTER, _) => {
                return Err(ObjectError::Call("a function of the kernel".into()));
            }
            _ => {}
        }
    }
    Ok(())
}
