//! How deep and how large a durable function may be.

use super::{common::one, refused, session};
use tokio_postgres::Client;

/// The number of nodes that a durable function, given as a SQL expression, has.
async fn nodes(client: &Client, expression: &str) -> String {
    one(client, &format!("SELECT json_array_length(df._flatten({expression}))")).await.expect("a number")
}

/// `levels` loops, one in the other, around one step.
fn nested(levels: u32) -> String {
    format!(
        r#"repeat('{{"node_type":"LOOP","left_node":', {levels}) || df.sql('a') || repeat('}}', {levels})"#
    )
}

#[tokio::test]
async fn nesting_ends_at_256() {
    let (_database, client) = session().await;
    assert_eq!(nodes(&client, &nested(255)).await, "256");
    for levels in [256, 257, 5_000, 200_000] {
        let call = format!("df._flatten({})", nested(levels));
        refused(&client, &[(&call, "maximum nesting depth of 256")]).await;
    }
    // The functions and operators only put together; the end of it counts.
    let chain = |steps: u32| vec!["'a'"; steps as usize].join(" ~> ");
    assert_eq!(nodes(&client, &chain(256)).await, "511");
    refused(&client, &[(&format!("df._flatten({})", chain(257)), "maximum nesting depth of 256")]).await;
}

#[tokio::test]
async fn an_instance_has_at_most_ten_thousand_nodes() {
    let (_database, client) = session().await;
    let join = |branches: u32| {
        format!("(SELECT df.join_all(array_agg('SELECT ' || i)) FROM generate_series(1, {branches}) AS i)")
    };
    assert_eq!(nodes(&client, &join(9_999)).await, "10000");
    for branches in [10_000, 30_000] {
        let call = format!("df._flatten({})", join(branches));
        refused(&client, &[(&call, "maximum of 10,000 nodes")]).await;
    }
}

#[tokio::test]
async fn long_texts_pass_whole() {
    let (_database, client) = session().await;
    let query = "SELECT length(node ->> 'query') FROM json_array_elements(\
                 df._flatten('SELECT 1' ~> ('SELECT ' || quote_literal(repeat('x', 5000000))))) \
                 WITH ORDINALITY AS graph(node, n) WHERE n = 3";
    assert_eq!(one(&client, query).await.as_deref(), Some("5000009"));
}

#[tokio::test]
async fn bind_parameters_have_a_limit() {
    let (_database, client) = session().await;
    let call = |count: u32| {
        format!("df.sql('SELECT 1', (SELECT jsonb_agg(i) FROM generate_series(1, {count}) AS i)) IS NOT NULL")
    };
    super::gives(&client, &[(&call(1_000), "t")]).await;
    refused(&client, &[(&call(1_001), "at most 1,000")]).await;
}
