//! Branches that are entered as a login role of the source: it may do there what it may do in the source, and no more.

use crate::{
    origin::{import, OtherServer},
    support::{majors, majors_with, query, rows, settle, Home},
};
use duramen_api::model::{BranchView, ChangeSettings, CreateBranch, Policy, QueryRequest, QueryStatement};
use duramen_branches::{Engine, EngineError};
use serde_json::json;
use std::{str::FromStr, sync::Arc};
use tokio_postgres::{Client, Config, NoTls};

/// A shop whose application logs in as `app`, as its tables, policies, functions and settings are written for it.
const SHOP: &str = r"
create role app login password 'of the source' connection limit 3 valid until '2001-01-01';;
create role auditor login bypassrls;; create role other login;; create role stranger login;;
create role boss_too login superuser;; create role staff;; create role duramen_write;;
grant staff to app;; grant boss_too to app;; grant duramen_write to app;; grant pg_read_server_files to app;;
alter role app set work_mem = '7MB';; alter role app set search_path = app, public;;
alter role app set session_preload_libraries = 'auto_explain';; alter role app set log_min_messages = 'debug5';;
alter role app in database shop set log_min_messages = 'debug5';; alter role app in database shop set statement_timeout = '11s';;
create schema app authorization app;;
create table orders (id int primary key, owner name not null, note text);;
insert into orders select n, case when n % 2 = 0 then 'app' else 'other' end, 'n' from generate_series(1, 100) n;;
alter table orders enable row level security;; create policy mine on orders using (owner = current_user);;
grant select, insert on orders to app, auditor;;
create table secret (id int);; insert into secret values (1), (2), (3);;
create table history (what text, by_whom name default current_user);;
create table ddl_log (who name default current_user);;
create table noted (id int, note text, fixed text);; insert into noted values (1, 'a', 'b');;
grant select, update (note) on noted to public;;
create table open_to_all (x int);; grant insert on open_to_all to public;; create sequence counter;; grant all on sequence counter to public;;
grant create on schema public to public;;
create table of_staff as select 1 as x;; grant select on of_staff to staff;;
create function total() returns bigint language sql security definer as 'select count(*) from public.orders';;
create function secrets() returns bigint language plpgsql security definer as $$ begin return (select count(*) from public.secret); end $$;;
create function noting() returns trigger language plpgsql security definer as
  $$ begin insert into public.history (what) values (new.note); return new; end $$;;
create trigger noting after insert on orders for each row execute function noting();;
create function on_ddl() returns event_trigger language plpgsql as $$ begin insert into public.ddl_log default values; end $$;;
grant insert on ddl_log to app;; create event trigger logging on ddl_command_end execute function on_ddl();;
create event trigger always on ddl_command_start execute function on_ddl();; alter event trigger always enable always;;
revoke connect on database shop from public;; grant connect on database shop to app, auditor, other;;
select lo_from_bytea(4242, 'large')
";

const LOGIN_TRIGGER: &str = r"
create function on_login() returns event_trigger language plpgsql as $$ begin insert into public.history values ('login'); end $$;;
create event trigger login on login execute function on_login();; alter event trigger login enable always
";

