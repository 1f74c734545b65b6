//! Exact nearest-neighbour search over vectors that lie in the leaves of a tree.

mod codes;
mod collections;
mod exact;
mod metric;
mod quantise;
mod row;
mod search;

pub(crate) use collections::{check_fits, collection_of, ranges_of, row_key, shape};
pub use collections::{
    Collection, CollectionInfo, Match, Record, SearchOptions, Vectors, METADATA_BYTES_MAX,
};
pub use metric::Metric;
pub use quantise::Block;
pub use row::{check_vector, decode_row, encode_row, Row, VectorError, MAX_DIMENSION};
pub use search::{Hit, Query, Searcher};
