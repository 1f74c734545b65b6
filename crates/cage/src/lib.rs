//! One way to run a program shut in.
//!
//! What runs in a [`Cage`] has no network, sees the machine's files read-only and those of a hidden directory not at
//! all, writes only where it is allowed to, and gains no rights by programs that are set-uid. [bubblewrap]
//! sets up the namespaces. The program sees only its own processes, and when it exits, everything it started is killed.
//!
//! ```no_run
//! use duramen_cage::{Cage, Walls};
//! use std::path::Path;
//!
//! let cage = Cage::find()?;
//! let walls = Walls::new().hide("/srv").writable("/srv/work");
//! let status = cage.command(Path::new("/usr/bin/make"), &walls).arg("test").status()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [bubblewrap]: https://github.com/containers/bubblewrap

mod cage;
mod walls;

pub use cage::{Cage, Unavailable};
pub use walls::Walls;
