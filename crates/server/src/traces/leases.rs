//! In which trace a branch was leased, until somebody enters it.

use duramen_traces::Traceparent;
use std::collections::{HashMap, VecDeque};

/// How many branches are remembered; of more, the oldest are forgotten, and their first clients have no span.
const MAX: usize = 4_096;

/// The leases of sampled traces whose branches nobody has entered yet.
#[derive(Debug, Default)]
pub(super) struct Leases {
    of: HashMap<String, Traceparent>,
    /// Also those that were taken since.
    order: VecDeque<String>,
}

impl Leases {
    /// Remembers the span in which a branch was leased.
    pub(super) fn remember(&mut self, branch: String, span: Traceparent) {
        if self.order.len() >= MAX {
            if let Some(oldest) = self.order.pop_front() {
                self.of.remove(&oldest);
            }
        }
        self.order.push_back(branch.clone());
        self.of.insert(branch, span);
    }

    /// The span in which a branch was leased, for the first one who asks.
    pub(super) fn take(&mut self, branch: &str) -> Option<Traceparent> {
        self.of.remove(branch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_are_forgotten_and_each_is_told_once() {
        let span = Traceparent { trace: [1; 16], span: [2; 8], sampled: true };
        let mut leases = Leases::default();
        for number in 0..=MAX {
            leases.remember(number.to_string(), span);
        }
        assert_eq!(leases.take("0"), None);
        assert_eq!(leases.take("1"), Some(span));
        assert_eq!(leases.take("1"), None);
        for number in 0..MAX {
            leases.remember(format!("more {number}"), span);
        }
        assert_eq!((leases.of.len(), leases.order.len()), (MAX, MAX));
    }
}
