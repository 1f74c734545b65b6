//! An etcd that asks for certificates of its clients, or for users and passwords.

use crate::bed::{registered, settings, until};
use base64::{prelude::BASE64_STANDARD, Engine};
use duramen_drill::{etcd::program, program::Program, Network};
use duramen_fleet::{
    address::Access,
    member::{Fleet, Settings, Standing},
    record::Capacity,
};
use duramen_postgres::ServerUser;
use etcd_client::{Certificate, Client, ConnectOptions, Identity, Permission, TlsOptions};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// An authority, and what it certified, as files.
struct Authority {
    dir: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn make(dir: &Path, name: &str) -> Authority {
        let dir = dir.join(name);
        std::fs::create_dir(&dir).expect("a folder");
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name.push(DnType::CommonName, name);
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("a key");
        let certificate = parameters.self_signed(&key).expect("a certificate");
        std::fs::write(dir.join("ca.pem"), pem("CERTIFICATE", certificate.der())).expect("a file");
        Authority { dir, issuer: Issuer::new(parameters, key) }
    }

    fn ca(&self) -> PathBuf {
        self.dir.join("ca.pem")
    }

    /// A certificate and its key, for a name and the hosts.
    fn certify(&self, name: &str, hosts: &[&str]) -> (PathBuf, PathBuf) {
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let mut parameters = CertificateParams::new(hosts).expect("names");
        parameters.distinguished_name.push(DnType::CommonName, name);
        parameters.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().expect("a key");
        let certificate = parameters.signed_by(&key, &self.issuer).expect("a certificate");
        let (certified, own) =
            (self.dir.join(format!("{name}.pem")), self.dir.join(format!("{name}-key.pem")));
        std::fs::write(&certified, pem("CERTIFICATE", certificate.der())).expect("a file");
        std::fs::write(&own, pem("PRIVATE KEY", key.serialized_der())).expect("a file");
        (certified, own)
    }
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = BASE64_STANDARD.encode(der);
    let lines: Vec<&str> =
        text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).expect("ASCII")).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

/// One member of etcd that speaks TLS.
struct Secure {
    address: String,
    _member: Program,
}

