//! The flag `--gang-scheduling`. Decides which gang scheduler a word of it means; knows nothing of the other
//! flags.

use planner::site::GangScheduler;

/// What the flag says about jobs that name no gang scheduler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct GangFlag {
    pub(super) scheduler: Option<GangScheduler>,
    /// They get the one that is found in the cluster.
    pub(super) is_auto: bool,
}

impl GangFlag {
    /// Any name may be that of a scheduler. The words of `spec.muster.gang` hardly are.
    pub(super) fn read(word: &str) -> Result<Self, String> {
        let instead = match word {
            "" => return Ok(Self::default()),
            "Auto" => {
                return Ok(Self {
                    is_auto: true,
                    ..Self::default()
                });
            }
            "volcano" => return Ok(Self::of(GangScheduler::Volcano)),
            "Volcano" => "write `volcano`",
            "SchedulerPlugins" => {
                "write the schedulerName of the coscheduling plugin, which is \
                 `scheduler-plugins-scheduler` unless somebody changed it"
            }
            "None" => "leave the flag out",
            "Native" | "T9k" => "set spec.muster.gang in the jobs, or write `Auto`",
            name => return Ok(Self::of(GangScheduler::SchedulerPlugins(name.to_owned()))),
        };
        Err(format!(
            "{word} is a word of spec.muster.gang, not of this flag: {instead}"
        ))
    }

    fn of(scheduler: GangScheduler) -> Self {
        Self {
            scheduler: Some(scheduler),
            is_auto: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_word_is_no_scheduler() {
        assert_eq!(GangFlag::read(""), Ok(GangFlag::default()));
    }

    #[test]
    fn volcano_has_its_own_api() {
        let flag = GangFlag::read("volcano").expect("a scheduler");
        assert_eq!(flag.scheduler, Some(GangScheduler::Volcano));
    }

    #[test]
    fn any_other_scheduler_name_is_a_coscheduling_plugin() {
        let flag = GangFlag::read("my-scheduler").expect("a scheduler");
        let plugin = GangScheduler::SchedulerPlugins("my-scheduler".to_owned());
        assert_eq!(flag.scheduler, Some(plugin));
    }

    #[test]
    fn a_gang_scheduler_may_be_left_to_be_found() {
        let flag = GangFlag::read("Auto").expect("a word");
        assert_eq!((flag.scheduler, flag.is_auto), (None, true));
    }

    #[test]
    fn words_of_the_jobs_are_no_scheduler_names() {
        for (word, advice) in [
            ("Volcano", "write `volcano`"),
            ("SchedulerPlugins", "scheduler-plugins-scheduler"),
            ("None", "leave the flag out"),
            ("Native", "spec.muster.gang"),
            ("T9k", "spec.muster.gang"),
        ] {
            let said = GangFlag::read(word).expect_err("not a scheduler");
            assert!(said.contains(advice), "{said}");
        }
    }
}
