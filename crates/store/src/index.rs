//! Indexes on documents and pairs, and finding rows by what they hold.
//!
//! An index is declared in a space, for one kind of data, on fields of its values. Its entries lie in the tree of the branch
//! and are written in the commit that changes a row, so a fork, a snapshot, a retained state and a follower each have the
//! entries that belong to their rows. `docs/design/store-indexes.md` gives the layout and the invariants.
//!
//! ```
//! use duramen_store::index::{Index, Query};
//! use duramen_store::{Primitive, Scope, Store};
//! use serde_json::json;
//! let store = Store::memory();
//! let main = store.branch("main")?;
//! main.indexes().create("by-state", &Index::new(Primitive::Json, ["state", "at"]))?;
//! main.json().set("task:1", "", &json!({"state": "open", "at": 7}))?;
//! main.json().set("task:2", "", &json!({"state": "done", "at": 5}))?;
//! main.json().set("task:3", "", &json!({"state": "open", "at": 3}))?;
//!
//! let open = Query::new("state = open".parse().expect("a filter")).order(["at"]);
//! let found = main.json().find(&open, 10)?;
//! let keys: Vec<&str> = found.rows.iter().map(|(key, _)| key.as_str()).collect();
//! assert_eq!(keys, ["task:3", "task:1"]);
//! assert_eq!(main.json().explain(&open)?.to_string(), "index by-state for state = \"open\", in its order");
//! # Ok::<(), duramen_store::StoreError>(())
//! ```

mod check;
mod declared;
mod encoding;
mod find;
mod maintain;
mod plan;
mod query;

pub(crate) use check::check;
pub use declared::{Index, Indexes, INDEXED_BYTES_MAX, INDEX_FIELDS_MAX};
pub(crate) use find::{explain, find, RawRow};
pub(crate) use maintain::Known;
pub use plan::Plan;
pub use query::{Cursor, Found, Query};

use serde_json::Value as Json;

use crate::access::View;
use crate::error::StoreError;
use crate::expiry;
use crate::keys::{self, Primitive};
use crate::value::Value;

/// The name of an index that is of a kind of data in a space, if there is one.
pub(crate) fn index_of(
    view: &dyn View,
    primitive: Primitive,
    space: &str,
) -> Result<Option<String>, StoreError> {
    let mut all = declared::All::find(view, Some(space))?.readable()?.into_iter();
    Ok(all.find(|one| one.index.on == primitive).map(|one| one.name))
}

/// The value of a row as conditions see it. A number that is not finite is null.
fn value_of(primitive: Primitive, key: &[u8], bytes: &[u8]) -> Result<Json, StoreError> {
    let damaged = |error: &dyn std::fmt::Display| {
        StoreError::Damaged(format!("{} cannot be read: {error}", keys::display(key)))
    };
    match primitive {
        Primitive::Kv => {
            let value = Value::decode(expiry::value(bytes)).map_err(|error| damaged(&error))?;
            value.to_json_or_null().map_err(|error| damaged(&error))
        }
        _ => serde_json::from_slice(bytes).map_err(|error| damaged(&error)),
    }
}
