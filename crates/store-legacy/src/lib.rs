//! Stores of version 0.1, which kept their nodes in `fjall`, are carried over to the present format.
//!
//! [`upgrade`] does it, once for each store. Journals that a power cut tore are repaired on the way: nothing that was
//! acknowledged is in the part that is cut off. `duramen-store` itself does not know the old engine.

mod nodes;
mod torn;

use std::path::Path;

use duramen_store::upgrade::{Carried, Upgrade};
use duramen_store::StoreError;

use crate::nodes::OldNodes;

/// Brings a store to the present format. None if it has that already. It may be interrupted at any time, and called
/// again: the store is the old one until the new one is durable, whole and checked.
///
/// It needs room for the nodes a second time.
///
/// # Errors
/// If the folder holds no store, or the store is open elsewhere, damaged, or on a disk that cannot be written.
///
/// # Examples
/// ```no_run
/// if let Some(carried) = duramen_store_legacy::upgrade("./data".as_ref())? {
///     println!("{} nodes were carried over", carried.nodes);
/// }
/// let store = duramen_store::Store::open("./data", duramen_store::Options::default())?;
/// # Ok::<(), duramen_store::StoreError>(())
/// ```
pub fn upgrade(path: &Path) -> Result<Option<Carried>, StoreError> {
    let Some(upgrade) = Upgrade::begin(path)? else { return Ok(None) };
    let old = OldNodes::open(upgrade.nodes_folder())?;
    let manifest = old.manifest()?;
    upgrade.carry(manifest, old.nodes()).map(Some)
}
