//! Merging three ways: invariants M1 to M8 of docs/design/merging.md. What both sides do at random is in `merge_model`.

use crate::support::{differences, parts, run, text, write, Server};
use duramen_carry::{
    ApplyError, ApplyOptions, ChangeSet, Definitions, Equal, MergeOptions, MergeOutcome, Merged, Reason,
    Strategy, Taken, Triggers,
};

/// A base, a child in which something was done, and a parent in which something else was.
async fn sides(server: &Server, script: &str, child: &str, parent: &str) -> (ChangeSet, String) {
    let [base, branch, target] = server.three(script, &[child]).await;
    run(&server.connect(&target).await, parent).await;
    (server.change_set(&base, &branch).await, target)
}

fn with(strategy: Strategy) -> MergeOptions {
    MergeOptions { strategy, ..MergeOptions::default() }
}

fn reasons(merged: &Merged) -> Vec<Reason> {
    merged.conflicts.iter().map(|it| it.reason).collect()
}

const STOCK: &str =
    "create table item (id int primary key, stock int, name text); insert into item values (1, 10, 'bolt'), (2, 10, 'nut')";

/// Both sides sell one of ten.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m3_equal_changes_are_a_conflict_unless_somebody_says_that_they_agree() {
    let server = Server::start();
    let sold = "update item set stock = stock - 1 where id = 1";
    let (set, parent) = sides(&server, STOCK, sold, sold).await;
    let merged = server.merge(&set, &parent, &with(Strategy::Fail)).await.unwrap();
    assert_eq!(merged.outcome, MergeOutcome::Conflicts);
    assert_eq!(
        merged.conflicts[0].to_string(),
        "public.item [id '1']: stock was '10', and both sides made it '9'"
    );
    let agree = MergeOptions { equal: Equal::Agree, ..MergeOptions::default() };
    let merged = server.merge(&set, &parent, &agree).await.unwrap();
    assert!(matches!(merged.outcome, MergeOutcome::Merged(_)) && merged.conflicts.is_empty(), "{merged:?}");
    assert_eq!(text(&server.connect(&parent).await, "select stock::text from item where id = 1").await, "9");
}

/// M2, M3: strategies, and what they say.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m3_a_strategy_takes_one_side_of_conflicts_and_both_sides_of_the_rest() {
    let server = Server::start();
    let child =
        "update item set stock = 7, name = 'child' where id = 1; update item set stock = 5 where id = 2; \
                 insert into item values (3, 1, 'child')";
    let parent = "update item set stock = 8 where id = 1; delete from item where id = 2; insert into item values (3, 2, 'parent')";
    for (strategy, rows, taken) in [
        (Strategy::Ours, "1:8:child,3:2:parent", Taken::Ours),
        (Strategy::Theirs, "1:7:child,2:5:nut,3:1:child", Taken::Theirs),
    ] {
        let (set, target) = sides(&server, STOCK, child, parent).await;
        let failed = server.merge(&set, &target, &with(Strategy::Fail)).await.unwrap();
        assert_eq!(failed.outcome, MergeOutcome::Conflicts);
        assert_eq!(reasons(&failed), [Reason::Changed, Reason::DeletedByParent, Reason::Inserted]);
        let all = "select string_agg(concat_ws(':', id, stock, name), ',' order by id) from item";
        let client = server.connect(&target).await;
        assert_eq!(text(&client, all).await, "1:8:bolt,3:2:parent", "nothing was written");
        let merged = server.merge(&set, &target, &with(strategy)).await.unwrap();
        assert!(matches!(merged.outcome, MergeOutcome::Merged(_)), "{merged:?}");
        assert_eq!(reasons(&merged), reasons(&failed));
        assert!(merged.conflicts.iter().all(|it| it.taken == Some(taken)));
        assert_eq!(text(&client, all).await, rows);
    }
}

const RELATED: &str = "
create table customer (id int primary key, name text unique);
create table orders (id int primary key, customer int references customer on delete cascade, total int check (total < 100), extra int,
  check (total + extra < 150));
create table strict (id int primary key, a text);
insert into customer values (1, 'ann'), (2, 'bob'); insert into orders values (1, 1, 10, 10); insert into strict values (1, 'x')";

