//! The tables of an object, read: which fields an entry has is said by its types (BTF).

use super::{ObjectError, ObjectLimits};
use libbpf_rs::btf::types::{Array, Composite, Int, IntEncoding, MemberAttr};
use libbpf_rs::btf::{BtfType, TypeId};
use libbpf_rs::{Btf, Map, MapCore, MapFlags, MapHandle, MapInfo, MapType, Object};
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fmt::Write;
use std::os::fd::AsFd;

/// What a field of an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Unsigned,
    Signed,
    Bool,
    Text,
    Bytes,
}

/// Where a field lies in a key or a value.
#[derive(Clone, Debug)]
struct Field {
    name: String,
    kind: Kind,
    start: usize,
    bytes: usize,
}

/// A field's value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cell {
    /// An unsigned integer.
    Unsigned(u64),
    /// A signed one.
    Signed(i64),
    /// True or false.
    Bool(bool),
    /// Characters up to a zero, or bytes in hexadecimal.
    Text(String),
}

/// A map whose entries are shown.
pub struct Table {
    name: String,
    map: MapHandle,
    key: Vec<Field>,
    value: Vec<Field>,
}

/// True for a map whose entries are results: not one of variables, nor one that is marked.
pub(super) fn is_shown(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    !name.starts_with(b"_") && !name.contains(&b'.')
}

/// The tables of a loaded object that are shown, by name.
pub(super) fn shown(object: &Object, limits: &ObjectLimits) -> Result<Vec<Table>, ObjectError> {
    let maps = object.maps().filter(|map| is_shown(map.name()));
    let tables: Result<Vec<_>, _> = maps.map(|map| Table::of(object, &map, limits)).collect();
    let mut tables = tables?;
    tables.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(tables)
}

impl Table {
    fn of(object: &Object, map: &Map<'_>, limits: &ObjectLimits) -> Result<Table, ObjectError> {
        let name = map.name().to_string_lossy().into_owned();
        let read = |source| ObjectError::Read { map: name.clone(), source };
        let info = MapInfo::new(map.as_fd()).map_err(read)?.info;
        // Types that the kernel has not checked may lead in a circle.
        let btf = if info.btf_id == 0 { None } else { object.btf().map_err(read)? };
        let layout = |part| ObjectError::Layout {
            map: name.escape_debug().to_string(),
            part,
            limit: limits.fields,
        };
        let fields = |id, part, bytes: u32| {
            let fields = btf.as_ref().and_then(|btf| fields_of(btf, id, part));
            fields
                .filter(|fields| fields.iter().all(|one| one.start + one.bytes <= bytes as usize))
                .ok_or(layout(part))
        };
        let key = fields(info.btf_key_type_id, "key", map.key_size())?;
        let value = fields(info.btf_value_type_id, "value", map.value_size())?;
        let names: HashSet<&str> = key.iter().chain(&value).map(|one| &*one.name).collect();
        let is_plain = names.len() == key.len() + value.len() && names.len() < limits.fields;
        let can_add = value.iter().all(|one| matches!(one.kind, Kind::Unsigned | Kind::Signed));
        if !is_plain || names.contains(Table::NAME) || (is_per_cpu(map.map_type()) && !can_add) {
            return Err(layout("value"));
        }
        let map = MapHandle::try_from(map).map_err(read)?;
        Ok(Table { name, map, key, value })
    }

    /// What a record of a table calls the table.
    pub const NAME: &'static str = "table";

    /// What the table is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Names of the fields of a row.
    pub fn columns(&self) -> impl Iterator<Item = &str> {
        self.key.iter().chain(&self.value).map(|field| &*field.name)
    }

    /// Its entries in the order of their keys, of arrays those that are not zero; of each its
    /// fields, in the order of [`columns`](Table::columns).
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn rows(&self) -> Result<Vec<Vec<Cell>>, ObjectError> {
        let has_all = matches!(self.map.map_type(), MapType::Array | MapType::PercpuArray);
        let mut rows = Vec::new();
        for key in self.map.keys() {
            let Some(values) = self.values(&key)? else { continue };
            if has_all && values.iter().flatten().all(|byte| *byte == 0) {
                continue;
            }
            let mut row: Vec<Cell> = self.key.iter().map(|field| field.read(&key)).collect();
            row.extend(self.value.iter().map(|field| field.sum(&values)));
            rows.push(row);
        }
        rows.sort_unstable();
        Ok(rows)
    }

