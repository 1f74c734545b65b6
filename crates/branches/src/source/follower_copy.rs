//! How a follower comes about, and a generation of it. F15 to F21 are in `docs/design/following.md`.

use super::{
    address::Address,
    at_origin::{self, AtOrigin},
    connection,
    draft::Draft,
    follow::{end, POLL},
    follower::{self, Follower, FollowerRecord, FOLLOWERS_SINCE},
    import::{import_settings, invalid, Importer, START_LIMIT, STOP_LIMIT},
    inventory,
    logical::{enter, look_at, Wanted},
    manifest::SourceRecord,
    origin_server::{import_failed, local, start_failed},
    publisher::{within, Nature, Publisher, Table},
    sanitise::{self, ADMIN},
    standby::{self, standby_path, Place},
};
use crate::{
    error::{EngineError, Kind},
    files::{self, io_error, Passage},
    following::Followers,
    home::Home,
    model::Sanitised,
};
use duramen_base::clock;
use duramen_postgres::{quote_identifier, Cluster, Installation, StopMode};
use std::{collections::BTreeSet, fs, time::Duration};
use tokio_postgres::Client;

/// The code of what makes another copy of the origin necessary.
const LOST: &str = "follower_lost";
/// How long a follower may be without a connection to its origin while it is waited for.
const CONNECT_LIMIT: Duration = Duration::from_secs(40);
/// How often an origin is asked meanwhile.
const ASK_EVERY: Duration = Duration::from_millis(200);
/// Of how many sequences an origin is asked at once.
const SEQUENCES_AT_ONCE: usize = 200;

/// What a look at a follower found.
pub(crate) struct Looked {
    /// Bytes that the origin has written and the follower has not applied, and those that the origin keeps for it.
    pub(crate) lag: u64,
    pub(crate) kept: u64,
    pub(crate) seen: super::origin_wal::Seen,
    pub(crate) problem: Option<String>,
    /// Whether the slot is gone, and so only a refresh helps.
    pub(crate) is_lost: bool,
}

/// What an origin is followed by, and what was found there.
struct Following<'a> {
    source: &'a SourceRecord,
    url: &'a str,
    origin: Address,
    database: String,
    wanted: Wanted<'a>,
    publisher: Publisher,
    nature: Nature,
}

impl Following<'_> {
    /// The publication that the user named.
    fn named(&self) -> Option<&str> {
        self.source.settings.follow.publication.as_deref()
    }
}

