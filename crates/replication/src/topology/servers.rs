//! The servers of our own: a primary, and as many standbys as an arrangement has, each behind a proxy of its own.
//!
//! A standby always connects to its own proxy, and the proxy leads to whatever it streams from. So an arrangement is changed
//! without a word to the standbys.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use duramen_postgres::connection::Target;
use duramen_postgres::{quote_parameter, Cluster, Installation, Scratch, ServerUser, Settings, SOCKET_PORT};
use duramen_reports::suite::SuiteError;

use super::arrangement::{Arrangement, Fault, MOST};
use super::options::{Options, FAR};
use crate::pair::own::{Server, OWNER};
use crate::pair::proxy::Proxy;

/// All servers. When this is dropped they are ended and deleted; when the process is killed, the guardian of the folder
/// does it.
pub(super) struct Servers {
    primary: Server,
    standbys: BTreeMap<String, Server>,
    /// Before the proxies' folders go.
    proxies: Mutex<BTreeMap<String, Proxy>>,
    // After the servers: whoever is still there when it is dropped is ended by its guardian.
    scratch: Scratch,
}

impl Servers {
    /// Makes a primary and all standbys that some arrangement names, and starts the primary. Blocks.
    pub(super) fn make(options: &Options) -> Result<Self, SuiteError> {
        let mut names: Vec<&str> = Vec::new();
        for standby in options.arrangements.iter().flat_map(Arrangement::standbys) {
            if !names.contains(&standby.name.as_str()) {
                names.push(&standby.name);
            }
        }
        if names.len() > MOST {
            return Err(SuiteError::Options(format!(
                "the arrangements name {} standbys together, and {MOST} are made at most: give them the same names",
                names.len()
            )));
        }
        let user = ServerUser::current().map_err(SuiteError::other)?;
        let installation = Installation::choose(&options.home, options.major).map_err(SuiteError::other)?;
        let scratch = Scratch::make(&options.dir, "lab-topology", &user).map_err(SuiteError::other)?;
        let place = |name: &str| scratch.path().join(name);
        let cluster = Cluster::new(installation, place("primary"), user);
        cluster.init(OWNER, true).map_err(SuiteError::other)?;
        cluster
            .write_file("pg_hba.conf", "local all all trust\nlocal replication all trust\n")
            .map_err(SuiteError::other)?;
        cluster.append_conf(&settings().to_conf()).map_err(SuiteError::other)?;
        let mut standbys = BTreeMap::new();
        for name in names {
            let host = quote_parameter(&place(&format!("x-{name}")).display().to_string());
            let upstream = format!("host={host} port={SOCKET_PORT} user={OWNER} application_name={name}");
            let standby = cluster.cold_standby(place(&format!("data-{name}")), &upstream);
            let standby = standby.map_err(SuiteError::other)?;
            standbys.insert(name.to_owned(), Server::new(standby, place(&format!("s-{name}"))));
        }
        let primary = Server::new(cluster, place("p"));
        primary.start()?;
        Ok(Self { primary, standbys, proxies: Mutex::new(BTreeMap::new()), scratch })
    }

    /// Where the primary listens.
    pub(super) fn primary(&self) -> Result<Target, SuiteError> {
        target(&self.primary)
    }

    /// Where a standby listens.
    pub(super) fn standby(&self, name: &str) -> Result<Target, SuiteError> {
        target(self.server(name)?)
    }

    /// Has just the standbys of an arrangement run, each behind its proxy to what it streams from. Blocks.
    pub(super) fn bring(&self, arrangement: &Arrangement) -> Result<(), SuiteError> {
        let mut proxies = self.proxies();
        // Cut before they are made anew: whoever streams comes again.
        proxies.clear();
        let is_wanted = |name: &String| arrangement.standbys().iter().any(|standby| standby.name == *name);
        for (_, server) in self.standbys.iter().filter(|(name, _)| !is_wanted(name)) {
            server.stop()?;
        }
        for standby in arrangement.standbys() {
            let upstream = match &standby.upstream {
                Some(upstream) => self.server(upstream)?,
                None => &self.primary,
            };
            let socket = format!(".s.PGSQL.{SOCKET_PORT}");
            let place: PathBuf = self.scratch.path().join(format!("x-{}", standby.name));
            // It may be there from the arrangement before.
            let made = fs::create_dir_all(&place)
                .and_then(|()| Proxy::start(&place.join(&socket), &upstream.sockets().join(&socket)));
            let proxy = made.map_err(SuiteError::file("put a proxy into", &place))?;
            proxies.insert(standby.name.clone(), proxy);
        }
        drop(proxies);
        arrangement.standbys().iter().try_for_each(|standby| self.server(&standby.name)?.start())
    }

    /// Does something to a standby. Blocks.
    pub(super) fn begin(&self, name: &str, fault: Fault) -> Result<(), SuiteError> {
        match fault {
            Fault::Plain => {}
            Fault::Slow => self.with_proxy(name, |proxy| proxy.set_rtt(FAR)),
            Fault::Hang | Fault::Vanish => self.with_proxy(name, |proxy| proxy.block(true)),
            Fault::Die => self.server(name)?.kill(),
        }
        Ok(())
    }

    /// Puts it right again. Blocks.
    pub(super) fn end(&self, name: &str, fault: Fault) -> Result<(), SuiteError> {
        match fault {
            Fault::Plain => Ok(()),
            Fault::Slow => {
                self.with_proxy(name, |proxy| proxy.set_rtt(Duration::ZERO));
                Ok(())
            }
            Fault::Hang | Fault::Vanish => {
                self.with_proxy(name, |proxy| proxy.block(false));
                Ok(())
            }
            Fault::Die => self.server(name)?.start(),
        }
    }

    fn with_proxy(&self, name: &str, work: impl FnOnce(&Proxy)) {
        if let Some(proxy) = self.proxies().get(name) {
            work(proxy);
        }
    }

    fn proxies(&self) -> MutexGuard<'_, BTreeMap<String, Proxy>> {
        self.proxies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn server(&self, name: &str) -> Result<&Server, SuiteError> {
        self.standbys.get(name).ok_or_else(|| SuiteError::Failed(format!("there is no standby {name}")))
    }
}

fn target(server: &Server) -> Result<Target, SuiteError> {
    Target::parse(&server.address()).map_err(SuiteError::other)
}

/// Those of a pair, but commits wait for nobody until an arrangement says for whom.
fn settings() -> Settings {
    let mut settings = Settings::of_a_pair();
    for (name, value) in [
        ("synchronous_standby_names", ""),
        ("shared_buffers", "64MB"),
        ("max_connections", "100"),
        // A standby that is given up is given up on purpose, by a shorter limit.
        ("wal_sender_timeout", "60s"),
    ] {
        settings.set(name, value);
    }
    settings
}
