//! Rows from one session into a table of another, in the binary form in which servers send them.

use super::{failed, Failure, SCHEMA};
use bytes::BytesMut;
use futures_util::StreamExt;
use std::{error::Error, pin::pin};
use tokio_postgres::{
    binary_copy::{BinaryCopyInWriter, BinaryCopyOutStream},
    types::{FromSql, IsNull, ToSql, Type},
    Client,
};

/// A value as it was sent.
#[derive(Debug)]
pub(super) struct Raw(pub(super) Vec<u8>);

impl<'a> FromSql<'a> for Raw {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Raw, Box<dyn Error + Sync + Send>> {
        Ok(Raw(raw.to_owned()))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

impl ToSql for Raw {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.extend_from_slice(&self.0);
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    tokio_postgres::types::to_sql_checked!();
}

/// Creates a table with `columns` (`name type`, ...) and fills it with the rows of `query`, each changed by `each`; `reading`
/// describes the query in errors. Returns the number of rows. Created and filled in one transaction, it needs no WAL.
pub(super) async fn into_table(
    (from, query, reading): (&Client, &str, &str),
    to: &Client,
    (table, columns): (&str, &[String]),
    mut each: impl FnMut(&mut [Option<Raw>]) -> Result<(), Failure>,
) -> Result<u64, Failure> {
    let doing = "copying within the copy";
    let create = format!("begin; create table {SCHEMA}.{table} ({})", columns.join(", "));
    to.batch_execute(&create).await.map_err(failed(doing))?;
    // The table and the query determine the types; nothing here depends on them.
    let types = vec![Type::BYTEA; columns.len()];
    let out = from.copy_out(&format!("copy ({query}) to stdout (format binary)")).await;
    let mut rows = pin!(BinaryCopyOutStream::new(out.map_err(failed(reading))?, &types));
    let sink = to.copy_in(&format!("copy {SCHEMA}.{table} from stdin (format binary)")).await;
    let mut writer = pin!(BinaryCopyInWriter::new(sink.map_err(failed(doing))?, &types));
    while let Some(row) = rows.next().await {
        let row = row.map_err(failed(reading))?;
        let mut values = Vec::with_capacity(columns.len());
        for index in 0..columns.len() {
            values.push(row.try_get::<Option<Raw>>(index).map_err(failed(doing))?);
        }
        each(&mut values)?;
        let values = values.iter().map(|value| value as &(dyn ToSql + Sync));
        writer.as_mut().write(&values.collect::<Vec<_>>()).await.map_err(failed(doing))?;
    }
    let count = writer.as_mut().finish().await.map_err(failed(doing))?;
    to.batch_execute("commit").await.map_err(failed(doing))?;
    Ok(count)
}
