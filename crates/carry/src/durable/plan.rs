//! What an instance does with rows that were brought, written down line by line: the statements are those of an application from
//! outside, over tables that stay.

use crate::{
    apply::{
        check::{self, common},
        conflict::LISTED_MAX,
        order::parents_first,
        registry,
        run::{Run, PINS},
        sql::{self, Side},
        stage::Staged,
        target::Catalogue,
        Triggers,
    },
    error::ApplyError,
    read::ChangeSet,
};
use duramen_changes::{shown_name, Sequence, SequenceState};
use duramen_postgres::{quote_identifier, quote_literal};
use serde_json::{json, Value};

/// The text of the function, with words in double braces.
const RUN: &str = include_str!("run.sql");
/// Bytes of conflicts that are told.
const TOLD_MAX: u32 = 1 << 20;
/// Characters of a failure that are told.
const MESSAGE_MAX: u32 = 10_000;
/// The stage in which it is looked whether all is as it was, those of the two orders, and that in which it is written down.
const LOOK: i32 = 0;
const ORDERS: [i32; 2] = [1, 2];
const MARK: i32 = 9;

/// A line of the plan.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) stage: i32,
    pub(super) kind: &'static str,
    pub(super) doing: String,
    pub(super) sql: String,
    pub(super) expected: Option<i64>,
    pub(super) about: Value,
}

/// Rows of a table that were brought, by side.
#[derive(Debug, Clone, Default)]
pub(super) struct Brought {
    pub(super) old: Option<Staged>,
    pub(super) new: Option<Staged>,
}

struct Plan<'a> {
    home: &'a str,
    set: &'a ChangeSet,
    here: &'a Catalogue,
    brought: &'a [Brought],
    lines: Vec<Line>,
}

