//! The tests of the crate in one program.

mod attribution;
mod ledger;
mod live;
mod support;
