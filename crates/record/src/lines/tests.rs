use super::*;
use crate::object;
use serde_json::json;

struct Probe(Option<&'static str>, u64);

const NAME: crate::Field<Probe> = crate::Field::new(Kind::Text, |row| row.record.0.into());
const SEEN: crate::Field<Probe> = crate::Field::new(Kind::Time, |row| row.record.1.into());
const TOOK: crate::Field<Probe> = crate::Field::new(Kind::Duration, |row| row.record.1.into());

impl Record for Probe {
    const LOG: &'static str = "probe";

    fn columns(names: Names) -> &'static [Column<Probe>] {
        const OURS: &[Column<Probe>] =
            &[NAME.called("a.name"), SEEN.called("a.seen"), TOOK.called("took")];
        const ZEEK: &[Column<Probe>] = &[
            SEEN.called("ts"),
            NAME.called("name"),
            TOOK.called("took"),
            Column::new("tags", Kind::List, |_| json!(["x,y", "z"])),
            Column::new("is_on", Kind::Bool, |_| true.into()),
        ];
        if names == Names::Zeek { ZEEK } else { OURS }
    }
}

fn line(format: LineFormat, names: Names, record: &Probe) -> String {
    let mut out = Vec::new();
    LineWriter::new(format, names).write(&row(record), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn row(record: &Probe) -> Row<'_, Probe> {
    Row { record, interface: "" }
}

#[test]
fn a_kind_decides_how_each_scheme_writes_it() {
    let probe = Probe(Some("n"), 1_700_000_000_123_456_789);
    let of = |names| object(names, &row(&probe));
    let ns = 1_700_000_000_123_456_789_u64;
    assert_eq!(of(Names::Ringside), json!({ "a.name": "n", "a.seen": ns, "took": ns }));
    let text = "2023-11-14T22:13:20.123456+0000";
    assert_eq!(of(Names::Eve), json!({ "a": { "name": "n", "seen": text }, "took": ns }));
    let text = "2023-11-14T22:13:20.123456789Z";
    assert_eq!(of(Names::Ecs), json!({ "a": { "name": "n", "seen": text }, "took": ns }));
    let seconds = 1_700_000_000.123_456;
    assert_eq!(of(Names::Otel), json!({ "a.name": "n", "a.seen": ns, "took": seconds }));
}

#[test]
fn zeek_reads_its_own_logs() {
    let text = line(LineFormat::Zeek, Names::Ringside, &Probe(Some("a\tb\\"), 1_500_000_000));
    let expected = "#separator \\x09\n#set_separator\t,\n#empty_field\t(empty)\n#unset_field\t-\n\
        #path\tprobe\n#fields\tts\tname\ttook\ttags\tis_on\n\
        #types\ttime\tstring\tinterval\tset[string]\tbool\n\
        1.500000\ta\\x09b\\\\\t1.500000\tx\\x2cy,z\tT\n";
    assert_eq!(text, expected);
    for (name, cell) in [(None, "-"), (Some("-"), "\\x2d"), (Some(""), "(empty)")] {
        let text = line(LineFormat::Zeek, Names::Zeek, &Probe(name, 0));
        assert_eq!(text.lines().last().unwrap().split('\t').nth(1), Some(cell));
    }
}

#[test]
fn no_control_character_reaches_a_terminal() {
    let probe = Probe(Some("\x1b[31m\u{9b}31m\u{7f}\r\n\\é"), 7);
    for names in [Names::Ringside, Names::Ecs] {
        let json = line(LineFormat::Json, names, &probe);
        assert!(json.contains(r#""\u001b[31m\u009b31m\u007f\r\n\\é""#), "{json}");
        assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), object(names, &row(&probe)));
    }
    let csv = line(LineFormat::Csv, Names::Ringside, &probe);
    assert_eq!(csv.lines().last(), Some(r"\x1b[31m\xc2\x9b31m\x7f\x0d\x0a\é,7,7"));
}

#[test]
fn names_stand_above_the_first_line_of_each_file() {
    let (mut out, probe) = (Vec::new(), Probe(Some("a,\"b"), 7));
    let mut lines = LineWriter::new(LineFormat::Csv, Names::Ringside);
    let row = row(&probe);
    lines.write(&row, &mut out).unwrap();
    lines.write(&row, &mut out).unwrap();
    lines.set_begun(false);
    lines.write(&row, &mut out).unwrap();
    let (head, line) = ("a.name,a.seen,took\n", "\"a,\"\"b\",7,7\n");
    assert_eq!(String::from_utf8(out).unwrap(), [head, line, line, head, line].concat());
    assert!("arkime".parse::<Names>().is_err());
}
