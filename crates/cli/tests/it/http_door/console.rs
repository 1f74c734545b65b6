//! The browser console at the door: who is signed in, by what, and what no other page can do with it. The invariants W1 to W10 are in
//! `docs/design/console.md`.

use super::client::{ask, dial, request, Answer, Site};
use crate::support::{self, duramen, text, until};
use duramen_api::{route::ENDPOINTS, token::Role};
use serde_json::{json, Value};
use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::Command,
};

const MARK: &str = "x-duramen-console: 1\r\n";

/// A browser that is signed in.
struct Browser {
    door: SocketAddr,
    secret: String,
}

impl Browser {
    /// The header that it sends along.
    fn cookie(&self) -> String {
        format!("cookie: duramen-{}={}\r\n", self.door.port(), self.secret)
    }

    fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> Answer {
        ask(self.door, &request(method, path, &format!("{}{headers}", self.cookie()), body))
    }

    fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, "sec-fetch-site: same-origin\r\n", "")
    }

    fn is_in(&self) -> bool {
        self.get("/v1/session").status == 200
    }
}

fn sign_in(door: SocketAddr, headers: &str, body: &Value) -> Answer {
    ask(door, &request("POST", "/v1/session", headers, &body.to_string()))
}

/// The secret in the cookie that a reply sets.
fn secret_of(answer: &Answer) -> String {
    assert_eq!((answer.status, answer.body.as_str()), (204, ""), "{answer:?}");
    let cookie = answer.header("set-cookie").expect("a cookie");
    let (_, rest) = cookie.split_once('=').expect("a value");
    rest.split(';').next().expect("a value").to_owned()
}

fn by_secret(site: &Site, name: &str, secret: &str) -> Browser {
    let answer = sign_in(site.door, MARK, &json!({ "name": name, "secret": secret }));
    Browser { door: site.door, secret: secret_of(&answer) }
}

