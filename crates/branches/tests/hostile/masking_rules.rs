//! B38, B39, V1-V3: what each rule makes of ordinary and of hostile values, that it makes the same of them in every table and
//! generation, and that nothing is served if it cannot be made of all of them.

use crate::{
    masked_values_are_nowhere::{add, marked, rules, Secretive},
    support::{majors, rows, settle, Home},
};
use duramen_api::model::CreateBranch;
use duramen_branches::Engine;
use serde_json::json;
use std::{process::Command, sync::Arc};

const SCHEMA: &str = r#"
create domain nick as text check (value <> 'nobody');;
create table people (id bigint primary key, email varchar(60) unique, handle text not null unique, phone text, card text,
  iban text, name text, badge varchar(40) unique, company text, address varchar(60), salary numeric(10,2) check (salary >= 0),
  age int, score float8, born date, joined timestamptz, note varchar(12), zip char(8), profile jsonb, raw json, tags text[],
  nick nick, motto text, shout text generated always as (upper(email)) stored);;
insert into people select n, 'MARK' || n || '@firma.ch', 'MARK-' || n, '+41 79 ' || 1000000 + n * 7, '4111 1111 1111 1111',
  'DE89 3704 0044 0532 0130 00', 'MARK Meyer ' || n % 9, 'MARK' || n, 'MARK Ltd', 'MARK street ' || n, 1000 + n, 20 + n % 50, n * 1.5,
  date '1980-01-01' + n, timestamptz '2020-01-01 12:00Z' + n * interval '1 day', 'MARK', '8000',
  jsonb_build_object('email', 'MARK' || n || '@x.com', 'kept', n, 'phones', jsonb_build_array(jsonb_build_object('number', 'MARK'))),
  json_build_object('who', 'MARK'), array['tag ' || n, 'x'], 'MARK' || n, 'MARK motto'
  from generate_series(1, 300) n;;
insert into people (id, handle, name, phone, card, iban, email, motto, note, profile, raw, zip) values
  (-1, '', 'O''Brien "MARK" \\ $$', 'call MARK!', 'none', '', 'MARK is no address', repeat('MARK ', 200000), '', '"MARK"', '[1e400,"MARK"]', ''),
  (-2, E'\u00dcn\u00ef MARK \u674e\u5c0f\u9f8d', null, null, null, null, null, null, null, 'null', null, null),
  (-3, E'MARK\t\n%s;--', E'\u674e\u5c0f\u9f8d MARK', '0', '4111111111111112', 'DE00', '@', '', '*', '{}', '{"who":"MARK","who":"MARK\u0041"}', 'M-1');;
create index on people (lower(email));;
create table orders (id int primary key, person_id bigint references people, placed timestamptz, by_handle text references people (handle),
  unique (person_id, placed));;
insert into orders select n, n, timestamptz '2020-01-02 12:00Z' + n * interval '1 day', 'MARK-' || n from generate_series(1, 300) n;;
insert into orders values (1000, null, null, null);;
create table events (person_id bigint references people, at date, who text) partition by range (at);;
create table events_a partition of events for values from ('2000-01-01') to ('2020-01-01');;
create table events_b (who text, at date, person_id bigint);; alter table events attach partition events_b for values from ('2020-01-01') to ('2040-01-01');;
insert into events select n, date '2019-01-01' + n * 3, 'MARK-' || n from generate_series(1, 300) n;;
create table base (who text);; create table heir (more text) inherits (base);;
insert into base values ('MARK base');; insert into heir values ('MARK heir', 'more');;
create table odd (id int primary key, rights aclitem, bits bit(3), who text);;
insert into odd select n, makeaclitem(10, 10, 'SELECT', false), b'101', 'MARK-' || n from generate_series(1, 50) n;;
"#;

const RULES: &str = r#"{"columns": {
  "public.people": {"id": "hash", "email": "email", "handle": "shape", "phone": "phone", "card": "card", "iban": "iban",
    "name": {"fake": "name"}, "badge": {"fake": "name"}, "company": {"fake": "company"}, "address": {"fake": "address"},
    "salary": {"noise": {"percent": 10}}, "age": {"generalise": {"bucket": 10}}, "score": {"noise": {"by": 2}},
    "born": {"shift": {"days": 30, "person": "id"}}, "joined": {"shift": {"days": 30, "person": "id"}},
    "note": {"sql": "left(people.note, 1) || '***' -- shorter"}, "zip": {"generalise": {"prefix": 2}},
    "profile": {"json": {"$.email": "email", "$.phones[*].number": "phone", "$": "shape"}},
    "raw": {"json": {"$": "hash"}}, "tags": "shuffle", "nick": "hash", "motto": "shape"},
  "public.orders": {"placed": {"shift": {"days": 30, "person": "person_id"}}},
  "public.events": {"who": "shape"}, "public.many": {"id": "hash", "code": "shape", "later": "hash"},
  "public.odd": {"who": "shape", "bits": {"constant": "110"}}, "public.base": {"who": "shape"}}}"#;

