//! What must hold of two servers before anything is changed on them. Each failure is one line that ends in what to do.

use std::collections::BTreeSet;
use std::path::Path;

use duramen_base::file;
use duramen_postgres::volume;

use super::super::options::Options;
use super::super::restore::RestoreFile;
use super::super::scenario::Node;
use super::given::Endpoint;
use super::{answered, DATABASE, OLDEST};
use duramen_reports::suite::SuiteError;

/// The scenario with the most clients.
const WIDEST: u32 = 14;
/// A scenario that writes little.
const SMALL: u32 = 2;
/// Sessions of a run with it, and of one without it, those of the suite itself included.
const SESSIONS: (i64, i64) = (144, 64);
/// Sessions on the standby.
const STANDBY_SESSIONS: i64 = 16;

/// Checks that they are a primary and its standby of which anything else can be asked. Each of these makes the next
/// ones meaningless, so it ends at the first that fails.
pub(super) async fn are_a_pair(primary: &Endpoint, standby: &Endpoint) -> Result<Vec<String>, SuiteError> {
    let lines = versions((&primary.named, primary.version), (&standby.named, standby.version));
    if !lines.is_empty() {
        return Ok(lines);
    }
    if let Some(line) = roles(primary, standby).await? {
        return Ok(vec![line]);
    }
    if primary.system_identifier != standby.system_identifier {
        let line = format!(
            "the {} is not one of the {}: it is a copy of another cluster; name two servers of one cluster",
            standby.named, primary.named
        );
        return Ok(vec![line]);
    }
    rights(primary, standby).await
}

/// What the primary knows of the standby.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Its name there.
    pub(super) name: String,
    /// Another standby may acknowledge a commit in its place: more can than must (`ANY 1 (a, b)`).
    pub(super) is_optional: bool,
}

/// Checks everything else. Returns the lines of what fails, and what the primary knows of the standby.
/// `managed`: the suite will not change a setting.
pub(super) async fn check(
    options: &Options,
    primary: &Endpoint,
    standby: &Endpoint,
    managed: bool,
) -> Result<(Vec<String>, Known), SuiteError> {
    let mut lines = earlier_runs(options, &primary.system_identifier)?;
    let mut known = Known::default();
    match connection(primary, standby).await? {
        Ok(name) => {
            let synchronous = synchronous(primary, &name).await?;
            known = Known { name, is_optional: synchronous == Ok(true) };
            lines.extend(synchronous.err());
        }
        Err(line) => lines.push(line),
    }
    lines.extend(room_for_sessions(options, primary, standby).await?);
    lines.extend(settings(primary, standby, managed).await?);
    lines.extend(objects(primary).await?);
    for endpoint in [primary, standby] {
        lines.extend(space(endpoint, options).await?);
    }
    Ok((lines, known))
}

/// That a server is new enough.
pub(super) fn too_old(named: &str, version: u32) -> Option<String> {
    (version / 10_000 < OLDEST).then(|| {
        format!(
            "the {named} runs PostgreSQL {}: the suite needs {OLDEST} or newer; upgrade it, or leave --primary and --standby out for a pair of the suite's own",
            version / 10_000
        )
    })
}

/// That both are new enough and of one major version: what they are called, and `server_version_num`.
#[must_use]
pub fn versions(primary: (&str, u32), standby: (&str, u32)) -> Vec<String> {
    let mut lines: Vec<String> =
        [primary, standby].into_iter().filter_map(|(named, version)| too_old(named, version)).collect();
    if lines.is_empty() && primary.1 / 10_000 != standby.1 / 10_000 {
        lines.push(format!(
            "the {} runs PostgreSQL {} and the {} {}: they are not a pair; name two servers of one cluster",
            primary.0,
            primary.1 / 10_000,
            standby.0,
            standby.1 / 10_000
        ));
    }
    lines
}

async fn roles(primary: &Endpoint, standby: &Endpoint) -> Result<Option<String>, SuiteError> {
    let recovering = async |endpoint: &Endpoint, node| -> Result<bool, SuiteError> {
        let asked = endpoint.client.query_one("SELECT pg_is_in_recovery()", &[]);
        Ok(answered("ask for the role", node, asked).await?.get(0))
    };
    let found = (recovering(primary, Node::Primary).await?, recovering(standby, Node::Standby).await?);
    Ok(match found {
        (false, true) => None,
        (true, false) => Some(format!(
            "the two are swapped: the {} is a standby and the {} takes writes; exchange --primary and --standby",
            primary.named, standby.named
        )),
        (true, true) => Some(format!(
            "the {} is a standby, not a primary; give --primary the server that takes writes",
            primary.named
        )),
        (false, false) => Some(format!(
            "the {} takes writes, so it is not a standby; give --standby a server that replays what the {} writes",
            standby.named, primary.named
        )),
    })
}

