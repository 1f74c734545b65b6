//! Schemas of hundreds of tables, changed by chance (from a seed), and brought back.

use crate::support::{dump_differs, text, Server};
use duramen_schema::{Catalogue, Diff};
use tokio_postgres::Client;

/// How many tables a schema has, and how often it is changed.
const TABLES: usize = 240;
const MUTATIONS: usize = 120;

/// A program's schema: what its tables are about, and how it likes to do things.
struct Style {
    schemas: &'static [&'static str],
    nouns: &'static [&'static str],
    /// Keys are UUIDs and every row has a tenant; else they are numbers.
    tenants: bool,
}

const SHOP: Style = Style {
    schemas: &["catalog", "sales", "stock"],
    nouns: &[
        "product",
        "order",
        "item",
        "customer",
        "invoice",
        "payment",
        "shipment",
        "price",
        "category",
        "warehouse",
    ],
    tenants: false,
};
const SERVICE: Style = Style {
    schemas: &["auth", "app", "billing", "Audit Log"],
    nouns: &[
        "user", "team", "project", "task", "comment", "event", "plan", "usage", "webhook", "file", "token",
    ],
    tenants: true,
};

#[tokio::test]
async fn a_shop_of_hundreds_of_tables_is_brought_to_and_fro() {
    try_style(&SHOP, 11).await;
}

#[tokio::test]
async fn a_service_of_hundreds_of_tables_is_brought_to_and_fro() {
    try_style(&SERVICE, 23).await;
}

