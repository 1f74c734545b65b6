//! A primary and a synchronous standby on two other machines, reached by ssh, made for the run and removed after it.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::time::Duration;

use duramen_base::{clock, entropy};
pub use duramen_hosts::{Address, Ssh};
use duramen_hosts::{Found, Host, HostError};
use duramen_measure::evidence::Evidence;
use duramen_postgres::connection::Target;
use duramen_postgres::{quote_literal, quote_parameter, Secret};
use duramen_reports::suite::SuiteError;
use serde_json::json;
use tokio::sync::Mutex;

use super::super::options::Options;
use super::super::restore::Record;
use super::super::scenario::Node;
use super::own::{self, STANDBY_NAME};
use super::{answered, cannot_reach, connect, ours, Kind, Ledger, Pair, DATABASE, OLDEST, SYNCHRONOUS};

/// The superuser of both.
const ADMIN: &str = "duramen_admin";
/// The role by which the standby receives.
const SENDER: &str = "duramen_wal";
/// Rounds of its verifier: the secret has 130 bits.
const ROUNDS: NonZeroU32 = NonZeroU32::MIN.saturating_add(4095);
/// Ports are drawn from here; one that is taken is drawn anew, so often.
const PORTS: std::ops::Range<u16> = 20_000..30_000;
const TRIES: usize = 5;
/// A cluster has been made, a server has started, a copy has been made within this.
const MAKE: Duration = Duration::from_secs(120);
const START: Duration = Duration::from_secs(90);
const COPY: Duration = Duration::from_secs(300);
/// So many round trips are timed.
const TRIPS: usize = 21;

/// Two hosts that are to be used.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The primary's, and the standby's.
    pub addresses: [Address; 2],
    /// How they are reached.
    pub ssh: Ssh,
    /// Whether other machines make load: then the database of the run lets in roles with a password from anywhere.
    pub has_agent: bool,
}

/// One of the servers.
#[derive(Debug)]
struct Server {
    host: Host,
    found: Found,
    address: IpAddr,
    port: u16,
    /// A word there and back through ssh, and a question to the server.
    word: Duration,
    question: Duration,
}

/// Both.
#[derive(Debug)]
pub struct OnHosts {
    servers: [Server; 2],
    secret: Secret,
}

impl OnHosts {
    /// Makes and starts both.
    pub(super) async fn make(
        options: &Options,
        wanted: &Wanted,
        say: &(dyn Fn(&str) + Sync),
    ) -> Result<Self, SuiteError> {
        say("connecting to both hosts");
        let [first, second] = &wanted.addresses;
        let (first, second) = tokio::join!(Host::open(&wanted.ssh, first), Host::open(&wanted.ssh, second));
        let (mut primary, mut standby) = match (first, second) {
            (Ok(first), Ok(second)) => (first, second),
            (first, second) => {
                let mut lines = Vec::new();
                for host in [first, second] {
                    match host {
                        Ok(host) => lines.extend(host.close().await.err().map(|error| error.to_string())),
                        Err(error) => lines.push(error.to_string()),
                    }
                }
                return Err(SuiteError::Preconditions(lines));
            }
        };
        let made = Self::servers(options, wanted, &mut primary, &mut standby, say).await;
        match made {
            Ok((secret, [first, second])) => {
                let server = |host, (found, address, port, question): Made, word| Server {
                    host,
                    found,
                    address,
                    port,
                    word,
                    question,
                };
                let words = (primary.round_trip(TRIPS).await, standby.round_trip(TRIPS).await);
                let (Ok(one), Ok(two)) = words else {
                    return Err(give_up(
                        [primary, standby],
                        SuiteError::Failed("a host answers no more".to_owned()),
                    )
                    .await);
                };
                Ok(Self { servers: [server(primary, first, one), server(standby, second, two)], secret })
            }
            Err(error) => Err(give_up([primary, standby], error).await),
        }
    }

