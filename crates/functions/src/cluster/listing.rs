//! Instances of all shards in one order: a page of each, merged.
//!
//! Each shard lists the newest first, by (time of the start, id), and begins behind whatever such pair it is given, be that its own or not.
//! So the cursor of a merged list is that of its last row, and no state is kept between pages.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Serialize;
use tokio::task::JoinSet;
use tokio_postgres::{
    types::{ToSql, Type},
    Row,
};

use super::list::Cluster;
use super::member::Member;
use super::ClusterError;
use duramen_postgres::connection::Target;

/// The most rows that a page may have: each shard may have to give as many.
pub const PAGE_MAX: u32 = 1_000;
/// So many shards are asked at once, at most.
const AT_ONCE: usize = 32;

/// A shard's owner may allow fewer rows than are wanted: then it gives those, and says that there are more.
const PAGE: &str = "
    SELECT f.*, df._cursor(f.created_at, f.instance_id) AS cursor
    FROM df.find_instances($1, $2, $3, $4, $5, $6::text::timestamptz, $7::text::timestamptz, $8::text::jsonb,
        least($9, coalesce(nullif(current_setting('df.list_instances_max_limit', true), '')::int, $9)), $10) f";
const COUNT: &str = "
    SELECT c.status, c.queue, c.role, c.count
    FROM df.count_instances($1, $2, $3, $4, $5, $6::text::timestamptz, $7::text::timestamptz, $8::text::jsonb) c";

/// Which instances are wanted: those that fit all that is given, as `df.find_instances` has it.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Their status.
    pub status: Option<String>,
    /// Their label.
    pub label: Option<String>,
    /// A pattern of `LIKE` that their label fits.
    pub label_like: Option<String>,
    /// The queue that they came through, or wait in.
    pub queue: Option<String>,
    /// Whose they are.
    pub role: Option<String>,
    /// They were started then or later.
    pub since: Option<Timestamp>,
    /// They were started then or earlier.
    pub until: Option<Timestamp>,
    /// JSON that their input contains.
    pub input: Option<String>,
}

/// An instance, and where it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Its shard.
    pub shard: u16,
    /// Its id.
    pub id: String,
    /// Its label.
    pub label: Option<String>,
    /// `pending`, `running`, `completed`, `failed` or `cancelled`.
    pub status: String,
    /// The queue that it came through, or waits in.
    pub queue: Option<String>,
    /// Who started it.
    pub role: Option<String>,
    /// Which round of its root loop it is in.
    pub executions: i64,
    /// When it was started, by its shard's clock.
    pub created_at: Timestamp,
    /// When it ended, by its shard's clock.
    pub ended_at: Option<Timestamp>,
    /// Its result as JSON, or why it failed.
    pub output: Option<String>,
    /// Where a list begins that goes on behind it.
    cursor: String,
}

/// A page of instances of all shards.
#[derive(Clone, Debug, Default)]
pub struct AllPage {
    /// The newest first; of one time, by id.
    pub instances: Vec<Found>,
    /// Where the next page begins; `None`: there is none.
    pub next: Option<String>,
    /// The shards that gave nothing, in the order of their numbers, and why: what they have is not in the page.
    pub missing: Vec<(u16, String)>,
}

/// How many there are of one kind, on all shards together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Group {
    /// The status.
    pub status: String,
    /// The queue.
    pub queue: Option<String>,
    /// Whose they are.
    pub role: String,
    /// How many.
    pub count: i64,
}

/// Lists the instances of all shards. It keeps a session with each; a shard that once gave nothing is left out until the end, so that
/// its instances do not begin in the middle of a list.
///
/// ```no_run
/// # async fn example() -> Result<(), duramen_functions::cluster::ClusterError> {
/// use duramen_functions::cluster::{Cluster, Wanted};
/// let cluster = Cluster::read("postgres://app@a/jobs").await?;
/// let mut lister = cluster.lister(Wanted { status: Some("failed".to_owned()), ..Wanted::default() });
/// let page = lister.page(100, None).await?;
/// for (shard, error) in &page.missing {
///     eprintln!("without shard {shard}: {error}");
/// }
/// # Ok(()) }
/// ```
pub struct Lister {
    wanted: Wanted,
    targets: BTreeMap<u16, Result<Target, String>>,
    open: BTreeMap<u16, Member>,
    missing: BTreeMap<u16, String>,
}

