//! V4: of a subset what belongs to its rows is kept, and what these refer to; nothing else is, in whatever form.

use crate::{
    masked_values_are_nowhere::{add, marked, rules, Secretive},
    support::{majors, query, rows, settle, Home},
};
use duramen_api::model::CreateBranch;
use serde_json::json;
use std::process::Command;

/// Of every table some rows are kept, for reasons of every kind; the others bear the mark.
const SCHEMA: &str = "
create table countries (code char(2) primary key, name text);;
insert into countries values ('CH', 'kept'), ('DE', 'MARK country');;
create table customers (id int primary key, name text, country char(2) references countries, referred_by int references customers);;
insert into customers select n, case when n in (7, 8, 9) then 'kept' else 'MARK ' || n end, case when n in (7, 8, 9) then 'CH' else 'DE' end,
  case n when 7 then 8 when 9 then 7 when 8 then null else 10 end from generate_series(1, 200) n;;
create table shops (id int primary key, name text, boss int);;
create table staff (id int primary key, name text, shop int not null references shops);;
alter table shops add foreign key (boss) references staff;;
insert into shops values (1, 'kept', null), (2, 'MARK shop', null);;
insert into staff values (1, 'kept', 1), (2, 'MARK staff', 2), (3, 'MARK of a kept shop', 1);; update shops set boss = id;;
create table orders (customer int references customers, number int, shop int references shops, what text, primary key (customer, number))
  partition by hash (customer, number);;
create table orders_0 partition of orders for values with (modulus 2, remainder 0);;
create table orders_1 partition of orders for values with (modulus 2, remainder 1);;
insert into orders select c, n, case when c in (7, 9) then 1 else 2 end, case when c in (7, 9) then 'kept' else 'MARK order' end
  from generate_series(1, 200) c, generate_series(1, 3) n;;
create table items (id int primary key, customer int, number int, product text, foreign key (customer, number) references orders);;
insert into items select c * 10 + n, c, n, case when c in (7, 9) then 'kept' else 'MARK item' end from generate_series(1, 200) c, generate_series(1, 3) n;;
insert into items values (1, null, null, 'MARK of no order'), (2, 7, null, 'MARK of half an order');;
create table loose (id int primary key, parent int references loose, text text);;
insert into loose select n, nullif(n - 1, 0), 'all of it' from generate_series(1, 50) n;;
create table settings (name text primary key, value text);; insert into settings values ('a', 'all of it');;
create table calendars (id int primary key, country char(2) references countries);; insert into calendars values (1, 'DE'), (2, 'CH');;
update countries set name = 'kept for calendars' where code = 'DE';;
";

/// V4 and B37.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_subset_nothing_else_is_left() {
    let mut home = Home::new();
    home.options.volume_size = Some(1024 << 20);
    let engine = home.open().await;
    for major in majors() {
        let origin = Secretive::start(&home, major).await;
        origin.run("shop", SCHEMA).await;
        let name = format!("of{major}");
        let wanted = rules(
            r#"{"subset": {"table": "public.customers", "where": "customers.id = 7 -- the one", "keep": ["public.calendars"]}}"#,
        );
        let view = add(&engine, &name, origin.origin(), wanted)
            .await
            .unwrap_or_else(|error| panic!("{major}: {error}"));
        let said = |object: &str, action: &str| {
            view.sanitised.iter().any(|it| it.object == object && it.action.contains(action))
        };
        assert!(said("public.customers", "197 removed, 3 kept"), "{:?}", view.sanitised);
        assert!(said("public.settings", "all kept"), "{:?}", view.sanitised);
        settle(&engine).await;
        let request =
            CreateBranch { source: Some(name.clone()), name: Some(name.clone()), ..CreateBranch::default() };
        engine.create(request).await.expect("a lease");
        for (sql, expected) in [
            // 7, whom 8 referred, and 9, whom 7 did; nobody else.
            ("select count(*), count(*) filter (where name = 'kept') from customers", json!([[3, 3]])),
            ("select count(*) from customers c join customers r on r.id = c.referred_by", json!([[2]])),
            ("select count(*), count(*) filter (where what = 'kept') from orders", json!([[6, 6]])),
            ("select count(*) from orders o join customers c on c.id = o.customer", json!([[6]])),
            ("select count(*) from items i join orders o using (customer, number)", json!([[6]])),
            ("select count(*) from items", json!([[6]])),
            // A shop is kept because it is referred to, and its boss; not all who work there.
            ("select count(*), (select count(*) from staff) from shops", json!([[1, 1]])),
            ("select count(*) from calendars", json!([[2]])),
            ("select count(*) from countries", json!([[2]])),
            ("select count(*), (select count(*) from settings) from loose", json!([[50, 1]])),
            ("select count(*) from pg_constraint where contype = 'f' and not convalidated", json!([[0]])),
        ] {
            assert_eq!(rows(&engine, &name, sql).await, expected, "{sql} of PostgreSQL {major}");
        }
        query(&engine, &name, "insert into orders values (1, 1, 1, 'x')").await.expect_err("a foreign key");
        let flushed = Command::new("sync").arg("-f").arg(home.path().join("volumes")).status();
        assert!(flushed.expect("sync runs").success());
        assert_eq!(marked(home.path()), Vec::<String>::new(), "PostgreSQL {major}");
    }
    engine.close().await.expect("close");
}

/// B38: a share is of the same rows after a refresh, and about as large as was asked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_share_is_of_the_same_rows_each_time() {
    let home = Home::new();
    let engine = home.open().await;
    let origin = Secretive::start(&home, majors()[0]).await;
    origin
        .run(
            "shop",
            "create table people (id int primary key, name text);;
             insert into people select n, 'n' from generate_series(1, 20000) n;;
             create table visits (person int references people, at int);;
             insert into visits select n % 20000 + 1, n from generate_series(1, 40000) n;;",
        )
        .await;
    let wanted = rules(r#"{"subset": {"table": "public.people", "percent": 2.5}}"#);
    add(&engine, "app", origin.origin(), wanted).await.unwrap_or_else(|error| panic!("{error}"));
    settle(&engine).await;
    let sql = "select count(*), md5(string_agg(id::text, ',' order by id)), (select count(*) from visits) from people";
    let create = |name: &str| CreateBranch { name: Some(name.to_owned()), ..CreateBranch::default() };
    engine.create(create("one")).await.expect("a lease");
    let first = rows(&engine, "one", sql).await;
    let count = first[0][0].as_i64().expect("a count");
    assert!((400..=600).contains(&count), "2.5 % of 20,000 are {count}");
    assert_eq!(first[0][2].as_i64(), Some(2 * count), "each has two visits");
    origin.run("shop", "update people set name = 'other' where id % 2 = 0;; vacuum full people").await;
    engine.refresh_source("app", |_, _| {}).await.unwrap_or_else(|error| panic!("{error}"));
    settle(&engine).await;
    engine.create(create("two")).await.expect("a lease");
    assert_eq!(rows(&engine, "two", sql).await, first);
    engine.close().await.expect("close");
}
