//! What the source hung on its tables is off while rules are applied: triggers, rewrite rules, indexes (a permuted key is
//! no key while half of it is permuted), and that identity columns are not to be written.
//!
//! In the catalogue and not by commands: those would take the state that they leave from the table, and each trigger has
//! one of its own. Sessions that began earlier may not notice.

use super::{failed, rules::Rules, Failure, HOLDER, READER, SCHEMA};
use duramen_postgres::quote_identifier;
use tokio_postgres::Client;

const BEGIN: &str = "
    create table {schema}.triggers as select t.oid, t.tgenabled from pg_catalog.pg_trigger t
      where t.tgrelid >= 16384::oid and t.tgenabled <> 'D';
    update pg_catalog.pg_trigger set tgenabled = 'D' where tgrelid >= 16384::oid and tgenabled <> 'D';
    create table {schema}.rules as select w.oid, w.ev_enabled from pg_catalog.pg_rewrite w
      where w.ev_class >= 16384::oid and w.ev_type <> '1' and w.ev_enabled <> 'D';
    update pg_catalog.pg_rewrite set ev_enabled = 'D'
      where ev_class >= 16384::oid and ev_type <> '1' and ev_enabled <> 'D';
    create table {schema}.identities as select a.attrelid, a.attnum from pg_catalog.pg_attribute a
      where a.attrelid = any ({tables}) and a.attidentity = 'a';
    update pg_catalog.pg_attribute set attidentity = 'd' where attrelid = any ({tables}) and attidentity = 'a';
    create table {schema}.indexes as select i.indexrelid from pg_catalog.pg_index i
      where i.indrelid = any ({tables}) and i.indisready and i.indisvalid;
    update pg_catalog.pg_index set indisready = false, indisvalid = false
      where indrelid = any ({tables}) and indisready and indisvalid;";

const END: &str = "
    update pg_catalog.pg_trigger t set tgenabled = s.tgenabled from {schema}.triggers s where s.oid = t.oid;
    update pg_catalog.pg_rewrite w set ev_enabled = s.ev_enabled from {schema}.rules s where s.oid = w.oid;
    update pg_catalog.pg_attribute a set attidentity = 'a' from {schema}.identities s
      where s.attrelid = a.attrelid and s.attnum = a.attnum;";

/// Turns off triggers and rules of all tables, and more on those whose columns are masked.
pub(super) async fn begin(admin: &Client, rules: &Rules) -> Result<(), Failure> {
    let doing = "turning triggers and rules off";
    let ids: Vec<String> = rules.columns.keys().map(u32::to_string).collect();
    let tables = format!("'{{{}}}'::oid[]", ids.join(","));
    let create = format!("create schema {SCHEMA}; grant usage on schema {SCHEMA} to {READER}, {HOLDER}");
    admin.batch_execute(&create).await.map_err(failed(doing))?;
    // A partitioned index has no rows, and is valid as long as its parts are.
    let sql = BEGIN.replace("{schema}", SCHEMA).replace("{tables}", &tables);
    admin.batch_execute(&sql).await.map_err(failed(doing))
}

/// Turns all of it on again, with every index made anew: what should be unique is checked on the way.
pub(super) async fn end(admin: &Client) -> Result<(), Failure> {
    let doing = "turning triggers and rules on";
    admin.batch_execute(&END.replace("{schema}", SCHEMA)).await.map_err(failed(doing))?;
    let indexes = format!(
        "select n.nspname::text, c.relname::text, c.relkind = 'I' from {SCHEMA}.indexes s \
         join pg_catalog.pg_class c on c.oid = s.indexrelid \
         join pg_catalog.pg_namespace n on n.oid = c.relnamespace order by c.oid"
    );
    for row in admin.query(&indexes, &[]).await.map_err(failed(doing))? {
        let (schema, name): (&str, &str) = (row.get(0), row.get(1));
        if row.get(2) {
            continue;
        }
        let sql = format!("reindex index {}.{}", quote_identifier(schema), quote_identifier(name));
        admin
            .batch_execute(&sql)
            .await
            .map_err(failed(&format!("making the index {schema}.{name} of masked values")))?;
    }
    let parts = format!(
        "update pg_catalog.pg_index i set indisready = true, indisvalid = true \
         from {SCHEMA}.indexes s, pg_catalog.pg_class c \
         where s.indexrelid = i.indexrelid and c.oid = i.indexrelid and c.relkind = 'I'"
    );
    admin.batch_execute(&parts).await.map_err(failed(doing))?;
    let invalid = format!(
        "select count(*) from {SCHEMA}.indexes s join pg_catalog.pg_index i on i.indexrelid = s.indexrelid \
         where not (i.indisvalid and i.indisready)"
    );
    let row = admin.query_one(&invalid, &[]).await.map_err(failed(doing))?;
    if row.get::<_, i64>(0) > 0 {
        return Err(Failure::Wrong("an index of masked values is not valid".to_owned()));
    }
    Ok(())
}

/// Drops what this and its neighbours kept for themselves.
pub(super) async fn forget(admin: &Client) -> Result<(), Failure> {
    let drop = format!("set client_min_messages = warning; drop schema {SCHEMA} cascade");
    admin.batch_execute(&drop).await.map_err(failed("dropping what the rules needed"))
}
