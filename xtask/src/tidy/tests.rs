//! Each rule on small houses in memory: one that breaks it, one that keeps it.

use super::{Dependency, House, Package, Tree, judge};

/// Files that every house here needs, so that only the rule under test can fail.
const BASE: [(&str, &str); 4] = [
    ("docs/ARCHITECTURE.md", "`core` `wire` `sys` `filter` `lab` `testkit` `xtask` `novel`\n"),
    ("docs/DEPENDENCIES.md", ""),
    ("crates/core/src/lib.rs", GOOD_ROOT),
    ("crates/sys/src/lib.rs", "//! What.\n//! Why.\n//! What not.\n"),
];
const GOOD_ROOT: &str = "#![forbid(unsafe_code)]\n//! What.\n//! Why.\n//! What not.\n";

fn package(name: &str, dependencies: &[(&str, bool, bool)]) -> Package {
    let folder = format!("crates/{}", name.trim_start_matches("ringside-"));
    let dependency = |&(name, ours, for_tests): &(&str, bool, bool)| Dependency {
        name: name.to_owned(),
        ours,
        for_tests,
    };
    Package {
        name: name.to_owned(),
        manifest: format!("{folder}/Cargo.toml"),
        roots: vec![format!("{folder}/src/lib.rs")],
        dependencies: dependencies.iter().map(dependency).collect(),
    }
}

/// What is found in the base house with `files` put in, in place of those with the same path.
fn found(files: &[(&str, &str)], packages: Vec<Package>) -> Vec<String> {
    let base = BASE.iter().filter(|(path, _)| files.iter().all(|(other, _)| other != path));
    let files: Vec<(&str, &str)> = base.chain(files).copied().collect();
    let house = House { tree: Tree::of(&files), packages };
    judge(&house).iter().map(ToString::to_string).collect()
}

/// `files` keep every rule.
#[track_caller]
fn good(files: &[(&str, &str)]) {
    assert_eq!(found(files, vec![package("ringside-core", &[])]), Vec::<String>::new());
}

/// `files` give exactly one finding, at `place`, with `part` in it.
#[track_caller]
fn bad(files: &[(&str, &str)], place: &str, part: &str) {
    one(&found(files, vec![package("ringside-core", &[])]), place, part);
}

#[track_caller]
fn one(findings: &[String], place: &str, part: &str) {
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(findings[0].starts_with(&format!("{place}: ")), "{findings:?}");
    assert!(findings[0].contains(part), "{findings:?}");
}

fn edges(name: &str, dependencies: &[(&str, bool, bool)]) -> Vec<String> {
    let manifest = format!("crates/{}/Cargo.toml", name.trim_start_matches("ringside-"));
    let lines: Vec<String> = dependencies.iter().map(|(name, ..)| format!("{name}.x\n")).collect();
    let text = format!("[dependencies]\n{}", lines.concat());
    found(&[(&manifest, &text)], vec![package(name, dependencies)])
}

#[test]
fn the_base_house_is_clean() {
    good(&[]);
}

#[test]
fn a_crate_depends_on_lower_floors_only() {
    let clean = Vec::<String>::new();
    assert_eq!(edges("ringside-lab", &[("ringside-transmit", true, false)]), clean);
    assert_eq!(edges("ringside-wire", &[("ringside-testkit", true, true)]), clean);
    assert_eq!(edges("xtask", &[("ringside-testkit", true, false)]), clean);
    let place = "crates/wire/Cargo.toml:2";
    one(&edges("ringside-wire", &[("ringside-sys", true, false)]), place, "floor 1) depends on");
    one(&edges("ringside-wire", &[("ringside-lab", true, true)]), place, "(floor 5)");
    one(&edges("ringside-wire", &[("ringside-testkit", true, false)]), place, "dev-dependencies");
    one(&edges("ringside-wire", &[("xtask", true, false)]), place, "no floor");
    one(&edges("ringside-novel", &[]), "crates/novel/Cargo.toml:1", "FLOORS");
    let place = "crates/testkit/Cargo.toml:2";
    one(&edges("ringside-testkit", &[("ringside-core", true, false)]), place, "outside");
}

