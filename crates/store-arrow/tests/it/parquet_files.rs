//! Parquet files come back, DuckDB reads them and is read, and whatever else they are is refused in little memory.

use crate::documents::{documents, main_branch, open, random};
use ::parquet::arrow::ArrowWriter;
use ::parquet::basic::{Compression, Encoding, ZstdLevel};
use ::parquet::data_type::{
    ByteArray, ByteArrayType, FixedLenByteArray, FixedLenByteArrayType, Int96, Int96Type,
};
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use ::parquet::schema::parser::parse_message_type;
use arrow_array::{
    ArrayRef, FixedSizeBinaryArray, Int64Array, ListArray, RecordBatch, RecordBatchIterator, StringArray,
};
use duramen_base::entropy;
use duramen_store::{Branch, Scope, Store};
use duramen_store_arrow::parquet::{write_parquet, FileBatches, FileError};
use duramen_store_arrow::*;
use serde_json::json;
use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

fn rest() -> DocumentOptions {
    DocumentOptions { misfits: Misfits::Rest("rest".to_owned()), ..DocumentOptions::default() }
}

fn load(branch: &Branch, space: &str, path: &Path) -> Result<Loaded, LoadError> {
    let batches = FileBatches::open(path).map_err(|error| LoadError {
        loaded: Loaded::default(),
        refusal: Refusal::Batches(Box::new(error)),
    })?;
    let into = DocumentsIn { rest: Some("rest".to_owned()), ..DocumentsIn::default() };
    load_documents(&branch.space(space).unwrap(), batches, &into)
}

/// Documents of all types, in a file.
fn fill(main: &Branch, path: &Path, seed: u64, count: usize) {
    let mut rng = entropy::rng(seed);
    for number in 0..count {
        let mut document = json!({
            "n": number, "x": number as f64 / 3.0, "tags": ["a", null, "b"], "flag": number % 2 == 0,
            "s": { "t": [{ "u": 1 }], "v": "w" }, "text": "y".repeat(rng.usize(..200)),
        });
        document["odd"] = random(&mut rng, 2);
        main.json().set(&format!("{number:05}"), "", &document).unwrap();
    }
    let rows = write_parquet(path, open(main, rest())).unwrap();
    assert_eq!(rows, count as u64);
}

#[test]
fn documents_in_a_file_are_lost_or_changed() {
    let dir = tempfile::tempdir().unwrap();
    for seed in 0..10 {
        let path = dir.path().join(format!("{seed}.parquet"));
        let store = Store::memory();
        let main = main_branch(&store);
        fill(&main, &path, seed, seed as usize * 130);
        assert_eq!(load(&main, "again", &path).unwrap().rows, seed * 130);
        assert!(documents(&main, "again") == documents(&main, "default"), "seed {seed}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 10, "temporary files are left");
}

#[test]
fn vectors_and_pairs_do_not_come_back_from_files() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("all.parquet");
    let store = Store::memory();
    let main = main_branch(&store);
    let copy = main.space("copy").unwrap();
    for vectors in [main.vectors(), copy.vectors()] {
        vectors.create("points", 2, duramen_store::vector::Metric::Dot).unwrap();
    }
    let points = main.vectors().collection("points");
    points.upsert_many((0..700).map(|n| (format!("{n:03}"), [n as f32, 0.5], None))).unwrap();
    let vectors = Batches::open(&main, "default", &Table::Vectors(VectorOptions::new("points"))).unwrap();
    write_parquet(&path, vectors).unwrap();
    load_vectors(&copy, FileBatches::open(&path).unwrap(), &VectorsIn::new("points")).unwrap();
    assert_eq!(copy.vectors().collection("points").get("699").unwrap(), points.get("699").unwrap());

    main.kv().put_many((0..600_u64).map(|n| (n, vec![n as u8; 3]))).unwrap();
    let pairs = Batches::open(&main, "default", &Table::Pairs(PairOptions::default())).unwrap();
    write_parquet(&path, pairs).unwrap();
    load_pairs(&copy, FileBatches::open(&path).unwrap(), &PairsIn::default()).unwrap();
    assert_eq!(copy.kv().range(.., 1000).unwrap(), main.kv().range(.., 1000).unwrap());
}

#[test]
fn a_failed_write_takes_the_file_that_was_there() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("all.parquet");
    std::fs::write(&path, "before").unwrap();
    let store = Store::memory();
    let main = main_branch(&store);
    main.json().set_many([("a", "", json!({ "n": 1 })), ("b", "", json!({ "n": "x" }))]).unwrap();
    let one = DocumentOptions { sample_rows: 1, ..DocumentOptions::default() };
    assert!(matches!(write_parquet(&path, open(&main, one)), Err(FileError::Rows(_))));
    assert_eq!(std::fs::read(&path).unwrap(), b"before");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn damaged_files_end_in_a_panic() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("whole.parquet");
    let store = Store::memory();
    let main = main_branch(&store);
    fill(&main, &path, 1, 300);
    let whole = std::fs::read(&path).unwrap();
    let damaged = dir.path().join("damaged.parquet");
    let mut refused = 0;
    let mut read = |bytes: &[u8]| {
        std::fs::write(&damaged, bytes).unwrap();
        let store = Store::memory();
        refused += u32::from(load(&main_branch(&store), "default", &damaged).is_err());
    };
    let mut rng = entropy::rng(7);
    for cut in (0..whole.len()).step_by(whole.len() / 150) {
        read(&whole[..cut]);
    }
    let footer =
        whole.len() - 8 - u32::from_le_bytes(whole[whole.len() - 8..][..4].try_into().unwrap()) as usize;
    for number in 0..3000 {
        let mut bytes = whole.clone();
        // The footer is short beside the data, and says most.
        let at = if number % 2 == 0 { rng.usize(..bytes.len()) } else { rng.usize(footer..bytes.len()) };
        match rng.bool() {
            true => bytes[at] ^= 1 << rng.u8(..8),
            false => bytes[at] = rng.u8(..),
        }
        read(&bytes);
    }
    assert!(refused > 1000, "{refused}");
}

