//! What defines a live source besides its rows: the system catalogues, hashed one by one.
//!
//! A row of a catalogue is made into text by the system's own types alone, which runs nothing that a user wrote. What
//! the server changes by itself, or for harmless work (statistics, freezing, temporary tables, rebuilt indexes), is not
//! hashed. Comments are not either.

use super::{
    contents::{self, Contents},
    refusal::read_error,
};
use crate::{error::EngineError, model::ContentHash};
use duramen_postgres::{quote_identifier, quote_literal};
use tokio_postgres::{Client, Error};

/// A catalogue: what it is called in evidence, the relation, the columns that do not count, and which rows do.
struct Catalogue {
    name: &'static str,
    relation: &'static str,
    without: &'static [&'static str],
    rows: &'static str,
}

const fn all(name: &'static str, relation: &'static str) -> Catalogue {
    Catalogue { name, relation, without: &[], rows: "true" }
}

/// Belongs to a relation that counts; `relation.column` says to which.
const fn of_relation(name: &'static str, relation: &'static str, rows: &'static str) -> Catalogue {
    Catalogue { name, relation, without: &["oid"], rows }
}

/// Not tables of sessions, nor those that hold long values of others, which come and go by themselves; nor indexes,
/// because one that is built anew has another id.
const RELATIONS: &str =
    "(select oid from pg_class where relpersistence <> 't' and relkind not in ('t', 'i', 'I'))";
/// Schemas of sessions.
const SESSION_SCHEMAS: &str = "(select oid from pg_namespace where nspname ~ '^pg_(toast_)?temp_')";

/// The catalogues of one database. `{relations}` and `{session_schemas}` are the two above.
const OF_A_DATABASE: &[Catalogue] = &[
    Catalogue {
        name: "schemas",
        relation: "pg_namespace",
        without: &[],
        rows: "x.oid not in {session_schemas}",
    },
    Catalogue {
        name: "relations",
        relation: "pg_class",
        without: &[
            "relfilenode",
            "relpages",
            "reltuples",
            "relallvisible",
            "relallfrozen",
            "relfrozenxid",
            "relminmxid",
            "relhasindex",
            "relhasrules",
            "relhastriggers",
            "relhassubclass",
            "reltoastrelid",
            "relrewrite",
        ],
        rows: "x.oid in {relations}",
    },
    Catalogue {
        name: "types",
        relation: "pg_type",
        without: &[],
        rows: "x.typnamespace not in {session_schemas} and (x.typrelid = 0 or x.typrelid in {relations})",
    },
    of_relation("defaults", "pg_attrdef", "x.adrelid in {relations}"),
    Catalogue {
        name: "constraints",
        relation: "pg_constraint",
        without: &["conindid"],
        rows: "x.connamespace not in {session_schemas}",
    },
    of_relation("triggers", "pg_trigger", "x.tgrelid in {relations} and not x.tgisinternal"),
    // Those of foreign keys, which can be switched off as well; they name the index.
    Catalogue {
        name: "triggers of constraints",
        relation: "pg_trigger",
        without: &["oid", "tgname", "tgconstrindid"],
        rows: "x.tgrelid in {relations} and x.tgisinternal",
    },
    of_relation("policies", "pg_policy", "x.polrelid in {relations}"),
    of_relation("views and rules", "pg_rewrite", "x.ev_class in {relations}"),
    of_relation("inheritance", "pg_inherits", "x.inhrelid in {relations}"),
    all("partitioned tables", "pg_partitioned_table"),
    of_relation("definitions of sequences", "pg_sequence", "x.seqrelid in {relations}"),
    of_relation("extended statistics", "pg_statistic_ext", "x.stxrelid in {relations}"),
    Catalogue {
        name: "functions",
        relation: "pg_proc",
        without: &[],
        rows: "x.pronamespace not in {session_schemas}",
    },
    all("aggregates", "pg_aggregate"),
    all("operators", "pg_operator"),
    all("operator classes", "pg_opclass"),
    all("operator families", "pg_opfamily"),
    all("operators of classes", "pg_amop"),
    all("functions of classes", "pg_amproc"),
    all("access methods", "pg_am"),
    all("casts", "pg_cast"),
    all("collations", "pg_collation"),
    all("conversions", "pg_conversion"),
    all("languages", "pg_language"),
    all("transforms", "pg_transform"),
    all("values of enumerations", "pg_enum"),
    all("ranges", "pg_range"),
    all("extensions", "pg_extension"),
    all("event triggers", "pg_event_trigger"),
    all("publications", "pg_publication"),
    all("published tables", "pg_publication_rel"),
    all("published schemas", "pg_publication_namespace"),
    all("foreign data wrappers", "pg_foreign_data_wrapper"),
    all("foreign servers", "pg_foreign_server"),
    all("foreign tables", "pg_foreign_table"),
    all("user mappings", "pg_user_mappings"),
    all("text search configurations", "pg_ts_config"),
    all("text search mappings", "pg_ts_config_map"),
    all("text search dictionaries", "pg_ts_dict"),
    all("text search parsers", "pg_ts_parser"),
    all("text search templates", "pg_ts_template"),
    all("default privileges", "pg_default_acl"),
    all("initial privileges", "pg_init_privs"),
    all("security labels", "pg_seclabel"),
    all("owners of large objects", "pg_largeobject_metadata"),
];

