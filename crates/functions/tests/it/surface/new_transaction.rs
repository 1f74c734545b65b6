//! `df.start` with transaction_mode 'new'.

use super::session;
use crate::common::{one, refusal, rows, Database};
use tokio_postgres::Client;

/// A session as [`session`] makes it, in a database that has the extension; `None` where the server lacks it.
async fn with_dblink() -> Option<(Database<'static>, Client)> {
    let (database, client) = session().await;
    match database.owner().await.batch_execute("CREATE EXTENSION dblink").await {
        Ok(()) => Some((database, client)),
        Err(error) => {
            eprintln!("not tested: {}", crate::common::text(&error));
            None
        }
    }
}

#[tokio::test]
async fn without_a_second_session_it_is_refused() {
    let (_database, client) = session().await;
    let said = refusal(&client, "SELECT df.start('SELECT 1', transaction_mode => 'new')").await;
    assert!(said.contains("CREATE EXTENSION dblink"), "{said}");
    client.batch_execute("SET df.in_workflow = 'true'").await.unwrap();
    let said = refusal(&client, "SELECT df.start('SELECT 1', transaction_mode => 'new')").await;
    assert!(said.contains("cannot be called inside a workflow"), "{said}");
}

#[tokio::test]
async fn it_outlives_the_callers_transaction_and_is_the_callers() {
    let Some((database, client)) = with_dblink().await else { return };
    one(&client, "SELECT df.setvar('committed', 'yes')").await;
    client.batch_execute("BEGIN").await.unwrap();
    one(&client, "SELECT df.setvar('open', 'yes')").await;
    let id = one(
        &client,
        "SELECT df.start('SELECT ''a''', 'a label', transaction_mode => 'new', input => '{\"n\": 1}', idempotency_key => 'k')",
    )
    .await
    .unwrap();
    assert_eq!(one(&client, &format!("SELECT df.status('{id}')")).await.as_deref(), Some("pending"));
    client.batch_execute("ROLLBACK").await.unwrap();
    let kept = rows(
        &client,
        "SELECT i.id, i.label, i.graph -> 0 ->> 'query', i.input, i.vars::jsonb, k.key,
             i.submitted_by = quote_ident(current_user)::regrole
         FROM df._started i JOIN df._key k USING (seq)",
    )
    .await;
    let kept: Vec<&str> = kept[0].iter().map(|value| value.as_deref().unwrap()).collect();
    assert_eq!(kept, [&id, "a label", "SELECT 'a'", r#"{"n": 1}"#, r#"{"committed": "yes"}"#, "k", "t"]);
    let owner = database.owner().await;
    assert_eq!(one(&owner, "SELECT count(*) FROM df._request").await.as_deref(), Some("0"));
    // Whose session it is that asks does not matter, but whose role.
    let bob = database.role("bob").await;
    owner.batch_execute(&format!("SET ROLE {bob}")).await.unwrap();
    one(&owner, "SELECT df.start('SELECT 1', 'of bob', transaction_mode => 'new')").await;
    owner.batch_execute("RESET ROLE").await.unwrap();
    let whose =
        one(&owner, "SELECT submitted_by::regrole::text FROM df._started WHERE label = 'of bob'").await;
    assert_eq!(whose, Some(bob));
    let said = refusal(&owner, "SELECT df.start('SELECT 1', transaction_mode => 'new')").await;
    assert!(said.contains("df.enable_superuser_instances"), "{said}");
}

#[tokio::test]
async fn what_is_wrong_is_told_as_ever_and_what_hangs_ends() {
    let Some((database, client)) = with_dblink().await else { return };
    let said =
        refusal(&client, "SELECT df.start('{\"node_type\":\"NONE\"}', transaction_mode => 'new')").await;
    assert!(said.contains("Unknown node_type 'NONE'"), "{said}");
    // The lock is given up a tenth earlier than the statement, which a busy machine needs.
    client.batch_execute("SET df.new_transaction_start_timeout_s = '3'; BEGIN").await.unwrap();
    one(&client, "SELECT df.start('SELECT 1', idempotency_key => 'held')").await;
    let said =
        refusal(&client, "SELECT df.start('SELECT 1', transaction_mode => 'new', idempotency_key => 'held')")
            .await;
    assert!(said.contains("waited 3 s for a lock"), "{said}");
    client.batch_execute("ROLLBACK; SET df.new_transaction_start_timeout_s = 'soon'").await.unwrap();
    let said = refusal(&client, "SELECT df.start('SELECT 1', transaction_mode => 'new')").await;
    assert!(said.contains("must be a number of seconds"), "{said}");
    drop(database);
}

#[tokio::test]
async fn the_second_session_is_out_of_reach() {
    let Some((database, client)) = with_dblink().await else { return };
    let owner = database.owner().await;
    // A function of a user's that shadows one of the server's must not run in the second session.
    let role = one(&client, "SELECT quote_ident(current_user)").await.unwrap();
    owner.batch_execute(&format!("GRANT CREATE ON SCHEMA public TO {role}")).await.unwrap();
    client
        .batch_execute(
            "CREATE TABLE public.trap (who text);
             CREATE FUNCTION public.quote_ident(name) RETURNS text LANGUAGE plpgsql AS $$
             BEGIN
                 RESET ROLE;
                 INSERT INTO public.trap VALUES (current_user);
                 RETURN pg_catalog.quote_ident($1::text);
             END $$;
             CREATE FUNCTION public.ltrim(text, unknown) RETURNS text LANGUAGE sql AS $$ SELECT $1 $$",
        )
        .await
        .unwrap_or_else(|error| {
            // Such a function may be impossible to make; then it is not a danger.
            eprintln!("{}", crate::common::text(&error));
        });
    client.batch_execute("SET search_path = public, pg_catalog").await.unwrap();
    one(&client, "SELECT df.start('SELECT 1', transaction_mode => 'new')").await;
    let trapped = maybe_count(&owner).await;
    assert_eq!(trapped, "0");
    let open = "SELECT coalesce(public.dblink_get_connections(), '{}')";
    assert_eq!(one(&client, open).await.as_deref(), Some("{}"), "no connection is left behind");
}

/// How often the trap was met by somebody other than who set it.
async fn maybe_count(owner: &Client) -> String {
    crate::common::maybe_one(owner, "SELECT count(*) FROM public.trap WHERE who = 'postgres'")
        .await
        .map_or_else(|_| "0".to_owned(), |count| count.unwrap())
}