fn zstd(dictionary: bool) -> WriterProperties {
    let all = WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default()));
    all.set_dictionary_enabled(dictionary).set_encoding(Encoding::PLAIN).build()
}

fn write(path: &Path, columns: Vec<(&str, ArrayRef)>, properties: WriterProperties) {
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut writer =
        ArrowWriter::try_new(std::fs::File::create(path).unwrap(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

/// The most memory that a file may take, wherever it ends.
const PEAK_MAX: u64 = 900 << 20;
const FILE_VARIABLE: &str = "DURAMEN_TEST_FILE_MEMORY";

/// The child's part. It does nothing when the test is run by itself.
#[test]
fn child() {
    let Some(path) = std::env::var_os(FILE_VARIABLE) else { return };
    let mut rows = 0;
    let ended = FileBatches::open(Path::new(&path)).and_then(|mut file| {
        while let Some(batch) = file.next_batch()? {
            rows += batch.num_rows();
        }
        Ok(())
    });
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    let peak = line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10;
    println!("\npeak {peak}\nsaid {rows} {ended:?}");
}

/// What a process of its own says of a file, after it took little memory.
fn read_in_little_memory(path: &Path) -> String {
    assert!(path.metadata().unwrap().len() < 4 << 20, "a short file");
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "parquet_files::child", "--nocapture", "--test-threads", "1"])
        .env(FILE_VARIABLE, path)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let line = |start: &str| text.lines().find_map(|line| line.strip_prefix(start)).unwrap().to_owned();
    let peak: u64 = line("peak ").parse().unwrap();
    assert!(peak < PEAK_MAX, "{} MiB: {text}", peak >> 20);
    line("said ")
}

#[test]
fn short_files_take_much_memory() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("hostile.parquet");
    // One text in all rows, in a dictionary: as texts of their own they would be 20 GiB.
    let long = "\0".repeat(20 << 20);
    let one = StringArray::from(vec![long.as_str()]);
    let keys = arrow_array::Int32Array::from(vec![0; 1000]);
    let all = arrow_array::DictionaryArray::new(keys, Arc::new(one));
    write(&path, vec![("key", Arc::new(all))], zstd(true));
    let said = read_in_little_memory(&path);
    assert!(said.contains("bytes of text"), "{said}");
    // One page of zeros that shrinks to nothing.
    let longer = "\0".repeat(200 << 20);
    write(&path, vec![("key", Arc::new(StringArray::from(vec![longer.as_str()])))], zstd(false));
    let said = read_in_little_memory(&path);
    assert!(said.contains("smaller pages"), "{said}");
    // A list of very many nulls.
    let nulls = Int64Array::new_null(40 << 20);
    let ends = arrow_array::builder::ListBuilder::new(arrow_array::builder::Int64Builder::new());
    let mut lists = ends;
    lists.values().append_nulls(nulls.len());
    lists.append(true);
    let lists: ListArray = lists.finish();
    write(&path, vec![("list", Arc::new(lists))], zstd(true));
    let said = read_in_little_memory(&path);
    assert!(said.contains("values of lists"), "{said}");
}

