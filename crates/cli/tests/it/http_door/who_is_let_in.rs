//! Without a token that is alive nothing is told, and with TLS or not depends on where one comes from.

use super::client::{ask, request, Answer, Site, Who};
use crate::support::until;
use duramen_api::{
    attachments::{AddAttachment, AttachmentKind},
    token::{CreateToken, Role},
};
use duramen_base::clock;
use jiff::SignedDuration;
use serde_json::json;
use std::{net::UdpSocket, process::Command, time::Duration};

fn with(site: &Site, authorization: &str) -> Answer {
    let header =
        if authorization.is_empty() { String::new() } else { format!("authorization: {authorization}\r\n") };
    ask(site.door, &request("GET", "/v1/branches", &header, ""))
}

/// What may not differ between refusals.
fn essence(answer: &Answer) -> (u16, Option<String>, String) {
    (answer.status, answer.header("www-authenticate").map(str::to_owned), answer.body.clone())
}

/// H1, H9.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_shows_no_token_that_is_alive_is_told_the_same_whatever_is_wrong() {
    let mut site = Site::open().await;
    let ci = site.token("ci", Role::User, &[]).await;
    let gone = site.token("gone", Role::User, &[]).await;
    let soon = clock::utc_now().checked_add(SignedDuration::from_millis(300)).unwrap();
    let old = site
        .make(CreateToken { name: "old".to_owned(), expires_at: Some(soon), ..CreateToken::default() })
        .await;
    assert_eq!(gone.get("/v1/branches").status, 200);
    site.connection.revoke_token("gone").await.unwrap();
    let nothing = with(&site, "");
    assert_eq!(essence(&nothing).0, 401);
    assert_eq!(nothing.header("www-authenticate"), Some("Bearer realm=\"duramen\""), "no Basic: see docs");
    assert_eq!(nothing.code(), "not_authenticated");
    until("the token's time is over", async || old.get("/v1/branches").status == 401).await;
    let nobody = format!("Bearer nobody:{}", ci.secret);
    for wrong in
        [old.bearer.as_str(), &gone.bearer, &nobody, "Bearer ci:", "Bearer ci", "Basic !", "Digest x"]
    {
        assert_eq!(essence(&with(&site, wrong)), essence(&nothing), "{wrong}");
    }
    let two = format!("{}\r\nauthorization: {}", ci.bearer, ci.bearer);
    assert_eq!(essence(&with(&site, &two)), essence(&nothing));
    // What is open to anybody needs none, and a wrong one is still wrong.
    for path in ["/healthz", "/readyz", "/version", "/openapi.json"] {
        assert_eq!(ask(site.door, &request("GET", path, "", "")).status, 200, "{path}");
        assert_eq!(
            ask(site.door, &request("GET", path, "authorization: Bearer ci:x\r\n", "")).status,
            401,
            "{path}"
        );
    }
    let basic = {
        let pair =
            Command::new("sh").args(["-c", &format!("printf %s 'ci:{}' | base64 -w0", ci.secret)]).output();
        format!("Basic {}", String::from_utf8(pair.unwrap().stdout).unwrap())
    };
    assert_eq!(with(&site, &basic).status, 200);
    let new = site.connection.rotate_token("ci").await.unwrap();
    assert_eq!(with(&site, &basic).status, 401, "the old secret is no longer good");
    assert_eq!(with(&site, &format!("Bearer ci:{}", new.secret)).status, 200);
}

/// H6: wrong secrets are counted, and do not keep the right one out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_many_wrong_secrets_are_refused_and_the_right_one_still_goes_in() {
    let mut site = Site::open().await;
    let ci = site.token("ci", Role::User, &[]).await;
    let statuses: Vec<u16> = (0..40).map(|_| with(&site, "Bearer ci:guess").status).collect();
    assert_eq!(statuses[0], 401);
    assert!(statuses.contains(&429), "{statuses:?}");
    let refused = loop {
        let answer = with(&site, "Bearer ci:guess");
        if answer.status == 429 {
            break answer;
        }
    };
    assert_eq!((refused.code().as_str(), refused.header("retry-after")), ("too_many_failures", Some("1")));
    assert_eq!(ci.get("/v1/branches").status, 200);
}

