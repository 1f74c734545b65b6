//! Other machines, reached by ssh. Whatever is started there ends with the process that started it, however that ends.

mod address;
mod host;
mod ssh;

pub use address::{Address, AddressError};
pub use host::{Found, Host, HostError};
pub use ssh::{quoted, Ssh};