    async fn servers(
        options: &Options,
        wanted: &Wanted,
        primary: &mut Host,
        standby: &mut Host,
        say: &(dyn Fn(&str) + Sync),
    ) -> Result<(Secret, [Made; 2]), SuiteError> {
        say("looking for PostgreSQL on both hosts");
        let (there, here) = tokio::join!(primary.servers(), standby.servers());
        let [first, second] =
            choose(options, primary, &there.map_err(wrong)?, standby, &here.map_err(wrong)?)?;
        let short: Vec<String> =
            [&*primary, &*standby].into_iter().filter_map(|host| is_short(host, options)).collect();
        if !short.is_empty() {
            return Err(SuiteError::Preconditions(short));
        }
        let addresses = [reached_at(primary)?, reached_at(standby)?];
        let (secret, sender) = (Secret::random(), Secret::random());
        let mut rng = entropy::rng(entropy::seed());
        say(&format!("making a primary on {}", primary.address()));
        primary.put("admin", secret.expose());
        primary.put("conf", &conf(options, addresses[0]));
        primary.put("hba", &rules(primary, wanted, Some(addresses[1])));
        primary.step("make a cluster", &["init", &first.bin, ADMIN], MAKE).await.map_err(wrong)?;
        let port = start(primary, &first, &mut rng).await?;
        let target = target(addresses[0], port, &secret, first.major)?;
        let question = prepare(&target, &sender).await?;
        let at_primary = (first, addresses[0], port, question);
        say(&format!("copying it to {}", standby.address()));
        standby.put("pass", &format!("*:*:*:{SENDER}:{}", sender.expose()));
        standby.put("conf", &conf(options, addresses[1]));
        standby.put("hba", &rules(standby, wanted, None));
        let (from, port) = (addresses[0].to_string(), port.to_string());
        let words = ["copy", &second.bin, &from, &port, SENDER, STANDBY_NAME];
        standby.step("copy the primary", &words, COPY).await.map_err(wrong)?;
        let port = start(standby, &second, &mut rng).await?;
        let target = self::target(addresses[1], port, &secret, second.major)?;
        let question = trip(&connect(&target, Node::Standby).await?, Node::Standby).await?;
        Ok((secret, [at_primary, (second, addresses[1], port, question)]))
    }

    /// The major version.
    #[must_use]
    pub fn major(&self) -> u32 {
        self.servers[0].found.major
    }

    /// Where to connect, in the databases that are there from the beginning.
    pub(super) fn targets(&self) -> Result<[Target; 2], SuiteError> {
        let [primary, standby] = &self.servers;
        let target = |server: &Server| target(server.address, server.port, &self.secret, server.found.major);
        Ok([target(primary)?, target(standby)?])
    }

    /// Waits until one of the guardians is gone.
    pub(super) async fn lost(&self) -> SuiteError {
        let [primary, standby] = &self.servers;
        let lost = tokio::select! {
            lost = primary.host.lost() => lost,
            lost = standby.host.lost() => lost,
        };
        SuiteError::Failed(format!("the pair is gone in the midst of the run: {lost}"))
    }

    /// What the hosts are, for the evidence.
    pub(in super::super) fn describe(&self, evidence: &mut Evidence) {
        let one = |server: &Server| {
            json!({
                "host": server.host.address().to_string(),
                "kernel": server.host.kernel(),
                "server_version": server.found.version,
                "round_trip_ssh_ms": clock::ms(server.word),
                "round_trip_sql_ms": clock::ms(server.question),
            })
        };
        evidence.configure("hosts", json!(self.servers.iter().map(one).collect::<Vec<_>>()));
    }

    /// Removes both, the standby first.
    pub(super) async fn close(self) -> Result<(), SuiteError> {
        let [primary, standby] = self.servers;
        closed([primary.host, standby.host]).await
    }
}

