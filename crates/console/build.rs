//! The files of `web/dist` are part of the program, so it is built anew when there are others.

use std::path::Path;

fn main() {
    // `make web` touches this file, because cargo takes a folder that is not there for one that changed each time.
    println!("cargo:rerun-if-changed=build.rs");
    let dist = Path::new("../../web/dist");
    if dist.is_dir() {
        println!("cargo:rerun-if-changed={}", dist.display());
    }
}
