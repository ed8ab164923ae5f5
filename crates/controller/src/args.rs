//! The command line: every flag of the Kubeflow operator, with one dash or two as in Go, so that a
//! Deployment written for it starts ours. Decides what each flag means here, and which have no effect.

use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _, Parser};
use contract::labels::OPERATOR_NAME;
use jiff::Timestamp;
use planner::site::{Site, Transport};

use crate::metrics_port::MetricsPorts;
use crate::scope::Scope;

use self::gang_flag::GangFlag;

mod gang_flag;

/// Flags that have nothing to set here: our client has no rate limit of its own, events are gathered
/// instead of queued, and the log goes to stderr. The first seven are booleans, which take a
/// value only after `=`.
const WITHOUT_EFFECT: [&str; 17] = [
    "add_dir_header",
    "alsologtostderr",
    "legacy_stderr_threshold_behavior",
    "logtostderr",
    "one_output",
    "skip_headers",
    "skip_log_headers",
    "controller-queue-burst",
    "controller-queue-rate-limit",
    "kube-api-burst",
    "kube-api-qps",
    "log_backtrace_at",
    "log_dir",
    "log_file",
    "log_file_max_size",
    "stderrthreshold",
    "vmodule",
];
const BOOLEANS_WITHOUT_EFFECT: usize = 7;
/// Where Kubernetes tells a pod the namespace that it runs in.
const OWN_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
/// Passes mostly wait for the network, so many run at once.
const CONCURRENCY_MIN: u16 = 16;

/// The command line.
#[derive(Clone, Debug)]
pub struct Settings {
    /// URL of the API server, or empty.
    pub master: String,
    /// Path of a kubeconfig, or empty.
    pub kubeconfig: String,
    /// Namespace of the election's Lease.
    pub lock_namespace: String,
    /// Port of the health probes; 0 is off.
    pub health_port: u16,
    /// Ports of the metrics.
    pub metrics: MetricsPorts,
    /// klog's verbosity.
    pub verbosity: u8,
    /// Log JSON.
    pub log_json: bool,
    /// Which jobs to reconcile.
    pub scope: Scope,
    /// Flags that were given and have no effect.
    pub without_effect: Vec<String>,
}

/// Reads the command line and the environment. Ends the process for `--help`, `--version` and
/// for unknown flags.
pub fn parse() -> Settings {
    let environment = |name: &str| std::env::var(name).ok();
    let own_namespace = std::fs::read_to_string(OWN_NAMESPACE).ok();
    let settings =
        read(std::env::args(), environment, own_namespace).unwrap_or_else(|error| error.exit());
    settings.unwrap_or_else(|| {
        println!("{}", version());
        std::process::exit(0)
    })
}

impl Settings {
    /// Logs the settings.
    pub fn log(&self) {
        tracing::info!(
            version = env!("CARGO_PKG_VERSION"),
            namespace = self.scope.namespace.as_deref().unwrap_or("(all)"),
            lock_namespace = self.lock_namespace,
            gang = ?self.scope.site.gang,
            gang_is_auto = self.scope.site.gang_is_auto,
            cluster_domain = self.scope.site.cluster_domain,
            agent_image = self.scope.site.agent_image.as_deref().unwrap_or("(none)"),
            transport = self.scope.site.transport.as_str(),
            refused_namespace = self.scope.site.refused_namespace.as_deref().unwrap_or("(none)"),
            "starting"
        );
        if !self.without_effect.is_empty() {
            tracing::info!(
                flags = self.without_effect.join(" "),
                "these flags have no effect"
            );
        }
    }
}

