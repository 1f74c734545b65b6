//! A workload of the user's, beside the scenarios or alone: what each of its transactions costs at each level, and whether
//! the standby shows what was committed.

pub(super) mod figures;
pub(super) mod tables;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use duramen_base::entropy;
use duramen_hosts::{Address, Ssh};
use duramen_reports::suite::{Say, SuiteError};
use duramen_workload::agent::{Agent, Clocks};
use duramen_workload::{Block, Crew, Following, Freshness, Place, Sources, Tally, Workload, WorkloadError};
use tokio::time::sleep;

use super::level::Level;
use super::options::Options;
use super::pair::{Pair, DATABASE};
use super::scenario::Node;

/// Serves the run of a lab on another machine, over the standard input and output, until it is over.
///
/// # Errors
/// [`SuiteError::Failed`] when the lab was not heard of for too long, or says what is not understood.
pub async fn serve() -> Result<(), SuiteError> {
    duramen_workload::agent::serve().await.map_err(|error| SuiteError::Failed(error.to_string()))
}

/// Sessions, unless the workload or the command line says how many.
const CLIENTS: u32 = 8;
/// Of what the slowest level can do at most, the open loop asks for this share of all levels.
const SHARE: f64 = 0.6;
/// What a workload may write to the database, data and indexes: a script that never stops filling it does not fill the
/// disk of a server that others use.
const MOST_BYTES: i64 = 3 << 30;
/// The same in a quick run.
const MOST_BYTES_QUICK: i64 = 1 << 30;
/// How often that is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// The standby has replayed what is there within this.
const REPLAY: Duration = Duration::from_secs(600);
/// So many commits a level are followed to the standby, for so long at most.
const COMMITS: u64 = 500;
const COMMITS_QUICK: u64 = 100;
const LONGEST_FOLLOW: Duration = Duration::from_secs(20);
const LONGEST_FOLLOW_QUICK: Duration = Duration::from_secs(3);

/// A workload that is to be run.
#[derive(Debug, Clone)]
pub struct Order {
    sources: Sources,
    workload: Arc<Workload>,
    clients: u32,
    agent: Option<From>,
}

/// The host that the load comes from.
#[derive(Debug, Clone)]
pub struct From {
    /// Where it is.
    pub address: Address,
    /// How it is reached.
    pub ssh: Ssh,
    /// The name of this program there.
    pub program: String,
}

/// Who makes the load.
enum Maker {
    Here(Arc<Crew>),
    There(Box<Agent>),
}

impl Maker {
    async fn run(&mut self, block: &Block) -> Result<Tally, WorkloadError> {
        match self {
            Self::Here(crew) => crew.run(block).await,
            Self::There(agent) => agent.run(block).await,
        }
    }

    async fn follow(&mut self, following: &Following) -> Result<Vec<Freshness>, WorkloadError> {
        match self {
            Self::Here(crew) => crew.follow(following).await,
            Self::There(agent) => agent.follow(following).await,
        }
    }

    /// The clocks of both machines, if there are two.
    async fn compare(&mut self, brought: &mut Brought) -> Result<(), SuiteError> {
        let Self::There(agent) = self else { return Ok(()) };
        let clocks = agent.clocks().await.map_err(SuiteError::other)?;
        let there = (agent.name().to_owned(), agent.version().to_owned());
        brought.agent.get_or_insert((there.0, there.1, Vec::new())).2.push(clocks);
        Ok(())
    }
}

impl Order {
    /// Reads the files of a workload, and everything in them that is not supported is refused. Nothing has been touched then.
    ///
    /// # Errors
    /// [`SuiteError::Options`], with file, line and word.
    pub fn read(
        files: &[String],
        schema: Option<&Path>,
        scale: Option<u32>,
        clients: Option<u32>,
    ) -> Result<Self, SuiteError> {
        let wrong = |error: duramen_workload::WorkloadError| SuiteError::Options(error.to_string());
        let sources = Sources::read(files, schema, scale).map_err(wrong)?;
        let workload = Workload::parse(&sources).map_err(wrong)?;
        let clients = clients.or(workload.clients()).unwrap_or(CLIENTS);
        Ok(Self { sources, workload: Arc::new(workload), clients, agent: None })
    }

    /// The same, with the load from another machine.
    #[must_use]
    pub fn from_agent(self, agent: Option<From>) -> Self {
        Self { agent, ..self }
    }

    /// The workload.
    #[must_use]
    pub fn workload(&self) -> &Workload {
        &self.workload
    }

