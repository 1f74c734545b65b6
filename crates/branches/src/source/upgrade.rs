//! A generation of another source, taken to a later major version by `pg_upgrade`, shut in. Invariants V1 to V5 of
//! docs/design/branches.md.

use super::{
    connection,
    copied::Copied,
    draft::Draft,
    import::{import_settings, invalid, Beginning, Importer, START_LIMIT, STOP_LIMIT},
    logical::Sorting,
    manifest::{Manifest, SourceRecord},
    origin_server::{self, give_secret, import_failed, local, start_failed},
    refusal::read_error,
    restore::jobs,
    sanitise::{self, ADMIN},
    tablespaces,
};
use crate::{
    error::{EngineError, Kind},
    files::{self, io_error},
    generation::Generation,
    model::{Sanitised, Upgraded},
};
use duramen_base::clock;
use duramen_postgres::{
    quote_identifier, Cluster, ClusterError, Installation, Secret, Settings, StopMode, SOCKET_PORT,
};
use std::{
    fmt::Write as _,
    fs,
    io::{Read as _, Seek as _, SeekFrom},
    num::NonZeroU32,
    path::{Path, PathBuf},
};

/// Where the new cluster is made: inside of the old one's directory, because files can be linked only within a volume.
const NEW: &str = "duramen_upgraded";
/// Where `pg_upgrade` writes what it found, since 15, and its script that updates extensions.
const FOUND_IN: &str = "pg_upgrade_output.d";
const EXTENSIONS: &str = "update_extensions.sql";
/// How many of its lists are reported, how many bytes of each, and how many lines of its output are kept.
const LISTS_MAX: usize = 20;
const LIST_MAX: u64 = 16 << 10;
const LINES_MAX: usize = 200;
/// What the name of a superuser may not hold when a cluster is made: the owner of its extensions (src/backend/commands/extension.c).
const NOT_IN_NAMES: [char; 4] = ['"', '$', '\'', '\\'];
/// How many lines of each log that report errors are kept.
const ERRORS_MAX: usize = 10;
/// The first version with locale providers, and the first whose `pg_upgrade` can skip flushing.
const LOCALE_PROVIDERS_SINCE: u32 = 15;
const NO_SYNC_SINCE: u32 = 17;

/// An upgrade to make.
#[derive(Debug)]
pub(crate) struct Upgrade<'a> {
    pub(crate) generation: &'a Generation,
    /// The major version that is asked for.
    pub(crate) pg: Option<u32>,
}

/// Properties of the old cluster that the new one must share.
struct Seen {
    /// The bootstrap superuser, who must have the same name in both.
    bootstrap: String,
    checksums: bool,
    /// In bytes.
    wal_segment: i64,
    sorting: Sorting,
}

