//! What users of a source wrote runs nowhere with rights that they do not have: not while it is read, not while its
//! copy is made harmless, not in a branch.
//!
//! Everything that could run leaves a file behind, by a program that only a superuser, or who was trusted with it, may
//! start. Who wrote it may not, so any file shows that it ran as somebody else.

use crate::support::{lease, majors, majors_with, pool, query, rows, settle, Home};
use duramen_api::model::{AddSource, BranchView, Origin, Policy, SourceView};
use duramen_branches::{compare, Engine, EngineError};
use duramen_postgres::{Cluster, Installation, Postmaster, ServerUser, Settings};
use serde_json::{json, Value};
use std::{
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio_postgres::{Client, Config, NoTls};

const LIMIT: Duration = Duration::from_secs(60);

/// A server with users that its owner should not have trusted: `boss` is a superuser, `app` owns the database `shop`,
/// `copier` reads for us, and may start programs.
struct Hostile {
    server: Postmaster,
    major: u32,
    socket: PathBuf,
    marks: PathBuf,
}

impl Drop for Hostile {
    fn drop(&mut self) {
        self.server.kill();
    }
}

impl Hostile {
    async fn start(home: &Home, major: u32) -> Hostile {
        let installation = Installation::choose(home.path(), Some(major)).expect("a server");
        let user = ServerUser::current().expect("a server user");
        let cluster = Cluster::new(installation, home.beside(&format!("origin-{major}")), user);
        cluster.init("boss", false).expect("initdb");
        cluster.write_file("pg_hba.conf", "local all all trust\nlocal replication all trust\n").expect("hba");
        let settings = "fsync = off\nlisten_addresses = ''\nautovacuum = off\nshared_buffers = 16MB\n";
        cluster.write_file("postgresql.auto.conf", settings).expect("settings");
        let socket = home.beside(&format!("o{major}"));
        let server = cluster.start(&socket, &Settings::new(), LIMIT).expect("the origin starts");
        let marks = home.beside(&format!("marks-{major}"));
        std::fs::create_dir(&marks).expect("a directory");
        std::fs::set_permissions(&marks, std::fs::Permissions::from_mode(0o777)).expect("its mode");
        let origin = Hostile { server, major, socket, marks };
        let boss = origin.client("boss", "postgres").await;
        for statement in [
            "create role app login",
            "create role copier login replication",
            "grant pg_read_all_data, pg_execute_server_program to copier",
            "create database shop owner app",
        ] {
            boss.batch_execute(statement).await.expect(statement);
        }
        origin
    }

    async fn client(&self, user: &str, database: &str) -> Client {
        let mut config = Config::new();
        config.host_path(&self.socket).port(5432).user(user).dbname(database);
        let quiet = if self.major >= 17 && user == "boss" { " -c event_triggers=off" } else { "" };
        config.options(format!("-c search_path=public,pg_catalog{quiet}"));
        let (client, connection) = config.connect(NoTls).await.expect("the origin answers");
        tokio::spawn(connection);
        client
    }

    /// Runs statements, which are divided by `;;`.
    async fn run(&self, user: &str, sql: &str) {
        let client = self.client(user, "shop").await;
        let sql = sql.replace("MARKS", &self.marks.display().to_string());
        for statement in sql.split(";;").map(str::trim).filter(|statement| !statement.is_empty()) {
            client.batch_execute(statement).await.unwrap_or_else(|error| panic!("{statement}: {error:?}"));
        }
    }

    fn origin(&self) -> Origin {
        Origin::Server { url: format!("postgresql://copier@/shop?host={}&port=5432", self.socket.display()) }
    }

    /// What ran as somebody else, and whose rights it had; forgets it.
    fn marks(&self) -> Vec<String> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&self.marks).expect("the marks").flatten() {
            found.push(entry.file_name().to_string_lossy().into_owned());
            std::fs::remove_file(entry.path()).expect("remove");
        }
        found.sort();
        found
    }
}

/// Functions, operators, casts, policies, triggers, index expressions and types of the database's owner.
const BY_THE_OWNER: &str = r#"
create function public.touch(what text) returns int volatile language plpgsql as $$ begin
  execute 'copy (select 1) to program ' || quote_literal('touch MARKS/' || what || '-as-' || current_user);
  return 0;
