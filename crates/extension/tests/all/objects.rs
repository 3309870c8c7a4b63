//! eBPF objects: the example next to the module that does the same, what is refused, and what
//! gives up.

use crate::support::{Kept, guest, see, udp};
use ringside_extension::limits::{FAULTS_MAX, OBJECT_PACKET_BYTES_MAX};
use ringside_extension::{ExtensionObserver, Fault};
use ringside_inspect::Observer;
use ringside_logs::Watched;
use ringside_testkit::{need_root, need_tool};
use std::path::Path;
use std::process::Command;

/// True if objects can be compiled and loaded here.
pub fn can_run(test: &str) -> bool {
    need_root(test) && need_tool(test, "clang")
}

/// A source, compiled.
pub fn compiled(source: &Path) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let object = folder.path().join("extension.o");
    let mut command = Command::new("clang");
    command.args(["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall", "-Werror", "-c"]);
    command.arg("-I").arg(guest("")).arg(source).arg("-o").arg(&object);
    assert!(command.status().unwrap().success(), "{}", source.display());
    std::fs::read(object).unwrap()
}

/// An object with these definitions in front of a program that does this.
fn object(more: &str, program: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("test.bpf.c");
    let text = format!(
        "#include \"ringside_bpf.h\"\n{more}\n\
         SEC(\"xdp\") int ringside_packet(struct xdp_md *ctx)\n{{\n{program}\n}}\n"
    );
    std::fs::write(&source, text).unwrap();
    compiled(&source)
}

/// A table of the given type and size.
fn table(name: &str, of: &str, entries: u32, key: &str, value: &str) -> String {
    format!(
        "struct {{ __uint(type, {of}); __uint(max_entries, {entries}); __type(key, {key}); \
         __type(value, {value}); }} {name} SEC(\".maps\");\n"
    )
}

fn opened(elf: &[u8]) -> (ExtensionObserver, Kept) {
    let kept = Kept::default();
    let observer = ExtensionObserver::new("test", elf, kept.sinks());
    (observer.unwrap_or_else(|error| panic!("{error}")), kept)
}

