use super::*;
use crate::{Cli, command_line};
use clap::{Arg, CommandFactory};
use options::{arguments, commands, name_of};
use ringside_testkit::fuzz;

fn cli() -> Command {
    let mut cli = Cli::command();
    cli.build();
    cli
}

/// The first problem of a text, as it is shown.
fn refused(text: &str) -> String {
    let problems = parse(text.as_bytes(), &cli()).err().expect(text);
    listed(Path::new("x"), &problems)
}

/// The command line that `given` becomes by a configuration.
fn merged(text: &str, given: &str) -> String {
    let cli = cli();
    let config = parse(text.as_bytes(), &cli);
    let config = config.unwrap_or_else(|problems| panic!("{}", listed(Path::new("x"), &problems)));
    let given: Vec<OsString> = given.split_whitespace().map(OsString::from).collect();
    let words = config.merged(&cli, &given);
    words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[test]
fn values_become_options() {
    for (text, given, line) in [
        ("[capture]\ninterface = 'eth1'", "capture", "capture --interface=eth1"),
        (
            "[capture]\nwrite = ['/a', '/b']\nqueues = 2\nno-index = true\ncount = false",
            "capture -i eth1",
            "capture --write=/a --write=/b --queues=2 --no-index -i eth1",
        ),
        ("[capture]\nv = 2\nsnaplen = 1_500", "capture", "capture -v -v --snaplen=1500 "),
        ("[capture]\nlimit-bytes = '5GB'\nwrite = 'd'", "read -r x", "read -r x"),
        ("[capture]\nfilter = 'tcp port 80'", "capture -c 5", "capture tcp port 80 -c 5"),
        ("[read]\nfilter = 'udp'", "read -r x", "read -r x -- udp"),
        ("[find]\ndedup = true\nread = 'd'", "find --count", "find --dedup --read=d --count"),
        ("[find]\ndedup = '5ms'\nread = 'd'", "find", "find --dedup=5ms --read=d"),
        ("[find]\nread = 'd'\nfrom = 2026-11-24T10:00:00Z", "find", "find --read=d --from=2026-"),
        ("[lab.up]\nqueues = 4", "lab up", "lab up --queues=4"),
        (
            "[drop]\ninterface = 'a'\n[drop.status]\njson = true",
            "drop status",
            "drop status --json",
        ),
        ("[capture]\ninterface = 'eth1'", "--help", "--help"),
        ("", "capture -i x", "capture -i x"),
    ] {
        let merged = merged(text, given) + " ";
        assert!(merged.starts_with(line), "{text}: {merged}");
    }
}

#[test]
fn the_command_line_wins() {
    let text = "[capture]\ninterface = ['eth1', 'eth2']\nwrite = '/data'\nlimit-bytes = '5GB'\n\
                queues = 2\nfilter = 'udp'";
    let all = "--interface=eth1 --interface=eth2 --write=/data --limit-bytes=5GB --queues=2 udp";
    for (given, line) in [
        ("capture", format!("capture {all}")),
        ("capture -i lo", format!("capture {} -i lo", &all[34..])),
        ("capture --queues=4", format!("capture {} --queues=4", all.replace(" --queues=2", ""))),
        ("capture tcp", format!("capture {} tcp", all.replace(" udp", ""))),
        // What excludes an option of the file leaves it out.
        ("capture -F /dev/null", format!("capture {} -F /dev/null", all.replace(" udp", ""))),
        // And what makes no sense without that.
        (
            "capture --count",
            format!("capture {} --count", all.replace(" --write=/data --limit-bytes=5GB", "")),
        ),
        ("capture -r x", "capture --write=/data --limit-bytes=5GB udp -r x".to_owned()),
    ] {
        assert_eq!(merged(text, given), line, "{given}");
    }
    assert_eq!(merged("[read]\nfilter = 'udp'", "read -r x -- tcp"), "read -r x -- tcp");
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    for (text, said) in [
        ("[captur]", "x:1:2: `captur` is no command of ringside; is `capture` meant?"),
        ("interface = 'a'", "x:1:1: `interface` is no command of ringside"),
        ("config = 'a'", "x:1:1: `config` is a command: its options stand in a table"),
        (
            "[capture]\n  ring_size = '1GiB'",
            "x:2:3: `ring_size` is no option of `ringside capture`; is `ring-size` meant?",
        ),
        ("[capture]\nring-size = 'big'", "x:2:13: ring-size: invalid value 'big' for"),
        ("[capture]\nqueues = 0", "x:2:10: queues: invalid value '0' for '--queues <N>'"),
        ("[capture]\nqueues = [1]", "x:2:10: queues: takes one value, not a list"),
        ("[capture]\nqueues = true", "x:2:10: queues: takes a text or a number, not true"),
        ("[capture]\nqueues = {}", "x:2:10: queues: takes a text or a number, not a table"),
        ("[capture]\nwrite = [[]]", "x:2:9: write: takes texts or numbers, not a list of"),
        ("[capture]\ncount = 1", "x:2:9: count: is true or false"),
        ("[capture]\nv = 99", "x:2:5: v: is a number from 0 to 16"),
        ("[capture]\nfanout = 'hush'", "x:2:10: fanout: invalid value 'hush' for"),
        (
            "[capture]\nwrite = 'a'\ncount = true",
            "x:3:1: the argument '--write <DIR|FILE|->' cannot be used with",
        ),
        ("[capture]\ncount = true\ncount = true", "x:3:1: duplicate key"),
        ("[capture]\nqueues = ", "x:2:1"),
        ("[capture", "x:1:9: "),
        ("[capture]\n\"a\\u001b[2J\" = 1", "x:2:1: `a\\u{1b}[2J` is no option of"),
        ("[lab]\nup = 1", "x:2:1: `up` is a command: its options stand in a table"),
    ] {
        let shown = refused(text);
        assert!(shown.starts_with(said), "{text}\n{shown}");
    }
    assert_eq!(
        listed(Path::new("x"), &parse(b"# \xff", &cli()).err().unwrap()),
        "x:1:3: not UTF-8"
    );
}

#[test]
fn problems_are_listed_in_order_and_bounded() {
    let shown = refused("[capture]\nyyy = 1\nzz = 1\n[serve]\nc = 1\n");
    let places: Vec<&str> = shown.lines().map(|line| line.split(": ").next().unwrap()).collect();
    assert_eq!(places, ["x:2:1", "x:3:1", "x:5:1"], "{shown}");
    let many: String = (0..5_000).map(|n| format!("key{n} = 1\n")).collect();
    assert_eq!(refused(&format!("[capture]\n{many}")).lines().count(), 20);
}

#[test]
fn a_file_that_is_none_or_too_long_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |path: &Path| format!("{:#}", read(path).unwrap_err());
    assert!(refused(folder.path()).ends_with("is no file"));
    assert!(refused(&folder.path().join("x")).contains("No such file"));
    let pipe = folder.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0)
        .unwrap();
    assert!(refused(&pipe).ends_with("is no file"));
    let long = folder.path().join("long");
    std::fs::write(&long, vec![b'#'; 1 + FILE_BYTES_MAX as usize]).unwrap();
    assert!(refused(&long).ends_with("is longer than 262144 bytes"));
    std::fs::write(&long, vec![b'#'; FILE_BYTES_MAX as usize]).unwrap();
    assert!(parse(&read(&long).unwrap(), &cli()).is_ok());
}

