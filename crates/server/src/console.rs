//! The browser console at the HTTP door: its page, and who is signed in. How that works, and what it promises, is in
//! `docs/design/console.md`; the invariants W1 to W10 that comments and tests name are there.

mod browser;
mod links;
mod page;
mod requests;
mod sessions;

pub(crate) use browser::{Browser, Shown};
pub(crate) use page::page;
pub(crate) use requests::session;
pub(crate) use sessions::Session;

use crate::door::Counts;
use base64::{engine::general_purpose::URL_SAFE_NO_PAD, Engine as _};
use duramen_base::entropy;
use links::Links;
use sessions::Sessions;
use std::{path::Path, sync::Arc};

/// Who is signed in at a door, and who may be.
#[derive(Debug)]
pub(crate) struct Console {
    pub(crate) sessions: Sessions,
    links: Links,
    counts: Arc<Counts>,
}

impl Console {
    /// The console of a home, whose directory `doors` this is.
    pub(crate) fn open(doors: &Path, counts: Arc<Counts>) -> Console {
        Console { sessions: Sessions::open(doors), links: Links::default(), counts }
    }
}

/// A secret of 256 bits, and what is kept of it.
fn secret() -> (String, blake3::Hash) {
    let text = URL_SAFE_NO_PAD.encode(entropy::random_bytes::<32>());
    let hash = hash(&text);
    (text, hash)
}

/// What is kept of a secret that has 256 random bits: one round is enough.
fn hash(secret: &str) -> blake3::Hash {
    blake3::hash(secret.as_bytes())
}
