//! What keeper and worker say to each other: one JSON object a message.

use super::knob::Request;
use super::part::Part;
use serde::{Deserialize, Serialize};

/// Orders and answers, from the keeper.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToWorker {
    /// End the run in order.
    Stop,
    /// End now: who gave the order does not want to wait for the rest.
    Abort,
    /// Begin new files if they rotate, else end the run in order.
    HangUp,
    /// Say what was done so far.
    Statistics,
    /// Answers [`ToKeeper::Turn`]: why the knob is as it was, if it is.
    Turned(Result<(), String>),
}

/// What the keeper must know, from the worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToKeeper {
    /// Turn a knob; the network namespace that is meant comes as a descriptor. It is answered.
    Turn(Request),
    /// Keep this, to finish with if the worker dies.
    Leave(Part),
    /// The run begins and privileges are dropped: from now on nothing is done for the worker but
    /// to finish after it.
    Started {
        /// The files belong to another user than the keeper's.
        others_files: bool,
    },
    /// The run receives no more: its lanes need not move, and its control socket is closed, whose
    /// name the worker may lack the rights to remove.
    Received,
    /// The run has ended and its ledger is printed: whatever happens to the worker now, nothing is
    /// left to finish.
    Closed,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SettingRequest;
    use crate::part::{Asked, Destination};
    use crate::remains::Left;
    use serde::de::DeserializeOwned;
    use std::fmt::Debug;

    fn all() -> Vec<ToKeeper> {
        let destination = Destination::Recording {
            run: "1-2".into(),
            bytes_max: Some(1 << 30),
            limit_bytes: None,
            limit_age: Some(std::time::Duration::from_secs(5)),
            min_free: None,
        };
        vec![
            ToKeeper::Turn(Request::HugePages { pages: 64 }),
            ToKeeper::Turn(Request::Interface {
                interface: "eth1".into(),
                setting: SettingRequest::Stamps,
            }),
            ToKeeper::Turn(Request::Interface {
                interface: "eth1".into(),
                setting: SettingRequest::Feature { feature: "rx-gro".into(), on: false },
            }),
            ToKeeper::Turn(Request::File { path: "/sys/class/net/x".into(), value: "1".into() }),
            ToKeeper::Leave(Part::Lane {
                interface: "eth1".into(),
                interface_id: 0,
                queue: 3,
                kernel: Some(Asked {
                    backend: "af-packet".into(),
                    facts: r#"{"filtered_here":false}"#.into(),
                }),
            }),
            ToKeeper::Leave(Part::Lane {
                interface: "eth2".into(),
                interface_id: 1,
                queue: 0,
                kernel: Some(Asked {
                    backend: "af-xdp".into(),
                    facts: r#"{"other_queues":{"start":2,"end":5},"zero_copy":true}"#.into(),
                }),
            }),
            ToKeeper::Leave(Part::Memory),
            ToKeeper::Leave(Part::Output(destination)),
            ToKeeper::Leave(Part::Folder),
            ToKeeper::Leave(Part::Kept(r#"{"interface":"eth1","cpus":2}"#.into())),
            ToKeeper::Started { others_files: true },
            ToKeeper::Received,
            ToKeeper::Closed,
        ]
    }

    #[test]
    fn messages_come_back() {
        for message in all() {
            let bytes = serde_json::to_vec(&message).unwrap();
            assert_eq!(serde_json::from_slice::<ToKeeper>(&bytes).unwrap(), message);
        }
        let orders = [
            ToWorker::Stop,
            ToWorker::HangUp,
            ToWorker::Statistics,
            ToWorker::Turned(Ok(())),
            ToWorker::Turned(Err("no".into())),
        ];
        for order in orders {
            let bytes = serde_json::to_vec(&order).unwrap();
            assert_eq!(serde_json::from_slice::<ToWorker>(&bytes).unwrap(), order);
        }
    }

    /// What is read of these bytes is the same when it is written and read again.
    fn comes_back<M: Serialize + DeserializeOwned + PartialEq + Debug>(bytes: &[u8]) {
        if let Ok(message) = serde_json::from_slice::<M>(bytes) {
            let again = serde_json::to_vec(&message).unwrap();
            assert_eq!(serde_json::from_slice::<M>(&again).unwrap(), message);
        }
    }

    #[test]
    fn whatever_a_worker_says_the_keeper_lives() {
        let seeds: Vec<Vec<u8>> =
            all().iter().map(|message| serde_json::to_vec(message).unwrap()).collect();
        ringside_testkit::fuzz("keeper-messages", 500_000, &seeds, |bytes| {
            comes_back::<ToWorker>(bytes);
            comes_back::<ToKeeper>(bytes);
            if let Ok(ToKeeper::Leave(part)) = serde_json::from_slice::<ToKeeper>(bytes) {
                let mut left = Left::default();
                let memory = rustix::fs::memfd_create("x", rustix::fs::MemfdFlags::CLOEXEC);
                let _ = left.take(part.clone(), Vec::new());
                let _ = left.take(part, memory.into_iter().collect());
                assert!(left.finish().is_err(), "a part is not all");
            }
        });
    }
}