impl Importer<'_> {
    /// Makes a generation of a source out of one of another. On failure nothing is left behind.
    pub(crate) async fn upgrade(
        &self,
        record: &SourceRecord,
        of: &Upgrade<'_>,
    ) -> Result<Manifest, EngineError> {
        let (from, past) = (&of.generation.installation, &of.generation.manifest);
        let to = self.later(from, of.pg)?;
        // V2: what is to be masked is masked in the generation.
        let draft = Draft::of_branch(self.home, self.store, record);
        self.say("copying the generation");
        tokio::task::block_in_place(|| {
            draft.clone_from(&of.generation.snapshot)?;
            self.take_over(&draft.path)
        })?;
        if tablespaces::are_inside(&draft.path)? {
            return Err(invalid(
                "has_tablespaces",
                "the source has tablespaces, which lie in the data directory here, and pg_upgrade does not take such along; \
                 move what is in them to pg_default, or import the source with `--logical`",
            ));
        }
        let old = self.cluster(&draft, from);
        let secret = Secret::random();
        let seen = self.prepare_old(&old, &draft, record, &secret).await?;
        let (took_ms, output) = self.run_upgrade(&old, &to, &draft, &seen, &secret).await?;
        let outdated_extensions = tokio::task::block_in_place(|| take_new(&draft.path))?;

        let upgraded = Upgraded {
            source: of.generation.source.clone(),
            generation: past.generation,
            from_version: from.version.to_string(),
            took_ms,
            output,
            outdated_extensions,
        };
        let copied = Copied {
            past,
            source_at_import: origin_server::of_a_generation(),
            promoted: None,
            report: report(&upgraded, past),
            upgraded: Some(upgraded),
        };
        let made_by = (to, past.database.clone());
        self.finish(record, made_by, Beginning::Copied(Box::new(copied)), draft).await
    }

    /// The programs of the version that is asked for, which must be a later one.
    fn later(&self, from: &Installation, pg: Option<u32>) -> Result<Installation, EngineError> {
        let to = match pg {
            Some(major) => self.installation(major)?,
            None => self.newest()?,
        };
        if to.version.major > from.version.major {
            return Ok(to);
        }
        Err(invalid(
            "wrong_major",
            format!(
                "the source's branches are of PostgreSQL {} and pg_upgrade leads to later major versions only, not to {}: \
                 name one with --pg, and install it (Debian's package postgresql-VERSION)",
                from.version.major, to.version.major
            ),
        ))
    }

    /// Reads the properties that the new cluster must share, and gives the bootstrap superuser a password.
    async fn prepare_old(
        &self,
        old: &Cluster,
        draft: &Draft<'_>,
        record: &SourceRecord,
        secret: &Secret,
    ) -> Result<Seen, EngineError> {
        let major = old.installation().version.major;
        let (carried, _) = sanitise::carry_settings(&draft.path, old.installation());
        self.disarm_files(old, &mut Vec::new())?;
        write(old, "pg_hba.conf", RULES)?;
        write(old, "postgresql.conf", &carried.to_conf())?;
        let admin = self.home.admin_secret(&record.name);
        old.single_user("template1", &sanitise::make_admin(&admin), &Settings::new())
            .map_err(|error| import_failed(&error))?;
        let mut server = old
            .start(&draft.socket_dir, &import_settings(major), START_LIMIT)
            .map_err(|error| start_failed(&error))?;
        let client = connection::own(&local(&draft.socket_dir, ADMIN, &admin, "template1"), major).await?;
        let seen = look_at(&client, major).await?;
        // Not in single-user mode, where a line ends a statement, and the name is the source's.
        let verifier = secret.verifier(NonZeroU32::MIN);
        let admit = format!(
            "begin read write; alter role {} login password '{verifier}' valid until 'infinity' connection limit -1; commit",
            quote_identifier(&seen.bootstrap)
        );
        client.batch_execute(&admit).await.map_err(|error| read_error(&error))?;
        drop(client);
        for database in
            sanitise::databases(&local(&draft.socket_dir, ADMIN, &admin, "template1"), major).await?
        {
            let client = connection::own(&local(&draft.socket_dir, ADMIN, &admin, &database), major).await?;
            client.batch_execute(INITIAL_RIGHTS).await.map_err(|error| read_error(&error))?;
        }
        server.stop(StopMode::Fast, STOP_LIMIT).map_err(|error| import_failed(&error))?;
        Ok(seen)
    }

    /// Makes the new cluster and has `pg_upgrade` fill it. How long that took, in milliseconds, and what it printed.
    async fn run_upgrade(
        &self,
        old: &Cluster,
        to: &Installation,
        draft: &Draft<'_>,
        seen: &Seen,
        secret: &Secret,
    ) -> Result<(u64, Vec<String>), EngineError> {
        let from = old.installation();
        let dir = draft.path.join(NEW);
        let new = Cluster::new(to.clone(), &dir, self.user.clone()).with_log(draft.log.clone());
        let new = new.shut_in(self.walls(draft));
        self.say("making the new cluster");
        let arguments = seen.arguments(to.version.major);
        new.init_like(&seen.bootstrap, &arguments).map_err(|error| import_failed(&error))?;
        give_secret(&new, &quote_identifier(&seen.bootstrap), secret)?;
        write(&new, "pg_hba.conf", RULES)?;
        let (carried, _) = sanitise::carry_settings(&draft.path, to);
        write(&new, "postgresql.conf", &carried.to_conf())?;

        // It works in the old directory, which holds both.
        let walls = self.walls(draft).map(|walls| walls.with_servers_of(from));
        let both = self.open_cluster(draft, to).shut_in(walls);
        let path = |path: &Path| path.display().to_string();
        let mut arguments = vec![
            format!("--old-bindir={}", path(&from.bin_dir)),
            format!("--new-bindir={}", path(&to.bin_dir)),
            format!("--old-datadir={}", path(&draft.path)),
            format!("--new-datadir={}", path(&dir)),
            format!("--username={}", seen.bootstrap),
            format!("--socketdir={}", path(&draft.socket_dir)),
            format!("--old-port={SOCKET_PORT}"),
            format!("--new-port={SOCKET_PORT}"),
            format!("--jobs={}", jobs()),
            "--link".to_owned(),
        ];
        if to.version.major >= NO_SYNC_SINCE {
            arguments.push("--no-sync".to_owned());
        }
        let env = [
            ("PGPASSWORD".to_owned(), secret.expose().to_owned()),
            ("HOME".to_owned(), "/nonexistent".to_owned()),
        ];
        self.say("pg_upgrade runs");
        let began = clock::now();
        let run = move || both.run_with_env("pg_upgrade", &arguments, None, &env);
        let ran = tokio::task::spawn_blocking(run).await.map_err(|error| import_failed(&error))?;
        let took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        match ran {
            Ok(printed) => Ok((took_ms, lines(&printed))),
            Err(error) => Err(refused(&error, &draft.path, to)),
        }
    }
}