exception when others then return 0; end $$;;
create function public.mark(what text) returns int immutable language plpgsql as $$ begin return public.touch(what); end $$;;
create schema duramen_admin;;
create function duramen_admin.quote_ident(name) returns text language plpgsql as
  $$ begin perform public.mark('quote_ident-name'); return pg_catalog.quote_ident($1::text); end $$;;
create function duramen_admin.quote_ident(text) returns text language plpgsql as
  $$ begin perform public.mark('quote_ident-text'); return pg_catalog.quote_ident($1); end $$;;
create function duramen_admin.current_database() returns name language plpgsql as
  $$ begin perform public.mark('current_database'); return pg_catalog.current_database(); end $$;;
create function duramen_admin.current_setting(text) returns text language plpgsql as
  $$ begin perform public.mark('current_setting'); return pg_catalog.current_setting($1); end $$;;
create function duramen_admin.pg_is_in_recovery() returns bool language plpgsql as
  $$ begin perform public.mark('pg_is_in_recovery'); return false; end $$;;
create function duramen_admin.pg_database_size(oid) returns bigint language plpgsql as
  $$ begin perform public.mark('pg_database_size'); return 1; end $$;;
create function duramen_admin.md5(text) returns text language plpgsql as
  $$ begin perform public.mark('md5'); return 'x'; end $$;;
create function duramen_admin.setval(regclass, bigint, boolean) returns bigint language plpgsql as
  $$ begin perform public.mark('setval'); return pg_catalog.setval($1, $2, $3); end $$;;
create function duramen_admin.name_and_text(name, text) returns text language plpgsql as
  $$ begin perform public.mark('operator-concat'); return $1::text operator(pg_catalog.||) $2; end $$;;
create operator public.|| (leftarg = name, rightarg = text, function = duramen_admin.name_and_text);;
create function duramen_admin.unlike(name, name) returns bool language plpgsql as
  $$ begin perform public.mark('operator-unlike'); return $1::text operator(pg_catalog.!~) $2::text; end $$;;
create operator public.!~ (leftarg = name, rightarg = name, function = duramen_admin.unlike);;
create function duramen_admin.same(oid, oid) returns bool language plpgsql as
  $$ begin perform public.mark('operator-same'); return $1 operator(pg_catalog.=) $2; end $$;;
create operator duramen_admin.= (leftarg = oid, rightarg = oid, function = duramen_admin.same);;
alter database shop set search_path = duramen_admin, public, pg_catalog;;

create domain checked as text check (public.mark('domain') = 0);;
create type mood as enum ('well', 'ill');;
create type pair as (word checked, state mood);;
create function apart(int, int) returns float8 immutable language plpgsql as
  $$ begin perform public.mark('range'); return $2 - $1; end $$;;
create type span as range (subtype = int, subtype_diff = apart);;
create table orders (id bigint primary key, t text, other text, word checked, state mood, both_ pair, during span, list mood[],
  twice bigint generated always as (id * 2 + mark('generated')) stored);;
insert into orders select n, 'same', 'other ' || n, 'w', 'well', row('w', 'ill')::pair, span(n, n + 5), '{well,ill}' from generate_series(1, 500) n;;
create index on orders ((id + mark('index-constant')));;
create function of_each(bigint) returns bigint immutable language plpgsql as $$ begin perform public.mark('index-row'); return $1; end $$;;
create index on orders (of_each(id));;
create statistics expressions on (id + mark('statistics')), (of_each(id)) from orders;;
create function as_text(orders) returns text language plpgsql as $$ begin perform public.mark('cast'); return 'text'; end $$;;
create cast (orders as text) with function as_text(orders);;
create table guarded as select 1 as x;;
alter table guarded enable row level security;;
create policy p on guarded using (public.mark('policy') = 0);;
create view seen as select *, mark('view') from orders;;
create materialized view kept as select id from orders;;
create index on kept ((id + mark('index-of-a-view')));;
create table partitioned (id int) partition by range (id);;
create table low partition of partitioned for values from (0) to (10);;
insert into partitioned values (5);;
create schema cron;;
create table cron.job (jobid bigint, command text, active boolean);;
insert into cron.job values (1, 'select 1', true);;
create function on_job() returns trigger language plpgsql as $$ begin perform public.mark('trigger'); return new; end $$;;
create trigger j before update on cron.job for each row execute function on_job();;
alter table cron.job enable always trigger j;;
create table audit (what text, who text default current_user);;
"#;

