//! The tools on the standard streams, as the owner of the daemon.

use super::conversation::Agent;
use crate::support::{add_script, connect, create, query, settle, until, Home};
use serde_json::{json, Value};
use std::collections::BTreeMap;

const TABLES: &str = "\
    create table customers (id int primary key, name text not null unique);\n\
    create table orders (id int generated always as identity primary key, customer int references customers, \
                         total numeric default 0 check (total >= 0));\n\
    comment on table orders is 'What was bought';\n\
    create index on orders (customer);\n\
    create view big as select * from orders where total > 100;\n\
    create table \"Odd name; --\" (x int);\n\
    insert into customers select i, 'c' || i from generate_series(1, 100) i;\n\
    insert into orders (customer, total) select i, i from generate_series(1, 100) i;\n\
    analyze;\n";

fn agent(home: &Home) -> Agent {
    Agent::start(&mut home.command(&["mcp"]))
}

/// M2, M3, M4, M6.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_works_in_a_branch_and_the_source_keeps_its_rows() {
    let home = Home::new();
    let refused = home.run(&["mcp"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("duramen serve"), "it says what to do");

    let daemon = home.serve().await;
    let mut connection = connect(&daemon).await;
    add_script(&home, &mut connection, TABLES, 2, 0).await;
    settle(&mut connection).await;
    let mut agent = agent(&home);
    tools_say_what_they_do(&mut agent);

    // A branch of the only source; its end is soon, and said.
    let made = agent.value("branch_create", json!({ "name": "try" }));
    assert_eq!(
        (&made["source"], &made["policy"], &made["existing"]),
        (&json!("app"), &json!("read-write"), &json!(false))
    );
    assert!(made["note"].as_str().unwrap().contains("900 s"), "{made}");
    let view = connection.branch("try").await.unwrap();
    let lasts_s = view.expires_at.as_second() - view.created_at.as_second();
    assert!((890..=900).contains(&lasts_s), "{lasts_s}");
    let listed = agent.value("branch_list", json!({}));
    assert_eq!(
        (&listed["branches"][0]["name"], &listed["sources"][0]["name"]),
        (&json!("try"), &json!("app"))
    );
    assert_eq!(agent.value("branch_url", json!({ "branch": "try" }))["url"], json!(view.url), "its owner's");

    schema_is_short(&mut agent);

    // Statements, with types.
    let found = agent.value(
        "query",
        json!({ "branch": "try", "sql": "select id, name from customers where id = $1", "params": [7] }),
    );
    assert_eq!(found, json!({ "columns": ["id int4", "name text"], "rows": [[7, "c7"]], "row_count": 1 }));
    let deleted =
        agent.value("query", json!({ "branch": "try", "sql": "delete from orders where id <= 40" }));
    assert_eq!(deleted, json!({ "command": "DELETE 40" }));
    let plan = agent
        .tool(
            "explain",
            json!({ "branch": "try", "sql": "delete from orders where id = $1", "params": [50] }),
        )
        .unwrap();
    assert!(plan.contains("Delete on orders"), "{plan}");
    for sql in ["analyze delete from orders", "(analyze) delete from orders", "select 1; delete from orders"]
    {
        assert!(agent.tool("explain", json!({ "branch": "try", "sql": sql })).is_err(), "{sql}");
    }
    assert_eq!(query(&mut connection, "try", "select count(*) from orders").await.unwrap(), json!([[60]]));

    // Evidence: the source has what it had.
    let evidence = agent.value("branch_evidence", json!({ "branch": "try", "table": "public.orders" }));
    assert_eq!((&evidence["snapshot"], &evidence["live_source"]), (&json!("unchanged"), &json!("unchanged")));
    assert_eq!((&evidence["table"]["rows_in_branch"], &evidence["digest"].is_string()), (&json!(60), &true));
    assert!(evidence["events"].to_string().len() < 8000, "{evidence}");

    hostile_words_do_nothing(&mut agent);
    replies_are_short(&mut agent);
    resources_and_prompts(&mut agent);

    // What the agent takes back ends in the branch, too.
    let id = agent.send(
        "tools/call",
        json!({ "name": "query", "arguments": { "branch": "try", "sql": "select pg_sleep(20)" } }),
    );
    let sleeping =
        "select count(*) from pg_stat_activity where query = 'select pg_sleep(20)' and state = 'active'";
    let url = view.url.clone();
    let wire = crate::support::wire(&url).await;
    let count = async || wire.query_one(sleeping, &[]).await.unwrap().get::<_, i64>(0);
    until("it sleeps", async || count().await == 1).await;
    agent.write(
        &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } }),
    );
    until("it sleeps no more", async || count().await == 0).await;

    // Back to the start, and gone.
    assert_eq!(agent.value("branch_reset", json!({ "branch": "try" }))["reset"], "try");
    assert_eq!(query(&mut connection, "try", "select count(*) from orders").await.unwrap(), json!([[100]]));
    assert_eq!(agent.value("branch_destroy", json!({ "branch": "try" })), json!({ "destroyed": "try" }));
    let gone = agent.tool("query", json!({ "branch": "try", "sql": "select 1" })).unwrap_err();
    assert!(gone.starts_with("unknown_branch") || gone.starts_with("not_found"), "{gone}");

    leases_are_renewed_by_use(&mut agent, &mut connection).await;
    assert_eq!(agent.end(), Some(0));
    daemon.stop().await.expect("it stops in order");
    assert_eq!(home.left_overs(), Vec::<String>::new());
}