/// That our roles may do what the suite does: ALTER SYSTEM, CREATE EXTENSION, see what others wait for.
async fn rights(primary: &Endpoint, standby: &Endpoint) -> Result<Vec<String>, SuiteError> {
    let mut lines = Vec::new();
    for endpoint in [primary, standby] {
        let row = answered(
            "ask for rights",
            endpoint.node,
            endpoint
                .client
                .query_one("SELECT current_user::text, current_setting('is_superuser') = 'on', quote_ident(current_user)", &[]),
        )
        .await?;
        let (role, superuser, quoted): (String, bool, String) = (row.get(0), row.get(1), row.get(2));
        if !superuser {
            lines.push(format!(
                "the role {role} is not a superuser on the {}; connect as one, or on the primary: ALTER ROLE {quoted} SUPERUSER;",
                endpoint.named
            ));
        }
    }
    Ok(lines)
}

/// That no earlier run has left something to put back, and that none goes on.
fn earlier_runs(options: &Options, system_identifier: &str) -> Result<Vec<String>, SuiteError> {
    let mut lines = Vec::new();
    for path in RestoreFile::list(&options.home)? {
        let found = match RestoreFile::peek(&path) {
            Ok(record) if !record.is_about(system_identifier) => continue,
            Ok(_) => RestoreFile::take_over(&path),
            Err(error) => Err(error),
        };
        lines.push(match found {
            // Its run has just come to its end.
            Err(_) if !path.exists() => continue,
            // It may be about this pair.
            Err(error) => format!(
                "{error}: an earlier run may not have put everything back; if a newer duramen wrote the file, run its `duramen lab restore`, else see by hand to what it names, and remove it"
            ),
            Ok(None) => format!(
                "another run works with this pair, or is being cleared up after ({}); wait for its end",
                path.display()
            ),
            Ok(Some(file)) if file.record().is_empty() => {
                // It was killed before it changed anything.
                file.remove()?;
                continue;
            }
            Ok(Some(_)) => format!(
                "an earlier run has not put everything back ({}); run: duramen lab restore",
                path.display()
            ),
        });
    }
    Ok(lines)
}

/// Which of the primary's connections is the standby: its name there, or why there is none.
async fn connection(primary: &Endpoint, standby: &Endpoint) -> Result<Result<String, String>, SuiteError> {
    let receiver = answered(
        "look at the WAL receiver",
        Node::Standby,
        standby.client.query_opt("SELECT conninfo FROM pg_stat_wal_receiver WHERE status = 'streaming'", &[]),
    )
    .await?;
    let Some(receiver) = receiver else {
        return Ok(Err(format!(
            "the {} receives nothing: see its log and its primary_conninfo; on it: SELECT * FROM pg_stat_wal_receiver;",
            standby.named
        )));
    };
    let conninfo: String = receiver.get::<_, Option<String>>(0).unwrap_or_default();
    let name = standby_name(&conninfo);
    let rows = answered(
        "look for the standby",
        Node::Primary,
        primary
            .client
            .query("SELECT sync_state FROM pg_stat_replication WHERE application_name = $1", &[&name]),
    )
    .await?;
    let states: BTreeSet<String> = rows.iter().map(|row| row.get(0)).collect();
    Ok(match (rows.len(), states.len()) {
        (0, _) => Err(format!(
            "the {} does not receive from the {} (which has no standby called {name}); name the server that it receives from",
            standby.named, primary.named
        )),
        (_, 1) => Ok(name),
        _ => Err(format!(
            "the {} has {} standbys called {name}, not all of them synchronous; give each an application_name of its own in its primary_conninfo",
            primary.named,
            rows.len()
        )),
    })
}

/// What a standby calls itself, out of the connection string of its WAL receiver as the server shows it: values are not
/// quoted, and may hold blanks.
#[must_use]
pub fn standby_name(conninfo: &str) -> String {
    let mut pairs: Vec<(&str, String)> = Vec::new();
    for word in conninfo.split(' ') {
        let is_key = |key: &str| !key.is_empty() && key.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        match (word.split_once('='), pairs.last_mut()) {
            (Some((key, value)), _) if is_key(key) => pairs.push((key, value.to_owned())),
            (_, Some((_, value))) => *value = format!("{value} {word}"),
            _ => {}
        }
    }
    let named = |wanted: &str| pairs.iter().find(|(key, value)| *key == wanted && !value.is_empty());
    let name = named("application_name").or_else(|| named("fallback_application_name"));
    name.map_or("walreceiver", |(_, value)| value).to_owned()
}