/// What a superuser of the source left: event triggers, a table in an extension, a type, better matches in pg_catalog.
const BY_A_SUPERUSER: &str = r"
create function pg_catalog.quote_ident(name) returns text language plpgsql as
  $$ begin perform public.mark('pg_catalog-quote_ident'); return pg_catalog.quote_ident($1::text); end $$;;
create function pg_catalog.name_and_text(name, text) returns text language plpgsql as
  $$ begin perform public.mark('pg_catalog-concat'); return $1::text operator(pg_catalog.||) $2; end $$;;
create operator pg_catalog.|| (leftarg = name, rightarg = text, function = pg_catalog.name_and_text);;
create table of_plpgsql (id int);;
insert into of_plpgsql select generate_series(1, 100);;
create index on of_plpgsql (of_each(id));;
alter extension plpgsql add table of_plpgsql;;
create type weird;;
create function weird_in(cstring) returns weird language internal immutable strict as 'int4in';;
create function weird_out(weird) returns cstring language internal immutable strict as 'int4out';;
create type weird (input = weird_in, output = weird_out, internallength = 4, passedbyvalue, alignment = int4);;
create function weird_send(weird) returns bytea language plpgsql as $$ begin perform public.mark('send'); return 'x'; end $$;;
alter type weird set (send = weird_send);;
alter function weird_send(weird) owner to app;;
create table weirds (plain int, strange weird, several weird[]);;
insert into weirds values (1, '2', '{3}');;
alter table weirds owner to app;;
create function on_ddl() returns event_trigger language plpgsql as
  $$ begin perform public.mark('event-trigger'); insert into public.audit values ('ddl'); end $$;;
create function on_drop() returns event_trigger language plpgsql as $$ begin perform public.mark('drop-trigger'); end $$;;
create event trigger e on ddl_command_end execute function on_ddl();;
alter event trigger e enable always;;
create event trigger d on sql_drop execute function on_drop();;
";

const LOGIN_TRIGGER: &str = r"
create function on_login() returns event_trigger language plpgsql as
  $$ begin perform public.mark('login-trigger'); end $$;;
create event trigger l on login execute function on_login();;
alter event trigger l enable always;;
";

async fn add(engine: &Arc<Engine>, name: &str, origin: Origin) -> Result<SourceView, EngineError> {
    let request = AddSource {
        name: name.to_owned(),
        origin,
        database: None,
        settings: pool(&[(Policy::Ddl, 1), (Policy::ReadOnly, 1), (Policy::ReadWrite, 1)]),
    };
    engine.add_source(request, |_, _| {}).await
}

/// What is left out of the fingerprint, by name.
fn left_out(fingerprint: &Value) -> Vec<&str> {
    fingerprint["left_out"].as_object().expect("a map").keys().map(String::as_str).collect()
}

async fn print(engine: &Arc<Engine>, source: &str) -> Value {
    let fingerprint = engine.fingerprint_source(source).await.expect("a fingerprint");
    serde_json::to_value(fingerprint).expect("JSON")
}

/// What somebody who was an administrator of a branch for a moment can leave in it.
const BY_AN_ADMINISTRATOR: &str = r"
create role evil superuser login password 'x';;
grant pg_execute_server_program, pg_write_server_files to duramen_read;;
alter role duramen_ddl superuser;;
alter system set archive_mode = on;;
alter system set archive_command = 'touch MARKS/archived';;
alter system set session_preload_libraries = 'auto_explain';;
alter role evil set role = duramen_admin;;
create function public.on_planted() returns event_trigger language plpgsql as
  $$ begin perform public.mark('planted-event-trigger'); end $$;;
create event trigger planted on ddl_command_end execute function public.on_planted();;
alter event trigger planted enable always;;
alter event trigger planted owner to duramen_ddl;;
create function pg_catalog.pg_get_userbyid(bigint) returns name language plpgsql as
  $$ begin perform public.mark('planted-function'); return 'x'; end $$;;
create function public.planted_definer() returns int language plpgsql security definer as
  $$ begin return public.touch('planted-definer'); end $$;;
create server planted foreign data wrapper planted;;
";

