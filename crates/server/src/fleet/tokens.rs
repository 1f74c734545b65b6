//! Tokens as the fleet has them: made, rotated and revoked there first, and followed by every node.

use super::Peers;
use crate::tokens::{Draft, TokenError, Tokens};
use duramen_api::token::{CreateToken, NewToken, Token};
use duramen_branches::{EngineError, Kind};
use duramen_fleet::etcd::EtcdError;
use std::sync::Arc;

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

    /// Ends a token on all nodes.
    pub(crate) async fn revoke_token(&self, tokens: &Tokens, name: &str) -> Result<Token, EngineError> {
        let (_, token) = tokens.redrafted(name).map_err(TokenError::into_engine_error)?;
        if let Some(was) = self.value_of(&token).await? {
            if self.fleet.replace_token(name, &was, None).await.map_err(silent)?.is_none() {
                return Err(changed(name));
            }
        }
        match tokens.revoke(name) {
            // The watch was faster.
            Ok(_) | Err(TokenError::NotFound { .. }) => Ok(token),
            Err(error) => Err(error.into_engine_error()),
        }
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
        let mut offered = false;
        loop {
            let ((all, revision), seen) = {
                let view = self.fleet.view();
                ((view.tokens(), view.revision()), view.age().is_some())
            };
            if seen {
                match tokens.follow(&all, revision) {
                    Ok(changed) if changed.is_empty() => {}
                    Ok(changed) => tracing::info!(?changed, "tokens of the fleet have changed"),
                    Err(error) => tracing::error!(%error, "tokens of the fleet are not kept"),
                }
                if !offered {
                    offered = self.offer(&tokens).await;
                }
            }
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Makes tokens of this home alone those of the fleet. A name that it has already stays its own.
    async fn offer(&self, tokens: &Tokens) -> bool {
        for (name, value) in tokens.own() {
            match self.fleet.add_token(&name, &value).await {
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
