//! Schemas of branches are compared through the daemon: with what they were made of, and with each other.

use crate::support::{add_script, connect, create, query, settle, wire, Home};
use duramen_api::model::{CreateBranch, Policy};
use serde_json::Value;

const SCRIPT: &str = "
  create type state as enum ('new', 'done');
  create table customer (id bigserial primary key, name varchar(40) not null);
  create table orders (id bigserial primary key, customer bigint references customer, state state default 'new', total int);
  create view open_orders as select id, total from orders where state = 'new';
  insert into customer (name) values ('a'); insert into orders (customer, total) values (1, 5);";

/// As somebody who works on the schema would.
const WORK: &[&str] = &[
    "alter type state add value 'paid' after 'new'",
    "drop view open_orders",
    "alter table orders alter total type bigint",
    "create view open_orders as select id, total from orders where state = 'new'",
    "alter table customer add column mail text default 'none' not null",
    "create index on orders (customer)",
    "create table invoice (id int generated always as identity primary key, orders bigint not null references orders)",
    "create function doubled(int) returns int language sql as 'select $1 * 2'",
    "comment on table invoice is 'what is to be paid'",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schemas_of_branches_are_compared() {
    let home = Home::new();
    let daemon = home.serve().await;
    let mut connection = connect(&daemon).await;
    add_script(&home, &mut connection, SCRIPT, 1, 0).await;
    for name in ["work", "clean"] {
        let wanted = CreateBranch {
            name: Some(name.to_owned()),
            policy: Some(Policy::Ddl),
            ..CreateBranch::default()
        };
        connection.create_branch(&wanted).await.unwrap();
    }
    let same = connection.schema_diff("work", None).await.unwrap();
    assert_eq!((same.changes.len(), same.ddl.len(), same.script.as_str()), (0, 0, ""), "{same:?}");
    assert!(same.from.starts_with("source ") && same.to == "branch work", "{same:?}");

    for statement in WORK {
        query(&mut connection, "work", statement).await.unwrap();
    }
    let diff = connection.schema_diff("work", None).await.unwrap();
    let has = |how: &str, name: &str| {
        diff.changes.iter().any(|it| (it.how.as_str(), it.name.as_str()) == (how, name))
    };
    assert!(has("added", "public.invoice") && has("changed", "public.state"), "{}", diff.text);
    assert!(has("changed", "public.orders.total") && has("added", "public.customer.mail"), "{}", diff.text);
    assert!(!has("added", "public.invoice.orders"), "it comes with its table");
    assert!(diff
        .warnings
        .iter()
        .any(|it| (it.risk.as_str(), it.name.as_str()) == ("rewrite", "public.orders.total")));

    // What is written makes a branch of before what the other is, with the rights of who changes schemas there.
    let clean = connection.branch("clean").await.unwrap();
    let client = wire(&clean.url).await;
    client.batch_execute(&diff.script).await.unwrap();
    let left = connection.schema_diff("work", Some("clean")).await.unwrap();
    assert_eq!((left.text.as_str(), left.from.as_str()), ("", "branch clean"));
    let rows: i64 =
        client.query_one("select count(*) from orders where total = 5", &[]).await.unwrap().get(0);
    assert_eq!(rows, 1, "rows stay");

    // A branch of a branch is compared with what that was.
    let wanted = CreateBranch {
        name: Some("child".to_owned()),
        from: Some("work".to_owned()),
        ..CreateBranch::default()
    };
    connection.create_branch(&wanted).await.unwrap();
    query(&mut connection, "work", "create table later (id int)").await.unwrap();
    query(&mut connection, "child", "drop table invoice").await.unwrap();
    let of_child = connection.schema_diff("child", None).await.unwrap();
    let names: Vec<(&str, &str)> =
        of_child.changes.iter().map(|it| (it.how.as_str(), it.name.as_str())).collect();
    assert_eq!(names, [("removed", "public.invoice")]);
    assert!(of_child.from.starts_with("branch work, as it was"), "{}", of_child.from);

    // The command prints each form.
    let printed = |arguments: &[&str]| {
        let output = home.run(&[&["branch", "diff", "work", "--schema"], arguments].concat());
        assert!(output.status.success(), "{}", crate::support::text(&output.stderr));
        crate::support::text(&output.stdout)
    };
    assert!(printed(&["--against", "clean"]).contains("+ table public.later"));
    assert!(printed(&["--format", "ddl"]).contains("begin;\n"));
    let json: Value = serde_json::from_str(&printed(&["--format", "json"])).unwrap();
    assert_eq!(json["to"], "branch work");

    let refused = connection.schema_diff("work", Some("nobody")).await.unwrap_err();
    assert_eq!(refused.code(), Some("not_found"), "{refused}");
    // The servers on what branches were made of are gone.
    let status = settle(&mut connection).await;
    assert_eq!(status.leases, 3, "{status:?}");
    let _ = create(&mut connection, "last").await.unwrap();
    daemon.stop().await.unwrap();
}
