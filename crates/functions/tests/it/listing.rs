//! `df.list_instances`: pages that are complete, in order, and say no more than they know.

use crate::common;
use crate::common::{one, refusal, rows, Database};
use std::collections::BTreeSet;
use tokio_postgres::Client;

const STATUSES: [&str; 5] = ["pending", "running", "completed", "failed", "cancelled"];

/// Instances of two roles in all statuses, many of them started at the same microsecond, some with a label.
async fn populated(each: usize) -> (Database<'static>, Client, Client) {
    let database = common::database().await;
    let owner = database.owner().await;
    let mut clients = Vec::new();
    for name in ["alice", "bob"] {
        let role = database.role(name).await;
        let client = database.connect(&role).await;
        for label in ["'even'", "NULL"] {
            let start = format!(
                "SELECT count(*) FROM df.start_many(ARRAY(SELECT 'SELECT 1' FROM generate_series(1, {})), {label})",
                each / 2
            );
            one(&client, &start).await;
        }
        clients.push(client);
    }
    owner
        .batch_execute(
            // Times that do not follow the numbers, and repeat.
            &format!("UPDATE df._ready SET created_at = '2026-11-22 01:00:00Z'::timestamptz
                 + ((seq * 7919) % 1000) * interval '1 microsecond';
             {};
             INSERT INTO df._done (seq, submitted_by, status, started_at, output)
             SELECT seq, submitted_by, CASE seq % 10 WHEN 0 THEN 'f' WHEN 1 THEN 'x' ELSE 'c' END, now(),
                 CASE WHEN seq % 10 < 2 THEN '\"why\"' ELSE '{{\"rows\":[],\"row_count\":0}}' END::json
             FROM df._instance WHERE seq % 10 < 7;
             INSERT INTO df._work (seq, submitted_by, started_at, updated_at, execution, state)
             SELECT seq, submitted_by, now(), now(), 3, '{{\"cells\":{{}}}}' FROM df._instance WHERE seq % 10 = 7;
             ANALYZE df._instance; ANALYZE df._done; ANALYZE df._ready", common::take("seq % 10 < 8")),
        )
        .await
        .unwrap();
    let bob = clients.pop().unwrap();
    let alice = clients.pop().unwrap();
    (database, alice, bob)
}

fn quoted(value: Option<&str>) -> String {
    value.map_or_else(|| "NULL".to_owned(), |value| format!("'{value}'"))
}

/// Every page of a list: ids in the order they came.
async fn paged(client: &Client, status: Option<&str>, label: Option<&str>, page: usize) -> Vec<String> {
    let mut found = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let listed = rows(
            client,
            &format!(
                "SELECT instance_id, next_cursor, status, label FROM df.list_instances({}, {page}, {}, {})",
                quoted(status),
                quoted(label),
                quoted(cursor.as_deref())
            ),
        )
        .await;
        let next = listed.first().and_then(|row| row[1].clone());
        for row in &listed {
            assert_eq!(row[1], next, "the cursor is the same in every row");
            assert!(status.is_none() || row[2].as_deref() == status);
            assert!(label.is_none() || row[3].as_deref() == label);
            found.push(row[0].clone().unwrap());
        }
        match next {
            Some(next) => {
                assert_eq!(listed.len(), page, "only the last page is short");
                cursor = Some(next);
            }
            None => return found,
        }
    }
}

/// The same from the view, in the order that the list promises.
async fn expected(client: &Client, status: Option<&str>, label: Option<&str>) -> Vec<String> {
    let listed = rows(
        client,
        &format!(
            "SELECT id FROM df.instances WHERE status = coalesce({0}, status)
                 AND label IS NOT DISTINCT FROM coalesce({1}, label)
             ORDER BY created_at DESC, id COLLATE \"C\"",
            quoted(status),
            quoted(label)
        ),
    )
    .await;
    listed.into_iter().map(|row| row[0].clone().unwrap()).collect()
}

#[tokio::test]
async fn pages_put_together_are_the_whole_in_order() {
    let (database, alice, _bob) = populated(3000).await;
    let owner = database.owner().await;
    for client in [&alice, &owner] {
        for status in [None].into_iter().chain(STATUSES.map(Some)) {
            for label in [None, Some("even"), Some("unknown")] {
                let whole = expected(client, status, label).await;
                for page in [97, 1000] {
                    let found = paged(client, status, label, page).await;
                    assert_eq!(found.len(), whole.len(), "{status:?} {label:?} {page}");
                    assert!(found == whole, "{status:?} {label:?} {page}: another order");
                }
            }
        }
    }
    assert_eq!(expected(&alice, None, None).await.len(), 3000);
    assert_eq!(expected(&owner, None, None).await.len(), 6000);
}

#[tokio::test]
async fn a_page_that_ends_with_the_list_has_no_cursor() {
    let (_database, alice, _bob) = populated(100).await;
    assert_eq!(paged(&alice, None, None, 100).await.len(), 100);
    assert_eq!(paged(&alice, None, None, 50).await.len(), 100);
    assert_eq!(paged(&alice, None, None, 1).await.len(), 100);
    assert_eq!(paged(&alice, None, None, 101).await.len(), 100);
}