/// Neither side violates anything; both together do. No strategy answers it, and nothing is written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m1_constraints_that_the_combination_violates_are_conflicts() {
    let server = Server::start();
    let cases = [
        (
            "insert into customer values (3, 'eve')",
            "insert into customer values (4, 'eve')",
            "customer_name_key",
            "customer",
        ),
        (
            "insert into orders values (2, 2, 5, 5)",
            "delete from customer where id = 2",
            "orders_customer_fkey",
            "orders",
        ),
        (
            "update orders set total = 90 where id = 1",
            "update orders set extra = 90 where id = 1",
            "orders_check",
            "orders",
        ),
        (
            "insert into strict values (2, null)",
            "alter table strict alter a set not null",
            "null value in column \"a\"",
            "strict",
        ),
        (
            "alter table strict add constraint unique_a unique (a)",
            "insert into strict values (7, 'x')",
            "could not create unique index",
            "strict",
        ),
    ];
    for (child, parent, said, table) in cases {
        let (set, target) = sides(&server, RELATED, child, parent).await;
        let before = server.copy(&target).await;
        for strategy in [Strategy::Fail, Strategy::Ours, Strategy::Theirs] {
            let merged = server.merge(&set, &target, &with(strategy)).await.unwrap();
            assert_eq!(merged.outcome, MergeOutcome::Conflicts, "{child}: {merged:?}");
            assert_eq!(reasons(&merged), [Reason::Constraint], "{child}");
            let conflict = &merged.conflicts[0];
            assert!(conflict.to_string().contains(said), "{child}: {conflict}");
            assert_eq!((conflict.schema.as_str(), conflict.table.as_str()), ("public", table), "{child}");
        }
        assert_eq!(differences(&server, &before, &target).await, [""; 0], "{child}: something was written");
    }
    // Rows that the child does not know would go with what it deleted.
    let (set, target) = sides(
        &server,
        RELATED,
        "delete from customer where id = 2",
        "insert into orders values (5, 2, 1, 1)",
    )
    .await;
    let merged = server.merge(&set, &target, &with(Strategy::Theirs)).await.unwrap();
    assert_eq!((reasons(&merged), merged.outcome), (vec![Reason::Structure], MergeOutcome::Conflicts));
    assert!(merged.conflicts[0].to_string().contains("1 rows of public.orders"), "{}", merged.conflicts[0]);
    // Conflicts of rows and of constraints are told at once.
    let child = "update strict set a = 'c' where id = 1; insert into customer values (3, 'eve')";
    let parent = "update strict set a = 'p' where id = 1; insert into customer values (4, 'eve')";
    let (set, target) = sides(&server, RELATED, child, parent).await;
    let merged = server.merge(&set, &target, &with(Strategy::Fail)).await.unwrap();
    assert_eq!(reasons(&merged), [Reason::Changed, Reason::Constraint]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m4_a_merge_is_done_once_and_a_changed_child_is_refused() {
    let server = Server::start();
    let [base, branch, target] = server.three(STOCK, &["update item set stock = 9 where id = 1"]).await;
    let set = server.change_set(&base, &branch).await;
    let before = server.copy(&target).await;
    let dry = MergeOptions {
        apply: ApplyOptions { dry_run: true, ..ApplyOptions::default() },
        ..MergeOptions::default()
    };
    let merged = server.merge(&set, &target, &dry).await.unwrap();
    assert!(
        matches!(merged.outcome, MergeOutcome::WouldMerge(_)) && merged.tables[0].updated == 1,
        "{merged:?}"
    );
    assert_eq!(differences(&server, &before, &target).await, [""; 0]);
    let fail = with(Strategy::Fail);
    let (one, other) = tokio::join!(server.merge(&set, &target, &fail), server.merge(&set, &target, &fail));
    let outcomes = [one.unwrap().outcome, other.unwrap().outcome];
    let done = outcomes.iter().filter(|it| matches!(it, MergeOutcome::Merged(_))).count();
    let told = outcomes.iter().filter(|it| matches!(it, MergeOutcome::AlreadyMerged(_))).count();
    assert_eq!((done, told), (1, 1), "{outcomes:?}");
    // The file is another one, made later of the same.
    let again = server.change_set(&base, &branch).await;
    assert_ne!(again.digest(), set.digest());
    let told = server.merge(&again, &target, &with(Strategy::Fail)).await.unwrap();
    assert!(matches!(told.outcome, MergeOutcome::AlreadyMerged(_)));
    run(&server.connect(&branch).await, "update item set stock = 3 where id = 2").await;
    let later = server.change_set(&base, &branch).await;
    let refused = server.merge(&later, &target, &with(Strategy::Theirs)).await.unwrap_err();
    assert!(matches!(&refused, ApplyError::MergedBefore { branch, .. } if branch == "try"), "{refused}");
    assert_eq!(text(&server.connect(&target).await, "select stock::text from item where id = 2").await, "10");
}

/// The child's definitions come in the same transaction, or are there already.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m2_definitions_of_the_child_come_with_its_rows() {
    let server = Server::start();
    let define = "alter table item add column kind text; alter table item add column size text default 'm'; \
                  create table fresh (id int primary key, v text)";
    let child = format!(
        "{define}; update item set kind = 'k', stock = 9 where id = 1; update item set size = 'l' where id = 2; insert into fresh values (1, 'f')"
    );
    let (set, target) = sides(&server, STOCK, &child, "update item set name = 'parent' where id = 1").await;
    let merged = server.merge(&set, &target, &with(Strategy::Fail)).await.unwrap();
    assert!(matches!(merged.outcome, MergeOutcome::Merged(_)), "{merged:?}");
    let client = server.connect(&target).await;
    let all = "select string_agg(concat_ws(':', id, stock, name, kind, size), ',' order by id) from item";
    assert_eq!(text(&client, all).await, "1:9:parent:k:m,2:10:nut:l");
    assert_eq!(text(&client, "select v from fresh").await, "f");

    let parent = format!("{define}; update item set name = 'parent', kind = 'k' where id = 1; insert into fresh values (2, 'p')");
    let (set, target) = sides(&server, STOCK, &child, &parent).await;
    let same = MergeOptions { definitions: Definitions::Same, ..MergeOptions::default() };
    let merged = server.merge(&set, &target, &same).await.unwrap();
    // Nobody knows whether the parent left its default, or wrote it.
    assert_eq!(reasons(&merged), [Reason::Changed], "{:?}", merged.conflicts);
    assert_eq!(merged.conflicts[0].columns[0].column, "size");
    let theirs = MergeOptions { strategy: Strategy::Theirs, ..same };
    let merged = server.merge(&set, &target, &theirs).await.unwrap();
    assert!(matches!(merged.outcome, MergeOutcome::Merged(_)), "{merged:?}");
    let client = server.connect(&target).await;
    assert_eq!(text(&client, all).await, "1:9:parent:k:m,2:10:nut:l");
    assert_eq!(text(&client, "select string_agg(v, ',' order by id) from fresh").await, "f,p");
}

