//! Who is connected: the sessions with their keys, and those who have not proved anything yet.

use crate::token::Token;
use duramen_base::entropy;
use duramen_postgres::Canceller;
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use subtle::ConstantTimeEq;
use tokio::sync::oneshot;

/// Connections that may be before their proof at one time.
pub(super) const UNPROVED_MAX: usize = 1024;
/// The length of a session's key under protocol 3.0, in bytes, which cannot be another one.
const KEY_LEN: usize = 4;
/// The same from protocol 3.2 on.
const LONG_KEY_LEN: usize = 32;

/// All connections of a router.
#[derive(Debug, Default)]
pub(super) struct Sessions(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// By the number that stands for the process in the protocol.
    sessions: HashMap<u32, Session>,
    /// How many each token has, by its id.
    by_token: HashMap<String, u32>,
    /// Those who have not proved anything, oldest first; what ends one when it is dropped.
    unproved: BTreeMap<u64, oneshot::Sender<()>>,
    next: u64,
}

#[derive(Debug)]
struct Session {
    key: Vec<u8>,
    canceller: Option<Arc<Canceller>>,
}

/// A connection that has not proved anything; it counts as long as this lives.
#[derive(Debug)]
pub(super) struct Unproved<'a> {
    sessions: &'a Sessions,
    number: u64,
}

/// The place of a session; it counts as long as this lives.
#[derive(Debug)]
pub(super) struct Place<'a> {
    sessions: &'a Sessions,
    token: String,
    /// What stands for the process in the protocol.
    pub(super) number: u32,
    /// By which a statement of it is cancelled.
    pub(super) key: Vec<u8>,
}

impl Sessions {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a new connection. If there are too many, the oldest that has not proved anything has to go. The receiver ends
    /// when this one has to.
    pub(super) fn arrive(&self) -> (Unproved<'_>, oneshot::Receiver<()>) {
        let (ends, ended) = oneshot::channel();
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        state.unproved.insert(number, ends);
        if state.unproved.len() > UNPROVED_MAX {
            state.unproved.pop_first();
        }
        (Unproved { sessions: self, number }, ended)
    }

    /// Gives a token's holder a place for a session, unless it has as many as it may.
    pub(super) fn place(&self, token: &Token, long_key: bool) -> Option<Place<'_>> {
        let key = entropy::random_bytes::<LONG_KEY_LEN>();
        let key = key[..if long_key { LONG_KEY_LEN } else { KEY_LEN }].to_vec();
        let mut state = self.state();
        let count = state.by_token.entry(token.id.clone()).or_default();
        if *count >= token.max_connections {
            return None;
        }
        *count += 1;
        let number = loop {
            // Drivers take it for a signed number, and some for one that is not zero.
            let number = u32::from_be_bytes(entropy::random_bytes()) & 0x7fff_ffff;
            if number != 0 && !state.sessions.contains_key(&number) {
                break number;
            }
        };
        state.sessions.insert(number, Session { key: key.clone(), canceller: None });
        Some(Place { sessions: self, token: token.id.clone(), number, key })
    }

    /// What cancels the statement of a session, if the key is its own.
    pub(super) fn canceller(&self, number: u32, key: &[u8]) -> Option<Arc<Canceller>> {
        let state = self.state();
        let session = state.sessions.get(&number)?;
        bool::from(session.key.as_slice().ct_eq(key)).then(|| session.canceller.clone()).flatten()
    }

    /// How many sessions there are.
    pub(super) fn count(&self) -> usize {
        self.state().sessions.len()
    }
}

impl Place<'_> {
    /// From now on its statements can be cancelled.
    pub(super) fn enter(&self, canceller: Arc<Canceller>) {
        if let Some(session) = self.sessions.state().sessions.get_mut(&self.number) {
            session.canceller = Some(canceller);
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut state = self.sessions.state();
        state.sessions.remove(&self.number);
        if let Some(count) = state.by_token.get_mut(&self.token) {
            *count -= 1;
            if *count == 0 {
                state.by_token.remove(&self.token);
            }
        }
    }
}

impl Drop for Unproved<'_> {
    fn drop(&mut self) {
        self.sessions.state().unproved.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::CreateToken;

    fn token(id: &str, max_connections: u32) -> Token {
        let wanted = CreateToken { max_connections: Some(max_connections), ..CreateToken::default() };
        Token::new(id.to_owned(), wanted, jiff::Timestamp::UNIX_EPOCH)
    }

    /// R3.
    #[test]
    fn one_stranger_too_many_ends_the_oldest() {
        let sessions = Sessions::default();
        let mut strangers: Vec<_> = (0..UNPROVED_MAX).map(|_| sessions.arrive()).collect();
        assert!(strangers
            .iter_mut()
            .all(|(_, ended)| ended.try_recv() == Err(oneshot::error::TryRecvError::Empty)));
        let last = sessions.arrive();
        let ended = |(_, ended): &mut (Unproved<'_>, oneshot::Receiver<()>)| {
            ended.try_recv() == Err(oneshot::error::TryRecvError::Closed)
        };
        assert!(ended(&mut strangers[0]) && !ended(&mut strangers[1]));
        drop((strangers, last));
        assert!(sessions.state().unproved.is_empty());
    }

    #[test]
    fn a_token_has_no_more_sessions_than_it_may_and_gets_its_places_back() {
        let sessions = Sessions::default();
        let (one, other) = (token("t-1", 2), token("t-2", 1));
        let held = [sessions.place(&one, false).unwrap(), sessions.place(&one, false).unwrap()];
        assert!(sessions.place(&one, false).is_none());
        assert!(sessions.place(&other, false).is_some(), "that of another token is its own");
        drop(held);
        assert_eq!(sessions.count(), 0);
        assert!(sessions.place(&one, true).is_some_and(|place| place.key.len() == 32));
        assert!(sessions.state().by_token.is_empty());
    }

    /// R9.
    #[test]
    fn only_the_key_of_a_session_cancels_it() {
        let sessions = Sessions::default();
        let one = token("t-1", 2);
        let place = sessions.place(&one, false).unwrap();
        assert_eq!((place.number >> 31, place.key.len()), (0, 4));
        let canceller = Arc::new(Canceller::new("nowhere".into()));
        place.enter(Arc::clone(&canceller));
        let (number, key) = (place.number, place.key.clone());
        let found = sessions.canceller(number, &key).expect("its own key");
        assert!(Arc::ptr_eq(&found, &canceller));
        let mut wrong = key.clone();
        wrong[0] ^= 1;
        assert!(sessions.canceller(number, &wrong).is_none());
        assert!(sessions.canceller(number, &key[..3]).is_none());
        assert!(sessions.canceller(number, &[]).is_none());
        assert!(sessions.canceller(number ^ 1, &key).is_none());
        drop(place);
        assert!(sessions.canceller(number, &key).is_none(), "it ends with the session");
    }
}
