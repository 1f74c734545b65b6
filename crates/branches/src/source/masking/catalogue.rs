//! What rules are about: the tables of a database with their columns, families and foreign keys.

use super::{class::Class, failed, labels, Failure};
use std::collections::{BTreeMap, HashMap};
use tokio_postgres::{Client, Row};

/// A table, or a part of one.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) id: u32,
    pub(super) schema: String,
    pub(super) name: String,
    /// As in `pg_class`.
    pub(super) kind: char,
    /// Those that inherit from it, and its partitions.
    pub(super) children: Vec<u32>,
    pub(super) columns: Vec<Column>,
    /// The numbers of the columns of its primary key.
    pub(super) primary: Vec<i16>,
}

/// A column.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) number: i16,
    pub(super) name: String,
    /// That of the type below all domains, and its modifier.
    pub(super) base: (u32, i32),
    /// The type below all domains as in statements, with its modifier.
    pub(super) base_name: String,
    pub(super) type_name: String,
    pub(super) not_null: bool,
    /// Whether it is part of a unique index, and whether one has it alone.
    pub(super) unique: bool,
    pub(super) unique_alone: bool,
    pub(super) generated: bool,
    pub(super) partition_key: bool,
}

impl Column {
    pub(super) fn class(&self) -> Option<Class> {
        Class::of(self.base.0, self.base.1)
    }
}

/// A foreign key: columns of a table refer to those of another.
#[derive(Debug)]
pub(super) struct ForeignKey {
    pub(super) name: String,
    pub(super) table: u32,
    pub(super) columns: Vec<i16>,
    pub(super) target: u32,
    pub(super) target_columns: Vec<i16>,
    /// `operator(schema.name)` by which each pair is compared, the target's column on the left.
    pub(super) operators: Vec<String>,
    /// Whether it is the copy that a partition has of the key of its table.
    pub(super) inherited: bool,
    /// Whether it is known to hold for all rows.
    pub(super) validated: bool,
}

/// A label of PostgreSQL Anonymizer.
#[derive(Debug)]
pub(super) struct Label {
    pub(super) table: u32,
    /// 0 for one of the table.
    pub(super) column: i16,
    pub(super) text: String,
}

/// The tables of a database.
#[derive(Debug)]
pub(super) struct Catalogue {
    pub(super) tables: BTreeMap<u32, Table>,
    pub(super) keys: Vec<ForeignKey>,
    pub(super) labels: Vec<Label>,
}

impl Table {
    /// As in messages and rules.
    pub(super) fn plain_name(&self) -> String {
        format!("{}.{}", self.schema, self.name)
    }

    /// As in statements.
    pub(super) fn quoted(&self) -> String {
        use duramen_postgres::quote_identifier;
        format!("{}.{}", quote_identifier(&self.schema), quote_identifier(&self.name))
    }

    pub(super) fn column(&self, number: i16) -> Option<&Column> {
        self.columns.iter().find(|column| column.number == number)
    }

    pub(super) fn column_named(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }
}

const TABLES: &str = "select c.oid, n.nspname::text, c.relname::text, c.relkind from pg_catalog.pg_class c \
     join pg_catalog.pg_namespace n on n.oid = c.relnamespace \
     where c.relkind in ('r', 'p', 'f', 'v', 'm') and c.oid >= 16384::oid and c.relpersistence <> 't'";

const COLUMNS: &str = "select a.attrelid, a.attnum, a.attname::text, a.atttypid, a.atttypmod, \
     pg_catalog.format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attgenerated <> '' \
     from pg_catalog.pg_attribute a where a.attnum > 0::int2 and not a.attisdropped and a.attrelid >= 16384::oid \
     order by a.attrelid, a.attnum";

const DOMAINS: &str = "select t.oid, t.typbasetype, t.typtypmod, \
     pg_catalog.format_type(t.typbasetype, t.typtypmod) from pg_catalog.pg_type t where t.typtype = 'd'";

const UNIQUE: &str =
    "select i.indrelid, i.indkey::pg_catalog.int2[], i.indnkeyatts from pg_catalog.pg_index i \
     where i.indisunique and i.indrelid >= 16384::oid";