#[test]
fn the_oldest_rust_version_is_one() {
    let house = |readme, deps, channel| {
        let readme =
            format!("On a Debian 12 machine with [Rust](https://rustup.rs) {readme} or newer\n");
        let channel = format!("[toolchain]\nchannel = \"{channel}\"\n");
        let files = [
            ("Cargo.toml", "[workspace.package]\nrust-version = \"1.91\"\n"),
            ("README.md", readme.as_str()),
            ("scripts/deps", deps),
            ("rust-toolchain.toml", channel.as_str()),
        ];
        found(&files, vec![package("ringside-core", &[])])
    };
    let deps = "needed=$(sed -n 's/^rust-version = x/p' Cargo.toml)\n";
    assert_eq!(house("1.91", deps, "1.100.0"), Vec::<String>::new());
    one(&house("1.88", deps, "1.95.0"), "README.md:1", "Cargo.toml says 1.91");
    one(&house("1.91", "needed=1.91\n", "1.95.0"), "scripts/deps:1", "oldest Rust version");
    one(&house("1.91", deps, "1.90.0"), "rust-toolchain.toml:2", "older than 1.91");
}

#[test]
fn a_file_and_a_function_have_a_length() {
    let path = "crates/core/src/a.rs";
    let lines = |count: usize| "const A: u8 = 0;\n\n// why\n".repeat(count);
    good(&[(path, &lines(500))]);
    bad(&[(path, &lines(501))], "crates/core/src/a.rs:1", "501 lines of 500");
    good(&[("crates/core/src/a/tests.rs", &lines(700))]);
    bad(&[("crates/core/tests/b.rs", &lines(701))], "crates/core/tests/b.rs:1", "of 700");
    let function = |count: usize| format!("\n/// A.\nfn f() {{\n{}}}\n", "a();\n".repeat(count));
    good(&[(path, &function(68))]);
    bad(&[(path, &function(69))], "crates/core/src/a.rs:3", "a.rs:f has 71 lines of 70");
    good(&[(path, &format!("#[cfg(test)]\nmod tests {{\n{}}}", function(98)))]);
    let long = format!("impl A {{\n#[test]{}}}", function(99));
    bad(&[(path, &long)], "crates/core/src/a.rs:4", "of 100");
    let c = |count: usize| {
        let body = "\ta();\n".repeat(count);
        format!("// SPDX-License-Identifier: GPL-2.0\nstatic int *f(void)\n{{\n{body}}}\n")
    };
    good(&[("bpf/a.bpf.c", &c(68))]);
    bad(&[("bpf/a.bpf.c", &c(69))], "bpf/a.bpf.c:3", "bpf/a.bpf.c:f has 71");
}

#[test]
fn an_exception_may_only_shrink() {
    let path = "crates/core/src/a.rs";
    let text = "const A: u8 = 0;\n".repeat(501);
    let with = |line: &'static str| [(path, text.as_str()), ("xtask/ratchet.txt", line)];
    good(&with("# why\nfile crates/core/src/a.rs 501 a table\n"));
    bad(&with("file crates/core/src/a.rs 500 a table"), "crates/core/src/a.rs:1", "grew from 500");
    bad(&with("file crates/core/src/a.rs 502 a table"), "xtask/ratchet.txt:1", "shrank to 501");
    let gone = [("xtask/ratchet.txt", "file crates/core/src/lib.rs 501 gone")];
    bad(&gone, "xtask/ratchet.txt:1", "needs no exception");
    let bare = [("xtask/ratchet.txt", "file crates/core/src/lib.rs 501")];
    bad(&bare, "xtask/ratchet.txt:1", "REASON");
}

