//! What is read of a configuration file of Patroni, what options are refused, and when a cluster is healthy.

use duramen_drill::failover::{Drill, Given, Options};
use duramen_drill::http::Endpoint;
use duramen_drill::patroni::{is_healthy, Member, Settings};
use duramen_reports::suite::Plan;

#[test]
fn the_rest_api_is_found_in_a_configuration_of_patroni() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("patroni.yml");
    let text = "scope: main\nrestapi:\n  listen: 0.0.0.0:8008\n  connect_address: '10.0.0.1:8008' # its own\n  \
                authentication:\n    username: patroni\n    password: \"secret\"\npostgresql:\n  \
                connect_address: 10.0.0.1:5432\n  authentication:\n    superuser:\n      username: postgres\n";
    std::fs::write(&path, text).unwrap();
    let given = Given::from_config(&path, vec!["host=a".to_owned()]).unwrap();
    let credentials = Some(("patroni".to_owned(), "secret".to_owned()));
    assert_eq!(given.rest, Endpoint { address: "10.0.0.1:8008".to_owned(), credentials });
    std::fs::write(&path, "postgresql:\n  connect_address: 10.0.0.1:5432\n").unwrap();
    let error = Given::from_config(&path, Vec::new()).unwrap_err().to_string();
    assert!(error.contains("--rest"), "{error}");
}

/// DR8: a cluster of somebody is only ever switched over.
#[test]
fn on_a_cluster_of_somebody_nothing_else_is_held() {
    let given = Given {
        rest: Endpoint { address: "127.0.0.1:1".to_owned(), credentials: None },
        nodes: vec!["host=a".to_owned(), "host=b".to_owned()],
    };
    let with = |drills: &[Drill]| Options {
        drills: drills.to_vec(),
        given: Some(given.clone()),
        ..Options::new("/nowhere")
    };
    assert!(with(&[Drill::Switchover]).validate().is_ok());
    for drills in [&Drill::ALL[..], &[Drill::Kill], &[Drill::Switchover, Drill::Kill], &[]] {
        assert!(with(drills).validate().is_err(), "{drills:?}");
    }
}

#[test]
fn what_patroni_would_not_take_is_refused() {
    let with = |cluster: Settings| Options { cluster, ..Options::new("/nowhere") }.validate();
    let usual = Settings::default();
    assert!(with(usual).is_ok());
    for cluster in [
        Settings { ttl: 10, ..usual },
        Settings { retry_timeout: 10, ..usual },
        Settings { nodes: 1, ..usual },
        Settings { nodes: 9, ..usual },
    ] {
        assert!(with(cluster).is_err(), "{cluster:?}");
    }
}

#[test]
fn a_cluster_is_healthy_when_all_stream_from_one_leader() {
    let member = |name: &str, role: &str, state: &str, timeline| Member {
        name: name.to_owned(),
        role: role.to_owned(),
        state: state.to_owned(),
        timeline: Some(timeline),
    };
    let leader = member("a", "leader", "running", 2);
    let synchronous = member("b", "sync_standby", "streaming", 2);
    let replica = member("c", "replica", "streaming", 2);
    let all = |members: &[&Member]| members.iter().map(|it| (*it).clone()).collect::<Vec<_>>();
    assert!(is_healthy(&all(&[&leader, &synchronous, &replica]), 3, true));
    assert!(is_healthy(&all(&[&leader, &replica]), 2, false));
    assert!(!is_healthy(&all(&[&leader, &replica]), 2, true), "nobody is synchronous");
    assert!(!is_healthy(&all(&[&leader, &synchronous]), 3, true), "one is missing");
    assert!(!is_healthy(&all(&[&synchronous, &replica]), 2, true), "nobody leads");
    for (state, timeline) in [("starting", 2), ("running", 2), ("streaming", 1)] {
        let behind = member("c", "replica", state, timeline);
        assert!(!is_healthy(&all(&[&leader, &synchronous, &behind]), 3, true), "{state} {timeline}");
    }
}
