use super::super::{Knob, PutBack, Request};
use super::*;
use ringside_ebpf::XdpProgram;
use ringside_lab::{Lab, LabConfig};
use ringside_testkit::need_root;

/// A veth pair of two queues without a program, so that it takes fewer.
fn network(test: &str) -> Option<(Lab, Namespace)> {
    if !need_root(test) {
        return None;
    }
    let name = format!("knob{}-{test}", std::process::id());
    let config = LabConfig { name, queues: 2, xdp_pass: false, ..LabConfig::default() };
    let lab = Lab::up(&config).unwrap();
    let namespace = Namespace::open(&lab.status().receiver_namespace).unwrap();
    Some((lab, namespace))
}

fn planned(setting: SettingRequest, namespace: &Namespace) -> anyhow::Result<Vec<Knob>> {
    let request = Request::Interface { interface: "rx0".into(), setting };
    Knob::plan(&request, Some(namespace))
}

fn queues_now(namespace: &Namespace) -> u32 {
    in_namespace(namespace, || Ok(netdev::channels("rx0")?.receiving())).unwrap()
}

#[test]
fn queues_are_turned_and_put_back_unless_somebody_changed_them() {
    let Some((lab, namespace)) = network("queues") else { return };
    assert_eq!(planned(SettingRequest::Queues { count: 2 }, &namespace).unwrap(), []);
    for count in [0, 3] {
        let error = planned(SettingRequest::Queues { count }, &namespace).unwrap_err().to_string();
        assert!(error.contains("1 to 2"), "{error}");
    }
    let mut knobs = planned(SettingRequest::Queues { count: 1 }, &namespace).unwrap();
    assert_eq!((knobs.len(), queues_now(&namespace)), (1, 2), "a plan changes nothing");
    knobs[0].turn().unwrap();
    assert_eq!(queues_now(&namespace), 1);
    assert_eq!(knobs[0].name(), "receive queues of rx0");
    let text = serde_json::to_string(&knobs[0]).unwrap();
    let read: Knob = serde_json::from_str(&text).unwrap();
    assert_eq!(read, knobs[0]);
    assert_eq!(read.put_back().unwrap(), PutBack::Done);
    assert_eq!(queues_now(&namespace), 2);
    assert_eq!(read.put_back().unwrap(), PutBack::Done, "once more does no harm");
    drop(lab);
    drop(namespace);
    assert!(matches!(read.put_back().unwrap(), PutBack::Left(_)), "the interface is gone");
}

#[test]
fn features_are_turned_and_those_of_sending_are_refused() {
    let Some((_lab, namespace)) = network("features") else { return };
    let setting = |feature: &str, on| SettingRequest::Feature { feature: feature.into(), on };
    let is_on = || {
        in_namespace(&namespace, || Ok(netdev::features("rx0")?.active.contains("rx-gro"))).unwrap()
    };
    let before = is_on();
    let mut knobs = planned(setting("rx-gro", !before), &namespace).unwrap();
    knobs[0].turn().unwrap();
    assert_eq!(is_on(), !before);
    assert_eq!(planned(setting("rx-gro", !before), &namespace).unwrap(), []);
    assert_eq!(knobs[0].put_back().unwrap(), PutBack::Done);
    assert_eq!(is_on(), before);
    for refused in ["tx-tcp-segmentation", "rx-none"] {
        assert!(planned(setting(refused, true), &namespace).is_err(), "{refused}");
    }
}

#[test]
fn each_napi_is_put_back_to_its_own_setting() {
    let Some((_lab, namespace)) = network("napi") else { return };
    // A NAPI is there once GRO is on.
    let gro = SettingRequest::Feature { feature: "rx-gro".into(), on: true };
    planned(gro, &namespace).unwrap().iter_mut().for_each(|knob| knob.turn().unwrap());
    let settings = || {
        let napis = in_namespace(&namespace, || napis("rx0")).unwrap();
        napis.into_iter().map(|napi| napi.settings).collect::<Option<Vec<_>>>()
    };
    let Some(before) = settings() else {
        ringside_testkit::skip("each_napi_is_put_back", "a kernel before 6.13");
        return;
    };
    let setting = SettingRequest::Napi {
        queue: 1,
        defer_hard_irqs: 2,
        gro_flush_timeout_ns: 200_000,
        irq_suspend_timeout_ns: 0,
    };
    let mut knobs = planned(setting, &namespace).unwrap();
    knobs[0].turn().unwrap();
    let now = settings().unwrap();
    assert_eq!((now[0], now[1].defer_hard_irqs), (before[0], 2));
    // Somebody else turns it further: that stays.
    let other = SettingRequest::Napi {
        queue: 1,
        defer_hard_irqs: 9,
        gro_flush_timeout_ns: 1,
        irq_suspend_timeout_ns: 0,
    };
    let mut further = planned(other, &namespace).unwrap();
    further[0].turn().unwrap();
    assert!(matches!(knobs[0].put_back().unwrap(), PutBack::Left(_)));
    assert_eq!(further[0].put_back().unwrap(), PutBack::Done);
    assert_eq!(knobs[0].put_back().unwrap(), PutBack::Done);
    assert_eq!(settings().unwrap(), before);
    let nowhere = SettingRequest::Napi {
        queue: 7,
        defer_hard_irqs: 0,
        gro_flush_timeout_ns: 0,
        irq_suspend_timeout_ns: 0,
    };
    assert!(planned(nowhere, &namespace).is_err());
}