#[test]
fn lines_have_100_columns() {
    let path = "crates/core/src/a.rs";
    good(&[(path, &format!("// {}", "é".repeat(97)))]);
    bad(&[(path, &format!("\n// {}", "é".repeat(98)))], "crates/core/src/a.rs:2", "101 columns");
    let tabs = format!("// SPDX-License-Identifier: GPL-2.0\n{}", "\t".repeat(13));
    bad(&[("bpf/abi.h", &tabs)], "bpf/abi.h:2", "104 columns");
}

#[test]
fn rooms_of_a_crate_do_not_import_each_other_in_a_circle() {
    let [a, b, c] = ["a", "b", "c"].map(|room| format!("crates/core/src/{room}.rs"));
    let inner = "crates/core/src/b/inner.rs";
    good(&[(&a, "use crate::b::B;\nuse crate::c;"), (&b, "use crate::c::{C, D};"), (&c, "")]);
    let circle = [(&*a, "use crate::b::B;"), (&*b, "mod inner;"), (inner, "use crate::{c, E};")];
    good(&circle);
    let with = |text| [circle[0], circle[1], circle[2], (&*c, text)];
    let said = "a, b, c import each other in a circle";
    bad(&with("fn f() -> crate::a::A {\n    crate::a::A\n}"), "crates/core/src/a.rs:1", said);
    bad(&with("use crate::{E, a::A};"), "crates/core/src/a.rs:1", said);
    good(&with("// use crate::a::A;\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}"));
    good(&with("use crate::c::C;\nuse a::crate_::A;"));
    // Who stands on a circle, or under it, is not in it.
    let [below, above] = ["d", "e"].map(|room| format!("crates/core/src/{room}.rs"));
    let all = [(&*a, "use crate::{b::B, d};"), (&*b, "use crate::a::A;"), (&*below, "")];
    let said = "1: a, b import each other";
    bad(&[all[0], all[1], all[2], (&*above, "use crate::a::A;")], "crates/core/src/a.rs:1", said);
    // As far up as the root, and no less.
    let up = |text| [circle[0], (&*b, "use super::c::C;"), (&*c, ""), (inner, text)];
    let said = "a, b import each other";
    bad(&up("use super::super::a::A;"), "crates/core/src/a.rs:1", said);
    bad(&up("use super::super::{E, a::A};"), "crates/core/src/a.rs:1", said);
    good(&up("use super::a::A;"));
}

#[test]
fn unsafe_lives_in_sys_with_a_reason() {
    let (core, sys) = ("crates/core/src/a.rs", "crates/sys/src/a.rs");
    good(&[(
        core,
        "// unsafe { in words }\nconst A: &str = \"unsafe {\";\ntype F = unsafe fn(u8);",
    )]);
    bad(&[(core, "fn f() {\n    unsafe { g() }\n}")], "crates/core/src/a.rs:2", "outside");
    bad(&[(core, "fn f() {\n    h!(unsafe { g() })\n}")], "crates/core/src/a.rs:2", "outside");
    let place = "crates/sys/src/a.rs:2";
    good(&[(sys, "fn f() {\n    // SAFETY: g is fine.\n    let a =\n        unsafe { g() };\n}")]);
    bad(&[(sys, "fn f() {\n    unsafe { g() }\n}")], place, "without a reason");
    let far = "fn f() {\n// SAFETY: g is fine.\nlet a = 1;\nunsafe { g() }\n}";
    bad(&[(sys, far)], "crates/sys/src/a.rs:4", "without a reason");
    good(&[(sys, "/// F.\n///\n/// # Safety\n/// Call it once.\n#[inline]\npub unsafe fn f() {}")]);
    bad(&[(sys, "/// F.\npub unsafe fn f() {}")], place, "# Safety");
    good(&[(sys, "// SAFETY: it owns its memory.\nunsafe impl Send for A {}")]);
    bad(&[(sys, "\nunsafe impl Send for A {}")], place, "SAFETY");
    good(&[(sys, "struct A(Option<unsafe extern \"C\" fn(u8)>);")]);
}

