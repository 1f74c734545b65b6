//! Where the server of an origin is reached, and what its address may be told of.

use crate::error::{EngineError, Kind};
use duramen_postgres::connection::{ConnectError, Security};
use tokio_postgres::{
    config::{Host, TargetSessionAttrs},
    Config,
};

/// The longest line of a file of services that every libpq reads, in bytes.
const SERVICE_LINE_MAX: usize = 1000;

/// The address of a server of others, with the password that it is entered by.
#[derive(Debug, Clone)]
pub(crate) struct Address {
    pub(crate) config: Config,
    pub(crate) security: Security,
}

impl Address {
    /// Reads the URL of an origin. What is said of one that is wrong does not hold it.
    pub(crate) fn parse(url: &str) -> Result<Address, EngineError> {
        let bad = |what: String| EngineError::new(Kind::Invalid, "bad_url", what);
        let (config, security) = Security::parse(url).map_err(|error| {
            let cause = match error {
                ConnectError::Url { cause, .. } => cause,
                other => other.to_string(),
            };
            bad(format!(
                "the URL cannot be read ({cause}); write postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
            ))
        })?;
        if config.get_hosts().is_empty() || config.get_user().is_none() {
            return Err(bad(
                "the URL names no host or no user; write postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
                    .to_owned(),
            ));
        }
        Ok(Address { config, security })
    }

    /// That of a server on this machine, by its socket.
    pub(crate) fn local(config: Config) -> Address {
        Address { config, security: Security::none() }
    }

    /// Another database of the same server.
    pub(crate) fn database(&self, name: &str) -> Address {
        let mut address = self.clone();
        address.config.dbname(name);
        address
    }

    /// Each of its hosts alone, in their order.
    pub(crate) fn hosts(&self) -> Vec<Config> {
        let whole = &self.config;
        let number = whole.get_hosts().len().max(whole.get_hostaddrs().len());
        let one = |index: usize| {
            let mut config = Config::new();
            config.ssl_mode(whole.get_ssl_mode());
            whole.get_user().map(|user| config.user(user));
            whole.get_password().map(|password| config.password(password));
            whole.get_dbname().map(|name| config.dbname(name));
            whole.get_options().map(|options| config.options(options));
            match whole.get_hosts().get(index) {
                Some(Host::Tcp(name)) => drop(config.host(name)),
                Some(Host::Unix(path)) => drop(config.host_path(path)),
                None => {}
            }
            whole.get_hostaddrs().get(index).map(|address| config.hostaddr(*address));
            let ports = whole.get_ports();
            ports.get(index).or(ports.first()).map(|port| config.port(*port));
            config
        };
        (0..number).map(one).collect()
    }

    /// Whether connections to it may be encrypted.
    pub(crate) fn by_network(&self) -> bool {
        self.config.get_hosts().iter().any(|host| matches!(host, Host::Tcp(_)))
    }

    /// What libpq connects by, without the password: with all hosts, and asking for the same of them.
    fn parameters(&self) -> Vec<(&'static str, String)> {
        let config = &self.config;
        let mut parts = vec![("user", config.get_user().unwrap_or_default().to_owned())];
        parts.push(("host", config.get_hosts().iter().map(host_name).collect::<Vec<_>>().join(",")));
        let addresses: Vec<String> = config.get_hostaddrs().iter().map(ToString::to_string).collect();
        if !addresses.is_empty() {
            parts.push(("hostaddr", addresses.join(",")));
        }
        let ports: Vec<String> = config.get_ports().iter().map(ToString::to_string).collect();
        if !ports.is_empty() {
            parts.push(("port", ports.join(",")));
        }
        match config.get_target_session_attrs() {
            TargetSessionAttrs::ReadWrite => parts.push(("target_session_attrs", "read-write".to_owned())),
            TargetSessionAttrs::ReadOnly => parts.push(("target_session_attrs", "read-only".to_owned())),
            _ => {}
        }
        if self.by_network() {
            parts.extend(self.security.parameters());
        }
        parts
    }

