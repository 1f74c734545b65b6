//! V5: what looks personal and has no rule is told of, with a rule that works.

use crate::{
    masked_values_are_nowhere::{add, Secretive},
    support::{majors, pool, rows, settle, Home},
};
use duramen_api::model::{ChangeSettings, CreateBranch, Personal, Policy};
use serde_json::json;

const SCHEMA: &str = r#"
create table customers (id int primary key, email text unique, "firstName" text not null, last_name varchar(30), born date, dob date not null,
  contact text, pay text, account text, reachable text, seen_from inet not null, password_hash bytea, email_verified bool,
  profile jsonb, plain text, shout text generated always as (upper(email)) stored);;
insert into customers select n, 'annabelle' || n || '@b.example', 'Anna', 'Meyer', '1980-01-01', '1980-01-01', 'xaverius' || n || '@y.example',
  (array['4111111111111111', '5555555555554444', '378282246310005'])[n % 3 + 1], 'CH93 0076 2011 6238 5295 7', '+41 79 123 45 ' || 10 + n,
  '10.0.0.1', 'x', true, '{"mail": "q@r.example", "deep": [{"phone": "x"}], "size": "large"}', 'red' from generate_series(1, 50) n;;
create table "Odd Names" (email text);; insert into "Odd Names" values ('a@b.example');;
create table products (id int, name text);; insert into products values (1, 'chair');;
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_looks_personal_is_told_of_until_it_is_masked() {
    let home = Home::new();
    let engine = home.open().await;
    for major in majors() {
        let origin = Secretive::start(&home, major).await;
        origin.run("shop", SCHEMA).await;
        let name = format!("of{major}");
        let view = add(&engine, &name, origin.origin(), pool(&[(Policy::ReadWrite, 1)])).await;
        let view = view.unwrap_or_else(|error| panic!("{major}: {error}"));
        assert_eq!((view.data.as_str(), view.masked_columns), ("full", 0));
        assert!(
            view.unmasked.contains(&"public.customers.email (e-mail addresses)".to_owned()),
            "{:?}",
            view.unmasked
        );

        let scan = engine.scan_source(&name).expect("what was found");
        let looks = |column: &str, path: Option<&str>| {
            let found = scan.found.iter().find(|it| it.column == column && it.path.as_deref() == path);
            found.map(|it| (it.looks_like, it.rule.to_string()))
        };
        for (column, path, expected) in [
            ("email", None, Some((Personal::Email, "email"))),
            ("firstName", None, Some((Personal::FirstName, "fake"))),
            ("last_name", None, Some((Personal::LastName, "fake"))),
            ("born", None, Some((Personal::Birthday, "generalise"))),
            ("dob", None, Some((Personal::Birthday, "generalise"))),
            ("contact", None, Some((Personal::Email, "email"))),
            ("pay", None, Some((Personal::Card, "card"))),
            ("account", None, Some((Personal::Iban, "iban"))),
            ("reachable", None, Some((Personal::Phone, "phone"))),
            ("seen_from", None, Some((Personal::Ip, "constant"))),
            ("password_hash", None, Some((Personal::Secret, "hash"))),
            ("profile", Some("$.mail"), Some((Personal::Email, "email"))),
            ("profile", Some("$.deep[*].phone"), Some((Personal::Phone, "phone"))),
            ("profile", Some("$.size"), None),
            ("email_verified", None, None),
            ("plain", None, None),
            ("shout", None, None),
            ("name", None, None),
        ] {
            let expected = expected.map(|(kind, rule)| (kind, rule.to_owned()));
            assert_eq!(looks(column, path), expected, "{column} of {:?}", scan.found);
        }
        assert!(scan.found.iter().any(|it| it.table == "public.\"Odd Names\""), "{:?}", scan.found);

        // The rules that it proposes are rules, and nothing is left to tell of.
        let change = ChangeSettings { masking: Some(scan.rules), ..ChangeSettings::default() };
        engine.change_settings(&name, change).await.expect("the rules");
        let view =
            engine.refresh_source(&name, |_, _| {}).await.unwrap_or_else(|error| panic!("{major}: {error}"));
        assert_eq!((view.data.as_str(), view.unmasked.len()), ("masked", 0), "{:?}", view.unmasked);
        assert!(view.masked_columns > 10, "{}", view.masked_columns);
        settle(&engine).await;
        let request =
            CreateBranch { source: Some(name.clone()), name: Some(name.clone()), ..CreateBranch::default() };
        engine.create(request).await.expect("a lease");
        let left = "select count(*) from customers where email like 'annabelle%' or \"firstName\" = 'Anna' or born <> date_trunc('year', born) \
                    or contact like 'xaverius%' or account like '%0076%5295 7' or profile->>'mail' = 'q@r.example' or host(seen_from) <> '192.0.2.1'";
        assert_eq!(rows(&engine, &name, left).await, json!([[0]]), "PostgreSQL {major}");
    }
    engine.close().await.expect("close");
}
