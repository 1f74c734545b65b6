//! Tokens that the fleet had and has no more: they let nobody in, and are kept until it has them again, or until the owner of the
//! machine brings them back (FL-13).

use super::{Kept, Line, TokenError, Tokens};
use duramen_api::token::Token;
use duramen_base::clock;
use duramen_postgres::scram::Verifier;
use std::collections::BTreeMap;

impl Tokens {
    /// A token that is suspended, as the fleet would have it.
    ///
    /// # Errors
    /// When none of that name is, or it cannot be brought back.
    #[cfg(feature = "fleet")]
    pub(crate) fn to_restore(&self, name: &str) -> Result<(Token, Vec<u8>), TokenError> {
        let line = self.to_come_back(&self.kept(), name)?;
        Ok((line.token.clone(), super::shared::value(line)))
    }

    /// Brings a suspended token back, with the secret that it had: as one of the fleet since a revision of etcd, or as one of this home
    /// alone.
    ///
    /// # Errors
    /// When none of that name is suspended, another one has the name, its time is over, or it cannot be written down.
    pub(crate) fn restore(&self, name: &str, since: Option<i64>) -> Result<Token, TokenError> {
        let mut kept = self.kept();
        let line = Line { shared: since.is_some(), ..self.to_come_back(&kept, name)? };
        let verifier: Verifier =
            line.verifier.parse().map_err(|_| TokenError::Invalid("the verifier of a token is none"))?;
        let hash = line.hash.as_deref().and_then(|hash| blake3::Hash::from_hex(hash).ok());
        let mut apart = self.apart();
        let mut changed = apart.clone();
        changed.suspended.retain(|other| other.token.name != name);
        self.write_with(kept.values().map(Kept::line).chain([line.clone()]).collect(), &changed)?;
        *apart = changed;
        let Line { token, shared, .. } = line;
        let restored =
            Kept { shared, revision: since.unwrap_or(0), ..Kept::new(token.clone(), verifier, hash) };
        kept.insert(name.to_owned(), restored);
        Ok(token)
    }

    fn to_come_back(&self, kept: &BTreeMap<String, Kept>, name: &str) -> Result<Line, TokenError> {
        if kept.contains_key(name) {
            return Err(TokenError::Exists(name.to_owned()));
        }
        if kept.len() >= super::TOKENS_MAX {
            return Err(TokenError::TooMany);
        }
        let apart = self.apart();
        let is_revoked = |line: &Line| apart.revoked.iter().any(|revoked| revoked.id == line.token.id);
        let mut suspended = apart.suspended.iter().filter(|line| !is_revoked(line));
        match suspended.clone().rfind(|line| line.token.name == name) {
            Some(line) if line.token.is_over(clock::utc_now()) => Err(TokenError::Over(name.to_owned())),
            Some(line) => Ok(line.clone()),
            None => {
                let mut known: Vec<String> = suspended.by_ref().map(|line| line.token.name.clone()).collect();
                known.sort();
                Err(TokenError::NotSuspended { name: name.to_owned(), known })
            }
        }
    }
}