/// Promotes a branch into which a holder and an administrator have put what they could (G5).
async fn promote(origin: &Hostile, engine: &Arc<Engine>, source: &str, branch: &str) {
    let major = origin.major;
    let by_the_holder = [
        "create function public.planted_row(bigint) returns bigint immutable language plpgsql as \
         $$ begin perform public.mark('planted-index'); return $1; end $$",
        "create table public.planted (id bigint, t text)",
        "create index on public.planted (public.planted_row(id))",
        "insert into public.planted select n, 'x' from generate_series(1, 50) n",
        "grant all on public.planted to duramen_read, public",
        "alter role duramen_ddl set search_path = duramen_admin, public",
    ];
    for sql in by_the_holder {
        query(engine, branch, sql).await.unwrap_or_else(|error| panic!("{major}: {sql}: {error}"));
    }
    let url = engine.administrator_url(branch).await.expect("the administrator's URL").url;
    let mut config: Config = url.parse().expect("a URL");
    if major >= 17 {
        config.options("-c event_triggers=off");
    }
    let (admin, connection) = config.connect(NoTls).await.expect("the administrator");
    tokio::spawn(connection);
    let planted = BY_AN_ADMINISTRATOR.replace("MARKS", &origin.marks.display().to_string());
    for statement in planted.split(";;").map(str::trim).filter(|statement| !statement.is_empty()) {
        // Before 17 each command of a superuser's fires what is there; `create server` wants a wrapper first.
        let statement =
            statement.replace("create server", "create foreign data wrapper planted; create server");
        admin
            .batch_execute(&statement)
            .await
            .unwrap_or_else(|error| panic!("{major}: {statement}: {error:?}"));
    }
    drop(admin);
    origin.marks();

    let promoted = engine.promote(branch, duramen_api::model::PromoteBranch::default(), |_, _| {}).await;
    let promoted = promoted.unwrap_or_else(|error| panic!("{major}: {error}"));
    assert_eq!(origin.marks(), Vec::<String>::new(), "{major}: the promotion ran this");
    let reported = |kind: &str, object: &str, action: &str| {
        let is_it = |it: &&duramen_api::model::Sanitised| it.kind == kind && it.object == object;
        promoted.sanitised.iter().filter(is_it).any(|it| it.action.contains(action))
    };
    assert!(reported("role", "evil", "superuser right removed"), "{:?}", promoted.sanitised);
    for name in ["archive_command", "session_preload_libraries"] {
        assert!(reported("setting", name, "removed"), "{name}: {:?}", promoted.sanitised);
    }
    settle(engine).await;
    for policy in Policy::ALL {
        let leased = format!("{policy}-next-{major}");
        let request = duramen_api::model::CreateBranch {
            name: Some(leased.clone()),
            source: Some(source.to_owned()),
            policy: Some(policy),
            ..Default::default()
        };
        assert_eq!(engine.create(request).await.expect("a lease").generation, promoted.generation);
        let holders = "select pg_catalog.count(*) from pg_catalog.pg_roles where rolsuper and rolname <> 'duramen_admin' and oid <> 10";
        assert_eq!(rows(engine, &leased, holders).await, json!([[0]]), "{major}");
        let archiving = "select pg_catalog.current_setting('archive_mode')";
        assert_eq!(rows(engine, &leased, archiving).await, json!([["off"]]), "{major}");
        let writes = query(engine, &leased, "insert into public.planted values (99, 'x')").await;
        assert_eq!(writes.is_ok(), policy != Policy::ReadOnly, "{major}: {writes:?}");
        let _ = query(engine, &leased, "select public.planted_definer()").await;
        engine.destroy(&leased).expect("destroy");
    }
    assert_eq!(origin.marks(), Vec::<String>::new(), "{major}: in a branch of it this ran");
    engine.destroy(branch).expect("destroy");
}

