//! A pair that is there already: looked at first, changed only as far as it can be put back.

use duramen_postgres::connection::Target;
use duramen_postgres::Guardian;
use tokio_postgres::Client;

use super::super::options::Options;
use super::super::restore::{self, Place, Record, RestoreFile};
use super::super::scenario::Node;
use super::patroni::{self, Patroni};
use super::settings::Snapshot;
use super::{answered, blocking, preconditions};
use duramen_reports::suite::SuiteError;

/// One of the servers, as it was found.
pub(super) struct Endpoint {
    pub(super) client: Client,
    pub(super) node: Node,
    /// Which one it is and where, without secrets: `primary db1:5432`.
    pub(super) named: String,
    /// `server_version_num`.
    pub(super) version: u32,
    pub(super) system_identifier: String,
    target: Target,
    dsn: String,
}

/// A pair whose preconditions hold.
pub(super) struct Given {
    /// Where to connect, in the databases that the user has named.
    pub(super) targets: [Target; 2],
    pub(super) version: u32,
    /// What the standby is called on the primary.
    pub(super) standby_name: String,
    /// Another standby may acknowledge commits in its place.
    pub(super) is_optional: bool,
    pub(super) patroni: Option<Patroni>,
    /// The settings of both as they were found.
    pub(super) found: [Snapshot; 2],
}

/// Looks at both servers and checks everything that must hold. Changes nothing on them. Then the restore file is made
/// and its guardian is started.
pub(super) async fn look(
    options: &Options,
    primary: &str,
    standby: &str,
) -> Result<(Given, RestoreFile, Guardian), SuiteError> {
    let found = (endpoint(Node::Primary, primary).await, endpoint(Node::Standby, standby).await);
    let (primary, standby) = match found {
        (Ok(primary), Ok(standby)) => (primary, standby),
        (one, two) => {
            let lines = [one.err(), two.err()].into_iter().flatten().collect();
            return Err(SuiteError::Preconditions(lines));
        }
    };
    let lines = preconditions::are_a_pair(&primary, &standby).await?;
    if !lines.is_empty() {
        return Err(SuiteError::Preconditions(lines));
    }
    // Before all that is fixed by settings: it decides how they are set.
    let mut patroni = None;
    for (endpoint, node) in [(&primary, Node::Primary), (&standby, Node::Standby)] {
        if patroni.is_none() {
            patroni = patroni::recognise(&endpoint.client, node, &endpoint.dsn, &endpoint.system_identifier)
                .await?;
        }
    }
    let (mut lines, known) = preconditions::check(options, &primary, &standby, patroni.is_some()).await?;
    if let Some(patroni) = &patroni {
        let managed = managed(patroni, options, &standby, !lines.is_empty()).await?;
        lines.splice(0..0, managed);
    }
    if !lines.is_empty() {
        return Err(SuiteError::Preconditions(lines));
    }
    let given = Given {
        found: [
            Snapshot::take(&primary.client, Node::Primary).await?,
            Snapshot::take(&standby.client, Node::Standby).await?,
        ],
        targets: [primary.target.clone(), standby.target.clone()],
        version: primary.version,
        standby_name: known.name,
        is_optional: known.is_optional,
        patroni,
    };
    let record =
        Record::new(primary.into_record(Node::Primary).await?, standby.into_record(Node::Standby).await?);
    let file = RestoreFile::create(&options.home, record)?;
    let guardian = blocking({
        let (exe, path) = (options.exe.clone(), file.path().to_owned());
        move || restore::guard(&exe, &path)
    })
    .await;
    match guardian {
        Ok(guardian) => Ok((given, file, guardian)),
        Err(error) => {
            // Nothing has been changed.
            file.remove()?;
            Err(error)
        }
    }
}

/// Connects, and asks what it is. What fails is a line.
async fn endpoint(node: Node, dsn: &str) -> Result<Endpoint, String> {
    let option = format!("--{}", node);
    let unreachable = |error: &dyn std::fmt::Display| format!("the {node}: {error}; check {option}");
    let target = Target::parse(dsn).map_err(|error| unreachable(&error))?;
    let named = format!("{node} {}:{}", target.host(), target.port());
    let unreachable = |error: &dyn std::fmt::Display| format!("the {named}: {error}; check {option}");
    if target.database_name() == super::DATABASE {
        return Err(format!(
            "the {named}: the database {} is made and dropped by the run; name another one in {option}",
            super::DATABASE
        ));
    }
    let unnamed = target.clone().application_name(super::APPLICATION_NAME);
    let client = unnamed.connect().await.map_err(|error| unreachable(&error))?;
    let ask = async |sql: &str| {
        let row = answered("ask what it is", node, client.query_one(sql, &[])).await;
        row.map_err(|error| unreachable(&error))
    };
    let row = ask("SELECT current_setting('server_version_num')::int").await?;
    let version = u32::try_from(row.get::<_, i32>(0)).unwrap_or(0);
    // What is asked and set from here on is not known to all older versions.
    if let Some(line) = preconditions::too_old(&named, version) {
        return Err(line);
    }
    let system_identifier = ask("SELECT system_identifier::text FROM pg_control_system()").await?.get(0);
    // From here on with the settings that all of our sessions have.
    let target = super::ours(target, version / 10_000);
    let client = target.connect().await.map_err(|error| unreachable(&error))?;
    Ok(Endpoint { client, node, named, version, system_identifier, target, dsn: dsn.to_owned() })
}

impl Endpoint {
    /// Needs the rights of a superuser.
    async fn into_record(self, node: Node) -> Result<restore::Server, SuiteError> {
        let place = Some(Place::read(&self.client, node).await?);
        Ok(restore::Server { dsn: self.dsn, system_identifier: self.system_identifier, place })
    }
}

/// What the run would set on a pair whose settings are Patroni's, and what to set there instead; and how to do what
/// other lines say, if there are any.
async fn managed(
    patroni: &Patroni,
    options: &Options,
    standby: &Endpoint,
    others: bool,
) -> Result<Vec<String>, SuiteError> {
    let mut missing = Vec::new();
    let wanted = super::wanted(options);
    for (name, value) in &wanted {
        if super::settings::current(&standby.client, Node::Standby, name).await? != *value {
            missing.push((*name, value.as_str()));
        }
    }
    let mut lines = Vec::new();
    if !missing.is_empty() {
        lines.push(format!(
            "the pair is managed by Patroni ({}), whose settings the suite does not change; run: {}",
            patroni.sign,
            patroni.command(&missing)
        ));
    }
    if others {
        lines.push(format!(
            "the pair is managed by Patroni ({}), which would undo an ALTER SYSTEM; what is said below of settings, do by: {}",
            patroni.sign,
            patroni.command(&[("NAME", "VALUE")])
        ));
    }
    Ok(lines)
}
