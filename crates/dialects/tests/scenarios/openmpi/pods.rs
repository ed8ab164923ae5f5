//! What parameters of the component say about its pods.

use super::*;

#[test]
fn a12_gpus_are_limits_and_slots_of_workers_alone() {
    for (gpu, slots) in [(1, 1), (4, 4)] {
        let run = created(with(json!({"gpu": gpu})));
        let limits = &run.pod("openmpi-worker-0")["containers"][0]["resources"]["limits"];
        assert_eq!(limits["nvidia.com/gpu"], gpu.to_string());
        let hostfile = &run.object(Kind::ConfigMap, "openmpi-assets")["data"]["hostfile"];
        let line = format!(" slots={slots}\n");
        assert!(
            hostfile.as_str().is_some_and(|file| file.contains(&line)),
            "{hostfile}"
        );
        assert!(
            run.pod("openmpi-master")["containers"][0]
                .get("resources")
                .is_none()
        );
        let sidecar = &run.pod("openmpi-worker-0")["containers"][1];
        assert!(
            sidecar["command"]
                .as_array()
                .is_some_and(|words| words.contains(&json!(gpu.to_string())))
        );
    }
    let run = created(quickstart());
    assert!(
        run.pod("openmpi-worker-0")["containers"][0]
            .get("resources")
            .is_none()
    );
}

#[test]
fn a14_the_node_selector_is_for_workers_and_splits_at_the_first_sign() {
    let run = created(with(json!({"nodeSelector": "a=b,c/d=e=f/g"})));
    assert_eq!(
        run.pod("openmpi-worker-1")["nodeSelector"],
        json!({"a": "b", "c/d": "e=f/g"})
    );
    assert!(run.pod("openmpi-master").get("nodeSelector").is_none());
}

#[test]
fn a15_cpu_and_memory_are_limits_of_workers() {
    let run = created(with(json!({"cpu": "2", "memory": "4Gi"})));
    let resources = &run.pod("openmpi-worker-0")["containers"][0]["resources"];
    assert_eq!(*resources, json!({"limits": {"cpu": "2", "memory": "4Gi"}}));
    assert!(
        run.pod("openmpi-master")["containers"][0]
            .get("resources")
            .is_none()
    );
}

#[test]
fn a21_the_library_path_is_forwarded() {
    let run = created(quickstart());
    let files = &run.object(Kind::ConfigMap, "openmpi-assets")["data"];
    let parameters = files["mca-params.conf"].as_str().unwrap_or_default();
    for line in [
        "hwloc_base_binding_policy=none",
        "rmaps_base_mapping_policy=slot",
        "btl_tcp_if_exclude=lo,docker0",
        "orte_keep_fqdn_hostnames=t",
        "mca_base_env_list=LD_LIBRARY_PATH",
    ] {
        assert!(parameters.lines().any(|given| given == line), "{line}");
    }
}

#[test]
fn a22_transfers_are_the_sidecars() {
    let run = created(with(
        json!({"s3Secret": "keys", "downloadDataFrom": "s3://b/in",
        "downloadDataTo": "in", "uploadDataFrom": "out", "uploadDataTo": "s3://b/out"}),
    ));
    let sidecar = &run.pod("openmpi-worker-0")["containers"][1];
    assert_eq!(sidecar["envFrom"], json!([{"secretRef": {"name": "keys"}}]));
    let words = sidecar["command"].as_array().cloned().unwrap_or_default();
    let wanted = [
        "--download-data-from",
        "s3://b/in",
        "--download-data-to",
        "in",
        "--upload-data-from",
        "out",
        "--upload-data-to",
        "s3://b/out",
    ];
    assert_eq!(words[words.len() - 8..], wanted.map(Value::from));
    let job = &run.pod("openmpi-worker-0")["containers"][0];
    assert!(
        job.get("envFrom").is_none(),
        "the job does not see the keys"
    );
}

