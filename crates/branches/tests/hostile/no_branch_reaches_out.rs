//! A branch of a server that is wired to others is wired to none: nothing in it connects, runs, or logs in elsewhere,
//! and no answer tells where the source lies.

use crate::support::{lease, pool, query, rows, settle, Home};
use duramen_api::model::{AddSource, BranchView, CreateBranch, Origin, Policy};
use duramen_branches::{compare, Engine};
use duramen_postgres::{Cluster, Installation, Postmaster, ServerUser, Settings};
use std::{fmt::Write, str::FromStr, time::Duration};
use tokio_postgres::{Client, Config, NoTls};

const PASSWORD: &str = "hunter2-of-the-origin";

/// A running server with everything by which a copy of it could reach out.
struct WiredServer {
    server: Postmaster,
    socket: std::path::PathBuf,
    url: String,
}

impl Drop for WiredServer {
    fn drop(&mut self) {
        self.server.kill();
    }
}

impl WiredServer {
    async fn start(home: &Home) -> WiredServer {
        let installation = Installation::choose(home.path(), None).expect("a server");
        let user = ServerUser::current().expect("a server user");
        let dir = home.beside("origin");
        let cluster = Cluster::new(installation, &dir, user);
        cluster.init("postgres", false).expect("initdb");
        cluster.write_file("pg_hba.conf", "local all all trust\nlocal replication all trust\n").expect("hba");
        let mut settings = Settings::new();
        for (name, value) in [
            ("listen_addresses", ""),
            ("fsync", "off"),
            ("wal_level", "logical"),
            ("max_wal_senders", "8"),
            ("max_replication_slots", "8"),
            ("max_prepared_transactions", "4"),
            ("archive_mode", "on"),
            ("shared_buffers", "16MB"),
            ("autovacuum", "off"),
        ] {
            settings.set(name, value);
        }
        cluster.write_file("postgresql.auto.conf", &settings.to_conf()).expect("settings");
        let socket = home.beside("o");
        let server =
            cluster.start(&socket, &Settings::new(), Duration::from_secs(60)).expect("the origin starts");
        let url = format!("postgresql://boss:{PASSWORD}@/shop?host={}&port=5432", socket.display());
        let wired = WiredServer { server, socket, url };
        wired.wire(home).await;
        wired
    }

    async fn client(&self, database: &str) -> Client {
        let mut config = Config::new();
        config.host_path(&self.socket).port(5432).user("postgres").dbname(database);
        let (client, connection) = config.connect(NoTls).await.expect("the origin answers");
        tokio::spawn(connection);
        client
    }

    async fn run(&self, database: &str, sql: &str) {
        let client = self.client(database).await;
        for statement in sql.split(";;").map(str::trim).filter(|statement| !statement.is_empty()) {
            client.batch_execute(statement).await.unwrap_or_else(|error| panic!("{statement}: {error:?}"));
        }
    }

