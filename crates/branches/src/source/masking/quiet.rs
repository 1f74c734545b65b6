//! What the source hung on its tables is off while rules are applied: triggers, rewrite rules, indexes (a permuted key is
//! no key while half of it is permuted), and that identity columns are not to be written.
//!
//! In the catalogue and not by commands: those would take the state that they leave from the table, and each trigger has
//! one of its own. Sessions that began earlier may not notice.

use super::{catalogue::Catalogue, failed, rewrite, rules::Rules, Failure, HOLDER, READER, SCHEMA};
use duramen_postgres::quote_identifier;
use tokio_postgres::{error::SqlState, Client};

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
    update pg_catalog.pg_index set indisready = false, indisvalid = false, indislive = false
      where indrelid = any ({tables}) and indisready and indisvalid;
    create table {schema}.triggered as select c.oid from pg_catalog.pg_class c
      where c.oid = any ({tables}) and c.relkind = 'r' and c.relhastriggers;
    update pg_catalog.pg_class set relhastriggers = false
      where oid = any ({tables}) and relkind = 'r' and relhastriggers;";

const END: &str = "
    update pg_catalog.pg_trigger t set tgenabled = s.tgenabled from {schema}.triggers s where s.oid = t.oid;
    update pg_catalog.pg_rewrite w set ev_enabled = s.ev_enabled from {schema}.rules s where s.oid = w.oid;
    update pg_catalog.pg_attribute a set attidentity = 'a' from {schema}.identities s
      where s.attrelid = a.attrelid and s.attnum = a.attnum;
    update pg_catalog.pg_class c set relhastriggers = true from {schema}.triggered s where s.oid = c.oid;";

/// Turns off triggers and rules of all tables, and more on those whose columns are masked.
pub(super) async fn begin(admin: &Client, rules: &Rules) -> Result<(), Failure> {
    let doing = "turning triggers and rules off";
    let ids: Vec<String> = rules.columns.keys().map(u32::to_string).collect();
    let tables = format!("'{{{}}}'::oid[]", ids.join(","));
    let create = format!("create schema {SCHEMA}; grant usage on schema {SCHEMA} to {READER}, {HOLDER}");
    admin.batch_execute(&create).await.map_err(failed(doing))?;
    // A partitioned index has no rows, and is valid as long as its parts are. While an index is not live, nothing that writes
    // its table makes it, nor forgives it what is not unique. A table that says that it has triggers cannot be emptied if
    // others refer to it.
    let sql = BEGIN.replace("{schema}", SCHEMA).replace("{tables}", &tables);
    admin.batch_execute(&sql).await.map_err(failed(doing))
}