    /// A libpq connection string without the password.
    pub(crate) fn conninfo(&self) -> String {
        let parts = self.parameters();
        let parts: Vec<String> =
            parts.iter().map(|(name, value)| format!("{name}={}", quote(value))).collect();
        format!("{} application_name=duramen", parts.join(" "))
    }

    /// What a file of services says of one, by which libpq connects to one database, which must be named, with the password of a
    /// file. `None` if such a file cannot hold it.
    pub(crate) fn service(
        &self,
        name: &str,
        application: &str,
        password_file: Option<&str>,
    ) -> Option<String> {
        let mut parts = self.parameters();
        parts.push(("dbname", self.config.get_dbname()?.to_owned()));
        parts.push(("application_name", application.to_owned()));
        parts.push(("connect_timeout", "10".to_owned()));
        parts.extend(password_file.map(|path| ("passfile", path.to_owned())));
        let lines = parts.iter().map(|(name, value)| format!("{name}={value}"));
        let lines: Vec<String> = std::iter::once(format!("[{name}]")).chain(lines).collect();
        // Lines are read up to a length, and without what follows their last letter.
        let is_held = |line: &String| {
            line.len() < SERVICE_LINE_MAX && !line.contains(['\n', '\r', '\0']) && line.trim_end() == line
        };
        lines.iter().all(is_held).then(|| lines.join("\n") + "\n")
    }

    /// The same for one database, which must be named, and sessions that only read, as our own do. `quiet` turns event
    /// triggers off, which needs the right to.
    pub(crate) fn conninfo_to_read(&self, quiet: bool) -> String {
        let mut options = self.config.get_options().unwrap_or_default().to_owned();
        options.push_str(" -c default_transaction_read_only=on");
        if quiet {
            options.push_str(" -c event_triggers=off");
        }
        let database = self.config.get_dbname().unwrap_or_default();
        format!("{} dbname={} options={}", self.conninfo(), quote(database), quote(options.trim_start()))
    }

    /// A text of a program that was given the address, without it.
    pub(crate) fn hidden_in(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for host in self.config.get_hosts() {
            text = text.replace(&host_name(host), "(the source)");
        }
        for port in self.config.get_ports() {
            text = text.replace(&port.to_string(), "(its port)");
        }
        for address in self.config.get_hostaddrs() {
            text = text.replace(&address.to_string(), "(the source)");
        }
        text
    }
}

/// A value of a connection string.
fn quote(value: &str) -> String {
    format!("'{}'", value.replace('\\', "\\\\").replace('\'', "\\'"))
}

fn host_name(host: &Host) -> String {
    match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(path) => path.display().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_host_is_asked_and_nothing_is_told() {
        let url =
            "postgresql://u:p%27w@a.example:1,b.example:2/d?target_session_attrs=read-write&sslmode=require";
        let address = Address::parse(url).unwrap();
        let conninfo = address.conninfo();
        for part in [
            "user='u'",
            "host='a.example,b.example'",
            "port='1,2'",
            "target_session_attrs='read-write'",
            "sslmode='require'",
        ] {
            assert!(conninfo.contains(part), "{conninfo}");
        }
        assert!(!conninfo.contains("p'w"), "{conninfo}");
        assert_eq!(address.hidden_in("at b.example: no"), "at (the source): no");
        let service = address.service("s", "a", Some("/p")).unwrap();
        for line in ["[s]", "host=a.example,b.example", "dbname=d", "passfile=/p", "sslmode=require"] {
            assert!(service.lines().any(|it| it == line), "{service}");
        }
        assert!(!service.contains("p'w"), "{service}");
        assert_eq!(address.database("x\nhost=elsewhere").service("s", "a", None), None);
        assert_eq!(address.database("x ").service("s", "a", None), None);
        let local = Address::parse("postgresql://u@/d?host=/tmp/it's&sslmode=require").unwrap().conninfo();
        assert!(local.contains("host='/tmp/it\\'s'") && !local.contains("sslmode"), "{local}");
    }
}
