//! sqlx: a pool of it, and its migrations.

use crate::{Done, Place};
use sqlx::{
    migrate::Migrator,
    postgres::{PgListener, PgPoolOptions},
    Connection, PgConnection, PgPool, Row,
};
use std::{path::Path, sync::Arc, time::Duration};
use tokio::{sync::Barrier, task::JoinSet};

const SIZE: u32 = 4;

pub async fn works(place: &Place) -> Done {
    // The schema is changed first, because a branch is born with what may be done in it.
    let mut first = PgConnection::connect(&place.create("&options=-c%20duramen.policy%3Dddl")).await?;
    let migrations = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
    for _ in 0..2 {
        Migrator::new(migrations.as_path()).await?.run(&mut first).await?;
    }
    let (orders,): (i64,) = sqlx::query_as("select count(*) from orders").fetch_one(&mut first).await?;
    assert_eq!(orders, 10, "each migration has run once");
    first.close().await?;

    let secure = place.enter(&format!("sslmode=verify-full&sslrootcert={}", place.certificate));
    let pool = PgPoolOptions::new().max_connections(SIZE).acquire_timeout(Duration::from_secs(20));
    let pool = pool.connect(&secure).await?;
    assert!(
        PgConnection::connect(&place.enter("sslmode=verify-full")).await.is_err(),
        "nobody vouches for it"
    );
    together(&pool).await?;

    let twice = sqlx::query("insert into t values ($1, $2)").bind(1).bind("again").execute(&pool).await;
    assert_eq!(state(twice), "23505");
    let mut limited = pool.begin().await?;
    sqlx::raw_sql("set local statement_timeout = 300").execute(&mut *limited).await?;
    let cancelled = sqlx::raw_sql("select pg_sleep(50)").execute(&mut *limited).await;
    assert_eq!(state(cancelled), "57014");
    drop(limited);

    let mut connection = pool.acquire().await?;
    let mut rows = connection.copy_in_raw("copy t from stdin").await?;
    rows.send("-100\ta\n-101\tb\n".as_bytes()).await?;
    assert_eq!(rows.finish().await?, 2, "rows copied in");
    drop(connection);

    let mut listener = PgListener::connect_with(&pool).await?;
    listener.listen("news").await?;
    sqlx::query("select pg_notify('news', $1)").bind("it works").execute(&pool).await?;
    assert_eq!(listener.recv().await?.payload(), "it works");
    drop(listener);

    // Sessions that end beneath the pool are replaced.
    let ended = "select count(pg_terminate_backend(pid, 5000)) from pg_stat_activity
         where usename = current_user and pid <> pg_backend_pid() and application_name = ''";
    assert!(sqlx::query(ended).fetch_one(&pool).await?.get::<i64, _>(0) > 0);
    for _ in 0..2 * SIZE {
        let (rows,): (i64,) = sqlx::query_as("select count(*) from t where x < 0").fetch_one(&pool).await?;
        assert_eq!(rows, 18);
    }
    pool.close().await;
    Ok(())
}

/// The SQLSTATE with which something failed.
fn state<T: std::fmt::Debug>(failed: Result<T, sqlx::Error>) -> String {
    let error = failed.expect_err("it is refused");
    let error = error.as_database_error().unwrap_or_else(|| panic!("{error}"));
    error.code().map(Into::into).unwrap_or_default()
}

/// As many at once as the pool has, and more than that wait.
async fn together(pool: &PgPool) -> Done {
    let barrier = Arc::new(Barrier::new(SIZE as usize));
    let mut tasks = JoinSet::new();
    for i in 1..=16 {
        let (pool, barrier) = (pool.clone(), barrier.clone());
        tasks.spawn(async move {
            let mut transaction = pool.begin().await?;
            barrier.wait().await;
            sqlx::query("insert into t values ($1, $2)")
                .bind(-i)
                .bind("by sqlx")
                .execute(&mut *transaction)
                .await?;
            if i % 2 == 0 {
                transaction.commit().await?;
                transaction = pool.begin().await?;
                sqlx::query("delete from t where x = $1").bind(-i).execute(&mut *transaction).await?;
                transaction.rollback().await
            } else {
                transaction.commit().await
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    let (rows,): (i64,) =
        sqlx::query_as("select count(*) from t where y = $1").bind("by sqlx").fetch_one(pool).await?;
    assert_eq!(rows, 16);
    Ok(())
}
