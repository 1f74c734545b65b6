//! Packs: one compressed, verified file that opens in place.
//!
//! A pack holds sorted blocks under names, an index of them, a manifest, and one digest that proves all of it. What
//! the blocks mean follows from its kind. A branch of a store is the kind that is read and written here; access graphs
//! are the other, and are the business of `duramen-access`.
//!
//! | module | what it is for |
//! | --- | --- |
//! | [`branch`] | a branch of a store: export, import, reading it in place |
//! | [`container`] | the file: writing, opening, reading blocks, verifying |
//! | [`limits`] | what a pack may hold at most |
//!
//! The formats and their invariants are in `docs/design/packs.md`.
//!
//! ```
//! use duramen_pack::branch::{export, BranchPack, ExportOptions};
//! use duramen_pack::container::{hex, Kind, Pack};
//! use duramen_store::{Scope, Store};
//!
//! # let dir = tempfile::tempdir()?;
//! let path = dir.path().join("main.dpack");
//! let store = Store::memory();
//! store.branch("main")?.kv().put("birch", "white")?;
//! let exported = export(&store.branch("main")?, &path, ExportOptions::default(), &mut |_, _| {})?;
//!
//! let pack = Pack::open(&path)?;
//! assert_eq!((pack.kind(), hex(&pack.root_digest())), (Kind::Branch, hex(&exported.root_digest)));
//! pack.verify(&mut |_, _| {})?;
//! assert_eq!(BranchPack::open(&path)?.info().entries, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod branch;
pub mod container;
mod error;
pub mod limits;

pub use error::PackError;