/// That commits wait for this standby; and whether another one may acknowledge them instead.
async fn synchronous(primary: &Endpoint, name: &str) -> Result<Result<bool, String>, SuiteError> {
    let row = answered(
        "look for the standby",
        Node::Primary,
        primary.client.query_one(
            "SELECT max(sync_state) FILTER (WHERE application_name = $1),
                    max(state) FILTER (WHERE application_name = $1),
                    count(*) FILTER (WHERE sync_state = 'quorum'),
                    current_setting('synchronous_standby_names')
             FROM pg_stat_replication",
            &[&name],
        ),
    )
    .await?;
    let (state, streaming): (Option<String>, Option<String>) = (row.get(0), row.get(1));
    let (quorum, names): (i64, String) = (row.get(2), row.get(3));
    let alone = format!(
        "on the primary: ALTER SYSTEM SET synchronous_standby_names = '\"{}\"'; SELECT pg_reload_conf();",
        name.replace('"', "\"\"").replace('\'', "''")
    );
    let state = state.unwrap_or_default();
    Ok(if streaming.as_deref() != Some("streaming") {
        Err(format!("the standby {name} is still catching up; wait until pg_stat_replication says streaming"))
    } else if state != "sync" && state != "quorum" {
        Err(format!(
            "commits on the {} do not wait for the standby {name} (its sync_state is {state}); {alone}",
            primary.named
        ))
    } else {
        Ok(state == "quorum" && quorum > quorum_of(&names))
    })
}

/// How many standbys must acknowledge a commit: the number in `ANY n (...)`.
#[must_use]
pub fn quorum_of(names: &str) -> i64 {
    let digits = |text: &str| -> String { text.chars().filter(char::is_ascii_digit).collect() };
    names.split('(').next().map(digits).and_then(|digits| digits.parse().ok()).unwrap_or(1)
}

async fn room_for_sessions(
    options: &Options,
    primary: &Endpoint,
    standby: &Endpoint,
) -> Result<Vec<String>, SuiteError> {
    let wide = options.scenarios.is_empty() || options.scenarios.contains(&WIDEST);
    let wanted = if wide { SESSIONS.0 } else { SESSIONS.1 };
    let mut lines = Vec::new();
    for (endpoint, wanted) in [(primary, wanted), (standby, STANDBY_SESSIONS)] {
        let row = answered(
            "count the sessions",
            endpoint.node,
            endpoint.client.query_one(
                "SELECT current_setting('max_connections')::bigint,
                        count(*) FILTER (WHERE backend_type = 'client backend') FROM pg_stat_activity",
                &[],
            ),
        )
        .await?;
        let (most, used): (i64, i64) = (row.get(0), row.get(1));
        if most - used < wanted {
            let without = if wide && endpoint.node == Node::Primary {
                format!(" (or {} without S{WIDEST})", SESSIONS.1)
            } else {
                String::new()
            };
            lines.push(format!(
                "the {} has room for {} sessions, and the run needs {wanted}{without}; on both servers: ALTER SYSTEM SET max_connections = {}; then restart them, the standby first",
                endpoint.named,
                most - used,
                (used + wanted + 9) / 10 * 10
            ));
        }
    }
    Ok(lines)
}

/// Settings that would make the figures mean something else, and that the suite does not change by itself.
async fn settings(primary: &Endpoint, standby: &Endpoint, managed: bool) -> Result<Vec<String>, SuiteError> {
    let mut lines = Vec::new();
    for Endpoint { client, node, named, .. } in [primary, standby] {
        let node = *node;
        let row = answered(
            "read the settings",
            node,
            client.query_one(
                "SELECT current_setting('fsync') = 'on', current_setting('statement_timeout'),
                        current_setting('idle_in_transaction_session_timeout'),
                        coalesce(current_setting('allow_alter_system', true), 'on') = 'on'",
                &[],
            ),
        )
        .await?;
        if !row.get::<_, bool>(0) {
            lines.push(format!(
                "fsync is off on the {named}, so nothing there is durable and no commit costs what it should; on it: ALTER SYSTEM SET fsync = on; SELECT pg_reload_conf();"
            ));
        }
        if !managed && !row.get::<_, bool>(3) {
            lines.push(format!(
                "the {named} allows no ALTER SYSTEM; write allow_alter_system = on into its postgresql.conf, and: SELECT pg_reload_conf();"
            ));
        }
        for (column, name) in [(1, "statement_timeout"), (2, "idle_in_transaction_session_timeout")] {
            let found: String = row.get(column);
            if found != "0" {
                lines.push(format!(
                    "sessions on the {named} have a {name} of {found} although ours ask for none; connect to the server itself, not through a pooler"
                ));
            }
        }
    }
    for Endpoint { client, node, named, .. } in [primary, standby] {
        let node = *node;
        if let Some(error) = super::settings::file_error(client, node).await? {
            lines.push(format!(
                "the configuration of the {named} has an error, so that it reads none of it again ({error}); fix it there, and: SELECT pg_reload_conf();"
            ));
            continue;
        }
        // Who manages the settings makes servers read them; the run does not.
        let names = if managed { Vec::new() } else { super::pending::names(client, node).await? };
        if !names.is_empty() {
            lines.push(format!(
                "the configuration of the {named} has changes that it has not read yet ({}), and the run makes it read them; take them back, or on it: SELECT pg_reload_conf();",
                names.join(", ")
            ));
        }
    }
    let row = answered(
        "read the settings",
        Node::Standby,
        standby
            .client
            .query_one("SELECT pg_is_wal_replay_paused(), current_setting('recovery_min_apply_delay')", &[]),
    )
    .await?;
    if row.get(0) {
        lines.push(format!(
            "the replay of the {} is paused; on it: SELECT pg_wal_replay_resume();",
            standby.named
        ));
    }
    let delay: String = row.get(1);
    if delay != "0" {
        lines.push(format!(
            "the {} delays its replay by {delay}; on it: ALTER SYSTEM SET recovery_min_apply_delay = 0; SELECT pg_reload_conf();",
            standby.named
        ));
    }
    Ok(lines)
}

