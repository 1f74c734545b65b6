//! The sessions of a router, with the keys by which their statements are cancelled.

use duramen_base::entropy;
use duramen_postgres::Canceller;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use subtle::ConstantTimeEq;

/// The length of a session's key under protocol 3.0, in bytes, which cannot be another one.
const KEY_LEN: usize = 4;
/// The same from protocol 3.2 on.
const LONG_KEY_LEN: usize = 32;

/// All sessions of a router, by the number that stands for the process in the protocol.
#[derive(Debug, Default)]
pub(super) struct Sessions(Mutex<HashMap<u32, Session>>);

#[derive(Debug)]
struct Session {
    key: Vec<u8>,
    canceller: Option<Cancels>,
}

/// What cancels a statement of a session.
#[derive(Debug, Clone)]
pub(super) enum Cancels {
    /// A request to the branch's server.
    Here(Arc<Canceller>),
    /// A request to the node of the fleet to which it was passed on.
    #[cfg(feature = "fleet")]
    Elsewhere {
        /// The node.
        node: String,
        /// What stands for the process there.
        number: u32,
        /// The session's key there.
        key: Vec<u8>,
    },
}

/// A session's key; it is good as long as this lives.
#[derive(Debug)]
pub(super) struct Key<'a> {
    sessions: &'a Sessions,
    /// What stands for the process in the protocol.
    pub(super) number: u32,
    /// By which a statement of it is cancelled.
    pub(super) key: Vec<u8>,
}

impl Sessions {
    fn all(&self) -> MutexGuard<'_, HashMap<u32, Session>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a session.
    pub(super) fn begin(&self, long_key: bool) -> Key<'_> {
        let key = entropy::random_bytes::<LONG_KEY_LEN>();
        let key = key[..if long_key { LONG_KEY_LEN } else { KEY_LEN }].to_vec();
        let mut all = self.all();
        let number = loop {
            // Drivers take it for a signed number, and some for one that is not zero.
            let number = u32::from_be_bytes(entropy::random_bytes()) & 0x7fff_ffff;
            if number != 0 && !all.contains_key(&number) {
                break number;
            }
        };
        all.insert(number, Session { key: key.clone(), canceller: None });
        Key { sessions: self, number, key }
    }

    /// What cancels the statement of a session, if the key is its own.
    pub(super) fn canceller(&self, number: u32, key: &[u8]) -> Option<Cancels> {
        let all = self.all();
        let session = all.get(&number)?;
        bool::from(session.key.as_slice().ct_eq(key)).then(|| session.canceller.clone()).flatten()
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.all().len()
    }
}

impl Key<'_> {
    /// From now on its statements can be cancelled.
    pub(super) fn enter(&self, canceller: Cancels) {
        if let Some(session) = self.sessions.all().get_mut(&self.number) {
            session.canceller = Some(canceller);
        }
    }

    /// The same, where its branch is on another node.
    #[cfg(feature = "fleet")]
    pub(super) fn enter_elsewhere(&self, node: String, number: u32, key: Vec<u8>) {
        self.enter(Cancels::Elsewhere { node, number, key });
    }
}

impl Drop for Key<'_> {
    fn drop(&mut self) {
        self.sessions.all().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R9.
    #[test]
    fn only_the_key_of_a_session_cancels_it() {
        let sessions = Sessions::default();
        let place = sessions.begin(false);
        assert_eq!((place.number >> 31, place.key.len()), (0, 4));
        let canceller = Arc::new(Canceller::new("nowhere".into()));
        place.enter(Cancels::Here(Arc::clone(&canceller)));
        let (number, key) = (place.number, place.key.clone());
        let found = sessions.canceller(number, &key).expect("its own key");
        assert!(matches!(found, Cancels::Here(found) if Arc::ptr_eq(&found, &canceller)));
        let mut wrong = key.clone();
        wrong[0] ^= 1;
        assert!(sessions.canceller(number, &wrong).is_none());
        assert!(sessions.canceller(number, &key[..3]).is_none());
        assert!(sessions.canceller(number, &[]).is_none());
        assert!(sessions.canceller(number ^ 1, &key).is_none());
        drop(place);
        assert!(sessions.canceller(number, &key).is_none(), "it ends with the session");
        assert_eq!(sessions.count(), 0);
        assert_eq!(sessions.begin(true).key.len(), 32);
    }
}