/// Resets the privileges of PostgreSQL's own functions and relations to their initial ones. A dump contains every difference from these, and the
/// later version may not have the same function with the same arguments. Sanitising the upgraded copy revokes again what it has to.
const INITIAL_RIGHTS: &str = "
begin read write;
update pg_catalog.pg_proc p set proacl = (select i.initprivs from pg_catalog.pg_init_privs i
  where i.objoid = p.oid and i.classoid = 'pg_catalog.pg_proc'::pg_catalog.regclass and i.privtype = 'i')
where p.oid < 16384 and p.proacl is not null;
update pg_catalog.pg_class c set relacl = (select i.initprivs from pg_catalog.pg_init_privs i
  where i.objoid = c.oid and i.classoid = 'pg_catalog.pg_class'::pg_catalog.regclass and i.objsubid = 0 and i.privtype = 'i')
where c.oid < 16384 and c.relacl is not null;
commit";

/// Access rules while either server runs: only by the import's secret, on a socket that only the cage sees.
const RULES: &str = "local all all scram-sha-256\n";

fn write(cluster: &Cluster, name: &str, text: &str) -> Result<(), EngineError> {
    cluster.write_file(name, text).map_err(|error| import_failed(&error))
}

impl Seen {
    /// The arguments of `initdb` for a cluster that the old one can be upgraded into.
    fn arguments(&self, major: u32) -> Vec<String> {
        let mut arguments = self.sorting.of_cluster(major >= LOCALE_PROVIDERS_SINCE);
        arguments.push(format!("--wal-segsize={}", self.wal_segment >> 20));
        match (self.checksums, major) {
            (true, _) => arguments.push("--data-checksums".to_owned()),
            (false, 18..) => arguments.push("--no-data-checksums".to_owned()),
            (false, _) => {}
        }
        arguments
    }
}

async fn look_at(client: &tokio_postgres::Client, major: u32) -> Result<Seen, EngineError> {
    let sql = "select r.rolname::text, current_setting('data_checksums')::bool, s.setting::int8 \
               from pg_catalog.pg_roles r, pg_catalog.pg_settings s where r.oid = 10 and s.name = 'wal_segment_size'";
    let row = client.query_one(sql, &[]).await.map_err(|error| read_error(&error))?;
    let bootstrap: String = row.get(0);
    if bootstrap.chars().any(|it| it.is_control() || NOT_IN_NAMES.contains(&it)) {
        return Err(invalid(
            "upgrade_refused",
            "the name of the source's bootstrap superuser holds a control character or one of \"$'\\, which initdb does not take: \
             rename that role in the source (ALTER ROLE ... RENAME TO), and refresh it",
        ));
    }
    Ok(Seen {
        bootstrap,
        checksums: row.get(1),
        wal_segment: row.get(2),
        sorting: Sorting::of(client, major, "template0").await?,
    })
}

/// Entries of the report: privileges that were reset, and the rules for masking that apply.
fn report(upgraded: &Upgraded, past: &Manifest) -> Vec<Sanitised> {
    let rights = Sanitised {
        kind: "rights".to_owned(),
        object: "what is PostgreSQL's own".to_owned(),
        action:
            "as the later version has them: what the source had granted or revoked there was not taken along"
                .to_owned(),
    };
    let masked = past.masking.as_ref().map(|_| Sanitised {
        kind: "masking".to_owned(),
        object: format!("generation {} of {}", upgraded.generation, upgraded.source),
        action: "was masked before it was upgraded".to_owned(),
    });
    // The masked columns are listed in the report of the generation alone.
    let columns = past.sanitised.iter().filter(|it| it.kind == "column" && past.masking.is_some());
    std::iter::once(rights).chain(masked).chain(columns.cloned()).collect()
}