async fn lease(engine: &Arc<Engine>, source: &str, name: &str) {
    let request = CreateBranch {
        source: Some(source.to_owned()),
        name: Some(name.to_owned()),
        ..CreateBranch::default()
    };
    engine.create(request).await.expect("a lease");
}

/// B38, B39, V1-V3.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_rule_makes_what_it_says_of_every_value() {
    let mut home = Home::new();
    home.options.volume_size = Some(1024 << 20);
    let engine = home.open().await;
    for major in majors() {
        let origin = Secretive::start(&home, major).await;
        origin.run("shop", SCHEMA).await;
        // So many that they are not one batch.
        let many = "create table many (id int primary key, code text unique);;
            insert into many select n, 'MARK-' || n from generate_series(1, 60000) n;;
            alter table many add later text default 'MARK later';; alter table many alter later drop default;;";
        origin.run("shop", many).await;
        let name = format!("of{major}");
        let view = add(&engine, &name, origin.origin(), rules(RULES)).await;
        let view = view.unwrap_or_else(|error| panic!("{major}: {error}"));
        assert_eq!((view.data.as_str(), view.masked_columns), ("masked", 36), "{:?}", view.sanitised);
        let implied = |column: &str| {
            view.sanitised
                .iter()
                .any(|it| it.object == column && it.action.contains("other side of its foreign key"))
        };
        for column in ["public.orders.person_id", "public.orders.by_handle", "public.events_b.person_id"] {
            assert!(implied(column), "{column} of {:?}", view.sanitised);
        }
        settle(&engine).await;
        lease(&engine, &name, &name).await;
        check(&engine, &name, major).await;
        let first = digest(&engine, &name).await;

        let flushed = Command::new("sync").arg("-f").arg(home.path().join("volumes")).status();
        assert!(flushed.expect("sync runs").success());
        assert_eq!(marked(home.path()), Vec::<String>::new(), "PostgreSQL {major}");

        // B38: the next generation has the same values for the same ones.
        origin
            .run(
                "shop",
                "insert into people (id, handle, email) values (5000, 'MARK-5000', 'MARK5000@firma.ch')",
            )
            .await;
        let view = engine.refresh_source(&name, |_, _| {}).await.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(view.generation, 2);
        settle(&engine).await;
        let again = format!("again{major}");
        lease(&engine, &name, &again).await;
        assert_eq!(rows(&engine, &again, "select count(*) from people").await, json!([[304]]));
        let kept =
            "delete from people where id not in (select person_id from orders where person_id is not null) \
                    and born is null and handle like '____________-____'";
        rows(&engine, &again, kept).await;
        assert_eq!(digest(&engine, &again).await, first, "PostgreSQL {major}");
        for branch in [name, again] {
            engine.destroy(&branch).expect("destroyed");
        }
    }
    engine.close().await.expect("close");
}

/// What follows from the key and the values alone.
async fn digest(engine: &Arc<Engine>, branch: &str) -> serde_json::Value {
    let sql = "select md5(string_agg(md5(row(id, email, handle, phone, card, iban, name, badge, company, address, salary, age, score, \
               born, joined, note, zip, profile::text, raw::text, nick, motto)::text), '' order by id)), \
               (select md5(string_agg(row(o.*)::text, '' order by id)) from orders o), \
               (select md5(string_agg(row(e.*)::text, '' order by who)) from events e) from people";
    rows(engine, branch, sql).await
}

