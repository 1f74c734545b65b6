use super::verb;

#[test]
fn operations_are_words_of_a_short_list() {
    assert_eq!(verb("  -- why\n insert INTO t VALUES (1)"), "INSERT");
    assert_eq!(verb("with x as (select 1) select * from x"), "WITH");
    assert_eq!(verb("(SELECT 1)"), "SQL");
    assert_eq!(verb("secret_function_of_mine()"), "SQL");
    assert_eq!(verb(""), "SQL");
}
