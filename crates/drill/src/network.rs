//! Where nodes of a cluster are: network namespaces of their own, whose cables can be pulled, or the loopback interface.
//!
//! With namespaces there is a switch (a bridge) in a namespace that has no way out, and a node is a namespace with one cable
//! to it. Each is held by a process that works in the folder of the drill: when the last process of a namespace is gone, so is
//! the namespace, with its cable. So nothing has to be taken down, and nothing is seen from outside.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use duramen_base::clock;
use rustix::thread::{move_into_link_name_space, LinkNameSpaceType};
use std::os::fd::AsFd;

use crate::error::DrillError;

/// The most nodes.
pub const MOST: usize = 16;
/// A namespace is there within this.
const PATIENCE: Duration = Duration::from_secs(10);
/// The switch's address; nodes have those from 10 on.
const SWITCH: [u8; 4] = [10, 213, 0, 1];

/// A place for nodes.
#[derive(Debug)]
pub struct Network {
    /// Empty on the loopback interface.
    spaces: Vec<Space>,
    nodes: usize,
}

/// A namespace, held by a process that waits.
#[derive(Debug)]
struct Space {
    holder: Child,
    file: File,
}

impl Drop for Space {
    fn drop(&mut self) {
        // It may have been ended with the folder.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// Why there can be no namespaces here, if there cannot.
#[must_use]
pub fn obstacle() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some(
            "network namespaces need root: start it with sudo, or as root in a container".to_owned(),
        );
    }
    let missing = |(program, package): (&str, &str)| {
        find(program)
            .is_none()
            .then(|| format!("it needs the program {program} (Debian's package {package})"))
    };
    [("ip", "iproute2"), ("unshare", "util-linux")].into_iter().find_map(missing)
}

/// Where a program is.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/sbin", "/usr/bin", "/usr/local/bin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(usual).map(|dir| dir.join(program)).find(|file| file.is_file())
}

impl Network {
    /// So many nodes on the loopback interface: they differ by their ports, and no cable can be pulled.
    #[must_use]
    pub fn loopback(nodes: usize) -> Self {
        Self { spaces: Vec::new(), nodes }
    }

    /// So many nodes in namespaces of their own. Their holders work in `dir`, which a guardian watches. The calling thread is
    /// moved to the switch: what it connects, and what it starts, is in this network from then on. Blocks.
    ///
    /// # Errors
    /// [`DrillError`], if this machine does not let us; nothing is left then.
    pub fn namespaces(dir: &Path, nodes: usize) -> Result<Self, DrillError> {
        if let Some(obstacle) = obstacle().filter(|_| nodes <= MOST) {
            return Err(DrillError::Missing(vec![obstacle]));
        }
        let mut network = Self { spaces: Vec::with_capacity(nodes + 1), nodes };
        for _ in 0..=nodes {
            network.spaces.push(Space::make(dir)?);
        }
        network.enter(0)?;
        let address = |node: usize| format!("{}/24", network.address(node));
        ip("link set lo up")?;
        ip("link add switch type bridge")?;
        let [a, b, c, d] = SWITCH;
        ip(&format!("addr add {a}.{b}.{c}.{d}/24 dev switch"))?;
        ip("link set switch up")?;
        for node in 0..nodes {
            let holder = network.spaces[node + 1].holder.id();
            ip(&format!("link add node{node} type veth peer name cable netns {holder}"))?;
            ip(&format!("link set node{node} master switch up"))?;
            network.within(node, || {
                ip("link set lo up")?;
                ip(&format!("addr add {} dev cable", address(node)))?;
                ip("link set cable up")
            })?;
        }
        Ok(network)
    }

    /// Whether cables can be pulled.
    #[must_use]
    pub fn has_cables(&self) -> bool {
        !self.spaces.is_empty()
    }

    /// How many nodes there are.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// The address of a node.
    #[must_use]
    pub fn address(&self, node: usize) -> IpAddr {
        let [a, b, c, _] = SWITCH;
        match self.has_cables() {
            // There are 16 at most.
            true => Ipv4Addr::new(a, b, c, 10 + u8::try_from(node).unwrap_or(u8::MAX - 10)).into(),
            false => Ipv4Addr::LOCALHOST.into(),
        }
    }

