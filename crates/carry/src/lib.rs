//! Change sets: what a branch changed, as one file that proves itself, and that is applied once to a database which is as the
//! branch's source was.
//!
//! A change set is a pack ([`ChangeSet`], written by [`ChangeSetWriter`]): statements that change definitions, rows with what they
//! were before, sequences, and where all of it came from. [`apply`] brings it to a database in one transaction: either
//! every row is as it was and all of it is done, or nothing is, and what is in the way is listed. The states, the format and
//! the invariants are in `docs/design/change-sets.md`. [`merge`] brings one to the branch that its branch was made of, three ways
//! (`docs/design/merging.md`).

mod apply;
mod durable;
mod error;
mod merge;
mod read;
mod rows;
mod set;
mod sign;
mod statement;
mod write;

pub use apply::registry::{is_made as registry_is_made, made_for as make_registry};
pub use apply::{apply, Applied, ApplyOptions, Conflict, ConflictKind, Counts, Differing, Outcome, Triggers};
pub use durable::{apply_durably, Durable, DurableOptions, OnSlice, Slice};
pub use error::{ApplyError, Place, SetError};
pub use merge::{
    merge, Definitions, Equal, MergeConflict, MergeOptions, MergeOutcome, Merged, MergedTable, Reason,
    Strategy, Taken, Three,
};
pub use read::ChangeSet;
pub use set::{Ddl, Head, Origin};
pub use sign::{check as check_signature, sign, signature_file, SignError};
pub use statement::is_of_registry;
pub use write::ChangeSetWriter;
