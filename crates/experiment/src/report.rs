//! What a series has come to, for people: Markdown, a page, tables for terminals; and for programs.
//!
//! All of them show the same: [`overview`] and [`rows`] say what, the others how.

mod comment;
mod page;
mod parts;
mod stack;
mod terminal;
mod view;
mod words;

pub use comment::{comment, Comment, Standing};
pub use page::{html, markdown};
pub use terminal::{ideas, one, status, table};
pub use view::{overview, rows, Change, KeptRow, Overview, Row, Stack};
pub use words::{line as one_line, verdict};