async fn import_and_branch(home: &Home, engine: &Arc<Engine>, major: u32) {
    let origin = Hostile::start(home, major).await;
    origin.run("app", BY_THE_OWNER).await;
    origin.run("boss", BY_A_SUPERUSER).await;
    let login = major >= 17;
    if login {
        origin.run("boss", LOGIN_TRIGGER).await;
    }
    origin.marks();
    // The trap works: who reads as everybody does runs it.
    let client = origin.client("copier", "shop").await;
    client.batch_execute("select count(*) from only orders o where o::text <> ''").await.expect("rows");
    let sprung = origin.marks();
    assert!(sprung.contains(&"cast-as-copier".to_owned()), "{major}: {sprung:?}");
    assert!(sprung.contains(&"index-constant-as-copier".to_owned()), "{major}: {sprung:?}");
    assert_eq!(sprung.contains(&"login-trigger-as-copier".to_owned()), login, "{major}: {sprung:?}");
    drop(client);

    let name = format!("hostile-{major}");
    let source = add(engine, &name, origin.origin()).await.expect("the import");
    assert_eq!(origin.marks(), Vec::<String>::new(), "{major}: the import ran this");
    let reported = |kind: &str, object: &str| {
        source.sanitised.iter().any(|entry| entry.kind == kind && entry.object.contains(object))
    };
    assert!(reported("scheduled jobs", "cron.job"), "{:?}", source.sanitised);
    assert!(reported("table", "of_plpgsql"), "{:?}", source.sanitised);
    assert_eq!(reported("event trigger", "l"), login, "{:?}", source.sanitised);

    // A live source whose login trigger cannot be turned off is not connected to.
    if login {
        let found = print(engine, &name).await;
        assert_eq!(left_out(&found), ["everything"], "{found}");
        assert!(
            found["left_out"]["everything"].as_str().unwrap().contains("GRANT SET ON PARAMETER"),
            "{found}"
        );
        let same = engine.fingerprint_source(&name).await.expect("a fingerprint");
        assert!(!compare(&same, &same).unchanged, "what was not read is not unchanged");
        assert_eq!(origin.marks(), Vec::<String>::new(), "{major}: the fingerprint ran this");
        origin.run("boss", "grant set on parameter event_triggers to copier").await;
    }
    let before = engine.fingerprint_source(&name).await.expect("a fingerprint");
    let found = serde_json::to_value(&before).expect("JSON");
    let mut expected = vec![
        "shop.public.guarded",
        "shop.public.orders.twice",
        "shop.public.weirds.several",
        "shop.public.weirds.strange",
    ];
    if major < 18 {
        expected.insert(1, "shop.public.kept");
    }
    assert_eq!(left_out(&found), expected, "{major}: {found}");
    assert_eq!(found["contents"]["shop.public.orders"]["count"], 500, "{major}: {found}");
    assert_eq!(found["contents"]["shop.public.low"]["count"], 1, "{major}: {found}");
    assert_eq!(origin.marks(), Vec::<String>::new(), "{major}: the fingerprint ran this");

    // A column named like the alias of the row hides nothing. The counters are reset, so that contents alone can tell.
    origin.run("app", "update orders set other = 'changed' where id = 77").await;
    origin.run("boss", "select pg_stat_reset()").await;
    let after = engine.fingerprint_source(&name).await.expect("a fingerprint");
    let differences = compare(&before, &after).differences;
    assert!(
        differences.iter().any(|line| line.starts_with("shop.public.orders:")),
        "{major}: {differences:?}"
    );
    origin.marks();

    // Branches: a holder's own commands fire the source's event triggers, with the holder's rights.
    settle(engine).await;
    for policy in Policy::ALL {
        let leased = format!("{policy}-{major}");
        let request = duramen_api::model::CreateBranch {
            name: Some(leased.clone()),
            source: Some(name.clone()),
            policy: Some(policy),
            ..Default::default()
        };
        engine.create(request).await.expect("a lease");
        let count = rows(engine, &leased, "select pg_catalog.count(*) from public.orders").await;
        assert_eq!(count, json!([[500]]), "{major}");
        let active = "select pg_catalog.count(*) from cron.job where active";
        assert_eq!(rows(engine, &leased, active).await, json!([[0]]), "{major}: jobs");
        if policy == Policy::Ddl {
            query(engine, &leased, "create table public.made (x int)").await.expect("DDL");
            let who = rows(engine, &leased, "select distinct who from public.audit").await;
            assert_eq!(who, json!([["duramen_ddl"]]), "{major}: the event trigger ran as the holder");
        }
        // From 17 on nobody who is the administrator of a branch runs into them.
        if login && policy == Policy::Ddl {
            let url = engine.administrator_url(&leased).await.expect("the administrator's URL").url;
            let (admin, connection) = tokio_postgres::connect(&url, NoTls).await.expect("the administrator");
            tokio::spawn(connection);
            admin.batch_execute("create table public.made_by_the_administrator (x int)").await.expect("DDL");
        }
        if policy != Policy::Ddl {
            engine.destroy(&leased).expect("destroy");
        }
    }
    let ran = origin.marks();
    assert_eq!(ran, Vec::<String>::new(), "{major}: in a branch this ran");
    promote(&origin, engine, &name, &format!("ddl-{major}")).await;
    engine.remove_source(&name).await.expect("the source is forgotten");
}

