//! One generation of a source, ready to be branched.

use crate::{
    error::{EngineError, Kind, LeaseError, SourceError},
    home::Home,
    limits::Applied,
    model::{Audited, Limits, Masking, Policy, PoolSize, SourceSettings},
    source::{
        manifest::Manifest,
        own_role::Standing,
        snapshot::{hba_file, snapshot_path, Admitted},
    },
    statements, users,
};
use duramen_base::suggest;
use duramen_postgres::{volume, Installation, ServerUser, Settings, Version};
use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

/// A snapshot with everything that is needed to make branches of it. Changed settings make a new value of it.
#[derive(Debug)]
pub(crate) struct Generation {
    pub(crate) source: String,
    pub(crate) manifest: Manifest,
    /// Server settings of its branches, on top of those of the snapshot.
    pub(crate) server: Settings,
    pub(crate) durable: bool,
    /// Whether its branches admit their holders to every database of the cluster.
    pub(crate) all_databases: bool,
    /// Whether the statements of its branches are in the audit log.
    pub(crate) audits_statements: bool,
    /// The current rules of its source.
    masking: Option<Masking>,
    pub(crate) installation: Installation,
    /// Who runs the servers of its branches.
    pub(crate) user: ServerUser,
    pub(crate) snapshot: PathBuf,
    /// What each of its branches may take. It can be changed while they run.
    limits: Mutex<Applied>,
    /// Why nothing is known of it, if that is so: no branch of it is started or made.
    unusable: Option<EngineError>,
}

impl Generation {
    pub(crate) fn open(
        home: &Home,
        store: &volume::Store,
        source: &str,
        number: u32,
        settings: &SourceSettings,
    ) -> Result<Generation, EngineError> {
        let manifest = Manifest::load(home, source, number)?;
        let installation = Installation::choose(home.root(), Some(manifest.server_version.major))
            .map_err(SourceError::NoServer)?;
        let snapshot = snapshot_path(store, source, number);
        let user = users::of_generation(home, source, manifest.user.as_ref(), &snapshot)?;
        let mut server = Settings::new();
        for (name, value) in &settings.server {
            server.set(name, value);
        }
        Ok(Generation {
            source: source.to_owned(),
            manifest,
            server,
            durable: settings.durable,
            all_databases: settings.all_databases,
            audits_statements: settings.audit == Audited::Statements,
            masking: settings.masking.clone(),
            installation,
            user,
            snapshot,
            limits: Mutex::new(Applied::of(&settings.limits, store.total_bytes())),
            unusable: None,
        })
    }

    /// What stands for the generation of a branch that is leased when its manifest cannot be read, or no server of its
    /// version is there: the branch keeps its place, and can be destroyed.
    pub(crate) fn unusable(
        store: &volume::Store,
        source: &str,
        number: u32,
        error: EngineError,
    ) -> Generation {
        Generation {
            source: source.to_owned(),
            manifest: Manifest::unknown(number),
            server: Settings::new(),
            durable: false,
            all_databases: false,
            audits_statements: false,
            masking: None,
            installation: Installation { bin_dir: PathBuf::new(), version: Version { major: 0, minor: 0 } },
            user: ServerUser::of_nobody(),
            snapshot: snapshot_path(store, source, number),
            limits: Mutex::new(Applied::of(&Limits::default(), store.total_bytes())),
            unusable: Some(error),
        }
    }

    /// What each of its branches may take.
    pub(crate) fn limits(&self) -> Applied {
        *self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets each of its branches take more or less from now on.
    pub(crate) fn set_limits(&self, limits: Applied) {
        *self.limits.lock().unwrap_or_else(PoisonError::into_inner) = limits;
    }

    /// Whether branches of it can be started.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn usable(&self) -> Result<(), EngineError> {
        self.unusable.clone().map_or(Ok(()), Err)
    }

