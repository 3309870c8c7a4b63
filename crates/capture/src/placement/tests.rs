use super::*;

/// Nodes with their CPUs, by number.
fn nodes(cpus: &[&[usize]]) -> Vec<NumaNode> {
    let node = |(id, cpus): (usize, &&[usize])| NumaNode { id, cpus: cpus.to_vec() };
    cpus.iter().enumerate().map(node).collect()
}

/// A machine of one node, and one interface with as many lanes as queues.
fn one_node(cpus: usize, queues: &[&[usize]], lanes: usize) -> PlacementFacts {
    let all: Vec<usize> = (0..cpus).collect();
    let queue = |lane: usize| (queues.len() == lanes).then_some(lane);
    PlacementFacts {
        nodes: nodes(&[&all]),
        allowed: all,
        interfaces: vec![InterfaceFacts {
            name: "eth1".into(),
            node: None,
            queues: queues.iter().map(|cpus| cpus.to_vec()).collect(),
        }],
        lanes: (0..lanes)
            .map(|lane| LaneFacts { interface: 0, queue: queue(lane), threads: 1 })
            .collect(),
        disks: Vec::new(),
    }
}

#[test]
fn workers_on_a_machine_of_one_node() {
    type Case = (&'static str, usize, &'static [&'static [usize]], usize, &'static [usize]);
    let cases: [Case; 15] = [
        ("one lane, unknown: to the scheduler", 4, &[&[]], 1, &[]),
        ("one lane, no queues told", 4, &[], 1, &[]),
        ("one lane, polled anywhere", 2, &[&[0, 1]], 1, &[]),
        ("one lane, polled on 0", 2, &[&[0]], 1, &[1]),
        ("one lane, polled on 1", 2, &[&[1]], 1, &[0]),
        ("one lane, one CPU", 1, &[&[0]], 1, &[]),
        ("one lane fed by two queues is unknown", 2, &[&[0], &[1]], 1, &[]),
        ("several, unknown: in turn, as ever", 2, &[&[], &[]], 3, &[0, 1, 0]),
        ("two queues, two CPUs: each where its own is", 2, &[&[0], &[1]], 2, &[0, 1]),
        ("two queues the other way round", 2, &[&[1], &[0]], 2, &[1, 0]),
        ("two queues, four CPUs: all apart", 4, &[&[0], &[1]], 2, &[2, 3]),
        ("two queues, three CPUs", 3, &[&[0], &[1]], 2, &[2, 1]),
        ("both polled on 0, two CPUs", 2, &[&[0], &[0]], 2, &[1, 1]),
        ("three lanes of any queue avoid what is polled", 3, &[&[0]], 3, &[1, 2, 0]),
        ("one polled on two of four", 4, &[&[0, 1], &[]], 2, &[2, 3]),
    ];
    for (name, cpus, queues, lanes, expected) in cases {
        let plan = plan(&one_node(cpus, queues, lanes));
        assert_eq!(plan.workers, expected, "{name}: {plan:?}");
        assert_eq!(plan.memory_node, None, "{name}");
        assert_eq!(plan.reason.is_empty(), expected.is_empty(), "{name}: {plan:?}");
    }
}

#[test]
fn the_reason_names_the_cpu_of_the_napi() {
    let plan = plan(&one_node(2, &[&[0]], 1));
    assert_eq!(plan.reason, "eth1 lane 0 on CPU 1 (its queue is polled on CPU 0)");
    let many = super::plan(&one_node(4, &[], 12));
    assert_eq!(many.reason, "12 workers on CPUs 0-3");
}

#[test]
fn each_thread_of_a_lane_has_its_place() {
    for (cpus, queues, threads, expected) in [
        (2, &[0][..], 2, &[1, 0][..]),
        (4, &[0], 3, &[1, 2, 3]),
        (4, &[], 3, &[]),
        (3, &[0, 1], 2, &[2, 0, 1, 2]),
    ] {
        let queues: Vec<Vec<usize>> = queues.iter().map(|&cpu| vec![cpu]).collect();
        let lists: Vec<&[usize]> = queues.iter().map(Vec::as_slice).collect();
        let mut facts = one_node(cpus, &lists, lists.len().max(1));
        facts.lanes.iter_mut().for_each(|lane| lane.threads = threads);
        assert_eq!(plan(&facts).workers, expected, "{facts:?}");
    }
    let mut facts = one_node(2, &[&[0]], 1);
    facts.lanes[0].threads = 2;
    assert_eq!(plan(&facts).reason, "eth1 lane 0 on CPU 1 and 0 (its queue is polled on CPU 0)");
}

/// Two nodes of four CPUs.
fn two_nodes(card: Option<usize>, allowed: &[usize], disks: &[Option<usize>]) -> PlacementFacts {
    PlacementFacts {
        nodes: nodes(&[&[0, 1, 2, 3], &[4, 5, 6, 7]]),
        allowed: allowed.to_vec(),
        interfaces: vec![InterfaceFacts { name: "eth1".into(), node: card, queues: vec![] }],
        lanes: vec![LaneFacts { interface: 0, queue: None, threads: 1 }; 2],
        disks: disks.to_vec(),
    }
}

#[test]
fn workers_go_next_to_the_card_and_writers_next_to_the_disk() {
    let all: Vec<usize> = (0..8).collect();
    let (workers, writers) = (|p: &Plan| p.workers.clone(), |p: &Plan| p.writers.clone());
    let near = plan(&two_nodes(Some(1), &all, &[Some(0), Some(1), None]));
    assert_eq!(workers(&near), [4, 5]);
    assert_eq!(writers(&near), [vec![0, 1, 2, 3], vec![6, 7], vec![]]);
    assert_eq!(near.memory_node, Some(1));
    let expected = "eth1 lane 0 on CPU 4 beside the card, eth1 lane 1 on CPU 5 beside the card, \
                    a writer beside its disk on CPU 0-3, a writer beside its disk on CPU 6-7, \
                    memory of NUMA node 1, that of the card";
    assert_eq!(near.reason, expected);
    let forbidden = plan(&two_nodes(Some(1), &[0, 2], &[Some(1)]));
    assert_eq!((workers(&forbidden), writers(&forbidden)), (vec![0, 2], vec![vec![]]));
    let unknown = plan(&two_nodes(None, &all, &[]));
    assert_eq!((workers(&unknown), unknown.memory_node), (vec![0, 1], None));
    let taken = plan(&two_nodes(Some(1), &[0, 4], &[Some(1)]));
    assert_eq!((workers(&taken), writers(&taken)), (vec![4, 4], vec![vec![4]]));
}

#[test]
fn one_lane_next_to_a_card_is_placed_without_knowing_the_napi() {
    let mut facts = two_nodes(Some(1), &[0, 1, 4, 5], &[]);
    facts.lanes.truncate(1);
    assert_eq!(plan(&facts).workers, [4]);
    facts.interfaces[0].queues = vec![vec![4]];
    assert_eq!(plan(&facts).workers, [5]);
}

#[test]
fn cards_on_different_nodes_share_no_memory() {
    let mut facts = two_nodes(Some(1), &[0, 1, 4, 5], &[]);
    facts.interfaces.push(InterfaceFacts { node: Some(0), ..facts.interfaces[0].clone() });
    facts.lanes[1].interface = 1;
    let plan = plan(&facts);
    assert_eq!((&plan.workers[..], plan.memory_node), (&[4, 0][..], None));
}

#[test]
fn this_machine_can_be_asked() {
    let lanes = vec![LaneFacts { interface: 0, queue: None, threads: 1 }];
    let names = ["lo".to_owned(), "rsafp-none".to_owned()];
    let facts = PlacementFacts::of(&names, lanes, &["/", "rsafp-none"]).unwrap();
    assert_eq!(facts.interfaces.len(), 2);
    assert_eq!(facts.disks.len(), 2);
    assert!(!facts.allowed.is_empty());
    assert!(plan(&facts).workers.is_empty(), "{facts:?}");
}
