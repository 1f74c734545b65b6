//! R12: the first client of a branch gets a process that was made ready for it, and notices nothing of that.

use super::{one, Site};
use crate::support::{until, Home};
use duramen_api::model::Policy;
use tokio_postgres::Client;

/// Milliseconds from the start of the process to now.
async fn age_ms(client: &Client) -> f64 {
    one(client, "select extract(epoch from clock_timestamp() - backend_start)::float8 * 1000 from pg_stat_activity where pid = pg_backend_pid()").await
}

async fn ready(site: &mut Site) {
    until("each branch of the pool has a process for its client", async || {
        let status = site.connection.status().await.unwrap();
        let pool = status.pools.iter().find(|pool| pool.policy == Policy::ReadWrite).unwrap().clone();
        status.settled && pool.hot == 2 && pool.entries == 2
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_client_of_a_branch_finds_a_process_that_is_ready() {
    let home = Home::new();
    let mut site = Site::open(&home, &[]).await;
    let ci = site.user("ci").await;
    let status = site.connection.status().await.unwrap();
    assert!(status.pools.iter().all(|pool| pool.entries == 0), "nobody has come by the door yet");
    drop(site.enter(&ci, "app@first?application_name=one").await.expect("the first client of all"));
    ready(&mut site).await;
    tokio::time::sleep(std::time::Duration::from_millis(600)).await;

    // The same packet, but for the name of the program.
    let client = site.enter(&ci, "app@second?application_name=two").await.expect("a branch");
    assert!(age_ms(&client).await > 500.0, "it was there before the client");
    assert_eq!(one::<String>(&client, "show application_name").await, "two");
    let seen: String =
        one(&client, "select application_name from pg_stat_activity where pid = pg_backend_pid()").await;
    assert_eq!(seen, "two");
    // Nothing of its preparation is left.
    assert_eq!(one::<i64>(&client, "select nextval('s')").await, 1);
    assert_eq!(one::<i64>(&client, "select count(*) from pg_locks where locktype = 'advisory'").await, 0);
    assert_eq!(
        one::<i64>(
            &client,
            "select count(*) from pg_prepared_statements where name <> 's0' and not from_sql"
        )
        .await,
        1,
        "its own"
    );
    client.batch_execute("alter role current_user set work_mem = '3MB'").await.expect("a setting of its own");
    // A later session begins with what was set.
    let later = site.enter(&ci, "second?application_name=two").await.expect("the same branch");
    assert!(age_ms(&later).await < 500.0);
    assert_eq!(one::<String>(&later, "show work_mem").await, "3MB");

    // Another packet gets a process of its own, and what was ready is of no more use.
    ready(&mut site).await;
    tokio::time::sleep(std::time::Duration::from_millis(600)).await;
    let other = site.enter(&ci, "app@third?options=-c%20work_mem%3D5MB").await.expect("a branch");
    assert!(age_ms(&other).await < 500.0);
    assert_eq!(one::<String>(&other, "show work_mem").await, "5MB");
    let processes: i64 =
        one(&other, "select count(*) from pg_stat_activity where usename = current_user").await;
    assert_eq!(processes, 2, "its own, and the daemon's");
    site.stop().await;
    assert_eq!(home.left_overs(), Vec::<String>::new());
}
