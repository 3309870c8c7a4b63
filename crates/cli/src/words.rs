//! What the command line adds to what the libraries say: the option that helps. They name none,
//! because others ask them in other ways.

mod tools;

use ringside_capture::backend::{BackendError, LaneKind, OpenWarning, Unable};
use ringside_capture::keep::RulesError;
use ringside_capture::run::RunError;
use ringside_client::ClientError;
use ringside_control::{NO_RULES, PlaceTaken, Refusal};
use ringside_core::Shown;
use ringside_filter::FilterError;
use ringside_keeper::NoWorker;
use ringside_keeper::privileges::NoSuchUser;
use ringside_ring::RingError;
use ringside_session::{NotInDriver, Note, Refused, Rss, Setting};
use ringside_store::StoreError;
use ringside_store::recording::NO_RECORDING;
use ringside_terminal::say;
use std::error::Error;
use std::path::PathBuf;

/// The error and its causes, each said once: some errors name their cause in their own words.
pub fn of_error(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain() {
        let (plain, worded) = (cause.to_string(), of_cause(cause));
        if line.is_empty() {
            line = worded;
        } else if line.contains(&plain) {
            line = line.replacen(&plain, &worded, 1);
        } else {
            line.push_str(": ");
            line.push_str(&worded);
        }
    }
    line
}

/// One error without its causes, and what to do about it.
fn of_cause(cause: &(dyn Error + 'static)) -> String {
    if let Some(refused) = cause.downcast_ref::<Refused>() {
        return of_refused(refused);
    }
    if let Some(ClientError::Connect { path, .. }) = cause.downcast_ref() {
        let path = path.display();
        return format!("{cause}; is a `ringside capture --share {path}` running?");
    }
    if let Some(NoSuchUser(name)) = cause.downcast_ref() {
        return format!("--user {name}: there is no such user");
    }
    if let Some(error) = cause.downcast_ref() {
        return tools::of_ends(error);
    }
    let fix = (cause.downcast_ref().and_then(of_backend))
        .or_else(|| cause.downcast_ref().and_then(of_run))
        .or_else(|| cause.downcast_ref().and_then(of_rules))
        .or_else(|| cause.downcast_ref().and_then(of_refusal))
        .or_else(|| cause.downcast_ref().and_then(of_store))
        .or_else(|| cause.downcast_ref::<PlaceTaken>().map(|_| ": name another with --control"))
        .or_else(|| cause.downcast_ref::<NoWorker>().map(|_| "; --no-keeper does without it"))
        .or_else(|| cause.downcast_ref().and_then(of_filter))
        .or_else(|| cause.downcast_ref().and_then(of_ring));
    let fix = fix.map(str::to_owned);
    let fix = fix.or_else(|| tools::of_cause(cause)).unwrap_or_default();
    format!("{cause}{fix}")
}

fn of_backend(error: &BackendError) -> Option<&'static str> {
    match error {
        BackendError::UnknownLinkType { .. } => Some(": use `--backend pcap`"),
        BackendError::Unable(unable) => Some(match unable {
            Unable::OneLane => ": leave out --queues, or use --backend af-packet",
            Unable::LongFilter { .. } => ": shorten it, or use --backend af-packet",
            Unable::OwnStamps { .. } => ": leave out --hardware-time, or use --backend af-xdp",
            Unable::NothingWakes { .. } => ": use --wait sleep or spin, or --backend af-xdp",
        }),
        BackendError::SeveralWriters { .. } => Some(": use --backend af-xdp"),
        BackendError::TakesTags { .. } => Some(", or use --backend af-xdp"),
        _ => None,
    }
}

fn of_run(error: &RunError) -> Option<&'static str> {
    match error {
        RunError::NoSource => Some(": name an interface with -i"),
        RunError::OneThread { .. } => Some(": leave out --threads, or use more --queues"),
        RunError::Thread(_) => Some(", or lower --queues"),
        _ => None,
    }
}

/// For rules that digest, where no records are written.
const DIGESTS: &str = ": start it with --digests FILE (or - for standard output), or write `count` \
                       for the numbers alone";