/// The link that `duramen console` prints.
fn link(home: &Path, arguments: &[&str]) -> (String, Value) {
    let output = duramen(home, &[&["console", "--json"], arguments].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let url = said["url"].as_str().expect("an address");
    (url.split_once("#link=").expect("a link").1.to_owned(), said)
}

/// W1, W2, W7.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_signs_in_may_what_the_token_may_and_no_more() {
    let mut site = Site::open().await;
    site.add_source("app").await;
    let who = site.token("eye", Role::Viewer, &["app"]).await;
    let answer = sign_in(site.door, MARK, &json!({ "name": "eye", "secret": who.secret }));
    let cookie = answer.header("set-cookie").expect("a cookie").to_owned();
    let secret = secret_of(&answer);
    let port = site.door.port();
    let expected = format!("duramen-{port}={secret}; Path=/; Max-Age=604800; HttpOnly; SameSite=Strict");
    assert_eq!(cookie, expected);
    let browser = Browser { door: site.door, secret };
    let view = browser.get("/v1/session");
    assert!(!view.body.contains(&browser.secret) && !view.body.contains(&who.secret));
    let view = view.json();
    assert_eq!((&view["token"]["name"], &view["token"]["role"]), (&json!("eye"), &json!("viewer")));
    assert!(view["ends_at"].is_string() && view["signed_in_at"].is_string());

    // What is listed is what is allowed, and nothing else is. Nothing is changed by it, for a viewer may change nothing.
    let listed: Vec<&str> =
        view["operations"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    for endpoint in ENDPOINTS {
        let name = endpoint.op.name();
        if ["SignIn", "SignOut", "Events"].contains(&name) {
            assert!(name == "Events" || listed.contains(&name));
            continue;
        }
        let path = endpoint.path.replace("{name}", "app");
        let answer = browser.ask(endpoint.method.as_str(), &path, MARK, "");
        let is_refused = answer.status == 403 && answer.code() == "not_allowed";
        assert_eq!(listed.contains(&name), !is_refused, "{name}: {answer:?}");
    }

    // With its token it is the same, but that it has no session.
    let own = who.get("/v1/session").json();
    assert_eq!((&own["operations"], own.get("signed_in_at")), (&view["operations"], None));
    assert_eq!(who.ask("DELETE", "/v1/session", "", "").code(), "no_session");
    let nobody = ask(site.door, &request("GET", "/v1/session", "", ""));
    assert_eq!(nobody.status, 401);

    let out = browser.ask("DELETE", "/v1/session", MARK, "");
    let taken = format!("duramen-{port}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict");
    assert_eq!((out.status, out.header("set-cookie")), (204, Some(taken.as_str())));
    assert!(!browser.is_in());
    assert_eq!(browser.get("/healthz").status, 200, "a cookie that outlived its session is nothing");
    for event in ["signed_in", "signed_out"] {
        let entries = site.audited(event);
        assert_eq!((entries.len(), &entries[0]["token"]), (1, &json!(who.id)), "H4: {event}");
    }
}

/// W3.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_other_page_acts_for_a_session() {
    let mut site = Site::open().await;
    site.add_source("app").await;
    let ci = site.token("ci", Role::User, &[]).await;
    let other = site.token("other", Role::Viewer, &[]).await;
    let browser = by_secret(&site, "ci", &ci.secret);
    let port = site.door.port();
    let create = |headers: &str| browser.ask("POST", "/v1/branches", headers, r#"{"name": "b"}"#);
    let own = format!("{MARK}origin: http://localhost\r\nsec-fetch-site: same-origin\r\n");
    for (what, headers, code) in [
        ("no header", String::new(), "no_console_header"),
        ("another header", "x-duramen-console: 0\r\n".to_owned(), "no_console_header"),
        ("another site", format!("{MARK}sec-fetch-site: cross-site\r\n"), "cross_origin"),
        ("another port of it", format!("{MARK}sec-fetch-site: same-site\r\n"), "cross_origin"),
        ("nobody's page", format!("{MARK}sec-fetch-site: none\r\n"), "cross_origin"),
        ("another origin", format!("{MARK}origin: http://evil.example\r\n"), "cross_origin"),
        ("another port", format!("{MARK}origin: http://localhost:{}\r\n", port ^ 1), "cross_origin"),
        ("no origin", format!("{MARK}origin: null\r\n"), "cross_origin"),
    ] {
        let refused = create(&headers);
        assert_eq!((refused.status, refused.code().as_str()), (403, code), "{what}");
    }
    for site in ["cross-site", "same-site"] {
        let read = browser.ask("GET", "/v1/branches", &format!("sec-fetch-site: {site}\r\n"), "");
        assert_eq!(read.code(), "cross_origin", "{site}");
    }
    assert_eq!(browser.get("/v1/branches").body, "[]", "nothing of it happened");
    assert_eq!(create(&own).status, 200);
    assert_eq!(browser.ask("DELETE", "/v1/branches/b", "", "").code(), "no_console_header");
    // A preflight is answered with nothing that a browser would take for a permission.
    let preflight = browser.ask("OPTIONS", "/v1/branches", "access-control-request-method: POST\r\n", "");
    assert!(preflight.status >= 400 && preflight.header("access-control-allow-origin").is_none());

    // Who shows a token is its holder, whatever cookie comes along, and needs no header.
    let with = |bearer: &str| browser.ask("GET", "/v1/session", &format!("authorization: {bearer}\r\n"), "");
    assert_eq!(with(&other.bearer).json()["token"]["name"], json!("other"));
    assert_eq!(with("Bearer ci:wrong").status, 401, "it does not fall back to the cookie");
    assert_eq!(with("Bearer").status, 401);
    // A name that leads to this machine (DNS rebinding) is not the door's.
    let rebound = format!(
        "GET /v1/session HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n{}\r\n",
        browser.cookie()
    );
    assert_eq!(ask(site.door, &rebound).code(), "unknown_host");
    // Nor does a page sign somebody in as another one.
    let wanted = json!({ "name": "other", "secret": other.secret });
    assert_eq!(sign_in(site.door, "", &wanted).code(), "no_console_header");
    let elsewhere = format!("{MARK}sec-fetch-site: cross-site\r\n");
    assert_eq!(sign_in(site.door, &elsewhere, &wanted).code(), "cross_origin");
    // Two cookies of the name: nobody knows whose.
    let twice = format!("{}; duramen-{port}={}\r\n", browser.cookie().trim_end(), browser.secret);
    assert_eq!(ask(site.door, &request("GET", "/v1/session", &twice, "")).status, 401);
    assert!(browser.is_in());
}

/// H1, H6, W5.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_signs_in_once_and_what_is_wrong_is_told_the_same() {
    let mut site = Site::open().await;
    let ci = site.token("ci", Role::User, &[]).await;
    let home = site.home.path();
    let (first, said) = link(&home, &[]);
    assert_eq!(said["url"], json!(format!("http://{}/#link={first}", site.door)));
    let name = said["token"].as_str().unwrap().to_owned();
    assert!(name.starts_with("console-") && name.len() == 14, "{name}");
    let taken = sign_in(site.door, MARK, &json!({ "link": first }));
    let browser = Browser { door: site.door, secret: secret_of(&taken) };
    let view = browser.get("/v1/session").json();
    assert_eq!((&view["token"]["role"], &view["token"]["sources"]), (&json!("admin"), &json!([])));
    assert!(view["token"]["expires_at"].is_string(), "it ends after 12 hours");
    let (second, said) = link(&home, &["--token", "ci"]);
    assert_eq!(said["token"], json!("ci"));
    let as_ci = sign_in(site.door, MARK, &json!({ "link": second }));
    let as_ci = Browser { door: site.door, secret: secret_of(&as_ci) };
    assert_eq!(as_ci.get("/v1/session").json()["token"]["name"], json!("ci"));

    let wrong = |body: Value| {
        let answer = sign_in(site.door, MARK, &body);
        (answer.status, answer.header("set-cookie").map(str::to_owned), answer.body)
    };
    let twice = wrong(json!({ "link": first }));
    assert_eq!((twice.0, &twice.1), (401, &None));
    for body in [
        json!({ "link": second }),
        json!({ "link": "" }),
        json!({ "link": format!("{second}x") }),
        json!({ "name": "ci", "secret": "x" }),
        json!({ "name": "nobody", "secret": ci.secret }),
        json!({ "name": "ci", "secret": "x".repeat(1000) }),
    ] {
        assert_eq!(wrong(body.clone()), twice, "{body}");
    }
    for body in [json!({}), json!({ "name": "ci" }), json!({ "link": "x", "name": "ci", "secret": "x" })] {
        assert_eq!(wrong(body).0, 400);
    }
    let statuses: Vec<_> = (0..40).map(|_| wrong(json!({ "link": "guess" })).0).collect();
    assert!(statuses.contains(&429), "H6: {statuses:?}");
    assert!(by_secret(&site, "ci", &ci.secret).is_in(), "the right one goes in all the same");

    let failed = duramen(&home, &["console", "--token", "nobody"]);
    assert!(text(&failed.stderr).contains("no token \"nobody\""), "{}", text(&failed.stderr));
    // Who may make links is on the machine, and no request that makes one comes again.
    let own = browser.ask("POST", "/v1/console/links", MARK, "");
    assert_eq!((own.status, own.code().as_str()), (403, "not_allowed"));
    let repeated = format!("{MARK}idempotency-key: k\r\n");
    assert_eq!(sign_in(site.door, &repeated, &json!({ "link": "x" })).code(), "bad_idempotency_key");

    // No log and no file has what signs somebody in.
    let mut files = vec![site.home.beside("log")];
    let mut folders = vec![home.join("doors"), home.join("audit")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path)
            } else {
                files.push(path)
            }
        }
    }
    assert!(files.iter().any(|file| file.ends_with("sessions.json")));
    for file in files {
        let bytes = fs::read(&file).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        for secret in [&first, &second, &browser.secret, &as_ci.secret, &ci.secret] {
            assert!(!text.contains(secret.as_str()), "W2: {}", file.display());
        }
    }
}