fn refusal(elf: &[u8]) -> String {
    match ExtensionObserver::new("test", elf, Kept::default().sinks()) {
        Ok(_) => panic!("it was taken"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn tables_are_records_in_the_order_of_their_keys() {
    if !can_run("tables_are_records_in_the_order_of_their_keys") {
        return;
    }
    let key = "struct key { __u8 mac[6]; char name[4]; _Bool is_long; };";
    let value = "struct value { __u64 packets; short last; int less; };";
    let more = format!(
        "{key} {value} {}{}{}{}",
        table("one", "BPF_MAP_TYPE_HASH", 100, "struct key", "struct value"),
        table("two", "BPF_MAP_TYPE_PERCPU_ARRAY", 10, "__u32", "__u64"),
        table("three", "BPF_MAP_TYPE_ARRAY", 10, "__u32", "int"),
        table("_scratch", "BPF_MAP_TYPE_HASH", 10, "__u64", "struct { void *any; }"),
    );
    let program = r#"
        static __u64 seen; /* a variable, which is a map without records */
        const struct ringside_packet *packet = ringside_packet_of(ctx);
        struct key key = { .mac = { 1, 2, 3, 4, 0xab, 0xcd }, .name = "abcd" };
        __u32 seven = 7; __u64 *sum = bpf_map_lookup_elem(&two, &seven);
        int minus = -5;

        if (!packet || !sum) return XDP_ABORTED;
        *sum += packet->payload_bytes; seen++;
        key.is_long = packet->payload_bytes > 4;
        struct value value = { .packets = seen, .last = -1, .less = -(int)packet->bytes };
        bpf_map_update_elem(&one, &key, &value, BPF_ANY);
        bpf_map_update_elem(&three, &seven, &minus, BPF_ANY);
        return XDP_PASS;"#;
    let (mut observer, kept) = opened(&object(&more, program));
    for (stamp, payload) in [(1, b"longer".as_slice()), (2, b"a"), (3, b"b")] {
        see(&mut observer, &udp(69, payload), stamp);
    }
    observer.finish();
    assert!(observer.balances() && observer.first_fault().is_none());
    let row = r#"{"is_long":LONG,"last":-1,"less":LESS,"mac":"01020304abcd","name":"abcd","#;
    let row = |long: &str, less: &str, packets: u32| {
        let row = row.replace("LONG", long).replace("LESS", less);
        format!("{row}\"packets\":{packets},\"table\":\"one\"}}")
    };
    let expected = [
        row("false", "-43", 3),
        row("true", "-48", 1),
        r#"{"key":7,"table":"three","value":-5}"#.to_owned(),
        r#"{"key":7,"table":"two","value":8}"#.to_owned(),
    ];
    assert_eq!(kept.fields(), expected);
    assert_eq!(kept.0.lock().unwrap()[0].time_ns, 3);
}

#[test]
fn a_packet_has_its_head_in_front() {
    if !can_run("a_packet_has_its_head_in_front") {
        return;
    }
    let program = r#"
        const struct ringside_packet *packet = ringside_packet_of(ctx);
        const __u8 *payload;

        if (!packet || packet->time_ns != 77 || packet->link_type != 1 || packet->interface)
            return XDP_ABORTED;
        if (packet->protocol == 17 && packet->network == 14 && packet->transport == 34 &&
            packet->payload == 42 && packet->payload_bytes == 2 && packet->wire_bytes == 44)
            return (payload = ringside_at(ctx, packet->payload, 2)) && payload[1] == 'i'
                ? XDP_PASS : XDP_ABORTED;
        if (packet->network != RINGSIDE_NONE || packet->transport != RINGSIDE_NONE)
            return XDP_ABORTED;
        if (packet->bytes == 3 && packet->wire_bytes == 3 && ringside_at(ctx, 0, 14))
            return XDP_PASS;
        return packet->bytes == RINGSIDE_PACKET_BYTES_MAX && packet->wire_bytes == 9000
            ? XDP_PASS : XDP_ABORTED;"#;
    let (mut observer, _) = opened(&object("", program));
    for frame in [&udp(69, b"hi")[..], &[7; 3], &[7; 9_000]] {
        see(&mut observer, frame, 77);
    }
    let ledger = observer.ledger();
    assert_eq!((ledger.analyzed, ledger.cut), (3, 1), "{:?}", observer.first_fault());
    const { assert!(OBJECT_PACKET_BYTES_MAX == 3_072) };
    // One that gives up loses the packet; after a hundred it is stopped.
    for _ in 0..FAULTS_MAX + 20 {
        see(&mut observer, &[7; 60], 77);
        assert!(observer.balances());
    }
    let ledger = observer.ledger();
    assert_eq!((ledger.faults[Fault::Trapped.index()], ledger.after_stop), (FAULTS_MAX, 20));
    observer.finish();
    assert!(observer.status(true).problem().unwrap().contains("XDP_ABORTED"));
}

/// Each is refused, with the words that name why.
fn all_are_refused(cases: &[(&str, &str, &str)]) {
    for (more, program, words) in cases {
        let text = refusal(&object(more, program));
        assert!(text.contains(words), "{words}: {text}\n{more}\n{program}");
    }
}

#[test]
fn what_the_verifier_refuses_is_refused() {
    if !can_run("what_the_verifier_refuses_is_refused") {
        return;
    }
    all_are_refused(&[
        ("", "return *(__u8 *)(long)ctx->data;", "invalid access to packet"),
        ("", "return *(__u8 *)1234;", "the kernel does not load it"),
        ("", "for (;;) asm volatile(\"\"); return 2;", "the kernel does not load it"),
        (
            "static __attribute__((noinline)) int deep(__u64 n)
             { volatile char room[200] = {}; return n ? room[0] + deep(n - 1) : 0; }",
            "return deep(ctx->data_end - ctx->data) + 2;",
            "the kernel does not load it",
        ),
    ]);
}

#[test]
fn what_the_verifier_would_take_is_refused() {
    if !can_run("what_the_verifier_would_take_is_refused") {
        return;
    }
    let clock = "static __u64 (*const clock)(void) = (void *)5;";
    let long = "static long (*const bpf_loop)(__u32, void *, void *, __u64) = (void *)181;
        static long step(__u32 at, void *sum) { *(__u64 *)sum += at; return 0; }";
    let map = |of, entries, key, value| table("big", of, entries, key, value);
    let use_it = "__u64 key = 1; return bpf_map_lookup_elem(&big, &key) ? 1 : 2;";
    let pinned = "struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 1);
        __type(key, __u32); __type(value, __u64); __uint(pinning, 1); } big SEC(\".maps\");";
    let many: String = (0..17).map(|at| table(&format!("t{at}"), "2", 1, "__u32", "int")).collect();
    let ring = "struct { __uint(type, 27); __uint(max_entries, 4096); } big SEC(\".maps\");";
    let hash = "BPF_MAP_TYPE_HASH";
    let other = "SEC(\"xdp\") int other(struct xdp_md *ctx) { return 2; }";
    let both = "struct both { __u32 a; struct { __u32 b; } c; };";
    all_are_refused(&[
        (clock, "return clock() & 2;", "it calls helper 5"),
        (long, "__u64 sum = 0; bpf_loop(1 << 23, step, &sum, 0); return 2 | sum;", "helper 181"),
        (&map(hash, 100_000, "__u64", "__u64[20]"), use_it, "at most 16777216 are taken"),
        (&map(hash, u32::MAX, "__u64", "__u64"), use_it, "at most 16777216 are taken"),
        (&map("BPF_MAP_TYPE_ARRAY", 100_000, "__u32", "int"), use_it, "at most 70000 do"),
        (&many, "return 2;", "17 maps"),
        (ring, "return 2;", "of type RingBuf"),
        (pinned, use_it, "/dev/null/pins"),
        (other, "return 2;", "it has 2 programs"),
        (
            &format!("{both}{}", map(hash, 9, "__u64", "struct both")),
            use_it,
            "the value of its map",
        ),
        (&map(hash, 9, "__u64", "struct { __u32 key; }"), use_it, "each name once"),
        (&map("BPF_MAP_TYPE_PERCPU_HASH", 9, "__u64", "char[8]"), use_it, "cannot be shown"),
    ]);
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("socket.bpf.c");
    let text = "#include \"ringside_bpf.h\"\nSEC(\"socket\") int ringside_packet(void *skb)
        { return 0; }";
    std::fs::write(&source, text).unwrap();
    assert!(refusal(&compiled(&source)).contains("in SEC(\"socket\")"));
    assert!(refusal(b"\x7fELF and no more").contains("no eBPF object"));
}

#[test]
fn objects_of_any_bytes_hold() {
    if !can_run("objects_of_any_bytes_hold") {
        return;
    }
    let seeds = [compiled(&guest("syns.bpf.c")), object("", "return XDP_PASS;")];
    ringside_testkit::fuzz("extension-object", 500, &seeds, |input| {
        let kept = Kept::default();
        let Ok(mut observer) = ExtensionObserver::new("any", input, kept.sinks()) else { return };
        for stamp in 0..3 {
            see(&mut observer, &udp(69, b"payload"), stamp);
            assert!(observer.balances(), "{:?}", observer.ledger());
        }
        observer.finish();
        assert!(observer.balances());
    });
}
