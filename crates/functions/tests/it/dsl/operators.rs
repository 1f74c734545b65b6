//! The operators: equal in precedence, from left to right, and where they live.

use super::{common::OWNER, gives, null, refused, session};
use crate::common::one;

#[tokio::test]
async fn each_operator_is_a_function() {
    let (_database, client) = session().await;
    for (operator, function) in [
        ("'a' ~> 'b'", "df.seq('a', 'b')"),
        ("'a' |=> 'b'", "df.as('a', 'b')"),
        ("'a' & 'b'", "df.join('a', 'b')"),
        ("'a' | 'b'", "df.race('a', 'b')"),
        ("'c' ?> 'a' !> 'b'", "df.if('c', 'a', 'b')"),
        ("@> 'a'", "df.loop('a')"),
        ("'a' ?> 'b'", "df.if_then_op('a', 'b')"),
        ("('a' ?> 'b') !> 'c'", "df.if_else_op(df.if_then_op('a', 'b'), 'c')"),
        ("@> 'a'", "df.loop_prefix_op('a')"),
        ("'a'::varchar ~> 'b'::varchar", "df.seq('a', 'b')"),
    ] {
        let expected = one(&client, &format!("SELECT {function}")).await.unwrap();
        gives(&client, &[(operator, &expected)]).await;
    }
    null(&client, &["'a' ~> NULL", "'a' & NULL", "@> NULL::text", "('a' ?> NULL) !> 'b'"]).await;
}

#[tokio::test]
async fn half_a_choice_is_an_object_of_its_own() {
    let (_database, client) = session().await;
    gives(
        &client,
        &[(
            "'c' ?> 't'",
            concat!(
                r#"{"_partial_if":true,"condition":{"node_type":"SQL","query":"c"},"#,
                r#""then_branch":{"node_type":"SQL","query":"t"}}"#
            ),
        )],
    )
    .await;
    let wrong = "Invalid if-then-else: left side of !> must be a ?> expression";
    refused(
        &client,
        &[
            ("'t' !> 'e'", wrong),
            ("df.sql('t') !> 'e'", wrong),
            // Operators group from the left, so that this is ((c ?> t) ~> x) !> e.
            ("'c' ?> 't' ~> 'x' !> 'e'", wrong),
            (r#"'{"_partial_if":true}' !> 'e'"#, wrong),
            (r#"'{"_partial_if":false,"condition":{},"then_branch":{}}' !> 'e'"#, wrong),
            ("df._flatten('c' ?> 't')", "Invalid if-then-else"),
            ("df._flatten('a' ~> ('c' ?> 't'))", "Invalid if-then-else"),
        ],
    )
    .await;
}

#[tokio::test]
async fn precedence_is_equal_and_grouping_is_from_the_left() {
    let (_database, client) = session().await;
    for (written, meant) in [
        ("'a' ~> 'b' ~> 'c'", "('a' ~> 'b') ~> 'c'"),
        ("'a' ~> 'b' & 'c'", "('a' ~> 'b') & 'c'"),
        ("'a' & 'b' ~> 'c'", "('a' & 'b') ~> 'c'"),
        ("'a' | 'b' & 'c'", "('a' | 'b') & 'c'"),
        ("'a' |=> 'x' ~> 'b' |=> 'y'", "(('a' |=> 'x') ~> 'b') |=> 'y'"),
        ("'c' ?> 't' !> 'e' ~> 'z'", "(('c' ?> 't') !> 'e') ~> 'z'"),
        ("'a' ~> 'c' ?> 't' !> 'e'", "(('a' ~> 'c') ?> 't') !> 'e'"),
        ("@> 'a' ~> 'b'", "(@> 'a') ~> 'b'"),
        ("@> 'a' |=> 'x'", "(@> 'a') |=> 'x'"),
        ("'a' & 'b' & 'c'", "df.join(df.join('a', 'b'), 'c')"),
    ] {
        let expected = one(&client, &format!("SELECT {meant}")).await.unwrap();
        gives(&client, &[(written, &expected)]).await;
    }
}

#[tokio::test]
async fn operators_need_no_search_path() {
    let (_database, client) = session().await;
    client.batch_execute("SET search_path = ''").await.unwrap();
    gives(
        &client,
        &[
            ("df._operators_schema()", "pg_catalog"),
            ("@> ('a' ~> 'b' & 'c' | 'd' |=> 'e') IS NOT NULL", "t"),
            ("('c' ?> 'a' !> 'b') IS NOT NULL", "t"),
        ],
    )
    .await;
}

#[tokio::test]
async fn an_installer_without_rights_puts_them_into_df_and_a_superuser_moves_them_out() {
    const FILE: &str = include_str!("../../../sql/31_operators.sql");
    let (database, client) = session().await;
    let owner = database.connect(OWNER).await;
    let installer = database.stranger("installer").await;
    owner
        .batch_execute(&format!(
            "DROP OPERATOR pg_catalog.~> (text, text), pg_catalog.|=> (text, text), pg_catalog.& (text, text),
                 pg_catalog.| (text, text), pg_catalog.?> (text, text), pg_catalog.!> (text, text),
                 pg_catalog.@> (NONE, text);
             GRANT USAGE, CREATE ON SCHEMA df TO {installer};
             ALTER FUNCTION df._operators_schema() OWNER TO {installer};
             SET ROLE {installer};"
        ))
        .await
        .unwrap();
    owner.batch_execute(FILE).await.unwrap();
    owner.batch_execute(FILE).await.unwrap();
    gives(&client, &[("df._operators_schema()", "df")]).await;
    refused(&client, &[("'a' ~> 'b'", "operator does not exist")]).await;
    client.batch_execute("SET search_path = public, df").await.unwrap();
    let seq = one(&client, "SELECT df.seq('a', 'b')").await.unwrap();
    gives(&client, &[("'a' ~> 'b'", &seq)]).await;
    // Once a superuser comes, they are found everywhere; and a later visit of the other adds none.
    owner.batch_execute("RESET ROLE").await.unwrap();
    owner.batch_execute(FILE).await.unwrap();
    owner.batch_execute(&format!("SET ROLE {installer}")).await.unwrap();
    owner.batch_execute(FILE).await.unwrap();
    client.batch_execute("RESET search_path").await.unwrap();
    gives(&client, &[("df._operators_schema()", "pg_catalog"), ("'a' ~> 'b'", &seq)]).await;
    let count = "SELECT count(*) FROM pg_operator o JOIN pg_proc p ON p.oid = o.oprcode \
                 WHERE p.pronamespace = 'df'::regnamespace AND o.oprnamespace = 'pg_catalog'::regnamespace";
    assert_eq!(one(&client, count).await.as_deref(), Some("7"));
}

#[tokio::test]
async fn operators_come_back_after_a_restore() {
    let (database, client) = session().await;
    let owner = database.owner().await;
    // pg_dump leaves out what is in pg_catalog.
    owner.batch_execute("DROP OPERATOR pg_catalog.~> (text, text)").await.unwrap();
    refused(&client, &[("'a' ~> 'b'", "operator does not exist")]).await;
    duramen_functions::schema::install(&database.url()).await.unwrap();
    let seq = one(&client, "SELECT df.seq('a', 'b')").await.unwrap();
    gives(&client, &[("'a' ~> 'b'", &seq)]).await;
}
