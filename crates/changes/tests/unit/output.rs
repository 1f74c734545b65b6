use super::{Format, Printer};
use crate::change::{Column, Compared, Ending, Only, Part, Row, Sequence, SequenceState, Summary, Table};

fn table(key: &[usize]) -> Table {
    let column = |name: &str, type_name: &str| Column {
        name: name.to_owned(),
        type_name: type_name.to_owned(),
        is_always_generated: false,
    };
    Table {
        schema: "public".to_owned(),
        name: "a\"b\nc".to_owned(),
        columns: vec![column("id", "bigint"), column("no\"te", "text")],
        key: key.to_vec(),
        left_out: Vec::new(),
        only_in: None,
        compared: Compared::Blocks { changed: 1, of: 2 },
    }
}

fn row(old: Option<[Option<&str>; 2]>, new: Option<[Option<&str>; 2]>) -> Part {
    let values = |values: Option<[Option<&str>; 2]>| {
        values.map(|it| it.iter().map(|it| it.map(str::to_owned)).collect())
    };
    Part::Row(Row { old: values(old), new: values(new) })
}

fn written(format: Format, key: &[usize]) -> String {
    let mut printer = Printer::new(format);
    let ending = Ending { added: 1, removed: 1, changed: 1, listed: 3 };
    let state = |last_value| Some(SequenceState { last_value, is_called: true });
    [
        Part::Table(table(key)),
        row(None, Some([Some("3"), Some("it's")])),
        row(Some([Some("1"), Some("a\\b")]), Some([Some("1"), None])),
        row(Some([Some("2"), None]), None),
        Part::Ending(ending),
        Part::Sequence(Sequence { schema: "s".into(), name: "q".into(), old: state(1), new: state(4) }),
        Part::Summary(Summary { tables: 2, differing: 1, rows: ending, sequences: 1 }),
    ]
    .iter()
    .map(|part| printer.part(part))
    .collect()
}

#[test]
fn statements_quote_what_was_stored_and_come_in_an_order_that_works() {
    let sql = written(Format::Sql, &[0]);
    let body = sql.split_once("BEGIN;\n").unwrap().1;
    let expected = "-- public.\"a\"\"b\\nc\"\n\
        DELETE FROM ONLY \"public\".\"a\"\"b\nc\" WHERE \"id\" = '2';\n\
        UPDATE ONLY \"public\".\"a\"\"b\nc\" SET \"no\"\"te\" = NULL WHERE \"id\" = '1';\n\
        INSERT INTO \"public\".\"a\"\"b\nc\" (\"id\", \"no\"\"te\") VALUES ('3', 'it''s');\n\
        SELECT pg_catalog.setval('\"s\".\"q\"', 4, true);\nCOMMIT;\n";
    assert_eq!(body, expected);
}

#[test]
fn without_a_key_one_row_of_those_that_are_the_same_is_deleted() {
    let mut printer = Printer::new(Format::Sql);
    printer.part(&Part::Table(table(&[])));
    let deletion = printer.part(&row(Some([Some("2"), None]), None));
    let name = "\"public\".\"a\"\"b\nc\"";
    let expected = format!(
        "DELETE FROM ONLY {name} WHERE ctid = (SELECT ctid FROM ONLY {name} WHERE \
         pg_catalog.format('%s', \"id\") = '2' AND \"id\" IS DISTINCT FROM NULL AND \"no\"\"te\" IS NOT DISTINCT FROM NULL \
         LIMIT 1);\n"
    );
    assert_eq!(deletion, expected);
}

#[test]
fn a_script_that_lacks_rows_takes_itself_back() {
    let mut printer = Printer::new(Format::Sql);
    printer.part(&Part::Table(table(&[0])));
    let cut = Ending { added: 5, listed: 2, ..Ending::default() };
    assert!(printer.part(&Part::Ending(cut)).contains("INCOMPLETE: 3 more rows"));
    let summary = Summary { rows: cut, ..Summary::default() };
    assert!(printer.part(&Part::Summary(summary)).ends_with("ROLLBACK;\n"));
}

#[test]
fn tables_that_one_side_has_are_named_in_scripts() {
    let mut printer = Printer::new(Format::Sql);
    let gone = Table { only_in: Some(Only::Snapshot), ..table(&[0]) };
    assert!(printer.part(&Part::Table(gone)).contains("which the branch has no more: drop it"));
    assert_eq!(printer.part(&row(Some([Some("1"), None]), None)), "");
}

#[test]
fn people_are_shown_what_differs_and_nothing_that_moves_their_cursor() {
    let expected = "public.\"a\"\"b\\nc\"\n  + id '3': no\"te 'it's'\n  ~ id '1': no\"te 'a\\b' -> NULL\n  \
        - id '2': no\"te NULL\n  1 added, 1 removed, 1 changed\ns.q (sequence): 1 -> 4\n\
        1 added, 1 removed, 1 changed in 1 of 2 tables; 1 sequences differ\n";
    assert_eq!(written(Format::Table, &[0]), expected);
}

#[test]
fn null_and_the_empty_text_are_different_in_csv() {
    let mut printer = Printer::new(Format::Csv);
    printer.part(&Part::Table(table(&[0])));
    let lines = printer.part(&row(Some([Some("1"), Some("")]), Some([Some("1"), None])));
    assert_eq!(
        lines,
        "\"public.\"\"a\"\"\"\"b\nc\"\"\",\"changed\",\"{\"\"id\"\":\"\"1\"\"}\",\"no\"\"te\",\"\",\n"
    );
}

#[test]
fn each_line_of_json_stands_for_itself() {
    let text = written(Format::JsonLines, &[0]);
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&str> = lines.iter().map(|line| line["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["table", "row", "row", "row", "table_end", "sequence", "summary"]);
    assert_eq!(lines[2]["key"]["id"], "1");
    assert_eq!(lines[2]["old"]["no\"te"], "a\\b");
    assert!(lines[2]["new"]["no\"te"].is_null() && lines[2]["new"].get("id").is_none());
}