impl Plan<'_> {
    fn add(
        &mut self,
        stage: i32,
        kind: &'static str,
        doing: impl Into<String>,
        sql: impl Into<String>,
    ) -> &mut Line {
        let (doing, sql) = (doing.into(), sql.into());
        self.lines.push(Line { stage, kind, doing, sql, expected: None, about: json!({}) });
        self.lines.last_mut().expect("it was pushed just now")
    }

    fn shown(&self, number: usize) -> String {
        let table = &self.set.tables()[number].table;
        shown_name(&table.schema, &table.name)
    }

    /// What is looked at before anything is changed.
    fn look(&mut self) {
        for (number, stored) in self.set.tables().iter().enumerate() {
            let (Some(here), shown) = (&self.here.tables[number], self.shown(number)) else { continue };
            let room = LISTED_MAX + 1;
            if self.brought[number].old.is_some() {
                let looks = check::old_rows_of(self.home, number, stored, here, room);
                if let Some(lock) = looks.lock_table {
                    self.add(LOOK, "run", format!("locking {shown}"), lock);
                }
                if let Some(lock) = looks.lock_rows {
                    self.add(LOOK, "run", format!("locking rows of {shown}"), lock);
                }
                let kind = if stored.table.key.is_empty() { "few" } else { "old" };
                let doing = format!("comparing the rows of {shown}");
                self.add(LOOK, "conflicts", doing, looks.compare).about =
                    json!({ "table": number, "kind": kind });
            }
            if stored.rows.added > 0 {
                if let Some(sql) = check::new_rows_of(self.home, number, &stored.table, here, room) {
                    let doing = format!("looking for new rows in {shown}");
                    self.add(LOOK, "conflicts", doing, sql).about = json!({ "table": number, "kind": "new" });
                }
            }
        }
        self.add(LOOK, "refuse", "looking whether all is as it was", "");
    }

    fn order(&mut self, stage: i32, parts: &[Side], triggers: Triggers) {
        self.add(stage, "run", "deferring constraints", "SET CONSTRAINTS ALL DEFERRED");
        if triggers == Triggers::Off {
            self.switch(stage, false);
        }
        for part in parts {
            match part {
                Side::Old => self.delete(stage),
                Side::Early => self.update(stage),
                _ => self.insert(stage),
            }
        }
        self.add(stage, "usual", "setting the session back", "");
        self.add(stage, "run", "checking constraints", "SET CONSTRAINTS ALL IMMEDIATE");
        self.add(stage, "pin", "setting how values are written", "");
        if triggers == Triggers::Off {
            self.switch(stage, true);
        }
    }

    fn delete(&mut self, stage: i32) {
        let is_brought: Vec<bool> = self.brought.iter().map(|it| it.old.is_some()).collect();
        for number in parents_first(self.here).into_iter().rev() {
            let table = &self.set.tables()[number].table;
            let (Some(staged), Some(found)) = (&self.brought[number].old, &self.here.tables[number]) else {
                continue;
            };
            if staged.single == 0 {
                continue;
            }
            let (shown, single) = (self.shown(number), staged.single);
            self.add(stage, "pin", "setting how values are written", "");
            for referring in check::referring_rows_of(self.home, self.set, number, self.here, &is_brought) {
                let doing = format!("looking who refers to {shown}");
                self.add(stage, "conflicts", doing, referring.sql).about =
                    json!({ "table": number, "kind": "referring", "by": referring.by });
            }
            self.add(stage, "refuse", "looking who refers to it", "");
            let sql = match table.key.is_empty() {
                true => sql::delete_whole(table, self.home, number, &common(table)),
                false => sql::delete(table, found, self.home, number),
            };
            // Rows without a key are compared by their texts.
            if !table.key.is_empty() {
                self.add(stage, "usual", "setting the session back", "");
            }
            self.write(stage, format!("deleting from {shown}"), sql, single, "deleted");
        }
    }

    fn update(&mut self, stage: i32) {
        self.add(stage, "usual", "setting the session back", "");
        for number in parents_first(self.here) {
            let table = &self.set.tables()[number].table;
            let (Some(staged), Some(found)) = (&self.brought[number].new, &self.here.tables[number]) else {
                continue;
            };
            let doing = format!("updating {}", self.shown(number));
            for (group, (places, expected)) in staged.groups.iter().enumerate() {
                let sql = sql::update(table, found, self.home, (Side::New, number), group, places);
                self.write(stage, doing.clone(), sql, *expected, "updated");
            }
        }
    }

    fn insert(&mut self, stage: i32) {
        self.add(stage, "usual", "setting the session back", "");
        for number in parents_first(self.here) {
            let Some(single) = self.brought[number].new.as_ref().map(|it| it.single).filter(|it| *it > 0)
            else {
                continue;
            };
            let table = &self.set.tables()[number].table;
            let doing = format!("inserting into {}", self.shown(number));
            self.write(stage, doing, sql::insert(table, self.home, number), single, "inserted");
        }
    }

    fn write(&mut self, stage: i32, doing: String, sql: String, expected: u64, what: &str) {
        let line = self.add(stage, "write", doing, sql);
        line.expected = Some(i64::try_from(expected).unwrap_or(i64::MAX));
        line.about = json!({ "what": what });
    }

    /// Triggers of users are off in the transaction.
    fn switch(&mut self, stage: i32, on: bool) {
        for (stored, found) in self.set.tables().iter().zip(&self.here.tables) {
            let Some(found) = found else { continue };
            let name = sql::table(&stored.table.schema, &stored.table.name);
            for (trigger, state) in &found.triggers {
                let how = match (on, state.as_str()) {
                    (false, _) => "DISABLE",
                    (true, "R") => "ENABLE REPLICA",
                    (true, "A") => "ENABLE ALWAYS",
                    (true, _) => "ENABLE",
                };
                let sql = format!("ALTER TABLE {name} {how} TRIGGER {}", quote_identifier(trigger));
                let doing = format!("having the trigger {trigger} off, which the owner of its table may do,");
                self.lines.push(Line { stage, kind: "run", doing, sql, expected: None, about: json!({}) });
            }
        }
    }

    fn sequences(&mut self) {
        for Sequence { schema, name, new, .. } in self.set.sequences() {
            let Some(SequenceState { last_value, is_called }) = *new else { continue };
            let sequence = sql::table(schema, name);
            let (id, step) = (
                format!("{}::regclass", quote_literal(&sequence)),
                format!(
                    "(SELECT p.seqincrement FROM pg_sequence p WHERE p.seqrelid = {}::regclass)",
                    quote_literal(&sequence)
                ),
            );
            // What it gives next, here and there.
            let here = format!("s.last_value::numeric + CASE WHEN s.is_called THEN {step} ELSE 0 END");
            let there = format!("{last_value}::numeric + CASE WHEN {is_called} THEN {step} ELSE 0 END");
            let is_ahead = format!(
                "SELECT CASE WHEN {step} > 0 THEN {there} > {here} ELSE {there} < {here} END FROM {sequence} s"
            );
            let doing = format!("moving the sequence {} on", shown_name(schema, name));
            self.add(MARK, "sequence", doing, is_ahead).about =
                json!({ "move": format!("SELECT setval({id}, {last_value}, {is_called})") });
        }
    }
}

/// The whole plan for rows that were brought to `home`, and the definitions by which it was made.
pub(super) async fn plan(
    run: &Run<'_>,
    home: &str,
    set: &ChangeSet,
    here: &Catalogue,
    brought: &[Brought],
) -> Result<Vec<Line>, ApplyError> {
    let fingerprint = fingerprint(set);
    let is = run.rows("reading what the database has", &fingerprint, &[]).await?;
    let is: Option<String> = is.first().and_then(|row| row.get(0));
    let same = json!({ "is": is });
    let triggers = run.options.triggers;
    let mut plan = Plan { home, set, here, brought, lines: Vec::new() };
    plan.add(LOOK, "same", "comparing definitions", fingerprint.clone()).about = same.clone();
    plan.look();
    plan.order(ORDERS[0], &[Side::Old, Side::Early, Side::New], triggers);
    plan.order(ORDERS[1], &[Side::New, Side::Early, Side::Old], triggers);
    // What was written is locked by now, so nobody defines it anew after this.
    plan.add(MARK, "same", "comparing definitions", fingerprint).about = same;
    let entry = registry::entry_as_text(&set.digest(), set.head());
    plan.add(MARK, "mark", "writing down that it is applied", entry);
    plan.sequences();
    Ok(plan.lines)
}