impl Pair {
    /// Makes a pair on two hosts, and the database of the run in it.
    pub(super) async fn on_hosts(
        options: &Options,
        wanted: &Wanted,
        say: &(dyn Fn(&str) + Sync),
    ) -> Result<Self, SuiteError> {
        let begin = clock::now();
        let made = OnHosts::make(options, wanted, say).await?;
        let homes = made.targets()?;
        let mut pair = Self {
            primary: homes[0].clone().database(DATABASE),
            standby: homes[1].clone().database(DATABASE),
            homes,
            major: made.major(),
            logical: true,
            ready_after: None,
            standby_name: STANDBY_NAME.to_owned(),
            kind: Kind::Hosts(Box::new(made)),
            presence: None,
            ledger: Mutex::new(Ledger::Memory(Record::of_our_own())),
            guardian: None,
        };
        say("waiting for the standby");
        let ready = async {
            pair.synchronous(SYNCHRONOUS).await?;
            let ready = begin.elapsed();
            pair.make_database().await?;
            Ok(ready)
        };
        match ready.await {
            Ok(ready) => pair.ready_after = Some(ready),
            Err(error) => {
                let lost = pair.lost_lately().await;
                // What is left there is worse than what did not come about.
                pair.close().await?;
                return Err(lost.unwrap_or(error));
            }
        }
        Ok(pair)
    }
}

/// A server's programs, address and port, and how long a question takes.
type Made = (Found, IpAddr, u16, Duration);

/// Removes what was made before something failed. What is left is worse than what failed.
async fn give_up(hosts: [Host; 2], error: SuiteError) -> SuiteError {
    match closed(hosts).await {
        Ok(()) => error,
        Err(left) => SuiteError::Unrestored { detail: format!("{error}\n{left}"), file: None },
    }
}

async fn closed([primary, standby]: [Host; 2]) -> Result<(), SuiteError> {
    let left = [standby.close().await, primary.close().await];
    let left: Vec<String> = left.into_iter().filter_map(Result::err).map(|error| error.to_string()).collect();
    match left.is_empty() {
        true => Ok(()),
        false => Err(SuiteError::Unrestored { detail: left.join("\n"), file: None }),
    }
}

fn wrong(error: HostError) -> SuiteError {
    SuiteError::Failed(error.to_string())
}

/// The newest major version that both have, or the one that is asked for.
fn choose(
    options: &Options,
    primary: &Host,
    there: &[Found],
    standby: &Host,
    here: &[Found],
) -> Result<[Found; 2], SuiteError> {
    let majors = |found: &[Found]| {
        let mut majors: Vec<String> = found.iter().map(|found| found.version.clone()).collect();
        majors.dedup();
        if majors.is_empty() {
            "none".to_owned()
        } else {
            majors.join(", ")
        }
    };
    let is_wanted =
        |found: &&Found| found.major >= OLDEST && options.major.is_none_or(|major| major == found.major);
    let newest = there
        .iter()
        .filter(is_wanted)
        .filter_map(|first| Some((first, here.iter().find(|second| second.major == first.major)?)))
        // Of the same version the one that is found first: in the PATH.
        .min_by_key(|(first, _)| std::cmp::Reverse(first.major));
    newest.map(|(first, second)| [first.clone(), second.clone()]).ok_or_else(|| {
        let which = options.major.map_or_else(|| format!("{OLDEST} or newer"), |major| major.to_string());
        SuiteError::Preconditions(vec![format!(
            "both hosts need servers of the same major version ({which}): {} has {}, and {} has {}; install \
             PostgreSQL there, or put its programs (postgres, initdb, pg_ctl, pg_basebackup) into the PATH of its user",
            primary.address(),
            majors(there),
            standby.address(),
            majors(here),
        )])
    })
}

