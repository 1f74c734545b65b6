//! Scripts of pgbench: what is read, and what is refused with its line and word.

use duramen_workload::Script;

fn refused(text: &str) -> (usize, String) {
    let fault = Script::parse(text, &[]).expect_err(text);
    (fault.line, fault.word)
}

#[test]
fn scripts_as_pgbench_documents_them_are_read() {
    for text in [
        "\\set aid random(1, 100000 * :scale)\n\\set delta random(-5000, 5000)\nBEGIN;\nUPDATE a SET b = b + :delta WHERE aid = :aid;\nEND;\n",
        "SELECT 1 AS one\n\\gset\nSELECT :one;",
        "SELECT 1 AS one, 2 AS two \\gset p_\nSELECT :p_one + :p_two;",
        "SELECT 1 AS a \\; SELECT 2 AS b\n\\aset\nSELECT 1",
        "\\set x 1\n\\if :x > 1\nSELECT 1;\n\\elif :x = 1\nSELECT 2;\n\\else\nSELECT 3;\n\\endif\n",
        "\\if true\n\\if false\nSELECT 1;\n\\endif\n\\endif\n",
        "\\sleep 10ms\n\\set t 5\n\\sleep :t us\n\\sleep 1\nSELECT 1;",
        "\\set x 1 + \\\n  2\nSELECT :x;",
        "-- \\shell in a comment\n/* /* nested */ \\setshell */ SELECT 1; -- end",
        "SELECT ';', \";\", $$;$$, $a$ ; $a$, E'\\';', '12:30'; SELECT 'it''s :x';",
        "SELECT 1::int, a[1:2], a[1 : 2] FROM t;",
        "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT CASE WHEN true THEN 2 END; END; SELECT f();",
        "DO $$ BEGIN PERFORM 1; END $$;",
        "SELECT :client_id, :scale, :random_seed, :default_seed",
        "\u{feff} SELECT 1;",
    ] {
        Script::parse(text, &[]).unwrap_or_else(|fault| panic!("{text:?}: {fault:?}"));
    }
}

#[test]
fn what_is_not_supported_is_named_with_its_line() {
    for (text, line, word) in [
        ("SELECT 1;\n\\shell rm -rf /\n", 2, "\\shell"),
        ("SELECT 1;\n\n\\setshell x date\n", 3, "\\setshell"),
        ("\\startpipeline\nSELECT 1;\n", 1, "\\startpipeline"),
        ("\\syncpipeline\nSELECT 1;\n", 1, "\\syncpipeline"),
        ("\\set x random(1, 2\nSELECT 1;", 1, ""),
        ("SELECT 1;\n\\set x 1 +* 2\n", 2, "*"),
        ("SELECT 1;\n\\set x gauss(1)\n", 2, "gauss"),
        ("SELECT 1;\n\\set 1x 1\n", 2, "1x"),
        ("SELECT 1;\n\\set client_id 1\n", 2, "client_id"),
        ("SELECT\n :nothing;", 2, ":nothing"),
        ("SELECT 1;\n\\set y :nothing\n", 2, ":nothing"),
        ("SELECT 1;\n\\include x\n", 2, "\\include"),
        ("SELECT 1;\n\\\n", 2, "\\"),
        ("\\if true\nSELECT 1;\n", 1, "\\if"),
        ("SELECT 1;\n\\else\n", 2, "\\else"),
        ("\\if true\n\\else\n\\else\nSELECT 1;\\endif\n", 3, "\\else"),
        ("SELECT 1;\n\\endif\n", 2, "\\endif"),
        ("\\if true\nSELECT 1;\n\\endif now\n", 3, "now"),
        ("\\gset\nSELECT 1;", 1, "\\gset"),
        ("\\sleep 1 h\nSELECT 1;", 1, "h"),
        ("\\sleep 999\nSELECT 1;", 1, "999"),
        ("\\sleep\nSELECT 1;", 1, "\\sleep"),
        ("\\set x 1\n", 1, ""),
        ("SELECT 1;\nSELECT 'no end", 2, "'"),
        ("SELECT 1;\n/* no end", 2, "/*"),
        ("SELECT $a$ no end", 1, "$a$"),
        ("BEGIN;\nPREPARE /* */ TRANSACTION 'x';\n", 2, "PREPARE TRANSACTION"),
        ("SELECT 1;\nCOPY t FROM STDIN;\n", 2, "stdin"),
        ("SELECT 1;\nCOPY t TO STDOUT;\n", 2, "stdout"),
        ("SELECT 1;\nSET LOCAL Synchronous_Commit = off;\n", 2, "synchronous_commit"),
        ("SELECT 1;\nSELECT set_config('synchronous_commit', 'off', false);\n", 2, "synchronous_commit"),
        ("SELECT 1;\0", 1, "\0"),
    ] {
        assert_eq!(refused(text), (line, word.to_owned()), "{text:?}");
    }
}

#[test]
fn texts_of_nobody_end_in_a_script_or_a_fault() {
    let mut rng = duramen_base::entropy::rng(7);
    let words = [
        "\\set",
        "\\if",
        "\\endif",
        "\\else",
        "\\elif",
        "\\gset",
        ";",
        "'",
        "\"",
        "$$",
        "$a$",
        "(",
        ")",
        ":x",
        "::",
        ":",
        "\\;",
        "BEGIN",
        "ATOMIC",
        "END",
        "CASE",
        "/*",
        "*/",
        "--",
        "\n",
        " ",
        "1",
        "x",
        "\u{e4}",
        "\\",
        "\0",
        "E'",
        "random(1, 2)",
    ];
    for _ in 0..20_000 {
        let count = rng.usize(0..20);
        let text: String = (0..count)
            .map(|_| words[rng.usize(..words.len())])
            .collect::<Vec<_>>()
            .join([" ", ""][rng.usize(..2)]);
        let _ = Script::parse(&text, &[]);
    }
    // What is long, or deep, is read in time.
    let begin = duramen_base::clock::now();
    let body = format!("CREATE FUNCTION f() BEGIN ATOMIC {}", "SELECT 1;".repeat(100_000));
    let _ = Script::parse(&body, &[]);
    let _ = Script::parse(&"(".repeat(1_000_000), &[]);
    let _ = Script::parse(&"/*".repeat(500_000), &[]);
    let _ = Script::parse(&"$a".repeat(200_000), &[]);
    let _ = Script::parse(&"\\if true\n".repeat(100_000), &[]);
    let _ = Script::parse(&":x".repeat(500_000), &[]);
    assert!(begin.elapsed().as_secs() < 20, "{:?}", begin.elapsed());
}
