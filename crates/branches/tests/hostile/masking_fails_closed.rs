//! B40, B41: a source with rules serves only what its present rules made, and nothing when one of them failed.

use crate::{
    masked_values_are_nowhere::{add, rules, Secretive},
    support::{majors, pool, query, rows, settle, Home},
};
use duramen_api::model::{AddSource, ChangeSettings, CreateBranch, Origin, Policy};
use duramen_branches::{Engine, EngineError};
use serde_json::json;
use std::sync::{
    atomic::{AtomicBool, Ordering::Relaxed},
    Arc,
};

const SCHEMA: &str = "
create table users (id int primary key, email text not null unique, name text, short varchar(3) unique, amount numeric,
  email_again text generated always as (email) stored, constraint has_at check (email like '%@%'));;
insert into users select n, 'MARK' || n || '@x', 'n', n, n from generate_series(1, 300) n;;
create table letters (id int, user_id int references users (id), wide bigint references users (id));;
insert into letters select n, n, n from generate_series(1, 300) n;;
create view seen as select * from users;;
create table parted (a int, b text) partition by list (b);;
create table part partition of parted for values in ('x');;
";

/// How an import with rules was refused, and whether anything was copied before.
async fn refused(engine: &Arc<Engine>, origin: Origin, text: &str) -> (EngineError, bool) {
    let request = AddSource {
        name: "app".to_owned(),
        origin,
        database: Some("shop".to_owned()),
        settings: rules(text),
    };
    let copied = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&copied);
    let progress = move |doing: &str, _| {
        seen.fetch_or(doing == "making the copy harmless", Relaxed);
    };
    let error = engine.add_source(request, progress).await.expect_err(text);
    (error, copied.load(Relaxed))
}

