#![allow(clippy::unwrap_used, reason = "tests")]

use tokio_postgres::types::Field;

use super::*;

fn columns(of: &[(&str, Type)]) -> Vec<Column> {
    of.iter().map(|(name, of)| Column::new(*name, of)).collect()
}

#[track_caller]
fn check(of: &[(&str, Type)], rows: &str, expected: &str) {
    let result = typed_rows(rows, &columns(of), 1).unwrap();
    assert_eq!(result.text(), format!(r#"{{"rows":{expected},"row_count":1}}"#));
    Json::parse(result.text()).unwrap();
}

fn domain(of: Type) -> Type {
    Type::new("d".into(), 90_001, Kind::Domain(of), "public".into())
}

fn composite(fields: &[(&str, Type)]) -> Type {
    let fields = fields.iter().map(|(name, of)| Field::new((*name).to_owned(), of.clone())).collect();
    Type::new("c".into(), 90_002, Kind::Composite(fields), "public".into())
}

fn array(of: Type) -> Type {
    Type::new("_x".into(), 90_003, Kind::Array(of), "public".into())
}

#[test]
fn plain_rows_pass_through_to_the_byte() {
    let rows = r#"[{"a": 1.50,"b":"x","c":{"n":1e400},"d":[1,2]}]"#;
    check(&[("a", Type::INT8), ("b", Type::TEXT), ("c", Type::JSON), ("d", Type::INT4_ARRAY)], rows, rows);
    check(&[("t", Type::TIMESTAMPTZ), ("i", Type::INTERVAL)], "[]", "[]");
    check(&[], "[{},{}]", "[{},{}]");
}

#[test]
fn numerics_become_strings_with_the_same_digits() {
    let of = [("n", Type::NUMERIC), ("i", Type::INT4)];
    check(&of, r#"[{"n":1.50,"i":1},{"n":-0,"i":2}]"#, r#"[{"n":"1.50","i":1},{"n":"-0","i":2}]"#);
    check(&of, r#"[{"n":null,"i":null},{"n":"NaN","i":2}]"#, r#"[{"n":null,"i":null},{"n":"NaN","i":2}]"#);
    check(&[("n", domain(domain(Type::NUMERIC)))], r#"[{"n":7}]"#, r#"[{"n":"7"}]"#);
}

#[test]
fn floats_that_are_no_numbers_become_null() {
    let rows = r#"[{"f":1.5,"g":"NaN"},{"f":"-Infinity","g":1e-300}]"#;
    check(&[("f", Type::FLOAT4), ("g", Type::FLOAT8)], rows, r#"[{"f":1.5,"g":null},{"f":null,"g":1e-300}]"#);
}

#[test]
fn void_becomes_null() {
    check(&[("pg_sleep", Type::VOID)], r#"[{"pg_sleep":""}]"#, r#"[{"pg_sleep":null}]"#);
}

#[test]
fn the_elements_of_arrays_are_typed_in_every_dimension() {
    check(&[("a", Type::NUMERIC_ARRAY)], r#"[{"a":[1.0,null,2]}]"#, r#"[{"a":["1.0",null,"2"]}]"#);
    check(
        &[("a", Type::NUMERIC_ARRAY)],
        r#"[{"a":[[1],[2]]},{"a":[]}]"#,
        r#"[{"a":[["1"],["2"]]},{"a":[]}]"#,
    );
    check(&[("a", Type::FLOAT8_ARRAY)], r#"[{"a":[[1,"NaN"],[2,3]]}]"#, r#"[{"a":[[1,null],[2,3]]}]"#);
    check(&[("a", array(domain(Type::NUMERIC)))], r#"[{"a":[5]}]"#, r#"[{"a":["5"]}]"#);
    // Numbers within JSON are the user's own.
    check(
        &[("a", Type::JSONB_ARRAY), ("n", Type::NUMERIC)],
        r#"[{"a":[[1]],"n":1}]"#,
        r#"[{"a":[[1]],"n":"1"}]"#,
    );
}

#[test]
fn the_fields_of_composite_values_are_typed() {
    let inner = composite(&[("f", Type::FLOAT8), ("x", Type::TEXT)]);
    let outer = composite(&[("n", Type::NUMERIC), ("in", inner.clone()), ("s", array(inner))]);
    check(
        &[("c", outer)],
        r#"[{"c":{"n":1,"in":{"f":"NaN","x":"NaN"},"s":[{"f":2,"x":null}]}},{"c":null}]"#,
        r#"[{"c":{"n":"1","in":{"f":null,"x":"NaN"},"s":[{"f":2,"x":null}]}},{"c":null}]"#,
    );
    assert_eq!(ColumnKind::from_type(&composite(&[("a", Type::INT4)])), ColumnKind::Plain);
}

#[test]
fn of_columns_with_one_name_the_last_wins_at_the_place_of_the_first() {
    let int = |name| (name, Type::INT4);
    check(&[int("a"), int("b"), int("a")], r#"[{"a":1,"b":2,"a":3}]"#, r#"[{"a":3,"b":2}]"#);
    check(&[int("a"), ("a", Type::NUMERIC)], r#"[{"a":1,"a":3}]"#, r#"[{"a":"3"}]"#);
    let many: Vec<String> = (0..50).map(|i| format!("c{}", i % 40)).collect();
    let of: Vec<_> = many.iter().map(|name| int(name.as_str())).collect();
    let row: Vec<String> = many.iter().enumerate().map(|(i, name)| format!("\"{name}\":{i}")).collect();
    let fixed: Vec<String> =
        (0..40).map(|i| format!("\"c{i}\":{}", if i < 10 { i + 40 } else { i })).collect();
    check(&of, &format!("[{{{}}}]", row.join(",")), &format!("[{{{}}}]", fixed.join(",")));
}

#[test]
fn names_are_escaped() {
    let name = "a\"b\\\n\u{e9}";
    let quoted = json::quoted(name);
    check(&[(name, Type::NUMERIC)], &format!("[{{{quoted}:1}}]"), &format!("[{{{quoted}:\"1\"}}]"));
}

#[test]
fn rows_that_do_not_fit_are_refused() {
    let of = columns(&[("n", Type::NUMERIC), ("m", Type::NUMERIC)]);
    let refused = |rows| typed_rows(rows, &of, 1).unwrap_err();
    assert!(matches!(refused(r#"[{"n":1}]"#), ResultError::Columns { found: 1, expected: 2 }));
    for rows in ["", "{}", "[1]", "[[1,2]]", "[{\"n\":1,\"m\":2}", "null"] {
        assert!(matches!(refused(rows), ResultError::NotRows), "{rows}");
    }
}
