//! A server, databases on it that play source, branch and target, and change sets between them. What differs is found here by
//! reading everything, so the tests do not rely on what the product's comparison finds.

use duramen_base::entropy;
use duramen_carry::{
    apply, merge, ApplyError, ApplyOptions, ChangeSet, ChangeSetWriter, Ddl, MergeOptions, Merged, Origin,
    Outcome,
};
use duramen_changes::{
    diff::{values, Unmatched},
    Column, Compared, Ending, LeftOut, Only, Part, Row, Sequence, SequenceState, Summary, Table,
};
use duramen_postgres::{
    connection::Target, quote_identifier, Cluster, Installation, Postmaster, Scratch, ServerUser, Settings,
    SOCKET_PORT,
};
use duramen_schema::{Catalogue, Diff};
use futures_util::TryStreamExt;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    pin::pin,
    time::Duration,
};
use tokio_postgres::{Client, NoTls};

const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Server {
    _postmaster: Postmaster,
    scratch: Scratch,
    pub(crate) files: tempfile::TempDir,
}

impl Server {
    /// `DURAMEN_TEST_PG=15` chooses the newest installed server of that major version.
    pub(crate) fn start() -> Server {
        let home = duramen_base::home::usual();
        let major = std::env::var("DURAMEN_TEST_PG").ok().and_then(|major| major.parse().ok());
        let installation = Installation::choose(&home, major).expect("a PostgreSQL server");
        let user = ServerUser::current().expect("a user for servers");
        let scratch = Scratch::make(&std::env::temp_dir(), "dm-carry", &user).expect("a scratch folder");
        let mut settings = Settings::minimal(installation.version.major);
        for (name, value) in
            [("shared_buffers", "64MB"), ("max_connections", "50"), ("log_min_messages", "panic")]
        {
            settings.set(name, value);
        }
        let cluster = Cluster::new(installation, scratch.path().join("data"), user);
        cluster.init("postgres", false).expect("initdb");
        cluster.write_file("pg_hba.conf", "local all all trust\n").expect("pg_hba.conf");
        let postmaster = cluster.start(scratch.path(), &settings, PATIENCE).expect("the server starts");
        Server { _postmaster: postmaster, scratch, files: tempfile::tempdir().expect("a folder") }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.scratch.path().join(format!(".s.PGSQL.{SOCKET_PORT}"))
    }

    pub(crate) fn target(&self, database: &str) -> Target {
        self.target_as("postgres", database)
    }

    pub(crate) fn target_as(&self, role: &str, database: &str) -> Target {
        target_at(self.scratch.path(), role, database)
    }

    pub(crate) async fn connect(&self, database: &str) -> Client {
        self.connect_as("postgres", database).await
    }

    pub(crate) async fn connect_as(&self, role: &str, database: &str) -> Client {
        let mut config = tokio_postgres::Config::new();
        config.host_path(self.scratch.path()).port(SOCKET_PORT).user(role).dbname(database);
        let (client, connection) = config.connect(NoTls).await.expect("a connection");
        tokio::spawn(async move {
            let _ = connection.await;
        });
        client
    }

    /// A database with what a script makes.
    pub(crate) async fn database(&self, script: &str) -> String {
        let name = self.copy("template0").await;
        run(&self.connect(&name).await, script).await;
        name
    }

    pub(crate) async fn copy(&self, template: &str) -> String {
        let name = format!("d_{}", entropy::token(8));
        let admin = self.connect("postgres").await;
        for _ in 0..10 {
            // Sessions of the template may still be on their way out, for which the server waits some seconds itself.
            match admin.batch_execute(&format!("create database {name} template {template}")).await {
                Ok(()) => return name,
                Err(error) if error.code().is_some_and(|code| code.code() == "55006") => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Err(error) => panic!("{error:?}"),
            }
        }
        panic!("{template} stays in use");
    }

    /// Three copies of a script's database: the source, a branch in which `work` was done, and a target.
    pub(crate) async fn three(&self, script: &str, work: &[&str]) -> [String; 3] {
        let source = self.database(script).await;
        let (branch, target) = (self.copy(&source).await, self.copy(&source).await);
        let client = self.connect(&branch).await;
        for statement in work {
            run(&client, statement).await;
        }
        [source, branch, target]
    }

    /// The change set from one database to another.
    pub(crate) async fn change_set(&self, old: &str, new: &str) -> ChangeSet {
        ChangeSet::open(&self.file(old, new).await).expect("a change set")
    }

    pub(crate) async fn file(&self, old: &str, new: &str) -> PathBuf {
        let (old, new) = (self.connect(old).await, self.connect(new).await);
        let path = self.files.path().join(format!("{}.dpack", entropy::token(8)));
        let (before, after) = (Catalogue::read(&old).await.unwrap(), Catalogue::read(&new).await.unwrap());
        let diff = Diff::between(&before, &after);
        let ddl: Vec<Ddl> = diff
            .ddl()
            .iter()
            .map(|step| Ddl { sql: step.sql.clone(), in_transaction: step.in_transaction })
            .collect();
        write(&path, &ddl, &parts(&old, &new).await);
        path
    }

