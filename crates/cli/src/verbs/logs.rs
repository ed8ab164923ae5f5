//! `muster logs JOB`: the output of its programs. Decides which pods and which lines are printed.

use std::cell::Cell;
use std::collections::BTreeSet;

use anyhow::Result;
use contract::agent_report;
use futures::AsyncBufReadExt as _;
use futures::future::try_join_all;
use kube::api::LogParams;
use serde_json::Value;

use crate::args::{Global, LogsArgs};
use crate::backend::Backend;
use crate::exit::Failure;
use crate::view::{JobView, PodView, launcher, workers};
use crate::{out, rank_mark};

pub(crate) async fn run(global: &Global, args: &LogsArgs) -> Result<u8> {
    let backend = Backend::connect(global, Some(&args.job.name)).await?;
    let job = backend.job(&args.job.name).await?;
    let pods = backend.pods(JobView(&job)).await?;
    let chosen = chosen(args, &pods)?;
    if chosen.is_empty() {
        let name = JobView(&job).name();
        return Err(Failure::new(
            crate::exit::FAILED,
            format!(
                "{name} has no such pod; `muster describe {}` lists its pods",
                backend.address(name)
            ),
        ));
    }
    let ranks = args.rank.as_deref().map(numbers).transpose()?;
    let attempt = Cell::new(1);
    let print = |pod: PodView<'_>, line: &[u8]| {
        let text = String::from_utf8_lossy(line);
        attempt.set(begun(&text, args.timestamps).unwrap_or(attempt.get()));
        let wanted = args.attempt.is_none_or(|wanted| wanted == attempt.get())
            && args.grep.as_ref().is_none_or(|part| text.contains(part))
            && ranks
                .as_ref()
                .is_none_or(|ranks| rank_mark::is_of_any(&text, ranks));
        if wanted {
            let label = if args.label {
                format!("[{}] ", pod.name())
            } else {
                String::new()
            };
            out::data(&format!("{label}{text}\n"));
        }
    };
    try_join_all(
        chosen
            .into_iter()
            .map(|pod| stream(&backend, pod, args, &print)),
    )
    .await?;
    match args.attempt {
        Some(wanted) if wanted > attempt.get() => Err(Failure::new(
            crate::exit::FAILED,
            format!("the log ends with attempt {}", attempt.get()),
        )),
        _ => Ok(0),
    }
}

/// The attempt that begins with this line, if one does.
fn begun(line: &str, has_time: bool) -> Option<u32> {
    let line = match line.split_once(' ') {
        Some((_, rest)) if has_time => rest,
        _ => line,
    };
    agent_report::begun_attempt(line)
}

async fn stream(
    backend: &Backend,
    pod: PodView<'_>,
    args: &LogsArgs,
    print: &impl Fn(PodView<'_>, &[u8]),
) -> Result<()> {
    let container = args.container.as_deref().unwrap_or(pod.main_container());
    let number = |given: Option<u64>| given.map(|given| i64::try_from(given).unwrap_or(i64::MAX));
    let params = LogParams {
        container: Some(container.to_owned()),
        follow: args.follow && !backend.is_recorded(),
        tail_lines: number(args.tail),
        since_seconds: number(args.since),
        previous: args.previous,
        timestamps: args.timestamps,
        ..LogParams::default()
    };
    let mut reader = backend.log(pod, &params).await?;
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).await? > 0 {
        print(pod, line.strip_suffix(b"\n").unwrap_or(&line));
        line.clear();
    }
    Ok(())
}

fn chosen<'p>(args: &LogsArgs, pods: &'p [Value]) -> Result<Vec<PodView<'p>>> {
    let Some(list) = &args.worker else {
        return Ok(launcher(pods).into_iter().collect());
    };
    let wanted = numbers(list)?;
    let workers = workers(pods);
    let numbered = workers.into_iter().enumerate();
    Ok(numbered
        .filter(|(place, _)| wanted.contains(place))
        .map(|(_, pod)| pod)
        .collect())
}

/// `0,2-5`.
fn numbers(list: &str) -> Result<BTreeSet<usize>> {
    let wrong = || Failure::usage(format!("invalid list {list:?}; use 0, 2-5 or 0,3"));
    let mut numbers = BTreeSet::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first: usize = first.trim().parse().map_err(|_| wrong())?;
        let last: usize = last.trim().parse().map_err(|_| wrong())?;
        if last < first || last - first > 100_000 {
            return Err(wrong().into());
        }
        numbers.extend(first..=last);
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_hold_numbers_and_ranges() {
        assert_eq!(numbers("0,2-4").unwrap(), BTreeSet::from([0, 2, 3, 4]));
        assert!(numbers("a").is_err());
        assert!(numbers("4-2").is_err());
    }

    #[test]
    fn attempts_begin_with_a_line_of_the_agent() {
        let line = format!("{}RankKilled: rank 1", agent_report::attempt_line(2, 4));
        assert_eq!(begun(&line, false), Some(2));
        assert_eq!(
            begun(&format!("2026-11-15T12:00:00Z {line}"), true),
            Some(2)
        );
        assert_eq!(begun("muster-agent: RankFailed: rank 1", false), None);
    }
}