/// What the parent took away is in the way, whatever the strategy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m3_tables_and_columns_that_have_gone_are_conflicts() {
    let server = Server::start();
    for parent in
        ["drop table item", "alter table item drop column name", "alter table item alter stock type bigint"]
    {
        let (set, target) = sides(&server, STOCK, "update item set stock = 1", parent).await;
        let merged = server.merge(&set, &target, &with(Strategy::Theirs)).await.unwrap();
        assert_eq!(merged.outcome, MergeOutcome::Conflicts, "{parent}");
        assert_eq!(reasons(&merged), [Reason::Structure], "{parent}");
    }
    let (set, target) =
        sides(&server, STOCK, "drop table item", "update item set stock = 1 where id = 1").await;
    let merged = server.merge(&set, &target, &with(Strategy::Theirs)).await.unwrap();
    assert_eq!(merged.outcome, MergeOutcome::Conflicts, "a dropped table takes nobody's rows along");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m8_sequences_never_give_a_value_that_a_merged_row_has() {
    let server = Server::start();
    let script = "create table s (id serial primary key, v text); create table i (id bigint generated always as identity primary key, v text);
      create sequence down increment -1; create table d (id int primary key default nextval('down'), v text);
      create table p (id int generated by default as identity, v text, primary key (id)) partition by range (id);
      create table p1 partition of p for values from (1) to (1000);
      create table huge (id serial primary key); insert into s (v) values ('a'); insert into i (v) values ('a')";
    // Drawn, and written by hand beyond what the sequences know.
    let child = "insert into s (v) select 'c' from generate_series(1, 5); insert into s values (50, 'hand'); \
      insert into i overriding system value values (70, 'hand'); insert into d values (-9, 'hand'); insert into p values (33, 'hand'); \
      insert into huge values (2147483647)";
    let (set, target) = sides(&server, script, child, "select 1").await;
    let client = server.connect(&target).await;
    let dry = MergeOptions {
        apply: ApplyOptions { dry_run: true, ..ApplyOptions::default() },
        ..MergeOptions::default()
    };
    server.merge(&set, &target, &dry).await.unwrap();
    assert_eq!(
        text(&client, "select last_value::text from s_id_seq").await,
        "1",
        "a dry run moved a sequence"
    );
    server.merge(&set, &target, &with(Strategy::Fail)).await.unwrap();
    for (table, next) in [("s", "51"), ("i", "71"), ("d", "-10"), ("p", "34"), ("huge", "1")] {
        let insert = match table {
            "huge" => "insert into huge default values returning id::text".to_owned(),
            _ => format!("insert into {table} (v) values ('next') returning id::text"),
        };
        assert_eq!(text(&client, &insert).await, next, "{table}");
    }
    // A parent that is further stays so.
    let (set, target) =
        sides(&server, script, "insert into s (v) values ('c')", "select setval('s_id_seq', 500)").await;
    server.merge(&set, &target, &with(Strategy::Fail)).await.unwrap();
    assert_eq!(text(&server.connect(&target).await, "select nextval('s_id_seq')::text").await, "501");
}