/// What `app` may do in the source, and what comes of it.
const ALLOWED: &[(&str, &str)] = &[
    ("select current_user::text, session_user::text", r#"[["app","app"]]"#),
    ("select count(*) from orders", "[[50]]"),
    ("select total(), secrets()", "[[100,3]]"),
    ("select * from public.of_staff", "[[1]]"),
    ("select current_setting('work_mem'), current_setting('search_path'), current_setting('statement_timeout')", r#"[["7MB","app, public","11s"]]"#),
    ("select current_setting('log_min_messages')", r#"[["fatal"]]"#),
    ("insert into orders values ((select max(id) from orders) + 1000, 'app', 'new') returning owner", r#"[["app"]]"#),
    ("update noted set note = 'c' returning note", r#"[["c"]]"#),
    ("create temporary table t as select 1 as x", "[]"),
    ("create table app.own (x int)", "[]"),
    ("create table public.shared (x int)", "[]"),
    ("insert into public.shared values (7) returning x", "[[7]]"),
    ("insert into open_to_all values (1)", "[]"),
    ("select setval('counter', 7)", "[[7]]"),
    ("select lo_create(777)", "[[777]]"),
    ("do $$ begin set local role staff; perform * from public.of_staff; end $$", "[]"),
];

/// What it may not, or what nobody may in a branch.
const REFUSED: &[&str] = &[
    "select * from secret",
    "select * from history",
    "update orders set note = 'x'",
    "update noted set fixed = 'x'",
    "insert into orders values (-1, 'other', 'x')",
    "set row_security = off; select * from orders",
    "alter table orders disable row level security",
    "drop policy mine on orders",
    "drop function total()",
    "set role other",
    "set role boss",
    "set role boss_too; create role intruder",
    "set role duramen_admin",
    "set role duramen_owner",
    "set role duramen_ddl",
    "set role duramen_write",
    "set session authorization other",
    "set session authorization boss",
    "select set_config('role', 'auditor', false)",
    "alter role app superuser",
    "alter role app bypassrls",
    "alter role app createrole",
    "alter role other password 'x'",
    "create role intruder",
    "create database intruder",
    "grant duramen_ddl to app",
    "grant boss to app",
    "select rolpassword from pg_authid",
    "update pg_catalog.pg_authid set rolsuper = true",
    "select pg_read_file('PG_VERSION')",
    "select pg_ls_dir('.')",
    "select lo_import('/etc/passwd')",
    "select lo_get(4242)",
    "copy noted to program 'true'",
    "copy noted from '/etc/passwd'",
    "load 'auto_explain'",
    "set session_preload_libraries = 'auto_explain'",
    "set log_min_messages = debug5",
    "alter role app set log_min_messages = debug5",
    "alter system set work_mem = '8MB'",
    "create extension dblink",
    "create function c() returns int language c as 'libc', 'getpid'",
    "create event trigger mine on ddl_command_start execute function on_ddl()",
    "alter event trigger logging disable",
    "create subscription s connection 'host=/nowhere' publication p with (connect = false)",
];

fn role(name: &str) -> Policy {
    Policy::Role(name.parse().expect("a name"))
}

async fn lease(
    engine: &Arc<Engine>,
    source: &str,
    name: &str,
    policy: Policy,
) -> Result<BranchView, EngineError> {
    let request = CreateBranch {
        name: Some(name.to_owned()),
        source: Some(source.to_owned()),
        policy: Some(policy),
        ..CreateBranch::default()
    };
    engine.create(request).await
}

fn config(url: &str) -> Config {
    Config::from_str(url).expect("the URL of a branch is one of PostgreSQL")
}

async fn connect(config: &Config) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = config.connect(NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

async fn administrator(engine: &Engine, branch: &str) -> Client {
    let url = engine.administrator_url(branch).await.expect("the branch").url;
    connect(&config(&url)).await.expect("the administrator's way in")
}

/// What a policy and a role may do, on both paths.
async fn holds(engine: &Arc<Engine>, source: &str, major: u32) {
    let (queried, wired) = (format!("queried-{major}"), format!("wired-{major}"));
    lease(engine, source, &queried, role("app")).await.expect("a lease");
    let branch = lease(engine, source, &wired, role("app")).await.expect("a lease");
    assert_eq!(branch.policy.to_string(), "role:app");
    // Letting the role in ran nothing of the source's.
    let admin = administrator(engine, &wired).await;
    let seen =
        admin.query_one("select (select count(*) from ddl_log), (select count(*) from history)", &[]).await;
    let seen = seen.expect("rows");
    assert_eq!((seen.get::<_, i64>(0), seen.get::<_, i64>(1)), (0, 0), "{major}");

    let loading = "select count(*) from pg_db_role_setting, unnest(setconfig) s (x) \
                   where x ~ '_preload_' or (x ~ '^log_min_messages' and x <> 'log_min_messages=fatal')";
    assert_eq!(admin.query_one(loading, &[]).await.expect("rows").get::<_, i64>(0), 0, "{major}");

    let client = connect(&config(&branch.url)).await.expect("the URL admits the role");
    for (sql, expected) in ALLOWED {
        let found = rows(engine, &queried, sql).await;
        assert_eq!(found.to_string(), *expected, "{major}: {sql}");
        client.batch_execute(sql).await.unwrap_or_else(|error| panic!("{major}, wire: {sql}: {error:?}"));
    }
    for sql in REFUSED {
        let statements =
            sql.split("; ").map(|sql| QueryStatement { sql: sql.to_owned(), params: Vec::new() }).collect();
        let request = QueryRequest { statements, ..QueryRequest::default() };
        let error = engine.query(&queried, request).await.expect_err(sql);
        assert_eq!(error.sqlstate.as_deref(), Some("42501"), "{major}: {sql}: {error}");
        let fresh = connect(&config(&branch.url)).await.expect("the URL admits the role");
        let error = fresh.batch_execute(sql).await.expect_err(sql);
        assert_eq!(error.code().map(|code| code.code()), Some("42501"), "{major}, wire: {sql}: {error:?}");
    }
    let seen = admin.query("select distinct who::text from ddl_log", &[]).await.expect("rows");
    let seen: Vec<String> = seen.iter().map(|row| row.get(0)).collect();
    assert_eq!(seen, ["app"], "{major}: event triggers run as in the source");

    // Nobody else, and nowhere else.
    for user in ["boss", "other", "auditor", "stranger", "duramen_ddl", "duramen_write", "staff"] {
        let mut other = config(&branch.url);
        other.user(user);
        let refused = connect(&other).await.err().unwrap_or_else(|| panic!("{major}: {user} came in"));
        assert_eq!(refused.code().map(|code| code.code()), Some("28000"), "{major}: {user}: {refused}");
    }
    for database in ["postgres", "template1"] {
        let mut other = config(&branch.url);
        other.dbname(database);
        assert!(connect(&other).await.is_err(), "{major}: {database} is open");
    }

    // A holder who changes the password of the role keeps the daemon out for no longer than a moment, and gets back
    // nothing that was taken meanwhile.
    let admin = administrator(engine, &queried).await;
    admin.batch_execute("revoke insert on open_to_all from public").await.expect("revoke");
    query(engine, &queried, "alter role app password 'mine'").await.expect("a role's own password");
    let pid = rows(engine, &queried, "select pg_backend_pid()").await;
    admin.batch_execute(&format!("select pg_terminate_backend({}, 5000)", pid[0][0])).await.expect("end");
    let _ = query(engine, &queried, "select 1").await;
    assert_eq!(rows(engine, &queried, "select 1").await, json!([[1]]));
    let error = query(engine, &queried, "insert into open_to_all values (2)").await.expect_err("revoked");
    assert_eq!(error.sqlstate.as_deref(), Some("42501"), "{error}");

    // A reset begins anew, under another secret.
    let again = engine.reset(&wired).await.expect("a reset");
    assert_ne!(again.url, branch.url);
    assert_eq!(rows(engine, &wired, "select count(*), total() from orders").await, json!([[50, 100]]));
    assert!(connect(&config(&again.url)).await.is_ok());
    for name in [&queried, &wired] {
        engine.destroy(name).expect("destroy");
    }
}

/// B47, B48: under the policy of a role its own rights, row-level security and settings hold, no more and no less.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_of_the_source_may_what_it_may_there() {
    let home = Home::new();
    let engine = home.open().await;
    for major in majors_with("dblink") {
        let origin = OtherServer::start(&home, major).await;
        origin.run("shop", SHOP).await;
        if major >= 17 {
            origin.run("shop", LOGIN_TRIGGER).await;
        }
        let source = format!("shop-{major}");
        let hot = [Policy::ReadOnly, Policy::ReadWrite, Policy::Ddl, role("app")];
        let view = import(&engine, &source, origin.running(), &hot).await.expect("the import");
        assert_eq!(view.roles, ["app", "auditor", "other", "stranger"], "{major}");
        settle(&engine).await;
        let pool = engine.status().pools.into_iter().find(|pool| pool.policy == role("app")).expect("a pool");
        assert_eq!((pool.hot, pool.target), (1, 1), "{major}");
        holds(&engine, &source, major).await;

        // Who bypasses row-level security in the source does so here.
        lease(&engine, &source, "auditor", role("auditor")).await.expect("a lease");
        assert_eq!(rows(&engine, "auditor", "select count(*) from orders").await, json!([[100]]));
        let error = query(&engine, "auditor", "select * from secret").await.expect_err("no right");
        assert_eq!(error.sqlstate.as_deref(), Some("42501"), "{error}");

        for (name, code) in [
            ("boss", "role_refused"),
            ("boss_too", "role_refused"),
            ("staff", "unknown_role"),
            ("nobody", "unknown_role"),
            ("duramen_ddl", "unknown_role"),
            ("pg_monitor", "unknown_role"),
        ] {
            let error = lease(&engine, &source, "refused", role(name)).await.expect_err(name);
            assert_eq!(error.code, code, "{major}: {name}: {error}");
            let change = ChangeSettings { hot: [(role(name), 1)].into(), ..ChangeSettings::default() };
            let error = engine.change_settings(&source, change).await.map(|_| ()).expect_err(name);
            assert_eq!(error.code, code, "{major}: {name}: {error}");
        }
        // What keeps one role out keeps nobody else out.
        let error =
            lease(&engine, &source, "refused", role("stranger")).await.expect_err("it may not connect");
        assert!(error.message.contains("permission denied for database"), "{major}: {error}");
        for policy in [role("app"), Policy::ReadOnly, Policy::ReadWrite, Policy::Ddl] {
            lease(&engine, &source, "after", policy)
                .await
                .unwrap_or_else(|error| panic!("{policy}: {error}"));
            assert_eq!(rows(&engine, "after", "select 1").await, json!([[1]]));
            if policy == Policy::ReadOnly {
                // Functions do not write for it what it may not, nor does a trigger at login.
                let error = query(&engine, "after", "insert into orders values (-2, 'app', 'x')").await;
                assert!(error.is_err(), "{major}");
                assert_eq!(rows(&engine, "after", "select count(*) from history").await, json!([[0]]));
            }
            engine.destroy("after").expect("destroy");
        }
        engine.destroy("auditor").expect("destroy");
        settle_roles(&engine).await;
        engine.remove_source(&source).await.expect("the source is forgotten");
    }
    engine.close().await.expect("close");
}

/// The pool of the role that may not connect stays broken; the others fill.
async fn settle_roles(engine: &Engine) {
    for _ in 0..600 {
        let status = engine.status();
        if status.to_delete == 0 && status.pools.iter().all(|pool| pool.hot >= pool.target) {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("the pools did not settle: {:?}", engine.status());
}

/// B47: a lease of a role outlives its daemon, and a role that is gone from the source keeps no other pool empty.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lease_of_a_role_is_kept() {
    let home = Home::new();
    let major = *majors().first().expect("a server");
    let origin = OtherServer::start(&home, major).await;
    origin
        .run("shop", "create role \"A \"\"b\"\" /.*=c\" login;; create table t (x int);; grant select, insert on t to \"A \"\"b\"\" /.*=c\"")
        .await;
    let odd = role("A \"b\" /.*=c");
    let engine = home.open().await;
    import(&engine, "shop", origin.running(), &[odd, Policy::ReadWrite]).await.expect("the import");
    settle(&engine).await;
    let kept = lease(&engine, "shop", "kept", odd).await.expect("a lease");
    assert_eq!(rows(&engine, "kept", "insert into t values (1) returning x").await, json!([[1]]));
    connect(&config(&kept.url)).await.expect("its name in a URL");
    engine.close().await.expect("close");

    let engine = home.open().await;
    let found = engine.branch("kept").expect("it is held");
    assert_eq!((found.policy, found.state.as_str()), (odd, "ready"));
    let reply = query(&engine, "kept", "select * from t").await.expect("rows");
    assert_eq!((reply.policy, reply.results[0].rows.get()), (odd, "[[1]]"));
    connect(&config(&found.url)).await.expect("the URL goes on to work");
    origin.run("shop", "drop owned by \"A \"\"b\"\" /.*=c\";; drop role \"A \"\"b\"\" /.*=c\"").await;
    engine.refresh_source("shop", |_, _| {}).await.expect("a refresh");
    settle(&engine).await;
    let error = lease(&engine, "shop", "next", odd).await.expect_err("it is gone");
    assert_eq!(error.code, "unknown_role", "{error}");
    lease(&engine, "shop", "next", Policy::ReadWrite).await.expect("a lease");
    assert_eq!(rows(&engine, "kept", "select * from t").await, json!([[1]]), "its generation is kept");
    engine.close().await.expect("close");
}
