//! Reading a change set. Nothing of it is used before every byte was held against its digest, and nothing that makes no sense is
//! used at all.

use crate::{
    error::SetError,
    rows,
    set::{
        is_registry, Ddl, Head, StoredTable, COLUMNS_MAX, FORMAT, NAME_BYTES_MAX, ROWS, SEQUENCES,
        STATEMENTS, STATEMENTS_MAX, STATEMENT_BYTES_MAX, TABLES, TABLES_MAX,
    },
    statement,
};
use duramen_changes::{shown_name, Ending, Only, Part, Row, Sequence, Summary};
use duramen_pack::container::{hex, Kind, Pack, Progress, Section, Verified};
use serde::de::DeserializeOwned;
use std::{collections::BTreeSet, path::Path};

/// A change set that was read and checked. Rows stay in the file, and each block is held against its digest again when it is read.
#[derive(Debug)]
pub struct ChangeSet {
    pack: Pack,
    head: Head,
    ddl: Vec<Ddl>,
    tables: Vec<StoredTable>,
    sequences: Vec<Sequence>,
    verified: Verified,
}

impl ChangeSet {
    /// Opens a change set and checks all of it: every byte against its digest, and what it says against itself.
    ///
    /// # Errors
    /// [`SetError`].
    pub fn open(path: &Path) -> Result<ChangeSet, SetError> {
        ChangeSet::open_with(path, &mut |_, _| {})
    }

    /// As [`ChangeSet::open`], and tells how far it is.
    ///
    /// # Errors
    /// [`SetError`].
    pub fn open_with(path: &Path, progress: Progress<'_>) -> Result<ChangeSet, SetError> {
        ChangeSet::of_pack(Pack::open(path)?, progress)
    }

    /// The change set in a pack, checked.
    ///
    /// # Errors
    /// [`SetError`].
    pub fn of_pack(pack: Pack, progress: Progress<'_>) -> Result<ChangeSet, SetError> {
        let pack = pack.expect_kind(Kind::Changes)?;
        let wrong = Wrong(pack.name().to_owned());
        let head = head_of(&pack)?;
        if head.statements > STATEMENTS_MAX || head.tables > TABLES_MAX || head.sequences > TABLES_MAX {
            return Err(wrong.is("it holds more than a change set may"));
        }
        let ddl: Vec<Ddl> = records(&pack, &wrong, STATEMENTS, head.statements)?;
        let tables: Vec<StoredTable> = records(&pack, &wrong, TABLES, head.tables)?;
        let sequences: Vec<Sequence> = records(&pack, &wrong, SEQUENCES, head.sequences)?;
        for (number, ddl) in (1..).zip(&ddl) {
            let refused = match ddl.sql.len() > STATEMENT_BYTES_MAX {
                true => Some("it is too long"),
                false => statement::refused(&ddl.sql),
            };
            if let Some(why) = refused {
                return Err(wrong.is(&format!("its statement {number} is refused: {why}")));
            }
        }
        check_tables(&wrong, &tables)?;
        for sequence in &sequences {
            check_name(&wrong, &sequence.schema, true)?;
            check_name(&wrong, &sequence.name, false)?;
        }
        let verified = Verified::default();
        let mut set = ChangeSet { pack, head, ddl, tables, sequences, verified };
        set.verified = set.check_rows(&wrong, progress)?;
        Ok(set)
    }

    /// What a change set says of itself. Only that much of it is checked.
    ///
    /// # Errors
    /// [`SetError`].
    pub fn head_of(pack: &Pack) -> Result<Head, SetError> {
        head_of(pack)
    }

    /// What it says of itself.
    #[must_use]
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// The digest that proves all of it: what is signed.
    #[must_use]
    pub fn root_digest(&self) -> [u8; 32] {
        self.pack.root_digest()
    }

    /// The digest that proves all of it, in hexadecimal digits: it is what databases remember of an applied change set.
    #[must_use]
    pub fn digest(&self) -> String {
        hex(&self.pack.root_digest())
    }

    /// What was found right when it was opened.
    #[must_use]
    pub fn verified(&self) -> Verified {
        self.verified
    }

