//! A certificate is renewed while the doors are open.

use super::client::Site;
use crate::support::until;
use rustix::process::{kill_process, Pid, Signal};
use std::{fs, time::Duration};

/// The fingerprints of the router's certificate and of the door's.
async fn fingerprints(site: &mut Site) -> [String; 2] {
    let doors = site.connection.doors().await.expect("the doors");
    [doors.postgres.expect("the router").fingerprint, doors.http.expect("the door").fingerprint]
}

/// What a client that connects now is shown.
fn shown(site: &Site) -> String {
    let command = format!(
        "openssl s_client -connect {} </dev/null 2>/dev/null | openssl x509 -noout -fingerprint -sha256",
        site.door
    );
    let output = std::process::Command::new("sh").args(["-c", &command]).output().expect("openssl");
    let text = String::from_utf8(output.stdout).expect("text");
    text.trim().split_once('=').map(|(_, digits)| digits.to_owned()).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hang_up_has_certificates_read_anew_and_one_that_is_unfit_changes_nothing() {
    let mut site = Site::open().await;
    let pid = Pid::from_raw(i32::try_from(site.daemon.pid()).unwrap()).unwrap();
    let first = fingerprints(&mut site).await;
    assert_eq!(shown(&site), first[1]);
    let doors = site.home.path().join("doors");
    // Without one, another one is made: as if it were renewed.
    for name in ["certificate.pem", "key.pem"] {
        fs::remove_file(doors.join(name)).expect("one of its own");
    }
    kill_process(pid, Signal::HUP).expect("the signal");
    until("both are new", async || {
        let now = fingerprints(&mut site).await;
        now[0] == now[1] && now != first
    })
    .await;
    let second = fingerprints(&mut site).await;
    assert_eq!(shown(&site), second[1]);
    fs::write(doors.join("certificate.pem"), "not a certificate").expect("the file");
    kill_process(pid, Signal::HUP).expect("the signal");
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(fingerprints(&mut site).await, second);
    assert_eq!(shown(&site), second[1]);
}
