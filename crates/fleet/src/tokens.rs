//! Tokens, which are the fleet's: made, replaced and ended by one transaction each. What they are is not this crate's to know.

use crate::{etcd::EtcdError, member::Fleet, record::Key};
use etcd_client::{Compare, CompareOp, Txn, TxnOp};

impl Fleet {
    /// Has a token be one of the fleet. Tells the revision at which it is; nothing, if the name is given: that stays as it is.
    ///
    /// # Errors
    /// When etcd does not answer: whether it is one is unknown, and the watch will tell.
    pub async fn add_token(&self, name: &str, value: &[u8]) -> Result<Option<i64>, EtcdError> {
        let key = self.etcd.keys.key(Key::Token(name));
        let txn = Txn::new()
            .when([Compare::create_revision(key.clone(), CompareOp::Equal, 0)])
            .and_then([TxnOp::put(key, value, None)]);
        Ok(revision(&self.etcd.txn(txn).await?))
    }

    /// Replaces a token, if it is what it was, or ends it, if there is no other. Tells the revision at which that
    /// is done; nothing, if it was something else.
    ///
    /// # Errors
    /// When etcd does not answer: whether it is done is unknown, and the watch will tell.
    pub async fn replace_token(
        &self,
        name: &str,
        was: &[u8],
        value: Option<&[u8]>,
    ) -> Result<Option<i64>, EtcdError> {
        let key = self.etcd.keys.key(Key::Token(name));
        let op = match value {
            Some(value) => TxnOp::put(key.clone(), value, None),
            None => TxnOp::delete(key.clone(), None),
        };
        let txn = Txn::new().when([Compare::value(key, CompareOp::Equal, was)]).and_then([op]);
        Ok(revision(&self.etcd.txn(txn).await?))
    }

    /// A token as etcd has it now.
    ///
    /// # Errors
    /// When etcd does not answer.
    pub async fn token(&self, name: &str) -> Result<Option<Vec<u8>>, EtcdError> {
        Ok(self.etcd.get(Key::Token(name)).await?.map(|found| found.value))
    }
}

fn revision(answer: &etcd_client::TxnResponse) -> Option<i64> {
    let revision = answer.header().map_or(0, etcd_client::ResponseHeader::revision);
    answer.succeeded().then_some(revision)
}
