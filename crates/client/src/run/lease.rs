//! A branch for as long as this process needs it: its lease is short and renewed meanwhile, so that the branch ends soon if the
//! process is killed.

use super::{environment, Fate};
use crate::{Client, ClientError};
use duramen_api::model::{BranchView, CreateBranch, RenewBranch};
use std::{future::pending, time::Duration};
use tokio::{process::Command, task::JoinHandle, time::sleep};

/// How long a branch that is kept lasts at least, in seconds.
const KEPT_S: i64 = 3600;

/// A branch whose lease is renewed until this is given back or dropped.
#[derive(Debug)]
pub struct Leased {
    client: Client,
    view: BranchView,
    ttl_s: i64,
    renewing: JoinHandle<()>,
}

impl Leased {
    /// Leases a branch that outlives this process by `ttl_s` seconds.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn take(client: &Client, request: CreateBranch, ttl_s: i64) -> Result<Leased, ClientError> {
        let request = CreateBranch { ttl_s: Some(ttl_s), ..request };
        let mut connection = client.connect().await?;
        // It waits for a branch as long as the daemon lets it.
        connection.set_deadline(crate::DEADLINE);
        let view = connection.create_branch(&request).await?;
        let renewing = tokio::spawn(renew(client.clone(), view.name.clone(), ttl_s));
        Ok(Leased { client: client.clone(), view, ttl_s, renewing })
    }

    /// The branch as it was leased.
    #[must_use]
    pub fn view(&self) -> &BranchView {
        &self.view
    }

    /// Its URL, with the secret.
    #[must_use]
    pub fn url(&self) -> String {
        self.client.with_secret(&self.view.url)
    }

    /// Has a command find the branch in its environment, and no other server. `false`: the branch's URL is of another form than this
    /// version knows.
    #[must_use]
    pub fn enter(&self, command: &mut Command) -> bool {
        let Some(variables) = environment::of(&self.url()) else { return false };
        command.envs(variables);
        for name in environment::ELSEWHERE {
            command.env_remove(name);
        }
        true
    }

    /// What the environment of [`Leased::enter`] holds that nobody else should read, as it is and as it stands in the URL.
    #[must_use]
    pub fn secrets(&self) -> Vec<String> {
        let variables = environment::of(&self.url()).unwrap_or_default();
        let Some((_, plain)) = variables.into_iter().find(|(name, _)| *name == "PGPASSWORD") else {
            return Vec::new();
        };
        let mut escaped = String::new();
        duramen_api::segment::escape(&plain, &mut escaped);
        let mut secrets = vec![plain, escaped];
        secrets.retain(|secret| !secret.is_empty());
        secrets.dedup();
        secrets
    }

    /// Gives the branch back, or has it last: for an hour, or its `ttl_s` if that is longer.
    pub async fn give_back(self, keep: bool) -> Fate {
        self.renewing.abort();
        let (client, branch) = (&self.client, &self.view);
        let parted = async {
            let mut connection = client.connect().await?;
            // The name may be somebody else's, if this one ended before its time.
            if connection.branch(&branch.name).await?.id != branch.id {
                return Ok(Fate::Missing);
            }
            if keep {
                let request = RenewBranch { ttl_s: Some(self.ttl_s.max(KEPT_S)), expires_at: None };
                Ok(Fate::Kept(connection.renew_branch(&branch.name, &request).await?.expires_at))
            } else {
                connection.destroy_branch(&branch.name).await.map(|_| Fate::Destroyed)
            }
        };
        match parted.await {
            Ok(fate) => fate,
            Err(ClientError::Refused { status: 404, .. }) => Fate::Missing,
            Err(error) => Fate::Left(error.to_string()),
        }
    }
}

impl Drop for Leased {
    fn drop(&mut self) {
        self.renewing.abort();
    }
}

/// Makes a lease last, as long as it is not dropped.
async fn renew(client: Client, name: String, ttl_s: i64) {
    let third = Duration::from_secs(ttl_s.unsigned_abs()) / 3;
    let mut pause = third;
    loop {
        sleep(pause).await;
        let request = RenewBranch { ttl_s: Some(ttl_s), expires_at: None };
        let renewed = async { client.connect().await?.renew_branch(&name, &request).await };
        pause = match renewed.await {
            Ok(_) => third,
            Err(ClientError::Refused { status: 404, .. }) => {
                tracing::warn!("the branch {name} has ended; the command goes on without it");
                pending().await
            }
            Err(error) => {
                tracing::warn!("the branch {name} was not renewed: {error}");
                third / 4
            }
        };
    }
}
