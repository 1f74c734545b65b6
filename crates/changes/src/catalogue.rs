//! The tables of one side, as its catalogue has them.

use crate::{
    blocks::Layout,
    change::shown_name,
    error::ChangesError,
    types::{self, Types},
};
use std::collections::{BTreeMap, HashMap, HashSet};
use tokio_postgres::{Client, Row};

/// Tables with rows of their own, of others than the system. Partitions are such tables, partitioned ones are not.
const USER_TABLES: &str = "c.relkind = 'r' and c.relpersistence <> 't' \
    and n.nspname !~ '^pg_' and n.nspname <> 'information_schema'";

/// Tables with indexes and statistics whose expressions name something that is not the system's, besides the table: planning
/// a `SELECT` evaluates their constant parts. What an expression names stands among its dependencies, unless it is the
/// system's.
const CODE: &str = "
select i.indrelid from pg_index i where (i.indexprs is not null or i.indpred is not null) and exists (
  select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = i.indexrelid and d.refobjid >= 16384
    and d.refclassid <> 'pg_class'::regclass and d.refclassid <> 'pg_constraint'::regclass)
union all
select s.stxrelid from pg_statistic_ext s where exists (
  select from pg_depend d where d.classid = 'pg_statistic_ext'::regclass and d.objid = s.oid and d.refobjid >= 16384
    and d.refclassid <> 'pg_class'::regclass and d.refclassid <> 'pg_namespace'::regclass)";

/// The id of the access method `heap`.
const HEAP: u32 = 2;

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CatalogueColumn {
    pub(crate) number: i16,
    pub(crate) name: String,
    pub(crate) type_id: u32,
    pub(crate) type_name: String,
    pub(crate) is_generated: bool,
    pub(crate) is_identity_always: bool,
    pub(crate) is_not_null: bool,
    /// Whether rows that do not have a value for it may have one all the same, or got one when it was added.
    pub(crate) is_filled: bool,
}

/// A table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Relation {
    pub(crate) id: u32,
    pub(crate) schema: String,
    pub(crate) name: String,
    /// The number of its file, as the transaction sees it.
    pub(crate) node: u32,
    /// Where it lies in the data directory now.
    pub(crate) file: Option<String>,
    pub(crate) is_unlogged: bool,
    pub(crate) is_heap: bool,
    /// Whether planning a `SELECT` of it may run somebody's code.
    pub(crate) runs_code: bool,
    pub(crate) columns: Vec<CatalogueColumn>,
    /// The columns of its unique indexes whose columns are not null, the best first.
    pub(crate) keys: Vec<Vec<i16>>,
}

/// Tables by schema and name.
pub(crate) type Tables = BTreeMap<(String, String), Relation>;

/// What one side has.
#[derive(Debug)]
pub(crate) struct Catalogue {
    pub(crate) tables: Tables,
    pub(crate) types: Types,
    pub(crate) layout: Layout,
    /// Whether a transaction was prepared: what it wrote may count later, in blocks that do not change for it.
    pub(crate) has_prepared: bool,
}

/// Whether a table is asked for by its name.
pub(crate) fn is_wanted(wanted: &[String], schema: &str, name: &str) -> bool {
    let is = |wanted: &String| *wanted == shown_name(schema, name) || *wanted == format!("{schema}.{name}");
    wanted.is_empty() || wanted.iter().any(is)
}

/// Reads what one side has, in the transaction that the client is in.
pub(crate) async fn read(
    side: &'static str,
    client: &Client,
    wanted: &[String],
) -> Result<Catalogue, ChangesError> {
    let settings = async {
        let row = client.query_one(
            "select current_setting('block_size')::int4, (select s.setting::int4 from pg_settings s \
               where s.name = 'segment_size'), exists (select from pg_prepared_xacts)",
            &[],
        );
        row.await.map_err(not_told(side))
    };
    let tables = async {
        let tables = tables(side, client, |schema, name| is_wanted(wanted, schema, name)).await?;
        let columns = tables.values().flat_map(|table| &table.columns);
        let types = types::read(side, client, columns.map(|column| column.type_id)).await?;
        Ok((tables, types))
    };
    // One after the other in the server, and no waiting in between.
    let ((tables, types), row) = tokio::try_join!(tables, settings)?;
    let number = |place: usize| u32::try_from(row.get::<_, i32>(place)).unwrap_or(1).max(1);
    let layout = Layout { block: number(0), segment: number(1) };
    Ok(Catalogue { tables, types, layout, has_prepared: row.get(2) })
}

