//! How many connections each token has, over all doors, and how many sessions each branch.

use duramen_api::token::Token;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

type Counts = HashMap<String, u32>;

/// The connections of each token and of each branch, by their ids.
#[derive(Debug, Default)]
pub(crate) struct Places(Arc<Mutex<Counts>>);

/// The place of a connection; it counts as long as this lives.
#[derive(Debug)]
pub(crate) struct Place {
    counts: Arc<Mutex<Counts>>,
    id: String,
}

fn locked(counts: &Mutex<Counts>) -> MutexGuard<'_, Counts> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Places {
    /// Gives a token's holder a place for a connection, unless it has as many as it may.
    pub(crate) fn take(&self, token: &Token) -> Option<Place> {
        self.take_of(&token.id, token.max_connections)
    }

    /// Gives a session a place in a branch, unless that has `most`.
    pub(crate) fn take_in(&self, branch: &str, most: u32) -> Option<Place> {
        self.take_of(branch, most)
    }

    // The ids of tokens and branches begin with other letters.
    fn take_of(&self, id: &str, most: u32) -> Option<Place> {
        let mut counts = locked(&self.0);
        if counts.get(id).copied().unwrap_or(0) >= most {
            return None;
        }
        *counts.entry(id.to_owned()).or_default() += 1;
        Some(Place { counts: Arc::clone(&self.0), id: id.to_owned() })
    }
}

impl Place {
    /// Whether it is that of a token.
    pub(crate) fn is_of(&self, token: &Token) -> bool {
        self.id == token.id
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = locked(&self.counts);
        if let Some(count) = counts.get_mut(&self.id) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use duramen_api::token::CreateToken;

    /// H8, R13.
    #[test]
    fn a_token_has_no_more_connections_than_it_may_and_gets_its_places_back() {
        let wanted = CreateToken { max_connections: Some(2), ..CreateToken::default() };
        let token = |id: &str| Token::new(id.to_owned(), wanted.clone(), jiff::Timestamp::UNIX_EPOCH);
        let (places, one) = (Places::default(), token("t-1"));
        let held = [places.take(&one).unwrap(), places.take(&one).unwrap()];
        assert!(places.take(&one).is_none() && places.take(&token("t-2")).is_some());
        assert!(held[0].is_of(&one) && !held[0].is_of(&token("t-2")));
        let in_branch = places.take_in("b-1", 1).unwrap();
        assert!(places.take_in("b-1", 1).is_none() && places.take_in("b-2", 1).is_some());
        drop((held, in_branch));
        assert!(locked(&places.0).is_empty());
    }
}
