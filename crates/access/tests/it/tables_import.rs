//! Tables in Parquet files come back as the graph that they were made of, also from other writers; whatever else they are is
//! refused by name, before it takes memory.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use crate::c1z_support::*;
use duramen_access::c1z::ReadOptions;
use duramen_access::convert::Format;
use duramen_access::file::GraphFile;
use duramen_access::graph::*;
use duramen_access::rows::*;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, Int64Type};
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

mod hostile;

fn open(path: &Path) -> GraphFile {
    GraphFile::open(path, &ReadOptions::default()).unwrap()
}

/// All rows of a table, with those that occur twice.
fn rows(file: &GraphFile, sync: &Sync, table: Table) -> Vec<String> {
    let mut text = Vec::new();
    write_rows(file, sync, (table, &Filter::default()), Form::Json, u64::MAX, &mut text).unwrap();
    let mut rows: Vec<String> = String::from_utf8(text).unwrap().lines().map(str::to_owned).collect();
    rows.sort();
    rows
}

/// Times as a table has them: by microseconds.
fn in_micros(rows: Vec<String>) -> Vec<String> {
    let cut = |row: String| {
        let mut row: serde_json::Value = serde_json::from_str(&row).unwrap();
        for name in ["discovered_at", "created_at"] {
            if let Some(time) = row[name].as_str().map(|text| text.parse::<jiff::Timestamp>()) {
                row[name] = time.map_or(serde_json::Value::Null, |time| time.as_microsecond().into());
            }
        }
        row.to_string()
    };
    rows.into_iter().map(cut).collect()
}

fn exported(from: &Path, sync: Option<&str>, tables: &Path) {
    let file = open(from);
    export_parquet(&file, &file.sync(sync).unwrap(), tables).unwrap();
}

fn files_below(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files_below(&path, found),
            false => found.push(path),
        }
    }
}

#[test]
fn every_fixture_comes_back_row_for_row() {
    let dir = tempfile::tempdir().unwrap();
    let mut fixtures = Vec::new();
    files_below(&fixture(""), &mut fixtures);
    write_v3(&Graph::random(31, 3_000), &dir.path().join("random.c1z"));
    fixtures.push(dir.path().join("random.c1z"));
    let (mut read, mut compared) = (0, 0);
    for from in fixtures.iter().filter(|path| path.extension().is_some_and(|ending| ending == "c1z")) {
        // Some fixtures have rows that lie under wrong keys: those are no graphs.
        let checked = ReadOptions { check_rows: true, ..ReadOptions::default() };
        let Ok(file) = GraphFile::open(from, &checked) else { continue };
        read += 1;
        let of_kind = match Format::of_file(&file) {
            Format::C1z3 => Format::C1z3,
            _ => Format::C1z1,
        };
        for sync in file.syncs().unwrap() {
            let tables = dir.path().join("tables");
            exported(from, Some(&sync.id), &tables);
            for format in [Format::Pack, of_kind] {
                let to = dir.path().join("again");
                let imported = import_parquet(&tables, &to, format).unwrap();
                assert!(imported.losses.is_empty(), "{}: {:?}", from.display(), imported.losses);
                let again = open(&to);
                for table in Table::ALL {
                    let (expected, found) = (
                        in_micros(rows(&file, &sync, table)),
                        in_micros(rows(&again, &imported.sync, table)),
                    );
                    let odd = expected.iter().zip(&found).find(|(expected, found)| expected != found);
                    assert!(expected == found, "{}, {format:?}, {table:?}: {odd:?}", from.display());
                    compared += found.len();
                }
                assert!(again.sync(None).unwrap().ended_at.is_some());
                drop(again);
                std::fs::remove_file(&to).unwrap();
            }
            std::fs::remove_dir_all(&tables).unwrap();
        }
    }
    assert!(read > 25 && compared > 20_000, "{read} files, {compared} rows");
}