impl Importer<'_> {
    /// The data of a source that follows its origin by logical replication, as they were there when this was called, or later (F18).
    pub(super) async fn followed_logically(
        &self,
        record: &SourceRecord,
        (url, wanted): (&str, Wanted<'_>),
        database: Option<&str>,
        draft: &Draft<'_>,
    ) -> Result<((Installation, String), Vec<Sanitised>), EngineError> {
        let origin = Address::parse(url)?;
        let database = database.unwrap_or_else(|| connection::database(&origin.config)).to_owned();
        let origin = origin.database(&database);
        let publisher = Publisher::open(&origin).await?;
        let nature = publisher.nature().await?;
        nature.check(record.settings.follow.publication.is_some(), false)?;
        let following = Following { source: record, url, origin, database, wanted, publisher, nature };
        let mut lost = self.unusable(&following).await?;
        let mut is_fresh = false;
        loop {
            if let Some(why) = lost.take() {
                tracing::info!(source = record.name, "the origin is copied: {why}");
                self.say(&format!("copying the origin for its follower: {why}"));
                self.copy_follower(&following).await?;
                is_fresh = true;
            }
            match self.cut_follower(&following, draft).await {
                Err(error) if error.code == LOST && !is_fresh => lost = Some(error.message),
                Err(error) => return Err(error),
                Ok((installation, report)) => return Ok(((installation, following.database), report)),
            }
        }
    }

    /// Why the follower that is there cannot be gone on with, if that is so (F19, F21).
    async fn unusable(&self, of: &Following<'_>) -> Result<Option<String>, EngineError> {
        let source = of.source.name.as_str();
        let there = FollowerRecord::load(self.home, source).filter(|it| it.is_there(&self.place(), source));
        let Some(record) = there else { return Ok(Some("it has not been copied yet".to_owned())) };
        if record.database != of.database || record.system != of.nature.system {
            return Ok(Some("it is another server, or database, than the one that was followed".to_owned()));
        }
        if of.named().is_some_and(|named| named != record.publication)
            || of.named().is_none() && record.publication != record.slot
        {
            return Ok(Some("another publication is to be followed".to_owned()));
        }
        if of.publisher.slot(&record.slot).await?.is_gone() {
            return Ok(Some(format!("its slot {} is gone, or its log was removed", record.slot)));
        }
        self.changed(of, &record).await
    }

    /// What of the origin is not as it was when it was copied (F19).
    async fn changed(
        &self,
        of: &Following<'_>,
        record: &FollowerRecord,
    ) -> Result<Option<String>, EngineError> {
        match of.publisher.published(&record.publication, &of.nature).await {
            Ok(published) if published.state == record.published => {}
            Ok(_) => return Ok(Some(format!("its publication {} was changed", record.publication))),
            Err(error) if error.code == "publication_gone" && of.named().is_none() => {
                return Ok(Some(format!("its publication {} is gone", record.publication)))
            }
            // Of the user's own, that has to be put right by the user.
            Err(error) if of.named().is_some() => return Err(error),
            Err(error) if error.code == "cannot_follow" => return Ok(Some(error.message)),
            Err(error) => return Err(error),
        }
        let definitions = of.publisher.definitions(&of.database, self.stall).await?;
        Ok((definitions != record.definitions).then(|| "its definitions have changed".to_owned()))
    }

    /// Copies the origin for a follower. The one that is there is of no use any more, and goes first, with its slot.
    async fn copy_follower(&self, of: &Following<'_>) -> Result<(), EngineError> {
        let source = of.source.name.as_str();
        tokio::task::block_in_place(|| end(&self.place(), self.followers, source))?;
        self.followers.forget_marks(source);
        FollowerRecord::remove(self.home, source)?;
        for made in at_origin::all(self.home).into_iter().filter(|made| made.source == source) {
            made.drop_it(self.home).await?;
        }
        of.publisher.nature().await?.check(of.named().is_some(), true)?;
        // F16: before it is made.
        let made = AtOrigin::begin(self.home, source, (of.url, &of.database), of.named().is_none())?;
        let copied = self.copy_by(of, &made).await;
        if copied.is_err() {
            let dropped = made.drop_it(self.home).await;
            if let Err(error) = dropped {
                tracing::warn!(source, slot = made.name, %error, "what was made at the origin is dropped by a later look");
            }
        }
        copied
    }

    async fn copy_by(&self, of: &Following<'_>, made: &AtOrigin) -> Result<(), EngineError> {
        let (source, slot) = (of.source.name.as_str(), made.name.as_str());
        let mut draft = Draft::begin(self.home, self.store, self.user, of.source)?;
        let (client, quiet) = enter(&of.origin).await?;
        let seen = within(self.stall, async { Ok(look_at(&client).await) }).await??;
        drop(client);
        let installation = self.installation_for(seen.major, of.wanted.major)?;
        check_major(&installation)?;
        standby::check_tls(&installation, &of.origin)?;
        let dumper = self.dumper(seen.major, &installation, &of.origin)?;

        let publisher = &of.publisher;
        let definitions = publisher.definitions(&of.database, self.stall).await?;
        let publication = match of.named() {
            Some(named) => named.to_owned(),
            None => {
                self.say(&format!("making the publication {slot} at the origin"));
                publisher.publish(slot, &of.nature.tables).await?;
                slot.to_owned()
            }
        };
        let published = publisher.published(&publication, &of.nature).await?;
        let keep_wal = of.source.settings.follow.keep_wal();
        let dumping = async {
            let exported = self.make_slot(&dumper, (&of.origin, quiet), slot, &draft).await?;
            let more = [
                format!("--snapshot={}", exported.snapshot),
                // They are not published.
                "--no-unlogged-table-data".to_owned(),
                "--no-publications".to_owned(),
            ];
            let programs = (&installation, &dumper);
            self.dump_with(programs, (&of.origin, quiet), &seen, of.wanted, &more, &draft).await
        };
        let mut report = tokio::select! {
            copied = dumping => copied?,
            error = publisher.outgrown(slot, keep_wal) => return Err(error),
        };
        if publisher.definitions(&of.database, self.stall).await? != definitions {
            return Err(EngineError::new(
                Kind::Failed,
                "definitions_changed",
                "the origin's definitions were changed while it was copied: try again",
            ));
        }

        self.say("making the follower harmless");
        let extensions: BTreeSet<Table> =
            of.nature.of_extensions.intersection(&published.tables).cloned().collect();
        let not_followed = of.nature.of_extensions.difference(&published.tables);
        report.extend(not_followed.map(|(schema, table)| Sanitised {
            kind: "table of an extension".to_owned(),
            object: format!("{}.{}", quote_identifier(schema), quote_identifier(table)),
            action:
                "as the extension makes it, or as it was dumped: its changes are not published".to_owned(),
        }));
        let (disable, enable, found) =
            self.tame(source, &of.database, &draft, &installation, &extensions).await?;
        report.extend(found);
        report.push(Sanitised {
            kind: "evidence".to_owned(),
            object: "live source".to_owned(),
            action: "not compared: what follows it was dumped once, and is sent changes".to_owned(),
        });
        let record = FollowerRecord {
            slot: slot.to_owned(),
            publication,
            database: of.database.clone(),
            system: of.nature.system,
            origin_major: seen.major,
            definitions,
            published: published.state,
            disable,
            enable,
            report,
            advice: of.nature.advice(),
        };
        record.mark(&self.open_cluster(&draft, &installation))?;
        files::make_dir(&standby::standbys(self.store), Passage::Servers, self.user)?;
        // F5.
        self.store.flush().map_err(|error| io_error("flush", &self.store.root, &error))?;
        let path = standby_path(self.store, source);
        fs::rename(&draft.path, &path).map_err(|error| io_error("move", &draft.path, &error))?;
        draft.kept = true;
        record.save(self.home, source)
    }

    /// F17: makes what was restored harmless, while there is no network, and disables what would run when changes are applied.
    async fn tame(
        &self,
        source: &str,
        database: &str,
        draft: &Draft<'_>,
        installation: &Installation,
        extensions: &BTreeSet<Table>,
    ) -> Result<(Vec<String>, Vec<String>, Vec<Sanitised>), EngineError> {
        files::close_tree(&draft.path)?;
        let cluster = self.cluster(draft, installation);
        self.disarm_files(&cluster, &mut Vec::new())?;
        write_rules(&cluster)?;
        let major = installation.version.major;
        let settings = import_settings(major);
        let secret = self.home.admin_secret(source);
        cluster
            .single_user("template1", &sanitise::make_admin(&secret), &settings)
            .map_err(|error| import_failed(&error))?;
        let mut server =
            cluster.start(&draft.socket_dir, &settings, START_LIMIT).map_err(|error| start_failed(&error))?;
        let admin = local(&draft.socket_dir, ADMIN, &secret, "template1");
        inventory::check(&admin, major, installation).await?;
        let found = sanitise::run(&admin, major, None).await?;
        let client = connection::own(&local(&draft.socket_dir, ADMIN, &secret, database), major).await?;
        let (disable, enable) = follower::disabled(&client).await?;
        follower::let_write(&client, extensions).await?;
        drop(client);
        server.stop(StopMode::Fast, STOP_LIMIT).map_err(|error| import_failed(&error))?;
        Ok((disable, enable, found.report))
    }

    /// A generation of the follower: a clone of it, once it has what the origin had written (F18).
    async fn cut_follower(
        &self,
        of: &Following<'_>,
        draft: &Draft<'_>,
    ) -> Result<(Installation, Vec<Sanitised>), EngineError> {
        let (source, place) = (of.source.name.as_str(), self.place());
        let record =
            FollowerRecord::load(self.home, source).ok_or_else(|| lost("its record is gone".to_owned()))?;
        let installation = place.installation(source)?;
        let follower = follower::running(&place, self.followers, source, (&record, &of.origin)).await?;
        self.applied(of, &record, &follower).await?;
        self.say("laying the follower down, to clone it");
        // F17: from here on it is nobody else's, and ends with this.
        let standby = self.followers.take(source);
        let cut = async {
            follower.pause().await?;
            // F19: of what is sent no change of a definition is told.
            let nature = of.publisher.nature().await?;
            nature.check(of.named().is_some(), false)?;
            if let Some(why) = self.changed(of, &record).await? {
                return Err(lost(why));
            }
            let sequences = sequences(&of.publisher.client, self.stall).await?;
            follower.set_sequences(&sequences).await?;
            let mut report = record.report.clone();
            report.extend(follower.refresh_views(self.stall).await?);
            follower.lay_down(&record).await?;
            tokio::task::block_in_place(|| {
                if let Some(standby) = standby {
                    standby.stop()?;
                }
                draft.clone_from(&standby_path(self.store, source))
            })?;
            follower::unmark(&draft.path);
            Ok(report)
        };
        let cut = cut.await;
        drop(follower);
        // Whether there is a generation or not, it goes on; if it does not, it is tried again later.
        let going_on = follower::running(&place, self.followers, source, (&record, &of.origin)).await;
        if let Err(error) = going_on {
            tracing::warn!(source, %error, "the follower does not go on yet");
        }
        Ok((installation, cut?))
    }

    /// Waits until the follower has applied what the origin has written by now.
    async fn applied(
        &self,
        of: &Following<'_>,
        record: &FollowerRecord,
        follower: &Follower,
    ) -> Result<(), EngineError> {
        self.say("waiting for what the origin has written");
        let begun = of.publisher.slot(&record.slot).await?;
        let (wanted, from) = (begun.written, begun.confirmed.unwrap_or_default());
        let (mut last, mut moved, mut met) = (None, clock::now(), clock::now());
        loop {
            self.interrupt.check()?;
            let slot = of.publisher.slot(&record.slot).await?;
            if slot.is_gone() {
                return Err(lost(format!("its slot {} is gone, or its log was removed", record.slot)));
            }
            let confirmed = slot.confirmed.unwrap_or_default();
            if confirmed >= wanted {
                return Ok(());
            }
            if slot.kept() > of.source.settings.follow.keep_wal() {
                tracing::warn!(source = record.slot, "more is kept than allowed while a refresh waits");
            }
            if slot.is_active {
                met = clock::now();
            }
            if last != Some(confirmed) {
                (last, moved) = (Some(confirmed), clock::now());
            }
            if !follower.is_subscribed().await? && !self.followers.is_tried_again(&of.source.name, confirmed)
            {
                return Err(lost(conflict(self.home, &of.source.name, &of.origin)));
            }
            follower.resume().await?;
            if moved.elapsed() > self.stall || met.elapsed() > CONNECT_LIMIT.min(self.stall) {
                let said = follower::complaint(self.home, &of.source.name, &of.origin);
                return Err(EngineError::new(
                    Kind::Failed,
                    "follower_behind",
                    format!(
                        "the follower gets nothing from the origin, and lacks {} bytes of what it has written: no generation is \
                         made of it{}",
                        wanted.saturating_sub(confirmed),
                        said.map(|said| format!("; it says: {said}")).unwrap_or_default()
                    ),
                ));
            }
            let (done, all) = (confirmed.saturating_sub(from), wanted.saturating_sub(from).max(1));
            (self.progress)(
                "waiting for what the origin has written",
                Some((done as f64 / all as f64).min(1.0)),
            );
            tokio::time::sleep(ASK_EVERY.max(POLL)).await;
        }
    }
}