#[test]
fn the_file_is_named_in_front_of_the_command() {
    let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
    assert_eq!(named(&words("ringside --config f capture")), Some(("f".into(), 3)));
    assert_eq!(named(&words("ringside --config=f capture")), Some(("f".into(), 2)));
    for line in ["ringside", "ringside --config", "ringside read --config f", "ringside --configs"]
    {
        assert_eq!(named(&words(line)), None, "{line}");
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("f");
    std::fs::write(&file, "[capture]\ninterface = 'eth1'\n").unwrap();
    let line = words(&format!("ringside --config {} capture -c 1", file.display()));
    let line = with_file(line, Cli::command).unwrap();
    assert_eq!(line, words("ringside capture --interface=eth1 -c 1"));
}

/// Each command that takes options, with its names.
fn each_command(at: &Command, path: &[String], note: &mut impl FnMut(&Command, &[String])) {
    for below in commands(at) {
        let path = [path, &[below.get_name().to_owned()]].concat();
        note(below, &path);
        each_command(below, &path, note);
    }
}

#[test]
fn every_option_has_a_name_of_its_own_and_a_line_in_the_template() {
    let cli = cli();
    let mut count = 0;
    each_command(&cli, &[], &mut |command, path| {
        let names: Vec<String> = arguments(command).map(name_of).collect();
        let unique: BTreeSet<&String> = names.iter().collect();
        assert_eq!(unique.len(), names.len(), "{path:?}: {names:?}");
        let text = template(command, path);
        // With its comments taken away, nothing is unknown, only values are not yet right.
        let keys = text.lines().filter(|line| !line.starts_with("# "));
        let keys: Vec<&str> = keys.map(|line| line.strip_prefix('#').unwrap_or(line)).collect();
        let table: toml::Table = toml::from_str(&keys.join("\n")).expect(&text);
        let table = path.iter().fold(&table, |table, name| table[name].as_table().unwrap());
        let seen = arguments(command).filter(|arg| !arg.is_hide_set());
        let seen: BTreeSet<String> = seen.map(name_of).collect();
        assert_eq!(table.keys().cloned().collect::<BTreeSet<_>>(), seen, "{text}");
        count += table.len();
    });
    assert!(count > 300, "{count}");
}

#[test]
fn no_option_is_left_out() {
    // Words without an option whose meaning depends on the words before.
    let mut left = Vec::new();
    each_command(&cli(), &[], &mut |command, path| {
        let held: BTreeSet<String> = arguments(command).map(name_of).collect();
        let others = command.get_arguments().filter(|arg| !held.contains(&name_of(arg)));
        let others = others.map(Arg::get_id).map(clap::Id::as_str);
        left.extend(others.filter(|id| *id != "help").map(|id| format!("{} {id}", path.join(" "))));
    });
    assert_eq!(left, ["attach filter", "control order"]);
}

#[test]
fn the_documents_examples_are_right() {
    let text = include_str!("../../../../docs/config.md");
    let fences = || text.split("```").skip(1).step_by(2);
    let files: Vec<&str> = fences().filter_map(|fence| fence.strip_prefix("toml\n")).collect();
    assert!(!files.is_empty());
    for file in files {
        let problems = parse(file.as_bytes(), &cli()).err().unwrap_or_default();
        assert!(problems.is_empty(), "{}", listed(Path::new("config.md"), &problems));
    }
    let lines = fences().filter_map(|fence| fence.strip_prefix("sh\n")).flat_map(str::lines);
    let parsed: Vec<_> = lines.filter_map(command_line::parsed).collect();
    assert!(parsed.len() >= 4 && parsed.iter().all(Result::is_ok), "{parsed:?}");
}

#[test]
fn hostile_files_are_refused_or_become_words_that_are_parsed() {
    let cli = cli();
    let seeds: Vec<Vec<u8>> = [
        "[capture]\ninterface = ['eth1']\nwrite = ['/a', '/b']\nqueues = 2\nv = 3\n",
        "[capture]\nlimit-bytes = '5GB'\nwrite = 'd'\non = 'icmp'\nbefore = '3s'\nfilter = 'udp'\n",
        "[find]\nread = ['d']\nfrom = 2026-11-24T10:00:00Z\ndedup = true\n[serve]\nlisten = 'a'\n",
        "[calls]\nread = 'x'\naudio = ['a', 'b']\n[lab.up]\nqueues = 4\n[lab.send]\nrate = 1.5\n",
        "capture.count = true\nserve = { host = ['a', \"\\u001b\"], openapi = false }\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into();
    fuzz("config-file", 100, &seeds, |bytes| match parse(bytes, &cli) {
        Err(problems) => {
            assert!(!problems.is_empty() && problems.len() <= 20);
            assert!(problems.iter().all(|one| !one.text.contains(char::is_control)));
        }
        Ok(config) => {
            for section in &config.sections {
                let given: Vec<OsString> = section.path.iter().map(OsString::from).collect();
                let words = config.merged(&cli, &given);
                assert!(words.starts_with(&given));
                let parsed = cli.clone().try_get_matches_from(options::behind_name(&words));
                let missing = missing(&cli, section);
                assert!(parsed.is_ok() || !missing.is_empty(), "{words:?}");
            }
        }
    });
}