/// A column for [`write_table`].
enum Values {
    Texts(Vec<&'static str>),
    /// With definition and repetition levels.
    Lists(Vec<&'static str>, Vec<i16>, Vec<i16>),
    Some(Vec<&'static str>, Vec<i16>),
    Flags(Vec<bool>),
    Numbers(Vec<i64>),
}
use Values::{Flags, Lists, Numbers, Texts};

fn write_table(path: &Path, properties: WriterProperties, schema: &str, columns: &[Values]) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let schema = Arc::new(parse_message_type(&format!("message rows {{ {schema} }}")).unwrap());
    let mut writer =
        SerializedFileWriter::new(File::create(path).unwrap(), schema, Arc::new(properties)).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let bytes = |texts: &[&'static str]| {
        let mut all: Vec<ByteArray> = Vec::new();
        for (at, text) in texts.iter().enumerate() {
            // One text in many rows is there once.
            let again = (at > 0 && std::ptr::eq(*text, texts[at - 1])).then(|| all[at - 1].clone());
            all.push(again.unwrap_or_else(|| ByteArray::from(*text)));
        }
        all
    };
    for values in columns {
        let mut to = group.next_column().unwrap().unwrap();
        match values {
            Texts(texts) => to.typed::<ByteArrayType>().write_batch(&bytes(texts), None, None),
            Lists(texts, is_there, goes_on) => {
                to.typed::<ByteArrayType>().write_batch(&bytes(texts), Some(is_there), Some(goes_on))
            }
            Values::Some(texts, is_there) => {
                to.typed::<ByteArrayType>().write_batch(&bytes(texts), Some(is_there), None)
            }
            Flags(flags) => to.typed::<BoolType>().write_batch(flags, None, None),
            Numbers(numbers) => to.typed::<Int64Type>().write_batch(numbers, None, None),
        }
        .unwrap();
        to.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
}

const TYPES: &str = "required binary id (STRING); optional group traits (LIST) { repeated group list { optional binary element (STRING); } }";
const RESOURCES: &str = "required binary resource (STRING); required binary resource_type (STRING);";
const ENTITLEMENTS: &str = "required binary resource (STRING); required int64 discovered_at (TIMESTAMP(NANOS, true)); required binary id (STRING); required binary resource_type (STRING); required binary purpose (STRING);";
const GRANTS: &str = "required binary principal (STRING); required binary principal_type (STRING); required binary resource (STRING);
    required binary resource_type (STRING); required binary entitlement (STRING); required boolean shallow; optional binary id (STRING);
    required int64 note; required group expands (LIST) { repeated binary array (STRING); }";

/// Tables with few columns in an order of their own.
fn write_tables(folder: &Path, properties: impl Fn() -> WriterProperties) {
    let at = |name: &str| folder.join(format!("{name}.parquet"));
    let traits = Lists(vec!["USER", "GROUP", "99"], vec![3, 3, 1, 3, 0], vec![0, 1, 0, 0, 0]);
    write_table(
        &at("resource_types"),
        properties(),
        TYPES,
        &[Texts(vec!["user", "app", "odd", "none"]), traits],
    );
    write_table(
        &at("resources"),
        properties(),
        RESOURCES,
        &[Texts(vec!["ada", "github", "eve"]), Texts(vec!["user", "app", "user"])],
    );
    let id = Texts(vec!["app:github:admin"]);
    let columns =
        [Texts(vec!["github"]), Numbers(vec![-1]), id, Texts(vec!["app"]), Texts(vec!["PERMISSION"])];
    write_table(&at("entitlements"), properties(), ENTITLEMENTS, &columns);
    let columns = [
        Texts(vec!["ada", "eve"]),
        Texts(vec!["user", "user"]),
        Texts(vec!["github", "github"]),
        Texts(vec!["app", "app"]),
        Texts(vec!["app:github:admin", "app:github:admin"]),
        Flags(vec![false, true]),
        Values::Some(vec!["of eve"], vec![0, 1]),
        Numbers(vec![1, 2]),
        Lists(vec!["app:github:admin", "x"], vec![0, 1, 1], vec![0, 0, 1]),
    ];
    write_table(&at("grants"), properties(), GRANTS, &columns);
}

#[test]
fn other_writers_may_order_leave_out_and_compress_columns_as_they_like() {
    let dir = tempfile::tempdir().unwrap();
    let codecs = [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::ZSTD(ZstdLevel::default()),
        Compression::GZIP(Default::default()),
        Compression::LZ4_RAW,
    ];
    for (number, codec) in codecs.into_iter().enumerate() {
        for (version, dictionary) in [
            (WriterVersion::PARQUET_1_0, true),
            (WriterVersion::PARQUET_2_0, true),
            (WriterVersion::PARQUET_2_0, false),
        ] {
            let folder = dir.path().join(format!("{number}{version:?}{dictionary}"));
            write_tables(&folder, || {
                let all = WriterProperties::builder().set_compression(codec).set_writer_version(version);
                match dictionary {
                    true => all.set_dictionary_enabled(true).build(),
                    false => all.set_dictionary_enabled(false).set_encoding(Encoding::PLAIN).build(),
                }
            });
            let to = folder.join("all.dpack");
            let imported = import_parquet(&folder, &to, Format::Pack).unwrap();
            let lost: Vec<_> =
                imported.losses.iter().map(|loss| (loss.row, loss.example.as_str(), loss.rows)).collect();
            assert_eq!(lost, [("grant", "note", 2)], "a column that means nothing is told");
            let graph = Graph::read(open(&to).pack().unwrap()).unwrap();
            let traits: Vec<_> =
                graph.resource_types.iter().map(|row| (row.id.as_str(), row.traits.clone())).collect();
            let expected = [
                ("app", vec![]),
                ("none", vec![]),
                ("odd", vec![Trait::Unknown(99)]),
                ("user", vec![Trait::User, Trait::Group]),
            ];
            assert_eq!(traits, expected);
            let entitlement = &graph.entitlements[0];
            assert_eq!(entitlement.purpose, Purpose::Permission);
            assert_eq!(entitlement.discovered_at, Some(Timestamp { seconds: -1, nanos: 999_999_999 }));
            assert_eq!((graph.resources.len(), graph.resources[0].parent.clone()), (3, None));
            let grants: Vec<_> =
                graph.grants.iter().map(|row| (row.id.as_str(), row.expansion.clone())).collect();
            let expansion = Expansion {
                entitlement_ids: vec!["app:github:admin".to_owned(), "x".to_owned()],
                shallow: true,
                resource_type_ids: vec![],
            };
            assert_eq!(grants, [("app:github:admin:user:ada", None), ("of eve", Some(expansion))]);
        }
    }
}

/// What is said of tables that were changed, and that nothing was written.
fn refusal(change: impl FnOnce(&Path)) -> String {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("tables");
    write_tables(&folder, Default::default);
    change(&folder);
    let mut said = BTreeSet::new();
    for format in [Format::Pack, Format::C1z1, Format::C1z3] {
        let error = import_parquet(&folder, &dir.path().join("all"), format).unwrap_err();
        said.insert(error.to_string());
    }
    let left: Vec<_> =
        std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["tables"], "nothing was written");
    assert_eq!(said.len(), 1, "{said:?}");
    said.into_iter().next().unwrap()
}

#[test]
fn what_is_missing_or_wrong_is_refused_by_its_name() {
    let types = |schema: &'static str, columns: Vec<Values>| {
        move |folder: &Path| {
            write_table(
                &folder.join("resource_types.parquet"),
                WriterProperties::default(),
                schema,
                &columns,
            );
        }
    };
    let grants = |schema: &'static str, columns: Vec<Values>| {
        move |folder: &Path| {
            write_table(&folder.join("grants.parquet"), WriterProperties::default(), schema, &columns)
        }
    };
    let delta = |folder: &Path| {
        let properties = WriterProperties::builder().set_dictionary_enabled(false);
        let properties = properties.set_encoding(Encoding::DELTA_BYTE_ARRAY).build();
        let id = "required binary id (STRING);";
        write_table(&folder.join("resource_types.parquet"), properties, id, &[Texts(vec!["user"])]);
    };
    let one = || Texts(vec!["a"]);
    let cases: Vec<(String, &[&str])> = vec![
        (refusal(|folder| std::fs::remove_file(folder.join("grants.parquet")).unwrap()), &["grants.parquet is not there"]),
        (refusal(|folder| std::fs::write(folder.join("grants.parquet"), "id,entitlement\n").unwrap()), &["grants.parquet", "Parquet"]),
        (
            refusal(|folder| {
                let bytes = std::fs::read(folder.join("resources.parquet")).unwrap();
                std::fs::write(folder.join("resources.parquet"), &bytes[..bytes.len() - 20]).unwrap();
            }),
            &["resources.parquet", "does not end"],
        ),
        (
            refusal(types("required binary name (STRING);", vec![one()])),
            &["resource_types.parquet", "no column \"id\"", "it has name"],
        ),
        (
            refusal(types("required int64 id;", vec![Numbers(vec![1])])),
            &["\"id\"", "resource_types.parquet", "INT64", "a string", "cast"],
        ),
        (
            refusal(types("required binary id (STRING); required binary traits (STRING);", vec![one(), one()])),
            &["\"traits\"", "a list of strings"],
        ),
        (
            refusal(types("required binary id (STRING); required int64 discovered_at;", vec![one(), Numbers(vec![1])])),
            &["\"discovered_at\"", "INT64", "timestamp"],
        ),
        (
            refusal(types("optional binary id (STRING);", vec![Values::Some(vec!["a"], vec![1, 0])])),
            &["\"id\"", "row 2", "null or empty"],
        ),
        (
            refusal(types(TYPES, vec![one(), Lists(vec!["KING"], vec![3], vec![0])])),
            &["\"traits\"", "row 1", "KING"],
        ),
        (refusal(types(TYPES, vec![one(), Lists(vec![], vec![2], vec![0])])), &["\"traits\"", "null"]),
        (refusal(delta), &["\"id\"", "DELTA_BYTE_ARRAY", "PLAIN"]),
        (
            refusal(grants(
                "required binary entitlement (STRING); required binary resource_type (STRING); required binary resource (STRING);
                 required binary principal_type (STRING); required binary principal (STRING);
                 required group direct_sources (LIST) { repeated group list { required binary element (STRING); } }",
                vec![one(), one(), one(), one(), one(), Lists(vec!["b"], vec![1], vec![0])],
            )),
            &["\"direct_sources\"", "row 1", "\"b\""],
        ),
    ];
    for (said, words) in cases {
        assert!(words.iter().all(|word| said.contains(word)), "{said}: {words:?}");
    }
}

