//! Single steps: what they ask for and what they give.

use super::build::*;
use super::world::*;
use crate::http::Part;
use crate::interpret::{ExecutionStatus, Request};
use crate::json::Json;

#[test]
fn a_statement_is_asked_for_once_and_its_result_is_the_instance_s() {
    each(&sql("SELECT 1"), |world| {
        let first = world.advance();
        assert!(
            matches!(&first.requests[0], Request::Sql { cell, text } if cell.as_str() == "0" && text == "SELECT 1")
        );
        assert_eq!(world.status("0").as_deref(), Some("running"));
        assert!(world.advance().requests.is_empty(), "I-1");
        let last = world.ok("SELECT 1", "1");
        assert_eq!(completed(&last), &one("1"));
        assert_eq!(last.executions.len(), 1);
        assert_eq!(last.executions[0].status, ExecutionStatus::Completed);
        assert_eq!(last.executions[0].event_count, 2);
        assert_eq!(world.cell("0").unwrap().field("r"), Some(one("1")));
        let again = world.advance();
        assert_eq!(completed(&again), &one("1"), "I-14");
        assert!(again.executions.is_empty(), "I-14");
    });
}

#[test]
fn results_and_variables_are_put_into_statements() {
    let graph = seq(vec![
        sql("SELECT 'x' FROM {table}").named("a"),
        sql("SELECT $a.v, $a || '{sys_label}'"),
        N { params: Some(r#"["$a",5]"#.to_owned()), ..sql("SELECT $1::text, $2::int") },
    ]);
    each(&graph, |world| {
        world.vars.insert("table".to_owned(), "t".to_owned());
        world.advance();
        assert_eq!(world.texts(), ["SELECT 'x' FROM t"]);
        world.ok("SELECT 'x' FROM t", "\"it's\"");
        assert_eq!(world.texts(), ["SELECT 'it''s', 'it''s' || 'test'"]);
        world.ok("SELECT 'it''s', 'it''s' || 'test'", "1");
        assert_eq!(world.pending.len(), 1);
        assert!(
            world.texts()[0].contains("'it''s'") && world.texts()[0].contains('5'),
            "{:?}",
            world.texts()
        );
    });
}

#[test]
fn a_reference_to_nothing_fails_the_step() {
    each(&then(sql("SELECT 1 WHERE false").named("a"), sql("SELECT $a")), |world| {
        world.advance();
        world.reply("SELECT 1 WHERE false", Ok(json(r#"{"rows":[],"row_count":0}"#)));
        let last = world.advance();
        assert!(failed(&last).contains("$a has no rows - query returned zero results"), "{last:?}");
        assert_eq!(world.status("2").as_deref(), Some("failed"));
        assert_eq!(world.status("0").as_deref(), Some("failed"));
    });
}

#[test]
fn the_input_and_what_a_parent_hands_down_can_be_referred_to() {
    each(&sql("SELECT $input.k, $old"), |world| {
        world.input = Some(json(r#"{"k":7}"#));
        world.inherited.insert("old".to_owned(), one("8"));
        world.advance();
        assert_eq!(world.texts(), ["SELECT 7, 8"]);
    });
}

#[test]
fn statements_that_refuse_transactions_are_told_apart() {
    let world = &mut World::new(&sql(" -- tidy up\n vacuum t"));
    assert!(matches!(&world.advance().requests[0], Request::NonTransactional { .. }));
}

#[test]
fn sleep_takes_its_time_and_keeps_its_number() {
    for (text, seconds, shown) in
        [("2", 2.0, "2"), ("0.25", 0.25, "0.25"), ("007", 7.0, "7"), ("1e-3", 0.001, "1e-3")]
    {
        each(&sleep(text), |world| {
            let first = world.advance();
            assert_eq!(first.due_at.unwrap().duration_since(world.now).as_secs_f64(), seconds);
            assert!(world.after(seconds / 2.0).outcome.is_none(), "I-12");
            let last = world.after(seconds / 2.0);
            assert_eq!(completed(&last).text(), format!(r#"{{"slept": true, "seconds": {shown}}}"#));
            assert_eq!(last.due_at, None);
        });
    }
    assert_eq!(completed(&World::new(&sleep("0")).advance()).text(), r#"{"slept": true, "seconds": 0}"#);
}

#[test]
fn a_sleep_beyond_the_calendar_fails() {
    assert!(failed(&World::new(&sleep("9e15")).advance()).contains("calendar"));
    assert!(failed(&World::new(&sleep("9223372036854775807")).advance()).contains("calendar"));
}

#[test]
fn a_schedule_waits_for_its_next_tick() {
    let graph = N::leaf("WAIT_SCHEDULE", r#"{"cron":"*/5 * * * *","time_zone":"UTC"}"#);
    each(&graph, |world| {
        let first = world.after(60.0);
        assert_eq!(first.due_at.unwrap().to_string(), "2026-01-01T00:05:00Z");
        let last = world.after(240.0);
        assert_eq!(completed(&last).text(), r#"{"scheduled": true}"#);
    });
    let bad = N::leaf("WAIT_SCHEDULE", r#"{"cron":"never","time_zone":"UTC"}"#);
    assert!(failed(&World::new(&bad).advance()).contains("five fields"));
}

#[test]
fn an_http_request_has_every_field_filled_in() {
    let call = N::leaf(
        "HTTP",
        r#"{"url":"https://{host}/$a","method":"put","body":"[$a.v]","headers":{"X-A":"$a","X-N":5},"timeout_seconds":7}"#,
    );
    each(&then(sql("q").named("a"), call), |world| {
        world.vars.insert("host".to_owned(), "example.org".to_owned());
        world.advance();
        let asked = world.ok("q", "\"it's\"");
        let Request::Http { request, .. } = &asked.requests[0] else { panic!() };
        assert_eq!(request.url, "https://example.org/it's");
        assert_eq!((request.method.as_str(), request.timeout_s), ("PUT", 7));
        assert_eq!(request.body.as_deref(), Some("[it's]"));
        assert_eq!(request.headers["X-A"], "it's");
        assert_eq!(request.headers["X-N"], "5");
        let last = world.ok("https://example.org/it's", "1");
        assert_eq!(completed(&last), &one("1"));
    });
}

fn multipart(data: &str) -> N {
    let query = format!(
        r#"{{"url":"u","parts":[{{"name":"f","data_b64":"{data}","filename":"{{sys_label}}.txt"}}]}}"#
    );
    then(sql("q").named("a"), N::leaf("HTTP_MULTIPART", &query))
}

#[test]
fn the_data_of_a_part_is_one_reference_or_none() {
    let ask = |data: &str| {
        let mut world = World::new(&multipart(data));
        world.advance();
        world.ok("q", "\"aGk=\"")
    };
    let part = |data: &str| match &ask(data).requests[..] {
        [Request::Http { request, .. }] => request.parts.clone().unwrap()[0].clone(),
        other => panic!("{other:?}"),
    };
    let Part { data_b64, filename, name, .. } = part("$a.v");
    assert_eq!((name.as_str(), data_b64.as_str()), ("f", "aGk="));
    assert_eq!(filename.as_deref(), Some("test.txt"));
    assert_eq!(part("aGk=").data_b64, "aGk=");
    for data in ["x$a", "$a$a", "$a.v ", "{x}y"] {
        assert!(failed(&ask(data)).contains("whole-value reference"), "{data}");
    }
    assert!(failed(&ask("$b")).contains("whole-value reference $b"));
}

#[test]
fn a_null_result_is_a_result() {
    each(&then(sql("q").named("a"), sql("SELECT $a?")), |world| {
        world.advance();
        world.reply("q", Ok(Json::null()));
        world.advance();
        assert_eq!(world.texts(), ["SELECT NULL"]);
        world.reply("SELECT NULL", Ok(Json::null()));
        let last = world.advance();
        assert_eq!(completed(&last), &Json::null());
        assert_eq!(world.cell("1").unwrap().field("r"), Some(Json::null()));
    });
}
