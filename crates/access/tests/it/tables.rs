//! Tables as Parquet files have the rows that are printed, for the format's own reader and for DuckDB.

use std::collections::BTreeSet;
use std::fs::File;
use std::process::Command;

use crate::c1z_support::*;
use duramen_access::c1z::ReadOptions;
use duramen_access::file::GraphFile;
use duramen_access::rows::*;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use serde_json::Value;

/// A row as JSON, with times as text and lists as they are.
fn json(row: Value, table: Table) -> Value {
    let mut row = row;
    for (name, kind) in table.columns() {
        let cell = &mut row[*name];
        if let (Kind::Time, Value::String(text)) = (kind, &cell) {
            let time: jiff::Timestamp = text.parse().unwrap();
            *cell = Value::from(time.as_microsecond());
        }
    }
    row
}

#[test]
fn a_table_has_the_rows_that_are_printed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("3.c1z");
    write_v3(&Graph::random(21, 900), &path);
    let file = GraphFile::open(&path, &ReadOptions::default()).unwrap();
    let sync = file.sync(None).unwrap();
    let folder = dir.path().join("tables");
    let exported = export_parquet(&file, &sync, &folder).unwrap();
    assert_eq!(exported.len(), Table::ALL.len());
    let mut counts = Vec::new();
    for Exported { table, path, rows } in exported {
        let mut text = Vec::new();
        write_rows(&file, &sync, (table, &Filter::default()), Form::Json, u64::MAX, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let expected: BTreeSet<String> =
            text.lines().map(|line| json(serde_json::from_str(line).unwrap(), table).to_string()).collect();
        let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        let mut found = BTreeSet::new();
        for row in reader.get_row_iter(None).unwrap() {
            let row = row.unwrap();
            let cells = row.get_column_iter().map(|(name, field)| {
                let value = match field {
                    parquet::record::Field::Str(text) => Value::from(text.as_str()),
                    parquet::record::Field::Bool(flag) => Value::from(*flag),
                    parquet::record::Field::Long(count) => Value::from(*count),
                    parquet::record::Field::TimestampMicros(micros) => Value::from(*micros),
                    parquet::record::Field::Null => Value::Null,
                    parquet::record::Field::ListInternal(list) => list
                        .elements()
                        .iter()
                        .map(|each| match each {
                            parquet::record::Field::Str(text) => Value::from(text.as_str()),
                            other => panic!("{other:?} in a list"),
                        })
                        .collect(),
                    other => panic!("{other:?}"),
                };
                (name.clone(), value)
            });
            found.insert(Value::Object(cells.collect()).to_string());
        }
        assert!(found == expected, "{table:?}: {} rows, {} expected", found.len(), expected.len());
        assert_eq!(rows, text.lines().count() as u64);
        counts.push((table, rows));
    }
    let names: BTreeSet<String> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(names.len(), Table::ALL.len(), "{names:?}");

    // Where a Python with DuckDB is named, SQL finds the same.
    let Some(python) = std::env::var_os("DURAMEN_DUCKDB_PYTHON") else { return };
    for (table, rows) in counts {
        let sql = format!("SELECT count(*) FROM '{}/{}.parquet'", folder.display(), table.name());
        let program = format!("import duckdb; print(duckdb.sql({sql:?}).fetchall()[0][0])");
        let said = Command::new(&python).args(["-c", &program]).output().unwrap();
        assert_eq!(
            String::from_utf8(said.stdout).unwrap().trim(),
            rows.to_string(),
            "{}",
            String::from_utf8_lossy(&said.stderr)
        );
    }
    let sql = format!(
        "SELECT count(*) FROM '{0}/effective_grants.parquet' e, unnest(e.sources) AS s(id)
         WHERE e.direct AND s.id = e.entitlement",
        folder.display()
    );
    let said = Command::new(&python)
        .args(["-c", &format!("import duckdb; print(duckdb.sql({sql:?}).fetchall()[0][0])")])
        .output();
    assert!(said.unwrap().status.success());
}
