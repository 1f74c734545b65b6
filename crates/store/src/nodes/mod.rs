//! Where the nodes of a store lie when it has a disk below it.

mod fjall;
mod journal;
mod reclaim;

pub use self::fjall::FjallNodeStore;