#[tokio::test]
async fn instances_that_start_and_end_in_between_shift_no_page() {
    let (database, alice, _bob) = populated(500).await;
    let before: BTreeSet<String> = expected(&alice, None, None).await.into_iter().collect();
    let first = rows(&alice, "SELECT instance_id, next_cursor FROM df.list_instances(NULL, 200, NULL)").await;
    one(&alice, "SELECT count(*) FROM df.start_many(ARRAY(SELECT 'SELECT 1' FROM generate_series(1, 50)))")
        .await;
    database
        .owner()
        .await
        .batch_execute(
            "WITH gone AS (DELETE FROM df._work RETURNING seq, submitted_by)
             INSERT INTO df._done (seq, submitted_by, status, started_at, output)
             SELECT seq, submitted_by, 'c', now(), '1' FROM gone",
        )
        .await
        .unwrap();
    let mut found: Vec<String> = first.iter().map(|row| row[0].clone().unwrap()).collect();
    let mut cursor = first[0][1].clone();
    while let Some(at) = cursor {
        let page = format!("SELECT instance_id, next_cursor FROM df.list_instances(NULL, 200, NULL, '{at}')");
        let page = rows(&alice, &page).await;
        found.extend(page.iter().map(|row| row[0].clone().unwrap()));
        cursor = page.first().and_then(|row| row[1].clone());
    }
    assert_eq!(found.len(), before.len());
    assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), before);
}

#[tokio::test]
async fn a_list_shows_what_there_is_to_know() {
    let (_database, alice, _bob) = populated(20).await;
    for (status, count, output, ended) in [
        ("pending", "1", None, false),
        ("running", "3", None, false),
        ("completed", "1", Some(r#"{"rows":[],"row_count":0}"#), true),
        ("failed", "1", Some("why"), false),
        ("cancelled", "1", Some("why"), false),
    ] {
        let listed = rows(
            &alice,
            &format!(
                "SELECT status, execution_count, output, completed_at IS NOT NULL, function_name
                 FROM df.list_instances('{status}', 1, NULL)"
            ),
        )
        .await;
        let some = |text: &str| Some(text.to_owned());
        let ended = if ended { "t" } else { "f" };
        let row =
            [some(status), some(count), output.map(str::to_owned), some(ended), some("durable-function")];
        assert_eq!(listed, [row]);
    }
    let both = rows(&alice, "SELECT * FROM df.list_instances()").await;
    assert_eq!((both.len(), both[0].len()), (20, 6));
    let by_name = one(&alice, "SELECT count(*) FROM df.list_instances(limit_count => 7)").await;
    assert_eq!(by_name.as_deref(), Some("7"));
    let capital = one(&alice, "SELECT count(*) FROM df.list_instances('Completed', 7)").await;
    assert_eq!(capital.as_deref(), Some("7"));
}

#[tokio::test]
async fn limits_cursors_and_statuses_that_make_no_sense_are_refused() {
    let (_database, alice, _bob) = populated(10).await;
    for (call, expected) in [
        ("df.list_instances(NULL, 0)", "limit_count must be at least 1"),
        ("df.list_instances(NULL, -5, NULL)", "limit_count must be at least 1"),
        ("df.list_instances(NULL, 1001)", "df.list_instances_max_limit"),
        ("df.list_instances(NULL, 1001, NULL)", "df.list_instances_max_limit"),
        ("df.list_instances(NULL, 10, NULL, '')", "invalid after_cursor"),
        ("df.list_instances(NULL, 10, NULL, 'xyz')", "invalid after_cursor"),
        ("df.list_instances(NULL, 10, NULL, encode('v1|now|00000000', 'hex'))", "invalid after_cursor"),
        (
            "df.list_instances(NULL, 10, NULL, encode('v1|2026-99-99T00:00:00Z|00000000', 'hex'))",
            "invalid after_cursor",
        ),
        (
            "df.list_instances(NULL, 10, NULL, encode('v2|2026-01-01T00:00:00Z|00000000', 'hex'))",
            "invalid after_cursor",
        ),
        ("df.list_instances(NULL, 10, NULL, encode('\\xff', 'hex'))", "invalid after_cursor"),
    ] {
        let said = refusal(&alice, &format!("SELECT * FROM {call}")).await;
        assert!(said.contains(expected), "{call}: {said}");
    }
    let none = "SELECT count(*) FROM df.list_instances('done')";
    assert_eq!(one(&alice, none).await.as_deref(), Some("0"), "no instance has such a status");
    // The reference's name for it counts, too, where ours says nothing.
    alice.batch_execute("SET pg_durable.list_instances_max_limit = 6").await.unwrap();
    assert!(refusal(&alice, "SELECT * FROM df.list_instances()").await.contains("allows 6"));
    alice.batch_execute("SET df.list_instances_max_limit = 5").await.unwrap();
    assert!(refusal(&alice, "SELECT * FROM df.list_instances()").await.contains("allows 5"));
    for value in ["0", "1000001", "many"] {
        alice.batch_execute(&format!("SET df.list_instances_max_limit = '{value}'")).await.unwrap();
        let said = refusal(&alice, "SELECT * FROM df.list_instances()").await;
        assert!(said.contains("must be a whole number from 1 to 1000000"), "{said}");
    }
    alice.batch_execute("SET df.list_instances_max_limit = 1000000").await.unwrap();
    assert_eq!(
        one(&alice, "SELECT count(*) FROM df.list_instances(NULL, 1000000)").await.as_deref(),
        Some("10")
    );
}