impl Cluster {
    /// Lists instances of all shards that are not removed.
    #[must_use]
    pub fn lister(&self, wanted: Wanted) -> Lister {
        let target = |shard| self.target_of(shard).map_err(|error| error.to_string());
        let targets = self.served().map(|shard| (shard.number, target(shard))).collect();
        Lister { wanted, targets, open: BTreeMap::new(), missing: BTreeMap::new() }
    }
}

impl Lister {
    /// A page of at most `many` instances ([`PAGE_MAX`] at most), from the beginning or behind another page. It has fewer where a shard
    /// allows fewer. Each shard has 15 s; one that does not answer by then is missing.
    ///
    /// # Errors
    /// [`ClusterError`]: no shard gave anything.
    pub async fn page(&mut self, many: u32, cursor: Option<&str>) -> Result<AllPage, ClusterError> {
        let many = many.clamp(1, PAGE_MAX);
        let rows = i32::try_from(many).unwrap_or(i32::MAX);
        let cursor = cursor.map(str::to_owned);
        let answers = self.ask(PAGE, Some((rows, cursor))).await?;
        let mut parts = Vec::with_capacity(answers.len());
        for (shard, rows) in &answers {
            let more = rows.last().is_some_and(|row| row.get::<_, Option<&str>>("next_cursor").is_some());
            parts.push(Part { found: rows.iter().map(|row| found(*shard, row)).collect(), more });
        }
        let (instances, next) = merged(parts, many as usize);
        Ok(AllPage { instances, next, missing: self.missing() })
    }

    /// How many there are, by status, queue and role, and the shards whose are not counted. Each shard has 15 s.
    ///
    /// # Errors
    /// [`ClusterError`]: no shard gave anything.
    pub async fn count(&mut self) -> Result<(Vec<Group>, Vec<(u16, String)>), ClusterError> {
        let mut groups: BTreeMap<(String, Option<String>, String), i64> = BTreeMap::new();
        for (_, rows) in self.ask(COUNT, None).await? {
            for row in rows {
                *groups.entry((row.get(0), row.get(1), row.get(2))).or_default() += row.get::<_, i64>(3);
            }
        }
        let group = |((status, queue, role), count)| Group { status, queue, role, count };
        Ok((groups.into_iter().map(group).collect(), self.missing()))
    }

    fn missing(&self) -> Vec<(u16, String)> {
        self.missing.iter().map(|(shard, error)| (*shard, error.clone())).collect()
    }

    /// What each shard answers that is not missing.
    async fn ask(
        &mut self,
        sql: &'static str,
        page: Option<(i32, Option<String>)>,
    ) -> Result<Vec<(u16, Vec<Row>)>, ClusterError> {
        let mut left: BTreeSet<u16> =
            self.targets.keys().copied().filter(|shard| !self.missing.contains_key(shard)).collect();
        let mut asked = JoinSet::new();
        let mut answers = Vec::new();
        let mut failed = None;
        loop {
            while asked.len() < AT_ONCE {
                let Some(shard) = left.pop_first() else { break };
                let target = match &self.targets[&shard] {
                    Ok(target) => target.clone(),
                    Err(error) => {
                        self.missing.insert(shard, error.clone());
                        continue;
                    }
                };
                let (member, wanted, page) = (self.open.remove(&shard), self.wanted.clone(), page.clone());
                asked.spawn(async move { (shard, one(shard, &target, member, sql, &wanted, page).await) });
            }
            let Some(answer) = asked.join_next().await else { break };
            // A task that panicked has shown why.
            let Ok((shard, answer)) = answer else { continue };
            match answer {
                Ok((member, rows)) => {
                    self.open.insert(shard, member);
                    answers.push((shard, rows));
                }
                Err(error) => {
                    self.missing.insert(shard, error.to_string());
                    failed = Some(error);
                }
            }
        }
        for shard in self.targets.keys() {
            if !self.missing.contains_key(shard) && !answers.iter().any(|(answered, _)| answered == shard) {
                self.missing.insert(*shard, "asking it has failed".to_owned());
            }
        }
        match failed {
            Some(error) if answers.is_empty() => Err(error),
            _ => Ok(answers),
        }
    }
}