/// Runs MPI jobs on Kubernetes.
#[derive(Debug, Parser)]
#[command(
    name = "muster-operator",
    disable_version_flag = true,
    rename_all = "snake_case"
)]
struct Flags {
    /// URL of the API server; overrides the kubeconfig's
    #[arg(long, default_value = "")]
    master: String,
    /// Path of a kubeconfig; the variable KUBECONFIG overrides it, and without both the cluster
    /// is the one that this pod runs in
    #[arg(long = "kubeConfig", default_value = "")]
    kubeconfig: String,
    /// The namespace of the jobs to reconcile; all when empty. Default: the variable KUBEFLOW_NAMESPACE
    #[arg(long)]
    namespace: Option<String>,
    /// Jobs to reconcile at once; at least 16
    #[arg(long, default_value_t = 2)]
    threadiness: u16,
    /// Print the version and exit
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", value_parser = go_bool)]
    version: bool,
    /// Port of /metrics without TLS, for whoever can connect; 0 is off
    #[arg(long = "monitoring-port", default_value_t = 0)]
    monitoring_port: u16,
    /// Port of /metrics with TLS, for those whose token the API server lets get /metrics; 0 is off
    #[arg(long = "metrics-port", default_value_t = 0)]
    metrics_port: u16,
    /// Directory with tls.crt and tls.key for --metrics-port, read again every minute; without it, the
    /// operator makes a certificate for itself when it starts
    #[arg(long = "metrics-certificate", default_value = "")]
    metrics_certificate: String,
    /// Gang scheduler: volcano, or the scheduler name of a coscheduling plugin; none when empty. Auto: the
    /// first of Native, Volcano, SchedulerPlugins and T9k whose API the cluster serves
    #[arg(long = "gang-scheduling", default_value = "", value_parser = GangFlag::read)]
    gang_scheduling: GangFlag,
    /// Namespace of the Lease that operators elect their leader by
    #[arg(long = "lock-namespace", default_value = OPERATOR_NAME)]
    lock_namespace: String,
    /// Suffix of host names, e.g. cluster.local
    #[arg(long = "cluster-domain", default_value = "")]
    cluster_domain: String,
    /// Image of muster-agent, which the gate of every job and transport Agent need; without it, both are
    /// off
    #[arg(long = "agent-image", default_value = "")]
    agent_image: String,
    /// How mpirun reaches the workers of a job that does not choose: SSH or Agent
    #[arg(long = "default-transport", default_value = "SSH", value_parser = ["SSH", "Agent"])]
    default_transport: String,
    /// Accept jobs in the operator's own namespace. Whoever may create a job there can run pods as the
    /// operator's account
    #[arg(long = "allow-jobs-in-operator-namespace", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", value_parser = go_bool)]
    allow_jobs_in_operator_namespace: bool,
    /// Verbosity of the log as in klog; 4 and above log details
    #[arg(long = "v", default_value_t = 0)]
    verbosity: u8,
    /// Form of the log: text or json
    #[arg(long = "log-format", default_value = "text", value_parser = ["text", "json"])]
    log_format: String,
    /// Port of /healthz and /readyz; 0 is off
    #[arg(long = "health-port", default_value_t = 8080, hide = true)]
    health_port: u16,
}

/// All flags.
fn command() -> clap::Command {
    let without_effect = WITHOUT_EFFECT.iter().enumerate().map(|(index, name)| {
        let flag = clap::Arg::new(*name).long(*name);
        let flag = flag.help("No effect").hide(!name.contains('-'));
        if index < BOOLEANS_WITHOUT_EFFECT {
            let flag = flag.num_args(0..=1).require_equals(true);
            flag.default_missing_value("true").value_parser(go_bool)
        } else {
            flag.allow_negative_numbers(true)
        }
    });
    Flags::command().args(without_effect)
}

/// Settings from arguments, variables and the namespace of the pod that this runs in; `None` for
/// `--version`. Outside of a pod, the operator's namespace is that of its Lease.
fn read(
    arguments: impl IntoIterator<Item = String>,
    environment: impl Fn(&str) -> Option<String>,
    own_namespace: Option<String>,
) -> Result<Option<Settings>, clap::Error> {
    let arguments = arguments.into_iter().map(two_dashes);
    let matches = command().try_get_matches_from(arguments)?;
    let flags = Flags::from_arg_matches(&matches)?;
    if flags.version {
        return Ok(None);
    }
    let variable = |name| environment(name).filter(|value| !value.is_empty());
    let namespace = flags.namespace.or_else(|| variable("KUBEFLOW_NAMESPACE"));
    let own_namespace = own_namespace.map(|name| name.trim().to_owned());
    let own_namespace = own_namespace.unwrap_or_else(|| flags.lock_namespace.clone());
    Ok(Some(Settings {
        without_effect: given(&matches),
        master: flags.master,
        kubeconfig: variable("KUBECONFIG").unwrap_or(flags.kubeconfig),
        lock_namespace: flags.lock_namespace,
        health_port: flags.health_port,
        metrics: MetricsPorts {
            tls: flags.metrics_port,
            certificate: Some(flags.metrics_certificate)
                .filter(|directory| !directory.is_empty())
                .map(Into::into),
            plain: flags.monitoring_port,
        },
        verbosity: flags.verbosity,
        log_json: flags.log_format == "json",
        scope: Scope {
            site: Site {
                cluster_domain: flags.cluster_domain,
                gang: flags.gang_scheduling.scheduler,
                gang_is_auto: flags.gang_scheduling.is_auto,
                found_gang: None,
                agent_image: Some(flags.agent_image).filter(|image| !image.is_empty()),
                transport: match flags.default_transport.as_str() {
                    "Agent" => Transport::Agent,
                    _ => Transport::Ssh,
                },
                machine_cores: None,
                refused_namespace: Some(own_namespace)
                    .filter(|_| !flags.allow_jobs_in_operator_namespace),
            },
            namespace: namespace.filter(|namespace| !namespace.is_empty()),
            concurrency: flags.threadiness.max(CONCURRENCY_MIN),
            clock: Timestamp::now,
            nonce: crate::nonce,
            keys: crate::KeySource::FRESH,
        },
    }))
}

