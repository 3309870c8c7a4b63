//! A bounded number of places, of which one address has some at most; and as many for this host's
//! own clients, whatever others take.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

/// How many places are taken, by address; at most `all_max` by others and as many by this host, so
/// that the table is bounded.
#[derive(Debug)]
pub struct Places {
    all_max: usize,
    address_max: usize,
    taken: Mutex<HashMap<Option<IpAddr>, usize>>,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub struct Place {
    places: Arc<Places>,
    address: Option<IpAddr>,
}

impl Places {
    /// `all_max` places, of which one address has `address_max` at most.
    pub fn new(all_max: usize, address_max: usize) -> Arc<Places> {
        Arc::new(Places { all_max, address_max, taken: Mutex::default() })
    }

    /// A place for a client at `address` of another host; without one for a client of this host,
    /// which has places of its own. Nothing waits here.
    pub fn enter(self: &Arc<Self>, address: Option<IpAddr>) -> Option<Place> {
        let address = address.map(network);
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let of_address = taken.get(&address).copied().unwrap_or(0);
        let of_others =
            || taken.iter().filter(|(other, _)| other.is_some()).map(|(_, count)| count);
        let is_full = match address {
            None => of_address >= self.all_max,
            Some(_) => of_address >= self.address_max || of_others().sum::<usize>() >= self.all_max,
        };
        if is_full {
            return None;
        }
        taken.insert(address, of_address + 1);
        Some(Place { places: Arc::clone(self), address })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock().unwrap_or_else(PoisonError::into_inner);
        match taken.get_mut(&self.address) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(taken.remove(&self.address)),
        }
    }
}

/// What counts as one address: of IPv6 a network of 64 bits, in which a host has all there are.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_does_not_take_all_places() {
        let places = Places::new(5, 2);
        let enter = |text: &str| places.enter(Some(text.parse().unwrap()));
        let held = [enter("192.0.2.1"), enter("::ffff:192.0.2.1")];
        assert!(held.iter().all(Option::is_some));
        assert!(enter("192.0.2.1").is_none());
        let others = [enter("2001:db8::1"), enter("2001:db8::2"), enter("192.0.2.2")];
        assert!(others.iter().all(Option::is_some));
        assert!(enter("2001:db8::3").is_none(), "all of them are taken");
        drop(held);
        assert!(enter("2001:db8::3").is_none(), "its network has two");
        assert!(enter("2001:db8:0:1::3").is_some());
        drop(others);
        assert!(places.taken.lock().unwrap().is_empty());
    }

    #[test]
    fn others_do_not_keep_this_host_out_nor_it_them() {
        let places = Places::new(3, 1);
        let other = |last: u8| places.enter(Some(IpAddr::from([192, 0, 2, last])));
        let held: Vec<_> = (0..3).map(other).collect();
        assert!(held.iter().all(Option::is_some) && other(3).is_none());
        let own: Vec<_> = (0..3).map(|_| places.enter(None)).collect();
        assert!(own.iter().all(Option::is_some) && places.enter(None).is_none());
        drop(held);
        assert!(other(3).is_some());
    }
}