const PRIMARY: &str = "select i.indrelid, i.indkey::pg_catalog.int2[] from pg_catalog.pg_index i \
     where i.indisprimary and i.indrelid >= 16384::oid";

const PARTITION_KEYS: &str = "select p.partrelid, k.number from pg_catalog.pg_partitioned_table p, \
     pg_catalog.unnest(p.partattrs) k (number)";

const INHERITANCE: &str = "select i.inhparent, i.inhrelid from pg_catalog.pg_inherits i";

const KEYS: &str = "select f.conname::text, f.conrelid, f.conkey, f.confrelid, f.confkey, f.conparentid <> 0::oid, f.convalidated, \
     (select pg_catalog.array_agg(pg_catalog.quote_ident(n.nspname::text) || '.' || o.oprname::text order by e.place) \
      from pg_catalog.unnest(f.conpfeqop) with ordinality e (id, place) \
      join pg_catalog.pg_operator o on o.oid = e.id join pg_catalog.pg_namespace n on n.oid = o.oprnamespace) \
     from pg_catalog.pg_constraint f where f.contype = 'f'";

const LABELS: &str = "select l.objoid, l.objsubid, l.label from pg_catalog.pg_seclabel l \
     where l.provider = $1::text and l.classoid = 1259::oid";

/// Whether a database has labels, and on what: for sources that do not ask for masking.
pub(super) async fn labelled(client: &Client, database: &str) -> Result<Vec<String>, Failure> {
    let any = "select exists (select from pg_catalog.pg_seclabel l where l.provider = $1::text)";
    let any = client.query_one(any, &[&labels::PROVIDER]).await.map_err(failed("looking for labels"))?;
    if !any.get::<_, bool>(0) {
        return Ok(Vec::new());
    }
    let catalogue = Catalogue::read(client).await?;
    let is_rule =
        |label: &&Label| label.column != 0 && labels::rule(&label.text) != Some(crate::model::Mask::Keep);
    let named = catalogue.labels.iter().filter(is_rule).filter_map(|label| {
        let table = catalogue.tables.get(&label.table)?;
        Some(format!("{database}: {}.{}", table.plain_name(), table.column(label.column)?.name))
    });
    Ok(named.collect())
}

