//! How a table is compared: by which columns and which key, and whether its blocks tell what changed.

use crate::{
    catalogue::{CatalogueColumn, Relation},
    change::{Column, LeftOut, Only, GENERATED},
    types::{Type, Types},
};

/// Why all of a table is read. What each means stands in `docs/design/changes.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// It lies in another file.
    Rewritten,
    /// It is unlogged on a side.
    Unlogged,
    /// A column has another number or type than the one of that name had.
    Columns,
    /// The text of a column's values may depend on what changed since.
    Types,
    /// A `SELECT` would run somebody's code.
    Code,
    /// Another access method keeps its rows.
    NotHeap,
    /// It was written to when the snapshot was taken.
    Written,
    /// One side does not have it.
    OneSided,
    /// The sides were made apart, and share no block of it that could be trusted.
    Apart,
}

impl std::fmt::Display for Full {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Full::Rewritten => "it was truncated, rewritten or made anew",
            Full::Unlogged => "it is unlogged",
            Full::Columns => "columns of it were made anew or have other types",
            Full::Types => "the text of its values depends on the catalogue",
            Full::Code => "its indexes or statistics call functions of users",
            Full::NotHeap => "its access method is not heap",
            Full::Written => "it was being written when the snapshot was taken",
            Full::OneSided => "the other side does not have it",
            Full::Apart => "no block of it is known to be the same on both sides",
        })
    }
}

/// How one table is compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) schema: String,
    pub(crate) name: String,
    pub(crate) columns: Vec<Column>,
    /// The last so many of `columns` are the branch's alone.
    pub(crate) new_columns: NewColumns,
    pub(crate) key: Vec<usize>,
    pub(crate) left_out: Vec<LeftOut>,
    pub(crate) only_in: Option<Only>,
    /// The file whose blocks tell what changed, or why none does.
    pub(crate) file: Result<String, Full>,
    /// Whether a side may be read only by what plans nothing.
    pub(crate) runs_code: bool,
}

/// Columns that the branch alone has, and whose values are told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct NewColumns {
    /// How many.
    pub(crate) count: usize,
    /// Whether a column that is added with the same definition may have another value than NULL in the rows that are there:
    /// then all rows of the branch are told.
    pub(crate) are_filled: bool,
}

/// One side of a table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Half<'a> {
    pub(crate) relation: &'a Relation,
    pub(crate) types: &'a Types,
}

impl Half<'_> {
    fn type_of(&self, column: &CatalogueColumn) -> Type {
        self.types.get(&column.type_id).cloned().unwrap_or_else(Type::unknown)
    }

    /// Why a column is not compared.
    fn refuses(&self, column: &CatalogueColumn) -> Option<&'static str> {
        if column.is_generated {
            Some(GENERATED)
        } else if self.type_of(column).runs_code {
            Some("its type is not written as text by functions of the system or of a superuser")
        } else {
            None
        }
    }
}