/// That our database can be made.
async fn objects(primary: &Endpoint) -> Result<Vec<String>, SuiteError> {
    // A run has a session from before it makes the database to when it has dropped it, in it or with its OID in the name.
    let row = answered(
        "look at what is there",
        Node::Primary,
        primary.client.query_one(
            "SELECT (SELECT oid FROM pg_database WHERE datname = $1),
                    EXISTS (SELECT FROM pg_available_extensions WHERE name = 'pg_walinspect'),
                    (SELECT concat_ws(' from ', usename, coalesce(host(client_addr), 'the same machine'))
                     FROM pg_stat_activity, pg_database d
                     WHERE d.datname = $1 AND pid <> pg_backend_pid()
                       AND (pg_stat_activity.datname = $1 OR application_name = $2 || '-' || d.oid)
                     LIMIT 1)",
            &[&DATABASE, &super::APPLICATION_NAME],
        ),
    )
    .await?;
    let mut lines = Vec::new();
    let (database, user): (Option<u32>, Option<String>) = (row.get(0), row.get(2));
    match (database, user) {
        (None, _) => {}
        (Some(_), Some(user)) => lines.push(format!(
            "another run works with the {}, by {user} (its database {DATABASE} is in use); wait for its end",
            primary.named
        )),
        (Some(_), None) => lines.push(format!(
            "the {} has a database {DATABASE} already, which the run makes and drops, and nobody is in it; if an earlier run has left it, whoever ran it runs: duramen lab restore; else, if nobody needs it, on the primary: DROP DATABASE {DATABASE};",
            primary.named
        )),
    }
    if !row.get::<_, bool>(1) {
        lines.push(format!(
            "the {} has no extension pg_walinspect, which counts WAL records; install the contrib modules of its PostgreSQL (Debian: part of the package postgresql-N)",
            primary.named
        ));
    }
    Ok(lines)
}

/// That there is room on the disk of a server of this machine; of others it cannot be asked.
async fn space(endpoint: &Endpoint, options: &Options) -> Result<Option<String>, SuiteError> {
    let row = answered(
        "ask for the data directory",
        endpoint.node,
        endpoint
            .client
            .query_one("SELECT current_setting('data_directory'), pg_read_file('postmaster.pid')", &[]),
    )
    .await?;
    let (dir, pid): (String, String) = (row.get(0), row.get(1));
    // Another machine may have a directory of that name, but not with this file in it.
    let is_here =
        file::read_plain(&Path::new(&dir).join("postmaster.pid"), 64 << 10).is_ok_and(|here| here == pid);
    let free = if is_here { volume::free_bytes(Path::new(&dir)).ok() } else { None };
    let needed = super::own::space(options);
    Ok(free.filter(|free| *free < needed).map(|free| too_little(Path::new(&dir), free, needed, options)))
}

/// What is said of a file system with too little room.
pub(super) fn too_little(dir: &Path, free: u64, needed: u64, options: &Options) -> String {
    let small = |quick| Options { quick, scenarios: vec![SMALL], ..options.clone() };
    let otherwise = [
        ("--quick", super::own::space(&Options { quick: true, ..options.clone() })),
        ("scenarios in which commits stop, as S2", super::own::space(&small(options.quick))),
    ];
    let otherwise = otherwise.into_iter().find(|(_, space)| *space < needed);
    let otherwise =
        otherwise.map_or_else(String::new, |(what, space)| format!(", or run {what} ({} MiB)", space >> 20));
    format!(
        "the disk is nearly full: {} has {} MiB free, and the run may write {} MiB; free some{otherwise}",
        dir.display(),
        free >> 20,
        needed >> 20
    )
}