/// Says that a host has less space than a run may take.
fn is_short(host: &Host, options: &Options) -> Option<String> {
    let (wanted, free) = (own::space(options), host.free_bytes()?);
    (free < wanted).then(|| {
        format!(
            "{} has {} MiB of free space for temporary files, and a run may take {} MiB: free some, choose fewer scenarios \
             or --quick, or set TMPDIR there",
            host.address(),
            free >> 20,
            wanted >> 20
        )
    })
}

/// By which address a host is reached.
fn reached_at(host: &Host) -> Result<IpAddr, SuiteError> {
    host.reached_at().and_then(|address| address.parse().ok()).ok_or_else(|| {
        SuiteError::Preconditions(vec![format!(
            "{} does not say by which address it was reached: write it behind its name, as ssh://HOST?address=IP",
            host.address()
        )])
    })
}

fn conf(options: &Options, address: IpAddr) -> String {
    let mut settings = own::settings(options);
    settings.set("listen_addresses", &address.to_string());
    // Nobody of that machine is let in by a socket.
    settings.set("unix_socket_directories", "");
    settings.set("password_encryption", "scram-sha-256");
    settings.to_conf()
}

/// Who is let in: this machine as the superuser and in the database of the run, and the standby to receive.
fn rules(host: &Host, wanted: &Wanted, standby: Option<IpAddr>) -> String {
    let one = |address: IpAddr| format!("{address}/{}", if address.is_ipv4() { 32 } else { 128 });
    let us = host.sees_us_at().and_then(|us| us.parse().ok()).map(one);
    let mut rules = String::new();
    if let Some(us) = us {
        rules.push_str(&format!(
            "host all {ADMIN} {us} scram-sha-256\nhost {DATABASE} all {us} scram-sha-256\n"
        ));
    }
    if wanted.has_agent {
        rules.push_str(&format!("host {DATABASE} all all scram-sha-256\n"));
    }
    if let Some(standby) = standby.map(one) {
        rules.push_str(&format!("host replication {SENDER} {standby} scram-sha-256\n"));
    }
    rules
}

/// Starts a server on a port that is free.
async fn start(host: &mut Host, found: &Found, rng: &mut fastrand::Rng) -> Result<u16, SuiteError> {
    let mut tries = 0;
    loop {
        let port = rng.u16(PORTS);
        match host.step("start the server", &["start", &found.bin, &port.to_string()], START).await {
            Ok(_) => return Ok(port),
            Err(HostError::Failed { said, .. })
                if said.contains("Address already in use") && tries < TRIES =>
            {
                tries += 1;
            }
            Err(error) => return Err(wrong(error)),
        }
    }
}

fn target(address: IpAddr, port: u16, secret: &Secret, major: u32) -> Result<Target, SuiteError> {
    let text = format!(
        "host={} port={port} user={ADMIN} password={} dbname=postgres sslmode=disable",
        quote_parameter(&address.to_string()),
        quote_parameter(secret.expose())
    );
    Ok(ours(Target::parse(&text).map_err(cannot_reach(Node::Primary))?, major))
}

/// Makes the role by which the standby receives.
async fn prepare(target: &Target, sender: &Secret) -> Result<Duration, SuiteError> {
    let client = connect(target, Node::Primary).await?;
    let sql = format!(
        "SET synchronous_commit TO local; CREATE ROLE {SENDER} LOGIN REPLICATION PASSWORD {}",
        quote_literal(&sender.verifier(ROUNDS))
    );
    answered("make the role of the standby", Node::Primary, client.batch_execute(&sql)).await?;
    trip(&client, Node::Primary).await
}

/// How long a question takes: the median of some.
async fn trip(client: &tokio_postgres::Client, node: Node) -> Result<Duration, SuiteError> {
    let mut took = Vec::new();
    for _ in 0..TRIPS {
        let begin = clock::now();
        answered("ask nothing", node, client.batch_execute("")).await?;
        took.push(begin.elapsed());
    }
    took.sort_unstable();
    Ok(took[TRIPS / 2])
}