/// Bypass: whatever a database's owner, or a superuser of the source, can leave for an administrator to run into.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_users_of_a_source_wrote_runs_as_somebody_else() {
    let home = Home::new();
    let engine = home.open().await;
    for major in majors() {
        import_and_branch(&home, &engine, major).await;
    }
    engine.close().await.expect("close");
}

/// Bypass: what reaches out is not always called what we know, or said to be of the extension or language that it is of.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_what_is_known_to_stay_inside_is_executed() {
    let home = Home::new();
    let engine = home.open().await;
    for major in majors_with("hstore") {
        let origin = Hostile::start(&home, major).await;
        origin
            .run(
                "boss",
                "create extension hstore;; create extension pg_trgm;; create extension citext;; create extension pg_prewarm;;
                 create table t (id int primary key, tags hstore, name citext);; insert into t values (1, 'a=>1', 'Ann');;
                 create function own(int) returns int language plpgsql as 'begin return $1 + 1; end';;
                 create function peek(text) returns text language internal as 'pg_read_file_all';;
                 create function prewarm(regclass, text, text, bigint, bigint) returns bigint
                   language c as '$libdir/pg_prewarm', 'pg_prewarm';;
                 create function hidden(regclass, text, text, bigint, bigint) returns bigint
                   language c as '$libdir/pg_prewarm', 'pg_prewarm';;
                 alter extension plpgsql add function hidden(regclass, text, text, bigint, bigint);;
                 alter extension plpgsql add function peek(text);;
                 create aggregate warmed(bigint) (sfunc = int8pl, stype = bigint);;
                 alter extension pg_prewarm add aggregate warmed(bigint);;
                 create function fires() returns trigger language c as '$libdir/pg_prewarm', 'pg_prewarm';;
                 create table watched (id int);; create trigger fires before insert on watched for each row execute function fires();;
                 create function watches() returns event_trigger language c as '$libdir/pg_prewarm', 'pg_prewarm';;
                 create event trigger watches on ddl_command_start execute function watches();;
                 alter event trigger watches disable",
            )
            .await;
        let name = format!("inward-{major}");
        let source = add(&engine, &name, origin.origin()).await.expect("the import");
        settle(&engine).await;
        for policy in Policy::ALL {
            let leased = format!("{policy}-{major}");
            lease_of(&engine, &name, &leased, policy).await;
            let useful = "select tags -> 'a', name = 'ANN', similarity('word', 'words') > 0.5, own(1) from t";
            assert_eq!(
                rows(&engine, &leased, useful).await,
                json!([["1", true, true, 2]]),
                "{major}, {policy}"
            );
            for sql in [
                "select peek('PG_VERSION')",
                "select pg_prewarm('t')",
                "select prewarm('t', 'buffer', 'main', null, null)",
                "select hidden('t', 'buffer', 'main', null, null)",
                "select warmed(1)",
            ] {
                let error = query(&engine, &leased, sql).await.expect_err(sql);
                assert_eq!(error.sqlstate.as_deref(), Some("42501"), "{major}, {policy}: {sql}: {error}");
            }
            if policy != Policy::ReadOnly {
                let error =
                    query(&engine, &leased, "insert into watched values (1)").await.expect_err("it fires");
                assert!(error.message.contains("is not available in branches"), "{error}");
            }
            engine.destroy(&leased).expect("destroy");
        }
        let said = |kind: &str, object: &str, action: &str| {
            source
                .sanitised
                .iter()
                .any(|e| e.kind == kind && e.object.contains(object) && e.action.contains(action))
        };
        for (kind, object, action) in [
            ("extension", "pg_prewarm", "not executable"),
            ("function", "peek(text)", "language internal"),
            ("function", "hidden(", "language c"),
            ("function", "fires()", "raises when a trigger calls it"),
            ("function", "watches()", "does nothing"),
        ] {
            assert!(said(kind, object, action), "{major}: {object}: {:#?}", source.sanitised);
        }
        assert!(!source.sanitised.iter().any(|e| e.kind == "extension" && e.object != "pg_prewarm"));
        engine.remove_source(&name).await.expect("the source is forgotten");
    }
    engine.close().await.expect("close");
}