/// Looks at an origin that is to be followed, before anything is made there (F15). What it should be set to otherwise.
pub(crate) async fn check_origin(
    url: &str,
    database: Option<&str>,
    named: Option<&str>,
) -> Result<Option<String>, EngineError> {
    let origin = Address::parse(url)?;
    let database = database.unwrap_or_else(|| connection::database(&origin.config)).to_owned();
    let publisher = Publisher::open(&origin.database(&database)).await?;
    let nature = publisher.nature().await?;
    // One that follows already has its slot.
    nature.check(named.is_some(), false)?;
    if let Some(named) = named {
        publisher.published(named, &nature).await?;
    }
    Ok(nature.advice())
}

/// Has the follower of a source run, unless `is_short` of room, and asks its origin how far it is. Nothing if the source has none yet.
pub(crate) async fn look(
    place: &Place<'_>,
    followers: &Followers,
    source: &str,
    url: &str,
    (is_short, keep_wal): (bool, u64),
) -> Result<Option<Looked>, EngineError> {
    let Some(record) = FollowerRecord::load(place.home, source).filter(|it| it.is_there(place, source))
    else {
        return Ok(None);
    };
    let origin = Address::parse(url)?.database(&record.database);
    let publisher = Publisher::open(&origin).await?;
    let slot = publisher.slot(&record.slot).await?;
    let confirmed = slot.confirmed.unwrap_or_default();
    let looked = |problem: Option<String>, is_lost: bool| Looked {
        lag: slot.written.saturating_sub(confirmed),
        kept: slot.kept(),
        seen: super::origin_wal::Seen {
            written: slot.written,
            flushed: slot.confirmed,
            mark: slot.mark,
            timeline: 1,
        },
        problem,
        is_lost,
    };
    if slot.is_gone() {
        let why = format!(
            "the slot {} of the origin is gone, or what it kept was removed: the next refresh copies the origin anew",
            record.slot
        );
        return Ok(Some(looked(Some(why), true)));
    }
    if slot.kept() > keep_wal {
        // It is given up; the follower, which may stand still, is not asked.
        return Ok(Some(looked(None, false)));
    }
    if is_short {
        let why = "the volume store is short of room: the follower is stopped until there is more";
        return Ok(Some(looked(Some(why.to_owned()), false)));
    }
    let follower = follower::running(place, followers, source, (&record, &origin)).await?;
    let is_subscribed = follower.is_subscribed().await?;
    if !is_subscribed && followers.is_tried_again(source, confirmed) {
        follower.resume().await?;
    }
    let problem = if !follower.is_subscribed().await? {
        Some(format!("{}; the next refresh copies the origin anew", conflict(place.home, source, &origin)))
    } else if slot.is_active {
        None
    } else {
        let said = follower::complaint(place.home, source, &origin);
        Some(format!(
            "the follower is not connected to the origin{}",
            said.map(|said| format!("; it says: {said}")).unwrap_or_default()
        ))
    };
    Ok(Some(looked(problem, false)))
}

