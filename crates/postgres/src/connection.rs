//! Connections to servers of others, by what their users write: unix sockets, TCP, TLS, passwords. What the servers of
//! our own are asked goes through [`Session`](crate::Session).

mod security;
mod tls;
mod url;

use std::time::Duration;

use futures_util::{future::poll_fn, FutureExt};
use tokio::sync::mpsc;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};
use tokio_postgres::{AsyncMessage, Client, Config, Notification};
use tokio_postgres_rustls::MakeRustlsConnect;

pub use security::{Encryption, Security};
pub use url::without_password;

/// How long opening a connection may take, name lookup and authentication included.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long it takes to notice that the other end of a connection is gone: [`Target::noticing_loss`].
pub const GONE_WITHIN: Duration = Duration::from_secs(30);

/// Why no connection came about.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The text is not a connection string.
    #[error("`{url}` is not a PostgreSQL connection string: {cause}; write postgres://ROLE@HOST:PORT/DATABASE or host=... user=... dbname=...")]
    Url {
        /// The text, with its password hidden.
        url: String,
        /// What is wrong with it.
        cause: String,
    },
    /// The server could not be reached, or refused.
    #[error("cannot connect to {target}: {cause}")]
    Refused {
        /// Host and database.
        target: String,
        /// The server's or the network's words.
        cause: String,
    },
    /// The server did not answer in time.
    #[error("{target} did not answer within {CONNECT_TIMEOUT:?}; is the address right, and the server up?")]
    Timeout {
        /// Host and database.
        target: String,
    },
    /// TLS could not be set up.
    #[error("TLS cannot be used: {0}")]
    Tls(String),
}

/// Where to connect: a parsed connection string. Cheap to clone.
///
/// ```
/// # fn main() -> Result<(), duramen_postgres::connection::ConnectError> {
/// use duramen_postgres::connection::Target;
/// let target = Target::parse("postgres://app@localhost/shop")?;
/// assert_eq!(target.describe(), "localhost/shop");
/// assert_eq!(Target::parse("postgres://app@localhost:6000/shop")?.describe(), "localhost:6000/shop");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Target {
    config: Config,
}

impl Target {
    /// Reads a URL or a `key=value` string, as libpq writes them.
    ///
    /// # Errors
    /// [`ConnectError::Url`].
    pub fn parse(url: &str) -> Result<Self, ConnectError> {
        let config: Config = url.parse().map_err(|error: tokio_postgres::Error| ConnectError::Url {
            url: without_password(url),
            cause: with_sources(&error),
        })?;
        let mut target = Self { config };
        if target.config.get_hosts().is_empty() {
            return Err(ConnectError::Url {
                url: without_password(url),
                cause: "it names no host".to_owned(),
            });
        }
        if target.config.get_connect_timeout().is_none() {
            // One of several that does not answer leaves the others their part of the time.
            let hosts = u32::try_from(target.config.get_hosts().len()).unwrap_or(1).max(1);
            target.config.connect_timeout(CONNECT_TIMEOUT / hosts);
        }
        Ok(target)
    }

    /// The same server, another database.
    #[must_use]
    pub fn database(mut self, name: &str) -> Self {
        self.config.dbname(name);
        self
    }

    /// The database's name, which is the role's when none was given.
    #[must_use]
    pub fn database_name(&self) -> &str {
        self.config.get_dbname().or(self.config.get_user()).unwrap_or("postgres")
    }

    /// The role that connects.
    #[must_use]
    pub fn role(&self) -> &str {
        self.config.get_user().unwrap_or("the current user")
    }

    /// The same server and database, as another role with its password.
    #[must_use]
    pub fn login(mut self, role: &str, password: &str) -> Self {
        self.config.user(role).password(password);
        self
    }

    /// The name that the server shows for sessions in `pg_stat_activity`.
    #[must_use]
    pub fn application_name(mut self, name: &str) -> Self {
        self.config.application_name(name);
        self
    }

    /// A connection whose other end is gone without a word (a machine without power, a cable) ends within [`GONE_WITHIN`], whether it is
    /// waited for or idle, unless the connection string says otherwise. A server that only hangs is not taken for gone.
    #[must_use]
    pub fn noticing_loss(mut self) -> Self {
        if self.config.get_tcp_user_timeout().is_none() {
            self.config.tcp_user_timeout(GONE_WITHIN);
            self.config.keepalives_idle(GONE_WITHIN / 3);
            self.config.keepalives_interval(GONE_WITHIN / 6);
        }
        self
    }

