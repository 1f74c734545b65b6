//! How ssh is started.

use std::path::PathBuf;
use std::process::Stdio;

use tokio::process::Command;

use crate::address::Address;

/// What is always so, whatever a configuration says: nobody is asked for anything, an unknown or changed key of a host is
/// refused, nothing is forwarded, and a connection that carries nothing is noticed after 15 s.
const ALWAYS: &[&str] = &[
    "BatchMode=yes",
    "StrictHostKeyChecking=yes",
    "ConnectTimeout=10",
    "ConnectionAttempts=1",
    "ServerAliveInterval=5",
    "ServerAliveCountMax=3",
    "TCPKeepAlive=yes",
    "ClearAllForwardings=yes",
    "ForwardAgent=no",
    "ForwardX11=no",
    "PermitLocalCommand=no",
    "ControlMaster=no",
    "ControlPath=none",
    "RequestTTY=no",
    "EscapeChar=none",
];

/// The ssh of this machine.
#[derive(Debug, Clone, Default)]
pub struct Ssh {
    config: Option<PathBuf>,
}

impl Ssh {
    /// With the user's own configuration.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// With another configuration file in its place (`ssh -F`).
    #[must_use]
    pub fn with_config(config: Option<PathBuf>) -> Self {
        Self { config }
    }

    /// A command that runs a line of the shell on a host. Its standard input, output and errors are pipes.
    #[must_use]
    pub fn command(&self, address: &Address, line: &str) -> Command {
        let mut command = Command::new("ssh");
        if let Some(config) = &self.config {
            command.arg("-F").arg(config);
        }
        command.arg("-T");
        for option in ALWAYS {
            command.args(["-o", option]);
        }
        if let Some(user) = address.user() {
            command.args(["-l", user]);
        }
        if let Some(port) = address.port() {
            command.args(["-p", &port.to_string()]);
        }
        command.args(["--", address.host(), line]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // What interrupts this process must not interrupt it: it ends with its input.
        command.process_group(0);
        command
    }
}

/// A word for a shell, whatever is in it.
#[must_use]
pub fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn a_word_is_one_word_whatever_is_in_it() {
        for word in ["", "a b", "it's", "'; touch x; '", "$(id)`id`\\\n*?~!#", "-n", "\u{e4}\"\t"] {
            let script = format!("printf '%s' {}", quoted(word));
            let said = std::process::Command::new("/bin/sh").args(["-c", &script]).output().unwrap();
            assert_eq!(said.stdout, word.as_bytes(), "{word:?}");
        }
    }
}
