//! Workloads in TOML, and several files with weights.

use duramen_workload::{Sources, Workload, WorkloadError};
use std::path::Path;

fn written(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    dir
}

fn read(dir: &Path, files: &[&str]) -> Result<Workload, WorkloadError> {
    let files: Vec<String> = files.iter().map(|file| dir.join(file).display().to_string()).collect();
    Workload::parse(&Sources::read(&files, None, None)?)
}

const ORDERS: &str = r#"
setup = "schema.sql"
scale = 3
clients = 4

[[transaction]]
name = "order entry"
weight = 3
isolation = "repeatable read"
sql = ["INSERT INTO orders VALUES (:id, :customer)", "UPDATE totals SET n = n + 1 WHERE id = :hot -- the last"]
check = "SELECT count(*) = 1 FROM orders WHERE id = :id"
[transaction.parameters]
customer = { uniform = [1, "1000 * :scale"] }
hot = { zipf = [1, 10], exponent = 1.2 }
id = { sequence = 1 }

[[transaction]]
name = "report"
script = "report.sql"
[transaction.parameters]
day = { value = "random(1, 7)" }
"#;

#[test]
fn a_description_is_read_with_the_files_that_it_names() {
    let files = [
        ("orders.toml", ORDERS),
        (
            "schema.sql",
            "CREATE TABLE orders (id int8, customer int8); INSERT INTO x SELECT generate_series(1, :scale);",
        ),
        ("report.sql", "SELECT :day;"),
    ];
    let dir = written(&files);
    let workload = read(dir.path(), &["orders.toml"]).unwrap();
    let kinds: Vec<(&str, u64, bool)> =
        workload.kinds().iter().map(|kind| (kind.name.as_str(), kind.weight, kind.has_check())).collect();
    assert_eq!(kinds, [("order_entry", 3, true), ("report", 1, false)]);
    assert_eq!((workload.scale(), workload.clients()), (3, Some(4)));
    let statements: Vec<(usize, String)> = workload.schema().unwrap().statements(3).collect();
    assert_eq!(statements[1].1, "INSERT INTO x SELECT generate_series(1, 3)");
    // Files weigh what they are said to, whatever is in them.
    let dir2 = written(&[("a.sql", "SELECT 1;"), ("b.sql", "SELECT 2;")]);
    let workload = read(dir2.path(), &["a.sql@9", "b.sql"]).unwrap();
    let weights: Vec<u64> = workload.kinds().iter().map(|kind| kind.weight).collect();
    assert_eq!(weights, [9, 1]);
    let same = read(dir2.path(), &["a.sql", "a.sql"]).unwrap();
    assert_eq!(same.kinds()[1].name, "a_2");
}

#[test]
fn what_is_wrong_in_a_description_is_named_with_file_and_line() {
    for (change, told) in [
        (("weight = 3", "weight = 0"), "a weight is from 1"),
        (("weight = 3", "weights = 3"), "line 8"),
        (("isolation = \"repeatable read\"", "isolation = \"serialisable\""), "serialisable"),
        (("zipf = [1, 10]", "zipf = [1, 10], sequence = 1"), "one of uniform, zipf, sequence"),
        (("exponent = 1.2", "exponent = 1.0"), "1.001"),
        (("\"1000 * :scale\"", "\"1000 * :scale)\""), ")"),
        (("\"1000 * :scale\"", "\"1)\\n\\\\shell x\""), "\\"),
        (("VALUES (:id, :customer)", "VALUES (:id, :costumer)"), ":costumer"),
        (("\"INSERT INTO orders", "\"COMMIT; INSERT INTO orders"), "the lab's"),
        (("\"INSERT INTO orders", "\"\\\\sleep 1\\nINSERT INTO orders"), "the lab's"),
        (("check = \"SELECT", "check = \"DELETE FROM orders; SELECT"), "a check is one SELECT"),
        (("scale = 3", "scale = 0"), "scale"),
        (("clients = 4", "clients = 4000"), "clients"),
        (("script = \"report.sql\"", "script = \"missing.sql\""), "missing.sql"),
        (("name = \"report\"", "name = \"report\"\nsql = [\"SELECT 1\"]"), "either sql or script"),
    ] {
        let text = ORDERS.replace(change.0, change.1);
        assert_ne!(text, ORDERS, "{change:?}");
        let dir =
            written(&[("orders.toml", &text), ("schema.sql", "SELECT 1;"), ("report.sql", "SELECT :day;")]);
        let error = read(dir.path(), &["orders.toml"]).expect_err(change.1).to_string();
        assert!(error.contains(told), "{change:?}: {error}");
        assert!(!error.contains('\u{1b}'));
    }
    let dir = written(&[
        ("orders.toml", ORDERS),
        ("schema.sql", "CREATE TABLE a ();\n\\i other.sql\n"),
        ("report.sql", "SELECT 1;"),
    ]);
    let error = read(dir.path(), &["orders.toml"]).unwrap_err().to_string();
    assert!(error.contains("schema.sql, line 2") && error.contains("\\\\i"), "{error}");
    for (file, told) in
        [("missing.sql", "missing.sql"), ("orders.toml@0", "weight"), ("orders.toml@99999999999", "weight")]
    {
        let error = read(dir.path(), &[file]).unwrap_err().to_string();
        assert!(error.contains(told), "{file}: {error}");
    }
}
