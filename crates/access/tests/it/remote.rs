//! Packs in object storage, behind a real S3 server: what a question costs, and what happens if the way to it breaks.
//!
//! Between client and server is a proxy that counts, and breaks what it is told to.

use std::collections::VecDeque;
use std::io::{BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use duramen_access::c1z::ReadOptions;
use duramen_access::file::GraphFile;
use duramen_access::graph::{
    Grant, GrantScope, GraphPack, GraphStore, PageRequest, Resource, ResourceId, SyncKind,
};
use duramen_pack::container::Pack;

const KEY: &str = "testkey";
const SECRET: &str = "testsecret-never-in-a-message";

/// The S3 server, and the proxy in front of it.
struct Server {
    process: Child,
    direct: String,
    proxy: Proxy,
    _folder: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// One client's view of the server.
struct Proxy {
    address: String,
    requests: Arc<AtomicU64>,
    bytes: Arc<AtomicU64>,
    faults: Arc<Mutex<VecDeque<Fault>>>,
}

#[derive(Clone, Copy)]
enum Fault {
    /// The server is busy.
    Busy,
    /// The connection ends in the middle of the answer.
    Cut,
    /// The server knows nothing of conditions. They are part of what is signed, so that this is for whoever does not sign.
    DropsConditions,
}

fn head(stream: &mut impl std::io::BufRead) -> Option<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    Some(head)
}

impl Proxy {
    fn start(target: String) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Proxy {
            address: listener.local_addr().unwrap().to_string(),
            requests: Arc::default(),
            bytes: Arc::default(),
            faults: Arc::default(),
        };
        let (requests, bytes, faults) = (proxy.requests.clone(), proxy.bytes.clone(), proxy.faults.clone());
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (target, requests, bytes, faults) =
                    (target.clone(), requests.clone(), bytes.clone(), faults.clone());
                std::thread::spawn(move || forward(client.ok()?, &target, &requests, &bytes, &faults));
            }
        });
        proxy
    }

    /// What was counted since the last call.
    fn counted(&self) -> (u64, u64) {
        (self.requests.swap(0, Ordering::SeqCst), self.bytes.swap(0, Ordering::SeqCst))
    }

    fn breaks(&self, faults: &[Fault]) {
        self.faults.lock().unwrap().extend(faults);
    }
}