/// The text that makes the function which does what the plan says.
pub(super) fn function(home: &str, digest: &str, options: &crate::ApplyOptions) -> String {
    let pins: Vec<String> = PINS.iter().flat_map(|(name, value)| [*name, *value]).map(element).collect();
    let fill = [
        ("{{home}}", home.to_owned()),
        ("{{pins}}", format!("{{{}}}", pins.join(","))),
        ("{{lock_ms}}", options.lock_timeout.as_millis().to_string()),
        ("{{lock}}", registry::LOCK.to_string()),
        ("{{registry_trusted}}", quote_literal(&registry::trusted_as_text())),
        ("{{registry_entry}}", quote_literal(&registry::found_as_text(digest))),
        ("{{listed_max}}", LISTED_MAX.to_string()),
        ("{{told_max}}", TOLD_MAX.to_string()),
        ("{{message_max}}", MESSAGE_MAX.to_string()),
    ];
    fill.iter().fold(RUN.to_owned(), |text, (word, value)| text.replace(word, value))
}

/// An element of an array's text. None of ours has a quote or a backslash.
fn element(text: &str) -> String {
    format!("\"{text}\"")
}

/// A query for a digest of everything that the plan takes from definitions: tables, columns, types, keys, triggers, foreign keys and
/// sequences.
fn fingerprint(set: &ChangeSet) -> String {
    let list = |names: Vec<&str>| {
        let names: Vec<String> = names.into_iter().map(quote_literal).collect();
        format!("ARRAY[{}]::text[]", names.join(", "))
    };
    let tables = || set.tables().iter().map(|stored| &stored.table);
    let (schemas, names) = (
        list(tables().map(|it| it.schema.as_str()).collect()),
        list(tables().map(|it| it.name.as_str()).collect()),
    );
    let (of_schemas, of_names) = (
        list(set.sequences().iter().map(|it| it.schema.as_str()).collect()),
        list(set.sequences().iter().map(|it| it.name.as_str()).collect()),
    );
    format!(
        "WITH w AS (SELECT w.number, c.oid, c.relkind::text AS kind FROM unnest({schemas}, {names}) WITH ORDINALITY w (schema, name, number) \
             LEFT JOIN pg_namespace n ON n.nspname = w.schema LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.name), \
           l AS (SELECT w.number, a.relid::oid AS oid FROM w, pg_partition_ancestors(w.oid) a UNION SELECT w.number, w.oid FROM w), \
           facts (fact) AS ( \
             SELECT jsonb_build_array('t', w.number, w.oid, w.kind) FROM w \
             UNION ALL SELECT jsonb_build_array('l', l.number, l.oid) FROM l \
             UNION ALL SELECT jsonb_build_array('c', w.number, a.attnum, a.attname, a.atttypid, a.atttypmod, a.attcollation, \
                 a.attgenerated, a.attidentity, coalesce(e.typnamespace, t.typnamespace), t.typtype) \
               FROM w JOIN pg_attribute a ON a.attrelid = w.oid AND a.attnum > 0 AND NOT a.attisdropped \
                 JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_type e ON e.oid = nullif(t.typbasetype, 0) \
             UNION ALL SELECT jsonb_build_array('k', w.number, i.indkey::text, i.indnkeyatts, i.indisunique, i.indisvalid, i.indisready, \
                 i.indpred IS NULL, i.indexprs IS NULL) \
               FROM w JOIN pg_index i ON i.indrelid = w.oid AND i.indisunique \
             UNION ALL SELECT jsonb_build_array('g', w.number, t.tgname, t.tgenabled, t.tgfoid, t.tgtype) \
               FROM w JOIN pg_trigger t ON t.tgrelid = w.oid AND NOT t.tgisinternal \
             UNION ALL SELECT jsonb_build_array('f', f.oid, f.conrelid, f.confrelid, f.confdeltype, f.conkey, f.confkey, c.relkind, \
                 c.relnamespace, c.relname) \
               FROM pg_constraint f JOIN pg_class c ON c.oid = f.conrelid \
               WHERE f.contype = 'f' AND f.conparentid = 0 AND f.confrelid IN (SELECT l.oid FROM l) \
             UNION ALL SELECT jsonb_build_array('s', q.schema, q.name, p.seqrelid, p.seqincrement) \
               FROM unnest({of_schemas}, {of_names}) q (schema, name) LEFT JOIN pg_namespace n ON n.nspname = q.schema \
                 LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = q.name LEFT JOIN pg_sequence p ON p.seqrelid = c.oid) \
         SELECT encode(sha256(convert_to(coalesce(string_agg(fact::text, ',' ORDER BY fact::text COLLATE \"C\"), ''), 'UTF8')), 'hex') FROM facts"
    )
}