/// Asks one shard, if it is that.
async fn one(
    shard: u16,
    target: &Target,
    member: Option<Member>,
    sql: &str,
    wanted: &Wanted,
    page: Option<(i32, Option<String>)>,
) -> Result<(Member, Vec<Row>), ClusterError> {
    let member = match member {
        Some(member) => member,
        None => {
            let member = Member::open(target).await?;
            let here: Option<i32> = member.row("SELECT df.shard()", &[]).await?.get(0);
            if here != Some(i32::from(shard)) {
                return Err(ClusterError::Elsewhere { number: shard, target: target.describe() });
            }
            member
        }
    };
    let (since, until) = (wanted.since.map(|at| at.to_string()), wanted.until.map(|at| at.to_string()));
    let mut parameters: Vec<(&(dyn ToSql + Sync), Type)> = vec![
        (&wanted.status, Type::TEXT),
        (&wanted.label, Type::TEXT),
        (&wanted.label_like, Type::TEXT),
        (&wanted.queue, Type::TEXT),
        (&wanted.role, Type::TEXT),
        (&since, Type::TEXT),
        (&until, Type::TEXT),
        (&wanted.input, Type::TEXT),
    ];
    if let Some((many, cursor)) = &page {
        parameters.push((many, Type::INT4));
        parameters.push((cursor, Type::TEXT));
    }
    let rows = member.rows(sql, &parameters).await?;
    Ok((member, rows))
}

fn found(shard: u16, row: &Row) -> Found {
    Found {
        shard,
        id: row.get("instance_id"),
        label: row.get("label"),
        status: row.get("status"),
        queue: row.get("queue"),
        role: row.get("role"),
        executions: row.get("execution_count"),
        created_at: row.get("created_at"),
        ended_at: row.get("ended_at"),
        output: row.get("output"),
        cursor: row.get("cursor"),
    }
}

/// What one shard gave.
struct Part {
    found: Vec<Found>,
    /// It has more, behind the last one.
    more: bool,
}

/// The first `many` of all, and where the next page begins. What comes behind the last row of a shard that has more is not known yet to be
/// next, and is left for then.
fn merged(parts: Vec<Part>, many: usize) -> (Vec<Found>, Option<String>) {
    let key = |found: &Found| (std::cmp::Reverse(found.created_at), found.id.clone());
    let known_to = parts.iter().filter(|part| part.more).filter_map(|part| part.found.last().map(key)).min();
    let mut all: Vec<Found> = parts.into_iter().flat_map(|part| part.found).collect();
    all.sort_by_cached_key(key);
    let count = all.len();
    if let Some(known_to) = &known_to {
        all.retain(|found| key(found) <= *known_to);
    }
    all.truncate(many);
    let has_more = all.len() < count || known_to.is_some();
    let next = if has_more { all.last().map(|found| found.cursor.clone()) } else { None };
    (all, next)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(shard: u16, second: i64) -> Found {
        let id = format!("{shard:03x}00000{:08x}", 100 - second);
        Found {
            shard,
            cursor: id.clone(),
            id,
            label: None,
            status: "completed".to_owned(),
            queue: None,
            role: None,
            executions: 1,
            created_at: Timestamp::from_second(second).unwrap(),
            ended_at: None,
            output: None,
        }
    }

    fn part(shard: u16, seconds: &[i64], more: bool) -> Part {
        Part { found: seconds.iter().map(|second| found(shard, *second)).collect(), more }
    }

    fn times(found: &[Found]) -> Vec<(u16, i64)> {
        found.iter().map(|found| (found.shard, found.created_at.as_second())).collect()
    }

    #[test]
    fn nothing_is_passed_over_that_a_shard_has_not_given_yet() {
        // SH-11: shard 1 may have something between 8 and 3.
        let parts = vec![part(0, &[9, 7, 3], false), part(1, &[10, 8], true)];
        let (page, next) = merged(parts, 10);
        assert_eq!(times(&page), [(1, 10), (0, 9), (1, 8)]);
        assert_eq!(next.as_deref(), Some(page[2].cursor.as_str()));
        let (page, next) = merged(vec![part(0, &[9, 7], false), part(1, &[8], false)], 2);
        assert_eq!((times(&page), next.is_some()), (vec![(0, 9), (1, 8)], true));
        let (page, next) = merged(vec![part(0, &[9, 7], false), part(1, &[], false)], 2);
        assert_eq!((times(&page), next), (vec![(0, 9), (0, 7)], None));
    }

    #[test]
    fn instances_of_one_time_are_in_the_order_of_their_ids() {
        let (page, _) = merged(vec![part(2, &[5], false), part(0, &[5], false), part(1, &[5], false)], 3);
        assert_eq!(page.iter().map(|found| found.shard).collect::<Vec<_>>(), [0, 1, 2]);
    }
}
