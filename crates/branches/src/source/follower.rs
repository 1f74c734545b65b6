//! A server of ours that subscribes to what an origin publishes: started, armed, laid down. F17, F20 and F21 are in
//! `docs/design/following.md`.

use super::{
    address::Address,
    connected::Connected,
    connection,
    import::invalid,
    manifest::{dir, read_json, write_json},
    origin_server::{import_failed, local, start_failed},
    publisher::{within, Table},
    refusal::read_error,
    sanitise::ADMIN,
    standby::{self, standby_path, Place, Standby},
    tablespaces,
};
use crate::{
    error::{EngineError, Kind},
    files::{self, io_error},
    following::Followers,
    home::Home,
    model::Sanitised,
};
use duramen_base::{clock, file};
use duramen_postgres::{quote_identifier, quote_literal, Cluster, Installation, Settings, Shut};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet,
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
    time::Duration,
};
use tokio_postgres::{Client, Config};

/// The first major version whose followers apply without rights, and stop at what they cannot apply.
pub(super) const FOLLOWERS_SINCE: u32 = 15;
/// The first major version whose subscriptions say as whom they apply, and whether they need a password.
const OWNERS_SINCE: u32 = 16;
/// The first major version that sends a transaction before it ends.
const STREAMS_SINCE: u32 = 14;
const START_LIMIT: Duration = Duration::from_secs(120);
/// How long a statement in a follower may take that touches no rows.
const LIMIT: Duration = Duration::from_secs(60);
/// How long a worker may take to end, and when it is ended.
const WORKER_LIMIT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(50);
/// The subscription.
const SUBSCRIPTION: &str = "duramen_follower";
/// As whom it applies: one of the roles of branches, which a follower lets nobody enter as.
const APPLIES: &str = "duramen_write";
/// The service that its connection names, and the files beside the sockets that explain it.
const SERVICE: &str = "duramen_origin";
const SERVICES: &str = "services";
const PASSWORD: &str = "origin";
/// Names the slot, in the data directory.
const MARKER: &str = "duramen_follower";
/// How long its log may become, in bytes: what is applied may write to it.
const LOG_MAX: u64 = 16 << 20;

/// What a follower was made of. In `sources/NAME/follower.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct FollowerRecord {
    pub(crate) slot: String,
    pub(crate) publication: String,
    pub(super) database: String,
    /// Of the origin.
    pub(super) system: u64,
    pub(super) origin_major: u32,
    pub(super) definitions: String,
    pub(super) published: String,
    /// Statements that disable what would run, and make it again what it was.
    pub(super) disable: Vec<String>,
    pub(super) enable: Vec<String>,
    /// What the copy was made without, and what was done to it.
    pub(super) report: Vec<Sanitised>,
    pub(crate) advice: Option<String>,
}

impl FollowerRecord {
    fn path(home: &Home, source: &str) -> PathBuf {
        dir(home, source).join("follower.json")
    }

    pub(crate) fn load(home: &Home, source: &str) -> Option<FollowerRecord> {
        read_json(&FollowerRecord::path(home, source)).ok()
    }

    pub(super) fn save(&self, home: &Home, source: &str) -> Result<(), EngineError> {
        write_json(&FollowerRecord::path(home, source), self)
    }

    pub(crate) fn remove(home: &Home, source: &str) -> Result<(), EngineError> {
        let path = FollowerRecord::path(home, source);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error("remove", &path, &error)),
            _ => Ok(()),
        }
    }

    /// F21: whether the data directory that is there was made with this slot.
    pub(crate) fn is_there(&self, place: &Place<'_>, source: &str) -> bool {
        let mut text = String::new();
        let marker = Path::new(source).join(MARKER);
        let read = files::open_below(&standby::standbys(place.store), &marker)
            .and_then(|file| file.take(256).read_to_string(&mut text));
        read.is_ok()
            && text.trim() == self.slot
            && standby_path(place.store, source).join("PG_VERSION").exists()
    }

    /// Marks a data directory as this one's.
    pub(super) fn mark(&self, cluster: &Cluster) -> Result<(), EngineError> {
        cluster.write_file(MARKER, &self.slot).map_err(|error| import_failed(&error))
    }
}