/// What a capture of another process said, in words alone.
fn of_refusal(refusal: &Refusal) -> Option<&'static str> {
    match refusal.0.as_str() {
        NO_RULES => Some(": --rules FILE"),
        text if text.ends_with("this run writes none") => Some(DIGESTS),
        text if text.ends_with(tools::MORE_ROOM) => Some(tools::ROOM),
        _ => None,
    }
}

fn of_store(error: &StoreError) -> Option<&'static str> {
    match error {
        StoreError::Unusable { reason, .. } if reason.as_str() == NO_RECORDING => {
            Some(" (a recording is made by -w DIR)")
        }
        _ => None,
    }
}

fn of_rules(error: &RulesError) -> Option<&'static str> {
    match error {
        RulesError::Digest { .. } => Some(DIGESTS),
        RulesError::Mirror { .. } => Some(": leave it out, or receive from an interface (-i)"),
        _ => None,
    }
}

fn of_ring(error: &RingError) -> Option<&'static str> {
    matches!(error, RingError::Memory { .. }).then_some(" with --ring-size")
}

fn of_filter(error: &FilterError) -> Option<&'static str> {
    match error {
        FilterError::NotInFrame { .. } => {
            Some("; use --direction in|both instead of inbound and outbound")
        }
        _ => None,
    }
}

/// Says what a session has to say.
pub fn say_note(note: Note) {
    match &note {
        Note::Warning(_) | Note::Opened(_) | Note::NoHugePages => {
            say::message(format_args!("ringside: warning: {}", of_note(&note)));
        }
        Note::Prepared(_) | Note::Listening { .. } => say::message(note),
        _ => say::message(format_args!("ringside: {}", of_note(&note))),
    }
}

fn of_note(note: &Note) -> String {
    match note {
        Note::InDriver { .. } => {
            format!("{note}; --backend af-packet leaves the frames to the host")
        }
        Note::Libpcap { interface, reason } => {
            let fix = of_backend(reason).unwrap_or_default();
            format!("{interface}: using libpcap ({reason}{fix})")
        }
        Note::Opened(OpenWarning::ShortBlocks { .. }) => {
            format!("{note}; use --kernel-ring-size 4MiB or more")
        }
        Note::InboundOnly { .. } => format!("{note}; --direction inout shows both"),
        Note::NotInDriver { interface, reason } => {
            let reason = match reason {
                NotInDriver::BothDirections => {
                    "it sees received frames only, and --direction inout is asked for".to_owned()
                }
                NotInDriver::HardwareTime => "--hardware-time is asked for".to_owned(),
                NotInDriver::Failed(error) => of_error(error),
                reason => reason.to_string(),
            };
            format!("{interface}: af-packet, not af-xdp: {reason}")
        }
        note => note.to_string(),
    }
}

/// What was refused, with the options that were used and those to use.
fn of_refused(refused: &Refused) -> String {
    let fix = match refused {
        Refused::Lanes { .. } => ": lower --queues",
        Refused::NumberZero | Refused::NoSuchNumber { .. } => ": see capture -D",
        Refused::ReceivedOnly { .. } => ": leave out --direction inout, or use --backend af-packet",
        Refused::Tags { .. } => "; --backend af-xdp",
        Refused::PassBehindDriver { .. } => {
            ": write `default drop` and no `pass` in the rules, name what is to be taken as a \
             filter, add --rules-in-driver, or use --backend af-packet"
        }
        Refused::PassInDriver { .. } => {
            ": write `default drop` and no `pass`, or use --backend af-packet"
        }
        Refused::PinWithoutRecording { .. } => {
            ": record to a directory (-w DIR), or leave `pin` out of the rules"
        }
        Refused::PiecesInPcap => {
            ": write pcapng (-w FILE.pcapng or --format pcapng), or use `cap` in the rules"
        }
        _ => return of_options(refused),
    };
    format!("{refused}{fix}")
}

