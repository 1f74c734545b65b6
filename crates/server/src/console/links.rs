//! Links that sign a browser in once (W5).

use super::{hash, secret};
use crate::tokens::{Bond, Grant, Tokens};
use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// How long a link is good.
pub(super) const GOOD_FOR: Duration = Duration::from_secs(60);
/// How many there are at a time; one more ends the oldest.
const LINKS_MAX: usize = 16;

/// Links that nobody has taken yet, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Links(Mutex<Vec<Link>>);

#[derive(Debug)]
struct Link {
    hash: blake3::Hash,
    bond: Bond,
    until: Instant,
}

impl Links {
    /// Makes a link for the holder of a token.
    pub(super) fn make(&self, grant: &Grant, now: Instant) -> String {
        let (text, hash) = secret();
        let mut links = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        links.retain(|link| link.until > now);
        if links.len() >= LINKS_MAX {
            links.remove(0);
        }
        links.push(Link { hash, bond: grant.bond(), until: now + GOOD_FOR });
        text
    }

    /// Takes a link, which then is none any more.
    pub(super) fn take(&self, tokens: &Tokens, text: &str, now: Instant) -> Option<Grant> {
        let hash = hash(text);
        let mut links = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        links.retain(|link| link.until > now);
        // Hashes are compared in constant time.
        let place = links.iter().position(|link| link.hash == hash)?;
        let link = links.remove(place);
        drop(links);
        tokens.bound(&link.bond)
    }
}

#[cfg(test)]
#[path = "../../tests/unit/links.rs"]
mod tests;
