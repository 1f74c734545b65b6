//! What reading does, and what it does not: nothing that a user of the database wrote runs, and nothing is waited for
//! without an end.

use crate::support::{databases, Server};
use duramen_schema::{Catalogue, Diff, Risk};

/// Whatever runs one of these functions fails once all is made, and advances a sequence.
const HOSTILE: &str = "
  create schema evil;
  create sequence evil.ran;
  create function evil.run() returns boolean language sql as 'select true';
  create function evil.pure(int) returns int language plpgsql immutable as 'begin return 7; end';
  create function evil.quote_ident(text) returns text language plpgsql as $$ begin raise exception 'it ran'; end $$;
  create function evil.format_type(oid, int) returns text language plpgsql as $$ begin raise exception 'it ran'; end $$;
  create function evil.pg_get_viewdef(oid) returns text language plpgsql as $$ begin raise exception 'it ran'; end $$;
  create function evil.same(oid, oid) returns boolean language plpgsql as $$ begin raise exception 'it ran'; end $$;
  create operator evil.= (leftarg = oid, rightarg = oid, function = evil.same);
  create function evil.joined(text, text) returns text language plpgsql as $$ begin raise exception 'it ran'; end $$;
  create operator evil.|| (leftarg = text, rightarg = text, function = evil.joined);
  create view evil.pg_class as select evil.run() as oid;
  create domain evil.d as int check (evil.pure(value) > 0) default evil.pure(1);
  create table evil.t (a int default evil.pure(2), b int generated always as (evil.pure(a)) stored, d evil.d,
    check (evil.pure(3) > a));
  create index on evil.t ((evil.pure(4)));
  create index on evil.t (a) where evil.pure(5) > 1;
  create statistics evil.s on (evil.pure(a)), a from evil.t;
  create policy p on evil.t using (evil.run());
  alter table evil.t enable row level security, force row level security;
  create view evil.v as select evil.run() from evil.t where evil.pure(6) = 1;
  create materialized view evil.m as select evil.pure(7) from evil.t with no data;
  create table evil.p (a int) partition by range ((evil.pure(a)));
  create table evil.p1 partition of evil.p for values from (1) to (2);
  create or replace function evil.run() returns boolean language plpgsql as
    $$ begin perform nextval('evil.ran'); raise exception 'it ran'; end $$;
  create or replace function evil.pure(int) returns int language plpgsql immutable as
    $$ begin perform nextval('evil.ran'); raise exception 'it ran'; end $$;
";

#[tokio::test]
async fn nothing_that_a_user_wrote_runs() {
    let server = Server::start().await;
    let [database] = databases(&server, [HOSTILE]).await.unwrap();
    let admin = server.connect("postgres").await;
    admin
        .batch_execute(&format!("alter database {database} set search_path = evil, pg_catalog"))
        .await
        .unwrap();
    let client = server.connect(&database).await;
    let found = Catalogue::read(&client).await.unwrap();
    assert!(found.objects().any(|(key, _)| key.name == "evil.v"));
    let ran = client.query_one("select is_called from evil.ran", &[]).await.unwrap();
    assert!(!ran.get::<_, bool>(0), "something ran");
    let trap = client.batch_execute("select evil.run()").await.unwrap_err();
    assert_eq!(crate::support::text(&trap), "it ran", "the trap is set");
}

