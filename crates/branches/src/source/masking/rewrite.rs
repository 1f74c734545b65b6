//! What followed from original values goes, and everything that stays is written anew.

use super::{connection, failed, masked, Failure};
use crate::model::Sanitised;
use crate::source::connected::Connected;
use duramen_postgres::quote_identifier;
use tokio_postgres::{Client, Config};

/// The databases that new ones are made of. They stay, and must be empty.
const TEMPLATES: [&str; 2] = ["template0", "template1"];

/// Empties large objects, which no rule reaches, takes the statistics out, and makes materialised views anew.
pub(super) async fn derived(admin: &Client) -> Result<Vec<Sanitised>, Failure> {
    let mut report = Vec::new();
    let doing = "emptying large objects and statistics";
    let objects = "select count(*) from pg_catalog.pg_largeobject_metadata";
    let objects: i64 = admin.query_one(objects, &[]).await.map_err(failed(doing))?.get(0);
    // Rows of the catalogue; nothing of the source hangs on it, or the copy would not have been made harmless.
    let empty = "delete from pg_catalog.pg_largeobject; delete from pg_catalog.pg_statistic; \
                 delete from pg_catalog.pg_statistic_ext_data";
    admin.batch_execute(empty).await.map_err(failed(doing))?;
    if objects > 0 {
        let action = format!("{objects} emptied: no rule reaches what they hold");
        report.push(masked("large objects", "all", action));
    }
    report.extend(views(admin).await?);
    Ok(report)
}

/// Materialised views are filled again with the rights of their owners, none of whom is a superuser any more. Those that
/// cannot be stay empty.
async fn views(admin: &Client) -> Result<Vec<Sanitised>, Failure> {
    let doing = "making materialised views anew";
    let views = "select n.nspname::text, c.relname::text, c.relispopulated from pg_catalog.pg_class c \
                 join pg_catalog.pg_namespace n on n.oid = c.relnamespace \
                 where c.relkind = 'm' and c.oid >= 16384::oid order by c.oid";
    let mut open = Vec::new();
    for row in admin.query(views, &[]).await.map_err(failed(doing))? {
        let (schema, name): (&str, &str) = (row.get(0), row.get(1));
        let quoted = format!("{}.{}", quote_identifier(schema), quote_identifier(name));
        let empty = format!("refresh materialized view {quoted} with no data");
        admin.batch_execute(&empty).await.map_err(failed(doing))?;
        if row.get(2) {
            open.push((format!("{schema}.{name}"), quoted));
        }
    }
    let mut report = Vec::new();
    // One that reads another that is still empty fails, and is tried again after it.
    loop {
        let mut failures = Vec::new();
        for (name, quoted) in &open {
            if let Err(error) = admin.batch_execute(&format!("refresh materialized view {quoted}")).await {
                let Some(refusal) = error.as_db_error() else { return Err(failed(doing)(error)) };
                failures.push((name.clone(), quoted.clone(), refusal.code().code().to_owned()));
            }
        }
        if failures.len() == open.len() {
            report.extend(failures.into_iter().map(|(name, _, state)| {
                masked(
                    "materialized view",
                    &name,
                    format!("left empty: it cannot be refreshed (SQLSTATE {state})"),
                )
            }));
            return Ok(report);
        }
        open = failures.into_iter().map(|(name, quoted, _)| (name, quoted)).collect();
    }
}

/// Drops every database but the served one: rules are about that one. Templates must hold nothing.
pub(super) async fn databases(
    admin: &Client,
    server: &Config,
    served: &str,
    major: u32,
) -> Result<Vec<Sanitised>, Failure> {
    let mut report = Vec::new();
    let doing = "dropping the databases that the rules are not about";
    let all = "select d.datname::text, d.datistemplate from pg_catalog.pg_database d order by d.datname";
    for row in admin.query(all, &[]).await.map_err(failed(doing))? {
        let name: &str = row.get(0);
        if name == served {
            continue;
        }
        let quoted = quote_identifier(name);
        if TEMPLATES.contains(&name) {
            rewrite_template(admin, server, name, major).await?;
            continue;
        }
        if row.get(1) {
            let ordinary = format!("alter database {quoted} is_template false");
            admin.batch_execute(&ordinary).await.map_err(failed(doing))?;
        }
        admin.batch_execute(&format!("drop database {quoted} with (force)")).await.map_err(failed(doing))?;
        report.push(masked("database", name, "dropped: rules are about the served one".to_owned()));
    }
    Ok(report)
}

async fn rewrite_template(admin: &Client, server: &Config, name: &str, major: u32) -> Result<(), Failure> {
    let client = open_database(admin, server, name, major).await?;
    let doing = format!("writing {name} anew");
    let holds = "select (select count(*) from pg_catalog.pg_class c where c.oid >= 16384::oid and c.relkind in ('r', 'm', 'S')) \
                 + (select count(*) from pg_catalog.pg_largeobject_metadata)";
    let holds = client.query_one(holds, &[]).await.map_err(failed(&doing))?;
    if holds.get::<_, i64>(0) > 0 {
        return Err(Failure::Refused(vec![format!(
            "the source's database {name} holds tables or large objects, which no rule reaches: drop them there"
        )]));
    }
    everything(&client, &[]).await?;
    drop(client);
    close_database(admin, name).await
}

/// A session in a database, opened for it if it lets nobody in; [`close_database`] is for afterwards.
pub(super) async fn open_database(
    admin: &Client,
    server: &Config,
    name: &str,
    major: u32,
) -> Result<Connected, Failure> {
    if name == TEMPLATES[0] {
        let open = format!("alter database {name} allow_connections true");
        admin.batch_execute(&open).await.map_err(failed("looking into a template"))?;
    }
    let mut config = server.clone();
    config.dbname(name);
    Ok(connection::own(&config, major).await?)
}

pub(super) async fn close_database(admin: &Client, name: &str) -> Result<(), Failure> {
    if name == TEMPLATES[0] {
        let close = format!("alter database {name} allow_connections false");
        admin.batch_execute(&close).await.map_err(failed("looking into a template"))?;
    }
    Ok(())
}

/// Writes every relation of the served database anew, those of the catalogue and those that databases share included:
/// without dead rows, dropped columns, and what their pages held before. The catalogue comes last, because it holds the
/// values of columns that were added with a default, until their table is written. Tables that were `written` are left out.
pub(super) async fn everything(admin: &Client, written: &[u32]) -> Result<(), Failure> {
    let doing = "writing all tables anew";
    let tables = "select n.nspname::text, c.relname::text, c.oid from pg_catalog.pg_class c \
                  join pg_catalog.pg_namespace n on n.oid = c.relnamespace \
                  where c.relkind in ('r', 'm') and c.relpersistence <> 't' \
                  order by c.oid < 16384::oid, c.oid";
    for row in admin.query(tables, &[]).await.map_err(failed(doing))? {
        if !written.contains(&row.get(2)) {
            table(admin, row.get(0), row.get(1)).await?;
        }
    }
    Ok(())
}

/// Writes a table anew.
pub(super) async fn table(admin: &Client, schema: &str, name: &str) -> Result<(), Failure> {
    let vacuum = format!("vacuum (full) {}.{}", quote_identifier(schema), quote_identifier(name));
    admin.batch_execute(&vacuum).await.map_err(failed(&format!("writing {schema}.{name} anew")))
}
