//! Which handles are ours: a table that a signal handler may read.

use crate::handle::Handle;
use crate::real::PcapT;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Handles of ours that a process may have at a time. Each is looked for one by one.
const HANDLES_MAX: usize = 64;

struct Place {
    /// What the program has in its hands: a handle of libpcap.
    key: AtomicPtr<PcapT>,
    handle: AtomicPtr<Handle>,
}

static PLACES: [Place; HANDLES_MAX] =
    [const { Place { key: AtomicPtr::new(null_mut()), handle: AtomicPtr::new(null_mut()) } };
        HANDLES_MAX];

/// Keeps a handle under a key; gives it back if there is no room.
pub(crate) fn insert(key: *mut PcapT, handle: Box<Handle>) -> Result<(), Box<Handle>> {
    let handle = Box::into_raw(handle);
    for place in &PLACES {
        let free = null_mut();
        if place.handle.compare_exchange(free, handle, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        {
            // The key last: who finds it finds the handle.
            place.key.store(key, Ordering::Release);
            return Ok(());
        }
    }
    // SAFETY: made by Box::into_raw above, and nowhere else yet.
    Err(unsafe { Box::from_raw(handle) })
}

/// The handle of that key, if it is ours.
///
/// # Safety
/// It is not closed as long as the answer is used: what C asks of every handle.
pub(crate) unsafe fn find<'h>(key: *mut PcapT) -> Option<&'h Handle> {
    let place = PLACES.iter().find(|place| place.key.load(Ordering::Acquire) == key)?;
    if key.is_null() {
        return None;
    }
    // SAFETY: a handle that was put there by `insert` and that, by the caller's promise, `remove`
    // does not take meanwhile; null before and after.
    unsafe { place.handle.load(Ordering::Acquire).as_ref() }
}

/// Takes the handle of that key away.
///
/// # Safety
/// It is not used any more.
pub(crate) unsafe fn remove(key: *mut PcapT) -> Option<Box<Handle>> {
    if key.is_null() {
        return None;
    }
    let place = PLACES.iter().find(|place| place.key.load(Ordering::Acquire) == key)?;
    place.key.store(null_mut(), Ordering::Release);
    let handle = place.handle.swap(null_mut(), Ordering::AcqRel);
    // SAFETY: made by Box::into_raw in `insert`, and taken once: the place is empty now.
    (!handle.is_null()).then(|| unsafe { Box::from_raw(handle) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;

    #[test]
    fn handles_are_found_until_they_are_removed_and_too_many_are_refused() {
        let handle = || Box::new(Handle::new(Ok(Device::Shared("/none".into()))));
        let keys: Vec<*mut PcapT> = (1..=HANDLES_MAX + 1).map(|key| (key * 64) as _).collect();
        let (last, others) = keys.split_last().unwrap();
        assert!(others.iter().all(|&key| insert(key, handle()).is_ok()));
        assert!(insert(*last, handle()).is_err());
        // SAFETY: only this thread knows these handles.
        unsafe {
            assert!(others.iter().all(|&key| find(key).is_some()));
            assert!(find(*last).is_none() && find(null_mut()).is_none());
            assert!(remove(others[7]).is_some() && remove(others[7]).is_none());
            assert!(find(others[7]).is_none());
            assert!(insert(*last, handle()).is_ok() && find(*last).is_some());
            assert!(keys.iter().filter_map(|&key| remove(key)).count() == HANDLES_MAX);
        }
    }
}