    /// Settings that a session has from its beginning, and that `RESET ALL` leads back to.
    #[must_use]
    pub fn settings<'a>(mut self, settings: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut options = self.config.get_options().unwrap_or_default().to_owned();
        for (name, value) in settings {
            let escaped = value.replace('\\', "\\\\").replace(' ', "\\ ");
            options.push_str(&format!(" -c {name}={escaped}"));
        }
        self.config.options(options.trim_start());
        self
    }

    /// All of it as `key=value`, with the password: for somebody on another machine who is to connect likewise.
    #[must_use]
    pub fn exposed(&self) -> String {
        let config = &self.config;
        let password = config.get_password().map(String::from_utf8_lossy);
        let login = [
            ("user", config.get_user().map(str::to_owned)),
            ("password", password.map(|password| password.into_owned())),
            ("options", config.get_options().map(str::to_owned)),
            ("application_name", config.get_application_name().map(str::to_owned)),
        ];
        words(self.where_to().into_iter().chain(login))
    }

    /// Where it leads, as `key=value`: hosts, ports, database, and which of the hosts is wanted; neither role nor password nor
    /// settings. It is the same for all roles, so that it can be kept where many read it.
    ///
    /// ```
    /// # fn main() -> Result<(), duramen_postgres::connection::ConnectError> {
    /// use duramen_postgres::connection::Target;
    /// let target = Target::parse("postgres://app:secret@a,b:6000/shop?target_session_attrs=read-write")?;
    /// assert_eq!(target.place(), "host='a,b' port='5432,6000' dbname='shop' target_session_attrs='read-write' sslmode='prefer'");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn place(&self) -> String {
        words(self.where_to())
    }

    /// The parameters that say where it leads.
    fn where_to(&self) -> Vec<(&'static str, Option<String>)> {
        let config = &self.config;
        let hosts = config.get_hosts().iter().map(|host| match host {
            Host::Tcp(name) => name.clone(),
            Host::Unix(path) => path.display().to_string(),
        });
        let ports: Vec<String> = config.get_ports().iter().map(u16::to_string).collect();
        let addresses: Vec<String> = config.get_hostaddrs().iter().map(ToString::to_string).collect();
        let ssl = match config.get_ssl_mode() {
            SslMode::Disable => "disable",
            SslMode::Prefer => "prefer",
            _ => "require",
        };
        let wanted = match config.get_target_session_attrs() {
            TargetSessionAttrs::ReadWrite => "read-write",
            TargetSessionAttrs::ReadOnly => "read-only",
            _ => "",
        };
        vec![
            ("host", Some(hosts.collect::<Vec<_>>().join(","))),
            ("hostaddr", Some(addresses.join(","))),
            ("port", Some(ports.join(","))),
            ("dbname", Some(self.database_name().to_owned())),
            ("target_session_attrs", Some(wanted.to_owned())),
            ("sslmode", Some(ssl.to_owned())),
        ]
    }

    /// The same place, with role, password and settings of another target, and TLS as the stricter of both wants it. Of this one nothing
    /// counts but hosts, ports, database, and which of the hosts is wanted.
    ///
    /// ```
    /// # fn main() -> Result<(), duramen_postgres::connection::ConnectError> {
    /// use duramen_postgres::connection::Target;
    /// let reader = Target::parse("postgres://app:secret@a/jobs?sslmode=require")?;
    /// // Whoever wrote the place down cannot have the password sent in the clear.
    /// let there = Target::parse("host=b dbname=jobs sslmode=disable")?.login_of(&reader);
    /// assert_eq!((there.role(), there.host().as_str()), ("app", "b"));
    /// assert!(there.place().ends_with("sslmode='require'"));
    /// // Nor under another name, or with other settings.
    /// let place = "host=b dbname=jobs user=eve password=x options='-c role=eve'";
    /// let there = Target::parse(place)?.login_of(&reader);
    /// assert!(there.exposed().contains("user='app' password='secret'") && !there.exposed().contains("eve"));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn login_of(self, other: &Target) -> Self {
        let (place, login) = (&self.config, &other.config);
        // Anew, so that nothing else of the place is left: a role, a password, a file.
        let mut config = Config::new();
        for host in place.get_hosts() {
            match host {
                Host::Tcp(name) => config.host(name),
                Host::Unix(path) => config.host_path(path),
            };
        }
        for address in place.get_hostaddrs() {
            config.hostaddr(*address);
        }
        for port in place.get_ports() {
            config.port(*port);
        }
        config.dbname(self.database_name());
        config.target_session_attrs(place.get_target_session_attrs());
        if let Some(timeout) = place.get_connect_timeout() {
            config.connect_timeout(*timeout);
        }
        if let Some(role) = login.get_user() {
            config.user(role);
        }
        if let Some(password) = login.get_password() {
            config.password(password);
        }
        if let Some(options) = login.get_options() {
            config.options(options);
        }
        if let Some(name) = login.get_application_name() {
            config.application_name(name);
        }
        let strictness = |mode: SslMode| match mode {
            SslMode::Disable => 0,
            SslMode::Prefer => 1,
            _ => 2,
        };
        let modes = [place.get_ssl_mode(), login.get_ssl_mode()];
        config.ssl_mode(modes.into_iter().max_by_key(|mode| strictness(*mode)).unwrap_or(SslMode::Require));
        config.channel_binding(login.get_channel_binding());
        config.ssl_negotiation(login.get_ssl_negotiation());
        Self { config }
    }

    /// How many hosts it names, of which one is meant.
    #[must_use]
    pub fn hosts(&self) -> usize {
        self.config.get_hosts().len()
    }

    /// Only a server that takes writes will do, of however many hosts: a standby is passed over.
    #[must_use]
    pub fn primary(mut self) -> Self {
        self.config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        self
    }

    /// The first host, or the directory of its socket.
    #[must_use]
    pub fn host(&self) -> String {
        match self.config.get_hosts().first() {
            Some(Host::Tcp(name)) => name.clone(),
            Some(Host::Unix(path)) => path.display().to_string(),
            None => "localhost".to_owned(),
        }
    }

    /// The port that goes with the first host; of a socket, the number in its name.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.config.get_ports().first().copied().unwrap_or(5432)
    }

    /// Host, port where it is not 5432, and database, for messages; never a password.
    #[must_use]
    pub fn describe(&self) -> String {
        let port = self.port();
        let port = if port == 5432 { String::new() } else { format!(":{port}") };
        format!("{}{port}/{}", self.host(), self.database_name())
    }

    /// Opens a connection; what the server notifies it of is dropped.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub async fn connect(&self) -> Result<Client, ConnectError> {
        Ok(self.connect_listening().await?.0)
    }

    /// Opens a connection, with the notifications that it gets. The channel closes when the connection does.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub async fn connect_listening(
        &self,
    ) -> Result<(Client, mpsc::UnboundedReceiver<Notification>), ConnectError> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let client = self.connect_hearing(move |message| match message {
            // Nobody may be listening, and then there is nobody to tell.
            AsyncMessage::Notification(notification) => drop(sender.send(notification)),
            AsyncMessage::Notice(notice) => tracing::debug!(%notice, "the server says"),
            _ => {}
        });
        Ok((client.await?, receiver))
    }

    /// Opens a connection and hands over what the server says unasked: notices, warnings, notifications.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub async fn connect_hearing(
        &self,
        mut hear: impl FnMut(AsyncMessage) + Send + 'static,
    ) -> Result<Client, ConnectError> {
        let refused = |error: tokio_postgres::Error| ConnectError::Refused {
            target: self.describe(),
            cause: with_sources(&error),
        };
        let opened = tokio::time::timeout(CONNECT_TIMEOUT, self.config.connect(self.tls()?))
            .await
            .map_err(|_| ConnectError::Timeout { target: self.describe() })?;
        let (client, mut connection) = opened.map_err(refused)?;
        tokio::spawn(
            async move {
                while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
                    hear(message);
                }
            }
            .boxed(),
        );
        Ok(client)
    }

    /// What cancel requests and connections need for TLS.
    ///
    /// # Errors
    /// [`ConnectError::Tls`].
    pub fn tls(&self) -> Result<MakeRustlsConnect, ConnectError> {
        tls::connector(self.config.get_ssl_mode())
    }
}

/// Parameters as a connection string; those that say nothing are left out.
fn words(parameters: impl IntoIterator<Item = (&'static str, Option<String>)>) -> String {
    let known = parameters.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let known = known.filter(|(_, value)| !value.is_empty());
    let words: Vec<String> =
        known.map(|(name, value)| format!("{name}={}", crate::quote_parameter(&value))).collect();
    words.join(" ")
}

/// An error with everything below it, in one line.
#[must_use]
pub fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        source = inner.source();
    }
    text
}
