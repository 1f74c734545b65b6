//! A pair on two hosts, by one command.

use super::sshd::Hosts;

/// H1, H2, H6.
#[test]
fn a_pair_on_two_hosts_would_not_be_made_by_one_command_or_stay() {
    let hosts = Hosts::new();
    let (output, said) = hosts.run(&["S2"]);
    assert!(output.status.success(), "{said}");
    hosts.assert_nothing_left("a run that ended well");
    let evidence: serde_json::Value =
        serde_json::from_slice(&std::fs::read(hosts.evidence()).unwrap()).unwrap();
    let config = &evidence["config"];
    assert_eq!(config["pair"], "hosts", "{config}");
    for host in config["hosts"].as_array().unwrap() {
        assert!(host["kernel"].as_str().unwrap().starts_with("Linux "), "{host}");
        assert!(host["server_version"].as_str().unwrap().starts_with(char::is_numeric), "{host}");
        for name in ["round_trip_ssh_ms", "round_trip_sql_ms"] {
            let time = host[name].as_f64().unwrap();
            assert!(time > 0.0 && time < 1_000.0, "{host}");
        }
    }
    // No password anywhere.
    assert!(!evidence.to_string().contains("password="), "{evidence}");
}

/// H3.
#[test]
fn a_host_whose_key_is_not_known_would_be_used() {
    let hosts = Hosts::new();
    for (known, what) in [(vec![&hosts.a], "unknown"), (vec![], "both unknown")] {
        hosts.knows(&known);
        let (output, said) = hosts.run(&["S2"]);
        assert!(!output.status.success() && said.contains("Host key verification failed"), "{what}: {said}");
        hosts.assert_nothing_left(what);
    }
    // Another host has its address now.
    let known = std::fs::read_to_string(hosts.a.dir.join("host_key.pub")).unwrap();
    let lines = format!("[127.0.0.1]:{} {known}[127.0.0.1]:{} {known}", hosts.a.port, hosts.b.port);
    std::fs::write(hosts.root.path().join("known"), lines).unwrap();
    let (output, said) = hosts.run(&["S2"]);
    assert!(!output.status.success() && said.contains("verification failed"), "{said}");
    hosts.assert_nothing_left("a key that changed");
}