    /// Bytes of the file.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.pack.size()
    }

    /// The statements that change definitions, in the order in which they run.
    #[must_use]
    pub fn ddl(&self) -> &[Ddl] {
        &self.ddl
    }

    /// The sequences that moved, came or went.
    #[must_use]
    pub fn sequences(&self) -> &[Sequence] {
        &self.sequences
    }

    pub(crate) fn tables(&self) -> &[StoredTable] {
        &self.tables
    }

    /// The blocks that hold the rows of a table, in their order.
    pub(crate) fn blocks(&self, table: usize) -> Result<Blocks<'_>, SetError> {
        let wrong = Wrong(self.pack.name().to_owned());
        let section = self.pack.section(ROWS)?.ok_or_else(|| wrong.is("it has no rows"))?;
        let begin = crate::write::key(table, 0);
        let first = section.find(&begin).filter(|block| section.first_key(*block) == begin);
        let next = first.unwrap_or(section.blocks());
        let columns = self.tables.get(table).map_or(0, |stored| stored.table.columns.len());
        Ok(Blocks { set: self, section, table, next, columns, bytes: Vec::new() })
    }

    /// Tells what differs as a comparison does, with at most `limit` rows.
    ///
    /// # Errors
    /// [`SetError`], when the file cannot be read any more.
    pub fn parts(&self, limit: u64, each: &mut dyn FnMut(&Part)) -> Result<(), SetError> {
        let mut left = limit;
        for (number, StoredTable { table, rows }) in self.tables.iter().enumerate() {
            each(&Part::Table(table.clone()));
            let mut listed = 0;
            let mut blocks = self.blocks(number)?;
            while left > 0 {
                let Some(rows) = blocks.next()? else { break };
                for row in rows.into_iter().take(usize::try_from(left).unwrap_or(usize::MAX)) {
                    left -= 1;
                    listed += 1;
                    each(&Part::Row(row));
                }
            }
            each(&Part::Ending(Ending { listed, ..*rows }));
        }
        for sequence in &self.sequences {
            each(&Part::Sequence(sequence.clone()));
        }
        let rows = Ending { listed: limit - left, ..self.head.rows };
        let tables = self.tables.len() as u64;
        let differing = self.tables.iter().filter(|it| it.rows.total() > 0).count() as u64;
        each(&Part::Summary(Summary { tables, differing, rows, sequences: self.sequences.len() as u64 }));
        Ok(())
    }

    /// Every byte against its digest, and every row against its table.
    fn check_rows(&self, wrong: &Wrong, progress: Progress<'_>) -> Result<Verified, SetError> {
        let section = self.pack.section(ROWS)?.ok_or_else(|| wrong.is("it has no rows"))?;
        let mut counted = vec![Ending::default(); self.tables.len()];
        let mut last = None;
        let mut inspect = |name: &str, block: usize, bytes: &[u8]| -> Result<(), SetError> {
            if name != ROWS {
                return Ok(());
            }
            let number = table_of(&section, block).filter(|number| last.is_none_or(|last| last <= *number));
            last = number;
            let stored = number.and_then(|number| self.tables.get(number));
            let (Some(number), Some(stored)) = (number, stored) else {
                return Err(wrong.is("rows in it belong to no table"));
            };
            let counts = &mut counted[number];
            if section.first_key(block) != crate::write::key(number, counts.total()) {
                return Err(wrong.is("rows in it are missing"));
            }
            let mut at = 0;
            while at < bytes.len() {
                let row = rows::get(bytes, &mut at, stored.table.columns.len())
                    .map_err(|what| wrong.is(&format!("a row {what}")))?;
                check_row(stored, &row).map_err(|what| {
                    wrong.is(&format!(
                        "a row of {} {what}",
                        shown_name(&stored.table.schema, &stored.table.name)
                    ))
                })?;
                match (&row.old, &row.new) {
                    (Some(_), Some(_)) => counts.changed += 1,
                    (Some(_), None) => counts.removed += 1,
                    _ => counts.added += 1,
                }
                counts.listed += 1;
            }
            Ok(())
        };
        let verified = self.pack.verify_with(progress, &mut inspect)?;
        for (counts, stored) in counted.iter().zip(&self.tables) {
            if *counts != stored.rows {
                let name = shown_name(&stored.table.schema, &stored.table.name);
                return Err(wrong.is(&format!("it has not as many rows of {name} as it says")));
            }
        }
        let said = Ending { listed: self.head.rows.total(), ..self.head.rows };
        if said != sum(&counted) {
            return Err(wrong.is("it has not as many rows as it says"));
        }
        Ok(verified)
    }
}

fn sum(counted: &[Ending]) -> Ending {
    counted.iter().fold(Ending::default(), |sum, each| Ending {
        added: sum.added + each.added,
        removed: sum.removed + each.removed,
        changed: sum.changed + each.changed,
        listed: sum.listed + each.listed,
    })
}

/// The rows of a table, a block at a time.
pub(crate) struct Blocks<'a> {
    set: &'a ChangeSet,
    section: Section,
    table: usize,
    next: usize,
    columns: usize,
    bytes: Vec<u8>,
}

impl Blocks<'_> {
    /// The rows of the next block, held against its digest; `None` behind the last.
    pub(crate) fn next(&mut self) -> Result<Option<Vec<Row>>, SetError> {
        if self.next >= self.section.blocks() || table_of(&self.section, self.next) != Some(self.table) {
            return Ok(None);
        }
        self.section.read(self.next, &mut self.bytes)?;
        self.next += 1;
        let (mut rows, mut at) = (Vec::new(), 0);
        while at < self.bytes.len() {
            let row = rows::get(&self.bytes, &mut at, self.columns);
            let wrong = Wrong(self.set.pack.name().to_owned());
            rows.push(row.map_err(|what| wrong.is(&format!("a row {what}")))?);
        }
        Ok(Some(rows))
    }
}