#[test]
fn threads_are_given_to_every_napi() {
    let Some((_lab, namespace)) = network("threads") else { return };
    let gro = SettingRequest::Feature { feature: "rx-gro".into(), on: true };
    planned(gro, &namespace).unwrap().iter_mut().for_each(|knob| knob.turn().unwrap());
    let Ok(mut knobs) = planned(SettingRequest::ThreadedNapi { on: true }, &namespace) else {
        ringside_testkit::skip("threads_are_given_to_every_napi", "a kernel before 6.17");
        return;
    };
    assert_eq!(knobs.len(), 2);
    let threads = || {
        let napis = in_namespace(&namespace, || napis("rx0")).unwrap();
        napis.into_iter().filter(|napi| napi.thread.is_some()).count()
    };
    knobs.iter_mut().for_each(|knob| knob.turn().unwrap());
    assert_eq!(threads(), 2);
    for knob in knobs.iter().rev() {
        assert_eq!(knob.put_back().unwrap(), PutBack::Done);
    }
    assert_eq!(threads(), 0);
}

#[test]
fn an_interface_without_rss_is_refused_unless_it_has_one_queue() {
    let Some((_lab, namespace)) = network("rss") else { return };
    let error = planned(SettingRequest::SymmetricRss, &namespace).unwrap_err().to_string();
    assert!(error.contains("rx0 has no RSS"), "{error}");
    assert!(planned(SettingRequest::EvenRss, &namespace).is_err());
    assert!(planned(SettingRequest::ReceiveRing { descriptors: 512 }, &namespace).is_err());
    planned(SettingRequest::Queues { count: 1 }, &namespace).unwrap()[0].turn().unwrap();
    assert_eq!(planned(SettingRequest::SymmetricRss, &namespace).unwrap(), []);
}

#[test]
fn a_program_that_another_library_left_is_taken_off_and_no_later_one() {
    let Some((_lab, namespace)) = network("xdp") else { return };
    let programs =
        || in_namespace(&namespace, || Ok(netdev::by_name("rx0")?.unwrap().xdp_programs)).unwrap();
    // As such a library does: by netlink, to stay.
    let put_on = || {
        in_namespace(&namespace, || {
            let ifindex = netdev::by_name("rx0")?.unwrap().ifindex;
            XdpProgram::pass()?.attach(ifindex)?.keep();
            Ok(())
        })
        .unwrap();
    };
    assert_eq!(planned(SettingRequest::XdpPrograms, &namespace).unwrap(), [], "there is none");
    put_on();
    let left = programs();
    let mut knobs = planned(SettingRequest::XdpPrograms, &namespace).unwrap();
    knobs[0].turn().unwrap();
    assert_eq!((left.len(), programs()), (1, left), "nothing changes before the end");
    assert_eq!(knobs[0].name(), "XDP program of rx0");
    let text = serde_json::to_string(&knobs[0]).unwrap();
    assert_eq!(serde_json::from_str::<Knob>(&text).unwrap(), knobs[0]);
    assert_eq!(knobs[0].put_back().unwrap(), PutBack::Done);
    assert_eq!(programs(), Vec::<u32>::new());
    assert_eq!(knobs[0].put_back().unwrap(), PutBack::Done, "once more does no harm");
    // What stands there later is another's.
    put_on();
    assert!(matches!(knobs[0].put_back().unwrap(), PutBack::Left(_)));
    assert_eq!(programs().len(), 1);
}
