//! Sorted, merged lists of ranges.

use ringside_wire::{EtherType, IpProtocol, Port};
use std::net::{Ipv4Addr, Ipv6Addr};

/// A value of a finite, ordered kind, so that ranges of it can be merged.
pub trait Ordinal: Copy + Ord {
    /// Lowest value.
    const FIRST: Self;
    /// Highest value.
    const LAST: Self;

    /// The value after this one; none after the highest.
    fn after(self) -> Option<Self>;
}

macro_rules! ordinal {
    ($($name:ident),*) => {$(
        impl Ordinal for $name {
            const FIRST: $name = $name(0);
            const LAST: $name = $name(!0);

            fn after(self) -> Option<$name> {
                self.0.checked_add(1).map($name)
            }
        }
    )*};
}

ordinal!(EtherType, IpProtocol, Port);

impl Ordinal for u32 {
    const FIRST: u32 = 0;
    const LAST: u32 = u32::MAX;

    fn after(self) -> Option<u32> {
        self.checked_add(1)
    }
}

impl Ordinal for Ipv4Addr {
    const FIRST: Ipv4Addr = Ipv4Addr::UNSPECIFIED;
    const LAST: Ipv4Addr = Ipv4Addr::BROADCAST;

    fn after(self) -> Option<Ipv4Addr> {
        self.to_bits().checked_add(1).map(Ipv4Addr::from_bits)
    }
}

impl Ordinal for Ipv6Addr {
    const FIRST: Ipv6Addr = Ipv6Addr::UNSPECIFIED;
    const LAST: Ipv6Addr = Ipv6Addr::from_bits(!0);

    fn after(self) -> Option<Ipv6Addr> {
        self.to_bits().checked_add(1).map(Ipv6Addr::from_bits)
    }
}

/// The values from `first` to `last`, both included; never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span<T> {
    first: T,
    last: T,
}

impl<T: Ordinal> Span<T> {
    /// A span; none if `last` is below `first`.
    pub fn new(first: T, last: T) -> Option<Span<T>> {
        (first <= last).then_some(Span { first, last })
    }

    /// One value.
    pub fn single(value: T) -> Span<T> {
        Span { first: value, last: value }
    }

    /// Lowest value.
    pub fn first(&self) -> T {
        self.first
    }

    /// Highest value, included.
    pub fn last(&self) -> T {
        self.last
    }
}

/// A set of values as spans: sorted, disjoint, and with a gap between any two. Equal sets are equal
/// whatever list they were made of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ranges<T> {
    spans: Box<[Span<T>]>,
}

impl<T: Ordinal> Ranges<T> {
    /// Sorts and merges `spans`.
    pub fn new(mut spans: Vec<Span<T>>) -> Ranges<T> {
        if !spans.is_sorted() {
            spans.sort_unstable();
        }
        // `dedup_by` hands the later element first; it goes if the earlier one takes it in.
        spans.dedup_by(|next, kept| {
            let touches = kept.last.after().is_none_or(|after| next.first <= after);
            if touches {
                kept.last = kept.last.max(next.last);
            }
            touches
        });
        Ranges { spans: spans.into_boxed_slice() }
    }

    /// One value.
    pub fn single(value: T) -> Ranges<T> {
        Ranges { spans: Box::new([Span::single(value)]) }
    }

    /// Every value.
    pub fn all() -> Ranges<T> {
        Ranges { spans: Box::new([Span { first: T::FIRST, last: T::LAST }]) }
    }

    /// True if `value` lies in one of the spans; a binary search.
    pub fn contains(&self, value: T) -> bool {
        let at = self.spans.partition_point(|span| span.last < value);
        self.spans.get(at).is_some_and(|span| span.first <= value)
    }

    /// The spans, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Span<T>> {
        self.spans.iter()
    }

    /// How many spans there are.
    pub fn span_count(&self) -> usize {
        self.spans.len()
    }

    /// True if no value is in the set.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// True if every value is in the set.
    pub fn is_all(&self) -> bool {
        matches!(*self.spans, [span] if span.first == T::FIRST && span.last == T::LAST)
    }

    /// The only value, if there is one and no other.
    pub fn only(&self) -> Option<T> {
        match *self.spans {
            [span] if span.first == span.last => Some(span.first),
            _ => None,
        }
    }
}

impl<T> From<Span<T>> for Ranges<T> {
    fn from(span: Span<T>) -> Ranges<T> {
        Ranges { spans: Box::new([span]) }
    }
}

impl<T> Default for Ranges<T> {
    /// No value.
    fn default() -> Ranges<T> {
        Ranges { spans: Box::new([]) }
    }
}

impl<'r, T: Ordinal> IntoIterator for &'r Ranges<T> {
    type Item = &'r Span<T>;
    type IntoIter = std::slice::Iter<'r, Span<T>>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ports(spans: &[(u16, u16)]) -> Ranges<Port> {
        let span = |&(first, last): &(u16, u16)| Span::new(Port(first), Port(last)).unwrap();
        Ranges::new(spans.iter().map(span).collect())
    }

    #[test]
    fn lists_are_sorted_and_merged() {
        assert_eq!(ports(&[(80, 90), (1, 2), (85, 100), (3, 4)]), ports(&[(1, 4), (80, 100)]));
        assert_eq!(ports(&[(0, 65_535), (65_535, 65_535), (7, 7)]), Ranges::all());
        assert_eq!(ports(&[(1, 9), (2, 3), (5, 6)]), ports(&[(1, 9)]));
        assert_eq!(ports(&[(7, 7)]).only(), Some(Port(7)));
        assert!(ports(&[(0, 65_535)]).is_all() && !ports(&[(0, 65_534)]).is_all());
        assert!(ports(&[]).is_empty() && !ports(&[]).contains(Port(0)));
        assert_eq!(Span::new(Port(2), Port(1)), None);
        let end = Ipv6Addr::from_bits(u128::MAX);
        assert_eq!(Ranges::new(vec![Span::single(end); 3]).only(), Some(end));
    }

    proptest! {
        #[test]
        fn a_value_is_contained_as_in_the_list(
            list in prop::collection::vec((0u16..200, 0u16..20), 0..30), value in 0u16..250,
        ) {
            let spans: Vec<(u16, u16)> = list.iter().map(|&(at, more)| (at, at + more)).collect();
            let ranges = ports(&spans);
            let expected = spans.iter().any(|&(first, last)| (first..=last).contains(&value));
            prop_assert_eq!(ranges.contains(Port(value)), expected);
            let gaps = ranges.spans.windows(2).all(|pair| pair[0].last.0 + 1 < pair[1].first.0);
            prop_assert!(gaps, "{:?}", ranges);
        }
    }
}