/// What a clone of a follower has no use for.
pub(super) fn unmark(clone: &Path) {
    let _ = fs::remove_file(clone.join(MARKER));
}

/// A follower that runs.
pub(crate) struct Follower {
    pub(super) client: Connected,
    major: u32,
}

impl Standby {
    /// Starts a follower, whose data directory is there. Blocks.
    fn serve(
        place: &Place<'_>,
        source: &str,
        origin: &Address,
        installation: &Installation,
    ) -> Result<Standby, EngineError> {
        let path = standby_path(place.store, source);
        let socket_dir = standby::socket_dir(place, source);
        let _ = fs::remove_dir_all(&socket_dir);
        let log = standby::log(place.home, source);
        let services = socket_dir.join(SERVICES);
        let cluster = Cluster::new(installation.clone(), &path, place.user.clone())
            .with_log(log.0)
            .with_server_env("PGSERVICEFILE", &services.display().to_string())
            .shut_in(place.cage.clone().map(|cage| {
                let hidden = vec![place.home.root().to_owned(), place.store.root.clone()];
                Shut::new(cage, hidden, socket_dir.clone()).with_network(standby::reached(origin))
            }));
        cluster.prepare_dir(&socket_dir).map_err(|error| import_failed(&error))?;
        // F20.
        let write = |name: &str, text: &str| {
            let at = socket_dir.join(name);
            file::replace_with(&at, text.as_bytes(), 0o600, |fresh| place.user.own_file(fresh))
                .map_err(|error| io_error("write", &at, &error))
        };
        let password_file = socket_dir.join(PASSWORD).display().to_string();
        let password = origin.config.get_password();
        if let Some(password) = password {
            write(PASSWORD, &standby::password_file(&String::from_utf8_lossy(password)))?;
        }
        let service = origin.service(SERVICE, "duramen", password.map(|_| password_file.as_str()));
        let service = service.ok_or_else(|| {
            invalid("bad_url", "the URL, or the name of its database, is too long or ends with a space: it cannot be followed")
        })?;
        write(SERVICES, &service)?;
        let settings = settings(installation.version.major, &path)?;
        let server =
            cluster.start(&socket_dir, &settings, START_LIMIT).map_err(|error| start_failed(&error))?;
        Ok(Standby { path, socket_dir, name: source.to_owned(), kept_in: None, timeline: None, server })
    }
}

/// Its data are to outlive the machine, and it is written to all the time.
fn settings(major: u32, path: &Path) -> Result<Settings, EngineError> {
    let mut settings = Settings::minimal(major).durable();
    for (name, value) in [
        ("restart_after_crash", "off"),
        ("shared_buffers", "128MB"),
        ("max_wal_size", "1GB"),
        ("checkpoint_timeout", "5min"),
        ("max_files_per_process", "1000"),
        ("autovacuum", "on"),
        ("max_worker_processes", "8"),
        ("max_logical_replication_workers", "2"),
        ("max_sync_workers_per_subscription", "0"),
        ("max_replication_slots", "4"),
        ("wal_receiver_status_interval", "1s"),
        ("wal_receiver_timeout", "30s"),
        ("wal_retrieve_retry_interval", "1s"),
        ("log_min_error_statement", "panic"),
    ] {
        settings.set(name, value);
    }
    if major >= OWNERS_SINCE {
        settings.set("max_parallel_apply_workers_per_subscription", "0");
    }
    if major >= connection::LOGIN_TRIGGERS_SINCE {
        settings.set("event_triggers", "off");
    }
    if tablespaces::are_inside(path)? {
        tablespaces::allow(&mut settings);
    }
    Ok(settings)
}

