//! Two schemas compared, and the DDL that makes one of them the other.
//!
//! [`Catalogue::read`] takes what a database defines from its system catalogues, [`Diff::between`] compares two of them
//! without a database: what was added, removed and changed ([`Diff::changes`]), the statements that lead from one to the
//! other in an order that runs ([`Diff::ddl`], as one script [`Diff::script`]), and what these lock, rewrite or lose
//! ([`Diff::warnings`]).
//!
//! PostgreSQL writes the definitions (`pg_get_viewdef` and the like) and says what depends on what (`pg_depend`). This
//! crate decides what can be altered in place, what has to be dropped and made again, and in which order.
//!
//! Not compared: owners, the order of a table's columns, the names of `NOT NULL` constraints, storage parameters of the
//! server, tablespaces, and rows. Of the kinds in [`Kind::Other`] only names are.

mod catalogue;
mod diff;
mod read;
mod statements;

pub use catalogue::{Catalogue, Key, Kind, Object};
pub use diff::{Change, Diff, Difference, How, Risk, Step, Warning};
pub use read::ReadError;