/// Plans the comparison of a table that both sides have. `written` is whether its blocks cannot be trusted for what was
/// going on when the snapshot was taken, `whole` whether columns that the branch alone has are told too.
pub(crate) fn both(old: Half<'_>, new: Half<'_>, written: bool, whole: bool) -> Plan {
    let mut plan = empty(new.relation, None);
    plan.runs_code = old.relation.runs_code || new.relation.runs_code;
    let (mut numbers, mut added) = (Vec::new(), Vec::new());
    let (mut same_columns, mut same_types) = (true, true);
    for column in &new.relation.columns {
        let Some(before) = old.relation.columns.iter().find(|it| it.name == column.name) else {
            match new.refuses(column).filter(|_| whole) {
                Some(why) => plan.left_out.push(refused(column, why)),
                None => {
                    plan.left_out.push(one_sided(column, Only::Branch));
                    if whole {
                        plan.new_columns.count += 1;
                        plan.new_columns.are_filled |= column.is_filled;
                        added.push(shown(column));
                    }
                }
            }
            continue;
        };
        if let Some(why) = new.refuses(column).or_else(|| old.refuses(before)) {
            plan.left_out.push(refused(column, why));
            continue;
        }
        same_columns &= before.number == column.number && before.type_id == column.type_id;
        let is = new.type_of(column);
        same_types &= !is.names_objects && is == old.type_of(before);
        numbers.push((before.number, column.number));
        plan.columns.push(shown(column));
    }
    for column in &old.relation.columns {
        if !new.relation.columns.iter().any(|it| it.name == column.name) {
            plan.left_out.push(one_sided(column, Only::Snapshot));
        }
    }
    plan.key = key(&old.relation.keys, &new.relation.keys, &numbers);
    if plan.columns.is_empty() {
        // Without a column of both there are no rows to tell more of.
        plan.new_columns = NewColumns::default();
    } else {
        plan.columns.append(&mut added);
    }
    plan.file = match (&old.relation.file, &new.relation.file) {
        _ if !(old.relation.is_heap && new.relation.is_heap) => Err(Full::NotHeap),
        _ if old.relation.is_unlogged || new.relation.is_unlogged => Err(Full::Unlogged),
        (Some(old), Some(new)) if old == new => {
            if written {
                Err(Full::Written)
            } else if !same_columns || plan.new_columns.are_filled {
                Err(Full::Columns)
            } else if !same_types {
                Err(Full::Types)
            } else {
                Ok(new.clone())
            }
        }
        _ => Err(Full::Rewritten),
    };
    plan
}

/// Plans the reading of a table that one side has.
pub(crate) fn one(half: Half<'_>, side: Only) -> Plan {
    let mut plan = empty(half.relation, Some(side));
    plan.runs_code = half.relation.runs_code;
    let mut numbers = Vec::new();
    for column in &half.relation.columns {
        match half.refuses(column) {
            Some(why) => plan.left_out.push(refused(column, why)),
            None => {
                numbers.push((column.number, column.number));
                plan.columns.push(shown(column));
            }
        }
    }
    plan.key = key(&half.relation.keys, &half.relation.keys, &numbers);
    plan
}

fn empty(relation: &Relation, only_in: Option<Only>) -> Plan {
    Plan {
        schema: relation.schema.clone(),
        name: relation.name.clone(),
        columns: Vec::new(),
        new_columns: NewColumns::default(),
        key: Vec::new(),
        left_out: Vec::new(),
        only_in,
        file: Err(Full::OneSided),
        runs_code: false,
    }
}

fn one_sided(column: &CatalogueColumn, side: Only) -> LeftOut {
    let why = match side {
        Only::Branch => "the branch alone has it",
        Only::Snapshot => "the snapshot alone has it",
    };
    LeftOut { name: column.name.clone(), only_in: Some(side), why: why.to_owned() }
}

fn refused(column: &CatalogueColumn, why: &str) -> LeftOut {
    LeftOut { name: column.name.clone(), only_in: None, why: why.to_owned() }
}

fn shown(column: &CatalogueColumn) -> Column {
    Column {
        name: column.name.clone(),
        type_name: column.type_name.clone(),
        is_always_generated: column.is_identity_always,
    }
}

/// The places of the columns of the best key of the snapshot's that is one in the branch too. `numbers` are those of the
/// columns that are compared, there and here.
fn key(old: &[Vec<i16>], new: &[Vec<i16>], numbers: &[(i16, i16)]) -> Vec<usize> {
    let places = |key: &Vec<i16>, side: fn(&(i16, i16)) -> i16| -> Option<Vec<usize>> {
        key.iter().map(|number| numbers.iter().position(|it| side(it) == *number)).collect()
    };
    let sorted = |mut places: Vec<usize>| {
        places.sort_unstable();
        places
    };
    let there: Vec<Vec<usize>> = new.iter().filter_map(|key| places(key, |it| it.1)).map(sorted).collect();
    let here = old.iter().filter_map(|key| places(key, |it| it.0));
    here.into_iter().find(|places| there.contains(&sorted(places.clone()))).unwrap_or_default()
}
