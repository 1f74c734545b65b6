//! What stores, packs and access graphs hold that are attached. Values are for parameters by their names, which
//! [`ENDPOINTS`](duramen_api::route::ENDPOINTS) has.

use crate::{ClientError, Connection};
use bytes::Bytes;
use duramen_api::{
    attachments::{
        pack::{AccessFound, AccessPage, AccessWhy, PackView},
        store::{StoreBranches, StoreContents, StoreDifference, StoreEntries, StoreEntry, StoreHistory},
    },
    route::{Op, Route},
};

/// Every method fails with [`ClientError::Refused`] when the daemon refuses, else with what kept the reply from coming.
#[allow(clippy::missing_errors_doc, reason = "the same sentence for all of them stands above")]
impl Connection {
    /// The branches of an attached store, or of a pack of a branch.
    pub async fn store_branches(&mut self, name: &str) -> Result<StoreBranches, ClientError> {
        self.exchange(Route::of(Op::StoreBranches, name), Bytes::new()).await
    }

    /// What a branch of an attached store has.
    pub async fn store_contents(
        &mut self,
        name: &str,
        values: &[(&str, &str)],
    ) -> Result<StoreContents, ClientError> {
        self.exchange(Route::of(Op::StoreContents, name).given(values), Bytes::new()).await
    }

    /// Entries of an attached store.
    pub async fn store_entries(
        &mut self,
        name: &str,
        values: &[(&str, &str)],
    ) -> Result<StoreEntries, ClientError> {
        self.exchange(Route::of(Op::StoreEntries, name).given(values), Bytes::new()).await
    }

    /// One entry of an attached store.
    pub async fn store_entry(
        &mut self,
        name: &str,
        values: &[(&str, &str)],
    ) -> Result<StoreEntry, ClientError> {
        self.exchange(Route::of(Op::StoreEntry, name).given(values), Bytes::new()).await
    }

    /// The states of a branch of an attached store that are retained.
    pub async fn store_history(
        &mut self,
        name: &str,
        values: &[(&str, &str)],
    ) -> Result<StoreHistory, ClientError> {
        self.exchange(Route::of(Op::StoreHistory, name).given(values), Bytes::new()).await
    }

    /// What differs between two branches of an attached store.
    pub async fn store_difference(
        &mut self,
        name: &str,
        values: &[(&str, &str)],
    ) -> Result<StoreDifference, ClientError> {
        self.exchange(Route::of(Op::StoreDifference, name).given(values), Bytes::new()).await
    }

    /// What an attached pack or `.c1z` file holds.
    pub async fn pack(&mut self, name: &str) -> Result<PackView, ClientError> {
        self.exchange(Route::of(Op::Pack, name), Bytes::new()).await
    }

    /// Resources and entitlements of an attached access graph.
    pub async fn access_search(&mut self, name: &str, search: &str) -> Result<AccessFound, ClientError> {
        self.exchange(Route::of(Op::AccessSearch, name).given(&[("search", search)]), Bytes::new()).await
    }

    /// Who effectively has what in an attached access graph.
    pub async fn access(&mut self, name: &str, values: &[(&str, &str)]) -> Result<AccessPage, ClientError> {
        self.exchange(Route::of(Op::Access, name).given(values), Bytes::new()).await
    }

    /// Why a principal holds an entitlement in an attached access graph.
    pub async fn access_why(
        &mut self,
        name: &str,
        values: &[(&str, &str)],
    ) -> Result<AccessWhy, ClientError> {
        self.exchange(Route::of(Op::AccessWhy, name).given(values), Bytes::new()).await
    }
}