    /// The texts that it was made of.
    #[must_use]
    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    /// How many sessions make the load.
    #[must_use]
    pub fn clients(&self) -> u32 {
        self.clients
    }
}

/// What a workload brought back.
#[derive(Debug, Default)]
pub struct Brought {
    /// The load, block by block, in the order in which they ran.
    pub blocks: Vec<Loaded>,
    /// What the standby showed after commits, by level.
    pub fresh: Vec<(Level, Vec<Freshness>)>,
    /// The host of the agent that made the load, its version, and how the clocks were apart before and after.
    pub agent: Option<(String, String, Vec<Clocks>)>,
    /// Why it came to no end.
    pub failed: Option<String>,
}

/// A block of load.
#[derive(Debug)]
pub struct Loaded {
    /// At which level.
    pub level: Level,
    /// From 0: levels of one round ran next to each other.
    pub round: u32,
    /// Whether transactions were due at fixed times.
    pub is_open: bool,
    /// What came of it.
    pub tally: Tally,
}

/// The levels that are measured: those of the run, and `local`, which waits for no standby. What a commit takes longer
/// than there, it waits.
#[must_use]
pub fn levels(options: &Options) -> Vec<Level> {
    let mut levels = options.levels();
    if !levels.contains(&Level::Local) {
        levels.push(Level::Local);
    }
    levels.sort_unstable();
    levels
}

/// A workload with its place on a pair.
pub(super) struct Ready<'a> {
    pair: &'a Pair,
    admin: tokio_postgres::Client,
    place: Place,
    maker: Option<Maker>,
}

impl<'a> Ready<'a> {
    /// Makes the place.
    pub(super) async fn make(pair: &'a Pair, order: &Order) -> Result<Self, SuiteError> {
        let place = Place::new(pair.note_load().await?);
        let admin = pair.connect(Node::Primary).await?;
        place.make(&admin, DATABASE, order.clients).await.map_err(SuiteError::other)?;
        Ok(Self { pair, admin, place, maker: None })
    }

    /// Sets up the workload and runs it.
    pub(super) async fn measure(
        &mut self,
        options: &Options,
        order: &Order,
        seed: u64,
        say: Say<'_>,
    ) -> Brought {
        let mut brought = Brought::default();
        let pair = self.pair;
        let ran = tokio::select! {
            ran = self.run(options, order, seed, say, &mut brought) => ran,
            full = filled(pair, options) => Err(full),
        };
        brought.failed = ran.err().map(|error| error.to_string());
        brought
    }

    /// The sessions, for scenarios that take any load; those of an agent are not to be had here.
    pub(super) fn crew(&self) -> Option<Arc<Crew>> {
        match &self.maker {
            Some(Maker::Here(crew)) => Some(Arc::clone(crew)),
            _ => None,
        }
    }

    /// Ends the sessions and removes the place.
    pub(super) async fn remove(self, brought: &mut Brought) -> Result<(), SuiteError> {
        if let Some(Maker::There(agent)) = self.maker {
            agent.close().await;
        }
        match self.place.remove(&self.admin).await {
            // What is removed here is not to be removed by whoever puts the pair back.
            Ok(()) => self.pair.forget_load().await?,
            Err(error) => drop(brought.failed.get_or_insert_with(|| error.to_string())),
        }
        Ok(())
    }

    async fn run(
        &mut self,
        options: &Options,
        order: &Order,
        seed: u64,
        say: Say<'_>,
        brought: &mut Brought,
    ) -> Result<(), SuiteError> {
        say("setting up the workload");
        let (pair, place) = (self.pair, &self.place);
        let primary = pair.target(Node::Primary);
        place.set_up(primary, &order.workload).await.map_err(SuiteError::other)?;
        pair.caught_up(REPLAY).await?;
        let (primary, standby) = (place.target(primary), place.target(pair.target(Node::Standby)));
        let maker = match &order.agent {
            None => {
                let workload = Arc::clone(&order.workload);
                let crew = Crew::open(workload, &primary, &standby, order.clients, seed).await;
                crew.map(|crew| Maker::Here(Arc::new(crew)))
            }
            Some(From { address, ssh, program }) => {
                say(&format!("starting the agent on {address}"));
                let (sources, clients) = (&order.sources, order.clients);
                let agent =
                    Agent::open(ssh, address, program, sources, &primary, &standby, clients, seed).await;
                agent.map(|agent| Maker::There(Box::new(agent)))
            }
        };
        let maker = self.maker.insert(maker.map_err(SuiteError::other)?);
        maker.compare(brought).await?;
        blocks(pair, options, order, maker, seed, say, brought).await?;
        maker.compare(brought).await
    }
}