/// A merge that fails at a trigger of the parent's leaves nothing; with `off`, rows are as the child had them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m6_triggers_of_the_parent_are_asked_about() {
    let server = Server::start();
    let script = format!(
        "{STOCK}; create function loud() returns trigger language plpgsql as $$ begin new.name := current_user; return new; end $$; \
         create trigger loud before update on item for each row execute function loud(); alter table item disable trigger loud"
    );
    let (set, target) =
        sides(&server, &script, "update item set stock = 1", "alter table item enable trigger loud").await;
    let refused = server.merge(&set, &target, &with(Strategy::Fail)).await.unwrap_err();
    assert!(matches!(refused, ApplyError::Triggers { .. }), "{refused}");
    let off = MergeOptions {
        apply: ApplyOptions { triggers: Triggers::Off, ..ApplyOptions::default() },
        ..MergeOptions::default()
    };
    server.merge(&set, &target, &off).await.unwrap();
    assert_eq!(
        text(&server.connect(&target).await, "select string_agg(name, ',') from item").await,
        "bolt,nut"
    );
}

/// Names and values that would be SQL, and a row that is too large to be read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m9_hostile_names_and_rows_of_the_parent_end_the_merge_in_order() {
    let server = Server::start();
    let script = r#"create table "od""d; --" ("k ' k" text primary key, "x"" = 1; --" text); insert into "od""d; --" values ($$'); drop table t; --$$, 'a')"#;
    let child = r#"update "od""d; --" set "x"" = 1; --" = $$b'; select 1; --$$"#;
    let (set, target) = sides(&server, script, child, r#"update "od""d; --" set "x"" = 1; --" = 'p'"#).await;
    let merged = server.merge(&set, &target, &with(Strategy::Theirs)).await.unwrap();
    assert!(matches!(merged.outcome, MergeOutcome::Merged(_)), "{merged:?}");
    let found = text(&server.connect(&target).await, r#"select "x"" = 1; --" from "od""d; --""#).await;
    assert_eq!(found, "b'; select 1; --");
    let (set, target) =
        sides(&server, STOCK, "update item set stock = 1", "update item set name = repeat(md5('x'), 600000)")
            .await;
    let refused = server.merge(&set, &target, &with(Strategy::Fail)).await.unwrap_err();
    assert!(refused.to_string().contains("of the parent cannot go into a change set"), "{refused}");
    // Many conflicts: a hundred are listed, and none is written over.
    let many = "create table t (id int primary key, v text); insert into t select i, 'b' from generate_series(1, 300) i";
    let (set, target) = sides(&server, many, "update t set v = 'c'", "update t set v = 'p'").await;
    let merged = server.merge(&set, &target, &with(Strategy::Fail)).await.unwrap();
    assert_eq!((merged.conflicts.len(), merged.more), (100, true));
    let merged = server.merge(&set, &target, &with(Strategy::Theirs)).await.unwrap();
    assert_eq!((merged.conflicts.len(), merged.more, merged.tables[0].updated), (100, true, 300));
    // A set whose rows are not told apart by their key.
    let (base, branch) = (server.database(many).await, server.database(many).await);
    let (old, new) = (server.connect(&base).await, server.connect(&branch).await);
    run(&new, "update t set v = 'c' where id = 1").await;
    let told = parts(&old, &new).await;
    let path = server.files.path().join("plain.dpack");
    write(&path, &[], &told);
    let set = ChangeSet::open(&path).unwrap();
    let merged = server.merge(&set, &base, &with(Strategy::Fail)).await.unwrap();
    assert!(matches!(merged.outcome, MergeOutcome::Merged(_)));
}
