//! What holders wrote does not run with our rights when rows are read.

use crate::world::World;
use duramen_changes::{Compared, Part};
use duramen_postgres::volume::Choice;

const SETUP: &str = "
create role holder login;
grant create on schema public to holder;
set role holder;
create table goods (id int primary key, v text);
insert into goods select i, 'v' || i from generate_series(1, 2000) i;
reset role;
";

/// It would make its owner a superuser, if it ran as one.
const TRAP: &str = "
create function public.trap() returns int language plpgsql immutable as $$
begin
  if current_user = 'admin' then
    perform pg_catalog.set_config('role', 'none', false);
    execute 'alter role holder superuser';
  end if;
  return 1;
end $$;
";

async fn holder_is_ordinary(world: &World) {
    let client = world.branch.client().await;
    let row = client.query_one("select rolsuper from pg_roles where rolname = 'holder'", &[]).await.unwrap();
    assert!(!row.get::<_, bool>(0), "code of the holder's ran as a superuser");
}

async fn compared(world: &World) -> Compared {
    let (parts, summary) = world.compare(&[], 1000).await.unwrap();
    assert_eq!(summary.rows.changed, 1, "{parts:?}");
    let Some(Part::Table(table)) = parts.into_iter().next() else { panic!("no table") };
    table.compared
}

#[tokio::test(flavor = "multi_thread")]
async fn expressions_of_indexes_and_statistics_are_not_evaluated() {
    for trap in [
        "create index on public.goods ((id + public.trap()))",
        "create index on public.goods (id) where id > public.trap()",
        "create statistics public.s on (id + public.trap()), id from public.goods",
    ] {
        let world = World::new(Choice::Btrfs, SETUP).await;
        let client = world.branch.client().await;
        let make = format!(
            "set role holder; {TRAP}; {trap}; update public.goods set v = 'x' where id = 5; reset role"
        );
        client.batch_execute(&make).await.unwrap();
        // With the trap laid, a plain `SELECT` of a superuser's falls into it: else this would prove nothing.
        assert!(matches!(compared(&world).await, Compared::Full { .. }), "{trap}");
        holder_is_ordinary(&world).await;
        let fell = client
            .batch_execute("set row_security = off; explain select id from public.goods where id = 3")
            .await;
        let fell = fell.is_err() || {
            let row = client
                .query_one("select rolsuper from pg_roles where rolname = 'holder'", &[])
                .await
                .unwrap();
            row.get(0)
        };
        assert!(fell, "{trap}: this trap does not work");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn search_paths_policies_domains_casts_and_operators_of_the_holder_do_nothing() {
    let world = World::new(Choice::Btrfs, SETUP).await;
    let client = world.branch.client().await;
    client
        .batch_execute(&format!(
            "set role holder; {TRAP};
             create function public.bad(tid, tid) returns bool language sql immutable as 'select public.trap() = 2';
             create operator public.>= (leftarg = tid, rightarg = tid, function = public.bad);
             create domain public.d as text check (public.trap() = 1);
             create type public.pair as (a int, b text);
             create function public.shown(public.pair) returns text language sql as 'select public.trap()::text';
             create cast (public.pair as text) with function public.shown(public.pair) as implicit;
             create table public.odd (id int primary key, d public.d, p public.pair);
             alter table public.goods enable row level security;
             create policy hide on public.goods using (public.trap() = 2);
             update public.goods set v = 'x' where id = 5;
             reset role; alter database postgres set search_path = public, pg_catalog"
        ))
        .await
        .unwrap();
    assert!(matches!(compared(&world).await, Compared::Blocks { .. }));
    holder_is_ordinary(&world).await;
}