/// Bypass: from 16 on, access rules take a database's name that begins with a slash for a pattern.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_is_called_like_a_pattern_opens_no_other() {
    let home = Home::new();
    let engine = home.open().await;
    for major in majors() {
        let origin = Hostile::start(&home, major).await;
        origin.run("boss", "create database \"/.*\"").await;
        let name = format!("pattern-{major}");
        let request = AddSource {
            name: name.clone(),
            origin: origin.origin(),
            database: Some("/.*".to_owned()),
            settings: pool(&[(Policy::ReadOnly, 1)]),
        };
        engine.add_source(request, |_, _| {}).await.expect("the import");
        settle(&engine).await;
        let branch = lease_of(&engine, &name, &name, Policy::ReadOnly).await;
        assert_eq!(rows(&engine, &name, "select current_database()").await, json!([["/.*"]]));
        let mut config: Config = branch.url.parse().expect("a URL");
        config.dbname("postgres");
        let refused = config.connect(NoTls).await.err().expect("another database");
        assert_eq!(refused.code().map(|code| code.code()), Some("28000"), "{major}: {refused}");
        engine.destroy(&name).expect("destroy");
        engine.remove_source(&name).await.expect("the source is forgotten");
    }
    engine.close().await.expect("close");
}

/// Bypass: rows of an extension's tables say what it does, and orafce's say which files of the host it opens.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_belongs_to_extensions_is_written_under_no_policy() {
    let home = Home::new();
    let engine = home.open().await;
    for major in majors() {
        let origin = Hostile::start(&home, major).await;
        origin
            .run(
                "boss",
                "alter default privileges for role boss grant all on tables to public;;
                 create table dirs (id serial, dir text);; insert into dirs (dir) values ('/tmp');;
                 create view writable as select dir from dirs;; create sequence counter;;
                 alter extension plpgsql add table dirs;; alter extension plpgsql add view writable;;
                 alter extension plpgsql add sequence counter;;
                 grant all on dirs, writable to app with grant option;; grant all on sequence counter, dirs_id_seq to app;;
                 grant insert (dir) on dirs to app;; create table seen (who text);; create table spied (x int);;
                 create function spy() returns trigger language plpgsql security definer
                   as 'begin insert into seen values (current_user); return new; end';;
                 create trigger spy before insert on spied for each row execute function spy();;
                 alter extension plpgsql add function spy();; create table app_table (x int);; alter table app_table owner to app;;
                 create view around as select dir from dirs",
            )
            .await;
        origin.run("app", "grant all on dirs to pg_read_all_stats").await;
        let name = format!("extended-{major}");
        let source = add(&engine, &name, origin.origin()).await.expect("the import");
        settle(&engine).await;
        for policy in Policy::ALL {
            let leased = format!("{policy}-{major}");
            lease_of(&engine, &name, &leased, policy).await;
            assert_eq!(rows(&engine, &leased, "select dir from dirs").await, json!([["/tmp"]]));
            if policy != Policy::ReadOnly {
                // A trigger's function is called without a right to it.
                query(&engine, &leased, "insert into spied values (1)").await.expect("a write");
                let role = json!([[policy.role()]]);
                assert_eq!(rows(&engine, &leased, "select who from seen").await, role, "{major}");
            }
            let mut refused: Vec<String> = [
                "insert into dirs (dir) values ('/etc')",
                "insert into dirs values (7, '/etc')",
                "insert into writable values ('/etc')",
                "insert into around values ('/etc')",
                "update dirs set dir = '/etc'",
                "delete from dirs",
                "truncate dirs",
                "select nextval('counter')",
                "select setval('dirs_id_seq', 77)",
                "alter table dirs add column x int",
                "create trigger t before insert on dirs for each row execute function suppress_redundant_updates_trigger()",
                "alter extension plpgsql drop table dirs",
                "set local role duramen_extensions",
            ]
            .map(str::to_owned)
            .into();
            if policy == Policy::Ddl {
                refused.push(
                    "do $$ begin set local role app; insert into dirs values (7, '/etc'); end $$".to_owned(),
                );
                refused.push(
                    "do $$ begin set local role duramen_owner; update dirs set dir = '/etc'; end $$"
                        .to_owned(),
                );
            }
            for sql in refused {
                let error = query(&engine, &leased, &sql).await.expect_err(&sql);
                let code = error.sqlstate.clone().unwrap_or_default();
                assert!(["42501", "25006"].contains(&code.as_str()), "{major}, {policy}: {sql}: {error}");
            }
            engine.destroy(&leased).expect("destroy");
        }
        let said = |object: &str| {
            source
                .sanitised
                .iter()
                .any(|e| e.object.ends_with(object) && e.action.contains("extension plpgsql"))
        };
        for object in ["dirs", "writable", "counter", "dirs_id_seq"] {
            assert!(said(object), "{major}: {object}: {:?}", source.sanitised);
        }
        engine.remove_source(&name).await.expect("the source is forgotten");
    }
    engine.close().await.expect("close");
}