/// The catalogues that all databases of a server share.
const SHARED: &[Catalogue] = &[
    all("roles", "pg_roles"),
    Catalogue { name: "passwords", relation: "pg_authid", without: &[], rows: "true" },
    all("memberships", "pg_auth_members"),
    all("settings of roles and databases", "pg_db_role_setting"),
    Catalogue {
        name: "databases",
        relation: "pg_database",
        // The last is not reset before somebody logs in.
        without: &["datfrozenxid", "datminmxid", "dathasloginevt"],
        rows: "true",
    },
    all("tablespaces", "pg_tablespace"),
    all("privileges on parameters", "pg_parameter_acl"),
    all("shared security labels", "pg_shseclabel"),
];

/// Definitions that are not the row of a catalogue as it stands: indexes by their names instead of their ids; columns
/// without the one value that is of a user's type (what stands for the column in older rows, which are hashed as well);
/// subscriptions without what only superusers may read; and where sequences stand.
const OTHERS: &[(&str, &str)] = &[
    (
        "indexes",
        "select row(c.relname, c.relnamespace, c.relowner, c.relam, c.reltablespace, c.reloptions,
           i.indrelid, i.indisunique, i.indisprimary, i.indisexclusion, i.indimmediate, i.indisclustered, i.indisvalid,
           i.indisready, i.indisreplident, i.indkey, i.indcollation, i.indclass, i.indoption, i.indexprs, i.indpred)::text
           as x
         from pg_index i join pg_class c on c.oid = i.indexrelid where i.indrelid in {relations}",
    ),
    (
        "columns",
        "select row(attrelid, attnum, attname, atttypid, atttypmod, attndims, attnotnull, atthasdef, attidentity,
           attgenerated, attisdropped, attislocal, attinhcount, attcollation, attstorage, attacl, attoptions,
           attfdwoptions)::text as x
         from pg_attribute where attrelid in {relations}",
    ),
    (
        "subscriptions",
        "select row(s.oid, subname, subowner, subenabled, subslotname, subpublications)::text as x
         from pg_subscription s join pg_database d on d.oid = subdbid where d.datname = current_database()",
    ),
    (
        "sequences",
        "select row(schemaname, sequencename, last_value)::text as x from pg_sequences
         where schemaname !~ '^pg_temp_'",
    ),
];

/// Adds the definitions of the database that `client` is connected to, in its transaction.
pub(crate) async fn of_database(
    client: &Client,
    database: &str,
    found: &mut Contents,
) -> Result<(), EngineError> {
    add(client, &contents::key([database]), OF_A_DATABASE, OTHERS, found).await
}

/// Adds the definitions that the server's databases share.
pub(crate) async fn shared(client: &Client, found: &mut Contents) -> Result<(), EngineError> {
    add(client, "all databases", SHARED, &[], found).await
}

async fn add(
    client: &Client,
    place: &str,
    catalogues: &[Catalogue],
    others: &[(&str, &str)],
    found: &mut Contents,
) -> Result<(), EngineError> {
    let fail = |error: Error| read_error(&error);
    let relations: Vec<&str> = catalogues.iter().map(|catalogue| catalogue.relation).collect();
    // Those that this version has, with their columns, and whether this role may read them.
    let known = client
        .query(
            "select c.relname::text, has_table_privilege(c.oid, 'select'), array_agg(a.attname::text order by a.attnum) \
             from pg_class c join pg_attribute a on a.attrelid = c.oid \
             where c.relnamespace = 'pg_catalog'::regnamespace and c.relname = any ($1) \
               and (a.attnum > 0 and not a.attisdropped) group by c.oid, c.relname",
            &[&relations],
        )
        .await
        .map_err(fail)?;
    let mut queries: Vec<String> = others.iter().map(|(name, rows)| hash_of(name, rows)).collect();
    for Catalogue { name, relation, without, rows } in catalogues {
        let Some(row) = known.iter().find(|row| row.get::<_, &str>(0) == *relation) else { continue };
        if !row.get::<_, bool>(1) {
            let why = format!("this source's role may not read {relation}");
            found.left_out.insert(format!("{place} ({name})"), why);
            continue;
        }
        let columns: Vec<&str> = row.get(2);
        let columns: Vec<String> = columns
            .into_iter()
            .filter(|column| !without.contains(column))
            .map(|column| format!("x.{}", quote_identifier(column)))
            .collect();
        let columns = columns.join(", ");
        queries.push(hash_of(
            name,
            &format!("select row({columns})::text as x from pg_catalog.{relation} x where {rows}"),
        ));
    }
    // One question for all of them: many databases of a source are small, and far away.
    for row in client.query(&queries.join(" union all "), &[]).await.map_err(fail)? {
        let count = u64::try_from(row.get::<_, i64>(1)).unwrap_or_default();
        let name: &str = row.get(0);
        found.hashes.insert(
            format!("{place} ({name})"),
            ContentHash { count, hash: row.get::<_, Option<String>>(2).unwrap_or_default() },
        );
    }
    Ok(())
}

/// A query for the number of rows of another, and a hash of them that does not depend on their order.
fn hash_of(name: &str, rows: &str) -> String {
    let rows = rows.replace("{relations}", RELATIONS).replace("{session_schemas}", SESSION_SCHEMAS);
    let name = quote_literal(name);
    // Not MD5: who writes functions could write two of the same hash. No conversion, which might fail.
    format!(
        "select {name}, count(*), encode(sha256(string_agg(h, ''::bytea order by h)), 'hex') \
         from (select sha256(convert_to(x, getdatabaseencoding())) h from ({rows}) q) h"
    )
}