fn tools_say_what_they_do(agent: &mut Agent) {
    let listed = agent.ask("tools/list", json!({}));
    let tools = listed["result"]["tools"].as_array().unwrap().clone();
    let hints = |tool: &Value, hint: &str| tool["annotations"][hint].as_bool().unwrap();
    let found: BTreeMap<&str, (bool, bool, bool)> = tools
        .iter()
        .map(|tool| {
            let hints =
                (hints(tool, "readOnlyHint"), hints(tool, "destructiveHint"), hints(tool, "idempotentHint"));
            (tool["name"].as_str().unwrap(), hints)
        })
        .collect();
    let expected = BTreeMap::from([
        ("branch_create", (false, false, false)),
        ("branch_destroy", (false, true, true)),
        ("branch_evidence", (true, false, true)),
        ("branch_list", (true, false, true)),
        ("branch_reset", (false, true, true)),
        ("branch_url", (true, false, true)),
        ("describe", (true, false, true)),
        ("explain", (true, false, true)),
        ("query", (false, true, false)),
    ]);
    assert_eq!(found, expected);
    for tool in &tools {
        assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
        assert_eq!(tool["inputSchema"]["additionalProperties"], json!(false), "{tool}");
    }
    // Every agent reads this at its start.
    assert!(listed.to_string().len() < 8000, "{}", listed.to_string().len());
}

fn schema_is_short(agent: &mut Agent) {
    let all = agent.tool("describe", json!({ "branch": "try" })).unwrap();
    let expected = "\
table(about so many rows): column type, ! is NOT NULL; keys
public.Odd name; --(~0): x integer
public.big(view): id integer, customer integer, total numeric
public.customers(~100): id integer!, name text!; UNIQUE (name); PRIMARY KEY (id)
public.orders(~100): id integer!, customer integer, total numeric; PRIMARY KEY (id); FOREIGN KEY (customer) REFERENCES public.customers(id)
";
    assert_eq!(all, expected);
    let one = agent.tool("describe", json!({ "branch": "try", "table": "public.orders" })).unwrap();
    for part in [
        "public.orders(~100) -- What was bought",
        "id integer NOT NULL IDENTITY",
        "total numeric DEFAULT 0",
        "CHECK ((total >= (0)::numeric))",
        "CREATE INDEX orders_customer_idx",
    ] {
        assert!(one.contains(part), "{part}: {one}");
    }
    let odd = agent.tool("describe", json!({ "branch": "try", "table": "Odd name; --" })).unwrap();
    assert!(odd.starts_with("public.Odd name; --(~0)\n  x integer"), "{odd}");
}

fn hostile_words_do_nothing(agent: &mut Agent) {
    for table in
        ["x'; drop table orders; --", "\"; drop table orders; --", "$1", "orders' or '1'='1", "", "%"]
    {
        let said = agent.tool("describe", json!({ "branch": "try", "table": table })).unwrap_err();
        assert!(said.starts_with("unknown_table"), "{table}: {said}");
    }
    for branch in [
        "..",
        ".",
        "",
        "../try",
        "try/../try",
        "try/query",
        "try?x=1",
        "try%2Fquery",
        "TRY",
        "try\u{0}",
        "try'; --",
        "a b",
    ] {
        for (tool, more) in [
            ("query", json!({ "sql": "select 1" })),
            ("branch_destroy", json!({})),
            ("describe", json!({})),
            ("branch_url", json!({})),
        ] {
            let mut arguments = more;
            arguments["branch"] = json!(branch);
            let said = agent.tool(tool, arguments).unwrap_err();
            assert!(said.starts_with("bad_name"), "{tool} {branch:?}: {said}");
        }
    }
    for (tool, arguments) in [
        ("query", json!({ "branch": "try" })),
        ("query", json!({ "branch": "try", "sql": "select 1", "max_rows": 100_000 })),
        ("query", json!({ "branch": "try", "sql": "select 1", "max_rows": 0 })),
        ("query", json!({ "branch": "try", "sql": "select 1", "timeout_ms": 10_000_000 })),
        ("query", json!({ "branch": "try", "sql": "select 1", "administrator": true })),
        ("branch_create", json!({ "policy": "superuser" })),
        ("branch_destroy", json!({ "branch": ["try"] })),
    ] {
        let said = agent.tool(tool, arguments.clone()).unwrap_err();
        assert!(said.starts_with("bad_arguments"), "{tool} {arguments}: {said}");
    }
    let said = agent.tool("query", json!({ "branch": "try", "sql": "select 1; select 2" })).unwrap_err();
    assert!(said.contains("SQLSTATE 42601"), "{said}");
    let said = agent.tool("shutdown", json!({})).unwrap_err();
    assert!(said.starts_with("protocol") && said.contains("there is no tool"), "{said}");
    for uri in [
        "duramen://branches/../schema",
        "duramen://branches/try/../../shutdown",
        "duramen://branches/try%2F..%2Ftry/schema",
        "file:///etc/passwd",
    ] {
        let answer = agent.ask("resources/read", json!({ "uri": uri }));
        assert!(answer["error"]["message"].as_str().unwrap().contains("no such resource"), "{answer}");
    }
    for name in ["../work_in_a_branch", "..", "work_in_a_branch/.."] {
        let answer = agent.ask("prompts/get", json!({ "name": name, "arguments": { "task": "x" } }));
        assert!(answer["error"]["message"].as_str().unwrap().contains("there is no prompt"), "{answer}");
    }
}

