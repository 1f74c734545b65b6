//! How much an answer may cost. What follows from a few grants can be more than any machine holds: who answers others about files that
//! anybody may have written sets a bound.

use std::cell::Cell;
use std::ops::ControlFlow;

/// Steps that an answer may take. A step takes some nanoseconds, and at most 16 bytes of memory while the answer is found.
///
/// ```
/// use duramen_access::expand::Budget;
/// assert_eq!(Budget::new(10).left(), 10);
/// ```
#[derive(Debug)]
pub struct Budget {
    left: Cell<u64>,
    is_over: Cell<bool>,
}

/// The answer would have cost more than it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the answer follows from too many grants; ask for less, or use `duramen pack` on the machine")]
pub struct OverBudget;

impl Budget {
    /// So many steps.
    #[must_use]
    pub fn new(steps: u64) -> Budget {
        Budget { left: Cell::new(steps), is_over: Cell::new(false) }
    }

    /// As many as it takes.
    pub(super) fn unlimited() -> Budget {
        Budget::new(u64::MAX)
    }

    /// The steps that are left.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.left.get()
    }

    /// Takes steps, before they are done.
    pub(super) fn spend(&self, steps: usize) -> ControlFlow<()> {
        match self.left.get().checked_sub(steps as u64) {
            Some(left) => {
                self.left.set(left);
                ControlFlow::Continue(())
            }
            None => {
                self.is_over.set(true);
                ControlFlow::Break(())
            }
        }
    }

    /// Whether more was wanted than there was.
    pub(super) fn check(&self) -> Result<(), OverBudget> {
        if self.is_over.get() {
            Err(OverBudget)
        } else {
            Ok(())
        }
    }
}