#[test]
fn a_crate_whose_interface_is_c_may_be_unsafe_with_a_reason() {
    let pointer = "// SAFETY: the caller's promise.\nunsafe impl Send for A {}";
    good(&[("crates/client-c/src/a.rs", pointer)]);
    let place = "crates/client-c/src/a.rs:2";
    bad(&[("crates/client-c/src/a.rs", "\nunsafe impl Send for A {}")], place, "SAFETY");
    for other in ["client", "client-cc", "capture-c", "client/client-c"] {
        let path = format!("crates/{other}/src/a.rs");
        bad(&[(&path, pointer)], &format!("{path}:2"), "outside");
    }
}

#[test]
fn every_root_forbids_unsafe_but_that_of_sys() {
    let text = "//! What.\n//! Why.\n//! What not.\n";
    bad(&[("crates/core/src/lib.rs", text)], "crates/core/src/lib.rs:1", "forbid(unsafe_code)");
    assert!(found(&[], vec![package("ringside-sys", &[])]).is_empty());
    let root = |name: &str| {
        let files = [
            ("docs/ARCHITECTURE.md", "`client` `client-c`\n"),
            (&format!("crates/{name}/src/lib.rs"), text),
        ];
        found(&files, vec![package(&format!("ringside-{name}"), &[])])
    };
    one(&root("client"), "crates/client/src/lib.rs:1", "forbid(unsafe_code)");
    assert_eq!(root("client-c"), Vec::<String>::new());
}

#[test]
fn a_library_opens_with_its_contract() {
    let text = "#![forbid(unsafe_code)]\n//! Placeholder.\npub mod a;\n";
    bad(&[("crates/core/src/lib.rs", text)], "crates/core/src/lib.rs:1", "no contract");
}

#[test]
fn nothing_is_left_for_later() {
    let path = "crates/core/src/a.rs";
    // Built here, so that this file keeps the rule itself.
    let reminder = ["TO", "DO"].concat();
    bad(&[(path, &format!("\n// {reminder}: more"))], "crates/core/src/a.rs:2", &reminder);
    bad(&[("Makefile", &format!("# {reminder}"))], "Makefile:1", &reminder);
    good(&[(path, &format!("// MY{reminder}S and {}", ["XX", "XXXX"].concat()))]);
    good(&[("docs/STYLE.md", &format!("No {reminder}."))]);
    bad(&[(path, "fn f() {\n    todo!()\n}")], "crates/core/src/a.rs:2", "todo!");
    bad(&[(path, "fn f() {\n    g(dbg!(1))\n}")], "crates/core/src/a.rs:2", "dbg!");
    bad(&[(path, "#[test]\n#[ignore = \"slow\"]\nfn f() {}")], "crates/core/src/a.rs:2", "skip");
    good(&[(path, "/// Says todo!() and #[ignore].\n#[doc(hidden)]\nfn ignore() {}")]);
}

#[test]
fn comments_use_the_words_of_the_field() {
    let told = "const A: u8 = 0;\n// The kernel is told.\n";
    bad(&[("crates/store/src/a.rs", told)], "crates/store/src/a.rs:2", "told; write \"reported\"");
    good(&[("crates/store/src/a.rs", "// The kernel gets it.\nconst TOLD: &str = \"told\";\n")]);
}

#[test]
fn unwrap_is_for_tests() {
    let path = "crates/core/src/a.rs";
    let call = "fn f() {\n    a.unwrap();\n}";
    bad(&[(path, call)], "crates/core/src/a.rs:2", "unwrap");
    bad(&[(path, &format!("#[cfg(not(test))]\nmod a {{{call}}}"))], "crates/core/src/a.rs:3", "");
    good(&[(path, "/// `a.unwrap()`\nfn f() {\n    a.unwrap_or(1);\n}")]);
    good(&[(path, &format!("#[test]\n{call}"))]);
    good(&[(path, &format!("#[cfg(all(test, loom))]\nmod a {{\n{call}\n}}"))]);
    good(&[(path, &format!("#[cfg(all(test, not(loom)))]\nmod a {{\n{call}\n}}"))]);
    let sometimes = format!("#[cfg(any(test, loom))]\nmod a {{{call}}}");
    bad(&[(path, &sometimes)], "crates/core/src/a.rs:3", "unwrap");
    good(&[(path, "#[cfg(test)]\nmod model;\n"), ("crates/core/src/a/model.rs", call)]);
    good(&[("crates/core/tests/a.rs", call)]);
}

