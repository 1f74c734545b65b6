//! tokio-postgres, with TLS of rustls.

use crate::{Done, Place};
use futures_util::{future::try_join_all, SinkExt, TryStreamExt};
use rustls::{pki_types::pem::PemObject, pki_types::CertificateDer, ClientConfig, RootCertStore};
use std::{error::Error, pin::pin, time::Duration};
use tokio_postgres::{error::SqlState, Client, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

pub async fn works(place: &Place) -> Done {
    let (mut plain, connection) = tokio_postgres::connect(&place.create(""), NoTls).await?;
    tokio::spawn(connection);
    let sum: i64 = plain.query_one("select sum(x) from t where x <= $1", &[&100]).await?.get(0);
    assert_eq!(sum, 5050);

    for commit in [false, true] {
        let transaction = plain.transaction().await?;
        transaction.execute("insert into t values ($1, $2)", &[&-1, &"by tokio-postgres"]).await?;
        if commit {
            transaction.commit().await?
        } else {
            transaction.rollback().await?
        }
    }
    let twice = plain.execute("insert into t values ($1, $2)", &[&-1, &"again"]).await.unwrap_err();
    assert_eq!(twice.code(), Some(&SqlState::UNIQUE_VIOLATION));

    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(&place.certificate)? {
        roots.add(certificate?)?;
    }
    let secure = encrypted(place, roots).await?;
    let found: String = secure.query_one("select y from t where x = -1", &[]).await?.get(0);
    assert_eq!(found, "by tokio-postgres", "what was committed");
    assert!(encrypted(place, RootCertStore::empty()).await.is_err(), "a certificate that nobody vouches for");

    // Statements are sent before the answers to those before them have come.
    let select = secure.prepare("select $1::int").await?;
    let numbers: Vec<i32> = (0..20).collect();
    let (asked, select) = (&secure, &select);
    let found = numbers.iter().map(|number| async move { asked.query_one(select, &[number]).await });
    let found = try_join_all(found).await?;
    let found: Vec<i32> = found.iter().map(|row| row.get(0)).collect();
    assert_eq!(found, numbers);

    let cancel = plain.cancel_token();
    let cancelling = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(300)).await;
        cancel.cancel_query(NoTls).await
    });
    let cancelled = plain.batch_execute("select pg_sleep(50)").await.unwrap_err();
    assert_eq!(cancelled.code(), Some(&SqlState::QUERY_CANCELED));
    cancelling.await??;

    let mut rows = pin!(plain.copy_in::<_, &[u8]>("copy t from stdin").await?);
    rows.send(b"-2\ttwo\n").await?;
    rows.send(b"-3\t\\N\n").await?;
    assert_eq!(rows.finish().await?, 2, "rows copied in");
    let rows = plain.copy_out("copy (select x from t where x < 0 order by x) to stdout").await?;
    let rows: Vec<_> = rows.try_collect().await?;
    assert_eq!(rows.concat(), b"-3\n-2\n-1\n", "rows copied out");
    Ok(())
}

/// A session over TLS.
async fn encrypted(place: &Place, roots: RootCertStore) -> Result<Client, Box<dyn Error>> {
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let url = place.enter("sslmode=require&channel_binding=require");
    let (client, connection) = tokio_postgres::connect(&url, MakeRustlsConnect::new(config)).await?;
    tokio::spawn(connection);
    Ok(client)
}