/// The tables that are wanted.
pub(crate) async fn tables(
    side: &'static str,
    client: &Client,
    wanted: impl Fn(&str, &str) -> bool,
) -> Result<Tables, ChangesError> {
    let sql = format!(
        "select c.oid, n.nspname::text, c.relname::text, pg_relation_filepath(c.oid::regclass), c.relpersistence = 'u', \
           c.relam = {HEAP}, c.relfilenode \
         from pg_class c join pg_namespace n on n.oid = c.relnamespace where {USER_TABLES}"
    );
    let (found, code) =
        tokio::try_join!(client.query(&sql, &[]), client.query(CODE, &[])).map_err(not_told(side))?;
    let code: HashSet<u32> = code.iter().map(|row| row.get(0)).collect();
    let mut relations: HashMap<u32, Relation> = found
        .iter()
        .map(|row| Relation { runs_code: code.contains(&row.get(0)), ..relation(row) })
        .filter(|relation| wanted(&relation.schema, &relation.name))
        .map(|relation| (relation.id, relation))
        .collect();
    let ids: Vec<u32> = relations.keys().copied().collect();
    let columns = client
        .query(
            "select a.attrelid, a.attnum, a.attname::text, a.atttypid, format_type(a.atttypid, a.atttypmod), \
               a.attgenerated <> '', a.attidentity = 'a', a.attnotnull, \
               a.atthasdef or a.atthasmissing or a.attidentity <> '' \
             from pg_attribute a where a.attrelid = any($1) and a.attnum > 0 and not a.attisdropped \
             order by a.attrelid, a.attnum",
            &[&ids],
        )
        .await
        .map_err(not_told(side))?;
    for row in columns {
        let Some(relation) = relations.get_mut(&row.get(0)) else { continue };
        relation.columns.push(CatalogueColumn {
            number: row.get(1),
            name: row.get(2),
            type_id: row.get(3),
            type_name: row.get(4),
            is_generated: row.get(5),
            is_identity_always: row.get(6),
            is_not_null: row.get(7),
            is_filled: row.get(8),
        });
    }
    let indexes = client
        .query(
            "select i.indrelid, i.indkey::int2[], i.indnkeyatts from pg_index i \
             where i.indrelid = any($1) and i.indisunique and i.indisvalid and i.indisready \
               and i.indpred is null and i.indexprs is null \
             order by i.indrelid, i.indisprimary desc, i.indisreplident desc, i.indexrelid",
            &[&ids],
        )
        .await
        .map_err(not_told(side))?;
    for row in indexes {
        let Some(relation) = relations.get_mut(&row.get(0)) else { continue };
        let mut key: Vec<i16> = row.get(1);
        key.truncate(usize::try_from(row.get::<_, i16>(2)).unwrap_or(0));
        let is_not_null =
            |number: &i16| relation.columns.iter().any(|it| it.number == *number && it.is_not_null);
        if key.iter().all(is_not_null) {
            relation.keys.push(key);
        }
    }
    Ok(relations.into_values().map(|it| ((it.schema.clone(), it.name.clone()), it)).collect())
}

fn relation(row: &Row) -> Relation {
    Relation {
        id: row.get(0),
        schema: row.get(1),
        name: row.get(2),
        file: row.get(3),
        is_unlogged: row.get(4),
        is_heap: row.get(5),
        runs_code: true,
        node: row.get(6),
        columns: Vec::new(),
        keys: Vec::new(),
    }
}

fn not_told(side: &'static str) -> impl Fn(tokio_postgres::Error) -> ChangesError {
    move |source| ChangesError::Server { side, doing: "did not tell what its tables are", source }
}
