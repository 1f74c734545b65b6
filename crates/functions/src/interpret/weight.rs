//! How much memory the results of an instance take.
//!
//! Results can double with every JOIN of two references to the same name, so that a graph of a few hundred nodes
//! could ask for more memory than there is. Results are shared, and go with the cells that are cleared: a running sum
//! would not be true for long, so they are counted from time to time.

use std::collections::HashSet;

use super::turn::Turn;
use super::types::{Failure, Outcome};
use super::MAX_RESULT_BYTES;
use crate::interpret::state::{Control, State, Status};

/// After how many bytes of new results they are counted.
const COUNT_AFTER: usize = 8 << 20;

impl Turn<'_, '_> {
    /// Notes that a result of this size has come.
    pub(super) fn admit(&mut self, bytes: usize) {
        self.state.memory.admitted += bytes;
    }

    /// Ends the instance if its results are too large.
    pub(super) fn weigh(&mut self) {
        if self.state.memory.admitted <= COUNT_AFTER {
            return;
        }
        self.state.memory.admitted = 0;
        let bytes = weight(self.state);
        if bytes > MAX_RESULT_BYTES {
            let text = format!(
                "the results of this instance have {bytes} bytes together and may have {MAX_RESULT_BYTES}: \
                 keep large results in tables, and let steps return keys"
            );
            self.give_up_all();
            self.end(Outcome::Failed(Failure::new(text)));
        }
    }

    /// Why the results of this size cannot be put together, if so.
    pub(super) fn too_large(&self, what: &str, bytes: usize) -> Option<Failure> {
        (bytes > MAX_RESULT_BYTES).then(|| {
            let text = format!(
                "{what}: the results have {bytes} bytes together and may have {MAX_RESULT_BYTES}: \
                 keep large results in tables, and let steps return keys"
            );
            Failure::new(text)
        })
    }
}

/// The bytes of all results, signals and failures that are held, each counted once.
fn weight(state: &State) -> usize {
    let mut seen = HashSet::new();
    let mut bytes = 0;
    let mut count = |text: &str| {
        if seen.insert((text.as_ptr() as usize, text.len())) {
            bytes += text.len();
        }
    };
    for frame in state.frames.values() {
        match &frame.status {
            Status::Running => {}
            Status::Completed(result) => count(result.text()),
            Status::Failed(fault) => count(&fault.failure.message),
        }
        match &frame.control {
            Control::Map(progress) => progress.done.values().for_each(|result| count(result.text())),
            Control::Handler { before: Some(before) } => count(before.text()),
            _ => {}
        }
    }
    let named = state.scopes.values().flat_map(|scope| scope.own.values());
    let kept = state.signals.iter().map(|(_, data)| data);
    named.chain(kept).for_each(|result| count(result.text()));
    bytes
}