impl Secure {
    async fn start(dir: &Path, ours: &Authority, hosts: &[&str], more: &[&str]) -> Secure {
        let network = Network::loopback(1);
        let user = ServerUser::of_this_process().expect("a user");
        let etcd = program(&duramen_base::home::usual()).expect("etcd is there");
        let port = network.free_port(None).expect("a port");
        let peer = format!("http://127.0.0.1:{}", network.free_port(None).expect("a port"));
        let address = format!("127.0.0.1:{port}");
        let (certificate, key) = ours.certify("server", hosts);
        let urls = format!("https://{address}");
        let text = |path: PathBuf| path.display().to_string();
        let member = Program::new("e0", &etcd, &dir.join("e0"), &user, None)
            .expect("a program")
            .arguments(["--name", "e0", "--data-dir", "data"])
            .arguments(["--listen-client-urls", &urls, "--advertise-client-urls", &urls])
            .arguments(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .arguments([
                "--initial-cluster",
                &format!("e0={peer}"),
                "--logger",
                "zap",
                "--log-outputs",
                "stderr",
            ])
            .arguments(["--cert-file", &text(certificate), "--key-file", &text(key)])
            .arguments(["--client-cert-auth", "--trusted-ca-file", &text(ours.ca())])
            .arguments(more.iter().copied());
        member.start(&network).expect("it starts");
        Secure { address, _member: member }
    }

    fn settings(&self, node: &str, access: Access) -> Settings {
        settings(&format!("etcds://{}/test", self.address), access, node)
    }

    fn node(&self, node: &str, access: Access) -> Arc<Fleet> {
        Fleet::join(self.settings(node, access), Box::new(Capacity::default)).expect("it begins")
    }

    /// What a node says of why it is not let in, once it says something with one of these words.
    async fn refused(&self, access: Access, words: &[&str]) {
        let node = self.node("x", access);
        let mut said = String::new();
        until(&format!("it says something with {words:?}"), async || {
            let Standing::Joining(why) = node.standing() else { panic!("it is let in") };
            if why != said {
                eprintln!("{words:?}: {why}");
                said = why;
            }
            words.iter().all(|word| said.contains(word))
        })
        .await;
        node.leave().await;
    }
}

/// A node is let in by a certificate that etcd's authority vouches for, and by an etcd that is who it should be.
#[tokio::test(flavor = "multi_thread")]
async fn etcd_is_asked_by_certificates_on_both_sides() {
    let dir = tempfile::tempdir().expect("a folder");
    let (ours, theirs) = (Authority::make(dir.path(), "ours"), Authority::make(dir.path(), "theirs"));
    let etcd = Secure::start(dir.path(), &ours, &["127.0.0.1"], &[]).await;
    let good =
        Access { authority: Some(ours.ca()), identity: Some(ours.certify("duramen", &[])), user: None };
    let node = etcd.node("a", good.clone());
    registered(&node).await;
    node.claim("n", "b-1", None, None).await.expect("a claim");
    node.confirm("n", "b-1").await.expect("it holds");
    // Longer than a lease: it is renewed by the same right.
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert!(matches!(node.standing(), Standing::Member(_)));
    node.leave().await;
    etcd.refused(
        Access { identity: None, ..good.clone() },
        &["may ask its clients for a certificate", "--etcd-cert"],
    )
    .await;
    etcd.refused(
        Access { identity: Some(theirs.certify("duramen", &[])), ..good.clone() },
        &["may not accept this node's certificate"],
    )
    .await;
    etcd.refused(Access { authority: Some(theirs.ca()), ..good.clone() }, &["certificate", "UnknownIssuer"])
        .await;
    // A missing file is reported at the start.
    let (none, key) = (dir.path().join("none.pem"), dir.path().join("none-key.pem"));
    let missing = Access { identity: Some((none, key)), ..good };
    let error = Fleet::join(etcd.settings("x", missing), Box::new(Capacity::default))
        .expect_err("the file does not exist");
    assert!(error.to_string().contains("none.pem"), "{error}");
}

/// The certificate of etcd has to be of the address at which it is asked.
#[tokio::test(flavor = "multi_thread")]
async fn an_etcd_whose_certificate_has_another_name_is_not_believed() {
    let dir = tempfile::tempdir().expect("a folder");
    let ours = Authority::make(dir.path(), "ours");
    let etcd = Secure::start(dir.path(), &ours, &["etcd.example"], &[]).await;
    let access =
        Access { authority: Some(ours.ca()), identity: Some(ours.certify("duramen", &[])), user: None };
    etcd.refused(access, &["certificate", "etcd.example"]).await;
}

/// A user with the role of `docs/fleet.md`, and no more, is enough, also for longer than etcd's tokens last.
#[tokio::test(flavor = "multi_thread")]
async fn a_user_with_the_smallest_role_is_enough_and_outlives_its_token() {
    let dir = tempfile::tempdir().expect("a folder");
    let ours = Authority::make(dir.path(), "ours");
    // A certificate without a name: who asks is known by his password.
    let etcd = Secure::start(dir.path(), &ours, &["127.0.0.1"], &["--auth-token-ttl", "2"]).await;
    let identity = ours.certify("", &[]);
    let access = |user: &str, password: &str| {
        let file = dir.path().join(format!("password-{password}"));
        std::fs::write(&file, format!("{password}\n")).expect("a file");
        Access {
            authority: Some(ours.ca()),
            identity: Some(identity.clone()),
            user: Some((user.to_owned(), file)),
        }
    };
    let mut admin = administrator(&etcd, &ours, &identity).await;
    admin.user_add("root", "root-secret", None).await.expect("a user");
    admin.role_add("root").await.expect("a role");
    admin.user_grant_role("root", "root").await.expect("its role");
    // The commands of the page.
    admin.role_add("duramen-test").await.expect("a role");
    let all = Permission::read_write("/duramen/test/").with_prefix();
    admin.role_grant_permission("duramen-test", all).await.expect("its right");
    for (user, role) in [("duramen", "duramen-test"), ("other", "")] {
        admin.user_add(user, "secret", None).await.expect("a user");
        if !role.is_empty() {
            admin.user_grant_role(user, role).await.expect("its role");
        }
    }
    admin.auth_enable().await.expect("it asks who it is");
    let (a, b) = (etcd.node("a", access("duramen", "secret")), etcd.node("b", access("duramen", "secret")));
    registered(&a).await;
    registered(&b).await;
    // The token is good for 2 s: all that follows is by another one.
    for round in 0..3 {
        tokio::time::sleep(Duration::from_secs(4)).await;
        let (name, id) = (format!("n-{round}"), format!("b-{round}"));
        a.claim(&name, &id, None, None).await.expect("a claim");
        a.confirm(&name, &id).await.expect("it holds");
        until("b sees it", async || b.view().name(&name).is_some()).await;
        assert!(matches!(a.standing(), Standing::Member(_)) && matches!(b.standing(), Standing::Member(_)));
        b.find(&name).await.expect("an answer").expect("a claim");
    }
    a.drain("b", true).await.expect("it drains");
    assert!(b.claim("n", "b-9", None, None).await.is_err());
    a.leave().await;
    until("b sees it", async || b.view().address("a").is_none()).await;
    b.leave().await;
    etcd.refused(access("duramen", "wrong"), &["user", "password"]).await;
    etcd.refused(access("other", "secret"), &["permission denied"]).await;
    etcd.refused(Access { user: None, ..access("duramen", "secret") }, &["user"]).await;
}

/// Who sets users up, before there are any.
async fn administrator(etcd: &Secure, ours: &Authority, (certificate, key): &(PathBuf, PathBuf)) -> Client {
    let read = |path: &Path| std::fs::read(path).expect("a file");
    let tls = TlsOptions::new()
        .ca_certificate(Certificate::from_pem(read(&ours.ca())))
        .identity(Identity::from_pem(read(certificate), read(key)));
    let options = ConnectOptions::new().with_tls(tls);
    let mut client =
        Client::connect([format!("https://{}", etcd.address)], Some(options)).await.expect("a client");
    let begin = duramen_base::clock::now();
    while client.get("x", None).await.is_err() {
        assert!(begin.elapsed() < Duration::from_secs(15), "etcd does not answer");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    client
}