#[test]
fn no_path_of_one_machine_is_written_down() {
    let path = ["/wo", "rk/main"].concat();
    bad(&[("docs/A.md", &format!("in `{path}`"))], "docs/A.md:1", "one machine");
    bad(&[("a.json", &["\"/ro", "ot/x\""].concat())], "a.json:1", "one machine");
    good(&[("docs/A.md", &format!("$HOME{path}, /proc/1{}", ["/ro", "ot/"].concat()))]);
}

#[test]
fn links_lead_somewhere() {
    let to = |target: &str| format!("# A `b`, c\n[x]({target})\n");
    let document = "docs/A.md";
    for target in ["A.md", "../docs/A.md", "#a-b-c", "A.md#a-b-c", "../crates/", "https://x.y/z"] {
        good(&[(document, &to(target))]);
    }
    bad(&[(document, &to("B.md"))], "docs/A.md:2", "docs/B.md, which does not exist");
    bad(&[(document, &to("../../b/c.md"))], "docs/A.md:2", "leaves the project");
    bad(&[(document, &to("#d"))], "docs/A.md:2", "no heading #d");
    bad(&[("README.md", "[x]: docs/B.md\n")], "README.md:1", "docs/B.md");
    good(&[(document, "```\n[x](B.md)\n```\nand `[x](B.md)`\n")]);
    bad(&[("crates/core/src/a.rs", "// See docs/B.md.\n")], "crates/core/src/a.rs:1", "docs/B.md");
    good(&[("crates/core/src/a.rs", "// See docs/ARCHITECTURE.md.\n")]);
}

#[test]
fn links_of_all_documents_are_checked() {
    bad(&[("bench/README.md", "[x](../docs/B.md)\n")], "bench/README.md:1", "docs/B.md");
}

#[test]
fn the_book_names_every_document_once() {
    let base = "[a](docs/ARCHITECTURE.md)\n- [`d`](docs/DEPENDENCIES.md)\n";
    let with = |line: &str, files: &[(&str, &str)]| {
        let summary = format!("# Book\n{base}{line}");
        let all = [&[("SUMMARY.md", summary.as_str()), ("book.toml", "")], files].concat();
        found(&all, vec![package("ringside-core", &[])])
    };
    let page = ("docs/A.md", "# A\n");
    assert_eq!(with("    - [a](docs/A.md)\n", &[page]), Vec::<String>::new());
    one(&with("", &[page]), "SUMMARY.md:1", "does not name docs/A.md");
    one(&with("", &[("bench/README.md", "")]), "SUMMARY.md:1", "does not name bench/README.md");
    one(&with("[a](docs/A.md)\n", &[]), "SUMMARY.md:4", "docs/A.md, which does not exist");
    let again = "[a](docs/A.md)\n[b](docs/../docs/A.md)\n";
    one(&with(again, &[page]), "SUMMARY.md:5", "a page already, by line 4");
    let other = "[a](docs/A.md)\n[b](docs/A.md#a)\n";
    one(&with(other, &[page]), "SUMMARY.md:5", "docs/A.md#a is no page");
    one(&with("[c](crates/core/src/lib.rs)\n", &[]), "SUMMARY.md:4", "is no page");
    bad(&[("book.toml", "")], "book.toml:1", "without SUMMARY.md");
}

