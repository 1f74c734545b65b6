//! Writes a report with every kind of section from made-up figures, to judge its looks:
//! `cargo run -p duramen-reports --example specimen_report -- report.html`

use std::path::Path;
use std::time::Duration;

use duramen_base::{clock, entropy};
use duramen_measure::evidence::{Evidence, Measurement, Severity};
use duramen_measure::histogram::LatencyHistogram;
use duramen_measure::host::Host;
use duramen_reports::page::{Chart, Report};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("name the file to write")?;
    let begin = clock::now();
    let mut evidence = Evidence::new("specimen", Host::fingerprint(&std::env::temp_dir())?);
    evidence.configure("seed", 7);
    evidence.configure("clients", vec![1, 10, 100]);
    evidence.configure("server", "18.6");

    let ours = latencies(1, 0.4);
    let theirs = latencies(2, 1.1);
    let stalled = latencies(3, 9.0);
    evidence.measurements.push(Measurement::from_histogram("fork_create", &ours));
    evidence.measurements.push(Measurement::from_histogram("fork_first_query", &theirs));
    evidence.measurements.push(Measurement::from_histogram("dump_and_restore", &stalled));
    evidence.measurements.push(Measurement::scalar("syncs_per_commit", "syncs", 1.0));
    evidence.measurements.push(Measurement::scalar("wal_bytes_per_commit", "bytes", 18_231.0));
    evidence.check("p95 below 15 ms", true, "12.1 ms over 1,000 forks");
    evidence.check("100 forks at once below 100 ms", false, "p95 was 131.4 ms; the bar is 100 ms");
    evidence.check("no page is copied before it is written", true, "0 bytes of 1.3 GiB");
    let text = "The load average exceeded the number of cores while this ran; compare with care.";
    evidence.find("busy_machine", Severity::Warning, Some(3.7), text);
    evidence.find("server_version", Severity::Info, None, "The server is PostgreSQL 18.6.");
    evidence.finish();

    let rows = [
        ["fork p95", "< 15 ms", "12.1 ms", "met"],
        ["100 forks at once, p95", "< 100 ms", "131.4 ms", "missed"],
        ["extra disk per fork", "< 64 KiB", "33.2 KiB", "met"],
    ];
    let groups = vec![
        ("1 client", vec![("Duramen", 12.1), ("template copy", 48.0)]),
        (
            "10 clients, with a label that is so long that it does not fit on a phone",
            vec![("Duramen", 29.4), ("template copy", 210.5)],
        ),
        ("100 clients", vec![("Duramen", 131.4), ("template copy", 1_204.0)]),
    ];
    let mut rng = entropy::rng(5);
    let mut walk = |start: f64| {
        let mut value = start;
        let step = |i| {
            value = (value + rng.f64() * 40.0 - 20.0).max(0.0);
            (f64::from(i), value)
        };
        (0..60).map(step).collect::<Vec<_>>()
    };
    Report::new("Specimen: forks of <databases> & their costs")
        .evidence(&evidence)
        .heading("Bars")
        .note("All figures on this page are made up. Each bar was set before the measurement.")
        .table("Bar and measured", ["Figure", "Bar", "Measured", "Outcome"], rows)
        .heading("Charts")
        .chart(Chart::cdf(
            "Time to fork",
            "ms",
            [("Duramen", ours), ("template copy", theirs), ("dump", stalled)],
        ))
        .chart(Chart::bars("Time to fork by clients, p95", "ms", groups).with_target("bar: 100 ms", 100.0))
        .chart(Chart::line(
            "Commits over time",
            "seconds since the start",
            "commits per second",
            [("forked", walk(800.0)), ("alone", walk(1_200.0))],
        ))
        .write(Path::new(&path))?;
    println!("{path} after {:.1} ms", clock::ms(begin.elapsed()));
    Ok(())
}

/// Log-normal latencies around a median in milliseconds, with a tail.
fn latencies(seed: u64, median_ms: f64) -> LatencyHistogram {
    let mut rng = entropy::rng(seed);
    let mut normal = || (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0;
    (0..5_000)
        .map(|_| Duration::from_secs_f64(median_ms / 1e3 * (normal() * 0.45 + normal().max(1.6) - 1.6).exp()))
        .collect()
}
