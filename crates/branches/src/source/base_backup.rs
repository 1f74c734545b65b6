//! The copy of a running server, by `pg_basebackup`.

use super::{
    address::Address,
    connected::Connected,
    connection,
    draft::Draft,
    import::{invalid, Importer},
    origin_server::import_failed,
    refusal::read_error,
    stall::{slow, Still},
    tablespaces,
};
use crate::error::{EngineError, Kind};
use duramen_postgres::{Cluster, ClusterError, Installation};
use std::{path::Path, time::Duration};
use tokio_postgres::Client;

/// How often it is told how far the copy is.
const TOLD_EVERY: Duration = Duration::from_millis(500);

/// What a session tells of a server that is to be copied.
struct Seen {
    installation: Installation,
    /// About how many bytes it holds.
    bytes: u64,
    /// Directories outside its data directory.
    tablespaces: Vec<tablespaces::Outside>,
}

impl Importer<'_> {
    /// Copies a running server. Without a session on it, what a session would tell is found out by other ways.
    pub(super) async fn base_backup(
        &self,
        origin: &Address,
        client: Option<Connected>,
        database: Option<&str>,
        draft: &Draft<'_>,
    ) -> Result<(Installation, String), EngineError> {
        let seen = match &client {
            Some(client) => {
                let late = |_| slow("its size and tablespaces were looked up", self.stall);
                Some(tokio::time::timeout(self.stall, self.look_at(client)).await.map_err(late)??)
            }
            None => None,
        };
        drop(client);
        // The programs of a major version copy servers of earlier ones too.
        let installation = match &seen {
            Some(seen) => seen.installation.clone(),
            None => self.newest()?,
        };
        let database = database.unwrap_or_else(|| connection::database(&origin.config)).to_owned();
        self.create(draft, &installation)?;
        let cluster = self.open_cluster(draft, &self.copier(&installation, origin)?);

        // The password goes through the environment: arguments can be read by every user of the machine.
        // Certificates and passwords in the home directory of who runs the daemon are not meant for it.
        let mut env = vec![("HOME".to_owned(), "/nonexistent".to_owned())];
        if let Some(password) = origin.config.get_password() {
            env.push(("PGPASSWORD".to_owned(), String::from_utf8_lossy(password).into_owned()));
        }
        let arguments = |target: &Path, more: &[&str]| -> Vec<String> {
            let target = target.display().to_string();
            let connection = origin.conninfo();
            let common = ["--pgdata", &target, "--dbname", &connection, "--checkpoint=fast", "--no-password"];
            common.iter().chain(more).map(|argument| (*argument).to_owned()).collect()
        };
        let Some(seen) = seen else {
            // Files of tablespaces would be written to where they are on the origin. As one archive, it refuses them.
            let probe = arguments(Path::new("-"), &["--format=tar", "--wal-method=none", "--no-manifest"]);
            let (prober, secret) = (cluster.clone(), env.clone());
            let probing = tokio::task::spawn_blocking(move || {
                prober.run_until_output("pg_basebackup", &probe, &secret)
            });
            // What still runs is ended with the draft.
            tokio::time::timeout(self.stall, probing)
                .await
                .map_err(|_| slow("a base backup was begun", self.stall))?
                .map_err(|error| import_failed(&error))?
                .map_err(|error| match &error {
                    ClusterError::Failed { output, .. } if output.contains("single tablespace") => {
                        refuse_unseen_tablespaces()
                    }
                    _ => backup_failed(&error, origin),
                })?;
            let copy = arguments(&draft.path, &["--wal-method=stream", "--no-sync"]);
            self.copy(cluster, copy, env, None, origin, draft).await?;
            let major = Cluster::major_of(&draft.path).map_err(|error| import_failed(&error))?;
            return Ok((self.installation(major)?, database));
        };
        let mut copy = arguments(&draft.path, &["--wal-method=stream", "--no-sync"]);
        copy.extend(seen.tablespaces.iter().map(|outside| outside.mapping(&draft.path)));
        self.copy(cluster, copy, env, Some(seen.bytes), origin, draft).await?;
        tablespaces::take_in(&draft.path)?;
        Ok((installation, database))
    }

    /// Runs the copy to its end, and tells how far it is.
    async fn copy(
        &self,
        cluster: Cluster,
        arguments: Vec<String>,
        env: Vec<(String, String)>,
        total: Option<u64>,
        origin: &Address,
        draft: &Draft<'_>,
    ) -> Result<(), EngineError> {
        let backup = tokio::task::spawn_blocking(move || {
            cluster.run_with_env("pg_basebackup", &arguments, None, &env)
        });
        tokio::pin!(backup);
        let mut still = Still::new(self.stall);
        loop {
            tokio::select! {
                done = &mut backup => {
                    done.map_err(|error| import_failed(&error))?.map_err(|error| backup_failed(&error, origin))?;
                    return Ok(());
                }
                () = tokio::time::sleep(TOLD_EVERY) => {
                    let copied = tree_size(&draft.path);
                    let fraction = total.map(|total| (copied as f64 / total as f64).min(1.0));
                    (self.progress)("base backup", fraction);
                    // What still runs is ended with the draft.
                    still.look(copied, || format!("its base backup was made, after {} MB", copied / 1_000_000))?;
                }
            }
        }
    }

    /// The programs that copy from an address: those that will run the copy, unless it takes TLS that they do not have.
    /// Those of a later major version copy from earlier ones.
    fn copier(&self, installation: &Installation, origin: &Address) -> Result<Installation, EngineError> {
        if !origin.by_network() || installation.features().tls {
            return Ok(installation.clone());
        }
        let installed = Installation::discover(self.home.root())
            .map_err(|error| EngineError::new(Kind::Failed, "no_server", error.to_string()))?;
        let able = installed
            .into_iter()
            .filter(|found| found.version.major >= installation.version.major && found.features().tls)
            .min_by_key(|found| found.version.major);
        match able {
            Some(found) => Ok(found),
            None if origin.security.demands() => Err(invalid(
                "no_tls",
                format!(
                    "the URL asks for TLS, and pg_basebackup {} in {} was built without it; install a PostgreSQL {} with TLS \
                     (Debian's package postgresql-{}, or a later one), or set DURAMEN_PG_BIN to the directory that holds it",
                    installation.version,
                    installation.bin_dir.display(),
                    installation.version.major,
                    installation.version.major,
                ),
            )),
            None => Ok(installation.clone()),
        }
    }

    async fn look_at(&self, client: &Client) -> Result<Seen, EngineError> {
        let fail = |error: tokio_postgres::Error| read_error(&error);
        let row = client
            .query_one(
                "select current_setting('server_version_num')::int / 10000, \
                 (select coalesce(sum(case when has_database_privilege(oid, 'connect') then pg_database_size(oid) end), 0)::bigint \
                  from pg_database)",
                &[],
            )
            .await
            .map_err(fail)?;
        let outside = client
            .query(
                "select oid, pg_tablespace_location(oid) from pg_tablespace \
                 where oid >= 16384 and pg_tablespace_location(oid) like '/%' order by 1",
                &[],
            )
            .await
            .map_err(fail)?;
        Ok(Seen {
            installation: self.installation(u32::try_from(row.get::<_, i32>(0)).unwrap_or_default())?,
            bytes: u64::try_from(row.get::<_, i64>(1)).unwrap_or(1).max(1),
            tablespaces: outside
                .iter()
                .map(|row| tablespaces::Outside { id: row.get(0), location: row.get(1) })
                .collect(),
        })
    }
}

fn tree_size(root: &Path) -> u64 {
    walkdir::WalkDir::new(root)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.metadata().ok())
        .map(|m| m.len())
        .sum()
}

fn refuse_unseen_tablespaces() -> EngineError {
    invalid(
        "tablespaces",
        "the source has tablespaces outside its data directory, and no session of ours may look where, because a login \
         trigger might run in it: GRANT SET ON PARAMETER event_triggers to the source's role, or import a dump as a script",
    )
}

/// What `pg_basebackup` said, without the address of the source.
fn backup_failed(error: &ClusterError, origin: &Address) -> EngineError {
    let error = origin.hidden_in(&error.to_string());
    EngineError::new(
        Kind::Failed,
        "backup_failed",
        format!("{error}; the source's role needs REPLICATION, a `replication` line in its pg_hba.conf, and a free wal sender"),
    )
}
