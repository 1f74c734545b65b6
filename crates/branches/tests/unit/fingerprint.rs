//! B30: what a fingerprint notices, and what it does not mind: each change is made in a database of its own, by a session
//! that the server does not count (`track_counts = off`), between two fingerprints; harmless work by one that it counts.

use super::{compare, contents::key, Address};
use crate::{error::EngineError, model::SourceFingerprint};
use duramen_postgres::{Cluster, Installation, Postmaster, ServerUser, Settings, StopMode};
use std::{
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio_postgres::{Client, Config, NoTls};

const LIMIT: Duration = Duration::from_secs(60);

/// What every database holds at first.
const AT_FIRST: &str = "
    create table t (id int primary key, v text default 'x', n int constraint positive check (n > 0), unique (id, n));
    insert into t select i, 'v' || i, i from generate_series(1, 50) i;
    create table child (id int references t);
    create index by_value on t (v);
    create view seen as select id from t;
    create materialized view kept as select count(*) from t;
    create rule quiet as on insert to child do also nothing;
    create sequence s;
    create type mood as enum ('glad');
    create domain small as int check (value < 10);
    create function f() returns int language sql as 'select 1';
    create function fires() returns trigger language plpgsql as 'begin return new; end';
    create function watches() returns event_trigger language plpgsql as 'begin end';
    create trigger mark before update on t for each row execute function fires();
    create policy mine on t using (true);
    create table parts (id int) partition by range (id);
    create table part partition of parts for values from (0) to (10);
    create publication p;
    create foreign data wrapper w;
    create server far foreign data wrapper w;
    create user mapping for reader server far options (secret 'a');
    create text search configuration words (copy = simple);
    select lo_from_bytea(4242, 'before');";

/// What is changed, and how.
const CHANGES: &[(&str, &str)] = &[
    ("a row is added", "insert into t values (51, 'x', 1)"),
    ("a row is changed", "update t set v = 'other' where id = 7"),
    ("a row is removed", "delete from t where id = 7"),
    ("a table is emptied", "truncate child, t"),
    ("a table is added", "create table more ()"),
    ("a table is removed", "drop table child"),
    ("a table is renamed", "alter table child rename to kid"),
    ("a table is given away", "alter table t owner to writer"),
    ("a column is renamed", "alter table t rename v to w"),
    ("a column gets another type", "alter table child alter id type bigint"),
    ("a column gets another length", "alter table t alter v type varchar(90)"),
    ("a column may not be null", "alter table child alter id set not null"),
    ("a column's default", "alter table t alter v set default 'y'"),
    ("a check is added", "alter table t add constraint bounded check (n < 100)"),
    ("a check is removed", "alter table t drop constraint positive"),
    ("a check is only declared", "alter table t add constraint later check (n < 99) not valid"),
    ("a foreign key is removed", "alter table child drop constraint child_id_fkey"),
    ("triggers of a foreign key are switched off", "alter table child disable trigger all"),
    ("a trigger is switched off", "alter table t disable trigger mark"),
    ("a trigger is removed", "drop trigger mark on t"),
    (
        "a trigger's function",
        "create or replace function fires() returns trigger language plpgsql as 'begin return old; end'",
    ),
    ("a view", "create or replace view seen as select id + 1 as id from t"),
    ("a view's rights", "alter view seen set (security_barrier)"),
    ("a rule", "create or replace rule quiet as on insert to child do instead nothing"),
    ("a policy", "alter policy mine on t using (id < 10)"),
    ("row-level security", "alter table t enable row level security"),
    ("a grant on a table", "grant select on t to reader"),
    ("a grant on a column", "grant select (v) on t to reader"),
    ("a grant on a schema", "grant create on schema public to reader"),
    ("a grant on a function of the system", "revoke execute on function pg_catalog.lower(text) from public"),
    ("default privileges", "alter default privileges grant select on tables to reader"),
    ("a function", "create or replace function f() returns int language sql as 'select 2'"),
    ("a function's rights", "alter function f() security definer"),
    ("a function's settings", "alter function f() set search_path = public"),
    ("a value of an enumeration", "alter type mood add value 'sad'"),
    ("a domain", "alter domain small add constraint odd check (value <> 2)"),
    ("a sequence moves", "select nextval('s')"),
    ("a sequence's step", "alter sequence s increment 5"),
    ("an index is added", "create index on t (n)"),
    ("an index is removed", "drop index by_value"),
    ("an index gets a setting", "alter index by_value set (fillfactor = 50)"),
    ("a table gets a setting", "alter table t set (fillfactor = 50)"),
    ("the replica identity", "alter table t replica identity full"),
    ("a partition is taken out", "alter table parts detach partition part"),
    ("extended statistics", "create statistics pairs on id, n from t"),
    ("a schema", "create schema another"),
    ("an event trigger", "create event trigger e on ddl_command_end execute function watches()"),
    ("a publication", "alter publication p add table t"),
    ("a foreign server", "alter server far options (host 'elsewhere')"),
    ("a user mapping", "alter user mapping for reader server far options (set secret 'b')"),
    ("a search configuration", "alter text search configuration words drop mapping for url"),
    ("a large object is changed", "select lo_put(4242, 0, 'after!')"),
    ("a large object is added", "select lo_from_bytea(4243, 'new')"),
    ("a large object is given away", "alter large object 4242 owner to writer"),
    ("an extension's language", "drop extension plpgsql cascade"),
    (
        "a setting of the database",
        "do $$ begin execute format('alter database %I set work_mem = ''9MB''', current_database()); end $$",
    ),
];

/// What is changed for all databases, and the catalogue that shows it.
const SHARED_CHANGES: &[(&str, &str)] = &[
    ("passwords", "alter role reader password 'other'"),
    ("roles", "alter role reader createdb"),
    ("memberships", "grant writer to reader"),
    ("settings of roles and databases", "alter role writer set work_mem = '5MB'"),
    ("databases", "grant temporary on database postgres to reader"),
    ("privileges on parameters", "grant set on parameter log_statement to reader"),
];

/// What changes nothing. `;;` separates what cannot be in one transaction.
const HARMLESS: &[(&str, &str)] = &[
    ("statistics", "analyze"),
    ("vacuum", "vacuum"),
    ("freezing", "vacuum freeze"),
    ("a rewrite that keeps the rows", "vacuum full t"),
    ("an index is built anew", "reindex table t"),
    ("indexes are built anew beside their use", "reindex table concurrently t"),
    ("a temporary table", "create temporary table mine as select * from t;; update mine set v = 'z';; create index on mine (v)"),
    ("temporary objects", "create temporary view w as select 1;; create type pg_temp.c as (a int);; create function pg_temp.g() returns int language sql as 'select 1'"),
    ("locked rows", "select * from t for update"),
    ("a definition that is rolled back", "begin; create table gone (); rollback"),
    ("a read with everything switched on", "explain (analyze, buffers) select * from t join child using (id)"),
    ("a checkpoint", "checkpoint"),
    ("messages and locks", "notify news;; select pg_advisory_lock(1)"),
];

struct Server {
    server: Postmaster,
    socket: PathBuf,
}

impl Server {
    fn start(cluster: &Cluster, socket: PathBuf) -> Server {
        Server { server: cluster.start(&socket, &Settings::new(), LIMIT).expect("the server starts"), socket }
    }

    fn config(&self) -> Config {
        let mut config = Config::new();
        config.host_path(&self.socket).port(5432).user("boss").dbname("postgres");
        config
    }

    /// Runs statements one by one, which are divided by `;;`.
    async fn run(&self, database: &str, options: &str, sql: &str) {
        let client = self.client(database, options).await;
        for statement in sql.split(";;") {
            client.batch_execute(statement).await.unwrap_or_else(|error| panic!("{statement}: {error:?}"));
        }
    }

    async fn client(&self, database: &str, options: &str) -> Client {
        let mut config = self.config();
        config.dbname(database).options(options);
        let (client, connection) = config.connect(NoTls).await.expect("the server answers");
        tokio::spawn(connection);
        client
    }

    async fn position(&self, function: &str) -> u64 {
        let sql = format!("select ({function}() - '0/0')::bigint");
        let position: i64 =
            self.client("postgres", "").await.query_one(&sql, &[]).await.expect("a position").get(0);
        u64::try_from(position).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.server.kill();
    }
}

fn changed_in(number: usize) -> String {
    format!("changed{number:02}")
}

fn harmless_in(number: usize) -> String {
    format!("harmless{number:02}")
}

fn is_about(line: &str, database: &str) -> bool {
    line.strip_prefix(database).is_some_and(|rest| rest.starts_with(['.', ' ']))
}

fn check(what: &str, differences: &[String]) {
    for (number, (change, _)) in CHANGES.iter().enumerate() {
        // A setting of a database stands where all databases look.
        let database = if change.starts_with("a setting of the database") {
            "all databases".to_owned()
        } else {
            changed_in(number)
        };
        assert!(differences.iter().any(|line| is_about(line, &database)), "{what}: {change} goes unseen");
    }
    for (catalogue, change) in SHARED_CHANGES {
        let place = format!("all databases ({catalogue})");
        assert!(differences.iter().any(|line| line.starts_with(&place)), "{what}: {change} goes unseen");
    }
    for (number, (work, _)) in HARMLESS.iter().enumerate() {
        let database = harmless_in(number);
        let said: Vec<&String> = differences.iter().filter(|line| is_about(line, &database)).collect();
        assert!(said.is_empty(), "{what}: {work} is taken for a change: {said:?}");
    }
}

/// The cluster of a primary with a database for each change and each harmless work; its server is stopped.
async fn prepared(dir: &Path, major: u32) -> (Cluster, PathBuf) {
    let installation = Installation::choose(dir, Some(major)).expect("a server");
    let user = ServerUser::current().expect("a server user");
    let cluster = Cluster::new(installation, dir.join(format!("primary-{major}")), user);
    cluster.init("boss", false).expect("initdb");
    cluster.write_file("pg_hba.conf", "local all all trust\nlocal replication all trust\n").expect("hba");
    let settings = "fsync = off\nlisten_addresses = ''\nautovacuum = off\nshared_buffers = 32MB\n";
    cluster.append_conf(settings).expect("settings");
    let socket = dir.join(format!("p{major}"));
    let mut primary = Server::start(&cluster, socket.clone());
    primary
        .run(
            "postgres",
            "",
            "create role reader login password 'one';; create role writer;; create database first",
        )
        .await;
    primary.run("first", "", AT_FIRST).await;
    let changed = (0..CHANGES.len()).map(changed_in);
    for database in changed.chain((0..HARMLESS.len()).map(harmless_in)) {
        primary
            .run("postgres", "", &format!("create database {database} template first strategy file_copy"))
            .await;
    }
    primary.server.stop(StopMode::Fast, LIMIT).expect("it stops");
    (cluster, socket)
}

async fn work(primary: &Server) {
    for (number, (_, sql)) in HARMLESS.iter().enumerate() {
        primary.run(&harmless_in(number), "", sql).await;
    }
    for (number, (_, sql)) in CHANGES.iter().enumerate() {
        primary.run(&changed_in(number), "-c track_counts=off", sql).await;
    }
    for (_, sql) in SHARED_CHANGES {
        primary.run("postgres", "-c track_counts=off", sql).await;
    }
}

async fn of_server(config: &Config) -> Result<SourceFingerprint, EngineError> {
    let stall = super::super::stall::STALL_LIMIT;
    super::of_server(&Address::local(config.clone()), None, stall, &|_, _| {}).await
}

async fn on_a_primary(dir: &Path, major: u32) {
    let (cluster, socket) = prepared(dir, major).await;
    let primary = Server::start(&cluster, socket);
    let before = of_server(&primary.config()).await.expect("a fingerprint");
    work(&primary).await;
    let after = of_server(&primary.config()).await.expect("a fingerprint");
    let differences = compare(&before, &after).differences;
    check(&format!("{major}, primary"), &differences);
    let counted = differences.iter().any(|line| line.contains("rows written"));
    assert!(!counted, "{major}: nothing was counted: {differences:?}");

    // What was undone leaves the same contents: the server's counts tell.
    primary
        .run("first", "", "update t set v = 'other' where id = 1;; update t set v = 'v1' where id = 1")
        .await;
    let undone = compare(&after, &of_server(&primary.config()).await.expect("a fingerprint")).differences;
    assert!(matches!(&undone[..], [only] if only.contains("rows written")), "{major}: {undone:?}");
}

async fn on_a_standby(dir: &Path, major: u32) {
    let (cluster, socket) = prepared(dir, major).await;
    let upstream = format!("host={} port=5432 user=boss", socket.display());
    let standby = cluster.cold_standby(dir.join("standby"), &upstream).expect("a standby");
    let primary = Server::start(&cluster, socket);
    let standby = Server::start(&standby, dir.join("s"));
    let before = of_server(&standby.config()).await.expect("a fingerprint of the standby");
    work(&primary).await;
    let written = primary.position("pg_current_wal_insert_lsn").await;
    let follows = async {
        while standby.position("pg_last_wal_replay_lsn").await < written {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(LIMIT, follows).await.expect("the standby follows");
    let after = of_server(&standby.config()).await.expect("a fingerprint of the standby");
    check(&format!("{major}, standby"), &compare(&before, &after).differences);
    assert!(after.left_out["rows written"].contains("standby"), "{:?}", after.left_out);
}

fn directory() -> tempfile::TempDir {
    let dir = tempfile::Builder::new().prefix("dm-").tempdir().expect("a directory");
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).expect("its mode");
    dir
}

#[test]
fn no_name_gives_an_object_the_key_of_another() {
    let keys = [
        key(["a", "b", "c"]),
        key(["a.b", "c", "d"]),
        key(["a", "b.c", "d"]),
        key(["a", "b", "c.d"]),
        key(["a", "b", "\"c.d\""]),
        format!("{} (views and rules)", key(["a"])),
        key(["a (views and rules)"]),
        format!("all databases ({})", "roles"),
        format!("{} (roles)", key(["all databases"])),
    ];
    let distinct: std::collections::BTreeSet<&String> = keys.iter().collect();
    assert_eq!(distinct.len(), keys.len(), "{keys:?}");
}

#[tokio::test]
async fn every_kind_of_change_to_a_primary_is_noticed_and_harmless_work_is_not() {
    assert!(CHANGES.len() + SHARED_CHANGES.len() >= 40 && HARMLESS.len() >= 10);
    on_a_primary(directory().path(), 15).await;
}

#[tokio::test]
async fn every_kind_of_change_is_noticed_on_a_standby_and_harmless_work_is_not() {
    on_a_standby(directory().path(), 18).await;
}