/// The same of what is said in terms of the options themselves.
fn of_options(refused: &Refused) -> String {
    match refused {
        Refused::GivenTwice { interface } => format!("-i {interface} is given twice"),
        Refused::Threads { backend, threads } => {
            let fix = match backend.lane {
                LaneKind::Queue => "use --backend af-xdp, or more receive queues".to_owned(),
                LaneKind::FanoutMember | LaneKind::OwnQueue | LaneKind::Device => {
                    format!("spread the frames over more lanes with --queues {threads}")
                }
            };
            format!("--threads {threads}: a lane of {} has one thread; {fix}", backend.name)
        }
        Refused::Cpu { cpu, allowed } => {
            format!("--cpus {cpu}: this process may run on {allowed:?}")
        }
        Refused::Setting { setting, interface, .. } => {
            let option = match setting {
                Setting::Queues => "--set-queues",
                Setting::Rss(Rss::Symmetric) => "--rss symmetric",
                Setting::Rss(Rss::Even) => "--rss even",
            };
            format!("{option} on {interface}")
        }
        Refused::NoDriver => "--rules-in-driver is for interfaces that are received in the \
                              driver: add --backend af-xdp or xdp-ring, or leave it out"
            .to_owned(),
        Refused::MirrorOfFile { id, to } => format!(
            "rule {id}: `mirror {to}` sends frames on while they are received, and -r reads what \
             was: leave it out, or receive from an interface (-i)"
        ),
        Refused::MirrorOfCut { id, to, snaplen } => format!(
            "rule {id}: `mirror {to}` sends whole frames, and -s {snaplen} has them cut before: \
             leave out -s, and write `cap {snaplen}` in the rules"
        ),
        Refused::CutoffThreads { threads } => format!(
            "--flow-cutoff counts the bytes of each flow, and --threads {threads} shares flows \
             among threads: use --queues {threads}, or leave out --threads"
        ),
        Refused::PiecesBehindTrigger => "--on looks at frames as they are kept, and `keep` moves \
                                         their bytes: use `cap` in the rules, or leave out --on"
            .to_owned(),
        Refused::SameOutput { path } => format!("-w and --digests both name {}", path.shown()),
        Refused::TriggerOutput => "--on writes to a directory: name one with -w".to_owned(),
        Refused::TriggerFilter => "--on needs a filter that is not empty".to_owned(),
        refused => of_output(refused),
    }
}

/// The same of `-w`.
fn of_output(refused: &Refused) -> String {
    match refused {
        Refused::NotFiles(path) => {
            format!("-C and -G need files; {} is none", output_name(path.as_ref()))
        }
        Refused::NotLimited(path) => format!(
            "--limit-bytes, --limit-age, --min-free, --pin-bytes, --compress-after and \
             --write-blocks are for directories; {} is none",
            output_name(path.as_ref())
        ),
        Refused::UnclearName(path) => {
            let (shown, bare) = (path.shown(), path.with_extension(""));
            format!(
                "-w {shown}: its ending names no format: write {}.pcapng or .pcap for one file \
                 (also .gz or .zst behind it), {shown}/ for a directory of files, or add --format \
                 for one file of this name",
                bare.shown()
            )
        }
        Refused::SeveralOutputs(path) => format!(
            "several -w are directories that hold one recording together; {} is none: name \
             directories only, or one file or stream",
            output_name(path.as_ref())
        ),
        Refused::DirectoryFormat => {
            "--format is for files and streams; a directory holds pcapng".to_owned()
        }
        refused => refused.to_string(),
    }
}

