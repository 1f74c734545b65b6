//! A data directory belongs to the servers' user: whoever acts in his name can put there what he likes, and nothing that
//! is done with more rights than his may follow it. Run as root; as another user there are no more rights than his.

use duramen_postgres::{Cluster, Installation, ServerUser};
use std::{
    fs,
    os::unix::fs::{symlink, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};

/// A data directory, and a file beside it that belongs to whoever runs the test.
struct Scene {
    _dir: tempfile::TempDir,
    data: PathBuf,
    ours: PathBuf,
    cluster: Cluster,
    user: ServerUser,
}

impl Scene {
    fn new() -> Scene {
        let dir = tempfile::Builder::new().prefix("dm-").tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let user = ServerUser::current().unwrap();
        let installation = Installation::choose(Path::new("/nonexistent"), None).unwrap();
        let data = dir.path().join("data");
        fs::create_dir(&data).unwrap();
        user.own(&data).unwrap();
        let ours = dir.path().join("ours");
        fs::write(&ours, "kept").unwrap();
        fs::set_permissions(&ours, fs::Permissions::from_mode(0o640)).unwrap();
        let cluster = Cluster::new(installation, &data, user.clone());
        Scene { _dir: dir, data, ours, cluster, user }
    }

    fn check_ours(&self) {
        let metadata = fs::metadata(&self.ours).unwrap();
        assert_eq!(fs::read_to_string(&self.ours).unwrap(), "kept");
        assert_eq!(metadata.mode() & 0o777, 0o640);
        assert_eq!(metadata.uid(), nix::unistd::geteuid().as_raw());
    }
}

#[test]
fn a_link_where_a_file_is_written_is_replaced_and_not_followed() {
    let scene = Scene::new();
    for place in ["pg_hba.conf", "pg_hba.conf.duramen-new"] {
        symlink(&scene.ours, scene.data.join(place)).unwrap();
    }
    scene.cluster.write_file("pg_hba.conf", "local all all reject\n").unwrap();
    scene.check_ours();
    let written = scene.data.join("pg_hba.conf");
    let metadata = fs::symlink_metadata(&written).unwrap();
    assert!(metadata.is_file(), "{metadata:?}");
    assert_eq!(metadata.mode() & 0o777, 0o600);
    assert_eq!(metadata.uid(), scene.user.uid());
    assert_eq!(fs::read_to_string(&written).unwrap(), "local all all reject\n");
}

#[test]
fn a_file_reached_through_a_link_is_not_given_away() {
    let scene = Scene::new();
    let link = scene.data.join("link");
    symlink(&scene.ours, &link).unwrap();
    scene.user.own(&link).unwrap();
    scene.check_ours();
    assert_eq!(fs::symlink_metadata(&link).unwrap().uid(), scene.user.uid());
}
