//! Secrets that are replaced in the files of a cluster, as a server sees them afterwards.

use duramen_postgres::{
    Cluster, Installation, Secret, ServerUser, Session, SessionError, Settings, StopMode, StoredText,
};
use std::{
    fs,
    num::NonZeroU32,
    os::unix::fs::{symlink, FileExt, PermissionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

const LIMIT: Duration = Duration::from_secs(30);
const AUTHID: &str = "global/1260";
const ROUNDS: NonZeroU32 = NonZeroU32::new(4096).unwrap();

/// A cluster that is stopped, in which `holder` has the verifier `text`.
struct Scene {
    dir: tempfile::TempDir,
    data: PathBuf,
    cluster: Cluster,
    settings: Settings,
    text: String,
    checksums: bool,
}

impl Scene {
    fn new(checksums: bool) -> Scene {
        let dir = tempfile::Builder::new().prefix("dm-").tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let installation = Installation::choose(Path::new("/nonexistent"), None).unwrap();
        let settings = Settings::minimal(installation.version.major);
        let data = dir.path().join("data");
        let cluster = Cluster::new(installation, &data, ServerUser::current().unwrap());
        cluster.init("admin", true).unwrap();
        let change = if checksums { "--enable" } else { "--disable" };
        // Says so and fails if it is that way already.
        let _ = cluster.run("pg_checksums", &[change.to_owned(), "-D".to_owned(), data_text(&data)], None);
        let text = Secret::random().verifier(ROUNDS);
        let statements = format!("create role holder login password '{text}';\n");
        cluster.single_user("template1", &statements, &settings).unwrap();
        cluster.write_file("pg_hba.conf", "local all all scram-sha-256\n").unwrap();
        Scene { dir, data, cluster, settings, text, checksums }
    }

    fn find(&self) -> std::io::Result<Option<StoredText>> {
        StoredText::find(&self.data, AUTHID, &self.text, self.checksums)
    }

    /// Whether a server lets `holder` in by this secret.
    async fn enters(&self, secret: &Secret) -> Result<(), SessionError> {
        let sockets = self.dir.path().join("s");
        let mut server = self.cluster.start(&sockets, &self.settings, LIMIT).unwrap();
        let entered = Session::connect(&sockets, "holder", secret, "template1", LIMIT).await;
        server.stop(StopMode::Fast, LIMIT).unwrap();
        entered.map(drop)
    }

    fn check_pages(&self) {
        let check = ["--check".to_owned(), "-D".to_owned(), data_text(&self.data)];
        self.cluster.run("pg_checksums", &check, None).expect("every page has its checksum");
    }
}

fn data_text(path: &Path) -> String {
    path.display().to_string()
}

#[tokio::test]
async fn a_server_takes_a_replaced_verifier_for_its_own() {
    for checksums in [true, false] {
        let scene = Scene::new(checksums);
        let place = scene.find().unwrap().expect("the verifier");
        let secret = Secret::random();
        assert!(place.replace(&scene.data, &secret.verifier(ROUNDS)).unwrap());
        if checksums {
            scene.check_pages();
        }
        scene.enters(&secret).await.unwrap_or_else(|error| panic!("checksums {checksums}: {error}"));
        let refused = scene.enters(&Secret::random()).await;
        assert!(matches!(refused, Err(SessionError::Server(_))), "{refused:?}");
        // It is another text now.
        assert!(!place.replace(&scene.data, &secret.verifier(ROUNDS)).unwrap());
        assert_eq!(scene.find().unwrap(), None);
    }
}

#[test]
fn a_page_that_is_not_what_it_was_is_left_alone() {
    let scene = Scene::new(true);
    let place = scene.find().unwrap().expect("the verifier");
    let file = scene.data.join(AUTHID);
    let before = fs::read(&file).unwrap();
    // One byte elsewhere in the page that the text lies in: its checksum no longer holds.
    let at = before.windows(scene.text.len()).position(|bytes| bytes == scene.text.as_bytes()).unwrap();
    let other = at as u64 / 8192 * 8192 + 8190;
    let opened = fs::OpenOptions::new().write(true).open(&file).unwrap();
    opened.write_all_at(&[before[usize::try_from(other).unwrap()] ^ 1], other).unwrap();
    let damaged = fs::read(&file).unwrap();
    assert!(!place.replace(&scene.data, &Secret::random().verifier(ROUNDS)).unwrap());
    assert_eq!(fs::read(&file).unwrap(), damaged);

    opened.write_all_at(&before, 0).unwrap();
    assert!(place.replace(&scene.data, "short").is_err());
    opened.write_all_at(b"?", at as u64).unwrap();
    assert!(!place.replace(&scene.data, &Secret::random().verifier(ROUNDS)).unwrap());
}

#[test]
fn a_link_in_the_data_directory_is_not_followed() {
    let scene = Scene::new(true);
    let place = scene.find().unwrap().expect("the verifier");
    let aside = scene.dir.path().join("aside");
    let file = scene.data.join(AUTHID);
    fs::rename(&file, &aside).unwrap();
    symlink(&aside, &file).unwrap();
    let before = fs::read(&aside).unwrap();
    let verifier = Secret::random().verifier(ROUNDS);
    place.replace(&scene.data, &verifier).expect_err("a link to the file");
    fs::remove_file(&file).unwrap();
    fs::rename(scene.data.join("global"), scene.dir.path().join("global")).unwrap();
    symlink(scene.dir.path().join("global"), scene.data.join("global")).unwrap();
    fs::copy(&aside, scene.dir.path().join("global/1260")).unwrap();
    place.replace(&scene.data, &verifier).expect_err("a link to its directory");
    assert_eq!(fs::read(scene.dir.path().join("global/1260")).unwrap(), before);
}
