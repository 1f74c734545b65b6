//! Which rows of a PostgreSQL branch differ from those of the snapshot that it was cloned from.
//!
//! A branch shares with its snapshot all that it has not written, so what it wrote can be seen without reading the rest:
//! `blocks` finds the blocks that differ, `tuples` what in them, `rows` reads the rows in them on both sides, [`diff`] matches them, and
//! [`output`] writes down what is left. `compare` is all of it. How that is exact, and why nothing runs that somebody else
//! wrote, is in `docs/design/changes.md`.

mod change;
pub mod diff;
#[cfg(feature = "digest")]
mod digest;
pub mod output;

#[cfg(feature = "finding")]
mod blocks;
#[cfg(feature = "finding")]
mod catalogue;
#[cfg(feature = "finding")]
mod compare;
#[cfg(feature = "finding")]
mod error;
#[cfg(feature = "finding")]
mod frozen;
#[cfg(feature = "finding")]
mod plan;
#[cfg(feature = "finding")]
mod rows;
#[cfg(feature = "finding")]
mod sequences;
#[cfg(feature = "finding")]
mod tuples;
#[cfg(feature = "finding")]
mod types;

pub use change::{
    shown_name, Column, Compared, Ending, LeftOut, Only, Part, Row, Sequence, SequenceState, Summary, Table,
};

#[cfg(feature = "digest")]
pub use digest::DiffDigest;

#[cfg(feature = "finding")]
pub use {
    blocks::{changed_blocks, ChangedBlocks, Layout},
    compare::{compare, Request, Side, Written, ROWS_MAX},
    error::ChangesError,
    plan::Full,
};