    /// Merges what differs between two databases into a third.
    pub(crate) async fn merge(
        &self,
        set: &ChangeSet,
        database: &str,
        options: &MergeOptions,
    ) -> Result<Merged, ApplyError> {
        let scratch = tempfile::tempdir().expect("a folder");
        merge(set, &self.target(database), options, scratch.path()).await
    }

    pub(crate) async fn apply(&self, set: &ChangeSet, database: &str) -> Result<Outcome, ApplyError> {
        apply(set, &self.target(database), &ApplyOptions::default()).await
    }
}

pub(crate) fn target_at(directory: &Path, role: &str, database: &str) -> Target {
    let host = directory.display().to_string().replace('/', "%2F");
    Target::parse(&format!("postgres://{role}@/{database}?host={host}&port={SOCKET_PORT}")).unwrap()
}

pub(crate) async fn run(client: &Client, sql: &str) {
    client.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
}

pub(crate) async fn text(client: &Client, sql: &str) -> String {
    let row = client.query_one(sql, &[]).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    row.get::<_, Option<String>>(0).unwrap_or_default()
}

pub(crate) fn origin() -> Origin {
    Origin {
        branch: "try".to_owned(),
        branch_id: "b-1".to_owned(),
        source: "app".to_owned(),
        generation: 1,
        snapshot_digest: Some("00".repeat(32)),
        compared_with: "source app, generation 1".to_owned(),
        data: "full".to_owned(),
    }
}

pub(crate) fn write(path: &Path, ddl: &[Ddl], parts: &[Part]) {
    let mut writer = ChangeSetWriter::create(path, origin(), Vec::new(), ddl).unwrap();
    for part in parts {
        writer.part(part).unwrap();
    }
    writer.finish().unwrap();
}

#[derive(Default, Clone)]
struct Read {
    columns: Vec<(Column, bool, bool)>,
    key: Vec<String>,
}

const SETTINGS: &str = "set search_path = pg_catalog; set timezone = 'UTC'; set datestyle = 'ISO, YMD'; \
    set intervalstyle = 'postgres'; set bytea_output = 'hex'; set extra_float_digits = 1";

async fn read(client: &Client) -> BTreeMap<(String, String), Read> {
    run(client, SETTINGS).await;
    let rows = client
        .query(
            "select n.nspname::text, c.relname::text, a.attname::text, format_type(a.atttypid, a.atttypmod), a.attidentity = 'a', \
               a.attgenerated <> '', a.atthasdef or a.atthasmissing or a.attidentity <> '', \
               exists (select from pg_index i where i.indrelid = c.oid and i.indisprimary and a.attnum = any (i.indkey::int2[])) \
             from pg_class c join pg_namespace n on n.oid = c.relnamespace \
               left join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped \
             where c.relkind = 'r' and n.nspname !~ '^pg_' and n.nspname not in ('information_schema', 'duramen') order by 1, 2, a.attnum",
            &[],
        )
        .await
        .unwrap();
    let mut tables = BTreeMap::<_, Read>::new();
    for row in rows {
        let table = tables.entry((row.get(0), row.get(1))).or_default();
        let Some(name) = row.get::<_, Option<String>>(2) else { continue };
        let column = Column { name: name.clone(), type_name: row.get(3), is_always_generated: row.get(4) };
        table.columns.push((column, row.get(5), row.get(6)));
        if row.get(7) {
            table.key.push(name);
        }
    }
    tables
}

async fn lines(client: &Client, (schema, name): &(String, String), columns: &[Column]) -> Vec<Vec<u8>> {
    if columns.is_empty() {
        return Vec::new();
    }
    let list: Vec<String> = columns.iter().map(|column| quote_identifier(&column.name)).collect();
    let (schema, name) = (quote_identifier(schema), quote_identifier(name));
    let sql = format!("copy {schema}.{name} ({}) to stdout", list.join(", "));
    let bytes: Vec<bytes::Bytes> = pin!(client.copy_out(&sql).await.unwrap()).try_collect().await.unwrap();
    let bytes = bytes.concat();
    let mut lines: Vec<Vec<u8>> = bytes.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    lines.pop();
    lines
}

