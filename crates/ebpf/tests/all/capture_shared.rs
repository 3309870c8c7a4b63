//! One root for several processes that come, go and die.

use crate::pair::{Pair, ifindex, inside, send};
use ringside_core::LinkType;
use ringside_ebpf::capture::{CaptureConfig, CaptureProgram, Metadata, QueueCounters};
use ringside_ebpf::socket_filter::SocketFilter;
use ringside_ebpf::{Error, attached_program};
use ringside_sys::bpf::FdArray;
use ringside_sys::netns::Namespace;
use ringside_testkit::{need_root, wait_until};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Namespace in which [`a_child_captures_until_it_is_killed`] is to capture.
const CHILD: &str = "RINGSIDE_TEST_CAPTURE_IN";

/// Index of the array of leaves among the descriptors of a capture.
const LEAVES: usize = 2;

fn open_here(namespace: &str) -> Result<CaptureProgram, Error> {
    CaptureProgram::open(&CaptureConfig {
        interface: "end",
        ifindex: ifindex(namespace),
        queues: 1,
        metadata: Metadata::None,
        filter: None,
        link_type: LinkType::ETHERNET,
        generic_allowed: false,
    })
}

fn open(pair: &Pair) -> Result<CaptureProgram, Error> {
    inside(&pair.receiver, || open_here(&pair.receiver))
}

fn program_there(pair: &Pair) -> Option<u32> {
    inside(&pair.receiver, || attached_program(ifindex(&pair.receiver)).unwrap())
}

/// Not a test of its own: the process that is killed.
#[test]
fn a_child_captures_until_it_is_killed() {
    let Ok(namespace) = std::env::var(CHILD) else { return };
    Namespace::open(&namespace).unwrap().enter().unwrap();
    let mut capture = open_here(&namespace).unwrap();
    capture.start().unwrap();
    let mut out = std::io::stdout();
    writeln!(out, "capturing").unwrap();
    out.flush().unwrap();
    std::thread::sleep(Duration::from_secs(60));
}

fn capturing_child(pair: &Pair) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "capture_shared::a_child_captures_until_it_is_killed", "--nocapture"])
        .env(CHILD, &pair.receiver)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains("capturing")));
    child
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_killed_process_leaves_no_program_and_no_place_taken() {
    if !need_root("killed captures") {
        return;
    }
    let pair = Pair::new("xkill");
    kill(capturing_child(&pair));
    wait_until("the kernel takes the root off", || program_there(&pair).is_none());

    let first = open(&pair).unwrap();
    let child = capturing_child(&pair);
    assert!(matches!(open(&pair), Err(Error::NoPlace { .. })));
    let leaves = first.handles().unwrap().descriptors()[LEAVES].try_clone_to_owned().unwrap();
    let leaves = FdArray::from_fd(leaves).unwrap();
    let at = |position| leaves.program_at(position).unwrap();
    assert!(at(2).is_none() && at(3).is_some());
    kill(child);
    assert!(at(3).is_some(), "no process was there to take it out");
    // Its frames pass meanwhile: its sockets went with it.
    let witness = SocketFilter::load_accept_all(LinkType::ETHERNET, 0).unwrap();
    let socket = pair.sockets(1).remove(0);
    witness.attach(&socket).unwrap();
    let transmitter = pair.transmitter();
    send(&transmitter, &[&[2u8; 60][..]; 10], &witness);
    let mut second = open(&pair).unwrap();
    assert!(at(3).is_none(), "taken out by the next");
    second.start().unwrap();
    send(&transmitter, &[&[2u8; 60][..]; 10], &witness);
    second.stop().unwrap();
    let counters = second.counters(0).unwrap();
    assert_eq!(
        counters,
        QueueCounters { seen: 10, passed: 10, steered: 0, ..QueueCounters::default() }
    );
}

#[test]
fn a_root_without_claims_is_replaced() {
    if !need_root("orphaned roots") {
        return;
    }
    let pair = Pair::new("xorphan");
    let capture = open(&pair).unwrap();
    let link = capture.handles().unwrap().descriptors()[1].try_clone_to_owned().unwrap();
    drop(capture);
    let orphan = program_there(&pair);
    assert!(orphan.is_some(), "the link holds it");
    let next = open(&pair).unwrap();
    assert_ne!(program_there(&pair), orphan);
    drop(next);
    // A process that another test starts has copies of our descriptors until it runs its program.
    wait_until("the kernel takes the root off", || program_there(&pair).is_none());
    drop(link);
}

#[test]
fn captures_that_come_and_go_at_once_keep_their_places() {
    if !need_root("captures that come and go") {
        return;
    }
    let pair = Pair::new("xcome");
    let (opened, refused) = (std::sync::Mutex::new(0), std::sync::Mutex::new(0));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..40 {
                    match open(&pair) {
                        Ok(mut capture) => {
                            capture.start().unwrap();
                            let handles = capture.handles().unwrap();
                            let [_, _, leaves, entry, ..] =
                                handles.descriptors().map(|fd| fd.try_clone_to_owned().unwrap());
                            let leaves = FdArray::from_fd(leaves).unwrap();
                            let id = libbpf_rs::Program::id_from_fd(entry.as_fd()).unwrap();
                            let there = |position| leaves.program_at(position).unwrap() == Some(id);
                            // Long enough for what the kernel puts off when a root goes.
                            std::thread::sleep(Duration::from_millis(5));
                            assert!((2..4).any(there), "its leaf was taken out");
                            *opened.lock().unwrap() += 1;
                        }
                        Err(Error::NoPlace { .. }) => *refused.lock().unwrap() += 1,
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
    });
    let (opened, refused) = (opened.into_inner().unwrap(), refused.into_inner().unwrap());
    eprintln!("{opened} opened, {refused} found no place");
    assert!(opened > 20);
    wait_until("the kernel takes the root off", || program_there(&pair).is_none());
}
