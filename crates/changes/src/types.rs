//! What the types of columns are made of: whose code writes their values as text, and what that text depends on.

use crate::error::ChangesError;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use tokio_postgres::Client;

/// Each type of a column with all types that its values are made of: elements, bases of domains, bounds of ranges, columns
/// of composites. The function that writes values as text is one of the system's, or of a superuser's, or nobody may run it
/// here. Domains have the function of their base; enumerations, arrays, ranges and composites have the system's, which calls
/// those of their parts.
const MADE_OF: &str = "
with recursive made_of (root, part) as (
  select t.oid, t.oid from unnest($1::oid[]) t (oid)
  union
  select m.root, p.part from made_of m join pg_type t on t.oid = m.part cross join lateral (
    select t.typelem union all select t.typbasetype
    union all select r.rngsubtype from pg_range r where r.rngtypid = t.oid
    union all select r.rngtypid from pg_range r where r.rngmultitypid = t.oid
    union all select a.atttypid from pg_attribute a where a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped
  ) p (part) where p.part <> 0
)
select m.root, m.part, f.oid is not null and (f.oid < 16384 or coalesce(o.rolsuper, false)),
  coalesce(t.oid < 16384 and t.typname ~ '^_?(reg|aclitem$)', false),
  array(select e.oid from pg_enum e where e.enumtypid = m.part order by e.oid),
  array(select e.enumlabel::text from pg_enum e where e.enumtypid = m.part order by e.oid),
  array(select a.atttypid from pg_attribute a where a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped
        order by a.attnum)
from made_of m
left join pg_type t on t.oid = m.part
left join pg_proc f on f.oid = t.typoutput
left join pg_roles o on o.oid = f.proowner";

/// Types of the system whose values are written as names out of the catalogue, or may be: rows of its tables.
const NAMES: &str = "
select t.oid from pg_type t left join pg_type e on e.oid = t.typelem
where t.oid = any($1::oid[]) and (t.typname ~ '^_?(reg|aclitem$)' or t.typtype = 'c' or e.typtype = 'c')";

/// The first id that is not the system's.
const FIRST_OF_USERS: u32 = 16384;

/// What the text of a part's values depends on besides the values.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Definition {
    labels: Vec<(u32, String)>,
    columns: Vec<u32>,
}

/// The type of a column.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Type {
    /// Whether somebody else's code would write its values.
    pub(crate) runs_code: bool,
    /// Whether values are written as names out of the catalogue, which may have others by now.
    pub(crate) names_objects: bool,
    parts: BTreeMap<u32, Definition>,
}

impl Type {
    /// Of which nothing is known.
    pub(crate) fn unknown() -> Type {
        Type { runs_code: true, ..Type::default() }
    }
}

/// All types of columns, by their ids.
pub(crate) type Types = HashMap<u32, Type>;

/// Reads those that are asked for.
pub(crate) async fn read(
    side: &'static str,
    client: &Client,
    wanted: impl Iterator<Item = u32>,
) -> Result<Types, ChangesError> {
    let fail = |source| ChangesError::Server { side, doing: "did not tell what its types are", source };
    let wanted: BTreeSet<u32> = wanted.collect();
    let (of_users, of_system): (Vec<u32>, Vec<u32>) =
        wanted.into_iter().partition(|id| *id >= FIRST_OF_USERS);
    let mut types: Types = of_system.iter().map(|id| (*id, Type::default())).collect();
    for row in client.query(NAMES, &[&of_system]).await.map_err(fail)? {
        types.entry(row.get(0)).or_default().names_objects = true;
    }
    // Most databases have none, and this is the dearest query of all.
    if of_users.is_empty() {
        return Ok(types);
    }
    for row in client.query(MADE_OF, &[&of_users]).await.map_err(fail)? {
        let of_root = types.entry(row.get(0)).or_default();
        of_root.runs_code |= !row.get::<_, bool>(2);
        of_root.names_objects |= row.get::<_, bool>(3);
        let labels = row.get::<_, Vec<u32>>(4).into_iter().zip(row.get::<_, Vec<String>>(5)).collect();
        of_root.parts.insert(row.get(1), Definition { labels, columns: row.get(6) });
    }
    Ok(types)
}