/// Where the sequences of an origin stand.
async fn sequences(client: &Client, limit: Duration) -> Result<Vec<(Table, i64, bool)>, EngineError> {
    let names = "select n.nspname::text, c.relname::text from pg_class c join pg_namespace n on n.oid = c.relnamespace \
                 where c.relkind = 'S' and c.relpersistence <> 't' and n.nspname !~ '^pg_' and n.nspname <> 'information_schema' \
                 order by 1, 2";
    let names: Vec<Table> =
        within(limit, client.query(names, &[])).await?.iter().map(|row| (row.get(0), row.get(1))).collect();
    let mut found = Vec::with_capacity(names.len());
    for some in names.chunks(SEQUENCES_AT_ONCE) {
        let each: Vec<String> = some
            .iter()
            .enumerate()
            .map(|(at, (schema, name))| {
                let name = format!("{}.{}", quote_identifier(schema), quote_identifier(name));
                format!("select {at}::int4, last_value, is_called from {name}")
            })
            .collect();
        for row in within(limit, client.query(&each.join(" union all "), &[])).await? {
            let at = usize::try_from(row.get::<_, i32>(0)).unwrap_or_default();
            found.extend(some.get(at).map(|table| (table.clone(), row.get(1), row.get(2))));
        }
    }
    Ok(found)
}

/// Nobody enters a follower but the daemon.
fn write_rules(cluster: &Cluster) -> Result<(), EngineError> {
    let rules = format!("local all {ADMIN} scram-sha-256\n");
    cluster.write_file("pg_hba.conf", &rules).map_err(|error| import_failed(&error))
}

fn check_major(installation: &Installation) -> Result<(), EngineError> {
    if installation.version.major >= FOLLOWERS_SINCE {
        return Ok(());
    }
    Err(invalid(
        "wrong_major",
        format!(
            "a follower is PostgreSQL {FOLLOWERS_SINCE} or later, and {} was chosen here: add the source with --pg \
             {FOLLOWERS_SINCE} or a later version",
            installation.version
        ),
    ))
}

fn conflict(home: &Home, source: &str, origin: &Address) -> String {
    let said = follower::complaint(home, source, origin).unwrap_or_else(|| "its log says why".to_owned());
    format!("the follower could not apply what the origin wrote, and has stopped: {said}")
}

fn lost(why: String) -> EngineError {
    EngineError::new(Kind::Failed, LOST, why)
}