fn output_name(path: Option<&PathBuf>) -> String {
    path.map_or("a stream on standard output".to_owned(), |path| path.shown().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;
    use ringside_transmit::EndsError;

    #[test]
    fn a_cause_is_said_once() {
        let cause = || std::io::Error::other("the disk is gone");
        let named = Err::<(), _>(cause()).context("cannot write: the disk is gone").unwrap_err();
        assert_eq!(of_error(&named), "cannot write: the disk is gone");
        let unnamed = Err::<(), _>(cause()).context("cannot write").unwrap_err();
        assert_eq!(of_error(&unnamed), "cannot write: the disk is gone");
    }

    #[test]
    fn what_is_refused_gets_its_option_wherever_it_stands() {
        let plain = || Refused::Lanes { lanes: 99 };
        let fixed = "99 lanes are asked for, a run has at most 256: lower --queues";
        assert_eq!(of_error(&plain().into()), fixed);
        let behind = anyhow::Error::from(plain()).context("cannot start");
        assert_eq!(of_error(&behind), format!("cannot start: {fixed}"));
        let within = anyhow::Error::from(plain()).context(format!("no run ({})", plain()));
        assert_eq!(of_error(&within), format!("no run ({fixed})"));
        let error = anyhow::anyhow!("not permitted");
        let setting = Setting::Rss(Rss::Even);
        let refused = Refused::Setting { setting, interface: "eth1".into(), error };
        assert_eq!(of_error(&refused.into()), "--rss even on eth1: not permitted");
    }

    #[test]
    fn errors_of_the_libraries_get_the_option_that_helps() {
        let name = || "ppp0".to_owned();
        let id = ringside_rules::language::RuleId(7);
        let (reason, fix) = ("any".to_owned(), ringside_transmit::TemplateFix::Size(62));
        let template = ringside_transmit::Error::Template { reason, fix };
        let address = std::net::IpAddr::from([10, 0, 0, 2]);
        let fixes: [(anyhow::Error, &str); 16] = [
            (
                BackendError::UnknownLinkType { name: name(), hardware_type: 512 }.into(),
                "link type: use `--backend pcap`",
            ),
            (
                BackendError::Unable(Unable::OwnStamps { backend: "xdp-ring" }).into(),
                "itself: leave out --hardware-time, or use --backend af-xdp",
            ),
            (BackendError::SeveralWriters { name: name() }.into(), "at once: use --backend af-xdp"),
            (BackendError::TakesTags { name: name() }.into(), "), or use --backend af-xdp"),
            (RunError::NoSource.into(), "nothing to capture from: name an interface with -i"),
            (RulesError::Digest { id }.into(), "writes none: start it with --digests FILE"),
            (RulesError::Mirror { id, name: name() }.into(), "receive from an interface (-i)"),
            (PlaceTaken::Listening.into(), "listens there: name another with --control"),
            (NoSuchUser(name()).into(), "--user ppp0: there is no such user"),
            (ringside_transmit::Error::Unbounded.into(), "or a time (--count N or --for 10s)"),
            (ringside_lab::Error::NotUp { name: name() }.into(), "`ringside lab up --name ppp0`"),
            (ringside_xdp::RulesError::NoRoom("".into()).into(), "more room (--rules-room N)"),
            (ringside_ebpf::Error::NoBpfFs { path: "/b" }.into(), "hides it); use --netns instead"),
            (template.into(), "any (--size 62)"),
            (EndsError::NoMac { interface: name() }.into(), "give one (--mac-src)"),
            (EndsError::NoSource { to: address }.into(), "to 10.0.0.2; use --from-address"),
        ];
        for (error, fix) in fixes {
            let plain = error.to_string();
            assert!(!plain.contains("--") && !plain.contains(" -i"), "{plain}");
            let told = of_error(&error.context("cannot begin"));
            assert!(told.starts_with("cannot begin: ") && told.contains(fix), "{told}");
        }
    }

    #[test]
    fn notes_name_options_here_only() {
        let interface = || "eth1".to_owned();
        let reason = NotInDriver::HardwareTime;
        for (note, text) in [
            (
                Note::InboundOnly { interface: interface() },
                "eth1: inbound only; --direction inout shows both",
            ),
            (
                Note::Opened(OpenWarning::ShortBlocks { block_bytes: 65536 }),
                "the kernel's ring has blocks of 65536 bytes: longer frames are cut; use \
                 --kernel-ring-size 4MiB or more",
            ),
            (
                Note::NotInDriver { interface: interface(), reason },
                "eth1: af-packet, not af-xdp: --hardware-time is asked for",
            ),
        ] {
            assert!(!note.to_string().contains("--"), "{note}");
            assert_eq!(of_note(&note), text);
        }
    }
}
