//! How often somebody may show a wrong secret: guessing is hopeless, and this keeps it from costing anything.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// How many wrong secrets an address may show at once.
const BURST: u32 = 20;
/// After this long it may show one more.
const EACH: Duration = Duration::from_secs(1);
/// Addresses that are remembered. Beyond them the one that is closest to being forgiven is forgotten.
const ADDRESSES_MAX: usize = 4096;

/// Who showed wrong secrets: until when each address has something to make good.
#[derive(Debug, Default)]
pub(crate) struct Failures(Mutex<HashMap<IpAddr, Instant>>);

impl Failures {
    /// Whether an address has shown as many as it may.
    pub(crate) fn are_too_many(&self, address: IpAddr, now: Instant) -> bool {
        let until = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key(address)).copied();
        until.is_some_and(|until| until.saturating_duration_since(now) > EACH * (BURST - 1))
    }

    /// Notes one, and whether it was one of those that an address may have.
    pub(crate) fn may_fail(&self, address: IpAddr, now: Instant) -> bool {
        let may = !self.are_too_many(address, now);
        if may {
            self.note(address, now);
        }
        may
    }

    fn note(&self, address: IpAddr, now: Instant) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = key(address);
        if all.len() >= ADDRESSES_MAX && !all.contains_key(&key) {
            all.retain(|_, until| *until > now);
            if all.len() >= ADDRESSES_MAX {
                let first = all.iter().min_by_key(|(_, until)| **until).map(|(address, _)| *address);
                first.and_then(|first| all.remove(&first));
            }
        }
        let until = all.entry(key).or_insert(now);
        // No more than there is to make good for what is allowed at once: it is over soon after the last one.
        *until = ((*until).max(now) + EACH).min(now + EACH * BURST);
    }
}

/// Whoever has one address of version 6 has 64 bits of them.
fn key(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use duramen_base::clock;

    /// H6.
    #[test]
    fn an_address_may_fail_so_often_and_then_once_a_second() {
        let (failures, begin) = (Failures::default(), clock::now());
        let one: IpAddr = "192.0.2.1".parse().unwrap();
        for _ in 0..BURST {
            assert!(!failures.are_too_many(one, begin));
            failures.note(one, begin);
        }
        assert!(failures.are_too_many(one, begin));
        for _ in 0..1000 {
            failures.note(one, begin);
        }
        assert!(!failures.are_too_many(one, begin + EACH), "however many there were");
        assert!(!failures.are_too_many("192.0.2.2".parse().unwrap(), begin));
        let of_six = |last: &str| -> IpAddr { format!("2001:db8::{last}").parse().unwrap() };
        for _ in 0..BURST {
            failures.note(of_six("1"), begin);
        }
        assert!(failures.are_too_many(of_six("2"), begin));
    }

    /// H6.
    #[test]
    fn no_more_addresses_are_remembered_than_there_is_room_for() {
        let (failures, begin) = (Failures::default(), clock::now());
        let address = |number: u32| IpAddr::from(number.to_be_bytes());
        for number in 0..ADDRESSES_MAX as u32 + 10 {
            failures.note(address(number), begin + Duration::from_micros(u64::from(number)));
        }
        let all = failures.0.lock().unwrap();
        assert_eq!(all.len(), ADDRESSES_MAX);
        assert!(!all.contains_key(&address(0)) && all.contains_key(&address(ADDRESSES_MAX as u32 + 9)));
    }
}