#[test]
fn duckdb_reads_or_writes_other_rows() {
    // Where a Python with DuckDB is named.
    let Some(python) = std::env::var_os("DURAMEN_DUCKDB_PYTHON") else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("all.parquet");
    let store = Store::memory();
    let main = main_branch(&store);
    fill(&main, &path, 3, 500);
    let run = |program: String| {
        let said = Command::new(&python).args(["-c", &program]).output().unwrap();
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
        String::from_utf8(said.stdout).unwrap().trim().to_owned()
    };
    let sql = format!(
        "SELECT count(*), sum(n), count(DISTINCT key), sum(len(tags)), any_value(typeof(odd)), sum(s.t[1].u) FROM '{}'",
        path.display()
    );
    let said = run(format!("import duckdb; print(duckdb.sql({sql:?}).fetchall()[0])"));
    assert_eq!(said, "(500, 124750, 500, 1500, 'JSON', 500)");
    // What DuckDB writes is read.
    let again = dir.path().join("again.parquet");
    let sql = format!(
        "COPY (FROM '{}' ORDER BY key) TO '{}' (FORMAT parquet, COMPRESSION zstd)",
        path.display(),
        again.display()
    );
    run(format!("import duckdb; duckdb.sql({sql:?})"));
    assert_eq!(load(&main, "again", &again).unwrap().rows, 500);
    assert!(documents(&main, "again") == documents(&main, "default"));
    let types = dir.path().join("types.parquet");
    let sql = format!(
        "COPY (SELECT 'a' AS key, DATE '2026-11-27' AS d, 1.25::DECIMAL(5,2) AS m, TIMESTAMPTZ '2026-11-27 10:00:00+00' AS t,
         18446744073709551615::UBIGINT AS u, '\\x01'::BLOB AS b, MAP {{'x': 1}} AS p, TIME '10:00:00' AS c) TO '{}' (FORMAT parquet)",
        types.display()
    );
    run(format!("import duckdb; duckdb.sql({sql:?})"));
    load(&main, "types", &types).unwrap();
    let text = main.space("types").unwrap().json().get("a", "").unwrap().unwrap();
    let expected = json!({
        "d": "2026-11-27", "m": "1.25", "t": "2026-11-27T10:00:00Z", "u": u64::MAX, "b": { "$bytes": "AQ==" },
        "p": { "x": 1 }, "c": "10:00:00",
    });
    assert_eq!(text.to_value().unwrap(), expected);
}

#[test]
fn an_empty_table_is_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("none.parquet");
    let store = Store::memory();
    let main = main_branch(&store);
    let none = open(&main, rest());
    let none = RecordBatchIterator::new(Vec::new(), none.schema());
    assert_eq!(write_parquet(&path, none).unwrap(), 0);
    assert_eq!(load(&main, "again", &path).unwrap(), Loaded::default());
}