#[test]
fn the_site_has_the_pages_and_what_they_link_to() {
    let files = [
        ("SUMMARY.md", "[a](docs/A.md)\n"),
        ("docs/A.md", "[b](B.md) ![p](p.png) [c](../a.rs#l) [d](../src) [e](https://x.y)\n"),
        ("docs/B.md", ""),
        ("docs/p.png", ""),
        ("a.rs", ""),
        ("b.rs", ""),
        ("src/c.rs", ""),
    ];
    let site: Vec<String> = super::site(&Tree::of(&files)).into_iter().collect();
    assert_eq!(site, ["SUMMARY.md", "a.rs", "docs/A.md", "docs/B.md", "docs/p.png"]);
}

#[test]
fn the_map_names_every_crate() {
    let map = [("docs/ARCHITECTURE.md", "`wire` and score/\n")];
    bad(&map, "docs/ARCHITECTURE.md:1", "crates/core");
    good(&[("docs/ARCHITECTURE.md", "```\n  core/   floor 0\n```\n")]);
    good(&[("docs/ARCHITECTURE.md", "[core](../crates/core)\n")]);
}

#[test]
fn every_dependency_has_its_reason() {
    let packages = || vec![package("ringside-core", &[("serde", false, false)])];
    let doc = |text| [("docs/DEPENDENCIES.md", text)];
    assert!(found(&doc("| `serde` | derives |\n"), packages()).is_empty());
    let place = "docs/DEPENDENCIES.md:1";
    one(&found(&doc("serde\n"), packages()), place, "no reason for serde");
    one(&found(&doc("| `serde` |  |\n"), packages()), place, "no reason for serde");
    let two = "| `serde` | derives |\n| `gone` | was good |\n";
    one(&found(&doc(two), packages()), "docs/DEPENDENCIES.md:2", "nothing uses gone");
    let root = ("Cargo.toml", "[workspace.dependencies]\nunused = \"1\"\n\n[profile.dev]\n");
    let files = [root, ("docs/DEPENDENCIES.md", "| `unused` | why |\n")];
    one(&found(&files, vec![package("ringside-core", &[])]), "Cargo.toml:2", "no crate uses");
    let deps = ("scripts/deps", "packages='\nclang\n'\n");
    good(&[deps, ("docs/DEPENDENCIES.md", "| `clang` | compiles bpf |\n")]);
    bad(&[deps], place, "no reason for clang");
    let two = ("scripts/deps", "packages='\nclang\n'\nmore_packages='\nfio\n'\n");
    let reason = ("docs/DEPENDENCIES.md", "| `clang` | compiles bpf |\n");
    bad(&[two, reason], place, "no reason for fio");
}

#[test]
fn bpf_programs_share_structs_in_abi_h_only() {
    let spdx = "// SPDX-License-Identifier: GPL-2.0\n";
    let file = |text: &str| format!("{spdx}{text}");
    let map = "struct {\n\t__type(value, struct count);\n} counts SEC(\".maps\");\n";
    let kernel = "struct sk_buff {\n\tint len;\n};\nstatic int f(struct sk_buff *skb);\n";
    good(&[("bpf/a.bpf.c", &file(&format!("{kernel}{map}")))]);
    good(&[("bpf/abi.h", &file("struct count {\n\tint n;\n};\n"))]);
    let own = file(&format!("struct count {{\n\tint n;\n}};\n{map}"));
    bad(&[("bpf/a.bpf.c", &own)], "bpf/a.bpf.c:2", "struct count is shared");
    let global = file("struct setup {\n\tint n;\n};\nconst volatile struct setup setup;\n");
    bad(&[("bpf/a.bpf.c", &global)], "bpf/a.bpf.c:2", "struct setup is shared");
    bad(&[("bpf/a.bpf.c", "int a;\n")], "bpf/a.bpf.c:1", "SPDX");
}

#[test]
fn what_is_no_rust_is_said() {
    bad(&[("crates/core/src/a.rs", "\nfn f( {}")], "crates/core/src/a.rs:2", "no Rust");
}