/// Replaces the old cluster by the new one. Returns the extensions that have a later version installed.
fn take_new(dir: &Path) -> Result<Vec<String>, EngineError> {
    let outdated = read(dir, Path::new(EXTENSIONS)).map(|text| extensions(&text)).unwrap_or_default();
    let fail = |doing, path: &Path, error: &std::io::Error| io_error(doing, path, error);
    let entries = |of: &Path| -> Result<Vec<PathBuf>, EngineError> {
        let found = fs::read_dir(of).and_then(|all| all.map(|entry| entry.map(|it| it.path())).collect());
        found.map_err(|error| fail("read", of, &error))
    };
    let new = dir.join(NEW);
    for path in entries(dir)?.into_iter().filter(|path| *path != new) {
        let is_dir = path.symlink_metadata().map_err(|error| fail("read", &path, &error))?.is_dir();
        let removed = if is_dir { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.map_err(|error| fail("remove", &path, &error))?;
    }
    for path in entries(&new)? {
        let name = path.file_name().unwrap_or_default();
        fs::rename(&path, dir.join(name)).map_err(|error| fail("move", &path, &error))?;
    }
    fs::remove_dir(&new).map_err(|error| fail("remove", &new, &error))?;
    Ok(outdated)
}

/// The extensions that the script updates: `ALTER EXTENSION "name" UPDATE;`.
fn extensions(script: &str) -> Vec<String> {
    let name = |line: &str| {
        let name = line.trim().strip_prefix("ALTER EXTENSION ")?.strip_suffix(" UPDATE;")?;
        let plain = name.strip_prefix('"').and_then(|name| name.strip_suffix('"'));
        Some(plain.map_or_else(|| name.to_owned(), |name| name.replace("\"\"", "\"")))
    };
    script.lines().filter_map(name).take(LINES_MAX).collect()
}

fn read(dir: &Path, relative: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    let mut file = files::open_below(dir, relative).ok()?;
    // Errors come last.
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LIST_MAX))).ok()?;
    file.take(LIST_MAX).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The printed lines: of a line that was overwritten its last state, without alignment.
fn lines(printed: &str) -> Vec<String> {
    let line = |line: &str| {
        let last = line.trim_end().rsplit('\r').next().unwrap_or_default();
        last.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    printed.lines().map(line).filter(|line| !line.is_empty()).take(LINES_MAX).collect()
}

/// The errors in a log, each with the line after it, which has the statement.
fn errors(log: &str) -> Vec<&str> {
    let all: Vec<&str> = log.lines().collect();
    let is_one = |line: &str| ["ERROR:", "FATAL:", "error:"].iter().any(|word| line.contains(word));
    let found = all.iter().enumerate().filter(|(_, line)| is_one(line));
    found.flat_map(|(at, _)| all[at..].iter().take(2).copied()).take(ERRORS_MAX).collect()
}

/// The error for a failed `pg_upgrade`: its output, the lists it refers to, and the errors in its logs.
fn refused(error: &ClusterError, dir: &Path, to: &Installation) -> EngineError {
    let mut said = match error {
        ClusterError::Failed { output, .. } => lines(output).join("\n"),
        other => other.to_string(),
    };
    let below = Path::new(NEW).join(FOUND_IN);
    let names = |at: &Path| files::names_below(dir, at, LISTS_MAX).unwrap_or_default();
    for run in names(&below).into_iter().map(|run| below.join(run)) {
        for name in names(&run).iter().filter(|name| name.ends_with(".txt")) {
            let text = read(dir, &run.join(name)).unwrap_or_default();
            let _ = write!(said, "\n{name}:\n{}", lines(&text).join("\n"));
        }
        // The output refers to these files by name, and they are about to be deleted.
        for name in names(&run.join("log")) {
            let text = read(dir, &run.join("log").join(name)).unwrap_or_default();
            for line in errors(&text) {
                let _ = write!(said, "\n{line}");
            }
        }
    }
    let message = format!(
        "pg_upgrade does not take this source to PostgreSQL {}; nothing is left of the try:\n{said}",
        to.version
    );
    EngineError::new(Kind::Failed, "upgrade_refused", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_comes_in_plain_lines() {
        let printed = "Performing Consistency Checks\n---\nChecking for x       \r                 \rChecking for x     ok\n\n*Clusters are compatible*\n";
        let said = lines(printed);
        assert_eq!(
            said,
            ["Performing Consistency Checks", "---", "Checking for x ok", "*Clusters are compatible*"]
        );
    }

    #[test]
    fn outdated_extensions_are_known_by_name() {
        let script = "\\connect template1\nALTER EXTENSION \"hstore\" UPDATE;\nALTER EXTENSION \"a \"\"b\" UPDATE;\nDROP TABLE x;\n";
        assert_eq!(extensions(script), ["hstore", "a \"b"]);
    }
}
