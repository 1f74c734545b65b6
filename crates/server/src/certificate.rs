//! The certificate of a door, which may be renewed while the door is open.

use crate::tls::{Identity, Tls, TlsError};
use std::{
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
};

/// A certificate, and from where it is.
#[derive(Debug)]
pub(crate) struct Certificate {
    given: Option<Identity>,
    dir: PathBuf,
    protocol: &'static [u8],
    current: RwLock<Arc<Tls>>,
}

impl Certificate {
    /// Reads it, or makes one in `dir`, as [`Tls::open`] does.
    pub(crate) fn open(
        given: Option<Identity>,
        dir: &Path,
        protocol: &'static [u8],
    ) -> Result<Certificate, TlsError> {
        let current = RwLock::new(Arc::new(Tls::open(given.as_ref(), dir, protocol)?));
        Ok(Certificate { given, dir: dir.to_owned(), protocol, current })
    }

    /// What a new connection is served with, from its first byte to its last.
    pub(crate) fn tls(&self) -> Arc<Tls> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads it anew, for connections that come from now on. If it cannot be used, the one that was read before stays.
    pub(crate) fn read_anew(&self) -> Result<(), TlsError> {
        let read = Arc::new(Tls::open(self.given.as_ref(), &self.dir, self.protocol)?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = read;
        Ok(())
    }
}