/// Names, labels and comments that would be statements if they left their quotes.
const NAMES: &str = "
  create schema evil;
  create function evil.run() returns boolean language plpgsql as $$ begin raise exception 'it ran'; end $$;
  create table evil.t (a int);
  comment on table evil.t is E'x\\'; select evil.run(); --\n; select evil.run();';
  create table evil.\"t; select evil.run(); --\" (\"c\nselect evil.run()\" int default 1,
    constraint \"k\"\"; select evil.run(); --\" check (true));
  create type evil.e as enum ('a''; select evil.run(); --', E'b\n; select evil.run(); --');
  create type evil.c as (\"a, b int); select evil.run(); --\" int, \"x\ny\" text);
  create domain evil.d as text constraint \"k\nselect evil.run()\" check (value <> E'a\n\\\\; select evil.run()');
  grant select (a) on evil.t to \"joe; select evil.run()\";
";

/// C3.
#[tokio::test]
async fn what_names_hold_stays_within_quotes() {
    let server = Server::start().await;
    let admin = server.connect("postgres").await;
    admin.batch_execute("create role \"joe; select evil.run()\"").await.unwrap();
    let more =
        "alter type evil.e add value E'c\n''; select evil.run(); --' before E'b\n; select evil.run(); --'";
    let names = [NAMES.to_owned(), format!("{NAMES}; {more}"), "select 1".to_owned()];
    let databases = databases(&server, [&names[0], &names[1], &names[2]]).await.unwrap();
    for (from, to) in [(2, 0), (0, 1), (1, 0), (0, 2)] {
        let copy = server.copy(&databases[from]).await;
        let client = server.connect(&copy).await;
        let wanted = Catalogue::read(&server.connect(&databases[to]).await).await.unwrap();
        let diff = Diff::between(&Catalogue::read(&client).await.unwrap(), &wanted);
        assert!(!diff.changes().is_empty());
        if let Err(error) = client.batch_execute(&diff.script()).await {
            panic!("{}\n{}", crate::support::text(&error), diff.script());
        }
        let left = Diff::between(&Catalogue::read(&client).await.unwrap(), &wanted);
        assert_eq!(left.to_string(), "");
    }
}

#[tokio::test]
async fn who_holds_a_lock_is_not_waited_for_without_an_end() {
    let server = Server::start().await;
    let [database] =
        databases(&server, ["create table t (a int); create view v as select a from t"]).await.unwrap();
    let holder = server.connect(&database).await;
    holder.batch_execute("begin; lock table t in access exclusive mode").await.unwrap();
    let client = server.connect(&database).await;
    let refused = Catalogue::read(&client).await.unwrap_err().to_string();
    assert!(refused.contains("a transaction that changes definitions is open"), "{refused}");
    holder.batch_execute("commit").await.unwrap();
    client.batch_execute("rollback").await.unwrap();
    assert!(Catalogue::read(&client).await.is_ok());
}

/// A holder may define what fills the memory of who reads it.
#[tokio::test]
async fn definitions_that_are_too_long_are_not_read() {
    let server = Server::start().await;
    let long = "do $$ begin for n in 1 .. 3 loop execute format('create function f%s() returns int language sql as %L', n, \
                'select 1 --' || repeat('x', 30000000)); end loop; end $$";
    let [database] = databases(&server, [long]).await.unwrap();
    let refused = Catalogue::read(&server.connect(&database).await).await.unwrap_err().to_string();
    assert!(refused.contains("more than 64 MiB"), "{refused}");
}

/// A change of a table `t` that has rows, and whether the table is written anew.
const REWRITES: &[(&str, bool)] = &[
    ("alter table t add column x int default 5", false),
    ("alter table t add column x uuid default gen_random_uuid()", true),
    ("alter table t add column x bigserial", true),
    ("alter table t add column x int generated always as (a + 1) stored", true),
    ("alter table t alter a type bigint", true),
    ("alter table t alter v type varchar(50)", false),
    ("alter table t alter v type text", false),
    ("alter table t alter v type varchar(5)", true),
    ("alter table t alter a set not null", false),
    ("alter table t set unlogged", true),
    ("alter table t add check (a > 0)", false),
];

#[tokio::test]
async fn a_rewrite_is_said_where_there_is_one() {
    let server = Server::start().await;
    let made =
        "create table t (a int, v varchar(10)); insert into t select 1, 'v' from generate_series(1, 9)";
    for (change, rewrites) in REWRITES {
        let [from, to] = databases(&server, [made, &format!("{made}; {change}")]).await.unwrap();
        let client = server.connect(&from).await;
        let before = Catalogue::read(&client).await.unwrap();
        let diff = Diff::between(&before, &Catalogue::read(&server.connect(&to).await).await.unwrap());
        let file = async || -> u32 {
            client.query_one("select pg_relation_filenode('t')", &[]).await.unwrap().get(0)
        };
        let old = file().await;
        client.batch_execute(&diff.script()).await.unwrap();
        assert_eq!(file().await != old, *rewrites, "{change}: what the server does");
        let said = diff.warnings().iter().any(|warning| warning.risk == Risk::Rewrite);
        assert_eq!(said, *rewrites, "{change}: what is said\n{diff}");
    }
}

#[tokio::test]
async fn what_is_lost_or_may_fail_is_said() {
    let server = Server::start().await;
    let both = "create table t (a int, b text); create sequence s; create aggregate total (int) (sfunc = int4pl, stype = int)";
    let after = "create table t (a int not null unique); create index on t (a); create materialized view m as select 1 as x";
    let [from, to] = databases(&server, [both, after]).await.unwrap();
    let diff = Diff::between(
        &Catalogue::read(&server.connect(&from).await).await.unwrap(),
        &Catalogue::read(&server.connect(&to).await).await.unwrap(),
    );
    let said: Vec<(Risk, &str)> =
        diff.warnings().iter().map(|warning| (warning.risk, warning.key.name.as_str())).collect();
    assert_eq!(
        said,
        [
            (Risk::DataLoss, "public.s"),
            (Risk::DataLoss, "public.t.b"),
            (Risk::MayFail, "public.t.a"),
            (Risk::MayFail, "t_a_key on public.t"),
            (Risk::Lock, "public.t.a"),
            (Risk::Lock, "t_a_key on public.t"),
            (Risk::Lock, "public.t_a_idx"),
            (Risk::ByHand, "aggregate public.total(integer)"),
        ],
        "{diff}"
    );
}