    async fn wire(&self, home: &Home) {
        let socket = self.socket.display();
        let touched = home.beside("archived").display().to_string();
        self.run(
            "postgres",
            &format!(
                "create role boss superuser login password '{PASSWORD}';; create role reader login;;
                 grant pg_read_server_files to reader;; create database shop;; create database publisher;;
                 alter system set archive_command = 'touch {touched}';; select pg_reload_conf();;
                 alter database shop set session_preload_libraries = 'auto_explain';;
                 alter system set primary_conninfo = 'host=/nonexistent password={PASSWORD}'"
            ),
        )
        .await;
        self.run(
            "publisher",
            "create table items (id int primary key);; insert into items values (1), (2);;
             create publication everything for all tables;;
             select pg_create_logical_replication_slot('feed', 'pgoutput')",
        )
        .await;
        self.run(
            "shop",
            &format!(
                "create table items (id int primary key);; create table orders as select 1 as id;;
                 create subscription feed connection 'host={socket} port=5432 dbname=publisher user=boss password={PASSWORD}'
                   publication everything with (connect = false, slot_name = 'feed');;
                 alter subscription feed enable;; alter subscription feed refresh publication;;
                 create extension postgres_fdw;; create extension dblink;;
                 create server mirror foreign data wrapper postgres_fdw options (host '{socket}', dbname 'publisher');;
                 create user mapping for public server mirror options (user 'boss', password '{PASSWORD}');;
                 create user mapping for reader server mirror options (user 'boss', password '{PASSWORD}');;
                 create foreign table remote_items (id int) server mirror options (table_name 'items');;
                 grant usage on foreign server mirror to reader;;
                 grant usage on foreign data wrapper postgres_fdw to reader;;
                 create table owned (x int);; alter table owned owner to reader;;
                 create schema cron;; create table cron.job (jobid bigint, command text, active boolean);;
                 insert into cron.job values (1, 'select 1', true)"
            ),
        )
        .await;
        // The subscription works before it is copied: that it is dead in branches is then due to the import.
        let client = self.client("shop").await;
        let copied = "select count(*) = 2 and coalesce((select bool_and(srsubstate = 'r') from pg_subscription_rel), false) from items";
        for attempt in 0.. {
            if client.query_one(copied, &[]).await.expect("items").get(0) {
                break;
            }
            assert!(attempt < 600, "the subscription never copied its table");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        // Not before: the slot for the copy waits for every transaction that has not ended.
        for sql in ["begin", "insert into orders values (99)", "prepare transaction 'half-done'"] {
            client.batch_execute(sql).await.expect(sql);
        }
    }

    /// Slots and sessions of others than the test and the origin's own subscription, as text.
    async fn visitors(&self) -> String {
        let client = self.client("postgres").await;
        let mut seen = String::new();
        for sql in [
            "select string_agg(slot_name || ' ' || slot_type || ' ' || active, ', ' order by 1) from pg_replication_slots",
            "select string_agg(application_name || ' ' || coalesce(datname, '') || ' ' || backend_type, ', ' order by 1)
             from pg_stat_activity where pid <> pg_backend_pid() and backend_type in ('client backend', 'walsender')
             and (application_name not in ('duramen', '') or backend_type = 'walsender')",
        ] {
            let found: Option<String> = client.query_one(sql, &[]).await.expect("a look at the origin").get(0);
            writeln!(seen, "{}", found.unwrap_or_default()).expect("text");
        }
        seen
    }
}

fn says_nothing_of_the_origin(what: &str, home: &Home, text: &str) {
    for secret in
        [PASSWORD, &home.beside("origin").display().to_string(), &home.beside("o/").display().to_string()]
    {
        assert!(!text.contains(secret), "{what} holds {secret}: {text}");
    }
    let host = format!("host={}&", home.beside("o").display());
    assert!(!text.contains(&host), "{what} holds the origin's host: {text}");
}

async fn administrator(engine: &Engine, branch: &BranchView, database: &str) -> Client {
    let url = engine.administrator_url(&branch.name).await.expect("the branch").url;
    let mut config = Config::from_str(&url).expect("a URL");
    config.dbname(database);
    let (client, connection) = config.connect(NoTls).await.expect("the administrator's way in");
    tokio::spawn(connection);
    client
}

/// Invariant: no branch reaches out; the source is not changed by being branched; its address is told to nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_branch_of_a_wired_server_is_wired_to_nothing() {
    let home = Home::new();
    let origin = WiredServer::start(&home).await;
    // The origin's own subscription copies its tables first, through connections that end by themselves.
    let mut visitors_before = origin.visitors().await;
    for _ in 0..200 {
        if !visitors_before.contains("_sync_") {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        visitors_before = origin.visitors().await;
    }
    assert!(visitors_before.contains("feed"), "the origin's own subscription is at work: {visitors_before}");
    let engine = home.open().await;
    let request = AddSource {
        name: "shop".to_owned(),
        origin: Origin::Server { url: origin.url.clone() },
        database: None,
        settings: pool(&[(Policy::Ddl, 1), (Policy::ReadOnly, 1)]),
    };
    let source = engine.add_source(request, |_, _| {}).await.expect("the import");
    let at_first = engine.fingerprint_source("shop").await.expect("the origin's fingerprint");
    settle(&engine).await;

    let reported = |kind: &str, object: &str| {
        source.sanitised.iter().any(|entry| entry.kind == kind && entry.object.contains(object))
    };
    for (kind, object) in [
        ("subscription", "feed"),
        ("user mapping", "public on mirror"),
        ("user mapping", "reader on mirror"),
        ("foreign server", "mirror"),
        ("foreign table", "remote_items"),
        ("setting", "archive_command"),
        ("setting", "primary_conninfo"),
        ("setting", "session_preload_libraries"),
        ("role", "boss"),
        ("role", "reader"),
        ("prepared transaction", "half-done"),
        ("scheduled jobs", "cron.job"),
        ("extension", "dblink"),
    ] {
        assert!(reported(kind, object), "{kind} {object} is not reported: {:#?}", source.sanitised);
    }
    let has = |kind: &str, object: &str, action: &str| {
        source.sanitised.iter().any(|e| e.kind == kind && e.object == object && e.action.contains(action))
    };
    assert!(has("role", "boss", "password removed") && has("role", "boss", "superuser right removed"));
    assert!(has("role", "reader", "pg_read_server_files"));
    assert!(has("subscription", "feed", "was enabled"));

    let branch = lease(&engine, "builder", Policy::Ddl).await;
    let none = serde_json::json!([[0]]);
    for sql in [
        "select count(*) from pg_stat_subscription",
        "select count(*) from pg_user_mappings",
        "select count(*) from pg_prepared_xacts",
        "select count(*) from pg_replication_slots",
        "select count(*) from cron.job where active",
        "select count(*) from orders where id = 99",
        "select count(*) from pg_roles where rolcanlogin and rolname !~ '^duramen_'",
        "select count(*) from pg_roles where rolsuper and rolcanlogin and rolname <> 'duramen_admin'",
    ] {
        assert_eq!(rows(&engine, "builder", sql).await, none, "{sql}");
    }
    for (name, value) in [
        ("archive_mode", "off"),
        ("max_wal_senders", "0"),
        ("max_logical_replication_workers", "0"),
        ("listen_addresses", ""),
    ] {
        let shown = rows(&engine, "builder", &format!("show {name}")).await;
        assert_eq!(shown, serde_json::json!([[value]]), "{name}");
    }
    let socket = origin.socket.display();
    for sql in [
        "select * from remote_items".to_owned(),
        format!(
            "select * from dblink('host={socket} dbname=publisher user=postgres', 'select 1') as t (x int)"
        ),
        format!("select dblink_connect('host={socket} dbname=publisher user=postgres')"),
        "create user mapping for current_user server mirror options (user 'postgres', password 'x')"
            .to_owned(),
        "create user mapping for public server mirror options (user 'postgres', password 'x')".to_owned(),
        "create foreign table again (id int) server mirror options (table_name 'items')".to_owned(),
        format!("create server other foreign data wrapper postgres_fdw options (host '{socket}')"),
        "import foreign schema public from server mirror into public".to_owned(),
        format!("create subscription s connection 'host={socket} dbname=publisher' publication everything"),
        "create extension file_fdw".to_owned(),
        "select pg_read_file('PG_VERSION')".to_owned(),
        "alter foreign table remote_items owner to current_user".to_owned(),
        "select rolpassword from pg_authid".to_owned(),
        "select subconninfo from pg_subscription".to_owned(),
    ] {
        let refused = query(&engine, "builder", &sql).await.expect_err(&sql);
        let code = refused.sqlstate.clone().unwrap_or_default();
        // 55000: the wrapper of a foreign table has no handler.
        assert!(["42501", "25001", "55000"].contains(&code.as_str()), "{sql}: {refused} ({code})");
    }
    // As a member of a role of the source, which had rights there.
    let as_reader = format!("do $$ begin set local role reader; create server other foreign data wrapper postgres_fdw options (host '{socket}'); end $$");
    assert_eq!(query(&engine, "builder", &as_reader).await.unwrap_err().sqlstate.as_deref(), Some("42501"));

    // What is left in the catalogue, as the administrator sees it, in every database.
    for database in ["shop", "publisher", "postgres", "template1"] {
        let admin = administrator(&engine, &branch, database).await;
        for sql in [
            "select count(*) from pg_authid where rolpassword is not null and rolname !~ '^duramen_'",
            "select count(*) from pg_subscription",
            "select count(*) from pg_user_mapping",
            "select count(*) from pg_settings where name in ('primary_conninfo', 'archive_command', 'archive_library',
               'restore_command', 'shared_preload_libraries', 'session_preload_libraries') and setting not in ('', '(disabled)')",
            "select count(*) from pg_db_role_setting s, unnest(setconfig) c where c ~ 'preload'",
        ] {
            let count: i64 = admin.query_one(sql, &[]).await.expect(sql).get(0);
            assert_eq!(count, 0, "{database}: {sql}");
        }
    }