/// Ends when the database holds more than a workload may write.
async fn filled(pair: &Pair, options: &Options) -> SuiteError {
    let most = if options.quick { MOST_BYTES_QUICK } else { MOST_BYTES };
    loop {
        sleep(LOOK).await;
        let size = async {
            let client = pair.connect(Node::Primary).await?;
            loop {
                let sql = "SELECT pg_database_size(current_database())";
                let row = super::pair::answered(
                    "ask for the size of the database",
                    Node::Primary,
                    client.query_one(sql, &[]),
                );
                let size: i64 = row.await?.get(0);
                if size > most {
                    return Ok::<i64, SuiteError>(size);
                }
                sleep(LOOK).await;
            }
        };
        // A server that does not answer now answers later, or the load says what is wrong.
        if let Ok(size) = size.await {
            return SuiteError::Failed(format!(
                "the workload has filled its database to {} MiB, and may take {} MiB: it was ended",
                size >> 20,
                most >> 20
            ));
        }
    }
}

/// The load, block by block, and the commits that are followed.
async fn blocks(
    pair: &Pair,
    options: &Options,
    order: &Order,
    crew: &mut Maker,
    seed: u64,
    say: Say<'_>,
    brought: &mut Brought,
) -> Result<(), SuiteError> {
    let levels = levels(options);
    let mut rng = entropy::rng(seed);
    let shuffled = |rng: &mut fastrand::Rng| {
        let mut levels = levels.clone();
        rng.shuffle(&mut levels);
        levels
    };
    let block = u64::try_from(options.block().as_millis()).unwrap_or(u64::MAX);
    for level in shuffled(&mut rng) {
        say(&format!("the workload at {level}, to warm up"));
        load(pair, crew, level, block / 2, None).await?;
    }
    let rounds = if options.quick { 2 } else { 4 };
    for repeat in 0..options.repeats() {
        let mut ceiling = f64::INFINITY;
        for round in 0..rounds / 2 {
            for level in shuffled(&mut rng) {
                say(&format!("the workload at {level}, as fast as it goes"));
                let tally = load(pair, crew, level, block, None).await?;
                if tally.committed() == 0 {
                    let said = tally.kinds.iter().flat_map(|kind| kind.errors.values()).next();
                    let said = said.map_or("and nothing failed", |failures| failures.first.as_str());
                    return Err(SuiteError::Failed(format!("nothing was committed at {level}: {said}")));
                }
                ceiling = ceiling.min(tally.per_second());
                let round = repeat * rounds + round;
                brought.blocks.push(Loaded { level, round, is_open: false, tally });
            }
        }
        for round in 0..rounds {
            for level in shuffled(&mut rng) {
                say(&format!("the workload at {level}, {:.0} a second", SHARE * ceiling));
                let tally = load(pair, crew, level, block, Some(SHARE * ceiling)).await?;
                let round = repeat * rounds + round;
                brought.blocks.push(Loaded { level, round, is_open: true, tally });
            }
        }
    }
    if order.workload.has_checks() {
        let (commits, longest) = match options.quick {
            true => (COMMITS_QUICK, LONGEST_FOLLOW_QUICK),
            false => (COMMITS, LONGEST_FOLLOW),
        };
        for level in shuffled(&mut rng) {
            say(&format!("asking the standby right after commits at {level}"));
            pair.caught_up(REPLAY).await?;
            let following = Following {
                level: level.name().to_owned(),
                commits,
                lasts_ms: u64::try_from(longest.as_millis()).unwrap_or(u64::MAX),
            };
            let fresh = crew.follow(&following).await.map_err(SuiteError::other)?;
            brought.fresh.push((level, fresh));
        }
    }
    Ok(())
}

/// A block of load; it begins when the standby has replayed everything, so that no level pays for what the last one left.
async fn load(
    pair: &Pair,
    crew: &mut Maker,
    level: Level,
    lasts_ms: u64,
    rate_per_s: Option<f64>,
) -> Result<Tally, SuiteError> {
    pair.caught_up(REPLAY).await?;
    let block = Block { level: level.name().to_owned(), lasts_ms, rate_per_s };
    crew.run(&block).await.map_err(SuiteError::other)
}