fn forward(
    mut client: TcpStream,
    target: &str,
    requests: &AtomicU64,
    bytes: &AtomicU64,
    faults: &Mutex<VecDeque<Fault>>,
) -> Option<()> {
    let mut from_client = BufReader::new(client.try_clone().ok()?);
    loop {
        let mut request = head(&mut from_client)?;
        requests.fetch_add(1, Ordering::SeqCst);
        let fault = faults.lock().unwrap().pop_front();
        match fault {
            Some(Fault::Busy) => {
                client.write_all(b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\n\r\n").ok()?;
                continue;
            }
            Some(Fault::DropsConditions) => {
                let lines = request.split_inclusive("\r\n");
                request = lines.filter(|line| !line.to_lowercase().starts_with("if-match")).collect();
            }
            _ => {}
        }
        // A connection for each request, so that its end is the end of the answer.
        let request = request.replacen("\r\n", "\r\nConnection: close\r\n", 1);
        let mut server = TcpStream::connect(target).ok()?;
        server.write_all(request.as_bytes()).ok()?;
        let mut from_server = BufReader::new(server);
        let answer = head(&mut from_server)?.replace("Connection: close\r\n", "");
        let mut body = Vec::new();
        from_server.read_to_end(&mut body).ok()?;
        if matches!(fault, Some(Fault::Cut)) {
            body.truncate(body.len() / 2);
        }
        bytes.fetch_add((answer.len() + body.len()) as u64, Ordering::SeqCst);
        client.write_all(answer.as_bytes()).ok()?;
        client.write_all(&body).ok()?;
        if matches!(fault, Some(Fault::Cut)) {
            return None;
        }
    }
}

impl Server {
    fn start() -> Server {
        let program = std::env::var_os("DURAMEN_VERSITYGW").expect("DURAMEN_VERSITYGW: run `make test-s3`");
        let folder = tempfile::tempdir().unwrap();
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let process = Command::new(program)
            .args(["-a", KEY, "-s", SECRET, "-p", &free, "-q", "posix"])
            .arg(folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        for _ in 0..200 {
            if TcpStream::connect(&free).is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let server = Server { process, proxy: Proxy::start(free.clone()), direct: free, _folder: folder };
        server.curl(&["-X", "PUT"], "");
        // What anybody may read, by plain HTTP.
        let policy = r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*",
            "Action":"s3:GetObject","Resource":"arn:aws:s3:::packs/open/*"}]}"#;
        server.curl(&["-X", "PUT", "--data-binary", policy], "?policy=");
        server
    }

    fn curl(&self, args: &[&str], key: &str) {
        let done = Command::new("curl")
            .args([
                "-sS",
                "--fail",
                "--aws-sigv4",
                "aws:amz:us-east-1:s3",
                "--user",
                &format!("{KEY}:{SECRET}"),
            ])
            .args(["-H", "x-amz-content-sha256: UNSIGNED-PAYLOAD"])
            .args(args)
            .arg(format!("http://{}/packs/{key}", self.direct).trim_end_matches('/'))
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    fn put(&self, file: &Path, key: &str) {
        self.curl(&["-T", file.to_str().unwrap()], key);
    }
}

/// A server of its own for a test, one test after another: credentials and address are in the environment, of which a
/// process has one.
struct Turn {
    server: Server,
    _only: std::sync::MutexGuard<'static, ()>,
}

impl std::ops::Deref for Turn {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

fn server() -> Turn {
    static ONLY: Mutex<()> = Mutex::new(());
    let only = ONLY.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let server = Server::start();
    for (name, value) in [
        ("AWS_ACCESS_KEY_ID", KEY),
        ("AWS_SECRET_ACCESS_KEY", SECRET),
        ("AWS_REGION", "us-east-1"),
        ("AWS_ENDPOINT", &format!("http://{}", server.proxy.address)),
        ("AWS_ALLOW_HTTP", "true"),
    ] {
        // SAFETY: only tests that have their turn read them, and `std` locks the environment for others.
        #[allow(unsafe_code, reason = "the credentials are those of the process")]
        unsafe {
            std::env::set_var(name, value);
        }
    }
    Turn { server, _only: only }
}

/// A graph with users that say much about themselves, so that the file has a size, and four grants for each.
fn graph(path: &Path, megabytes: u64, seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let users = (megabytes * 1000).max(100);
    let mut store = GraphStore::open(path).unwrap();
    store.start_sync(SyncKind::Full, None).unwrap();
    for first in (0..users).step_by(20_000) {
        let some = first..(first + 20_000).min(users);
        let resources: Vec<Resource> = some
            .clone()
            .map(|user| Resource {
                id: ResourceId::new("user", format!("user-{user:08}")),
                display_name: format!("User {user}"),
                profile: Some((0..960).map(|_| rng.u8(..)).collect()),
                ..Resource::default()
            })
            .collect();
        store.put_resources(&resources).unwrap();
        let grants: Vec<Grant> = some
            .flat_map(|user| [user; 4])
            .map(|user| {
                let entitlement = format!("app:github:entitlement-{:04}", rng.u32(..2000));
                let mut grant =
                    Grant { id: format!("{entitlement}:user:user-{user:08}"), ..Grant::default() };
                grant.entitlement.id = entitlement;
                grant.entitlement.resource = ResourceId::new("app", "github");
                grant.principal.id = ResourceId::new("user", format!("user-{user:08}"));
                grant
            })
            .collect();
        store.put_grants(&grants).unwrap();
    }
    store.end_sync().unwrap();
}

fn grants_of(view: &duramen_access::graph::SyncView, user: &str) -> Vec<Grant> {
    let id = ResourceId::new("user", user);
    view.grants(GrantScope::Principal(&id), PageRequest::default()).unwrap().to_grants().unwrap()
}

#[test]
fn a_large_pack_answers_about_one_principal_in_few_requests() {
    let server = server();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("large.dpack");
    let megabytes = std::env::var("DURAMEN_S3_MEGABYTES").map_or(20, |text| text.parse().unwrap());
    graph(&path, megabytes, 1);
    server.put(&path, "large.dpack");
    let local = GraphPack::open(&path).unwrap().view(None).unwrap();
    let user = format!("user-{:08}", megabytes * 617);
    let expected = grants_of(&local, &user);
    assert!(!expected.is_empty());

    server.proxy.counted();
    let begun = duramen_base::clock::now();
    let pack = GraphPack::open("s3://packs/large.dpack").unwrap();
    let opened = server.proxy.counted();
    assert_eq!(grants_of(&pack.view(None).unwrap(), &user), expected);
    let took = duramen_base::clock::now() - begun;
    let asked = server.proxy.counted();
    let size = pack.pack().size();
    println!(
        "{size} bytes: opened by {opened:?} requests and bytes, one principal by {asked:?} more, in {took:?}"
    );
    assert!(opened.0 <= 2 && opened.1 <= 80_000, "{opened:?}");
    assert!(opened.0 + asked.0 <= 10, "{opened:?} {asked:?}");
    assert!(opened.1 + asked.1 <= 1_000_000, "{opened:?} {asked:?}");

    // Another one costs its blocks only, and what is there is told apart from what is not.
    let other = format!("user-{:08}", megabytes * 200);
    assert_eq!(grants_of(&pack.view(None).unwrap(), &other), grants_of(&local, &other));
    let (requests, bytes) = server.proxy.counted();
    println!("another one: {requests} requests, {bytes} bytes");
    assert!(requests <= 4, "{requests}");
    assert_eq!(grants_of(&pack.view(None).unwrap(), "nobody"), []);
}

#[test]
fn reading_everything_takes_few_requests_because_it_reads_ahead() {
    let server = server();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("all.dpack");
    graph(&path, 4, 2);
    server.put(&path, "all.dpack");
    let pack = Pack::open("s3://packs/all.dpack").unwrap();
    server.proxy.counted();
    let verified = pack.verify(&mut |_, _| {}).unwrap();
    let blocks: u64 = pack.sections().iter().map(|section| section.blocks).sum();
    let (requests, bytes) = server.proxy.counted();
    println!("{} bytes in {blocks} blocks: {requests} requests, {bytes} bytes; {verified:?}", pack.size());
    assert!(blocks > 60 && requests < blocks / 2, "{requests} requests for {blocks} blocks");
    assert!(bytes < pack.size() * 2, "{bytes}");
}

#[test]
fn an_object_that_is_replaced_while_it_is_read_is_noticed() {
    let server = server();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("changing.dpack");
    graph(&path, 1, 3);
    let public = format!("http://{}/packs/open/changing.dpack", server.proxy.address);
    for (url, faults) in
        [("s3://packs/open/changing.dpack", &[][..]), (&public, &[]), (&public, &[Fault::DropsConditions; 8])]
    {
        server.put(&path, "open/changing.dpack");
        let pack = GraphPack::open(url).unwrap();
        let view = pack.view(None).unwrap();
        let other = dir.path().join("other.dpack");
        graph(&other, 1, 4);
        assert_eq!(other.metadata().unwrap().len() / 10_000, path.metadata().unwrap().len() / 10_000);
        server.put(&other, "open/changing.dpack");
        std::fs::remove_file(&other).unwrap();
        server.proxy.breaks(faults);
        let id = ResourceId::new("user", "user-00000017");
        // Grants lie at the end, which is here already: a resource is read.
        let said = view.resource(&id).unwrap_err().to_string();
        assert!(said.contains("was replaced since it was opened"), "{said}");
        server.proxy.faults.lock().unwrap().clear();
    }
}

#[test]
fn what_passes_is_tried_again_and_what_does_not_is_told_without_a_secret() {
    let server = server();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("shaky.dpack");
    graph(&path, 1, 5);
    server.put(&path, "shaky.dpack");
    let user = "user-00000017";
    let expected = grants_of(&GraphPack::open(&path).unwrap().view(None).unwrap(), user);

    server.proxy.breaks(&[Fault::Busy, Fault::Busy, Fault::Cut]);
    let pack = GraphPack::open("s3://packs/shaky.dpack").unwrap();
    server.proxy.breaks(&[Fault::Cut, Fault::Busy]);
    assert_eq!(grants_of(&pack.view(None).unwrap(), user), expected);

    let open = |url: &str| {
        let opened = GraphFile::open(Path::new(url), &ReadOptions::default());
        let said = opened.unwrap_err().to_string();
        assert!(!said.contains(SECRET) && !said.contains("signature-of-mine"), "{said}");
        said
    };
    server.proxy.breaks(&[Fault::Busy; 8]);
    let said = open("s3://packs/shaky.dpack");
    assert!(said.starts_with("cannot open s3://packs/shaky.dpack: ") && said.contains("503"), "{said}");
    assert!(server.proxy.faults.lock().unwrap().len() >= 4, "retries have a bound");
    server.proxy.faults.lock().unwrap().clear();
    assert!(open("s3://packs/none.dpack").contains("no such object"));

    // Over plain HTTP nobody is known here; the query may be a signature.
    let url = format!(
        "http://ada:{SECRET}@{}/packs/shaky.dpack?X-Amz-Signature=signature-of-mine",
        server.proxy.address
    );
    let said = open(&url);
    assert!(
        said.starts_with(&format!("cannot open http://{}/packs/shaky.dpack: ", server.proxy.address)),
        "{said}"
    );
    let said = open("http://127.0.0.1:9/a.dpack?X-Amz-Signature=signature-of-mine");
    assert!(said.contains("http://127.0.0.1:9/a.dpack"), "{said}");
}
