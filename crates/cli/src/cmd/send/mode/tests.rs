use super::*;
use crate::cmd::send::SendArgs;
use clap::{Arg, FromArgMatches};

const MODES: [Mode; 4] = [Generate, Replay, Relay, Stream];

fn command() -> Command {
    SendArgs::augment_args(Command::new("send"))
}

/// The mode of `ringside send -i eth1 ARGS`.
fn parsed(args: &[&str]) -> Result<Mode, clap::Error> {
    let matches = command().try_get_matches_from([&["send", "-i", "eth1"], args].concat())?;
    SendArgs::from_arg_matches(&matches).map(|args| args.mode)
}

/// What chooses a mode.
fn choosing(mode: Mode) -> &'static [&'static str] {
    match mode {
        Generate => &[],
        Replay => &["-r", "a.pcap"],
        Relay => &["--relay", "eth2"],
        Stream => &["--stream", "1MB"],
    }
}

/// The option with a value that is right, and what it needs in addition.
fn sample(arg: &Arg) -> Vec<String> {
    let id = arg.get_id().as_str();
    let value = match id {
        "filter" => return vec!["udp".into()],
        "link_speed" => return ["--link-speed", "25Gbps", "--rate", "1kpps"].map(from).into(),
        "netns" | "template" | "relay_netns" => "name",
        "count" | "cpus" | "vlan" | "flows" | "src_port" | "dst_port" | "loops" => "1",
        "duration" | "max_gap" => "1s",
        "to" => "10.0.0.2:9000",
        "rate" => "1kpps",
        "mac_src" | "mac_dst" => "02:00:00:00:00:01",
        "size" | "mss" | "mtu" => "1000",
        "src" | "dst" | "from_address" => "10.0.0.1",
        "speed" => "2",
        "from" => "2026-03-01T12:00:00Z",
        "address_map" => "10.0.0.0/8=11.0.0.0/8",
        "sink" => "af-packet",
        "way" => "chains",
        _ => "",
    };
    let values = arg.get_possible_values();
    let value = match (arg.get_action().takes_values(), values.first()) {
        (false, _) => None,
        (true, Some(first)) => Some(first.get_name().to_owned()),
        (true, None) => Some(value.to_owned()).filter(|value| !value.is_empty()),
    };
    assert!(value.is_some() || !arg.get_action().takes_values(), "give {id} a value, above");
    let long = arg.get_long().unwrap_or_else(|| panic!("{id} has no long name"));
    [format!("--{long}")].into_iter().chain(value).collect()
}

fn from(text: &str) -> String {
    text.into()
}

#[test]
fn every_option_has_its_modes_once() {
    let mut listed: Vec<&str> =
        OPTIONS.iter().flat_map(|(_, options)| options.iter()).copied().collect();
    let command = command();
    let mut known: Vec<&str> = command.get_arguments().map(|arg| arg.get_id().as_str()).collect();
    listed.sort_unstable();
    known.sort_unstable();
    assert_eq!(listed, known);
}

#[test]
fn every_option_is_taken_in_its_modes_and_refused_in_the_others() {
    let command = command();
    let chooses = |id: &str| MODES.iter().any(|mode| mode.option() == Some(id));
    let (mut taken, mut refused) = (0, 0);
    for (modes, id) in OPTIONS.iter().flat_map(|(modes, ids)| ids.iter().map(move |id| (modes, id)))
    {
        if chooses(id) || *id == "interface" {
            continue;
        }
        let arg = command.get_arguments().find(|arg| arg.get_id() == id).unwrap();
        let sample = sample(arg);
        for mode in MODES {
            let given: Vec<&str> = sample.iter().map(String::as_str).collect();
            let result = parsed(&[&given, choosing(mode)].concat());
            if modes.contains(&mode) {
                assert_eq!(result.map_err(|error| error.to_string()), Ok(mode), "{given:?}");
                taken += 1;
                continue;
            }
            let error = result.expect_err(&format!("{given:?} with {mode:?}"));
            let text = error.to_string();
            assert_eq!(
                (error.exit_code(), error.kind()),
                (2, ErrorKind::ArgumentConflict),
                "{text}"
            );
            let option = arg.get_long().map_or("'[FILTER]".into(), |long| format!("'--{long}"));
            let choosing = mode.option().into_iter().chain(match mode {
                Generate => modes.iter().filter_map(|mode| mode.option()).collect(),
                _ => Vec::new(),
            });
            // They are called as they are written.
            let choosing = choosing.map(|id| format!("'--{id}"));
            for said in choosing.chain([option, "leave".into(), "Usage: ringside send".into()]) {
                assert!(text.contains(&said), "{said}: {text}");
            }
            refused += 1;
        }
    }
    assert!(taken > 40 && refused > 80, "{taken} taken, {refused} refused");
}

#[test]
fn one_mode_is_chosen_and_two_are_refused() {
    for mode in MODES {
        assert_eq!(parsed(choosing(mode)).unwrap(), mode);
        for other in MODES.into_iter().filter(|&other| other != mode) {
            let both = [choosing(mode), choosing(other)].concat();
            let is_refused = parsed(&both).is_err();
            assert_eq!(is_refused, mode != Generate && other != Generate, "{both:?}");
        }
    }
}

/// What no list has: an option that is another's contrary, or says nothing alone.
#[test]
fn contradictions_within_a_mode_are_refused() {
    for (args, said) in [
        (&["-r", "a.pcap", "--vlan", "7", "--no-vlan"][..], "--no-vlan"),
        (&["-r", "a.pcap", "--speed", "2", "--rate", "1kpps"], "--rate"),
        (&["-r", "a.pcap", "--fast", "--max-gap", "1s"], "--max-gap"),
        (&["--template", "a.pcap", "--tcp"], "--tcp"),
        (&["--stamp", "--no-number"], "--no-number"),
        (&["-c", "1", "--link-speed", "1Gbps"], "--rate"),
        (&["-c", "1", "-c", "2"], "--count"),
    ] {
        let error = parsed(args).expect_err(said);
        assert_eq!(error.exit_code(), 2, "{args:?}");
        assert!(error.to_string().contains(said), "{args:?}: {error}");
    }
    assert_eq!(parsed(&["-c", "1", "--for", "1s"]).unwrap(), Generate);
}
