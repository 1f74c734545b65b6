//! Names of several parts under numbers that are in their order.

use crate::graph::format::key;
use crate::graph::tail::intern::Interner;
use crate::graph::tail::ranks;

/// An entitlement, as grants name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntitlementName<'a> {
    /// The type of the resource that it is about.
    pub resource_type: &'a str,
    /// That resource.
    pub resource: &'a str,
    /// Its id.
    pub id: &'a str,
}

/// Names while they are gathered, under numbers in the order in which they were first seen.
#[derive(Default)]
pub(super) struct Gathered {
    names: Interner,
    key: Vec<u8>,
    /// The one that came last: rows come in groups.
    last: Option<u32>,
}

impl Gathered {
    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    pub(super) fn number(&mut self, parts: &[&str]) -> u32 {
        key::join_into(&mut self.key, parts);
        if let Some(last) = self.last.filter(|last| self.names.get(*last) == self.key) {
            return last;
        }
        let number = self.names.intern(&self.key);
        self.last = Some(number);
        number
    }

    /// The names, which have so many parts, in their order; and for each number that was given the one that it has now.
    pub(super) fn sorted(self, parts: usize) -> (Names, Vec<u32>) {
        let order = self.names.sorted();
        let (mut text, mut ends) = (String::new(), Vec::with_capacity(order.len() * parts));
        for number in &order {
            for part in self.names.get(*number).split(|byte| *byte == 0) {
                // It was made of texts.
                text.push_str(&key::component(part).unwrap_or_default());
                ends.push(text.len());
            }
        }
        (Names { text, ends, parts }, ranks(&order))
    }
}

/// Names, sorted.
pub(super) struct Names {
    text: String,
    /// Where each part ends.
    ends: Vec<usize>,
    /// How many parts each has.
    parts: usize,
}

impl Names {
    pub(super) fn len(&self) -> usize {
        self.ends.len() / self.parts
    }

    fn part(&self, number: u32, part: usize) -> &str {
        let at = number as usize * self.parts + part;
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[start..self.ends[at]]
    }

    pub(super) fn parts<const N: usize>(&self, number: u32) -> [&str; N] {
        std::array::from_fn(|part| self.part(number, part))
    }

    /// The number of a name.
    pub(super) fn find(&self, name: &[&str]) -> Option<u32> {
        let compare =
            |number: u32| (0..self.parts).map(|part| self.part(number, part)).cmp(name.iter().copied());
        let (mut low, mut high) = (0, self.len() as u32);
        while low < high {
            let middle = low + (high - low) / 2;
            match compare(middle) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Some(middle),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_whatever_is_in_them() {
        let mut gathered = Gathered::default();
        let all =
            [["b", "a"], ["a", "b\0"], ["", ""], ["ab", ""], ["a", "b"], ["a", "\u{10ffff}"], ["b", "a"]];
        let numbers: Vec<u32> = all.iter().map(|name| gathered.number(name)).collect();
        let (names, now) = gathered.sorted(2);
        assert_eq!(names.len(), 6);
        for (name, number) in all.iter().zip(numbers) {
            assert_eq!(names.find(name), Some(now[number as usize]));
            assert_eq!(names.parts::<2>(now[number as usize]), *name);
        }
        assert_eq!(names.find(&["a", "c"]), None);
        assert_eq!(Gathered::default().sorted(1).0.find(&["a"]), None);
    }
}
