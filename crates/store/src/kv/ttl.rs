//! Pairs with a time to live.

use std::time::Duration;

use super::{AsKey, Kv};
use crate::access::Access;
use crate::error::StoreError;
use crate::expiry;
use crate::value::{check_encoded, Encode};

impl<S: Access> Kv<'_, S> {
    /// Puts a value under a key that is there for a time, and then is gone. Putting the key again without a time makes it stay.
    /// Returns the version of the write.
    ///
    /// From its time on a pair is hidden from those who begin to read, and a commit deletes it soon after; the history of the
    /// branch has that as any other deletion. A snapshot hides what was over when it first looked at such a pair, and a state of
    /// the past what was over then. A fork and a merge take the time along. A clock that is set forward ends nothing early while
    /// the process runs.
    ///
    /// ```
    /// use std::time::Duration;
    /// use duramen_store::{Scope, Store};
    /// let store = Store::memory();
    /// let main = store.branch("main")?;
    /// main.kv().put_with_ttl("session/7", "alice", Duration::from_millis(10))?;
    /// assert!(main.kv().ttl("session/7")?.is_some());
    /// std::thread::sleep(Duration::from_millis(15));
    /// assert_eq!(main.kv().get("session/7")?, None);
    /// # Ok::<(), duramen_store::StoreError>(())
    /// ```
    ///
    /// # Errors
    /// When the time is zero or more than [`TTL_MAX`](crate::limits::TTL_MAX), key or value break a limit, or nothing can be written.
    pub fn put_with_ttl(
        &self,
        key: impl AsKey,
        value: impl Encode,
        ttl: Duration,
    ) -> Result<S::Written, StoreError> {
        let at = self.key(&key)?;
        check_encoded(&value)?;
        let end = expiry::end_of_ttl(ttl)?;
        let ((), written) = self.space.scope().write(|edit| {
            edit.put(&at, &mut |out| {
                expiry::begin(Some(end), out);
                value.encode(out);
            })
        })?;
        Ok(written)
    }

    /// How long a pair is still there; none if there is no such key, or it stays.
    ///
    /// # Errors
    /// When the key is not allowed, or the store cannot be read.
    pub fn ttl(&self, key: impl AsKey) -> Result<Option<Duration>, StoreError> {
        let at = self.key(&key)?;
        self.space.scope().peek(|view| {
            let mut end = None;
            view.get(&at, &mut |_, bytes| end = expiry::split(bytes).0)?;
            let left = end.map(|end| end.saturating_sub(view.now_ms())).filter(|left| *left > 0);
            Ok(left.map(|left| Duration::from_millis(left.unsigned_abs())))
        })
    }

    /// Gives a pair that is there a time to live from now on, instead of one that it has. Returns whether it is there.
    ///
    /// # Errors
    /// When the time is zero or more than [`TTL_MAX`](crate::limits::TTL_MAX), the key is not allowed, or nothing can be written.
    pub fn expire(&self, key: impl AsKey, ttl: Duration) -> Result<bool, StoreError> {
        self.set_end(key, Some(expiry::end_of_ttl(ttl)?))
    }

    /// Makes a pair stay that has a time to live. Returns whether it is there.
    ///
    /// # Errors
    /// When the key is not allowed, or nothing can be written.
    pub fn persist(&self, key: impl AsKey) -> Result<bool, StoreError> {
        self.set_end(key, None)
    }

    fn set_end(&self, key: impl AsKey, end: Option<i64>) -> Result<bool, StoreError> {
        let at = self.key(&key)?;
        let (is_there, _) = self.space.scope().write(|edit| {
            let mut found = None;
            edit.get(&at, &mut |_, bytes| {
                let value = expiry::live(edit, bytes).map(<[u8]>::to_vec);
                found = value.map(|value| (expiry::split(bytes).0, value));
            })?;
            let Some((now, value)) = found else { return Ok(false) };
            if now != end {
                edit.put(&at, &mut |out| {
                    expiry::begin(end, out);
                    out.extend_from_slice(&value);
                })?;
            }
            Ok(true)
        })?;
        Ok(is_there)
    }
}
