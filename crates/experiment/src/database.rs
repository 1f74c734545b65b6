//! A fresh branch of a source for each run: the command finds it in its environment, and afterwards it is told which rows were
//! changed in it, and it is gone (X14).

use crate::event::Data;
use duramen_api::model::{BranchView, CreateBranch, Policy, SourceView};
use duramen_base::clock;
use duramen_client::{
    run::{environment, Tables},
    Client, ClientError,
};
use std::{collections::BTreeMap, future::Future, io, thread, time::Duration};
use tokio::runtime::Builder;

/// How `measure.database` begins.
pub(crate) const SOURCE: &str = "source:";
/// A branch outlives the longest run by this, in seconds: then its lease ends, whoever was killed meanwhile.
const MARGIN_S: f64 = 120.0;
/// The longest lease, in seconds.
const TTL_S_MAX: f64 = 7_776_000.0;
/// How long it may take to read all that a source holds, which happens once if its digest is not known yet.
const DIGEST_LIMIT: Duration = Duration::from_secs(3600);
/// How long a request beside a run may take.
const REQUEST_LIMIT: Duration = Duration::from_secs(60);

/// Why a run has no branch, or it is not known what it did there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatabaseError {
    /// The daemon refused, or is not there.
    #[error("the branch for a run: {0}")]
    Client(#[from] ClientError),
    /// There is nobody to ask for branches.
    #[error("`measure.database` asks for branches of {name}, and no daemon is named here")]
    NoDaemon {
        /// The source.
        name: String,
    },
    /// What asks for branches cannot be started.
    #[error("cannot ask for a branch: {0}")]
    Runtime(#[from] io::Error),
    /// The source is another one than it was.
    #[error(
        "the source {name} has other data than when the segment began ({was}, and now {is}): its figures cannot be \
         compared with those before; run `baseline` to begin a new segment"
    )]
    Changed {
        /// The source.
        name: String,
        /// The digest that all samples of the segment have.
        was: String,
        /// The one that it has now.
        is: String,
    },
    /// The branch's URL is of another form than this version knows.
    #[error(
        "the URL of the branch {branch} cannot be read; daemon and program may be of different versions"
    )]
    Url {
        /// The branch.
        branch: String,
    },
}

/// Where fresh branches come from.
pub(crate) struct Databases {
    client: Client,
}

/// A branch that a run has.
pub(crate) struct Leased {
    branch: BranchView,
    before: Tables,
    digest: String,
    lease: Duration,
    /// What the command finds in its environment.
    pub(crate) env: Vec<(String, String)>,
}

impl Databases {
    pub(crate) fn new(client: Client) -> Databases {
        Databases { client: client.with_deadline(REQUEST_LIMIT) }
    }

    /// A fresh branch of a source, which must hold the data of this digest if one is given.
    pub(crate) fn lease(
        &self,
        source: &str,
        policy: Option<Policy>,
        timeout_s: f64,
        digest: Option<&str>,
    ) -> Result<Leased, DatabaseError> {
        self.ask(async {
            let begin = clock::now();
            #[expect(clippy::cast_possible_truncation, reason = "it is within the limits of a lease")]
            let ttl_s = (timeout_s + MARGIN_S).clamp(1.0, TTL_S_MAX) as i64;
            let request = CreateBranch {
                source: Some(source.to_owned()),
                policy,
                ttl_s: Some(ttl_s),
                ..CreateBranch::default()
            };
            // Before the lease, whose time would go by meanwhile.
            self.sealed(source).await?;
            let mut connection = self.client.connect().await?;
            // It waits for a branch as long as the daemon lets it.
            connection.set_deadline(duramen_client::DEADLINE);
            let branch = connection.create_branch(&request).await?;
            let lease = begin.elapsed();
            let leased = self.prepare(source, &branch, digest, lease).await;
            if leased.is_err() {
                let _ = self.end(&branch).await;
            }
            leased
        })
    }

    /// A source with its digest, which may not have been taken yet.
    async fn sealed(&self, source: &str) -> Result<SourceView, ClientError> {
        let mut connection = self.client.connect().await?;
        let found = connection.source(source).await?;
        if !found.digest.is_empty() {
            return Ok(found);
        }
        connection.set_deadline(DIGEST_LIMIT);
        connection.verify_source(source).await?;
        connection.source(source).await
    }

    async fn prepare(
        &self,
        source: &str,
        branch: &BranchView,
        digest: Option<&str>,
        lease: Duration,
    ) -> Result<Leased, DatabaseError> {
        let env = environment::of(&self.client.with_secret(&branch.url))
            .ok_or_else(|| DatabaseError::Url { branch: branch.name.clone() })?;
        // The digest is asked for after the branch was made: a source that was replaced before has the new one.
        let found = self.sealed(source).await?;
        let was = digest.unwrap_or(&found.digest);
        if found.digest != was || found.generation != branch.generation {
            return Err(DatabaseError::Changed {
                name: source.to_owned(),
                was: was.to_owned(),
                is: found.digest,
            });
        }
        let before = Tables::of(&self.client, &branch.name).await?;
        let env = env.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Ok(Leased { branch: branch.clone(), before, digest: found.digest, lease, env })
    }

    /// What was changed in a branch, or why that is not known; then it is gone. A run that removed its own branch, or
    /// blocks it, is invalid; a daemon that cannot be reached is an error, and says nothing about the run.
    pub(crate) fn give_back(&self, leased: &Leased) -> Result<Result<Data, String>, DatabaseError> {
        self.ask(async {
            let found = leased.before.written(&self.client, &leased.branch.name).await;
            let ended = self.end(&leased.branch).await;
            let changes = match found {
                Ok(changes) => changes,
                Err(error @ (ClientError::Refused { .. } | ClientError::Timeout { .. })) => {
                    return Ok(Err(format!("which rows it changed cannot be told: {error}")));
                }
                Err(error) => return Err(error.into()),
            };
            ended?;
            let rows = changes.into_iter().map(|it| (it.name, [it.inserted, it.updated, it.deleted]));
            Ok(Ok(Data {
                digest: leased.digest.clone(),
                lease_s: leased.lease.as_secs_f64(),
                rows: rows.collect::<BTreeMap<_, _>>(),
            }))
        })
    }

    async fn end(&self, branch: &BranchView) -> Result<(), ClientError> {
        let mut connection = self.client.connect().await?;
        match connection.branch(&branch.name).await {
            // The name may be somebody else's, if this one ended before its time.
            Ok(found) if found.id == branch.id => connection.destroy_branch(&branch.name).await.map(|_| ()),
            Ok(_) | Err(ClientError::Refused { status: 404, .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Waits for an answer, in a thread of its own: callers may be within a runtime, which must not be blocked in another one.
    fn ask<T: Send>(
        &self,
        work: impl Future<Output = Result<T, DatabaseError>> + Send,
    ) -> Result<T, DatabaseError> {
        thread::scope(|scope| {
            let wait = || Builder::new_current_thread().enable_all().build()?.block_on(work);
            let asking = thread::Builder::new().spawn_scoped(scope, wait)?;
            asking.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

/// The source that a spec names: what comes after `source:`.
pub(crate) fn source_of(database: &str) -> Option<&str> {
    database.strip_prefix(SOURCE).filter(|name| !name.is_empty())
}