    /// The value of a key, or those of each CPU.
    fn values(&self, key: &[u8]) -> Result<Option<Vec<Vec<u8>>>, ObjectError> {
        let values = if is_per_cpu(self.map.map_type()) {
            self.map.lookup_percpu(key, MapFlags::ANY)
        } else {
            self.map.lookup(key, MapFlags::ANY).map(|value| value.map(|value| vec![value]))
        };
        values.map_err(|source| ObjectError::Read { map: self.name.clone(), source })
    }
}

fn is_per_cpu(of: MapType) -> bool {
    matches!(of, MapType::PercpuArray | MapType::PercpuHash | MapType::LruPercpuHash)
}

impl Field {
    fn read(&self, entry: &[u8]) -> Cell {
        let bytes = entry.get(self.start..self.start + self.bytes).unwrap_or_default();
        match self.kind {
            Kind::Text => {
                let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
                Cell::Text(String::from_utf8_lossy(&bytes[..end]).into_owned())
            }
            Kind::Bytes => Cell::Text(bytes.iter().fold(String::new(), |mut text, byte| {
                let _ = write!(text, "{byte:02x}");
                text
            })),
            Kind::Bool => Cell::Bool(bytes.iter().any(|byte| *byte != 0)),
            Kind::Unsigned => Cell::Unsigned(u64::from_ne_bytes(widened(bytes, 0))),
            Kind::Signed => {
                let is_negative = bytes.last().is_some_and(|byte| byte & 0x80 != 0);
                let fill = if is_negative { 0xff } else { 0 };
                Cell::Signed(i64::from_ne_bytes(widened(bytes, fill)))
            }
        }
    }

    /// The sum over CPUs, of which there may be one.
    fn sum(&self, values: &[Vec<u8>]) -> Cell {
        let cells = values.iter().map(|value| self.read(value));
        let add = |sum, cell| match (sum, cell) {
            (Cell::Unsigned(sum), Cell::Unsigned(one)) => Cell::Unsigned(sum.wrapping_add(one)),
            (Cell::Signed(sum), Cell::Signed(one)) => Cell::Signed(sum.wrapping_add(one)),
            (first, _) => first,
        };
        cells.reduce(add).unwrap_or_else(|| self.read(&[]))
    }
}

/// An integer of the program, which has the machine's order of bytes, as eight bytes.
fn widened(bytes: &[u8], fill: u8) -> [u8; 8] {
    let mut wide = [fill; 8];
    let start = if cfg!(target_endian = "big") { 8 - bytes.len() } else { 0 };
    wide[start..start + bytes.len()].copy_from_slice(bytes);
    wide
}

/// The fields of a type: those of a struct, or one that is called `alone`.
fn fields_of(btf: &Btf<'_>, id: u32, alone: &str) -> Option<Vec<Field>> {
    let of: BtfType<'_> = btf.type_by_id(TypeId::from(id))?;
    let of = of.skip_mods_and_typedefs();
    let Ok(composite) = Composite::try_from(of) else {
        return Some(vec![field(alone.to_owned(), of, 0)?]);
    };
    if !composite.is_struct {
        return None;
    }
    let member = |at| {
        let member = composite.get(at)?;
        let MemberAttr::Normal { offset } = member.attr else { return None };
        let name = member.name?.to_str()?.to_owned();
        let of: BtfType<'_> = btf.type_by_id(member.ty)?;
        let start = (offset % 8 == 0).then_some(offset as usize / 8)?;
        field(name, of.skip_mods_and_typedefs(), start)
    };
    (0..composite.len()).map(member).collect()
}

fn field(name: String, of: BtfType<'_>, start: usize) -> Option<Field> {
    let (kind, bytes) = if let Ok(array) = Array::try_from(of) {
        let one = array.contained_type().skip_mods_and_typedefs();
        let is_text = one.name() == Some(OsStr::new("char"));
        let one = Int::try_from(one).ok().filter(|one| one.bits == 8)?;
        let is_text = is_text || matches!(one.encoding, IntEncoding::Char);
        (if is_text { Kind::Text } else { Kind::Bytes }, array.capacity())
    } else {
        let int = Int::try_from(of).ok().filter(|int| matches!(int.bits, 8 | 16 | 32 | 64))?;
        let kind = match int.encoding {
            IntEncoding::Signed => Kind::Signed,
            IntEncoding::Bool => Kind::Bool,
            IntEncoding::None | IntEncoding::Char => Kind::Unsigned,
        };
        (kind, usize::from(int.bits / 8))
    };
    Some(Field { name, kind, start, bytes })
}
