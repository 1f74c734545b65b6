//! What holders of tokens are told and may do while a node, or etcd, does not answer.

use crate::bed::{end, until, within, Bed, Made, HTTP_PORT};
use crate::lives::code;
use crate::sessions::{bearer, enter, http, send, state, token};
use crate::support::create;
use duramen_api::{
    model::CreateBranch,
    token::{CreateToken, NewToken, Role},
};
use rustix::process::Signal;
use std::process::Command;

fn status(answer: &str) -> &str {
    answer.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)).unwrap_or_default()
}

async fn create_as(bed: &Bed, number: usize, token: &NewToken, name: &str) -> String {
    let wanted = CreateBranch {
        name: Some(name.to_owned()),
        source: Some("app".to_owned()),
        ..CreateBranch::default()
    };
    let body = serde_json::to_string(&wanted).expect("JSON");
    send(bed, number, ("POST", "/v1/branches"), &bearer(token), &body).await
}

/// What the command line says on node a: standard output, and standard error.
fn list(bed: &Bed) -> (String, String) {
    let output = Command::new(crate::support::EXE)
        .args(["--home", &bed.node("a").root().display().to_string(), "branch", "list"])
        .output()
        .expect("it runs");
    assert!(output.status.success());
    (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

/// FL-8: of a branch whose node does not answer, who may not see it hears what he hears of one that is here.
#[test]
fn of_branches_of_others_nothing_is_told_while_their_node_is_away() {
    within(Made { grace: "20s", ..Made::default() }, |bed| async move {
        let mut at = bed.node("a").connect().await;
        let (ci, eve) = (token(&bed, "a", "ci", Role::User).await, token(&bed, "a", "eve", Role::User).await);
        let viewer = token(&bed, "a", "viewer", Role::Viewer).await;
        for node in ["a", "c"] {
            at.drain_node(node, true).await.expect("so that it is made on b");
        }
        assert_eq!(status(&create_as(&bed, 1, &ci, "mine").await), "200");
        assert_eq!(bed.held().await["mine"].0, "b");
        at.drain_node("a", false).await.expect("and not on c");
        // How it is while its node answers, and how it is with names that nobody has.
        let known = http(&bed, 0, "/v1/branches/mine", &bearer(&eve)).await;
        let none = http(&bed, 0, "/v1/branches/none", &bearer(&eve)).await;
        assert_eq!((status(&known), status(&none)), ("404", "404"));
        let clash = create_as(&bed, 0, &eve, "mine").await;
        assert_eq!(status(&clash), "409", "{clash}");
        assert!(clash.contains("name_clash"), "{clash}");
        bed.node("b").signal(Signal::STOP);
        // The list says that it is not whole, to people too.
        let (rows, said) = list(&bed);
        assert!(
            !rows.contains("mine") && said.contains("not whole") && said.contains("b ("),
            "{rows}\n{said}"
        );
        assert!(said.contains("no answer within 1000 ms") || said.contains("unreachable"), "{said}");
        until("it is unreachable", async || bed.node("a").sees("b").await == "unreachable").await;
        let (_, said) = list(&bed);
        assert!(said.contains("b (unreachable)"), "{said}");
        for (who, expected) in [(&ci, "node_unreachable"), (&viewer, "node_unreachable"), (&eve, "not_found")]
        {
            let answer = http(&bed, 0, "/v1/branches/mine", &bearer(who)).await;
            assert!(answer.contains(expected), "{}: {answer}", who.token.name);
        }
        let hidden = http(&bed, 0, "/v1/branches/mine", &bearer(&eve)).await;
        let body = |answer: &str| answer.split_once("\r\n\r\n").expect("a body").1.replace("mine", "none");
        assert_eq!(body(&hidden), body(&none), "as of a name that nobody has");
        for (method, path) in [
            ("POST", "/v1/branches/mine/query"),
            ("DELETE", "/v1/branches/mine"),
            ("POST", "/v1/branches/mine/reset"),
        ] {
            let answer = send(&bed, 0, (method, path), &bearer(&eve), "").await;
            assert_eq!(status(&answer), "404", "{method} {path}: {answer}");
            let answer = send(&bed, 0, (method, path), &bearer(&ci), "").await;
            assert!(answer.contains("node_unreachable"), "{method} {path}: {answer}");
        }
        let error = enter(&bed, 0, &eve, "mine").await.expect_err("it is somebody else's");
        assert_eq!(state(&error), "3D000");
        let error = enter(&bed, 0, &ci, "mine").await.expect_err("its node does not answer");
        assert_eq!(state(&error), "53000");
        let refused = create_as(&bed, 0, &eve, "mine").await;
        assert_eq!(status(&refused), "409", "{refused}");
        assert!(refused.contains("name_clash") && !refused.contains("node"), "{refused}");
        assert!(create_as(&bed, 0, &ci, "mine").await.contains("node_unreachable"));
        until("it is lost", async || bed.node("a").sees("b").await == "lost").await;
        for (who, expected) in [(&ci, "node_lost"), (&eve, "not_found")] {
            let answer = http(&bed, 0, "/v1/branches/mine", &bearer(who)).await;
            assert!(answer.contains(expected), "{}: {answer}", who.token.name);
        }
        bed.node("b").signal(Signal::CONT);
        until("it is back", async || bed.node("a").sees("b").await == "ready").await;
        at.drain_node("c", false).await.expect("no more");
        at.destroy_branch("mine").await.expect("destroyed");
        let (_, said) = list(&bed);
        assert_eq!(said, "", "the list is whole");
        bed.settled().await;
        end(bed).await;
    });
}

/// FL-4, FL-13, R6: holders of tokens, and their browsers, go on while etcd is away; what would change tokens says so.
#[test]
fn tokens_and_browsers_go_on_without_etcd() {
    within(Made::default(), |bed| async move {
        let mut at = bed.node("a").connect().await;
        let (ci, gone) =
            (token(&bed, "b", "ci", Role::User).await, token(&bed, "b", "gone", Role::User).await);
        let address = bed.network.address(0);
        let mark = format!("x-duramen-console: 1\r\norigin: http://{address}:{HTTP_PORT}\r\n");
        bed.etcd.members().iter().for_each(|member| member.hold(true));
        until("a knows it", async || {
            bed.node("a").view().await.is_some_and(|view| view.standing == "joining")
        })
        .await;
        for token in [&ci, &gone] {
            let answer = http(&bed, 0, "/v1/sources", &bearer(token)).await;
            assert_eq!(status(&answer), "200", "{answer}");
        }
        let signed = format!(r#"{{"name":"ci","secret":"{}"}}"#, ci.secret);
        let answer = send(&bed, 0, ("POST", "/v1/session"), &mark, &signed).await;
        assert_eq!(status(&answer), "204", "{answer}");
        let cookie = answer.lines().find_map(|line| line.strip_prefix("set-cookie: ")).expect("a cookie");
        let cookie = cookie.split(';').next().expect("a value").trim();
        let cookie = format!("cookie: {cookie}\r\nsec-fetch-site: same-origin\r\n");
        let answer = http(&bed, 0, "/v1/session", &cookie).await;
        assert!(status(&answer) == "200" && answer.contains("\"ci\""), "{answer}");
        // What changes tokens is not done behind the fleet's back, but for a revocation, which holds here at once.
        let wanted = CreateToken { name: "new".to_owned(), ..CreateToken::default() };
        assert_eq!(code(at.create_token(&wanted).await), "fleet_silent");
        assert_eq!(code(at.rotate_token("ci").await), "fleet_silent");
        assert_eq!(status(&http(&bed, 0, "/v1/session", &cookie).await), "200", "its session is as it was");
        assert_eq!(code(at.revoke_token("gone").await), "fleet_silent");
        assert_eq!(status(&http(&bed, 0, "/v1/sources", &bearer(&gone)).await), "401");
        assert_eq!(
            status(&http(&bed, 1, "/v1/sources", &bearer(&gone)).await),
            "200",
            "b cannot have heard of it"
        );
        let answer = send(&bed, 0, ("DELETE", "/v1/session"), &format!("{mark}{cookie}"), "").await;
        assert_eq!(status(&answer), "204", "{answer}");
        assert_eq!(status(&http(&bed, 0, "/v1/session", &cookie).await), "401");
        bed.etcd.members().iter().for_each(|member| member.hold(false));
        until("all are back", async || {
            let mut back = true;
            for node in &bed.nodes {
                back &= node.view().await.is_some_and(|view| view.standing == "member");
            }
            back
        })
        .await;
        for number in 0..3 {
            until("all have heard of it", async || {
                status(&http(&bed, number, "/v1/sources", &bearer(&gone)).await) == "401"
            })
            .await;
            assert_eq!(status(&http(&bed, number, "/v1/sources", &bearer(&ci)).await), "200");
        }

        // FL-13: etcd lost a token. It lets nobody in, and is brought back on one node for all.
        bed.etcd.put("/duramen/test/v1/tokens/ci", None).await.expect("it is lost");
        for number in 0..3 {
            until("it lets nobody in", async || {
                status(&http(&bed, number, "/v1/sources", &bearer(&ci)).await) == "401"
            })
            .await;
        }
        assert_eq!(code(at.restore_token("other").await), "no_such_token");
        assert_eq!(status(&send(&bed, 0, ("POST", "/v1/tokens/ci/restore"), &bearer(&ci), "").await), "401");
        let admin = token(&bed, "a", "admin", Role::Admin).await;
        let answer = send(&bed, 0, ("POST", "/v1/tokens/ci/restore"), &bearer(&admin), "").await;
        assert_eq!(status(&answer), "403", "it is for the machine: {answer}");
        let output = Command::new(crate::support::EXE)
            .args(["--home", &bed.node("a").root().display().to_string(), "token", "restore", "ci"])
            .output()
            .expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        for number in 0..3 {
            until("it is good everywhere", async || {
                status(&http(&bed, number, "/v1/sources", &bearer(&ci)).await) == "200"
            })
            .await;
        }
        assert_eq!(code(at.restore_token("ci").await), "token_exists");
        let log = at.audit_log(20, None).await.expect("the log");
        assert!(log.iter().any(|entry| entry.event == "token_restored"), "{log:?}");
        create(&mut at, "x").await.expect("a branch");
        at.destroy_branch("x").await.expect("destroyed");
        bed.settled().await;
        end(bed).await;
    });
}