fn replies_are_short(agent: &mut Agent) {
    let rows = agent
        .value("query", json!({ "branch": "try", "sql": "select g from generate_series(1, 1000000) g" }));
    assert_eq!(rows["row_count"], 50);
    assert!(rows["truncated"].as_str().unwrap().contains("LIMIT"), "{rows}");
    let sql = "select repeat('x', 10000) a, g from generate_series(1, 100000) g";
    let text = agent.tool("query", json!({ "branch": "try", "sql": sql, "max_rows": 1000 })).unwrap();
    assert!(text.len() < 40_000, "{}", text.len());
    let sql = "select repeat('x', 10000000)";
    let text = agent.tool("query", json!({ "branch": "try", "sql": sql })).unwrap();
    assert!(text.len() < 2000 && text.contains("(10000000 characters)"), "{}", &text[..100]);
    let sql = "select repeat('x', 100000000)";
    let text = agent.tool("query", json!({ "branch": "try", "sql": sql })).unwrap();
    assert!(text.contains("not even one row fits"), "{text}");
}

fn resources_and_prompts(agent: &mut Agent) {
    let listed = agent.ask("resources/list", json!({}));
    let uris: Vec<&str> = listed["result"]["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|each| each["uri"].as_str().unwrap())
        .collect();
    assert_eq!(uris, ["duramen://branches/try/schema", "duramen://branches/try/evidence"]);
    let schema = agent.ask("resources/read", json!({ "uri": uris[0] }));
    assert!(
        schema["result"]["contents"][0]["text"].as_str().unwrap().contains("public.customers(~100)"),
        "{schema}"
    );
    let evidence = agent.ask("resources/read", json!({ "uri": uris[1] }));
    assert!(
        evidence["result"]["contents"][0]["text"].as_str().unwrap().contains("\"snapshot\":\"unchanged\""),
        "{evidence}"
    );
    let templates = agent.ask("resources/templates/list", json!({}));
    assert_eq!(templates["result"]["resourceTemplates"].as_array().unwrap().len(), 2);
    let prompts = agent.ask("prompts/list", json!({}));
    assert_eq!(prompts["result"]["prompts"].as_array().unwrap().len(), 2);
    let prompt = agent.ask(
        "prompts/get",
        json!({ "name": "try_a_migration", "arguments": { "sql": "alter table orders add y int" } }),
    );
    let text = prompt["result"]["messages"][0]["content"]["text"].as_str().unwrap();
    assert!(text.contains("alter table orders add y int") && text.contains("branch_destroy"), "{text}");
    let without = agent.ask("prompts/get", json!({ "name": "try_a_migration" }));
    assert!(without["error"]["message"].as_str().unwrap().contains("`sql`"), "{without}");
}

/// M4: each use renews a lease whose first third is over; what is not used ends.
async fn leases_are_renewed_by_use(agent: &mut Agent, connection: &mut duramen_client::Connection) {
    for name in ["used", "forgotten"] {
        agent.value("branch_create", json!({ "name": name, "ttl_s": 4 }));
    }
    create(connection, "long").await.expect("a branch of somebody else");
    let long = connection.branch("long").await.unwrap().expires_at;
    let first = connection.branch("used").await.unwrap().expires_at;
    until("the forgotten one ends", async || {
        agent.tool("query", json!({ "branch": "used", "sql": "select 1" })).expect("it is there");
        agent.tool("query", json!({ "branch": "long", "sql": "select 1" })).expect("it is there");
        connection.branch("forgotten").await.is_err()
    })
    .await;
    let now = connection.branch("used").await.expect("it was used").expires_at;
    assert!(now > first, "{first} {now}");
    // An agent that asks for one that is there makes it no shorter.
    agent.value("branch_create", json!({ "name": "long", "ttl_s": 1 }));
    tokio::time::sleep(std::time::Duration::from_millis(400)).await;
    agent.value("query", json!({ "branch": "long", "sql": "select 1" }));
    assert_eq!(connection.branch("long").await.unwrap().expires_at, long);
    for name in ["used", "long"] {
        agent.value("branch_destroy", json!({ "branch": name }));
    }
}
