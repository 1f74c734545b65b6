//! Tokens as the fleet has them: made, rotated and revoked there first, and followed by every node.

use super::Peers;
use crate::tokens::{Draft, Followed, Revoked, TokenError, Tokens};
use duramen_api::token::{CreateToken, NewToken, Token};
use duramen_branches::{EngineError, Kind};
use duramen_fleet::{etcd::EtcdError, member::Standing};
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;

/// How often tokens are looked at when nothing changes.
const FOLLOW_EVERY: Duration = Duration::from_secs(60);
/// The same, while something is not done yet.
const FOLLOW_AGAIN: Duration = Duration::from_secs(1);

impl Peers {
    /// Makes a token of the fleet.
    pub(crate) async fn create_token(
        &self,
        tokens: &Tokens,
        wanted: CreateToken,
    ) -> Result<NewToken, EngineError> {
        let draft = tokens.drafted(wanted).map_err(TokenError::into_engine_error)?;
        let name = draft.name().to_owned();
        match self.fleet.add_token(&name, &draft.value()).await.map_err(silent)? {
            Some(revision) => kept(tokens, draft, revision),
            None => Err(TokenError::Exists(name).into_engine_error()),
        }
    }

    /// Gives a token of the fleet another secret.
    pub(crate) async fn rotate_token(&self, tokens: &Tokens, name: &str) -> Result<NewToken, EngineError> {
        let (draft, token) = tokens.redrafted(name).map_err(TokenError::into_engine_error)?;
        let was = self.value_of(&token).await?;
        let value = draft.value();
        let replaced = match was {
            Some(was) => self.fleet.replace_token(name, &was, Some(&value)).await,
            None => self.fleet.add_token(name, &value).await,
        };
        match replaced.map_err(silent)? {
            Some(revision) => kept(tokens, draft, revision),
            None => Err(changed(name)),
        }
    }

    /// Has the fleet have a token again that it lost, with the secret that it had.
    pub(crate) async fn restore_token(&self, tokens: &Tokens, name: &str) -> Result<Token, EngineError> {
        let (token, value) = tokens.to_restore(name).map_err(TokenError::into_engine_error)?;
        let since = match self.fleet.add_token(name, &value).await.map_err(silent)? {
            Some(revision) => revision,
            // It has one of that name by now: this one, if another node was faster.
            None => {
                self.value_of(&token).await?;
                self.fleet.view().revision()
            }
        };
        match tokens.restore(name, Some(since)) {
            // The watch was faster.
            Err(TokenError::Exists(_)) if tokens.with_id(&token.id, name).is_some() => Ok(token),
            restored => restored.map_err(TokenError::into_engine_error),
        }
    }

    /// Ends a token: here at once, and on all nodes as soon as etcd answers. Tells why that is not yet, if it is so.
    pub(crate) async fn revoke_token(
        &self,
        tokens: &Tokens,
        name: &str,
    ) -> Result<(Token, Option<EngineError>), EngineError> {
        let token = tokens.revoke_in_fleet(name).map_err(TokenError::into_engine_error)?;
        let revoked = Revoked { id: token.id.clone(), name: name.to_owned() };
        let later = self.tell(tokens, &revoked).await.err().map(|error| {
            let message = format!(
                "the token {name} lets nobody in on this node any more; the other nodes hear of that when etcd answers: {error}"
            );
            EngineError::new(Kind::Unavailable, "fleet_silent", message)
        });
        Ok((token, later))
    }

    /// Has the fleet lose a token that was revoked here.
    async fn tell(&self, tokens: &Tokens, revoked: &Revoked) -> Result<(), EtcdError> {
        loop {
            let was = self.fleet.token(&revoked.name).await?;
            let is_it = |was: &Vec<u8>| {
                serde_json::from_slice::<Token>(was).is_ok_and(|token| token.id == revoked.id)
            };
            let Some(was) = was.filter(is_it) else { break };
            // Another node may rotate it at the same time.
            if self.fleet.replace_token(&revoked.name, &was, None).await?.is_some() {
                break;
            }
        }
        if let Err(error) = tokens.told(&revoked.id) {
            tracing::warn!(%error, name = revoked.name, "the fleet is told again that a token was revoked");
        }
        Ok(())
    }