async fn lease_of(engine: &Arc<Engine>, source: &str, name: &str, policy: Policy) -> BranchView {
    let request = duramen_api::model::CreateBranch {
        name: Some(name.to_owned()),
        source: Some(source.to_owned()),
        policy: Some(policy),
        ..Default::default()
    };
    engine.create(request).await.expect("a lease")
}

/// A source that may have login triggers is copied before anybody connects to it. Its tablespaces are refused all the
/// same, and nothing is written to their paths.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_that_cannot_be_asked_is_looked_at_in_its_copy() {
    let home = Home::new();
    let engine = home.open().await;
    for major in majors().into_iter().filter(|major| *major >= 17) {
        let origin = Hostile::start(&home, major).await;
        origin.run("app", "create table t as select generate_series(1, 10) as x").await;
        let found = add(&engine, "plain", origin.origin()).await.expect("the import");
        assert_eq!(found.server_version.split('.').next(), Some(major.to_string().as_str()));
        let found = print(&engine, "plain").await;
        assert_eq!(
            found["contents"]["shop.public.t"]["count"], 10,
            "without login triggers it is read: {found}"
        );
        settle(&engine).await;
        engine.remove_source("plain").await.expect("the source is forgotten");

        let place = home.beside(&format!("space-{major}"));
        std::fs::create_dir(&place).expect("a directory");
        std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o777)).expect("its mode");
        ServerUser::current().expect("a server user").own(&place).expect("its owner");
        let boss = origin.client("boss", "postgres").await;
        let create = format!("create tablespace elsewhere location '{}'", place.display());
        boss.batch_execute(&create).await.expect("a tablespace");
        let before = entries(&place);
        let error = add(&engine, "spaced", origin.origin()).await.map(|_| ()).expect_err("tablespaces");
        assert_eq!(error.code, "tablespaces", "{error}");
        assert_eq!(entries(&place), before);
    }
    engine.close().await.expect("close");
}

fn entries(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).expect("a directory").flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// A home of 0.1 holds fingerprints whose hashes were made in another way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fingerprint_of_an_earlier_version_is_told_and_not_compared() {
    let home = Home::new();
    let major = *majors().last().expect("a server");
    let origin = Hostile::start(&home, major).await;
    origin.run("app", "create table t as select generate_series(1, 10) as x").await;
    origin.run("boss", "alter role copier superuser").await;
    let engine = home.open().await;
    add(&engine, "old", origin.origin()).await.expect("the import");
    engine.close().await.expect("close");
    let path = home.path().join("sources/old/000001.json");
    let text = std::fs::read(&path).expect("the manifest");
    let mut manifest: Value = serde_json::from_slice(&text).expect("JSON");
    let fields = manifest.as_object_mut().expect("an object");
    fields.remove("login_triggers");
    let fingerprint = fields["source_at_import"].as_object_mut().expect("an object");
    fingerprint.remove("left_out");
    fingerprint.insert("method".to_owned(), json!("server"));
    std::fs::write(&path, manifest.to_string()).expect("the manifest");

    let engine = home.open().await;
    settle(&engine).await;
    lease(&engine, "one", Policy::ReadWrite).await;
    let evidence = engine.evidence("one").await.expect("evidence");
    let source = serde_json::to_value(&evidence.source).expect("JSON");
    assert_eq!((&source["comparable"], &source["unchanged"]), (&json!(false), &json!(false)), "{source}");
    assert!(source["differences"][0].as_str().unwrap().contains("refresh"), "{source}");
    engine.refresh_source("old", |_, _| {}).await.expect("a refresh");
    engine.destroy("one").expect("destroy");
    settle(&engine).await;
    lease(&engine, "two", Policy::ReadWrite).await;
    assert!(engine.evidence("two").await.expect("evidence").source.unchanged);
    engine.close().await.expect("close");
}