fn given(matches: &ArgMatches) -> Vec<String> {
    let given = |name: &&&str| matches.value_source(name) == Some(ValueSource::CommandLine);
    let given = WITHOUT_EFFECT.iter().filter(given);
    given.map(|name| format!("--{name}")).collect()
}

/// Go programs accept `-flag` for `--flag`. A dash before a digit is a minus sign.
fn two_dashes(argument: String) -> String {
    let mut characters = argument.chars();
    match (characters.next(), characters.next()) {
        (Some('-'), Some(first)) if first.is_ascii_alphabetic() => match argument.as_str() {
            "-h" => "--help".to_owned(),
            _ => format!("-{argument}"),
        },
        _ => argument,
    }
}

/// The booleans of Go's flag package.
fn go_bool(word: &str) -> Result<bool, String> {
    match word {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(format!("{word} is neither true nor false")),
    }
}

/// Six lines, in the order of the Kubeflow operator.
fn version() -> String {
    [
        "API Version: v2".to_owned(),
        concat!("Version: ", env!("CARGO_PKG_VERSION")).to_owned(),
        format!(
            "Git SHA: {}",
            option_env!("MUSTER_GIT_SHA").unwrap_or("unknown")
        ),
        format!(
            "Built: {}",
            option_env!("MUSTER_BUILT").unwrap_or("unknown")
        ),
        concat!("Rust Version: ", env!("CARGO_PKG_RUST_VERSION")).to_owned(),
        format!(
            "Rust OS/Arch: {}/{}",
            std::env::consts::OS,
            std::env::consts::ARCH
        ),
    ]
    .join("\n")
}

#[cfg(test)]
mod tests {
    mod page;

    use planner::site::GangScheduler;

    use super::*;

