//! Test networks, and what was sent into them.

use ringside_lab::{LabStatus, Napi, RECEIVER_ADDRESS, SENDER_ADDRESS};
use ringside_terminal::units::{grouped, scaled};
use ringside_transmit::{Report, SenderKind};

/// What can be done with a network that was just made.
pub fn up(status: &LabStatus) -> String {
    let (a, b) = (&status.sender_namespace, &status.receiver_namespace);
    let name = match status.config.name.as_str() {
        "lab" => String::new(),
        name => format!(" --name {name}"),
    };
    format!(
        "test network {} is up: {} in {a} ({SENDER_ADDRESS}) -- {} in {b} ({RECEIVER_ADDRESS})\n\n\
         In one terminal, receive:\n  \
         sudo ringside capture --netns {b} --count -i {}\n  \
         sudo ip netns exec {b} ringside capture -i {} -w DIR\n\
         In another, send:\n  \
         sudo ringside lab send{name} --count 1000000 --size imix --flows 1000\n  \
         sudo ip netns exec {a} ping {RECEIVER_ADDRESS}\n\
         At last:\n  \
         sudo ringside lab down{name}",
        status.config.name,
        status.sender_interface,
        status.receiver_interface,
        status.receiver_interface,
        status.receiver_interface,
    )
}

/// A network in two lines.
pub fn status(lab: &LabStatus) -> String {
    let state = match (lab.whole, lab.leftover, lab.owner_pid) {
        (false, _, _) => "damaged: `ringside lab down` removes the rest".into(),
        (_, true, _) => "left behind: the next `ringside lab up` removes it".into(),
        (_, _, Some(pid)) => format!("up while process {pid} runs"),
        _ => "up".into(),
    };
    let napi = match lab.config.napi {
        Napi::Softirq => "receives on the sender's CPU".into(),
        Napi::Threaded => "receives in threads".into(),
        Napi::Pinned(cpu) => format!("receives on CPU {cpu}"),
        Napi::Moderated { cpu, interval_us } => {
            format!("receives on CPU {cpu} every {interval_us} us")
        }
    };
    format!(
        "{}: {state}\n  {} in {} -- {} in {}, queues {}, MTU {}, {napi}",
        lab.config.name,
        lab.sender_interface,
        lab.sender_namespace,
        lab.receiver_interface,
        lab.receiver_namespace,
        lab.config.queues,
        lab.config.mtu,
    )
}

/// What was sent, and what the far end was handed.
pub fn sent(report: &Report, lab: &LabStatus) -> String {
    let sender = match report.sender {
        SenderKind::Live | SenderKind::Even => "live frames",
        SenderKind::Packet => "a packet socket",
        SenderKind::Sink(kind) => kind.name(),
    };
    let seconds = report.elapsed_ns as f64 / 1e9;
    let mut text = format!(
        "offered   {:>16}  {}B by {sender}, {seconds:.3} s, {}frames/s{}\n\
         handed    {:>16}  accepted by {} in {}, {}frames/s\n\
         refused   {:>16}  its ring was full\n",
        grouped(report.offered),
        scaled(report.offered_bytes as f64),
        scaled(report.offered_per_sec()),
        if report.stopped { ", stopped" } else { "" },
        grouped(report.handed),
        lab.receiver_interface,
        lab.receiver_namespace,
        scaled(report.handed_per_sec()),
        grouped(report.refused_ring_full),
    );
    if report.refused_before_ring > 0 {
        let refused = grouped(report.refused_before_ring);
        text += &format!("refused   {refused:>16}  by the socket or the driver, before the ring\n");
    }
    if let Some(received) = report.received_by_interface.filter(|&count| count != report.handed) {
        let received = grouped(received);
        text += &format!("received  {received:>16}  by the interface, others' frames included\n");
    }
    text
}