/// A file with columns that no type of Arrow becomes.
fn write_columns(path: &Path, columns: &str, fill: impl FnOnce(&mut SerializedRowGroupWriter<'_, File>)) {
    let schema = Arc::new(parse_message_type(&format!("message m {{ {columns} }}")).unwrap());
    let mut writer = SerializedFileWriter::new(File::create(path).unwrap(), schema, Arc::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    fill(&mut group);
    group.close().unwrap();
    writer.close().unwrap();
}

/// A file with one moment of the physical type INT96, in days of the Julian calendar and nanoseconds of the day.
fn write_int96(path: &Path, day: u32, nanos: u64) {
    let columns = "required binary key (UTF8); required int96 at; required group s { required int96 then; }";
    write_columns(path, columns, |group| {
        let mut keys = group.next_column().unwrap().unwrap();
        keys.typed::<ByteArrayType>().write_batch(&[ByteArray::from("a")], None, None).unwrap();
        keys.close().unwrap();
        let mut moment = Int96::new();
        moment.set_data(nanos as u32, (nanos >> 32) as u32, day);
        for _ in 0..2 {
            let mut moments = group.next_column().unwrap().unwrap();
            moments.typed::<Int96Type>().write_batch(&[moment], None, None).unwrap();
            moments.close().unwrap();
        }
    });
}

#[test]
fn moments_of_int96_are_other_moments() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("moments.parquet");
    let store = Store::memory();
    let main = main_branch(&store);
    // The days of 1970-01-01, and of the last day of 9999, which no number of nanoseconds reaches.
    for (day, nanos, wanted) in [
        (2_440_588, 1_500_000_000, "1970-01-01T00:00:01.5"),
        (5_373_484, 86_399_000_001_000, "9999-12-31T23:59:59.000001"),
    ] {
        write_int96(&path, day, nanos);
        load(&main, "default", &path).unwrap();
        let found = main.json().get("a", "").unwrap().unwrap().to_value().unwrap();
        assert_eq!(found, json!({ "at": wanted, "s": { "then": wanted } }));
    }
    // The day after it, and one that is far off.
    for day in [5_373_485, 50_000_000] {
        write_int96(&path, day, 0);
        let said = load(&main, "default", &path).unwrap_err().to_string();
        assert!(said.contains("the year 9999"), "{said}");
    }
}

#[test]
fn values_of_fixed_length_take_much_memory() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fixed.parquet");
    // A dictionary of one value, in 1,000 columns of 256 rows: a gigabyte.
    let value = [0; 4096];
    let one: ArrayRef =
        Arc::new(FixedSizeBinaryArray::try_from_iter(std::iter::repeat_n(&value, 256)).unwrap());
    let names: Vec<String> = (0..1000).map(|n| format!("c{n}")).collect();
    let columns = names.iter().map(|name| (name.as_str(), Arc::clone(&one))).collect();
    write(&path, columns, zstd(true));
    let said = read_in_little_memory(&path);
    assert!(said.contains("of fixed length of one row"), "{said}");
    // The same in a list.
    let value = FixedLenByteArray::from(vec![0; 4096]);
    let (values, mut starts) = (vec![value; 140_000], vec![1; 140_000]);
    starts[0] = 0;
    let ends = vec![1; values.len()];
    write_columns(&path, "repeated fixed_len_byte_array(4096) list;", |group| {
        let mut list = group.next_column().unwrap().unwrap();
        let list_of = list.typed::<FixedLenByteArrayType>();
        list_of.write_batch(&values, Some(&ends), Some(&starts)).unwrap();
        list.close().unwrap();
    });
    let said = read_in_little_memory(&path);
    assert!(said.contains("values of lists"), "{said}");
}

#[cfg(unix)]
#[test]
fn a_pipe_is_waited_for_and_a_link_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (pipe, link) = (dir.path().join("pipe"), dir.path().join("link"));
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let (done, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(FileBatches::open(&pipe).map(drop)));
    let said = ended.recv_timeout(std::time::Duration::from_secs(60)).expect("nobody writes into it");
    assert!(said.unwrap_err().to_string().contains("it is not a file"));
    let path = dir.path().join("all.parquet");
    let store = Store::memory();
    fill(&main_branch(&store), &path, 5, 3);
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert_eq!(FileBatches::open(&link).unwrap().rows(), 3);
}

#[test]
fn a_table_is_written_that_is_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("wide.parquet");
    let store = Store::memory();
    let main = main_branch(&store);
    // 256 members in each of 20 objects are 5,120 columns, beside 200 of the fields.
    let object: serde_json::Map<_, _> = (0..256).map(|n| (format!("m{n:03}"), json!(n))).collect();
    let mut document = json!({});
    for n in 0..220 {
        document[format!("f{n:03}")] = if n < 20 { json!(object) } else { json!(n) };
    }
    main.json().set("a", "", &document).unwrap();
    let batches = open(&main, rest());
    assert_eq!(batches.schema().fields().len(), 222);
    assert_eq!(write_parquet(&path, batches).unwrap(), 1);
    assert_eq!(load(&main, "again", &path).unwrap().rows, 1);
    assert!(documents(&main, "again") == documents(&main, "default"));
}
