//! What a journal says that was torn, or written by somebody else.

use super::*;
use crate::knob::Request;

/// A knob of each kind, as a journal has it.
fn knobs() -> Vec<Knob> {
    let target = r#"{"interface":"rx0","ifindex":7,"namespace":4026531840}"#;
    let settings = [
        [r#"{"setting":"stamps","words":[0,0,0]}"#, r#"{"setting":"stamps","words":[0,0,1]}"#],
        [
            r#"{"setting":"queues","rx":0,"combined":8}"#,
            r#"{"setting":"queues","rx":0,"combined":4294967295}"#,
        ],
        [
            r#"{"setting":"rss","function":1,"transform":0,"key":[1,2],"table":[0,1],
                "is_default":true}"#,
            r#"{"setting":"rss","function":1,"transform":0,"key":[109,90],"table":[],
                "is_default":false}"#,
        ],
        [
            r#"{"setting":"feature","feature":"rx-gro","on":true}"#,
            r#"{"setting":"feature","feature":"rx-gro","on":false}"#,
        ],
    ];
    let of_interface = settings.map(|[before, after]| {
        let knob = r#"{"knob":"interface","target":TARGET,"before":BEFORE,"after":AFTER}"#;
        knob.replace("TARGET", target).replace("BEFORE", before).replace("AFTER", after)
    });
    let others = [
        r#"{"knob":"huge_pages","path":"/proc/sys/vm/nr_hugepages","before":5,"added":64}"#,
        r#"{"knob":"file","path":"/sys/class/net/rx0/threaded","before":"0","after":"1"}"#,
    ];
    let all = of_interface.iter().map(String::as_str).chain(others);
    all.map(|knob| serde_json::from_str(knob).unwrap()).collect()
}

fn content() -> Content {
    let users = vec![ProcessIdentity { pid: 4711, start_ticks: 99 }];
    Content {
        version: VERSION,
        users,
        boot_id: [7; 16],
        pid_namespace: 4_026_531_836,
        knobs: knobs(),
    }
}

#[test]
fn whatever_lies_there_a_journal_is_read_whole_or_refused() {
    let whole = serde_json::to_vec(&content()).unwrap();
    assert_eq!(Content::read(&whole).unwrap(), content());
    let mut many = content();
    many.knobs = vec![knobs().pop().unwrap(); KNOBS_MAX + 1];
    assert!(Content::read(&serde_json::to_vec(&many).unwrap()).is_err(), "too many");
    let deep = [b"{\"knobs\":".to_vec(), b"[".repeat(100_000)].concat();
    let seeds = [whole.clone(), whole[..whole.len() / 2].to_vec(), deep];
    ringside_testkit::fuzz("knob-journal", 30_000, &seeds, |bytes| {
        let Ok(content) = Content::read(bytes) else { return };
        assert_eq!((content.version, content.knobs.len() <= KNOBS_MAX), (VERSION, true));
        let again = serde_json::to_vec(&content).unwrap();
        assert_eq!(Content::read(&again).unwrap(), content);
        let names: Vec<String> = content.knobs.iter().map(Knob::name).collect();
        assert_eq!(names.len(), content.knobs.len());
    });
}

#[test]
fn pages_beyond_all_measure_are_refused_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pages");
    fs::write(&path, "5").unwrap();
    let mut knob = Knob::HugePages { path: path.clone(), before: 5, added: u64::MAX };
    assert!(knob.turn().is_err());
    assert_eq!(fs::read_to_string(&path).unwrap(), "5");
    assert!(Knob::plan(&Request::HugePages { pages: 0 }, None).is_ok());
}
