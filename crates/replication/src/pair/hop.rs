//! A hop of TCP between the two servers of a pair of our own, in a network namespace of its own, on which packets can be
//! lost.
//!
//! The servers listen on sockets of the file system, on which nothing is lost. Two `socat` carry what comes to a socket
//! over the loopback device of a namespace to the other server's socket; rules of nftables in that namespace drop what
//! they draw by chance. Nobody else is in the namespace, and it goes with the processes in it: nothing of the machine's
//! own network is touched. (`netem`, which does the same, is not in every kernel.)
//!
//! Only root can do that. Whatever way this process ends, the guardian ends the hop, and so its namespace.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use duramen_postgres::{Guardian, SOCKET_PORT};

/// The folder of its socket.
pub(super) const FOLDER: &str = "n";
/// Carries what comes to the socket `$2/$4` of the folder $1 to the socket `$3/$4`, through a namespace. Says so when it
/// does. All of it is one group of processes.
const CARRY: &str = r#"
    trap '' PIPE
    cd "$1" || exit 1
    ip link set lo up || exit 1
    socat -t 60 "TCP4-LISTEN:5432,bind=127.0.0.1,fork,nodelay" "UNIX-CONNECT:$3/$4" </dev/null >/dev/null &
    until grep -q ":1538 00000000:0000 0A" /proc/net/tcp; do
        kill -0 $! || exit 1
        sleep 0.01
    done
    socat -t 60 "UNIX-LISTEN:$2/$4,fork,mode=777" "TCP4:127.0.0.1:5432,nodelay" </dev/null >/dev/null &
    until [ -S "$2/$4" ]; do
        kill -0 $! || exit 1
        sleep 0.01
    done
    echo carried
    read -r _
    trap '' TERM
    kill -TERM 0
    wait
"#;
/// Loses $2 of 100 packets in each direction in the namespace of the process $1, until the end of its input.
const LOSE: &str = r#"
    trap '' PIPE
    exec 9< "/proc/$1/ns/net" || exit 1
    inside() { nsenter --net=/proc/self/fd/9 "$@"; }
    inside nft "table inet duramen { chain lossy {
        type filter hook input priority 0;
        tcp dport 5432 numgen random mod 100 < $2 counter drop;
        tcp sport 5432 numgen random mod 100 < $2 counter drop;
    }; }" || exit 1
    echo lossy
    read -r _
    inside nft delete table inet duramen
"#;
/// The programs that this takes, with the packages of Debian that they are in.
pub(super) const PROGRAMS: [(&str, &str); 5] = [
    ("unshare", "util-linux"),
    ("nsenter", "util-linux"),
    ("ip", "iproute2"),
    ("nft", "nftables"),
    ("socat", "socat"),
];
/// It carries, or loses, within this.
const LIMIT: Duration = Duration::from_secs(20);

/// The hop. When this is dropped it is gone.
pub(super) struct Hop {
    guardian: Guardian,
}

impl Hop {
    /// Makes it in the folder of a pair: what connects to the socket in [`FOLDER`] comes out at the one in `upstream`, a
    /// name in the same folder. Blocks.
    pub(super) fn make(pair: &Path, upstream: &str) -> Result<Self, String> {
        let socket = format!(".s.PGSQL.{SOCKET_PORT}");
        let folder = pair.join(FOLDER);
        fs::create_dir(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
        let mut command = Command::new("unshare");
        command.env("PATH", super::disk::search());
        command
            .args(["--net", "/bin/sh", "-c", CARRY, "guardian"])
            .arg(pair)
            .args([FOLDER, upstream, &socket]);
        let guardian = Guardian::start_watching(&mut command, "carried", LIMIT).map_err(|error| {
            format!("cannot carry the connection of the standby through a network namespace: {error}")
        })?;
        Ok(Self { guardian })
    }

    /// Loses so many of 100 packets in each direction until what this returns is dropped. Blocks.
    pub(super) fn lose(&self, percent: u32) -> Result<Guardian, String> {
        let mut command = Command::new("/bin/sh");
        command.env("PATH", super::disk::search());
        command.args(["-c", LOSE, "guardian"]).arg(self.guardian.id().to_string()).arg(percent.to_string());
        Guardian::start_watching(&mut command, "lossy", LIMIT)
            .map_err(|error| format!("cannot lose packets by rules of nftables: {error}"))
    }
}
