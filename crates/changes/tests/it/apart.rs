//! Snapshots that were made apart: X12.

use crate::world::World;
use duramen_changes::{Compared, Part};
use duramen_postgres::volume::Choice;

/// A transaction that was under way when the first was made, and was committed before the second: none of its blocks was written in
/// between, and its rows count in the second alone. Nothing was frozen since.
#[tokio::test(flavor = "multi_thread")]
async fn what_became_of_a_transaction_since_is_found_although_no_block_was_written() {
    for choice in [Choice::Btrfs, Choice::Reflink] {
        let setup = "create table t (id int primary key, v text); insert into t select i, 'v' || i from generate_series(1, 20000) i";
        let world = World::new(choice, setup).await;
        let (client, open) = (world.branch.client().await, world.branch.client().await);
        open.batch_execute(
            "set synchronous_commit = on; begin; insert into public.t values (30001, 'come'); \
             delete from public.t where id = 7; update public.t set v = 'changed' where id = 9",
        )
        .await
        .unwrap();
        client.batch_execute("checkpoint").await.unwrap();
        let first = world.copy("first");
        open.batch_execute("commit").await.unwrap();
        client.batch_execute("checkpoint").await.unwrap();
        let second = world.copy("second");
        let (parts, summary) = World::compare_apart(&first, &second).await;
        let rows = summary.rows;
        assert_eq!((rows.added, rows.removed, rows.changed), (1, 1, 1), "{choice:?}: {parts:?}");
        let Part::Table(table) = &parts[0] else { panic!("{parts:?}") };
        let Compared::Blocks { changed, of } = table.compared else { panic!("{table:?}") };
        assert!(changed <= 4 && of > 100, "{changed} of {of}");
    }
}