/// W1, H9.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_ends_with_its_tokens_secret_and_so_do_its_streams() {
    let mut site = Site::open().await;
    let boss = site.token("boss", Role::Admin, &[]).await;
    let follow = |browser: &Browser| {
        let mut stream = dial(browser.door);
        stream.write_all(request("GET", "/v1/events", &browser.cookie(), "").as_bytes()).unwrap();
        let mut lines = BufReader::new(stream);
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        assert!(line.contains("200"), "{line}");
        lines
    };
    let ended = |mut lines: BufReader<std::net::TcpStream>| {
        let mut line = String::new();
        while matches!(lines.read_line(&mut line), Ok(1..)) {}
    };
    let one = by_secret(&site, "boss", &boss.secret);
    let two = by_secret(&site, "boss", &boss.secret);
    let (first, second) = (follow(&one), follow(&two));
    assert_eq!(one.ask("DELETE", "/v1/session", MARK, "").status, 204);
    ended(first);
    assert!(two.is_in() && !one.is_in(), "the other one goes on");
    let new = site.connection.rotate_token("boss").await.unwrap();
    ended(second);
    assert!(!two.is_in());
    let three = by_secret(&site, "boss", &new.secret);
    let third = follow(&three);
    site.connection.revoke_token("boss").await.unwrap();
    ended(third);
    assert!(!three.is_in());
}