async fn check(engine: &Arc<Engine>, branch: &str, major: u32) {
    for (sql, expected) in [
        ("select count(*), count(distinct email), count(distinct handle), count(distinct badge), count(distinct id) from people",
         json!([[303, 302, 303, 300, 303]])),
        ("select count(*) from people where email ~ '^[a-z]{6}[0-9][a-z]{5}[0-9]+@[a-z]{5}\\.zz$'", json!([[300]])),
        ("select count(*) from people where shout is distinct from upper(email)", json!([[0]])),
        // By chance a number may become another one that there was.
        ("select count(*) > 297 from people where phone ~ '^\\+41 [0-9]{2} [0-9]{7}$' and phone not like '+41 79 100%'", json!([[true]])),
        ("select count(*) from people where card ~ '^4111 11[0-9]{2} [0-9]{4} [0-9]{4}$' and card <> '4111 1111 1111 1111'", json!([[300]])),
        ("select count(*) from people where iban ~ '^DE[0-9]{2} [0-9]{4} [0-9]{4} [0-9]{4} [0-9]{4} [0-9]{2}$' and iban not like '%3704%0130 00'", json!([[300]])),
        // Equal ones stay equal: nine names of 300.
        ("select count(distinct name), count(distinct company), count(*) filter (where name ~ '^[A-Z][A-Za-z'']+ [A-Z][A-Za-z'']+$') from people where born is not null", json!([[9, 1, 300]])),
        ("select count(*) from people p join orders o on o.person_id = p.id and o.by_handle = p.handle", json!([[300]])),
        ("select count(*) from people p join events e on e.person_id = p.id and e.who = p.handle", json!([[300]])),
        // V2: the days between the dates of a person stay, in all tables.
        ("select count(distinct joined::date - born), count(distinct joined - born) from people where born is not null", json!([[1, 1]])),
        ("select count(*) from people p join orders o on o.person_id = p.id where o.placed - p.joined <> interval '1 day'", json!([[0]])),
        ("select count(distinct born - (date '1980-01-01' + (salary::int - 1000))) > 20 from people where born is not null", json!([[true]])),
        ("select min(salary) > 890, max(salary) < 1440, count(*) filter (where scale(salary) <> 2) from people", json!([[true, true, 0]])),
        ("select count(*) from people where age % 10 <> 0 or age not between 20 and 60", json!([[0]])),
        ("select count(*) from people where note !~ '^.?\\*\\*\\*$'", json!([[0]])),
        ("select count(*) from people where length(rtrim(zip)) > 2", json!([[0]])),
        ("select count(*) from people where profile->>'email' ~ '^[a-z]{6}[0-9][a-z]{5}[0-9]+@[a-z]\\.zzz$' and jsonb_typeof(profile->'kept') = 'string'", json!([[300]])),
        ("select count(*) from people where raw->>'who' ~ '^[0-9a-f]{32}$'", json!([[301]])),
        ("select count(*), count(distinct tags), count(*) filter (where tags[1] !~ '^tag [0-9]+$') from people where tags is not null", json!([[300, 300, 0]])),
        ("select count(*) > 200 from people p join orders o on o.person_id = p.id where p.tags[1] <> 'tag ' || o.id", json!([[true]])),
        ("select length(motto) from people where length(motto) > 100", json!([[2_600_000]])),
        ("select count(*) from people where nick !~ '^[0-9a-f]{32}$'", json!([[0]])),
        ("select count(*) from only base where who ~ '^[a-z]{6}[0-9][a-z]{5} [a-z]{4}$'", json!([[1]])),
        ("select count(*), min(more) from heir where who ~ '^[a-z]{6}[0-9][a-z]{5} [a-z]{4}$'", json!([[1, "more"]])),
        (
            "select count(*), count(distinct id), count(distinct code) from many where code ~ '^[a-z]{6}[0-9][a-z]{5}-[0-9]+$'",
            json!([[60_000, 60_000, 60_000]]),
        ),
        ("select count(*), count(distinct later), min(length(later)) from many", json!([[60_000, 1, 32]])),
        // A type that has no binary form: rows are written where they are.
        (
            "select count(*), count(distinct who), min(bits::text) from odd where who ~ '^[a-z]{6}[0-9][a-z]{5}-[0-9]+$' \
             and bits = b'110' and rights is not null",
            json!([[50, 50, "110"]]),
        ),
        ("select handle from people where handle = ''", json!([[""]])),
        ("select count(*) from people where handle ~ '[^[:ascii:]]' or name ~ '[^[:ascii:]]'", json!([[0]])),
        ("select count(*) from pg_index where not (indisvalid and indisready and indislive)", json!([[0]])),
    ] {
        assert_eq!(rows(engine, branch, sql).await, expected, "{sql} of PostgreSQL {major}");
    }
    // The check digits are right where they were.
    let cards = rows(engine, branch, "select card from people where born is not null").await;
    let cards: Vec<(String,)> = serde_json::from_value(cards).expect("cards");
    for (card,) in &cards {
        let digits = card.bytes().filter(u8::is_ascii_digit).rev().enumerate();
        let sum: u32 = digits
            .map(|(place, digit)| {
                let value = u32::from(digit - b'0') * if place % 2 == 1 { 2 } else { 1 };
                value / 10 + value % 10
            })
            .sum();
        assert_eq!(sum % 10, 0, "{card}");
    }
}