/// What differs, as the product's comparison tells it with all columns.
pub(crate) async fn parts(old: &Client, new: &Client) -> Vec<Part> {
    let (before, after) = (read(old).await, read(new).await);
    let names: BTreeSet<_> = before.keys().chain(after.keys()).cloned().collect();
    let (mut told, mut summary) = (Vec::new(), Summary::default());
    for name in names {
        let (there, here) = (before.get(&name), after.get(&name));
        let only_in = match (there, here) {
            (None, _) => Some(Only::Branch),
            (_, None) => Some(Only::Snapshot),
            _ => None,
        };
        let (there, here) = (there.or(here).unwrap(), here.or(there).unwrap());
        let is_in = |read: &Read, name: &str| read.columns.iter().any(|(column, ..)| column.name == name);
        let mut left_out = Vec::new();
        let leave =
            |name: &str, only_in, why: &str| LeftOut { name: name.to_owned(), only_in, why: why.to_owned() };
        let (mut common, mut added, mut is_filled) = (Vec::new(), Vec::new(), false);
        for (column, is_generated, filled) in &here.columns {
            if *is_generated {
                left_out.push(leave(&column.name, None, "it is generated from other columns"));
            } else if is_in(there, &column.name) {
                common.push(column.clone());
            } else {
                left_out.push(leave(&column.name, Some(Only::Branch), "the branch alone has it"));
                added.push(column.clone());
                is_filled |= filled;
            }
        }
        for (column, ..) in there.columns.iter().filter(|(column, ..)| !is_in(here, &column.name)) {
            left_out.push(leave(&column.name, Some(Only::Snapshot), "the snapshot alone has it"));
        }
        let place = |name: &String| common.iter().position(|column| column.name == *name);
        let key =
            if there.key == here.key { here.key.iter().filter_map(place).collect() } else { Vec::new() };
        let all: Vec<Column> = common.iter().chain(&added).cloned().collect();
        let mut unmatched = Unmatched::new(1 << 30);
        if only_in != Some(Only::Branch) {
            let absent: &[u8] = if is_filled { b"\t\0" } else { b"\t\\N" };
            for line in lines(old, &name, &common).await {
                unmatched.old(&[line, absent.repeat(added.len())].concat()).unwrap();
            }
        }
        if only_in != Some(Only::Snapshot) {
            for line in lines(new, &name, &all).await {
                unmatched.new_line(&line).unwrap();
            }
        }
        let differences = unmatched.pair(&key);
        if differences.is_empty() && only_in.is_none() && !left_out.iter().any(|it| it.only_in.is_some()) {
            continue;
        }
        let compared = Compared::Full { why: "all of it is read".to_owned() };
        let (schema, name) = name.clone();
        told.push(Part::Table(Table { schema, name, columns: all, key, left_out, only_in, compared }));
        let mut ending = Ending::default();
        for difference in differences {
            let text = |line: &Option<Box<[u8]>>| {
                line.as_ref().map(|line| {
                    let text = |value: Vec<u8>| String::from_utf8(value).unwrap();
                    values(line).into_iter().map(|value| value.map(text)).collect::<Vec<_>>()
                })
            };
            let (mut old, new) = (text(&difference.old), text(&difference.new));
            if let Some(old) = &mut old {
                old[common.len()..].fill(None);
            }
            match (&old, &new) {
                (Some(_), Some(_)) => ending.changed += difference.times,
                (Some(_), None) => ending.removed += difference.times,
                _ => ending.added += difference.times,
            }
            for _ in 0..difference.times {
                told.push(Part::Row(Row { old: old.clone(), new: new.clone() }));
            }
        }
        ending.listed = ending.total();
        summary.rows.listed += ending.listed;
        told.push(Part::Ending(ending));
    }
    let (before, after) = (sequences(old).await, sequences(new).await);
    for name in before.keys().chain(after.keys()).collect::<BTreeSet<_>>() {
        let (old, new) = (before.get(name).copied(), after.get(name).copied());
        if old != new {
            told.push(Part::Sequence(Sequence { schema: name.0.clone(), name: name.1.clone(), old, new }));
        }
    }
    told.push(Part::Summary(summary));
    told
}

async fn sequences(client: &Client) -> BTreeMap<(String, String), SequenceState> {
    let sql = "select n.nspname::text, c.relname::text from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.relkind = 'S'";
    let mut all = BTreeMap::new();
    for row in client.query(sql, &[]).await.unwrap() {
        let (schema, name): (String, String) = (row.get(0), row.get(1));
        let sql = format!(
            "select last_value, is_called from {}.{}",
            quote_identifier(&schema),
            quote_identifier(&name)
        );
        let state = client.query_one(&sql, &[]).await.unwrap();
        all.insert((schema, name), SequenceState { last_value: state.get(0), is_called: state.get(1) });
    }
    all
}

/// What two databases do not have in common: definitions, rows, sequences.
pub(crate) async fn differences(server: &Server, a: &str, b: &str) -> Vec<String> {
    let (a, b) = (server.connect(a).await, server.connect(b).await);
    let (one, other) = (Catalogue::read(&a).await.unwrap(), Catalogue::read(&b).await.unwrap());
    let diff = Diff::between(&one, &other);
    let is_ours = |name: &str| name == "duramen" || name.starts_with("duramen.");
    let changes = diff.changes().iter().filter(|change| !is_ours(&change.key.name));
    let mut all: Vec<String> = changes.map(|change| format!("{:?} {}", change.how, change.key)).collect();
    for part in parts(&a, &b).await {
        match part {
            Part::Table(table) => all.push(format!("{}.{}", table.schema, table.name)),
            Part::Row(row) => all.push(format!("{row:?}")),
            Part::Sequence(sequence) => all.push(format!("{sequence:?}")),
            Part::Ending(_) | Part::Summary(_) => {}
        }
    }
    all
}
