//! What is SQL must not be evaluated as an expression, and the other way round.

use super::is_expression;

#[test]
fn expressions_are_known_by_their_signs() {
    for text in [
        "'SELECT 1' ~> 'SELECT 2'",
        "'SELECT 1' & 'SELECT 2'",
        "  $$SELECT 1$$ | $$SELECT 2$$",
        "df.sleep(5)",
        "@> 'SELECT 1'",
        "(df.sleep(1) & df.sleep(2)) |=> 'both'",
    ] {
        assert!(is_expression(text), "{text}");
    }
}

#[test]
fn statements_and_envelopes_are_left_alone() {
    for text in [
        "SELECT 1",
        "select df.setvar('a', 'b')",
        "\nWITH x AS (SELECT 'a ~> b') SELECT * FROM x",
        "UPDATE t SET v = df.version()",
        "{\"node_type\":\"SQL\",\"query\":\"SELECT '~>'\"}",
        "1a2b3c4d",
        "nonsense",
        "",
    ] {
        assert!(!is_expression(text), "{text}");
    }
}
