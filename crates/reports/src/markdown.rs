//! Evidence and comparisons as Markdown, short enough for a comment on a pull request.
//!
//! The verdict comes first; what is long is folded away. Text out of documents is text: it makes no heading, no link, no
//! mention and no markup.

mod benchmarks;
mod comparison;
mod evidence;
pub mod write;

pub use benchmarks::benchmarks;
pub use comparison::{comparison, Changed, Comparison};
pub use evidence::summary;

/// The longest text in bytes: what comments of the large forges hold.
pub const LONGEST: usize = 60_000;
