//! Evidence for the write of a branch: one table, in the source and in the branch, before and after.

use crate::{
    origin::{import, OtherServer},
    support::{lease, majors, query, settle, Home},
};
use duramen_api::model::Policy;
use std::sync::Arc;

/// B49: what evidence says of a table is what is in it, in the source and in the branch, whoever owns it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_is_seen_in_the_branch_and_not_in_the_source() {
    let home = Home::new();
    let engine = home.open().await;
    for major in majors() {
        let origin = OtherServer::start(&home, major).await;
        origin
            .run(
                "shop",
                "create table orders (id int primary key, note text);; insert into orders select n, 'n' from generate_series(1, 100) n;;
                 create schema \"odd.schema\";; create table \"odd.schema\".\"T\" (x int);; create table gone (x int);;
                 create table parted (x int) partition by range (x);; create table part partition of parted default;;
                 insert into parted values (1);; alter table orders enable row level security",
            )
            .await;
        let source = format!("shop-{major}");
        import(&engine, &source, origin.running(), &[Policy::Ddl]).await.expect("the import");
        settle(&engine).await;
        lease(&engine, "one", Policy::Ddl).await;
        let look = |table: &'static str| {
            let engine = Arc::clone(&engine);
            async move {
                engine.evidence_with("one", Some(table)).await.map(|found| found.table.expect("the table"))
            }
        };

        let before = look("public.orders").await.expect("evidence");
        assert_eq!(before.name, "shop.public.orders");
        assert_eq!(before.source_at_import.as_ref().map(|content| content.count), Some(100), "{major}");
        assert_eq!(before.branch_now, before.source_at_import, "a fresh branch has the rows of the source");
        assert_eq!((before.source_unchanged, before.branch_differs), (Some(true), Some(false)), "{before:?}");

        query(&engine, "one", "delete from orders where id > 40").await.expect("a write");
        let found = engine.evidence_with("one", Some("shop.public.orders")).await.expect("evidence");
        assert!(found.source.unchanged, "{major}: {:?}", found.source);
        let after = found.table.expect("the table");
        assert_eq!(after.source_now, before.source_at_import, "{major}");
        assert_eq!(after.branch_now.as_ref().map(|content| content.count), Some(40), "{major}");
        assert_eq!((after.source_unchanged, after.branch_differs), (Some(true), Some(true)), "{after:?}");
        let earlier: Vec<_> =
            found.events.iter().filter(|event| event["event"] == "table_compared").collect();
        assert_eq!(earlier.len(), 2, "{:?}", found.events);
        assert_eq!(earlier[0]["table"]["branch_now"]["count"], 100, "what was before the write is kept");

        // A change of the same number of rows, and one of the source.
        engine.reset("one").await.expect("a reset");
        query(&engine, "one", "update orders set note = 'm' where id = 7").await.expect("a write");
        let found = look("public.orders").await.expect("evidence");
        assert_eq!((found.source_unchanged, found.branch_differs), (Some(true), Some(true)), "{found:?}");
        origin.run("shop", "update orders set note = 'by others' where id = 8").await;
        let found = look("public.orders").await.expect("evidence");
        assert_eq!(found.source_unchanged, Some(false), "{found:?}");

        // What a holder makes of a table runs nothing as the administrator.
        let trap = "create function trap(text) returns text immutable language plpgsql as \
                    $$ begin if (select rolsuper from pg_roles where rolname = current_user) then \
                    execute 'alter role duramen_ddl superuser'; end if; return $1; end $$";
        query(&engine, "one", trap).await.expect("a function");
        for sql in [
            "create index on orders (trap(note))",
            "alter table orders add column more text generated always as (trap(note)) stored",
            "create policy p on orders using (trap(note) = '')",
            "alter database shop set search_path = 'public, pg_catalog'",
        ] {
            // The database itself belongs to nobody who holds a branch.
            let done = query(&engine, "one", sql).await;
            assert!(done.is_ok() || sql.starts_with("alter database"), "{major}: {sql}: {done:?}");
        }
        assert_eq!(
            look("public.orders").await.expect("evidence").branch_now.map(|content| content.count),
            Some(100)
        );
        let error = query(&engine, "one", "create role intruder superuser").await.expect_err("no superuser");
        assert_eq!(error.sqlstate.as_deref(), Some("42501"), "{error}");

        let odd = look("\"odd.schema\".T").await.expect("evidence");
        assert_eq!(odd.branch_now.map(|content| content.count), Some(0));
        query(&engine, "one", "drop table gone").await.expect("DDL");
        let gone = look("public.gone").await.expect("evidence");
        assert_eq!((gone.branch_now, gone.branch_differs), (None, None));
        assert!(gone.not_read.is_some_and(|why| why.contains("no such table")));
        assert_eq!(gone.source_unchanged, Some(true));
        for name in ["public.nowhere", "public.parted", "orders", ""] {
            let error = look(name).await.expect_err(name);
            assert_eq!(error.code, "unknown_table", "{name}: {error}");
        }
        assert_eq!(
            look("public.part").await.expect("evidence").branch_now.map(|content| content.count),
            Some(1)
        );
        engine.destroy("one").expect("destroy");
        settle(&engine).await;
        engine.remove_source(&source).await.expect("the source is forgotten");
    }
    engine.close().await.expect("close");
}
