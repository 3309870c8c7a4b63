//! A table whose values are due at some time.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

/// A value that says when it is due.
pub(crate) trait Due {
    /// When: it may move forward meanwhile.
    fn due_ns(&self) -> u64;
}

/// Values by key, and in the order in which they are due. A value whose time moves forward costs
/// nothing: it is found when the time comes at which it was due before.
#[derive(Debug)]
pub(crate) struct Timed<K, V> {
    places: Vec<Option<Entry<K, V>>>,
    free: Vec<u32>,
    index: HashMap<K, u32>,
    dues: BTreeSet<(u64, u32)>,
}

#[derive(Debug)]
struct Entry<K, V> {
    key: K,
    value: V,
    due_ns: u64,
}

impl<K: Clone + Eq + Hash, V: Due> Timed<K, V> {
    pub(crate) fn new() -> Timed<K, V> {
        let (places, free) = (Vec::new(), Vec::new());
        Timed { places, free, index: HashMap::new(), dues: BTreeSet::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    /// The place of a key.
    #[inline]
    pub(crate) fn find<Q: ?Sized + Eq + Hash>(&self, key: &Q) -> Option<u32>
    where
        K: std::borrow::Borrow<Q>,
    {
        self.index.get(key).copied()
    }

    /// The value at a place, if there is one.
    #[inline]
    pub(crate) fn at(&mut self, place: u32) -> Option<&mut V> {
        self.places.get_mut(place as usize)?.as_mut().map(|entry| &mut entry.value)
    }

    /// All values, in no order that means something.
    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.places.iter().flatten().map(|entry| &entry.value)
    }

    /// Puts a value under a key that is not there; its place.
    pub(crate) fn put(&mut self, key: K, value: V) -> u32 {
        let due_ns = value.due_ns();
        let entry = Some(Entry { key: key.clone(), value, due_ns });
        let place = match self.free.pop() {
            Some(place) => {
                if let Some(free) = self.places.get_mut(place as usize) {
                    *free = entry;
                }
                place
            }
            None => {
                self.places.push(entry);
                (self.places.len() - 1) as u32
            }
        };
        self.index.insert(key, place);
        self.dues.insert((due_ns, place));
        place
    }

    /// The value at a place may be due earlier than it was.
    pub(crate) fn changed(&mut self, place: u32) {
        let Some(Some(entry)) = self.places.get_mut(place as usize) else { return };
        let due_ns = entry.value.due_ns();
        if due_ns < entry.due_ns {
            self.dues.remove(&(entry.due_ns, place));
            entry.due_ns = due_ns;
            self.dues.insert((due_ns, place));
        }
    }

    pub(crate) fn remove(&mut self, place: u32) -> Option<V> {
        let entry = self.places.get_mut(place as usize)?.take()?;
        self.dues.remove(&(entry.due_ns, place));
        self.index.remove(&entry.key);
        self.free.push(place);
        Some(entry.value)
    }

    /// Time and place of the value that is due first.
    pub(crate) fn first(&mut self) -> Option<(u64, u32)> {
        loop {
            let &(due_ns, place) = self.dues.first()?;
            let entry = self.places.get_mut(place as usize)?.as_mut()?;
            let now_due_ns = entry.value.due_ns();
            if now_due_ns <= due_ns {
                return Some((due_ns, place));
            }
            self.dues.remove(&(due_ns, place));
            entry.due_ns = now_due_ns;
            self.dues.insert((now_due_ns, place));
        }
    }

    /// A time before which nothing is due.
    #[inline]
    pub(crate) fn not_before_ns(&self) -> u64 {
        self.dues.first().map_or(u64::MAX, |&(due_ns, _)| due_ns)
    }
}
