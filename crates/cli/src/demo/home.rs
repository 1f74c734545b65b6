//! The home directory that the demo works in.

use crate::{failure::Failure, home, progress};
use duramen_postgres::PACKAGES_DIR;
use duramen_server::lock::HomeLock;
use std::path::{Path, PathBuf};

/// The demo's home directory, below the real one.
pub(super) struct DemoHome {
    pub(super) dir: PathBuf,
    /// The real home, if it was not there before.
    made: Option<PathBuf>,
}

impl DemoHome {
    pub(super) async fn make(home: &Path) -> Result<DemoHome, Failure> {
        let dir = home.join("demo");
        let made = (!home.exists()).then(|| home.to_owned());
        let _lock = HomeLock::acquire(&dir)?;
        // What a demo that was killed has left.
        home::clear(&dir).await?;
        let packages = dir.join(PACKAGES_DIR);
        if home.join(PACKAGES_DIR).is_dir() && packages.symlink_metadata().is_err() {
            let link = || std::os::unix::fs::symlink(home.join(PACKAGES_DIR), &packages);
            link().map_err(Failure::io("link", &packages))?;
        }
        Ok(DemoHome { dir, made })
    }

    pub(super) async fn remove(self) -> Result<(), Failure> {
        let _lock = HomeLock::acquire(&self.dir)?;
        progress::during("clearing the demo's home", home::clear(&self.dir)).await?;
        std::fs::remove_dir_all(&self.dir).map_err(Failure::io("remove", &self.dir))?;
        if let Some(home) = self.made {
            // Not empty any more: somebody else uses it by now.
            let _ = std::fs::remove_dir(home);
        }
        Ok(())
    }
}
