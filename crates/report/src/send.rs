//! What was sent, for people: of frames of our own making here, of what else can be sent in the
//! modules.

pub mod relay;
pub mod replay;
pub mod stream;

use ringside_terminal::units::{grouped, scaled};
use ringside_transmit::{Report, SenderKind};

/// What a live line says of frames that are generated.
pub fn line(frames_per_sec: f64, offered: u64) -> String {
    format!("{}frames/s  offered {}", scaled(frames_per_sec), grouped(offered))
}

/// What sends.
pub fn sender_name(sender: SenderKind) -> &'static str {
    match sender {
        SenderKind::Live => "live frames",
        SenderKind::Even => "live frames, each when it is due",
        SenderKind::Packet => "a packet socket",
        SenderKind::Sink(kind) => kind.name(),
    }
}

/// The account of generated frames.
pub fn text(report: &Report, interface: &str) -> String {
    let seconds = report.elapsed_ns as f64 / 1e9;
    let mut text = format!(
        "offered   {:>16}  {}B by {}, {seconds:.3} s, {}frames/s{}\n\
         sent      {:>16}  taken by {interface}, {}frames/s\n\
         refused   {:>16}  no room in its ring\n",
        grouped(report.offered),
        scaled(report.offered_bytes as f64),
        sender_name(report.sender),
        scaled(report.offered_per_sec()),
        if report.stopped { ", stopped" } else { "" },
        grouped(report.handed),
        scaled(report.handed_per_sec()),
        grouped(report.refused_ring_full),
    );
    if report.refused_before_ring > 0 {
        let refused = grouped(report.refused_before_ring);
        text += &format!("refused   {refused:>16}  by the socket or the driver, before the ring\n");
    }
    text
}
