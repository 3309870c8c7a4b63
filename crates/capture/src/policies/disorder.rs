//! How many frames lie behind a later one.

/// Flows that the frames are of, at random.
pub const FLOWS: usize = 256;

/// Frames out of order, as RFC 4737 counts them: each that comes after one with a higher number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disorder {
    /// Frames that were seen.
    pub frames: u64,
    /// Of these, behind a later one.
    pub out_of_order: u64,
    /// Of these, behind a later one of their own flow.
    pub out_of_order_in_flow: u64,
    /// One more than the highest number so far; 0 before it.
    next: u64,
    next_of_flow: [u64; FLOWS],
}

impl Default for Disorder {
    fn default() -> Disorder {
        Disorder {
            frames: 0,
            out_of_order: 0,
            out_of_order_in_flow: 0,
            next: 0,
            next_of_flow: [0; FLOWS],
        }
    }
}

impl Disorder {
    /// The next frame has this number.
    pub(super) fn see(&mut self, number: u64) {
        let behind = |next: &mut u64| {
            let is_behind = number < *next;
            *next = (*next).max(number.saturating_add(1));
            u64::from(is_behind)
        };
        self.frames += 1;
        self.out_of_order += behind(&mut self.next);
        self.out_of_order_in_flow += behind(&mut self.next_of_flow[flow(number)]);
    }
}

/// The flow of a frame.
fn flow(number: u64) -> usize {
    (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % FLOWS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_behind_a_later_one_is_counted_once() {
        let mut disorder = Disorder::default();
        [0, 1, 4, 2, 3, 5].into_iter().for_each(|number| disorder.see(number));
        assert_eq!((disorder.frames, disorder.out_of_order), (6, 2));
        assert!(disorder.out_of_order_in_flow <= 2);
    }

    #[test]
    fn within_a_flow_only_its_own_frames_count() {
        let same = (1..).find(|&number| flow(number) == flow(0)).unwrap_or_default();
        let mut disorder = Disorder::default();
        [same, 0].into_iter().for_each(|number| disorder.see(number));
        assert_eq!((disorder.out_of_order, disorder.out_of_order_in_flow), (1, 1));
        let other = (1..).find(|&number| flow(number) != flow(0)).unwrap_or_default();
        let mut disorder = Disorder::default();
        [other, 0].into_iter().for_each(|number| disorder.see(number));
        assert_eq!((disorder.out_of_order, disorder.out_of_order_in_flow), (1, 0));
    }
}
