//! The interpreter: what an instance does next.
//!
//! It is pure. It knows no clock, does no I/O and draws no chance but from [`Context::seed`]: a state, a context and
//! the same calls give the same requests, always. A worker calls [`State::advance`], does what the [`Request`]s ask
//! for, tells the results with [`State::complete`], and keeps [`State::to_json`] in the transaction that holds the
//! effects.
//!
//! # How
//! Every activation of a node has a **cell**: running, completed or failed. An activation that ends is reported to its
//! parent, which starts the next child, waits on, or ends itself. So there is no recursion and no walk: a step
//! costs the same in an instance of ten steps and of ten thousand. What is to be done next stands in two lists: a
//! stack of the current turn, worked off depth first and the lower index first, and a queue of what happened outside
//! since, in the order in which it was reported.
//!
//! | file | idea |
//! | --- | --- |
//! | `state` | where an instance stands, and the document that is kept of it |
//! | `types` | the words between worker and interpreter |
//! | `turn` | one call of `advance`: lists, timers, limit, end |
//! | `start` | what a node does when it begins |
//! | `propagate` | what a node does when a child has ended |
//! | `map` | MAP: items, their bodies, their results |
//! | `repeat` | LOOP and RETRY: the next iteration, the next attempt, and BREAK |
//! | `undo` | undoing the steps of an instance that failed or was cancelled |
//! | `revive` | taking up what has failed, or beginning behind steps that another instance has completed |
//! | `sweep` | giving up what runs below a node |
//! | `names` | scopes of named results, and the environment of a substitution |
//! | `ask` | from a node to a request |
//! | `observe` | telling of steps that have ended, for traces |
//! | `weight` | how much memory the results take |
//! | `events` | events and results that the worker tells |
//!
//! # Invariants
//! * **I-1** A request is given once. Its cell is running from then on until `complete` or until it is in `dropped`;
//!   a cell that was dropped takes no result any more.
//! * **I-2** No cell of a request that was dropped is ever that of another request. What was dropped before it was given is neither given nor dropped.
//! * **I-3** A cell ends once per activation, and is reported to its parent once.
//! * **I-4** A running cell has only running ancestors, and every running cell waits for a child, a request, a timer,
//!   a signal, or an entry in one of the two lists.
//! * **I-5** The value of a THEN is the right one's, of an IF that of its branch, of a RETRY, CATCH or TIMEOUT that of
//!   what completed below it; a JOIN gives the array of its branches in their order, a MAP that of its items.
//! * **I-6** A failure ends every node up to the nearest CATCH, RETRY, `continue_on_failure` LOOP, or JOIN or MAP with
//!   others that still run; these end first, and of several failures the first in order (not in time) is reported.
//! * **I-7** A RACE ends with its first branch to finish, well or not. Of two that finish at the same moment the one
//!   with the lower index counts; two results are never at the same moment: the one reported first is the first.
//! * **I-8** A name that is set in a branch of a JOIN or RACE is seen in that branch only until the node completes:
//!   then those of all branches, in order, or of the winner become the parent's. Those of a MAP's body end with it.
//! * **I-9** LOOP iterations start at least one second apart, and are at most 2^23. Iterations of a LOOP at the root
//!   are executions: each that is followed by another is reported once as `Continued`.
//! * **I-10** BREAK ends the nearest LOOP above it, through whatever lies between; what still runs there is dropped,
//!   and what its own branch has named stays. Without such a LOOP it fails.
//! * **I-11** A signal goes to every wait of its name that has begun, else it is kept for the next one; a kept one is
//!   consumed by one wait, and the kept are consumed in the order of arrival. At most 1,000 are kept; the oldest go.
//! * **I-12** A timer fires in the first turn that is not before it, in the order of their times; what the worker reported
//!   before that turn comes first.
//! * **I-13** A paused instance makes no request and fires no timer. Results and events are still taken in. Cancel ends
//!   it nevertheless.
//! * **I-14** After the outcome nothing changes: results are refused, events ignored, `advance` repeats the outcome
//!   and nothing else.
//! * **I-15** A state that was written and read behaves as the one that was not.
//! * **I-16** A turn begins at most 10,000 activations, and is due at once when it stopped for that.
//! * **I-17** No input makes it panic or run for ever: graphs are checked when parsed, and a state that does not fit
//!   its graph fails the instance.
//! * **I-18** A result of more than 200 bytes stands once in the written state, however many cells and names share it.
//! * **I-19** Memory has a bound. A turn stops when its requests have 16 MiB of text; a JOIN or MAP whose result would
//!   have more than 64 MiB fails; so does an instance whose results have more than that together. (They are looked at
//!   whenever 8 MiB of new ones have come, so that an instance can exceed its bound by these and one result.)
//! * **I-21** What undoes a STEP runs once for each time that its body completed, if the instance fails or is cancelled, and
//!   else not at all: one after the other, the latest first. The outcome follows when all have ended.
//! * **I-20** An instance that is taken up again asks for nothing that had completed, and for everything else that it would
//!   have asked for. What had completed has the result, and its names the values, that it had.
//! * **I-22** Of a state that is observed, each step that was asked for, or failed before it could be, is told of once, when it
//!   ends or is given up. What an earlier life had completed is not.

mod ask;
mod events;
mod map;
mod names;
mod observe;
mod propagate;
mod repeat;
mod revive;
mod start;
mod state;
mod sweep;
mod turn;
mod types;
mod undo;
mod weight;

#[cfg(test)]
mod tests;

pub use state::{State, StateError};
pub(crate) use turn::Turn;
pub use types::{
    Cell, Context, EndedStep, Event, ExecutionStatus, Failure, FinishedExecution, Outcome, Progress, Request,
    StepEnd,
};

/// How many activations one call of `advance` begins at the most.
pub const TURN_LIMIT: usize = 10_000;
/// How many bytes of text the requests of one call of `advance` may have before it stops.
pub const TURN_BYTES: usize = 16 << 20;
/// How many bytes the results of one instance may have together, and any that a JOIN or MAP makes alone.
pub const MAX_RESULT_BYTES: usize = 64 << 20;
/// How many iterations a loop may have.
pub const MAX_ITERATIONS: u32 = 1 << 23;
/// How many items a MAP may have.
pub const MAX_ITEMS: usize = 10_000;
/// How many signals are kept for waits that have not begun.
pub const MAX_KEPT_SIGNALS: usize = 1_000;
