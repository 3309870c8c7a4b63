//! The same for `send`, `lab`, and rules in drivers.

use ringside_lab::LabConfig;
use ringside_outlet::OutletError;
use ringside_transmit::{EndsError, TemplateFix};
use std::error::Error;

/// How rules that a driver has no room for are refused, also by a capture of another process.
pub(super) const MORE_ROOM: &str = "or with more room";
/// What gives them room.
pub(super) const ROOM: &str = " (--rules-room N)";

/// What helps against one error without its causes.
pub(super) fn of_cause(cause: &(dyn Error + 'static)) -> Option<String> {
    (cause.downcast_ref().and_then(of_send))
        .or_else(|| cause.downcast_ref().and_then(of_lab))
        .or_else(|| cause.downcast_ref().and_then(of_rules))
        .or_else(|| cause.downcast_ref().and_then(of_driver))
        .or_else(|| cause.downcast_ref().and_then(of_outlet))
}

fn of_outlet(error: &OutletError) -> Option<String> {
    match error {
        OutletError::NoAuthorities { .. } => Some(" with --outlet-ca".to_owned()),
        OutletError::Authorities { .. } => Some(" (--outlet-ca)".to_owned()),
        OutletError::User { .. } => Some(" (--outlet-user-file)".to_owned()),
        _ => None,
    }
}

fn of_send(error: &ringside_transmit::Error) -> Option<String> {
    use ringside_transmit::Error;
    Some(match error {
        Error::Mtu { needed, .. } => {
            format!("; of a test network by `ringside lab up --mtu {needed}`")
        }
        Error::Template { fix, .. } => match fix {
            TemplateFix::None => return None,
            TemplateFix::NoNumber => " (--no-number)".to_owned(),
            TemplateFix::OwnSize => " (no --size)".to_owned(),
            TemplateFix::Size(bytes) => format!(" (--size {bytes})"),
        },
        Error::Unbounded => " (--count N or --for 10s)".to_owned(),
        Error::LiveReplay => " (--sender packet)".to_owned(),
        Error::Unsendable { files, .. } => {
            let is_cut = files.iter().any(|(_, found)| found.cut > 0);
            let cut = "; of cut frames, --cut send sends what there is, --cut pad fills them up \
                       with zeros";
            format!(" by --skip-unsendable{}", if is_cut { cut } else { "" })
        }
        _ => return None,
    })
}

/// What a stream lacks, with the option that gives it.
pub(super) fn of_ends(error: &EndsError) -> String {
    let fix = match error {
        EndsError::UnknownHost { port, .. } => format!(", as --to 10.0.0.2:{port}"),
        EndsError::OtherFamily { host } => {
            return format!(
                "{host} has no address of the family of --from-address; give one that fits"
            );
        }
        EndsError::Families { from, to } => {
            return format!("--from-address {from} and --to {to} are of different families");
        }
        EndsError::NoMac { .. } => " (--mac-src)".to_owned(),
        EndsError::NoAddress { .. } => " (--from-address)".to_owned(),
        EndsError::NoRoute { .. } => " (--from-address, --mac-dst)".to_owned(),
        EndsError::NoOtherHost { .. } | EndsError::NoNeighbour { .. } => " (--mac-dst)".to_owned(),
        EndsError::NoSource { .. } => "; use --from-address".to_owned(),
        EndsError::Headers(_) | EndsError::Template(_) | EndsError::Sys(_) => String::new(),
    };
    format!("{error}{fix}")
}

fn of_lab(error: &ringside_lab::Error) -> Option<String> {
    use ringside_lab::Error;
    let (name, order) = match error {
        Error::AlreadyUp { name, .. } => (name, "down"),
        Error::NotUp { name } => (name, "up"),
        _ => return None,
    };
    let is_usual = *name == LabConfig::default().name;
    let option = if is_usual { String::new() } else { format!(" --name {name}") };
    Some(format!(": `ringside lab {order}{option}`"))
}

fn of_rules(error: &ringside_xdp::RulesError) -> Option<String> {
    matches!(error, ringside_xdp::RulesError::NoRoom(_)).then(|| ROOM.to_owned())
}

fn of_driver(error: &ringside_ebpf::Error) -> Option<String> {
    matches!(error, ringside_ebpf::Error::NoBpfFs { .. })
        .then(|| "; use --netns instead".to_owned())
}