    /// What the fleet has of a token; nothing, if it has none of that name.
    async fn value_of(&self, token: &Token) -> Result<Option<Vec<u8>>, EngineError> {
        let was = self.fleet.token(&token.name).await.map_err(silent)?;
        let is_other = was
            .as_deref()
            .is_some_and(|was| !serde_json::from_slice::<Token>(was).is_ok_and(|other| other.id == token.id));
        if is_other {
            Err(changed(&token.name))
        } else {
            Ok(was)
        }
    }

    /// Follows the tokens of the fleet, and makes those of this home known to it.
    pub(super) async fn follow_tokens(&self) {
        let Some(tokens) = self.tokens.as_ref().map(Arc::clone) else { return };
        let mut changes = self.fleet.changes();
        let (mut offered, mut is_out) = (false, true);
        loop {
            let ((all, revision), seen) = {
                let view = self.fleet.view();
                ((view.tokens(), view.revision()), view.age().is_some())
            };
            if seen {
                let following = Arc::clone(&tokens);
                // It writes a file.
                match tokio::task::spawn_blocking(move || following.follow(&all, revision)).await {
                    Ok(Ok(followed)) => {
                        report(&followed);
                        let clashes = !followed.clashes.is_empty();
                        if clashes && (!is_out || !offered) {
                            self.fleet.keep_out(Some(Standing::Refused(clashing(&followed.clashes))));
                        } else if !clashes && is_out {
                            self.fleet.keep_out(None);
                        }
                        is_out = clashes;
                    }
                    Ok(Err(error)) => tracing::error!(%error, "tokens of the fleet are not kept"),
                    Err(error) => tracing::error!(%error, "tokens of the fleet are not followed"),
                }
                for revoked in tokens.to_tell() {
                    if let Err(error) = self.tell(&tokens, &revoked).await {
                        tracing::debug!(%error, name = revoked.name, "the fleet is told later of a revocation");
                    }
                }
                if !offered && !is_out {
                    offered = self.offer(&tokens).await;
                }
            }
            // What is not done yet is tried again also when nothing changes.
            let is_done = offered && !is_out && tokens.to_tell().is_empty();
            let pause = if is_done { FOLLOW_EVERY } else { FOLLOW_AGAIN };
            if let Ok(Err(_)) = timeout(pause, changes.changed()).await {
                return;
            }
        }
    }

    /// Makes tokens of this home alone those of the fleet. A name that it has already stays its own.
    async fn offer(&self, tokens: &Tokens) -> bool {
        for (name, value) in tokens.own() {
            match self.fleet.add_token(&name, &value).await {
                Ok(Some(_)) if tokens.alive(&name).is_err() => {
                    // It was revoked meanwhile.
                    if let Err(error) = self.fleet.replace_token(&name, &value, None).await {
                        tracing::error!(%error, name, "a token that was revoked is one of the fleet; revoke it again");
                    }
                }
                Ok(Some(_)) => tracing::info!(name, "the token is one of the fleet now"),
                Ok(None) => tracing::warn!(name, "the fleet has another token of that name, which counts"),
                Err(error) => {
                    tracing::debug!(%error, name, "the token is made one of the fleet later");
                    return false;
                }
            }
        }
        true
    }
}

fn report(followed: &Followed) {
    let Followed { changed, suspended, left, .. } = followed;
    if !changed.is_empty() {
        tracing::info!(?changed, "tokens of the fleet have changed");
    }
    if !suspended.is_empty() {
        tracing::warn!(
            ?suspended,
            "the fleet has these tokens no more: they let nobody in, and are kept in doors/tokens.json"
        );
    }
    if *left > 0 {
        tracing::error!(left, "the fleet has more tokens than a home may have: some let nobody in here");
    }
}

fn clashing(names: &[String]) -> String {
    let names = names.join(", ");
    format!(
        "the fleet has other tokens of the names of this home's: {names}; revoke each of them here (`duramen token revoke NAME`), whose \
         holders then need one of the fleet's, or there, and this node joins"
    )
}

fn kept(tokens: &Tokens, draft: Draft, revision: i64) -> Result<NewToken, EngineError> {
    tokens.adopt(&draft, revision).map_err(TokenError::into_engine_error)?;
    Ok(draft.made())
}

fn silent(error: EtcdError) -> EngineError {
    EngineError::new(
        Kind::Unavailable,
        "fleet_silent",
        format!("{error}; tokens are as they were, as far as is known"),
    )
}

fn changed(name: &str) -> EngineError {
    let message = format!("the token {name} was changed on another node meanwhile; look at it (`duramen token list`), and try again");
    EngineError::new(Kind::Conflict, "token_changed", message)
}
