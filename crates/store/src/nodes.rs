//! Where the nodes of a store lie when it has a disk below it.

mod fjall;
mod journal;
mod reclaim;
mod torn;

pub use self::fjall::FjallNodeStore;