/// Turns all of it on again. Masked tables that were not `reloaded` are written anew without their old values, and then every
/// index of theirs is made: what should be unique is checked on the way.
pub(super) async fn end(
    admin: &Client,
    reader: &Client,
    catalogue: &Catalogue,
    rules: &Rules,
    reloaded: &[u32],
) -> Result<(), Failure> {
    let doing = "turning triggers and rules on";
    admin.batch_execute(&END.replace("{schema}", SCHEMA)).await.map_err(failed(doing))?;
    let others = rules.columns.keys().filter(|id| !reloaded.contains(id));
    for table in others.filter_map(|id| catalogue.tables.get(id)).filter(|it| it.kind == 'r') {
        rewrite::table(admin, &table.schema, &table.name).await?;
    }
    let indexes = format!(
        "select n.nspname::text, c.relname::text, c.relkind = 'I', s.indexrelid from {SCHEMA}.indexes s \
         join pg_catalog.pg_class c on c.oid = s.indexrelid \
         join pg_catalog.pg_namespace n on n.oid = c.relnamespace order by c.oid"
    );
    for row in admin.query(&indexes, &[]).await.map_err(failed(doing))? {
        let (schema, name): (&str, &str) = (row.get(0), row.get(1));
        if row.get(2) {
            continue;
        }
        let sql = format!("reindex index {}.{}", quote_identifier(schema), quote_identifier(name));
        if let Err(error) = admin.batch_execute(&sql).await {
            let repeated = error.code() == Some(&SqlState::UNIQUE_VIOLATION);
            let failure = failed(&format!("making the index {schema}.{name} of masked values"))(error);
            return Err(if repeated {
                told_of_repeats(admin, reader, catalogue, rules, row.get(3), failure).await
            } else {
                failure
            });
        }
    }
    let parts = format!(
        "update pg_catalog.pg_index i set indisready = true, indisvalid = true, indislive = true \
         from {SCHEMA}.indexes s, pg_catalog.pg_class c \
         where s.indexrelid = i.indexrelid and c.oid = i.indexrelid and c.relkind = 'I'"
    );
    admin.batch_execute(&parts).await.map_err(failed(doing))?;
    let invalid = format!(
        "select count(*) from {SCHEMA}.indexes s join pg_catalog.pg_index i on i.indexrelid = s.indexrelid \
         where not (i.indisvalid and i.indisready and i.indislive)"
    );
    let row = admin.query_one(&invalid, &[]).await.map_err(failed(doing))?;
    if row.get::<_, i64>(0) > 0 {
        return Err(Failure::Wrong("an index of masked values is not valid".to_owned()));
    }
    Ok(())
}

/// What a server does not say of values that should be unique and are not: how many, and which rules made them.
async fn told_of_repeats(
    admin: &Client,
    reader: &Client,
    catalogue: &Catalogue,
    rules: &Rules,
    index: u32,
    failure: Failure,
) -> Failure {
    let keys = "select i.indrelid, (select pg_catalog.array_agg(pg_catalog.pg_get_indexdef(i.indexrelid, n, false) order by n) \
                from pg_catalog.generate_series(1, i.indnkeyatts::pg_catalog.int4) n), \
                pg_catalog.pg_get_expr(i.indpred, i.indrelid), i.indkey::pg_catalog.int2[], c.relname::text \
                from pg_catalog.pg_index i join pg_catalog.pg_class c on c.oid = i.indexrelid where i.indexrelid = $1::oid";
    let Ok(row) = admin.query_one(keys, &[&index]).await else { return failure };
    let Some(table) = catalogue.tables.get(&row.get::<_, u32>(0)) else { return failure };
    let (keys, predicate): (Vec<String>, Option<String>) = (row.get(1), row.get(2));
    let numbers: Vec<i16> = row.get(3);
    // What a source wrote into its indexes runs as the role that may only read.
    let count = format!(
        "select coalesce(sum(n), 0)::int8 from (select count(*) n from only {} where ({}) is not null and ({}) \
         group by {} having count(*) > 1) r",
        table.quoted(),
        keys.join(", "),
        predicate.unwrap_or_else(|| "true".to_owned()),
        keys.join(", ")
    );
    let Ok(count) = reader.query_one(&count, &[]).await.map(|row| row.get::<_, i64>(0)) else {
        return failure;
    };
    let masks = rules.columns.get(&table.id).into_iter().flatten();
    let masks = masks.filter(|(number, _)| numbers.contains(number)).filter_map(|(number, mask)| {
        Some(format!("{mask} of {}.{}", table.plain_name(), table.column(*number)?.name))
    });
    Failure::Wrong(format!(
        "the rules ({}) make {count} values equal to others, and the unique index {} does not allow that: use hash or shape there",
        masks.collect::<Vec<_>>().join(", "),
        row.get::<_, &str>(4)
    ))
}

/// Drops what this and its neighbours kept for themselves.
pub(super) async fn forget(admin: &Client) -> Result<(), Failure> {
    let drop = format!("set client_min_messages = warning; drop schema {SCHEMA} cascade");
    admin.batch_execute(&drop).await.map_err(failed("dropping what the rules needed"))
}