    fn settings(arguments: &[&str], environment: &[(&str, &str)]) -> Settings {
        let arguments = ["muster-operator"]
            .iter()
            .chain(arguments)
            .map(ToString::to_string);
        let variable = |name: &str| {
            let found = environment.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        read(arguments, variable, None)
            .expect("the flags are known")
            .expect("not only the version")
    }

    fn exit_code(arguments: &[&str]) -> i32 {
        let arguments = ["muster-operator"]
            .iter()
            .chain(arguments)
            .map(ToString::to_string);
        read(arguments, |_| None, None)
            .expect_err("nothing to run")
            .exit_code()
    }

    #[test]
    fn defaults_are_those_of_the_kubeflow_operator() {
        let settings = settings(&[], &[]);
        assert_eq!(settings.lock_namespace, "mpi-operator");
        assert_eq!(settings.health_port, 8080);
        assert_eq!(settings.metrics, MetricsPorts::default());
        assert_eq!(settings.scope.namespace, None);
        let site = Site {
            refused_namespace: Some("mpi-operator".to_owned()),
            ..Site::default()
        };
        assert_eq!(settings.scope.site, site);
        assert_eq!(settings.kubeconfig, "");
        assert!(settings.without_effect.is_empty());
    }

    #[test]
    fn one_dash_is_as_good_as_two() {
        for style in [
            [
                "-monitoring-port=9090",
                "-lock-namespace",
                "ops",
                "-kubeConfig=/k",
            ]
            .as_slice(),
            &[
                "--monitoring-port",
                "9090",
                "--lock-namespace=ops",
                "--kubeConfig",
                "/k",
            ],
        ] {
            let settings = settings(style, &[]);
            assert_eq!(settings.metrics.plain, 9090);
            assert_eq!(settings.lock_namespace, "ops");
            assert_eq!(settings.kubeconfig, "/k");
        }
    }

    #[test]
    fn flags_without_effect_are_accepted_and_named() {
        let settings = settings(
            &[
                "-alsologtostderr",
                "-logtostderr=false",
                "--kube-api-qps",
                "-1",
                "-kube-api-burst=20",
                "-controller-queue-rate-limit=50",
                "-controller-queue-burst=200",
                "-stderrthreshold=INFO",
                "-legacy_stderr_threshold_behavior=true",
                "-vmodule=a=1",
                "-log_file_max_size=1",
                "-v=4",
            ],
            &[],
        );
        assert_eq!(settings.verbosity, 4);
        assert!(
            settings
                .without_effect
                .contains(&"--alsologtostderr".to_owned())
        );
        assert!(
            settings
                .without_effect
                .contains(&"--kube-api-qps".to_owned())
        );
        assert_eq!(settings.without_effect.len(), 10);
    }

    #[test]
    fn a_boolean_does_not_swallow_the_next_flag() {
        let settings = settings(&["-alsologtostderr", "-gang-scheduling=volcano"], &[]);
        assert_eq!(settings.scope.site.gang, Some(GangScheduler::Volcano));
    }

    #[test]
    fn an_unknown_gang_scheduler_is_refused() {
        let arguments = ["muster-operator", "--gang-scheduling=Native"].map(str::to_owned);
        let error = read(arguments, |_| None, None).expect_err("not a scheduler");
        assert!(error.to_string().contains("spec.muster.gang"), "{error}");
        assert_eq!(error.exit_code(), 2);
        let site = settings(&["--gang-scheduling=Auto"], &[]).scope.site;
        assert!(site.gang_is_auto);
    }

    #[test]
    fn the_environment_overrides_or_fills_in() {
        let variables = [("KUBECONFIG", "/env"), ("KUBEFLOW_NAMESPACE", "team-a")];
        let both = settings(&["--kubeConfig=/flag"], &variables);
        assert_eq!(both.kubeconfig, "/env");
        assert_eq!(both.scope.namespace.as_deref(), Some("team-a"));
        let flag = settings(&["--namespace=team-b"], &variables);
        assert_eq!(flag.scope.namespace.as_deref(), Some("team-b"));
        assert_eq!(
            settings(&["--namespace="], &variables).scope.namespace,
            None
        );
        let empty = settings(&["--kubeConfig=/flag"], &[("KUBECONFIG", "")]);
        assert_eq!(empty.kubeconfig, "/flag");
    }

    #[test]
    fn s02_jobs_in_the_namespace_that_the_operator_runs_in_are_refused() {
        let refused = |arguments: &[&str], own: Option<&str>| {
            let arguments = [&["o", "--lock-namespace=locks"], arguments].concat();
            let arguments = arguments.into_iter().map(str::to_owned);
            let settings = read(arguments, |_| None, own.map(str::to_owned));
            let settings = settings.expect("the flags are known");
            settings
                .expect("not only the version")
                .scope
                .site
                .refused_namespace
        };
        assert_eq!(refused(&[], Some("ops\n")).as_deref(), Some("ops"));
        assert_eq!(refused(&[], None).as_deref(), Some("locks"));
        let allow = "--allow-jobs-in-operator-namespace";
        assert_eq!(refused(&[allow], Some("ops")), None);
        let off = format!("{allow}=false");
        assert_eq!(refused(&[&off], None).as_deref(), Some("locks"));
    }

    #[test]
    fn unknown_flags_exit_with_2_and_help_with_0() {
        assert_eq!(exit_code(&["-no-such-flag"]), 2);
        assert_eq!(exit_code(&["-alsologtostderr=maybe"]), 2);
        assert_eq!(exit_code(&["-help"]), 0);
        assert_eq!(exit_code(&["-h"]), 0);
    }

    #[test]
    fn the_version_has_six_lines_in_order() {
        assert!(
            read(["o".to_owned(), "-version".to_owned()], |_| None, None)
                .unwrap()
                .is_none()
        );
        let version = version();
        let heads: Vec<&str> = version
            .lines()
            .filter_map(|line| line.split(": ").next())
            .collect();
        assert_eq!(
            heads,
            [
                "API Version",
                "Version",
                "Git SHA",
                "Built",
                "Rust Version",
                "Rust OS/Arch"
            ]
        );
    }
}
