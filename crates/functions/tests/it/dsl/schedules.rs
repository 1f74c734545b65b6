//! Cron expressions and time zones.

use super::{null, refused, session, stored};
use crate::common::one;

#[tokio::test]
async fn good_schedules_are_kept_as_written() {
    let (_database, client) = session().await;
    for cron in [
        "* * * * *",
        "*/5 * * * *",
        "0 0 1 1 0",
        "59 23 31 12 7",
        "0,15,30-40/2,45 1-5 * * *",
        "0 9 * * MON-fri",
        "0 9 * Jan,FEB-apr sun",
        "0 0 * * 5-7",
        "0 0 * * sat-sun",
        "5/20 * * * *",
        "0 0 29 2 *",
        "0 0 31 4 mon",
        "  0  0\t1 * *  ",
    ] {
        let text =
            one(&client, &format!("SELECT df.wait_for_schedule('{cron}')::json ->> 'query'")).await.unwrap();
        let cron = cron.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(text, format!(r#"{{"cron":"{cron}","time_zone":"UTC"}}"#));
    }
    null(&client, &["df.wait_for_schedule(NULL)", "df.wait_for_schedule('* * * * *', NULL)"]).await;
}

#[tokio::test]
async fn bad_schedules_are_refused_where_they_are_written() {
    let (_database, client) = session().await;
    for (cron, expected) in [
        ("", "five fields"),
        ("* * * *", "five fields"),
        ("* * * * * *", "five fields"),
        ("@daily", "five fields"),
        ("60 * * * *", "is not a valid minute"),
        ("* 24 * * *", "is not a valid hour"),
        ("* * 0 * *", "is not a valid day of the month"),
        ("* * 32 * *", "is not a valid day of the month"),
        ("* * * 0 *", "is not a valid month"),
        ("* * * 13 *", "is not a valid month"),
        ("* * * * 8", "is not a valid weekday"),
        ("* * * * -1", "is not a valid weekday"),
        ("* * * foo *", "is not a valid month"),
        ("* * * mon *", "is not a valid month"),
        ("mon * * * *", "is not a valid minute"),
        ("5-1 * * * *", "ends before it begins"),
        ("* * * * fri-mon", "ends before it begins"),
        ("*/0 * * * *", "the step"),
        ("*/60 * * * *", "the step"),
        ("1,,2 * * * *", "is not a valid minute"),
        ("1, * * * *", "is not a valid minute"),
        ("*-5 * * * *", "is not a valid minute"),
        ("1-2-3 * * * *", "is not a valid minute"),
        ("1.5 * * * *", "is not a valid minute"),
        ("* * L * *", "is not a valid day of the month"),
        ("* * ? * *", "is not a valid day of the month"),
        ("0 0 30 2 *", "would never come"),
        ("0 0 31 feb,apr,jun,sep,nov *", "would never come"),
    ] {
        refused(&client, &[(&format!("df.wait_for_schedule('{cron}')"), expected)]).await;
    }
}

#[tokio::test]
async fn time_zones_are_those_of_the_server() {
    let (_database, client) = session().await;
    for (zone, kept) in [
        ("utc", "UTC"),
        ("Europe/Berlin", "Europe/Berlin"),
        ("America/New_York", "America/New_York"),
        ("gmt", "GMT"),
        ("Etc/GMT+5", "Etc/GMT+5"),
    ] {
        let text =
            one(&client, &format!("SELECT df.wait_for_schedule('* * * * *', '{zone}')")).await.unwrap();
        assert!(text.contains(&format!(r#"\"time_zone\":\"{kept}\""#)), "{zone}: {text}");
    }
    for zone in
        ["Mars/Base", "CEST", "Foo5", "Mars/Base5", "", "+02", "Europe/Berlin ", "posix/Europe/Berlin"]
    {
        let call = format!("df.wait_for_schedule('* * * * *', '{zone}')");
        refused(&client, &[(&call, "the server knows no time zone")]).await;
    }
}

#[tokio::test]
async fn schedules_written_by_hand_meet_the_same_rules() {
    let (_database, client) = session().await;
    // The bare expression is an older form.
    assert_eq!(
        stored(&client, r#"'{"node_type":"WAIT_SCHEDULE","query":"0 0 * * *"}'"#).await,
        r#"[{"type":"WAIT_SCHEDULE","query":"{\"cron\":\"0 0 * * *\",\"time_zone\":\"UTC\"}"}]"#
    );
    for (query, expected) in [
        ("0 0 * *", "five fields"),
        (r#"{\\"cron\\":\\"0 0 * *\\"}"#, "five fields"),
        (r#"{\\"cron\\":5}"#, "must be a text"),
        (r#"{\\"cron\\":\\"* * * * *\\",\\"time_zone\\":\\"Mars/Base\\"}"#, "no time zone"),
        (r#"{\\"cron\\":\\"* * * * *\\",\\"every\\":2}"#, "has no key"),
    ] {
        let call = format!(r#"df._flatten(E'{{"node_type":"WAIT_SCHEDULE","query":"{query}"}}')"#);
        refused(&client, &[(&call, expected)]).await;
    }
}