    let now = engine.fingerprint_source("shop").await.expect("the origin's fingerprint");
    let comparison = compare(&at_first, &now);
    assert!(comparison.unchanged, "{:?}", comparison.differences);
    assert_eq!(origin.visitors().await, visitors_before, "nobody but the origin's own subscription connects");

    // Nothing that callers are told says where the origin is.
    let reader = lease(&engine, "reader", Policy::ReadOnly).await;
    for (what, text) in [
        ("the source", serde_json::to_string(&engine.source("shop").expect("source"))),
        ("the branch", serde_json::to_string(&[&branch, &reader])),
        ("the status", serde_json::to_string(&engine.status())),
        ("the evidence", serde_json::to_string(&engine.evidence("builder").await.expect("evidence"))),
    ] {
        says_nothing_of_the_origin(what, &home, &text.expect("JSON"));
    }
    let clash = CreateBranch {
        name: Some("builder".to_owned()),
        policy: Some(Policy::ReadOnly),
        ..CreateBranch::default()
    };
    let unknown = CreateBranch { source: Some("shopp".to_owned()), ..CreateBranch::default() };
    let none_ready =
        CreateBranch { policy: Some(Policy::ReadWrite), wait_ms: Some(0), ..CreateBranch::default() };
    for request in [clash, unknown, none_ready] {
        let refused = engine.create(request).await.unwrap_err();
        says_nothing_of_the_origin("a refusal", &home, &refused.to_string());
    }

    // It fails closed as well when the origin is gone.
    drop(origin);
    let refused = engine.refresh_source("shop", |_, _| {}).await.unwrap_err();
    assert_eq!(refused.code, "source_unreachable", "{refused}");
    says_nothing_of_the_origin("a failed refresh", &home, &refused.to_string());
    assert_eq!(rows(&engine, "builder", "select count(*) from items").await, serde_json::json!([[2]]));
    engine.close().await.expect("close");
}
