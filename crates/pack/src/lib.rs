//! Packs: one compressed, verified file that opens in place.
//!
//! A pack holds sorted blocks under names, an index of them, a manifest, and one digest that proves all of it. What
//! the blocks mean is told by its kind: a branch of a store, or an access graph.
//!
//! | module | what it is for |
//! | --- | --- |
//! | [`branch`] | a branch of a store: export, import, reading it in place |
//! | [`c1z`] | the files of the access-governance world, versions 1 and 3: reading and writing them |
//! | [`container`] | the file: writing, opening, reading blocks, verifying |
//! | [`graph`] | an access graph: syncs of resources, entitlements and grants; writing, querying, comparing them |
//! | [`limits`] | what a pack may hold at most |
//!
//! The formats and their invariants are in `docs/design/packs.md`, `docs/design/access-graph.md` and `docs/design/c1z.md`.

pub mod branch;
pub mod c1z;
pub mod container;
mod error;
pub mod graph;
pub mod limits;
mod lock;
mod varint;

pub use error::PackError;