impl Catalogue {
    pub(super) async fn read(client: &Client) -> Result<Catalogue, Failure> {
        let doing = "reading the catalogue";
        let query = |sql| async move { client.query(sql, &[]).await.map_err(failed(doing)) };
        let mut tables = BTreeMap::new();
        for row in query(TABLES).await? {
            let kind = char::from(u8::try_from(row.get::<_, i8>(3)).unwrap_or(b'?'));
            let (schema, name) = (row.get(1), row.get(2));
            let id = row.get(0);
            let (children, columns, primary) = (Vec::new(), Vec::new(), Vec::new());
            let table = Table { id, schema, name, kind, children, columns, primary };
            tables.insert(table.id, table);
        }
        let domain = |row: &Row| (row.get(0), ((row.get(1), row.get(2)), row.get(3)));
        let domains: HashMap<u32, ((u32, i32), String)> = query(DOMAINS).await?.iter().map(domain).collect();
        for row in query(COLUMNS).await? {
            let Some(table) = tables.get_mut(&row.get::<_, u32>(0)) else { continue };
            let mut base: (u32, i32) = (row.get(3), row.get(4));
            let mut base_name: String = row.get(5);
            // A domain over a domain has the modifier that is nearest to the type.
            for _ in 0..domains.len() {
                let Some((below, name)) = domains.get(&base.0) else { break };
                base = *below;
                base_name.clone_from(name);
            }
            table.columns.push(Column {
                number: row.get(1),
                name: row.get(2),
                base,
                base_name,
                type_name: row.get(5),
                not_null: row.get(6),
                unique: false,
                unique_alone: false,
                generated: row.get(7),
                partition_key: false,
            });
        }
        for row in query(UNIQUE).await? {
            let (numbers, keys): (Vec<i16>, i16) = (row.get(1), row.get(2));
            let numbers = &numbers[..usize::try_from(keys).unwrap_or_default().min(numbers.len())];
            let columns = tables.get_mut(&row.get::<_, u32>(0)).map(|table| &mut table.columns);
            for column in columns.into_iter().flatten().filter(|column| numbers.contains(&column.number)) {
                column.unique = true;
                column.unique_alone |= numbers.len() == 1;
            }
        }
        for row in query(PRIMARY).await? {
            if let Some(table) = tables.get_mut(&row.get::<_, u32>(0)) {
                table.primary = row.get(1);
            }
        }
        for row in query(PARTITION_KEYS).await? {
            let number: i16 = row.get(1);
            let columns = tables.get_mut(&row.get::<_, u32>(0)).map(|table| &mut table.columns);
            for column in columns.into_iter().flatten().filter(|column| column.number == number) {
                column.partition_key = true;
            }
        }
        for row in query(INHERITANCE).await? {
            if let Some(parent) = tables.get_mut(&row.get::<_, u32>(0)) {
                parent.children.push(row.get(1));
            }
        }
        let keys = query(KEYS).await?;
        let keys = keys.iter().map(|row| ForeignKey {
            name: row.get(0),
            table: row.get(1),
            columns: row.get(2),
            target: row.get(3),
            target_columns: row.get(4),
            inherited: row.get(5),
            validated: row.get(6),
            operators: row.get::<_, Vec<String>>(7).iter().map(|name| format!("operator({name})")).collect(),
        });
        let keys = keys.collect();
        let labels = client.query(LABELS, &[&labels::PROVIDER]).await.map_err(failed(doing))?;
        let label = |row: &Row| Label {
            table: row.get(0),
            column: i16::try_from(row.get::<_, i32>(1)).unwrap_or_default(),
            text: row.get(2),
        };
        Ok(Catalogue { tables, keys, labels: labels.iter().map(label).collect() })
    }

    pub(super) fn named(&self, schema: &str, name: &str) -> Option<&Table> {
        self.tables.values().find(|table| table.schema == schema && table.name == name)
    }

    /// A table and all that inherit from it, those first that hold none of their own rows last.
    pub(super) fn family(&self, id: u32) -> Vec<&Table> {
        let mut found: Vec<&Table> = Vec::new();
        let mut open = vec![id];
        while let Some(id) = open.pop() {
            if let Some(table) = self.tables.get(&id).filter(|_| found.iter().all(|it| it.id != id)) {
                found.push(table);
                open.extend(&table.children);
            }
        }
        found
    }

    /// The tables of a family that hold rows in files of their own.
    pub(super) fn storing(&self, id: u32) -> impl Iterator<Item = &Table> {
        self.family(id).into_iter().filter(|table| table.kind == 'r')
    }

    /// What finds the rows of `part`, a table of the referring family, that refer to nothing: their `ctid`.
    pub(super) fn orphans(&self, key: &ForeignKey, part: &Table) -> Option<String> {
        use duramen_postgres::quote_identifier;
        let (own, target) = (self.tables.get(&key.table)?, self.tables.get(&key.target)?);
        let mut present = Vec::new();
        let mut equal = Vec::new();
        for ((column, other), operator) in key.columns.iter().zip(&key.target_columns).zip(&key.operators) {
            // By name: a part may have its columns in another order.
            let column = part.column_named(&own.column(*column)?.name)?;
            let column = format!("r.{}", quote_identifier(&column.name));
            let other = format!("t.{}", quote_identifier(&target.column(*other)?.name));
            present.push(format!("{column} is not null"));
            equal.push(format!("{other} {operator} {column}"));
        }
        // A key to a table that others inherit from is one to its own rows; one to a partitioned table to all.
        let only = if target.kind == 'p' { "" } else { "only " };
        Some(format!(
            "select r.ctid from only {} r where {} and not exists (select from {only}{} t where {})",
            part.quoted(),
            present.join(" and "),
            target.quoted(),
            equal.join(" and ")
        ))
    }
}
