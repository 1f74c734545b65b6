//! The S3 server of the tests: a process of its own for each test that asks for one, with its data in a folder.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use duramen_base::clock;

pub(crate) const KEY: &str = "testkey";
pub(crate) const SECRET: &str = "testsecret";
pub(crate) const BUCKET: &str = "bucket";

/// A server that is killed with this.
pub(crate) struct Server {
    process: Child,
    address: String,
    _folder: tempfile::TempDir,
}

impl Server {
    /// Starts a server, or returns `None` if `DURAMEN_VERSITYGW` is not set, as `make test-store-s3` sets it.
    pub(crate) fn start() -> Option<Self> {
        let Some(program) = std::env::var_os("DURAMEN_VERSITYGW") else {
            println!("DURAMEN_VERSITYGW is not set: `make test-store-s3` does this with a server");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        // A folder of the top is a bucket.
        std::fs::create_dir(folder.path().join(BUCKET)).unwrap();
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let process = Command::new(program)
            .args(["-a", KEY, "-s", SECRET, "-p", &address, "-q", "posix"])
            .arg(folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = Self { process, address, _folder: folder };
        let begin = clock::now();
        while TcpStream::connect(&server.address).is_err() {
            assert!(begin.elapsed() < Duration::from_secs(20), "the server does not start");
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(server)
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
