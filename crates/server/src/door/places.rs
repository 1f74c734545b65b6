//! How many connections each token has.

use crate::token::Token;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

type Counts = HashMap<String, u32>;

/// The connections of each token, by its id.
#[derive(Debug, Default)]
pub(super) struct Places(Arc<Mutex<Counts>>);

/// The place of a connection; it counts as long as this lives.
#[derive(Debug)]
pub(super) struct Place {
    counts: Arc<Mutex<Counts>>,
    token: String,
}

fn locked(counts: &Mutex<Counts>) -> MutexGuard<'_, Counts> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Places {
    /// Gives a token's holder a place for a connection, unless it has as many as it may.
    pub(super) fn take(&self, token: &Token) -> Option<Place> {
        let mut counts = locked(&self.0);
        let count = counts.entry(token.id.clone()).or_default();
        if *count >= token.max_connections {
            return None;
        }
        *count += 1;
        Some(Place { counts: Arc::clone(&self.0), token: token.id.clone() })
    }
}

impl Place {
    /// Whether it is that of a token.
    pub(super) fn is_of(&self, token: &Token) -> bool {
        self.token == token.id
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = locked(&self.counts);
        if let Some(count) = counts.get_mut(&self.token) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.token);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::CreateToken;

    /// H8.
    #[test]
    fn a_token_has_no_more_connections_than_it_may_and_gets_its_places_back() {
        let wanted = CreateToken { max_connections: Some(2), ..CreateToken::default() };
        let token = |id: &str| Token::new(id.to_owned(), wanted.clone(), jiff::Timestamp::UNIX_EPOCH);
        let (places, one) = (Places::default(), token("t-1"));
        let held = [places.take(&one).unwrap(), places.take(&one).unwrap()];
        assert!(places.take(&one).is_none() && places.take(&token("t-2")).is_some());
        assert!(held[0].is_of(&one) && !held[0].is_of(&token("t-2")));
        drop(held);
        assert!(locked(&places.0).is_empty());
    }
}
