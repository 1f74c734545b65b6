//! The shapes: a spine, a bushy tree, many children of one branch.

use super::{measure::Run, options::Options};
use crate::branches::{figures::note_values, scale::median};
use duramen_measure::evidence::{Evidence, Measurement};
use duramen_reports::suite::{Say, SuiteError};

/// Rows that each branch of the spine and of the tree writes, and their bytes.
const ROWS: u64 = 8000;
const ROW: u64 = 1000;
/// Children of each branch of the bushy tree.
const CHILDREN: u32 = 3;

fn fill() -> String {
    format!(
        "insert into fresh select n, repeat(md5(random()::text), {}) from generate_series(1, {ROWS}) n",
        ROW / 32
    )
}

/// Notes what the branches of a shape cost, in the order in which they were made.
fn note(evidence: &mut Evidence, shape: &str, took: &[f64]) {
    note_values(evidence, &format!("{shape}_ms"), "ms", took);
    let quarter = took.len() / 4;
    if quarter > 0 {
        let (first, last) = (median(&took[..quarter]), median(&took[took.len() - quarter..]));
        let ratio = last / first.max(f64::MIN_POSITIVE);
        evidence.measurements.push(Measurement::scalar(format!("{shape}_ratio"), "ratio", ratio));
    }
}

/// Each branch is made of the one before it, which has written meanwhile.
pub(super) async fn spine(
    options: &Options,
    run: &mut Run,
    evidence: &mut Evidence,
    say: Say<'_>,
) -> Result<(), SuiteError> {
    if options.depth == 0 {
        return Ok(());
    }
    let mut names = vec![run.name("spine", 0)];
    run.branch(&names[0], None).await?;
    let mut took = Vec::new();
    for number in 1..=options.depth {
        if number % 16 == 0 {
            say(&format!("spine: {number} of {}", options.depth));
        }
        let parent = names[names.len() - 1].clone();
        run.query(&parent, &fill()).await?;
        let child = run.name("spine", number);
        took.push(run.branch(&child, Some(&parent)).await?.1);
        names.push(child);
    }
    note(evidence, "spine", &took);
    let last = &names[names.len() - 1];
    let rows = run.query(last, "select count(*) from fresh").await?;
    let wanted = format!("[[{}]]", u64::from(options.depth) * ROWS);
    evidence.check("spine_holds_all", rows == wanted, format!("the deepest branch holds {rows} of {wanted}"));
    let tree = run.connection.branch_tree().await.map_err(SuiteError::refused("show the tree"))?;
    let own = tree.iter().filter(|node| names[..names.len() - 1].contains(&node.name));
    let own: Vec<f64> = own.filter_map(|node| node.own_bytes).map(|bytes| bytes as f64).collect();
    note_values(evidence, "spine_own_bytes", "bytes", &own);
    let changed = (ROWS * ROW) as f64;
    note_values(
        evidence,
        "spine_bytes_ratio",
        "ratio",
        &own.iter().map(|bytes| bytes / changed).collect::<Vec<_>>(),
    );
    // The parents first: children depend on none of them.
    for name in &names {
        run.destroy(name).await?;
    }
    Ok(())
}

/// Every branch has three children, down to a depth.
pub(super) async fn bushy(
    options: &Options,
    run: &mut Run,
    evidence: &mut Evidence,
    say: Say<'_>,
) -> Result<(), SuiteError> {
    if options.levels == 0 {
        return Ok(());
    }
    let mut names = vec![run.name("bushy", 0)];
    run.branch(&names[0], None).await?;
    let (mut took, mut number, mut level) = (Vec::new(), 0, names.clone());
    for depth in 1..=options.levels {
        say(&format!("bushy tree: level {depth} of {}", options.levels));
        let mut next = Vec::new();
        for parent in &level {
            run.query(parent, "insert into fresh select n, 'x' from generate_series(1, 100) n").await?;
            for _ in 0..CHILDREN {
                number += 1;
                let child = run.name("bushy", number);
                took.push(run.branch(&child, Some(parent)).await?.1);
                next.push(child);
            }
        }
        names.extend_from_slice(&next);
        level = next;
    }
    note(evidence, "bushy", &took);
    for name in &names {
        run.destroy(name).await?;
    }
    Ok(())
}

/// All branches are made of one.
pub(super) async fn fan_out(
    options: &Options,
    run: &mut Run,
    evidence: &mut Evidence,
    say: Say<'_>,
) -> Result<(), SuiteError> {
    if options.fan_out == 0 {
        return Ok(());
    }
    let parent = run.name("fan", 0);
    run.branch(&parent, None).await?;
    run.query(&parent, &fill()).await?;
    let mut took = Vec::new();
    for number in 1..=options.fan_out {
        if number % 64 == 0 {
            say(&format!("fan-out: {number} of {}", options.fan_out));
        }
        let child = run.name("fan", number);
        took.push(run.branch(&child, Some(&parent)).await?.1);
    }
    note(evidence, "fan_out", &took);
    for number in 0..=options.fan_out {
        let name = run.name("fan", number);
        run.destroy(&name).await?;
    }
    Ok(())
}