/// B41: what a rule says that cannot be, and what is said about it; without a copy where the origin's catalogue tells.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rule_that_cannot_be_applied_leaves_no_source() {
    let home = Home::new();
    let engine = home.open().await;
    let major = majors()[0];
    let origin = Secretive::start(&home, major).await;
    origin.run("shop", SCHEMA).await;
    let column = |rule: &str| format!(r#"{{"columns": {{{rule}}}}}"#);
    for (text, code, said) in [
        ("{}".to_owned(), "masking_refused", "there is no rule"),
        (column(r#""public.user": {"name": "null"}"#), "masking_refused", "is public.users meant?"),
        (column(r#""users": {"name": "null"}"#), "masking_refused", "write schema.table"),
        (column(r#""public.users": {"nam": "null"}"#), "masking_refused", "has no column"),
        (column(r#""public.users": {"email": "null"}"#), "masking_refused", "may not be null"),
        (column(r#""public.users": {"amount": "hash"}"#), "masking_refused", "works for text, varchar"),
        (column(r#""public.users": {"email_again": "hash"}"#), "masking_refused", "is generated"),
        // Given to user_id too, which it fits, and to wide, which it does not.
        (column(r#""public.users": {"id": "hash"}"#), "masking_refused", "different hashes"),
        (
            column(r#""public.users": {"id": "hash"}, "public.letters": {"user_id": {"constant": "1"}}"#),
            "masking_refused",
            "have different rules",
        ),
        (column(r#""public.users": {"id": {"noise": {"by": 3}}}"#), "masking_refused", "is unique"),
        (
            column(r#""public.users": {"id": "hash"}, "public.letters": {"user_id": "hash", "wide": "hash"}"#),
            "masking_refused",
            "different hashes",
        ),
        (column(r#""public.seen": {"email": "hash"}"#), "masking_refused", "not a column of a table"),
        (column(r#""public.parted": {"b": "hash"}"#), "masking_refused", "in which partition"),
        // The server refuses what follows, in words that hold a value.
        (column(r#""public.users": {"email": "hash"}"#), "masking_failed", "constraint has_at"),
        (column(r#""public.users": {"email": {"constant": "a@b"}}"#), "masking_failed", "users_email_key"),
        (column(r#""public.users": {"short": "hash"}"#), "masking_failed", "users_short_key"),
        (column(r#""public.users": {"amount": {"constant": "much"}}"#), "masking_failed", "22P02"),
        (r#"{"rows": {"public.users": "id <"}}"#.to_owned(), "masking_failed", "condition for rows"),
        (r#"{"rows": {"public.users": "1 / (id - 7) > 0"}}"#.to_owned(), "masking_failed", "22012"),
        // Evaluated by a role that may only read.
        (
            r#"{"rows": {"public.users": "pg_catalog.pg_read_file('PG_VERSION') is null"}}"#.to_owned(),
            "masking_failed",
            "42501",
        ),
        (
            r#"{"rows": {"public.users": "pg_catalog.set_config('session_authorization', 'boss', false) = ''"}}"#.to_owned(),
            "masking_failed",
            "SQLSTATE",
        ),
    ] {
        let (error, copied) = refused(&engine, origin.origin(), &text).await;
        assert_eq!(copied, code == "masking_failed", "{text}");
        assert_eq!(error.code, code, "{text}: {error}");
        assert!(error.message.contains(said), "{text}: {error}");
        assert!(!error.message.contains("zqorig1nalqz"), "{text}: a value is in {error}");
        assert!(engine.sources().is_empty(), "{text}");
        assert!(!home.path().join("scratch.btrfs").exists(), "{text}: the scratch is left");
    }
    // Nobody can look into a script before it ran.
    let wrong = rules(MISFIT);
    let error = home.try_script(&engine, "create table users (name text);", wrong).await.expect_err("a rule");
    assert_eq!(error.code, "masking_refused", "{error}");
    assert!(engine.sources().is_empty());
    engine.close().await.expect("close");
}

const MISFIT: &str = r#"{"columns": {"public.users": {"nam": "null"}}}"#;

/// B28, B41: the database that branches will serve is looked into, whichever one the URL names, and a login trigger there
/// does not run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_are_held_against_the_served_database() {
    let home = Home::new();
    let engine = home.open().await;
    let major = majors()[0];
    let origin = Secretive::start(&home, major).await;
    origin.run("shop", SCHEMA).await;
    if major >= 17 {
        let trap = "create table ran (who text);; grant insert on ran to public;;
            create function on_login() returns event_trigger language plpgsql as
              $$ begin set default_transaction_read_only = off; set transaction_read_only = off;
                 insert into public.ran values (session_user); end $$;;
            create event trigger l on login execute function on_login();; alter event trigger l enable always;;
            truncate ran;;";
        origin.run("shop", trap).await;
    }
    let before = origin.count("shop", "ran").await;
    let (error, copied) = refused(&engine, origin.at("postgres"), MISFIT).await;
    assert_eq!((error.code, copied), ("masking_refused", false), "{error}");
    let own = i64::from(major >= 17);
    assert_eq!(origin.count("shop", "ran").await, before + own, "only the sessions of this test fired it");
    engine.close().await.expect("close");
}

/// B41: an origin that breaks off, or stalls, while its catalogue is read keeps nobody waiting, and its copy is judged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_origin_that_does_not_show_its_catalogue_is_judged_by_its_copy() {
    let home = Home::new();
    let engine = home.open().await;
    let origin = Secretive::start(&home, majors()[0]).await;
    origin.run("shop", SCHEMA).await;
    for stalls in [false, true] {
        let socket = home.beside(if stalls { "stalls" } else { "breaks" });
        let (way, met) = origin.behind(&socket, "p.partattrs) k (number)", stalls);
        let (error, copied) = refused(&engine, way, MISFIT).await;
        assert!(met.load(Relaxed), "it was asked");
        assert_eq!((error.code, copied), ("masking_refused", true), "{stalls}: {error}");
        assert!(engine.sources().is_empty());
    }
    engine.close().await.expect("close");
}

/// B40: neither a hot branch nor a reset brings back what rules are about.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_rules_stop_a_source_until_it_is_refreshed() {
    let home = Home::new();
    let engine = home.open().await;
    let origin = Secretive::start(&home, majors()[0]).await;
    origin.run("shop", SCHEMA).await;
    add(&engine, "app", origin.origin(), pool(&[(Policy::ReadWrite, 2)])).await.expect("the import");
    settle(&engine).await;
    let create = |name: &str| CreateBranch { name: Some(name.to_owned()), ..CreateBranch::default() };
    assert_eq!(engine.create(create("before")).await.expect("a lease").data, "full");

    let wanted = rules(r#"{"columns": {"public.users": {"name": {"constant": "nobody"}}}}"#).masking;
    let change = ChangeSettings { masking: wanted, ..ChangeSettings::default() };
    engine.change_settings("app", change).await.expect("new rules");
    let error = engine.create(create("between")).await.expect_err("no branch of what is not masked");
    assert!(error.message.contains("masking rules"), "{error}");
    let error = engine.reset("before").await.expect_err("no reset to what is not masked");
    assert_eq!(error.code, "rules_changed");
    let reopened = {
        engine.close().await.expect("close");
        home.open().await
    };
    let error = reopened.create(create("between")).await.expect_err("nor after a restart");
    assert!(error.message.contains("masking rules"), "{error}");
    assert_eq!(reopened.branch("before").expect("the lease").data, "full", "says what it holds");

    let view = reopened.refresh_source("app", |_, _| {}).await.expect("a refresh");
    assert_eq!((view.generation, view.data.as_str()), (2, "masked"));
    settle(&reopened).await;
    assert_eq!(reopened.create(create("after")).await.expect("a lease").data, "masked");
    let names = rows(&reopened, "after", "select distinct name from users").await;
    assert_eq!(names, json!([["nobody"]]));
    // If a rule fails during a refresh, the previous generation stays in place.
    origin.run("shop", "alter table users rename name to called;;").await;
    let error =
        reopened.refresh_source("app", |_, _| {}).await.expect_err("the column is not there any more");
    assert_eq!(error.code, "masking_refused");
    assert_eq!(reopened.source("app").expect("the source").generation, 2);
    query(&reopened, "after", "select name from users limit 1").await.expect("it goes on");
    reopened.close().await.expect("close");
}

/// B42: labels are rules; what they say that is not read is refused, and so is a source that has labels and no rules.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn labels_of_the_anonymizer_are_rules() {
    let home = Home::new();
    let engine = home.open().await;
    for major in majors() {
        let origin = Secretive::start(&home, major).await;
        origin.run("shop", SCHEMA).await;
        let name = format!("of{major}");
        // As its own provider would write them; it need not be installed to be read.
        let label = |column: &str, text: &str| {
            format!(
                "insert into pg_seclabel select 'users'::regclass, 'pg_class'::regclass, attnum, 'anon', $l${text}$l$ \
                 from pg_attribute where attrelid = 'users'::regclass and attname = '{column}';;"
            )
        };
        origin.run("shop", &label("name", "MASKED WITH VALUE $$CONFIDENTIAL$$")).await;
        origin.run("shop", &label("amount", "MASKED WITH VALUE NULL")).await;
        origin.run("shop", &label("short", "MASKED WITH FUNCTION anon.partial(short, 1, $$x$$, 1)")).await;

        let error = add(&engine, &name, origin.origin(), pool(&[])).await.expect_err("labels and no rules");
        assert_eq!(error.code, "labels_without_masking", "{error}");
        assert!(error.message.contains("shop: public.users.name"), "{error}");
        let error = add(&engine, &name, origin.origin(), rules("{}")).await.expect_err("a function");
        assert_eq!(error.code, "masking_refused");
        assert!(error.message.contains("public.users.short has the label"), "{error}");
        let own = r#"{"columns": {"public.users": {"short": "null", "amount": "keep"}}}"#;
        add(&engine, &name, origin.origin(), rules(own)).await.unwrap_or_else(|error| panic!("{error}"));
        settle(&engine).await;
        let request =
            CreateBranch { source: Some(name.clone()), name: Some(name.clone()), ..CreateBranch::default() };
        engine.create(request).await.expect("a lease");
        let seen = rows(&engine, &name, "select distinct name, short, amount is null from users").await;
        assert_eq!(seen, json!([["CONFIDENTIAL", null, false]]));
    }
    engine.close().await.expect("close");
}

/// A script's errors hold its values, and so does the log of a server that ran it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_of_a_script_withhold_values() {
    let home = Home::new();
    let engine = home.open().await;
    let sql = "create table t (a text primary key);\ninsert into t values ('zqorig1nalqz');\ninsert into t values ('zqorig1nalqz');\n";
    let settings = rules(r#"{"columns": {"public.t": {"a": "hash"}}}"#);
    let error = home.try_script(&engine, sql, settings).await.expect_err("a key twice");
    assert_eq!(error.code, "bad_script");
    assert!(error.message.contains("line 3") && !error.message.contains("zqorig1nalqz"), "{error}");
    engine.close().await.expect("close");
}

/// Whatever is called while rules are applied notes as whom.
const TRAPS: &str = r"
create table ran (who text, what text);; grant all on ran to public;;
create function note(what text) returns bool volatile language plpgsql as
  $$ begin insert into public.ran values (current_user, what); return true; exception when others then return true; end $$;;
create function ran(what text) returns bool immutable language plpgsql as $$ begin return public.note(what); end $$;;
create domain word as text check (public.ran('domain'));;
create table users (id int primary key, email word, other text check (public.ran('check')),
  made bool generated always as (public.ran('generated' || left(email, 0))) stored);;
insert into users select n, 'MARK' || n, 'o' from generate_series(1, 50) n;;
create function of_each(text) returns text immutable language plpgsql as $$ begin perform public.ran('index'); return $1; end $$;;
create index on users (of_each(email));;
create function noted() returns trigger language plpgsql as $$ begin perform public.ran('trigger'); return coalesce(new, old); end $$;;
create trigger a before update or delete on users for each row execute function noted();;
alter table users enable always trigger a;;
create trigger r after update or delete on users execute function noted();;
alter table users enable replica trigger r;;
create rule also as on delete to users do also insert into ran values (current_user, 'rule');;
alter table users enable row level security;; alter table users force row level security;;
create policy p on users using (public.ran('policy'));;
create materialized view kept as select id, public.ran('view') from users;;
create function same(tid, tid) returns bool language plpgsql as $$ begin perform public.ran('operator'); return true; end $$;;
create operator public.= (leftarg = tid, rightarg = tid, function = same);;
alter database shop set search_path = public, pg_catalog;;
create function on_ddl() returns event_trigger language plpgsql as $$ begin perform public.ran('event trigger'); end $$;;
create event trigger e on ddl_command_end execute function on_ddl();; alter event trigger e enable always;;
alter table ran owner to app;; alter table users owner to app;; alter materialized view kept owner to app;;
truncate ran;;
";

/// B28 while rules are applied: code of the source runs as a role that may as much as a holder, as its owner, or not at all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn code_of_the_source_has_no_rights_while_rules_are_applied() {
    let home = Home::new();
    let engine = home.open().await;
    for major in majors() {
        let origin = Secretive::start(&home, major).await;
        origin.run("shop", TRAPS).await;
        let name = format!("of{major}");
        let wanted = rules(
            r#"{"columns": {"public.users": {"email": "hash", "other": {"constant": "x"}}},
                "rows": {"public.users": "id <= 40 and public.ran('condition')"}}"#,
        );
        add(&engine, &name, origin.origin(), wanted).await.unwrap_or_else(|error| panic!("{error}"));
        settle(&engine).await;
        let request =
            CreateBranch { source: Some(name.clone()), name: Some(name.clone()), ..CreateBranch::default() };
        engine.create(request).await.expect("a lease");
        let seen = rows(&engine, &name, "select distinct what, who from ran order by 1, 2").await;
        let seen: Vec<(String, String)> = serde_json::from_value(seen).expect("pairs");
        for (what, who) in &seen {
            assert!(["app", "duramen_ddl"].contains(&who.as_str()), "{what} ran as {who}: {seen:?}");
            assert!(
                !["trigger", "rule", "policy", "operator", "event trigger", "condition"]
                    .contains(&what.as_str()),
                "{seen:?}"
            );
        }
        let ran = |what: &str, who: &str| seen.contains(&(what.to_owned(), who.to_owned()));
        assert!(ran("check", "duramen_ddl") && ran("domain", "duramen_ddl"), "the traps work: {seen:?}");
        let left = "select count(*) from users where email ~ '^[0-9a-f]{32}$' and other = 'x'";
        assert_eq!(rows(&engine, &name, left).await, json!([[40]]));
    }
    engine.close().await.expect("close");
}