async fn try_style(style: &Style, seed: u64) {
    let seed = std::env::var("DURAMEN_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(seed);
    let server = Server::start().await;
    let original = server.create("template0").await;
    let client = server.connect(&original).await;
    for statement in made(style) {
        client
            .batch_execute(&statement)
            .await
            .unwrap_or_else(|error| panic!("{} in {statement}", text(&error)));
    }
    drop(client);
    let changed = server.copy(&original).await;
    let client = server.connect(&changed).await;
    let done = mutate(&client, style, seed).await;
    drop(client);
    for (from, to) in [(&original, &changed), (&changed, &original)] {
        let copy = server.copy(from).await;
        let (client, other) = (server.connect(&copy).await, server.connect(to).await);
        let (before, wanted) =
            (Catalogue::read(&client).await.unwrap(), Catalogue::read(&other).await.unwrap());
        let diff = Diff::between(&before, &wanted);
        assert!(diff.changes().len() > MUTATIONS / 4, "{} changes of {done} mutations", diff.changes().len());
        let script = diff.script();
        if let Err(error) = client.batch_execute(&script).await {
            let place = error.as_db_error().and_then(|error| match error.position() {
                Some(tokio_postgres::error::ErrorPosition::Original(at)) => script.get(*at as usize..),
                _ => None,
            });
            panic!(
                "seed {seed}: {}: {}",
                text(&error),
                place.unwrap_or(&script).chars().take(300).collect::<String>()
            );
        }
        let after = Catalogue::read(&client).await.unwrap();
        let left = Diff::between(&after, &wanted);
        assert!(left.changes().is_empty(), "seed {seed}: left over:\n{left}");
        if let Some(difference) =
            server.dump(&copy).zip(server.dump(to)).and_then(|(copy, wanted)| dump_differs(&copy, &wanted))
        {
            panic!("seed {seed}: pg_dump sees\n{difference}");
        }
        println!(
            "seed {seed}: {} objects, {done} mutations, {} changes, {} statements, {} warnings",
            wanted.objects().count(),
            diff.changes().len(),
            diff.ddl().len(),
            diff.warnings().len()
        );
    }
}

fn schema(style: &Style, at: usize) -> String {
    let name = style.schemas[at % style.schemas.len()];
    if name.contains(' ') {
        format!("\"{name}\"")
    } else {
        name.to_owned()
    }
}

fn table(style: &Style, at: usize) -> String {
    let nouns = style.nouns;
    format!("{}.{}_{}", schema(style, at), nouns[at % nouns.len()], at / nouns.len())
}

/// The statements that make it.
fn made(style: &Style) -> Vec<String> {
    let mut all = Vec::new();
    let key = if style.tenants { "uuid" } else { "bigint" };
    for name in style.schemas {
        all.push(format!("create schema \"{name}\"; comment on schema \"{name}\" is 'all of {name}'; grant usage on schema \"{name}\" to joe"));
    }
    all.push(
        "create type public.status as enum ('new', 'open', 'done', 'gone');
         create type public.address as (street text, city text);
         create domain public.amount as numeric(12, 2) check (value >= 0);
         create domain public.email as text check (value ~ '@');
         create sequence public.numbers cache 10;
         create function public.touch() returns trigger language plpgsql as 'begin new.changed = now(); return new; end';
         create function public.audit() returns trigger language plpgsql as 'begin return null; end';
         create function public.slug(text) returns text language sql immutable strict as 'select lower($1)';
         create function public.tenant() returns uuid language sql stable as $$select current_setting('app.tenant', true)::uuid$$"
            .to_owned(),
    );
    for at in 0..TABLES {
        let name = table(style, at);
        let short = format!("n{at}");
        if at % 12 == 5 {
            // By month, as events are.
            all.push(format!(
                "create table {name} (id {key} not null, at timestamptz not null, kind text default 'k', data jsonb, primary key (id, at)) partition by range (at);
                 create index on {name} (kind, at)"
            ));
            for month in 1..=4 {
                all.push(format!(
                    "create table {name}_m{month} partition of {name} for values from ('2024-0{month}-01') to ('2024-0{}-01')",
                    month + 1
                ));
            }
            all.push(format!("create table {name}_rest partition of {name} default"));
            continue;
        }
        let id = match (style.tenants, at % 3) {
            (true, _) => {
                "id uuid primary key default gen_random_uuid(), tenant uuid not null default public.tenant()"
            }
            (false, 0) => "id bigserial primary key",
            (false, 1) => "id bigint generated always as identity primary key",
            (false, _) => "id bigint primary key default nextval('public.numbers')",
        };
        all.push(format!(
            "create table {name} ({id}, name varchar({}) not null, state public.status not null default 'new', price public.amount,
               home public.address, mail public.email, note text, tags text[] default '{{}}', changed timestamptz default now(),
               slug text generated always as (public.slug(name::text)) stored, weight int check (weight > {}), code int)",
            40 + at % 7 * 10,
            at % 5
        ));
        // A few before it, as references are in real schemas.
        for back in [1, 3 + at % 11] {
            let Some(other) = at.checked_sub(back).filter(|other| other % 12 != 5) else { continue };
            let action =
                ["", " on delete cascade", " on delete set null deferrable initially deferred"][at % 3];
            all.push(format!(
                "alter table {name} add column ref{back} {key} references {}{action}",
                table(style, other)
            ));
        }
        all.push(format!("create index on {name} (name); create unique index {short}_code on {name} (code) where state <> 'gone'"));
        if at % 2 == 0 {
            all.push(format!(
                "create trigger touch before update on {name} for each row execute function public.touch()"
            ));
        }
        if at % 7 == 0 {
            all.push(format!("create trigger audit after insert or update of name, price on {name} for each row when (new.weight > 3) execute function public.audit()"));
        }
        if style.tenants {
            all.push(format!(
                "alter table {name} enable row level security; create policy own on {name} using (tenant = public.tenant());
                 create policy joes on {name} for select to joe using (state <> 'gone')"
            ));
        }
        if at % 4 == 1 {
            all.push(format!("create view {name}_open as select id, name, state, price from {name} where state in ('new', 'open')"));
            all.push(format!("create view {name}_names as select id, name || ' ' || state::text as label, price from {name}_open; grant select on {name}_names to joe"));
            all.push(format!("create function public.{short}(wanted {key}) returns setof {name} language sql stable as 'select * from {name} where id = wanted'"));
        }
        if at % 12 == 1 {
            all.push(format!("create materialized view {name}_sums as select label, sum(price) as total from {name}_names group by label; create unique index on {name}_sums (label)"));
        }
        if at % 5 == 0 {
            all.push(format!("comment on table {name} is 'about {short}'; comment on column {name}.note is 'free text'; grant select, insert on {name} to joe; grant update (note) on {name} to jane"));
        }
        if at % 9 == 0 {
            all.push(format!("create statistics {}.{short}_s on name, state from {name}", schema(style, at)));
        }
    }
    all
}

