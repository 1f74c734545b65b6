//! A branch of a store as a pack.
//!
//! The pack holds the nodes of the branch's tree, all spaces and all kinds of data. It is read where it lies, as a store
//! that cannot be written ([`BranchPack::store`]), or taken into a store as a branch of it ([`BranchPack::import`]).
//! A pack against a base holds only the nodes that the base has not, and can be read only together with it.
//!
//! ```
//! use duramen_pack::branch::{export, BranchPack, ExportOptions};
//! use duramen_store::{Options, Scope, Store};
//!
//! # let dir = tempfile::tempdir()?;
//! let store = Store::memory();
//! let main = store.branch("main")?;
//! main.kv().put("birch", "white")?;
//! let path = dir.path().join("main.dpack");
//! export(&main, &path, ExportOptions::default(), &mut |_, _| {})?;
//!
//! let packed = BranchPack::open(&path)?.store(Options::default())?;
//! assert_eq!(packed.branch("main")?.kv().get("birch")?, Some("white".into()));
//! assert!(packed.branch("main")?.kv().put("birch", "black").is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod blocks;
mod error;
mod export;
mod manifest;
mod nodes;
mod origins;
mod pack;
#[cfg(test)]
mod tests;

pub use error::BranchPackError;
pub use export::{export, ExportOptions, Exported};
pub use pack::{diff, BaseInfo, BranchInfo, BranchPack};