/// H9: what a request does ends with the token by which it came.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_under_way_ends_with_its_token() {
    let mut site = Site::open().await;
    site.add_source("app").await;
    let ci = site.token("ci", Role::User, &[]).await;
    assert_eq!(ci.post("/v1/branches", r#"{"name": "b"}"#).status, 200);
    let begin = clock::now();
    let bearer = Who { door: ci.door, id: ci.id, bearer: ci.bearer, secret: ci.secret };
    let sleeping = tokio::task::spawn_blocking(move || {
        bearer.post("/v1/branches/b/query", r#"{"sql": "select pg_sleep(25)"}"#).status
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    site.connection.revoke_token("ci").await.unwrap();
    assert_eq!(sleeping.await.unwrap(), 401);
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
}

/// R4, R5: an address of this machine that is not loopback is as far away as any other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn from_elsewhere_there_is_no_way_without_tls_and_no_data_that_is_not_masked() {
    let mut site = Site::listening("0.0.0.0:0", &[]).await;
    site.add_source("app").await;
    let ci = site.token("ci", Role::User, &[]).await;
    let port = site.door.port();
    let certificate = site.home.path().join("doors/certificate.pem");
    let fetch = |url: &str, more: &[&str]| {
        let mut curl = Command::new("curl");
        curl.args(["-sS", "--max-time", "20", "--cacert"]).arg(&certificate);
        if !more.contains(&"-H") {
            curl.args(["-H", &format!("authorization: {}", ci.bearer)]);
        }
        let out = curl.args(more).arg(url).output().unwrap();
        String::from_utf8(out.stdout).unwrap()
    };
    let here = format!("https://localhost:{port}");
    let created = fetch(&format!("{here}/v1/branches"), &["-d", r#"{"name":"b"}"#]);
    let created: serde_json::Value = serde_json::from_str(&created).unwrap();
    let router = site.connection.doors().await.unwrap().postgres.unwrap().address.port();
    assert_eq!(created["url"], json!(format!("postgresql://ci@localhost:{router}/b")), "H5: no secret");
    let query = ["-d", r#"{"sql":"select x from t order by x"}"#];
    let seen = fetch(&format!("{here}/v1/branches/b/query"), &query);
    assert!(seen.contains("[[1],[2]]"), "{seen}");

    // Nothing is sent: it only says by which address the machine would go elsewhere.
    let outward = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
        socket.connect("192.0.2.1:9")?;
        socket.local_addr()
    });
    let Ok(outward) = outward.map(|address| address.ip()) else {
        eprintln!("this machine has no address but loopback, so nobody can come from elsewhere");
        return;
    };
    let plain = fetch(&format!("http://{outward}:{port}/v1/branches"), &[]);
    assert!(plain.starts_with("connections from other machines need TLS"), "R4: {plain}");
    // The certificate is for this machine's names, so it is not looked at here.
    let there = format!("https://{outward}:{port}/v1/branches");
    assert!(fetch(&there, &["-k"]).contains("\"name\":\"b\""));
    let refused = fetch(&format!("{there}/b/query"), &["-k", query[0], query[1]]);
    assert!(refused.contains("not_masked"), "R5: {refused}");
    let admin = site.token("admin", Role::Admin, &["app"]).await;
    let rows = format!("https://{outward}:{port}/v1/sources/app/data-diff?from=1&to=1");
    let refused = fetch(&rows, &["-k", "-H", &format!("authorization: {}", admin.bearer)]);
    assert!(refused.contains("not_masked"), "G13: {refused}");
    // Nor what is attached, whoever asks and whether the database answers or not.
    let wanted = AddAttachment {
        name: "shop".to_owned(),
        kind: AttachmentKind::Functions,
        at: "postgresql://127.0.0.1:1/shop".to_owned(),
    };
    site.connection.add_attachment(&wanted).await.unwrap();
    let boss = site.token("boss", Role::Admin, &[]).await;
    let authorization = format!("authorization: {}", boss.bearer);
    for path in ["functions", "instances", "instance?id=1a2b3c4d", "queues", "schedules"] {
        let path = format!("https://{outward}:{port}/v1/attachments/shop/{path}");
        let refused = fetch(&path, &["-k", "-H", &authorization]);
        assert!(refused.contains("not_masked"), "R5: {path}: {refused}");
    }
    let control = format!("https://{outward}:{port}/v1/attachments/shop/instance/control");
    let pause = r#"{"id":"1a2b3c4d","action":"pause"}"#;
    let refused = fetch(&control, &["-k", "-H", &authorization, "-d", pause]);
    assert!(refused.contains("not_masked"), "R5: {refused}");
}
