use super::*;
use crate::open::OpenOptions;
use crate::refused::Refused;
use std::cell::RefCell;

/// A capture of three frames, as pcap has them.
fn capture_of_three() -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        bytes.extend(word.to_ne_bytes());
    }
    for second in 1..=3_u32 {
        for word in [second, 0, 60, 60] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend([0; 60]);
    }
    bytes
}

fn reading(path: PathBuf) -> Origin {
    let open = OpenOptions { read: vec![path], ..OpenOptions::default() };
    CaptureOptions { open, ..CaptureOptions::default() }.into()
}

fn silent(control: SocketPlace) -> RunOptions {
    RunOptions { control, ring_bytes: Some(RING_BYTES_MIN), ..RunOptions::default() }
}

#[test]
fn a_file_is_counted_and_written_by_this_crate_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("in.pcap"), folder.path().join("out.pcapng"));
    std::fs::write(&input, capture_of_three()).unwrap();
    let mut options = silent(SocketPlace::None);
    options.output.paths.push(output.clone());
    let said = RefCell::new(Vec::new());
    let hear = |note: Note| said.borrow_mut().push(note.to_string());
    let mut session = Session::start(reading(input.clone()), options, None, &hear).unwrap();
    session.watch(&mut |_| Ok(Order::GoOn)).unwrap();
    let finished = session.finish();
    assert!(finished.report.errors.is_empty(), "{:?}", finished.report.errors);
    assert_eq!(finished.report.ledger.taken, 3);
    assert_eq!(finished.report.files.paths, [output]);
    finished.close();
    let said = said.into_inner();
    assert!(said.iter().any(|text| text.starts_with("listening on ")), "{said:?}");
}

#[test]
fn an_order_and_an_error_end_the_watch() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("in.pcap");
    std::fs::write(&input, capture_of_three()).unwrap();
    let start = || {
        let options = silent(SocketPlace::None);
        Session::start(reading(input.clone()), options, None, &|_| ()).unwrap()
    };
    let (mut session, mut times) = (start(), 0);
    session
        .watch(&mut |_| {
            times += 1;
            Ok(Order::Stop)
        })
        .unwrap();
    assert_eq!(times, 1);
    session.finish().close();
    let mut session = start();
    let error = session.watch(&mut |_| anyhow::bail!("nobody listens")).unwrap_err();
    assert_eq!(error.to_string(), "nobody listens");
    assert!(session.finish().report.errors.is_empty());
}

#[test]
fn what_does_not_go_together_is_refused_by_type_and_without_options() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("in.pcap");
    std::fs::write(&input, capture_of_three()).unwrap();
    let refused = |change: &dyn Fn(&mut CaptureOptions, &mut RunOptions)| {
        let open = OpenOptions { read: vec![input.clone()], ..OpenOptions::default() };
        let mut capture = CaptureOptions { open, ..CaptureOptions::default() };
        let mut run = silent(SocketPlace::None);
        change(&mut capture, &mut run);
        let error = Session::start(capture.into(), run, None, &|_| ()).err().expect("refused");
        let text = format!("{error:#}");
        assert!(!text.contains(" -") && !text.starts_with('-'), "{text}");
        error.downcast::<Refused>().expect("typed")
    };
    let surround = crate::TriggerOptions {
        filter: "icmp".into(),
        before: Duration::ZERO,
        after: Duration::ZERO,
    };
    let path = folder.path().join("a.unknown");
    assert!(matches!(
        refused(&|capture, _| capture.trigger = Some(surround.clone())),
        Refused::TriggerOutput
    ));
    assert!(matches!(
        refused(&|_, run| run.output.paths.push(path.clone())),
        Refused::UnclearName(named) if named == path
    ));
    assert!(matches!(
        refused(&|_, run| {
            run.output.stream = Some(std::fs::File::create("/dev/null").unwrap().into());
            run.output.file_bytes = Some(1);
        }),
        Refused::NotFiles(None)
    ));
    assert!(matches!(
        refused(&|capture, _| {
            capture.keep.flow_cutoff = Some(crate::FlowCutoff::Tls);
            capture.open.threads = 2;
        }),
        Refused::CutoffThreads { threads: 2 }
    ));
}
