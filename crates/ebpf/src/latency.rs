//! Which numbered frames arrived, and how long stamped ones were under way, measured inside the
//! driver (`bpf/xdp_latency.bpf.c`).

use crate::abi::{LATENCY_CLASSES, LatencyCounts, latency_class};
use crate::load::{Embedded, embedded};
use crate::{Attachment, Error, XdpProgram};
use libbpf_rs::{MapCore, MapFlags, MapHandle};

static XDP_LATENCY: Embedded = embedded!("xdp_latency");

/// A program that counts and discards numbered frames; read it while it is on an interface.
pub struct LatencyMeter {
    counts: MapHandle,
    classes: MapHandle,
}

/// What was counted since the start, or since the last [`LatencyMeter::clear`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// Frames that bore a number.
    pub frames: u64,
    /// Frames after one with a higher number on the same CPU; of one sending thread.
    pub reordered: u64,
    /// Frames whose stamp is in the future, which are in no class: clocks that disagree.
    pub early: u64,
    /// Times under way: first time of the class in nanoseconds, its width, and its frames;
    /// ascending, only classes that have some.
    pub classes: Vec<(u64, u64, u64)>,
}

impl LatencyMeter {
    /// Loads it; the program is for the interface where frames arrive.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn load() -> Result<(LatencyMeter, XdpProgram), Error> {
        let program = XdpProgram::new(&XDP_LATENCY)?;
        let (counts, classes) = (program.map("counts")?, program.map("classes")?);
        Ok((LatencyMeter { counts, classes }, program))
    }

    /// Loads it and attaches it to an interface of the calling thread's network namespace.
    ///
    /// # Errors
    /// As [`XdpProgram::attach`].
    pub fn attach(ifindex: u32) -> Result<(LatencyMeter, Attachment), Error> {
        let (meter, program) = LatencyMeter::load()?;
        Ok((meter, program.attach(ifindex)?))
    }

    /// What was counted.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn read(&self) -> Result<Latencies, Error> {
        let mut all = Latencies::default();
        for bytes in values(&self.counts, 0)? {
            let counts = LatencyCounts::from_bytes(&bytes).unwrap_or_default();
            all.frames += counts.frames;
            all.reordered += counts.reordered;
            all.early += counts.early;
        }
        for class in 0..LATENCY_CLASSES {
            let count = values(&self.classes, class as u32)?
                .iter()
                .filter_map(|bytes| bytes.first_chunk::<8>())
                .map(|bytes| u64::from_ne_bytes(*bytes))
                .sum::<u64>();
            if count > 0 {
                let (first, width) = latency_class(class);
                all.classes.push((first, width, count));
            }
        }
        Ok(all)
    }

    /// Frames that bore a number, so far: quicker than all.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn frames(&self) -> Result<u64, Error> {
        let counts = values(&self.counts, 0)?;
        let counts = counts.iter().filter_map(|bytes| LatencyCounts::from_bytes(bytes));
        Ok(counts.map(|counts| counts.frames).sum())
    }

    /// Begins anew; no frame may be under way.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn clear(&self) -> Result<(), Error> {
        clear(&self.counts, 0)?;
        (0..LATENCY_CLASSES as u32).try_for_each(|class| clear(&self.classes, class))
    }
}

/// An entry of a map, of each CPU.
fn values(map: &MapHandle, key: u32) -> Result<Vec<Vec<u8>>, Error> {
    let values = map.lookup_percpu(&key.to_ne_bytes(), MapFlags::ANY);
    let values = values.map_err(|e| Error::kernel("cannot read what was measured", e))?;
    Ok(values.unwrap_or_default())
}

/// Sets an entry to 0 on each CPU.
fn clear(map: &MapHandle, key: u32) -> Result<(), Error> {
    let zeros: Vec<Vec<u8>> = values(map, key)?.iter().map(|bytes| vec![0; bytes.len()]).collect();
    map.update_percpu(&key.to_ne_bytes(), &zeros, MapFlags::ANY)
        .map_err(|e| Error::kernel("cannot clear what was measured", e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;
    use ringside_testkit::need_root;

    #[test]
    fn classes_follow_each_other_and_are_narrow() {
        let mut next = 0;
        for class in 0..LATENCY_CLASSES {
            let (first, width) = latency_class(class);
            assert_eq!(first, next, "class {class}");
            assert!(width == 1 || width * 64 <= first, "class {class}");
            next = first + width;
        }
        assert!(next >= 1 << 41);
    }

    fn stamped(number: u64, sent_ns: u64) -> Vec<u8> {
        let mut frame = vec![0; 42];
        frame.extend(b"RTAI");
        frame.extend(number.to_be_bytes());
        frame.extend(&sent_ns.to_be_bytes()[2..]);
        frame
    }

    fn numbered(number: u64) -> Vec<u8> {
        [vec![0; 42], b"RINGSIDE".to_vec(), number.to_be_bytes().to_vec()].concat()
    }

    fn run(program: &mut XdpProgram, frame: &[u8]) -> Verdict {
        program.test_run(frame).unwrap().verdict
    }

    #[test]
    fn stamped_frames_are_counted_by_their_time_and_discarded() {
        if !need_root("stamped_frames_are_counted_by_their_time_and_discarded") {
            return;
        }
        let (meter, mut program) = LatencyMeter::load().unwrap();
        let now = ringside_sys::clock::tai_ns();
        let ages = [1_000_000_000u64, 1_000_000_000_000, 1 << 46];
        for (number, age) in (0..).zip(ages) {
            assert_eq!(run(&mut program, &stamped(number, now - age)), Verdict::Drop);
        }
        assert_eq!(run(&mut program, &stamped(1, now + (1 << 40))), Verdict::Drop);
        assert_eq!(run(&mut program, &stamped(9, now)[..59]), Verdict::Pass);
        assert_eq!(run(&mut program, &numbered(7)), Verdict::Drop);
        assert_eq!(run(&mut program, &numbered(7)[..57]), Verdict::Pass);
        assert_eq!(run(&mut program, &[0; 64]), Verdict::Pass);
        let read = meter.read().unwrap();
        assert_eq!((read.frames, read.reordered, read.early), (5, 1, 1));
        let classes: Vec<_> =
            read.classes.iter().map(|&(first, width, _)| (first, width)).collect();
        // The test's own time is far below the width of such classes.
        assert!(read.classes.iter().all(|&(_, _, count)| count == 1), "{read:?}");
        let holds = |age: u64| {
            classes.iter().any(|&(first, width)| first <= age + width && age < first + width)
        };
        assert!(holds(ages[0]) && holds(ages[1]), "{classes:?}");
        assert_eq!(classes.last().copied(), Some(latency_class(LATENCY_CLASSES - 1)));
        meter.clear().unwrap();
        assert_eq!(meter.read().unwrap(), Latencies::default());
    }
}