/// Errors about one file.
struct Wrong(String);

impl Wrong {
    fn is(&self, what: &str) -> SetError {
        SetError::Malformed { file: self.0.clone(), what: what.to_owned() }
    }
}

fn head_of(pack: &Pack) -> Result<Head, SetError> {
    let file = pack.name().to_owned();
    let manifest = pack.manifest()?;
    // A later format may have other fields.
    let value: serde_json::Value = serde_json::from_slice(&manifest).map_err(|error| {
        SetError::Malformed { file: file.clone(), what: format!("its manifest: {error}") }
    })?;
    let found = value.get("format").and_then(serde_json::Value::as_u64).unwrap_or(0);
    if found > u64::from(FORMAT) {
        let found = u32::try_from(found).unwrap_or(u32::MAX);
        return Err(SetError::Newer { file, found, known: FORMAT });
    }
    serde_json::from_value(value)
        .map_err(|error| SetError::Malformed { file, what: format!("its manifest: {error}") })
}

fn table_of(section: &Section, block: usize) -> Option<usize> {
    let key: [u8; 12] = section.first_key(block).try_into().ok()?;
    let (table, _) = key.split_at(4);
    Some(u32::from_be_bytes(table.try_into().ok()?) as usize)
}

fn records<T: DeserializeOwned>(
    pack: &Pack,
    wrong: &Wrong,
    name: &str,
    expected: u64,
) -> Result<Vec<T>, SetError> {
    let section = pack.section(name)?.ok_or_else(|| wrong.is(&format!("it has no section {name}")))?;
    let (mut all, mut bytes) = (Vec::new(), Vec::new());
    for block in 0..section.blocks() {
        section.read(block, &mut bytes)?;
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            if all.len() as u64 >= expected {
                return Err(wrong.is(&format!("its section {name} has more than it says")));
            }
            let record = serde_json::from_slice(line)
                .map_err(|error| wrong.is(&format!("its section {name}: {error}")))?;
            all.push(record);
        }
    }
    if all.len() as u64 != expected {
        return Err(wrong.is(&format!("its section {name} has less than it says")));
    }
    Ok(all)
}

/// A name that a table of users can have. Those of the system are nobody's to change.
fn check_name(wrong: &Wrong, name: &str, is_schema: bool) -> Result<(), SetError> {
    let is_of_system = is_schema && (name.starts_with("pg_") || name == "information_schema");
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains('\0') || is_of_system {
        return Err(wrong.is(&format!("{name:?} cannot be the name of what users have")));
    }
    Ok(())
}

fn check_tables(wrong: &Wrong, tables: &[StoredTable]) -> Result<(), SetError> {
    let mut names = BTreeSet::new();
    for StoredTable { table, rows } in tables {
        check_name(wrong, &table.schema, true)?;
        check_name(wrong, &table.name, false)?;
        let shown = shown_name(&table.schema, &table.name);
        if is_registry(&table.schema, &table.name) {
            return Err(wrong.is(&format!("{shown} is not carried")));
        }
        if !names.insert((&table.schema, &table.name)) {
            return Err(wrong.is(&format!("{shown} stands in it twice")));
        }
        let mut columns = BTreeSet::new();
        for column in &table.columns {
            check_name(wrong, &column.name, false)?;
            if !columns.insert(&column.name) {
                return Err(wrong.is(&format!("{shown} has the column {:?} twice", column.name)));
            }
        }
        let places: BTreeSet<usize> = table.key.iter().copied().collect();
        let is_key =
            |place: &usize| table.columns.get(*place).is_some_and(|column| !table.is_new(&column.name));
        if columns.len() > COLUMNS_MAX || places.len() != table.key.len() || !places.iter().all(is_key) {
            return Err(wrong.is(&format!("the columns of {shown} make no sense")));
        }
        let is_cut = rows.listed != rows.total();
        if is_cut || (columns.is_empty() && rows.total() > 0) {
            return Err(wrong.is(&format!("it does not hold all rows of {shown}")));
        }
    }
    Ok(())
}

fn check_row(stored: &StoredTable, row: &Row) -> Result<(), &'static str> {
    let table = &stored.table;
    match table.only_in {
        Some(Only::Branch) if row.old.is_some() => return Err("was there before its table"),
        Some(Only::Snapshot) if row.new.is_some() => return Err("is there without its table"),
        _ => {}
    }
    let sides = [&row.old, &row.new];
    for values in sides.into_iter().flatten() {
        if table.key.iter().any(|place| values.get(*place).is_none_or(Option::is_none)) {
            return Err("has no key");
        }
    }
    if let (Some(old), Some(new)) = (&row.old, &row.new) {
        if table.key.is_empty() {
            return Err("was changed without a key");
        }
        if table.key.iter().any(|place| old.get(*place) != new.get(*place)) {
            return Err("was changed in its key");
        }
    }
    Ok(())
}