#[test]
fn a23_user_and_group_are_those_of_every_pod() {
    let job = with(json!({"runAsUser": "1000", "runAsGroup": 1000, "supplementalGroups": "5,6"}));
    let run = created(job);
    let wanted = json!({"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 1000,
        "supplementalGroups": [5, 6]});
    for pod in ["openmpi-master", "openmpi-worker-0"] {
        assert_eq!(run.pod(pod)["securityContext"], wanted);
    }
    let sidecar = &run.pod("openmpi-worker-0")["containers"][1]["securityContext"];
    assert_eq!(sidecar["runAsNonRoot"], true);
    assert_eq!(sidecar["capabilities"], json!({"drop": ["ALL"]}));
    assert!(sidecar.get("runAsUser").is_none());
}

/// It copies files of any user, as long as the job names no user, and can do nothing else.
#[test]
fn s12_the_sidecar_has_one_of_roots_powers_at_most() {
    for user in [json!({}), json!({"runAsUser": 0})] {
        let run = created(with(user));
        let pod = run.pod("openmpi-worker-0");
        let wanted = json!({
            "runAsUser": 0,
            "allowPrivilegeEscalation": false,
            "capabilities": {"drop": ["ALL"], "add": ["DAC_OVERRIDE"]},
            "readOnlyRootFilesystem": true,
            "seccompProfile": {"type": "RuntimeDefault"},
        });
        assert_eq!(pod["containers"][1]["securityContext"], wanted);
    }
    let run = created(with(json!({"controllerImage": "mine:1"})));
    let own = &run.pod("openmpi-worker-0")["containers"][1];
    assert!(own.get("securityContext").is_none(), "{own}");
}

#[test]
fn s02_an_account_that_the_user_names_gets_no_rights() {
    let run = created(with(json!({"serviceAccountName": "default"})));
    for kind in [Kind::ServiceAccount, Kind::Role, Kind::RoleBinding] {
        assert!(run.made(kind).is_empty());
    }
    assert_eq!(run.pod("openmpi-master")["serviceAccountName"], "default");
}

#[test]
fn a24_workers_alone_use_the_network_of_their_node() {
    for given in [json!("TRUE"), json!(true), json!(1), json!("true")] {
        let run = created(with(json!({"useHostNetwork": given})));
        assert_eq!(run.pod("openmpi-worker-0")["hostNetwork"], true);
        assert_eq!(
            run.pod("openmpi-worker-0")["dnsPolicy"],
            "ClusterFirstWithHostNet"
        );
        assert!(run.pod("openmpi-master").get("hostNetwork").is_none());
    }
    for given in [json!("false"), json!(0), json!("null"), json!(false)] {
        let run = created(with(json!({"useHostNetwork": given})));
        assert!(run.pod("openmpi-worker-0").get("hostNetwork").is_none());
    }
}

#[test]
fn a25_lists_and_names_are_honoured() {
    let run = created(with(
        json!({"customResources": "rdma/hca=1,cpu=3", "cpu": "2",
        "imagePullSecrets": "a,b", "schedulerName": "other", "serviceAccountName": "mine",
        "volumes": [{"name": "v", "emptyDir": {}}],
        "volumeMounts": [{"name": "v", "mountPath": "/v"}]}),
    ));
    for pod in ["openmpi-master", "openmpi-worker-0"] {
        let spec = run.pod(pod);
        assert_eq!(
            spec["imagePullSecrets"],
            json!([{"name": "a"}, {"name": "b"}])
        );
        assert_eq!(
            (&spec["schedulerName"], &spec["serviceAccountName"]),
            (&json!("other"), &json!("mine"))
        );
        let containers = spec["containers"].as_array().cloned().unwrap_or_default();
        for container in containers {
            let mounts = container["volumeMounts"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            assert!(
                mounts.contains(&json!({"name": "v", "mountPath": "/v"})),
                "{container}"
            );
        }
    }
    let limits = &run.pod("openmpi-worker-0")["containers"][0]["resources"]["limits"];
    assert_eq!(
        *limits,
        json!({"rdma/hca": "1", "cpu": "3"}),
        "custom resources win"
    );
}