/// W2.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_daemon_knows_the_sessions_and_a_damaged_file_signs_everybody_out() {
    let mut site = Site::open().await;
    let ci = site.token("ci", Role::User, &[]).await;
    let mut browser = by_secret(&site, "ci", &ci.secret);
    let file = site.home.path().join("doors/sessions.json");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    site.again().await;
    browser.door = site.door;
    assert!(browser.is_in());
    let new = site.connection.rotate_token("ci").await.unwrap();
    site.again().await;
    browser.door = site.door;
    assert!(!browser.is_in(), "what its token's old secret began is over for good");
    let mut browser = by_secret(&site, "ci", &new.secret);
    fs::write(&file, "{\"sessions\": [{").unwrap();
    site.again().await;
    browser.door = site.door;
    assert!(!browser.is_in());
    let log = fs::read_to_string(site.home.beside("log")).unwrap();
    assert!(log.contains("sessions.json is damaged") && log.contains("nobody is signed in"), "{log}");
    assert!(by_secret(&site, "ci", &new.secret).is_in(), "and everybody can again");
}

/// W4, W6, W9, W10.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_is_everybodys_and_leads_nowhere_else() {
    let site = Site::open().await;
    let get = |path: &str, headers: &str| ask(site.door, &request("GET", path, headers, ""));
    let page = get("/", "");
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    let policy = page.header("content-security-policy").expect("a policy");
    assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{policy}");
    for (name, value) in [
        ("x-frame-options", "DENY"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("x-content-type-options", "nosniff"),
        ("cache-control", "no-cache"),
    ] {
        assert_eq!(page.header(name), Some(value), "{name}");
    }
    assert!(page.header("permissions-policy").is_some());
    let tag = page.header("etag").expect("a tag").to_owned();
    let again = get("/", &format!("if-none-match: {tag}\r\n"));
    assert_eq!((again.status, again.body.as_str()), (304, ""));
    let head = ask(site.door, &request("HEAD", "/", "", ""));
    assert_eq!((head.status, head.body.as_str(), head.header("etag")), (200, "", Some(tag.as_str())));
    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        assert_eq!(ask(site.door, &request(method, "/", "", "")).status, 405, "{method}");
    }
    // A cookie that is nothing any more keeps nobody from the page on which he signs in.
    let stale = format!("cookie: duramen-{}=x\r\nsec-fetch-site: cross-site\r\n", site.door.port());
    assert_eq!(get("/", &stale).status, 200);
    for path in duramen_console::embedded().paths() {
        assert_eq!(get(path, "").status, 200, "{path}");
    }
    for path in [
        "/assets/../../etc/passwd",
        "/../../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/assets/..%2f..%2fetc/passwd",
        "/assets/",
        "/assets",
        "/index.html/",
        "//evil.example/",
        "/\\evil.example",
        "/?next=https://evil.example",
        "/v1/session?next=//evil.example",
        "/.git/config",
        "/doors/tokens.json",
    ] {
        let answer = get(path, "");
        assert!(answer.header("location").is_none() && !(300..400).contains(&answer.status), "W6: {path}");
        assert!(!answer.body.contains("root:"), "{path}");
        let is_page = path.starts_with("/?");
        assert!(is_page || [400, 401, 404].contains(&answer.status), "{path}: {answer:?}");
    }
    let rebound = "GET / HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n";
    assert_eq!(ask(site.door, rebound).code(), "unknown_host");
    assert_eq!(get("/", "origin: https://evil.example\r\n").code(), "cross_origin");
    until("the daemon has said where the console is", async || {
        let log = fs::read_to_string(site.home.beside("log")).unwrap_or_default();
        log.contains(&format!("the console is at http://{}/", site.door))
    })
    .await;
}