/// Changes a database at random; statements that do not fit any more are left out. How many were made.
async fn mutate(client: &Client, style: &Style, seed: u64) -> usize {
    let mut chance = fastrand::Rng::with_seed(seed);
    let mut done = 0;
    for turn in 0..MUTATIONS {
        let at = chance.usize(0..TABLES);
        let (name, other) = (table(style, at), table(style, chance.usize(0..TABLES)));
        let statement = match turn % 30 {
            0 => format!("alter table {name} add column new{turn} int not null default {turn}"),
            1 => format!("alter table {name} drop column note cascade"),
            2 => format!("drop view {name}_names cascade; drop view {name}_open cascade; alter table {name} alter price type numeric(14, 3);
                          create view {name}_open as select id, name, state, price from {name}"),
            3 => format!("drop table {name} cascade"),
            4 => format!("create table {}.fresh_{turn} (id serial primary key, ref int references {}.fresh_{turn}, s public.status default 'open')", schema(style, turn), schema(style, turn)),
            5 => format!("create index on {name} (state, weight)"),
            6 => format!("drop index {}.n{at}_code", schema(style, at)),
            7 => format!("alter table {name} add constraint extra_{turn} check (code > {turn}) not valid"),
            8 => format!("alter table {name} drop constraint if exists {}_weight_check", name.split('.').next_back().unwrap_or_default()),
            9 => format!("create or replace view {name}_open as select id, name, state, price, code from {name} where state = 'open'"),
            10 => format!("drop view if exists {name}_open cascade"),
            11 => format!("alter table {name} alter name drop not null, alter state drop default, alter weight set not null"),
            12 => format!("alter type public.status add value 'state {turn}' before 'done'"),
            13 => format!("drop trigger touch on {name}; create trigger touch after insert on {name} for each row execute function public.audit()"),
            14 => format!("alter table {name} enable row level security; create policy p{turn} on {name} for update to jane using (weight > {turn})"),
            15 => format!("revoke insert on {name} from joe; grant delete on {name} to jane with grant option"),
            16 => format!("comment on table {name} is 'turn {turn}'; comment on column {name}.note is null"),
            17 => format!("alter table {name} add foreign key (ref1) references {other} on update cascade"),
            18 => format!("create table {name}_m9 partition of {name} for values from ('2024-09-01') to ('2024-10-01')"),
            19 => {
                let at = at / 12 * 12 + 5;
                format!("alter table {0} detach partition {0}_m{1}", table(style, at), 1 + turn % 4)
            }
            20 => format!("create or replace function public.n{at}(wanted {}) returns setof {name} language sql stable as 'select * from {name} where id = wanted limit 1'", if style.tenants { "uuid" } else { "bigint" }),
            21 => format!("create materialized view {name}_copy as select * from {name}; create index on {name}_copy (state)"),
            22 => format!("create schema more_{turn}; create function more_{turn}.f(x {name}) returns int language sql as 'select 1'; create view more_{turn}.v as select more_{turn}.f(t) as x from {name} t"),
            23 => format!("alter table {name} drop column slug cascade; alter table {name} add column slug text generated always as (public.slug(name::text) || '{turn}') stored"),
            24 => {
                let at = at / 12 * 12 + 5;
                format!("alter table {0} add column at_{turn} date default now(); drop table {0}_m{1}; create index on {0} (at_{turn})", table(style, at), 1 + turn % 4)
            }
            25 => format!("alter table {name} alter weight type bigint, alter code type text, alter mail type text"),
            26 => format!("alter domain public.amount add constraint turn_{turn} check (value < 1{turn}000)"),
            27 => format!("drop function public.n{at}"),
            28 => "drop function public.slug(text) cascade; create function public.slug(text) returns varchar language sql immutable strict as 'select upper($1)'".to_owned(),
            _ => format!("alter table {name} set (fillfactor = 8{}); alter table {name} alter note set statistics 700", turn % 10),
        };
        let ran = client.batch_execute(&format!("begin; {statement}; commit")).await;
        match ran {
            Ok(()) => done += 1,
            Err(_) => client.batch_execute("rollback").await.unwrap(),
        }
    }
    assert!(done > MUTATIONS / 3, "only {done} of {MUTATIONS} mutations fit");
    done
}