/// B41, V3: which rule of which column, and of how many values; and nothing is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rule_that_makes_nothing_of_a_value_leaves_no_source() {
    let home = Home::new();
    let engine = home.open().await;
    let origin = Secretive::start(&home, majors()[0]).await;
    origin.run("shop", SCHEMA).await;
    let one = |rule: &str| format!(r#"{{"columns": {{"public.people": {{{rule}}}}}}}"#);
    for (text, code, said) in [
        (one(r#""tags": "shape""#), "masking_refused", "is of the type text[], and shape is for text"),
        (one(r#""name": {"noise": {"by": 1}}"#), "masking_refused", "noise is for numbers"),
        (one(r#""age": {"noise": {"percent": 0}}"#), "masking_refused", "takes a percent of 1 to 100"),
        (one(r#""born": {"shift": {"days": 3, "person": "who"}}"#), "masking_refused", "takes as person a column"),
        (one(r#""born": {"generalise": {"to": "hour"}}"#), "masking_refused", "makes a date no coarser"),
        (one(r#""email": {"generalise": {"prefix": 1}}"#), "masking_refused", "is unique"),
        (one(r#""profile": {"json": {"email": "hash"}}"#), "masking_refused", "is not a valid path"),
        (one(r#""profile": {"json": {"$.a": "shuffle"}}"#), "masking_refused", "none within JSON"),
        (one(r#""handle": {"fake": "name"}"#), "masking_refused", "add fake for public.orders.by_handle"),
        (
            r#"{"columns": {"public.people": {"handle": {"fake": "name"}}, "public.orders": {"by_handle": {"fake": "name"}}}}"#.to_owned(),
            "masking_refused",
            "does not keep what they have in common",
        ),
        (r#"{"subset": {"table": "public.peoples", "percent": 1}}"#.to_owned(), "masking_refused", "is public.people meant?"),
        (r#"{"subset": {"table": "public.people"}}"#.to_owned(), "masking_refused", "either percent or where"),
        // What follows is known only once values were seen.
        (
            one(r#""note": {"json": {"$": "hash"}}"#),
            "masking_failed",
            "the rule json of public.people.note: it makes nothing of 302 of 303 values",
        ),
        (
            one(r#""handle": {"sql": "nullif(handle, '')"}"#),
            "masking_refused",
            "add sql for public.orders.by_handle",
        ),
        (
            one(r#""salary": {"sql": "0 - salary"}"#),
            "masking_failed",
            "SQLSTATE 23514, constraint people_salary_check",
        ),
        (
            one(r#""note": {"sql": "repeat('x', 13)"}"#),
            "masking_failed",
            "the rule sql of public.people.note: what it makes is too long for the column for 303 of 303 values",
        ),
        (
            one(r#""id": {"sql": "case when id > 0 then id end"}, "badge": "null""#),
            "masking_refused",
            "add sql for",
        ),
        (
            one(r#""badge": {"sql": "left(badge, 14)"}"#),
            "masking_failed",
            "sql of public.people.badge) make",
        ),
        (one(r#""nick": {"sql": "'nobody'"}"#), "masking_failed", "SQLSTATE 23514"),
        (one(r#""age": {"sql": "name"}"#), "masking_failed", "SQLSTATE 22P02"),
        (one(r#""note": {"sql": "pg_catalog.pg_read_file('PG_VERSION')"}"#), "masking_failed", "42501"),
        (one(r#""note": {"sql": "(select"}"#), "masking_failed", "42601"),
    ] {
        let error = add(&engine, "app", origin.origin(), rules(&text)).await.expect_err(&text);
        assert_eq!(error.code, code, "{text}: {error}");
        assert!(error.message.contains(said), "{text}: {error}");
        assert!(!error.message.contains("zqorig1nalqz"), "{text}: a value is in {error}");
        assert!(engine.sources().is_empty() && !home.path().join("scratch.btrfs").exists(), "{text}");
    }
    engine.close().await.expect("close");
}