/// As whom the daemon enters a follower.
fn entrance(place: &Place<'_>, source: &str, database: &str) -> Config {
    local(&standby::socket_dir(place, source), ADMIN, &place.home.admin_secret(source), database)
}

/// The follower of a source, whose data directory is there: started, and subscribed then, if it does not run.
///
/// F17: only one that is armed is among `followers`. Whatever ends this before, and whoever lays one down, has the server, and so
/// ends it: nobody goes on with one that was armed by half.
pub(super) async fn running(
    place: &Place<'_>,
    followers: &Followers,
    source: &str,
    (record, origin): (&FollowerRecord, &Address),
) -> Result<Follower, EngineError> {
    let (major, fresh) = tokio::task::block_in_place(|| {
        let installation = place.installation(source)?;
        if let Some(mut standby) = followers.take(source) {
            if standby.is_running() {
                followers.put(source, standby);
                return Ok((installation.version.major, None));
            }
        }
        let standby = Standby::serve(place, source, origin, &installation)?;
        Ok::<_, EngineError>((installation.version.major, Some(standby)))
    })?;
    let entrance = entrance(place, source, &record.database);
    let entered = tokio::time::timeout(LIMIT, connection::own(&entrance, major)).await;
    let client = entered.map_err(|_| {
        EngineError::new(
            Kind::Failed,
            "follower_silent",
            "the follower does not let the daemon in: it may stand still",
        )
    })??;
    let follower = Follower { client, major };
    if let Some(standby) = fresh {
        // Its connection tells where it could not connect to.
        let told = |mut error: EngineError| {
            error.message = origin.hidden_in(&error.message);
            error
        };
        follower.arm(record).await.map_err(told)?;
        followers.put(source, standby);
    }
    Ok(follower)
}

impl Follower {
    async fn run(&self, sql: &str) -> Result<(), EngineError> {
        within(LIMIT, self.client.batch_execute(sql)).await
    }

    /// Has it subscribe, with nothing enabled that would run (F17). However far it was.
    async fn arm(&self, record: &FollowerRecord) -> Result<(), EngineError> {
        // Those of event triggers first, because they do not fire for these.
        for statement in &record.disable {
            self.run(statement).await?;
        }
        let there = format!("select from pg_subscription where subname = {}", quote_literal(SUBSCRIPTION));
        if within(LIMIT, self.client.query(&there, &[])).await?.is_empty() {
            let owners = if self.major >= OWNERS_SINCE {
                ", password_required = false, run_as_owner = true"
            } else {
                ""
            };
            let streaming = if record.origin_major >= STREAMS_SINCE { "on" } else { "off" };
            self.run(&format!(
                "create subscription {SUBSCRIPTION} connection 'service={SERVICE}' publication {} with (create_slot = false, \
                 slot_name = {}, enabled = false, copy_data = false, disable_on_error = true, streaming = {streaming}{owners})",
                quote_identifier(&record.publication),
                quote_literal(&record.slot),
            ))
            .await?;
        }
        if self.major >= OWNERS_SINCE {
            self.run(&format!("alter subscription {SUBSCRIPTION} owner to {APPLIES}")).await?;
        } else {
            // Only superusers are given one there; it applies with the rights that its owner has when it does.
            self.run(&format!(
                "begin; alter role {APPLIES} superuser; alter subscription {SUBSCRIPTION} owner to {APPLIES}; \
                 alter role {APPLIES} nosuperuser; commit"
            ))
            .await?;
        }
        self.resume().await
    }

    /// Has it apply again, if it has stopped at something.
    pub(super) async fn resume(&self) -> Result<(), EngineError> {
        match self.is_subscribed().await? {
            true => Ok(()),
            false => self.run(&format!("alter subscription {SUBSCRIPTION} enable")).await,
        }
    }

    /// Whether it goes on applying: not, when there was something that it could not apply.
    pub(super) async fn is_subscribed(&self) -> Result<bool, EngineError> {
        let sql =
            format!("select subenabled from pg_subscription where subname = {}", quote_literal(SUBSCRIPTION));
        let rows = within(LIMIT, self.client.query(&sql, &[])).await?;
        Ok(rows.first().is_some_and(|row| row.get(0)))
    }

