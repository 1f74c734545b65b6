use std::fs;
use std::path::Path;
use std::process::Command;

use super::{without_secret, Psql};
use crate::branches::client::{Failure, Lived};
use crate::branches::tests::{names, plan};

const URL: &str = "postgresql:///flights?host=/nowhere&port=5432&user=app&password=s3cret";

/// A stand-in for psql: `run` is done for each statement `$sql` of a process of its own, `held` for each line `$line`
/// of one that is held open.
fn stand_in(folder: &Path, run: &str, held: &str) -> Psql {
    let program = folder.join("psql");
    let script = format!(
        "#!/bin/sh\necho \"$@ \" >>{arguments}\n[ \"$PGPASSWORD\" = s3cret ] || exit 9\nfor sql; do :; done\n\
         case \"$*\" in *' -c '*) {run};; *) while read -r line; do {held}; done;; esac\n",
        arguments = folder.join("arguments").display()
    );
    let text = folder.join("script");
    fs::write(&text, script).unwrap();
    // By another process: a program that is open for writing here, or in a child that another test just forked, cannot
    // be run.
    let installed = Command::new("install").args(["-m", "755"]).args([&text, &program]).status();
    assert!(installed.unwrap().success());
    Psql { program, version: "psql 0".to_owned() }
}

const RIGHT_HELD: &str = r#"case "$line" in *echo*) echo '-- end of the answer --';; *) echo 1;; esac"#;

async fn work(run: &str, held: &str) -> (Result<(), Failure>, Lived, String) {
    let folder = tempfile::tempdir().unwrap();
    let mut lived = Lived::default();
    let done = stand_in(folder.path(), run, held).work(URL, &plan(), &mut lived).await;
    (done, lived, fs::read_to_string(folder.path().join("arguments")).unwrap())
}

#[tokio::test]
async fn each_statement_has_a_process_and_one_is_held_open() {
    let (done, lived, arguments) = work("echo 1", RIGHT_HELD).await;
    done.unwrap();
    let figures = ["psql_first_query_ms", "psql_second_process_ms", "psql_second_query_ms", "psql_write_ms"];
    assert_eq!(names(&lived), figures);
    assert_eq!(arguments.matches(" -c ").count(), 3, "{arguments}");
    assert_eq!(arguments.lines().filter(|line| !line.contains(" -c ")).count(), 1, "{arguments}");
    assert!(arguments.starts_with("-X -q -A -t -v ON_ERROR_STOP=1 "), "{arguments}");
    assert!(!arguments.contains("s3cret"), "everybody can read the arguments of a process");
}

#[tokio::test]
async fn a_wrong_answer_has_no_latency() {
    let (done, lived, _) = work("echo 2", RIGHT_HELD).await;
    let failure = done.unwrap_err();
    assert_eq!((failure.step, names(&lived).len()), ("first query", 0));
    assert!(failure.message.contains("expected [[1]]"), "{}", failure.message);
    let (done, lived, _) = work("echo 1", "echo '-- end of the answer --'").await;
    assert_eq!((done.unwrap_err().step, names(&lived).len()), ("second query", 2));
}

#[tokio::test]
async fn what_psql_complains_of_is_told_and_a_deadlock_is_known() {
    let (done, _, _) = work("echo 'ERROR:  40P01: x' >&2; exit 1", RIGHT_HELD).await;
    let failure = done.unwrap_err();
    assert!(failure.deadlock && failure.message.contains("ERROR:  40P01: x"), "{}", failure.message);
    let (done, _, _) = work("echo 1", "echo 'FATAL:  57P01: gone' >&2; exit 2").await;
    let failure = done.unwrap_err();
    assert!(!failure.deadlock && failure.message.contains("57P01: gone"), "{}", failure.message);
}

#[test]
fn only_a_plain_secret_is_taken_out_of_a_url() {
    let (url, secret) = without_secret(URL);
    assert_eq!(url, "postgresql:///flights?host=/nowhere&port=5432&user=app");
    assert_eq!(secret.as_deref(), Some("s3cret"));
    for unchanged in ["postgresql://a@b/c", "postgresql:///c?host=/x", "postgresql:///c?password=a%20b"] {
        assert_eq!(without_secret(unchanged), (unchanged.to_owned(), None));
    }
}
