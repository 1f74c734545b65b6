//! Namespaces with cables that can be pulled (DR4).

use duramen_drill::network::{obstacle, Network};
use duramen_drill::DrillError;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::Duration;

fn answers(address: SocketAddr) -> bool {
    let ask = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_millis(300))?;
        stream.set_read_timeout(Some(Duration::from_millis(300)))?;
        stream.write_all(b"?")?;
        let mut answer = [0];
        stream.read_exact(&mut answer)?;
        Ok(answer == *b"!")
    };
    ask().unwrap_or(false)
}

fn spaces() -> usize {
    let links = std::fs::read_dir("/proc").unwrap().flatten();
    let links = links.filter_map(|entry| std::fs::read_link(entry.path().join("ns/net")).ok());
    links.collect::<std::collections::HashSet<_>>().len()
}

#[test]
fn a_node_whose_cable_is_pulled_is_reached_by_nobody_until_it_is_back() {
    if let Some(obstacle) = obstacle() {
        // Who may make none of them sees the loopback interface instead.
        assert!(Network::namespaces(Path::new("/"), 1).is_err(), "{obstacle}");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let before = spaces();
    // A thread of its own, since it is moved there.
    thread::scope(|scope| {
        let there = scope.spawn(|| {
            let network = Network::namespaces(dir.path(), 2).unwrap();
            assert!(network.has_cables());
            let listening = |node: usize| {
                network.within(node, || {
                    let listener = TcpListener::bind((network.address(node), 0)).unwrap();
                    let address = listener.local_addr().unwrap();
                    thread::spawn(move || {
                        for stream in listener.incoming().flatten() {
                            let mut stream = stream;
                            let mut question = [0];
                            // Who asks nothing gets no answer.
                            if stream.read_exact(&mut question).is_ok() {
                                let _ = stream.write_all(b"!");
                            }
                        }
                    });
                    Ok::<_, DrillError>(address)
                })
            };
            let (first, second) = (listening(0).unwrap(), listening(1).unwrap());
            let from = |node: usize, address| network.within(node, || Ok(answers(address))).unwrap();
            assert!(answers(first) && answers(second) && from(0, second) && from(1, first));
            network.pull(0, true).unwrap();
            assert!(!answers(first) && !from(1, first) && !from(0, second), "it is reached");
            assert!(answers(second) && from(0, first), "others, or itself, are not reached");
            network.pull(0, false).unwrap();
            assert!(answers(first) && from(0, second));
        });
        there.join().unwrap();
    });
    thread::sleep(Duration::from_millis(200));
    // Those that threads of this test still listen in are held by nobody else.
    assert!(spaces() <= before + 1, "namespaces are left");
    assert!(!answers("10.213.0.10:1".parse().unwrap()));
}

#[test]
fn on_the_loopback_interface_no_cable_is_pulled() {
    let network = Network::loopback(2);
    assert!(!network.has_cables());
    assert_eq!(network.address(1).to_string(), "127.0.0.1");
    assert_ne!(network.free_port(Some(0)).unwrap(), 0);
    assert!(network.pull(0, true).is_err());
}