    /// Ends its subscription for a while, and its worker.
    pub(super) async fn pause(&self) -> Result<(), EngineError> {
        self.run(&format!("alter subscription {SUBSCRIPTION} disable")).await?;
        let begin = clock::now();
        loop {
            let workers = "select pid from pg_stat_subscription where pid is not null";
            let rows = within(LIMIT, self.client.query(workers, &[])).await?;
            if rows.is_empty() {
                return Ok(());
            }
            if begin.elapsed() > WORKER_LIMIT {
                return Err(EngineError::new(
                    Kind::Failed,
                    "follower_busy",
                    "the follower does not stop applying what the origin wrote: try again",
                ));
            }
            if begin.elapsed() > WORKER_LIMIT / 2 {
                // Between two transactions, or in one that is sent again.
                self.run("select pg_terminate_backend(pid) from pg_stat_subscription where pid is not null")
                    .await?;
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Has sequences stand where these do: of each its schema and name, its value, and whether that was given out.
    pub(super) async fn set_sequences(&self, sequences: &[(Table, i64, bool)]) -> Result<(), EngineError> {
        for some in sequences.chunks(200) {
            let values: Vec<String> = some
                .iter()
                .map(|((schema, name), value, is_called)| {
                    let name = format!("{}.{}", quote_identifier(schema), quote_identifier(name));
                    format!("(to_regclass({}), {value}::int8, {is_called})", quote_literal(&name))
                })
                .collect();
            self.run(&format!(
                "select count(setval(s, v, c)) from (values {}) it (s, v, c) where s is not null",
                values.join(", ")
            ))
            .await?;
        }
        Ok(())
    }

    /// Refreshes materialised views in the order in which they were made, each with its owner's rights. One that cannot be is left
    /// without data: it would be of another time than its tables.
    pub(super) async fn refresh_views(&self, limit: Duration) -> Result<Vec<Sanitised>, EngineError> {
        let views = "select n.nspname::text, c.relname::text from pg_class c join pg_namespace n on n.oid = c.relnamespace \
                     where c.relkind = 'm' and c.relispopulated order by c.oid";
        let mut report = Vec::new();
        for row in within(LIMIT, self.client.query(views, &[])).await? {
            let name = format!("{}.{}", quote_identifier(row.get(0)), quote_identifier(row.get(1)));
            self.run(&format!("set statement_timeout = {}", limit.as_millis())).await?;
            let refreshed = self.client.batch_execute(&format!("refresh materialized view {name}")).await;
            self.run("set statement_timeout = 0").await?;
            if let Err(error) = refreshed {
                let Some(refusal) = error.as_db_error() else { return Err(read_error(&error)) };
                self.run(&format!("refresh materialized view {name} with no data")).await?;
                report.push(Sanitised {
                    kind: "materialised view".to_owned(),
                    object: name,
                    action: format!("without data: it could not be refreshed ({})", refusal.message()),
                });
            }
        }
        Ok(report)
    }

    /// Makes it again what the origin is: nobody subscribes, and what was disabled is enabled. After [`Follower::pause`].
    pub(super) async fn lay_down(&self, record: &FollowerRecord) -> Result<(), EngineError> {
        self.run(&format!("alter subscription {SUBSCRIPTION} owner to {ADMIN}")).await?;
        for statement in &record.enable {
            self.run(statement).await?;
        }
        self.client.batch_execute("checkpoint").await.map_err(|error| read_error(&error))
    }
}

/// Disables what would run when changes are applied, and returns the statements that do, and those that make it again what it was.
/// In the copy, once it is harmless. From the last on no statement of ours fires an event trigger.
pub(super) async fn disabled(client: &Client) -> Result<(Vec<String>, Vec<String>), EngineError> {
    let (mut disable, mut enable) = (Vec::new(), Vec::new());
    let state = "case tgenabled when 'R' then 'replica' when 'A' then 'always' end";
    let triggers = format!(
        "select n.nspname::text, c.relname::text, t.tgname::text, {state} from pg_trigger t join pg_class c on c.oid = t.tgrelid \
         join pg_namespace n on n.oid = c.relnamespace where tgenabled in ('R', 'A') and c.relkind in ('r', 'p') \
         and not tgisinternal order by t.oid"
    );
    let events =
        "select evtname::text, case evtenabled when 'R' then 'enable replica' when 'A' then 'enable always' \
                  else 'enable' end from pg_event_trigger where evtenabled <> 'D' order by 1";
    let mut enable_events = Vec::new();
    for row in client.query(events, &[]).await.map_err(|error| read_error(&error))? {
        let name = quote_identifier(row.get(0));
        disable.push(format!("alter event trigger {name} disable"));
        enable_events.push(format!("alter event trigger {name} {}", row.get::<_, &str>(1)));
    }
    for row in client.query(&triggers, &[]).await.map_err(|error| read_error(&error))? {
        let table = format!("{}.{}", quote_identifier(row.get(0)), quote_identifier(row.get(1)));
        let name = quote_identifier(row.get(2));
        disable.push(format!("alter table only {table} disable trigger {name}"));
        enable.push(format!("alter table only {table} enable {} trigger {name}", row.get::<_, &str>(3)));
    }
    enable.extend(enable_events);
    for statement in &disable {
        client.batch_execute(statement).await.map_err(|error| read_error(&error))?;
    }
    // What it could not apply is told by its log.
    let rights = format!("alter role {APPLIES} set log_min_messages = error");
    client.batch_execute(&rights).await.map_err(|error| read_error(&error))?;
    Ok((disable, enable))
}

/// Lets a follower write tables of extensions that are published as well: nobody else is ever in it.
pub(super) async fn let_write(client: &Client, tables: &BTreeSet<Table>) -> Result<(), EngineError> {
    for (schema, table) in tables {
        let table = format!("{}.{}", quote_identifier(schema), quote_identifier(table));
        let sql = format!("grant select, insert, update, delete, truncate on {table} to {APPLIES}");
        client.batch_execute(&sql).await.map_err(|error| read_error(&error))?;
    }
    Ok(())
}

/// The last thing that went wrong in a source's follower, by its log.
pub(super) fn complaint(home: &Home, source: &str, origin: &Address) -> Option<String> {
    let tail = standby::log(home, source).tail();
    let lines: Vec<&str> = tail.lines().map(str::trim).collect();
    let is_error = |line: &&str| line.contains("ERROR:  ") || line.contains("FATAL:  ");
    let at = lines.iter().rposition(is_error)?;
    let text = |line: &str| {
        let begin =
            ["ERROR:  ", "FATAL:  ", "DETAIL:  ", "CONTEXT:  "].iter().find_map(|word| line.find(word));
        begin.map(|begin| line[begin..].split_once("  ").map_or(line, |(_, said)| said).to_owned())
    };
    let rest = lines[at + 1..]
        .iter()
        .take(2)
        .filter(|line| line.contains("DETAIL:  ") || line.contains("CONTEXT:  "));
    let said: Vec<String> = std::iter::once(&lines[at]).chain(rest).filter_map(|line| text(line)).collect();
    Some(origin.hidden_in(&said.join("; ")))
}

/// Shortens the log of a follower that was written to too much.
pub(crate) fn shorten_log(home: &Home, source: &str) {
    let path = standby::log(home, source).0;
    if fs::metadata(&path).is_ok_and(|meta| meta.len() > LOG_MAX) {
        let shortened = fs::OpenOptions::new().write(true).open(&path).and_then(|file| file.set_len(0));
        if let Err(error) = shortened {
            tracing::warn!(source, %error, "the log of a follower is not shortened");
        }
    }
}
