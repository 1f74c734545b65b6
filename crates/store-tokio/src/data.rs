//! What is asked for most, in one call each, in the default space of a branch.

use duramen_store::json::{Json, ToJson};
use duramen_store::kv::{AsKey, Key};
use duramen_store::state::Cell;
use duramen_store::value::Encode;
use duramen_store::vector::{Match, SearchOptions};
use duramen_store::{Scope, StoreError, Value};

use crate::branch::AsyncBranch;

impl AsyncBranch {
    /// The value of a pair.
    ///
    /// # Errors
    /// As [`Kv::get`](duramen_store::kv::Kv::get), and [`StoreError::Closed`].
    pub async fn kv_get(&self, key: impl AsKey) -> Result<Option<Value>, StoreError> {
        let key = Key::new(key);
        self.run(move |branch| branch.kv().get(&key)).await
    }

    /// Writes a pair. Returns the version.
    ///
    /// # Errors
    /// As [`Kv::put`](duramen_store::kv::Kv::put), and those of [`commit`](Self::commit).
    pub async fn kv_put(
        &self,
        key: impl AsKey,
        value: impl Encode + Send + 'static,
    ) -> Result<u64, StoreError> {
        let key = Key::new(key);
        self.commit(move |branch| branch.kv().put(&key, value)).await
    }

    /// Deletes a pair. Returns whether it was there.
    ///
    /// # Errors
    /// As [`Kv::delete`](duramen_store::kv::Kv::delete), and those of [`commit`](Self::commit).
    pub async fn kv_delete(&self, key: impl AsKey) -> Result<bool, StoreError> {
        let key = Key::new(key);
        self.commit(move |branch| branch.kv().delete(&key)).await
    }

    /// A cell: its value and version.
    ///
    /// # Errors
    /// As [`Cells::read`](duramen_store::state::Cells::read), and [`StoreError::Closed`].
    pub async fn state_read(&self, key: impl Into<String>) -> Result<Option<Cell>, StoreError> {
        let key = key.into();
        self.run(move |branch| branch.state().read(&key)).await
    }

    /// Writes a cell, whatever it holds. Returns the version.
    ///
    /// # Errors
    /// As [`Cells::set`](duramen_store::state::Cells::set), and those of [`commit`](Self::commit).
    pub async fn state_set(
        &self,
        key: impl Into<String>,
        value: impl Encode + Send + 'static,
    ) -> Result<u64, StoreError> {
        let key = key.into();
        self.commit(move |branch| branch.state().set(&key, value)).await
    }

    /// Writes a cell if it is at a version. Returns the new one.
    ///
    /// # Errors
    /// As [`Cells::cas`](duramen_store::state::Cells::cas), and those of [`commit`](Self::commit).
    pub async fn state_cas(
        &self,
        key: impl Into<String>,
        expected: Option<u64>,
        value: impl Encode + Send + 'static,
    ) -> Result<u64, StoreError> {
        let key = key.into();
        self.commit(move |branch| branch.state().cas(&key, expected, value)).await
    }

    /// Appends an event. Returns its number.
    ///
    /// # Errors
    /// As [`Events::append`](duramen_store::event::Events::append), and those of [`commit`](Self::commit).
    pub async fn event_append(
        &self,
        event_type: impl Into<String>,
        payload: impl ToJson + Send + 'static,
    ) -> Result<u64, StoreError> {
        let event_type = event_type.into();
        self.commit(move |branch| branch.events().append(&event_type, payload)).await
    }

    /// What a document has at a path.
    ///
    /// # Errors
    /// As [`Documents::get`](duramen_store::json::Documents::get), and [`StoreError::Closed`].
    pub async fn json_get(
        &self,
        key: impl Into<String>,
        path: impl Into<String>,
    ) -> Result<Option<Json>, StoreError> {
        let (key, path) = (key.into(), path.into());
        self.run(move |branch| branch.json().get(&key, path.as_str())).await
    }

    /// Sets what a document has at a path. Returns the version.
    ///
    /// # Errors
    /// As [`Documents::set`](duramen_store::json::Documents::set), and those of [`commit`](Self::commit).
    pub async fn json_set(
        &self,
        key: impl Into<String>,
        path: impl Into<String>,
        value: impl ToJson + Send + 'static,
    ) -> Result<u64, StoreError> {
        let (key, path) = (key.into(), path.into());
        self.commit(move |branch| branch.json().set(&key, path.as_str(), value)).await
    }

    /// The `k` nearest vectors of a collection, the nearest first.
    ///
    /// # Errors
    /// As [`Collection::search`](duramen_store::vector::Collection::search), and [`StoreError::Closed`].
    pub async fn vector_search(
        &self,
        collection: impl Into<String>,
        query: Vec<f32>,
        k: usize,
        options: SearchOptions,
    ) -> Result<Vec<Match>, StoreError> {
        let collection = collection.into();
        self.run(move |branch| branch.vectors().collection(&collection).search(&query, k, &options)).await
    }
}