    /// The address of whoever is at the switch itself, as this process is.
    #[must_use]
    pub fn switch(&self) -> IpAddr {
        match self.has_cables() {
            true => Ipv4Addr::from(SWITCH).into(),
            false => Ipv4Addr::LOCALHOST.into(),
        }
    }

    /// A port of a node that nobody listens on. Blocks.
    ///
    /// # Errors
    /// [`DrillError`].
    pub fn free_port(&self, node: Option<usize>) -> Result<u16, DrillError> {
        let address = node.map_or_else(|| self.switch(), |node| self.address(node));
        let ask = || {
            let port = TcpListener::bind((address, 0)).and_then(|socket| socket.local_addr());
            port.map(|address| address.port())
                .map_err(|error| DrillError::failed("finding a free port", error))
        };
        match node {
            Some(node) => self.within(node, ask),
            None => ask(),
        }
    }

    /// Does something on a thread that is at a node, so that what it starts is there. Blocks.
    ///
    /// # Errors
    /// What the work says, or that the node cannot be entered.
    pub fn within<T: Send>(
        &self,
        node: usize,
        work: impl FnOnce() -> Result<T, DrillError> + Send,
    ) -> Result<T, DrillError> {
        if !self.has_cables() {
            return work();
        }
        thread::scope(|scope| {
            let thread = scope.spawn(|| {
                self.enter(node + 1)?;
                work()
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Pulls the cable of a node, or puts it back: nothing is carried in either direction, and nobody is told. Blocks.
    ///
    /// # Errors
    /// [`DrillError`], also where there are no cables.
    pub fn pull(&self, node: usize, pulled: bool) -> Result<(), DrillError> {
        if !self.has_cables() {
            return Err(DrillError::failed("pulling a cable", "nodes on the loopback interface have none"));
        }
        let how = if pulled { "nomaster" } else { "master switch" };
        thread::scope(|scope| {
            let thread = scope.spawn(|| {
                self.enter(0)?;
                ip(&format!("link set node{node} {how}"))
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Moves this thread into a namespace.
    fn enter(&self, space: usize) -> Result<(), DrillError> {
        let moved =
            move_into_link_name_space(self.spaces[space].file.as_fd(), Some(LinkNameSpaceType::Network));
        moved.map_err(|error| DrillError::failed("entering a network namespace", error))
    }
}

impl Space {
    fn make(dir: &Path) -> Result<Self, DrillError> {
        let unshare = find("unshare").unwrap_or_else(|| PathBuf::from("unshare"));
        // It ends when nobody holds its input any more.
        let holder = Command::new(&unshare)
            .args(["--net", "cat"])
            .current_dir(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(DrillError::file("run", &unshare))?;
        let ours = std::fs::read_link("/proc/thread-self/ns/net");
        let ours = ours.map_err(DrillError::file("read", "/proc/thread-self/ns/net"))?;
        let path = PathBuf::from(format!("/proc/{}/ns/net", holder.id()));
        let begin = clock::now();
        loop {
            // Until it has left our namespace it is in it.
            if std::fs::read_link(&path).is_ok_and(|theirs| theirs != ours) {
                let file = File::open(&path).map_err(DrillError::file("open", &path))?;
                return Ok(Self { holder, file });
            }
            if begin.elapsed() > PATIENCE {
                let mut holder = holder;
                let _ = holder.kill();
                let _ = holder.wait();
                return Err(DrillError::failed(
                    "making a network namespace",
                    "unshare --net does not work here",
                ));
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Runs `ip` in the namespace of this thread.
fn ip(words: &str) -> Result<(), DrillError> {
    let program = find("ip").unwrap_or_else(|| PathBuf::from("ip"));
    let output = Command::new(&program).args(words.split(' ')).stdin(Stdio::null()).output();
    let output = output.map_err(DrillError::file("run", &program))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            Err(DrillError::failed(format!("ip {words}"), String::from_utf8_lossy(&output.stderr).trim()))
        }
    }
}