/// W2: over TLS the cookie is for this host alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_tls_the_cookie_is_of_this_host_and_of_tls() {
    let mut site = Site::open().await;
    let ci = site.token("ci", Role::User, &[]).await;
    let port = site.door.port();
    let certificate = site.home.path().join("doors/certificate.pem");
    let fetch = |arguments: &[&str]| {
        let mut curl = Command::new("curl");
        curl.args(["-sS", "-i", "--max-time", "20", "--cacert"]).arg(&certificate).args(arguments);
        let output = curl.arg(format!("https://localhost:{port}/v1/session")).output().expect("curl");
        text(&output.stdout).to_owned()
    };
    let body = json!({ "name": "ci", "secret": ci.secret }).to_string();
    let said = fetch(&["-H", "x-duramen-console: 1", "-d", &body]);
    let cookie = said.lines().find_map(|line| line.strip_prefix("set-cookie: ")).expect("a cookie").trim();
    let start = format!("__Host-duramen-{port}=");
    let secret = cookie.strip_prefix(&start).and_then(|rest| rest.split(';').next()).expect("its name");
    let attributes = cookie.split_once("; ").unwrap().1;
    assert_eq!(attributes, "Path=/; Max-Age=604800; HttpOnly; SameSite=Strict; Secure");
    assert!(fetch(&["-H", &format!("cookie: {start}{secret}")]).contains("200 OK"));
    let plain = format!("duramen-{port}={secret}");
    assert!(fetch(&["-H", &format!("cookie: {plain}")]).contains("401 Unauthorized"), "another name");
    let marked = ["-H", "x-duramen-console: 1", "-X", "DELETE", "-H"];
    let own = format!("cookie: {start}{secret}");
    let downgraded = format!("origin: http://localhost:{port}");
    let refused = fetch(&[&marked[..], &[&own, "-H", &downgraded]].concat());
    assert!(refused.contains("cross_origin"), "{refused}");
    // Nor is it one where there is no TLS.
    let there = format!("cookie: {start}{secret}\r\n");
    assert_eq!(ask(site.door, &request("GET", "/v1/session", &there, "")).status, 401);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_browser_is_opened_by_a_file_and_not_by_an_argument() {
    let site = Site::open().await;
    let bin = site.home.beside("bin");
    fs::create_dir(&bin).unwrap();
    let seen = site.home.beside("seen");
    let script =
        format!("#!/bin/sh\n{{ echo \"$@\"; stat -c %a \"$1\"; cat \"$1\"; }} > {}\n", seen.display());
    support::install(&bin.join("xdg-open"), &script);
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    let run = |arguments: &[&str], display: &str| {
        let mut command = site.home.command(&[&["console"], arguments].concat());
        command.env("PATH", &path).env("DISPLAY", display).env_remove("WAYLAND_DISPLAY");
        let output = command.env("XDG_RUNTIME_DIR", site.home.path()).output().expect("it runs");
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout).to_owned()
    };
    run(&[], "");
    run(&["--no-open"], ":9");
    assert!(!seen.exists(), "there is no display, or none is wanted");
    let said = run(&[], ":9");
    let url = said.lines().next().expect("an address");
    let seen = fs::read_to_string(seen).expect("it was opened");
    let mut lines = seen.lines();
    let argument = lines.next().expect("an argument");
    assert!(!argument.contains("link") && argument.ends_with(".html"), "{argument}");
    assert_eq!(lines.next(), Some("600"));
    assert!(lines.next().is_some_and(|page| page.contains(url)), "{seen}");
    assert!(!Path::new(argument).exists(), "it is gone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_an_http_door_the_command_says_how_to_open_one() {
    let home = crate::support::Home::new();
    let daemon = home.serve().await;
    let output = home.run(&["console"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("duramen serve --http-listen 127.0.0.1:6433"), "{said}");
    daemon.stop().await.unwrap();
}