#[test]
fn a_pack_that_is_there_stays() {
    let dir = tempfile::tempdir().unwrap();
    write_tables(&dir.path().join("tables"), Default::default);
    let to = dir.path().join("all.dpack");
    import_parquet(&dir.path().join("tables"), &to, Format::Pack).unwrap();
    let before = std::fs::read(&to).unwrap();
    let error = import_parquet(&dir.path().join("tables"), &to, Format::Pack).unwrap_err();
    assert!(error.to_string().contains("exists"), "{error}");
    assert_eq!(std::fs::read(&to).unwrap(), before);
}

/// Where a Python with DuckDB is named: what DuckDB made of tables comes back, with its changes.
#[test]
fn tables_that_duckdb_wrote_are_read() {
    let Some(python) = std::env::var_os("DURAMEN_DUCKDB_PYTHON") else { return };
    let dir = tempfile::tempdir().unwrap();
    let from = dir.path().join("3.c1z");
    write_v3(&Graph::random(41, 2_000), &from);
    let tables = dir.path().join("tables");
    exported(&from, None, &tables);
    for options in
        ["", ", COMPRESSION zstd", ", COMPRESSION gzip, ROW_GROUP_SIZE 2048", ", COMPRESSION lz4_raw"]
    {
        let made = dir.path().join("made");
        std::fs::create_dir(&made).unwrap();
        let mut program = "import duckdb\n".to_owned();
        for (table, columns) in [
            ("resource_types", "traits, * EXCLUDE (traits)"),
            ("resources", "*"),
            ("entitlements", "* EXCLUDE (description)"),
            ("grants", "discovered_at, * EXCLUDE (discovered_at)"),
        ] {
            let order = if table == "grants" { "WHERE principal <> 'p7' ORDER BY principal" } else { "" };
            let sql = format!(
                "COPY (SELECT {columns} FROM '{}/{table}.parquet' {order}) TO '{}/{table}.parquet' (FORMAT parquet{options})",
                tables.display(),
                made.display()
            );
            program += &format!("duckdb.sql({sql:?})\n");
        }
        let done = Command::new(&python).args(["-c", &program]).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let to = dir.path().join("again.dpack");
        let imported = import_parquet(&made, &to, Format::Pack).unwrap();
        assert!(imported.losses.is_empty());
        let (file, again) = (open(&from), open(&to));
        let sync = file.sync(None).unwrap();
        for table in [Table::ResourceTypes, Table::Resources, Table::Grants] {
            let mut expected = in_micros(rows(&file, &sync, table));
            expected.retain(|row| !row.contains("\"principal\":\"p7\""));
            assert!(expected == in_micros(rows(&again, &imported.sync, table)), "{table:?} {options}");
        }
        assert_eq!(imported.copied.grants, 1_999);
        std::fs::remove_file(to).unwrap();
        std::fs::remove_dir_all(made).unwrap();
    }
}
