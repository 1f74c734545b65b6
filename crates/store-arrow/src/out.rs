//! Rows of the store, made into batches: each kind of data remembers where it is, and fills one batch at a time.

mod documents;
mod error;
mod events;
mod options;
mod pairs;
mod vectors;

pub(crate) use self::documents::Documents;
pub use self::error::OutError;
pub(crate) use self::events::Events;
pub use self::options::{
    DocumentOptions, EventOptions, Limits, Misfits, PairKeys, PairOptions, VectorOptions, BATCH_BYTES_MAX,
    COLUMNS_MAX,
};
pub(crate) use self::pairs::Pairs;
pub(crate) use self::vectors::Vectors;
