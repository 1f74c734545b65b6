//! Variables: each role's own, and snapshot at the start.

use super::{session, started};
use crate::common::{one, refusal};

#[tokio::test]
async fn variables_are_set_read_and_removed() {
    let (database, client) = session().await;
    for (call, expected) in [
        ("df.getvar('a')", None),
        ("df.setvar('a', '1')", Some("OK")),
        ("df.setvar('a', '2')", Some("OK")),
        ("df.setvar('b c', '{x}')", Some("OK")),
        ("df.getvar('a')", Some("2")),
        ("df.getvar('b c')", Some("{x}")),
        ("df.unsetvar('a')", Some("OK")),
        ("df.unsetvar('a')", Some("OK")),
        ("df.getvar('a')", None),
        ("df.setvar('a', NULL)", None),
        ("df.clearvars()", Some("OK")),
        ("df.getvar('b c')", None),
    ] {
        assert_eq!(one(&client, &format!("SELECT {call}")).await.as_deref(), expected, "{call}");
    }
    for name in ["", "a{", "}"] {
        let said = refusal(&client, &format!("SELECT df.setvar('{name}', 'x')")).await;
        assert!(said.contains("the name of a variable"), "{said}");
    }
    drop(database);
}

#[tokio::test]
async fn a_start_keeps_the_values_of_its_role_at_that_moment() {
    let (database, client) = session().await;
    let vars = "SELECT vars::jsonb FROM df._started WHERE id = ";
    let none = started(&client, "'SELECT 1'").await;
    assert_eq!(one(&client, &format!("{vars}'{none}'")).await, None);
    let bob = database.role("bob").await;
    let other = database.connect(&bob).await;
    one(&other, "SELECT df.setvar('a', 'of Bob')").await;
    let still_none = started(&client, "'SELECT 1'").await;
    assert_eq!(one(&client, &format!("{vars}'{still_none}'")).await, None);
    one(&client, "SELECT df.setvar('a', 'of Alice')").await;
    one(&client, "SELECT df.setvar('b', '\"')").await;
    let id = started(&client, "'SELECT 1'").await;
    one(&client, "SELECT df.clearvars()").await;
    let kept = one(&client, &format!("{vars}'{id}'")).await;
    assert_eq!(kept.as_deref(), Some(r#"{"a": "of Alice", "b": "\""}"#));
    assert_eq!(one(&other, "SELECT df.getvar('a')").await.as_deref(), Some("of Bob"));
    // An owner that sees all has its own variables only, too.
    let owner = database.owner().await;
    assert_eq!(one(&owner, "SELECT df.getvar('a')").await, None);
    one(&owner, "SELECT df.clearvars()").await;
    assert_eq!(one(&other, "SELECT df.getvar('a')").await.as_deref(), Some("of Bob"));
}

#[tokio::test]
async fn workflows_do_not_change_variables() {
    let (_database, client) = session().await;
    client.batch_execute("SET df.in_workflow = 'true'").await.unwrap();
    for call in ["df.setvar('a', 'b')", "df.unsetvar('a')", "df.clearvars()"] {
        let said = refusal(&client, &format!("SELECT {call}")).await;
        let name = call.split('(').next().unwrap();
        assert!(said.contains(&format!("{name} cannot be called inside a workflow")), "{said}");
    }
    assert_eq!(one(&client, "SELECT df.getvar('a')").await, None);
}

#[tokio::test]
async fn a_change_of_variables_is_no_step() {
    let (_database, client) = session().await;
    for (fut, name) in [
        ("df.setvar('a', 'b')", "df.setvar"),
        ("df.seq(df.setvar('a', 'b'), 'SELECT 1')", "df.setvar"),
        ("df.seq('SELECT 1', df.unsetvar('a'))", "df.unsetvar"),
        ("df.clearvars()", "df.clearvars"),
    ] {
        let said = refusal(&client, &format!("SELECT df.start({fut})")).await;
        let expected = format!("{name} cannot be used as a workflow step. Call {name} before df.start().");
        assert!(said.contains(&expected), "{fut}: {said}");
    }
}

#[tokio::test]
async fn the_schema_says_what_it_is() {
    let (database, client) = session().await;
    let version = one(&client, "SELECT df.version()").await.unwrap();
    let schema = duramen_functions::schema::SCHEMA_VERSION;
    assert!(version.contains(&format!("(schema {schema})")), "{version}");
    assert_eq!(one(&client, "SELECT df.target_database()").await.as_deref(), Some(database.name()));
    assert_eq!(one(&client, "SELECT df.duroxide_schema()").await.as_deref(), Some("df"));
}
