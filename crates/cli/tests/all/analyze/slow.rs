//! An eBPF object over which libbpf would sit for a quarter of an hour: each of many symbols that
//! it lacks is looked for by name among many functions, and names differ in the last of many
//! characters.

/// Characters of a name, and how many functions and symbols there are: less than a megabyte.
const NAME_BYTES: usize = 60_000;
const FUNCTIONS: usize = 30_000;
const SYMBOLS: usize = 10_000;

/// Kinds of BTF, as they stand in its info word.
const FUNCTION: u32 = 12 << 24;
const PROTOTYPE: u32 = 13 << 24;
const SECTION: u32 = 15 << 24;
/// Linkage of a function that is elsewhere.
const EXTERN: u32 = 2;
/// ELF types of sections.
const PROGBITS: u32 = 1;
const SYMBOL_TABLE: u32 = 2;
const STRING_TABLE: u32 = 3;

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Strings with a zero before and behind each, and where each begins.
fn strings(texts: &[&str]) -> (Vec<u8>, Vec<u32>) {
    let mut bytes = vec![0];
    let starts = texts.iter().map(|text| {
        let start = bytes.len() as u32;
        bytes.extend(text.as_bytes());
        bytes.push(0);
        start
    });
    let starts = starts.collect();
    (bytes, starts)
}

/// Types: many functions of one name, one of the name that is looked for, and that one's section.
fn types(common: &str, wanted: &str) -> Vec<u8> {
    let (strings, at) = strings(&[common, wanted, ".ksyms"]);
    let mut types = words(&[0, PROTOTYPE, 0]);
    for name in std::iter::repeat_n(at[0], FUNCTIONS).chain([at[1]]) {
        types.extend(words(&[name, FUNCTION | EXTERN, 1]));
    }
    types.extend(words(&[at[2], SECTION | 1, 0, FUNCTIONS as u32 + 2, 0, 0]));
    let (types_bytes, strings_bytes) = (types.len() as u32, strings.len() as u32);
    let mut btf = words(&[0x0001_eb9f, 24, 0, types_bytes, types_bytes, strings_bytes]);
    btf.extend(types);
    btf.extend(strings);
    btf
}

/// The object.
pub fn object() -> Vec<u8> {
    let common = "a".repeat(NAME_BYTES) + "b";
    let wanted = "a".repeat(NAME_BYTES) + "c";
    let (names, at) = strings(&["xdp", ".symtab", ".BTF", ".strtab", "ringside_packet", &wanted]);
    let symbol = |name: u32, info: u32, size: u32| {
        // Information and the section's number share a word.
        words(&[name, info, 0, 0, size, 0])
    };
    let mut symbols = [symbol(0, 0, 0), symbol(at[4], 0x12 | 1 << 16, 16)].concat();
    (0..SYMBOLS).for_each(|_| symbols.extend(symbol(at[5], 0x10, 0)));
    // `r0 = 2; exit`
    let code = [0xb7, 0, 0, 0, 2, 0, 0, 0, 0x95, 0, 0, 0, 0, 0, 0, 0].to_vec();
    let sections = [
        (at[0], PROGBITS, 6, [0, 0], 0, code),
        (at[1], SYMBOL_TABLE, 0, [4, 1], 24, symbols),
        (at[2], PROGBITS, 0, [0, 0], 0, types(&common, &wanted)),
        (at[3], STRING_TABLE, 0, [0, 0], 0, names),
    ];
    let mut contents = Vec::new();
    let mut table = vec![0; 64];
    for (name, kind, flags, link, entry_bytes, content) in sections {
        let (start, bytes) = (64 + contents.len() as u32, content.len() as u32);
        let [link, info] = link;
        table.extend(words(&[name, kind, flags, 0, 0, 0, start, 0, bytes, 0, link, info]));
        table.extend(words(&[8, 0, entry_bytes, 0]));
        contents.extend(content);
        contents.resize(contents.len().next_multiple_of(8), 0);
    }
    let mut elf = b"\x7fELF\x02\x01\x01".to_vec();
    elf.resize(16, 0);
    // A file to be linked, for the machine of eBPF.
    elf.extend(words(&[1 | 247 << 16, 1, 0, 0, 0, 0, 64 + contents.len() as u32, 0, 0]));
    elf.extend(words(&[64, 64 << 16, 5 | 4 << 16]));
    elf.extend(contents);
    elf.extend(table);
    elf
}