    /// What data its branches hold, in a word.
    pub(crate) fn data(&self) -> &'static str {
        self.manifest.data()
    }

    /// Checks that the snapshot was made under its source's current rules.
    pub(crate) fn check_rules(&self, rules: Option<&Masking>) -> Result<(), EngineError> {
        if self.manifest.masking.as_ref() == rules {
            return Ok(());
        }
        Err(SourceError::OtherRules { name: self.source.clone() }.into())
    }

    /// Checks that the snapshot is there and is what was imported, as far as that can be told at once.
    pub(crate) fn check(&self, store: &volume::Store) -> Result<(), EngineError> {
        self.usable()?;
        if !self.manifest.is_current() {
            return Err(EngineError::new(
                Kind::Failed,
                "snapshot_outdated",
                format!(
                    "the snapshot of source {0} was made by version 0.1, whose branches everybody on this machine could \
                     enter, with all their databases, and whose imports could run code of the source; run \
                     `duramen source refresh {0}`",
                    self.source
                ),
            ));
        }
        self.check_rules(self.masking.as_ref())?;
        let problem = if !self.snapshot.join("PG_VERSION").exists() {
            Some(("snapshot_missing", "is missing"))
        } else if self.manifest.identity.is_some()
            && store.volumes.identity(&self.snapshot) != self.manifest.identity
        {
            Some(("snapshot_damaged", "was changed after it was imported"))
        } else {
            None
        };
        problem.map_or(Ok(()), |(code, what)| {
            Err(EngineError::new(
                Kind::Failed,
                code,
                format!(
                    "the snapshot of source {} {what}; no branch is made of it: run `duramen source refresh {}`",
                    self.source, self.source
                ),
            ))
        })
    }

    /// The pool size that the volume store has room for. Clones that share their blocks need next to none; plain
    /// copies need all of it, and leave a fifth of what is free.
    pub(crate) fn fit(&self, store: &volume::Store, wanted: &PoolSize) -> PoolSize {
        if store.volumes.kind() != volume::Kind::Copy {
            return wanted.clone();
        }
        let free = store.free_bytes().unwrap_or(0) / 5 * 4;
        let mut room = u32::try_from(free / self.manifest.bytes.max(1)).unwrap_or(u32::MAX);
        let mut fitted = PoolSize { hot: BTreeMap::new(), cold: 0 };
        for (policy, count) in &wanted.hot {
            let count = room.min(*count);
            room -= count;
            fitted.hot.insert(*policy, count);
        }
        if fitted.hot != wanted.hot {
            tracing::warn!(
                source = self.source,
                ?fitted,
                "degraded: plain copies: the pool is cut to the free disk"
            );
        }
        fitted
    }

    /// Whether branches of it can be entered under a policy.
    ///
    /// # Errors
    /// Unknown role, or one that no branch can be entered as.
    pub(crate) fn admits(&self, policy: Policy) -> Result<(), EngineError> {
        let Policy::Role(role) = policy else { return Ok(()) };
        let (source, role) = (self.source.clone(), role.as_str().to_owned());
        let Some(own) = &self.manifest.own_roles else {
            return Err(LeaseError::RolesUnknown { source_name: source }.into());
        };
        match own.standing(&role) {
            Standing::Usable => Ok(()),
            Standing::Refused(reason) => Err(LeaseError::RoleRefused { role, reason }.into()),
            Standing::Unknown => {
                let closest = suggest::closest(&role, own.usable()).map(str::to_owned);
                Err(LeaseError::UnknownRole { source_name: source, role, closest }.into())
            }
        }
    }

    /// Which databases branches admit their holders to. The rights that a role had in others were not looked at.
    pub(crate) fn admitted(&self, policy: Policy) -> Admitted {
        Admitted::of(self.all_databases && !matches!(policy, Policy::Role(_)))
    }

    /// The server settings of a branch: what differs from the snapshot's own `postgresql.conf`.
    pub(crate) fn server_settings(&self, policy: Policy, data_dir: &std::path::Path) -> Settings {
        let mut settings = Settings::new();
        settings.set("max_wal_size", &self.limits().max_wal_size());
        if self.durable {
            settings = settings.durable();
        }
        settings.merge(&self.server);
        if self.audits_statements {
            statements::settings(&mut settings);
        }
        settings
            .set("hba_file", &data_dir.join(hba_file(policy, self.admitted(policy))).display().to_string());
        if policy == Policy::ReadOnly {
            settings.set("default_transaction_read_only", "on");
        }
        settings
    }
}
