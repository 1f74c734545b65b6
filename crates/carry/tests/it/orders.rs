//! Work that fits only one order of statements, deletions, updates and insertions.

use crate::support::{differences, run, text, Server};
use duramen_carry::{apply, ApplyError, ApplyOptions, Counts, Outcome, Triggers};

const SHOP: &str = "
create table customer (id int primary key, mail text unique, name text);
create table orders (id int primary key, customer int references customer, total numeric);
create table line (orders int references orders on delete cascade, nth int, what text, primary key (orders, nth));
create table tree (id int primary key, parent int references tree, v text);
insert into customer select i, 'c' || i || '@x', 'n' || i from generate_series(1, 20) i;
insert into orders select i, 1 + i % 20, i from generate_series(1, 40) i;
insert into line select i, n, 'w' from generate_series(1, 40) i, generate_series(1, 3) n;
insert into tree select i, nullif(i / 2, 0), 'v' from generate_series(1, 15) i;
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c2_work_that_hangs_together_is_carried_whatever_order_it_needs() {
    let server = Server::start();
    for work in [
        // Children before parents, and the other way round.
        &["delete from line where orders = 3", "delete from orders where id = 3"][..],
        &["delete from orders where id between 5 and 9"],
        &["insert into customer values (100, 'new@x', 'new'); insert into orders values (100, 100, 1)"],
        // A row moves to one that is new, and its old one goes.
        &["insert into customer values (101, 'n@x', 'n'); update orders set customer = 101 where customer = 7; delete from customer where id = 7"],
        // A unique value goes and comes elsewhere.
        &["delete from orders where customer = 4; delete from customer where id = 4; insert into customer values (40, 'c4@x', 'again')"],
        &["update customer set mail = null where id = 1; update customer set mail = 'c1@x' where id = 2"],
        // Within one table.
        &["delete from tree where id in (7, 14, 15)", "insert into tree values (100, 101, 'a'), (101, 1, 'b')"],
        // Duplicates go before what forbids them comes.
        &["update customer set name = 'same' where id in (1, 2); delete from orders where customer = 2; delete from customer where id = 2",
          "alter table customer add unique (name)"],
        // What is filled is forbidden to be empty.
        &["update customer set mail = null where id = 3", "update customer set mail = 'filled' where mail is null", "alter table customer alter mail set not null"],
        &["alter table customer add column city text", "update customer set city = 'c' || id", "alter table customer alter city set default 'x'"],
        // A column that has to be filled comes empty, also by another name.
        &["alter table customer add column city text", "update customer set city = 'c' || id", "alter table customer alter city set not null"],
        &["alter table customer alter name set not null", "alter table customer rename column name to \"full \"\"not null\"",
          "insert into customer values (100, 'new@x', 'new'); update customer set mail = null where id = 1"],
        &["alter table orders add column paid bool default false", "update orders set paid = true where id % 2 = 0"],
        &["alter table orders alter total type numeric(12,2)", "update orders set total = 7.5 where id = 1"],
        &["update customer set name = '5'", "alter table customer alter name type int using name::int"],
        &["drop table line", "delete from orders where id > 30"],
        &["create table extra (id int primary key, orders int references orders, at timestamptz default now())",
          "insert into orders values (500, 1, 1)", "insert into extra (id, orders) values (1, 500)"],
        &["alter table tree rename column v to w", "update tree set w = 'x' where id = 1"],
        &["alter table orders drop constraint orders_customer_fkey", "delete from customer where id = 1"],
        &["create view open as select * from orders", "insert into orders values (77, 1, 7)"],
    ] {
        let [source, branch, target] = server.three(SHOP, work).await;
        let set = server.change_set(&source, &branch).await;
        let outcome = server.apply(&set, &target).await.unwrap_or_else(|error| panic!("{work:?}: {error}\n{:?}", set.ddl()));
        assert!(matches!(outcome, Outcome::Applied(_)), "{work:?}: {outcome:?}");
        let left = differences(&server, &branch, &target).await;
        assert!(left.is_empty(), "{work:?}: {left:#?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c11_a_dry_run_does_all_of_it_and_leaves_nothing() {
    let server = Server::start();
    let [source, branch, target] = server
        .three(
            SHOP,
            &[
                "create sequence s; select nextval('s')",
                "update customer set name = 'x' where id < 4",
                "alter table tree add column n int",
            ],
        )
        .await;
    let set = server.change_set(&source, &branch).await;
    let dry = ApplyOptions { dry_run: true, ..ApplyOptions::default() };
    let outcome = apply(&set, &server.target(&target), &dry).await.unwrap();
    assert_eq!(outcome, Outcome::WouldApply(Counts { statements: 2, updated: 3, ..Counts::default() }));
    assert_eq!(differences(&server, &source, &target).await, Vec::<String>::new());
    assert_eq!(
        text(&server.connect(&target).await, "select to_regclass('duramen.applied_changes')::text").await,
        ""
    );
    assert!(matches!(
        server.apply(&set, &target).await.unwrap(),
        Outcome::Applied(Counts { sequences: 1, .. })
    ));
    assert_eq!(differences(&server, &branch, &target).await, Vec::<String>::new());
}

const AUDITED: &str = "
create table item (id int primary key, v text, changed int default 0);
create table audit (id serial primary key, what text);
create function note() returns trigger language plpgsql as $$ begin
  insert into audit (what) values (tg_op || ' ' || coalesce(new.id, old.id)); return coalesce(new, old); end $$;
create trigger noted after insert or update or delete on item for each row execute function note();
insert into item select i, 'v' from generate_series(1, 9) i;";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c2_triggers_fire_once_or_are_off_and_fire_again_later() {
    let server = Server::start();
    let [source, branch, target] = server
        .three(AUDITED, &["update item set v = 'w' where id = 3", "delete from item where id = 4"])
        .await;
    let set = server.change_set(&source, &branch).await;
    // What the trigger wrote in the branch is in it already, so somebody has to say whether it is to fire.
    let error = server.apply(&set, &target).await.unwrap_err();
    assert!(matches!(&error, ApplyError::Triggers { names } if names == &["public.item: noted"]), "{error}");
    assert_eq!(differences(&server, &source, &target).await, Vec::<String>::new());
    let twice = server.copy(&source).await;
    let fire = ApplyOptions { triggers: Triggers::Fire, ..ApplyOptions::default() };
    apply(&set, &server.target(&twice), &fire).await.unwrap();
    let audit = "select count(*)::text from audit where id > 9";
    assert_eq!(text(&server.connect(&twice).await, audit).await, "4");
    let off = ApplyOptions { triggers: Triggers::Off, ..ApplyOptions::default() };
    apply(&set, &server.target(&target), &off).await.unwrap();
    let client = server.connect(&target).await;
    assert_eq!(
        text(&client, "select string_agg(what, ',' order by id) from audit where id > 9").await,
        "UPDATE 3,DELETE 4"
    );
    run(&client, "insert into item values (50, 'later')").await;
    assert_eq!(text(&client, "select what from audit order by id desc limit 1").await, "INSERT 50");

    // Without such a table they fire as ever, and find what they look for.
    let script = "create schema app; create table app.t (id int primary key, v text, seen text);
        create function app.seen() returns trigger language plpgsql as $$ begin new.seen := (select n from names limit 1); return new; end $$;
        create table app.names (n text); insert into app.names values ('here'); insert into app.t values (1, 'a', null);
        create trigger seen before update on app.t for each row execute function app.seen()";
    let work = "set search_path = app; update t set v = 'b'";
    let [source, branch, target] = server.three(script, &[work]).await;
    let path = format!("alter database {target} set search_path = app");
    run(&server.connect(&target).await, &path).await;
    let set = server.change_set(&source, &branch).await;
    apply(&set, &server.target(&target), &fire).await.unwrap();
    assert_eq!(text(&server.connect(&target).await, "select seen from app.t").await, "here");
}
