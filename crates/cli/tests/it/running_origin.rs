//! A running server of somebody else, which a test follows or dumps.

use crate::support::Home;
use duramen_postgres::{Cluster, Installation, Postmaster, ServerUser, Settings};
use std::{path::PathBuf, time::Duration};
use tokio_postgres::{Client, NoTls};

const LIMIT: Duration = Duration::from_secs(60);

/// One with the superuser `boss`, which lets everybody in. It keeps its log for standbys.
pub(crate) struct RunningOrigin {
    server: Postmaster,
    data_dir: PathBuf,
    pub(crate) socket: PathBuf,
}

impl Drop for RunningOrigin {
    fn drop(&mut self) {
        self.server.kill();
    }
}

impl RunningOrigin {
    pub(crate) fn start(home: &Home) -> RunningOrigin {
        RunningOrigin::of_version(home, None)
    }

    /// One of a major version; of the newest, if none is named.
    pub(crate) fn of_version(home: &Home, major: Option<u32>) -> RunningOrigin {
        RunningOrigin::with(home, major, "")
    }

    /// One that writes what clients send into `recorded.csv` and `recorded.json` of a folder.
    pub(crate) fn that_records(home: &Home) -> (RunningOrigin, PathBuf) {
        let settings =
            "logging_collector = on\nlog_destination = 'csvlog,jsonlog'\nlog_directory = 'record'\n\
                        log_filename = 'recorded.log'\nlog_rotation_age = 0\nlog_statement = all\n";
        let origin = RunningOrigin::with(home, None, settings);
        let folder = origin.data_dir.join("record");
        (origin, folder)
    }

    fn with(home: &Home, major: Option<u32>, more: &str) -> RunningOrigin {
        let installation = Installation::choose(&home.path(), major).expect("a server");
        let user = ServerUser::current().expect("a server user");
        let cluster = Cluster::new(installation, home.beside("origin"), user);
        cluster.init("boss", false).expect("initdb");
        cluster.write_file("pg_hba.conf", "local all all trust\nlocal replication all trust\n").expect("hba");
        let settings = "fsync = off\nlisten_addresses = ''\nautovacuum = off\nwal_keep_size = 2GB\n";
        cluster.write_file("postgresql.auto.conf", &format!("{settings}{more}")).expect("settings");
        let socket = home.beside("o");
        let server = cluster.start(&socket, &Settings::new(), LIMIT).expect("the origin starts");
        RunningOrigin { server, data_dir: cluster.data_dir().to_owned(), socket }
    }

    pub(crate) async fn client(&self) -> Client {
        let mut config = tokio_postgres::Config::new();
        config.host_path(&self.socket).port(5432).user("boss").dbname("postgres");
        let (client, connection) = config.connect(NoTls).await.expect("the origin answers");
        tokio::spawn(connection);
        client
    }
}
