//! The sidecar of a worker, with a real S3 server on loopback: what is downloaded before the worker may
//! start, what is uploaded after the end, and that the worker ends whatever happens.

#[path = "s3/server.rs"]
mod server;
#[path = "s3/worker.rs"]
mod worker;

use std::fs;
use std::time::{Duration, Instant};

use server::{SECRET, Server};
use worker::{Setup, Worker};

fn put(server: &Server, key: &str, content: &[u8]) {
    let file = server.buckets.join("bucket").join(key);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, content).unwrap();
}

#[test]
fn data_is_there_before_the_worker_starts_and_goes_out_after_the_end() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), "bucket", None);
    put(&server, "in/a", b"first");
    put(&server, "in/deep/er/b c+ü&.txt", b"second");
    put(&server, "in/empty", b"");
    put(&server, "inn/other", b"not asked for");
    let words = [
        "0",
        "--timeout-secs",
        "60",
        "--download-data-from",
        "s3://bucket/in",
        "--download-data-to",
        "got",
        "--upload-data-from",
        "out",
        "--upload-data-to",
        "s3://bucket/res/",
    ];
    let worker = Worker::start(&Setup {
        endpoint: Some(server.endpoint()),
        secret: SECRET,
        words: &words,
        variables: &[],
    });
    worker.may_start();
    let got = worker.data().join("got");
    assert_eq!(fs::read(got.join("a")).unwrap(), b"first");
    assert_eq!(fs::read(got.join("deep/er/b c+ü&.txt")).unwrap(), b"second");
    assert_eq!(fs::read(got.join("empty")).unwrap(), b"");
    assert!(!got.join("other").exists() && !worker.data().join("other").exists());
    assert!(!worker.signal("SIGTERM").exists());

    fs::create_dir_all(worker.data().join("out/sub")).unwrap();
    fs::write(worker.data().join("out/result"), b"42").unwrap();
    fs::write(worker.data().join("out/sub/x y"), b"43").unwrap();
    worker.job_is_over();
    let (code, said, _worker) = worker.ended();
    assert_eq!(code, Some(0), "{said}");
    let result = server.buckets.join("bucket/res/ns/job/job-worker-0");
    assert_eq!(fs::read(result.join("result")).unwrap(), b"42");
    assert_eq!(fs::read(result.join("sub/x y")).unwrap(), b"43");
    assert!(
        said.contains("downloaded 3 files") && said.contains("uploaded 2 files"),
        "{said}"
    );
}

#[test]
fn lists_of_more_than_a_thousand_are_read_to_their_end() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), "bucket", None);
    for index in 0..1003 {
        put(&server, &format!("in/{index}"), b"x");
    }
    let words = [
        "0",
        "--timeout-secs",
        "60",
        "--download-data-from",
        "s3://bucket/in",
        "--download-data-to",
        "got",
    ];
    let worker = Worker::start(&Setup {
        endpoint: Some(server.endpoint()),
        secret: SECRET,
        words: &words,
        variables: &[],
    });
    worker.may_start();
    assert_eq!(
        fs::read_dir(worker.data().join("got")).unwrap().count(),
        1003
    );
    worker.job_is_over();
    assert_eq!(worker.ended().0, Some(0));
}

#[test]
fn large_files_go_out_in_parts() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), "bucket", None);
    let words = [
        "0",
        "--timeout-secs",
        "60",
        "--upload-data-from",
        "big",
        "--upload-data-to",
        "s3://bucket",
    ];
    let worker = Worker::start(&Setup {
        endpoint: Some(server.endpoint()),
        secret: SECRET,
        words: &words,
        variables: &[],
    });
    worker.may_start();
    let big: Vec<u8> = (0..(65 * 1024 * 1024_u32 / 4))
        .flat_map(u32::to_le_bytes)
        .collect();
    fs::write(worker.data().join("big"), &big).unwrap();
    worker.job_is_over();
    let (code, said, _worker) = worker.ended();
    assert_eq!(code, Some(0), "{said}");
    let sent = fs::read(server.buckets.join("bucket/ns/job/job-worker-0/big")).unwrap();
    assert!(sent == big, "{} bytes arrived of {}", sent.len(), big.len());
}

#[test]
fn nothing_to_upload_is_no_failure() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), "bucket", None);
    let words = [
        "0",
        "--timeout-secs",
        "60",
        "--upload-data-from",
        "out",
        "--upload-data-to",
        "s3://bucket",
    ];
    let worker = Worker::start(&Setup {
        endpoint: Some(server.endpoint()),
        secret: SECRET,
        words: &words,
        variables: &[],
    });
    worker.may_start();
    worker.job_is_over();
    let (code, said, _worker) = worker.ended();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("out is not there"), "{said}");
}

#[test]
fn a_wrong_key_is_said_at_once_and_ends_the_worker() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), "bucket", None);
    let words = [
        "0",
        "--timeout-secs",
        "60",
        "--download-data-from",
        "s3://bucket/in",
        "--download-data-to",
        "got",
    ];
    let setup = Setup {
        endpoint: Some(server.endpoint()),
        secret: "wrong",
        words: &words,
        variables: &[],
    };
    let begun = Instant::now();
    let (code, _, worker) = Worker::start(&setup).ended();
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "it was tried again"
    );
    assert_eq!(code, Some(1));
    assert!(
        !worker.signal("SIGCONT").exists(),
        "the worker may not start"
    );
    let words = worker.last_words();
    assert!(
        words.contains("403") && words.contains("s3://bucket/in"),
        "{words}"
    );
    assert!(!words.contains("wrong"), "the key is in its last words");
    assert_eq!(fs::read_to_string(worker.signal("SIGTERM")).unwrap(), words);
}

#[test]
fn a_bucket_that_is_not_there_is_named() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), "bucket", None);
    let words = [
        "0",
        "--timeout-secs",
        "60",
        "--download-data-from",
        "s3://none/in",
        "--download-data-to",
        "got",
    ];
    let setup = Setup {
        endpoint: Some(server.endpoint()),
        secret: SECRET,
        words: &words,
        variables: &[],
    };
    let (code, _, worker) = Worker::start(&setup).ended();
    let words = worker.last_words();
    assert_eq!(code, Some(1));
    assert!(
        words.contains("404 NoSuchBucket") && words.contains("s3://none/in"),
        "{words}"
    );
}

#[test]
fn a_store_that_is_not_there_yet_is_tried_again() {
    let home = tempfile::tempdir().unwrap();
    let address = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let words = [
        "0",
        "--timeout-secs",
        "60",
        "--download-data-from",
        "s3://bucket/in",
        "--download-data-to",
        "got",
    ];
    let endpoint = Some(format!("http://{address}"));
    let begun = Instant::now();
    let (code, _, worker) = Worker::start(&Setup {
        endpoint,
        secret: SECRET,
        words: &words,
        variables: &[],
    })
    .ended();
    assert_eq!(code, Some(1));
    assert!(
        begun.elapsed() >= Duration::from_secs(15),
        "1, 2, 4 and 8 seconds are waited"
    );
    assert!(
        worker.last_words().contains("cannot reach"),
        "{}",
        worker.last_words()
    );
    drop(home);
}

#[test]
fn credentials_that_are_not_there_are_named() {
    let words = [
        "0",
        "--timeout-secs",
        "60",
        "--download-data-from",
        "s3://bucket/in",
        "--download-data-to",
        "got",
    ];
    let setup = Setup {
        endpoint: Some("http://127.0.0.1:1".to_owned()),
        secret: "",
        words: &words,
        variables: &[],
    };
    let (code, _, worker) = Worker::start(&setup).ended();
    assert_eq!(code, Some(1));
    let words = worker.last_words();
    assert!(
        words.contains("AWS_SECRET_ACCESS_KEY") && words.contains("Secret with the S3 credentials"),
        "{words}"
    );
}

#[test]
fn a_store_with_tls_is_trusted_by_its_authority_alone() {
    let home = tempfile::tempdir().unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let (certificate_file, key_file) = (home.path().join("crt"), home.path().join("key"));
    fs::write(&certificate_file, certificate.pem()).unwrap();
    fs::write(&key_file, key.serialize_pem()).unwrap();
    let server = Server::start(home.path(), "bucket", Some([&certificate_file, &key_file]));
    put(&server, "in/a", b"first");
    let words = [
        "0",
        "--timeout-secs",
        "60",
        "--download-data-from",
        "s3://bucket/in",
        "--download-data-to",
        "got",
    ];
    let bundle = certificate_file.to_str().unwrap();
    let trusting = [("AWS_CA_BUNDLE", bundle)];
    let worker = Worker::start(&Setup {
        endpoint: Some(server.endpoint()),
        secret: SECRET,
        words: &words,
        variables: &trusting,
    });
    worker.may_start();
    assert_eq!(fs::read(worker.data().join("got/a")).unwrap(), b"first");
    worker.job_is_over();
    assert_eq!(worker.ended().0, Some(0));

    let stranger = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let other = home.path().join("other");
    fs::write(&other, stranger.cert.pem()).unwrap();
    let doubting = [("AWS_CA_BUNDLE", other.to_str().unwrap())];
    let setup = Setup {
        endpoint: Some(server.endpoint()),
        secret: SECRET,
        words: &words,
        variables: &doubting,
    };
    let (code, _, worker) = Worker::start(&setup).ended();
    assert_eq!(code, Some(1));
    assert!(
        !worker.signal("SIGCONT").exists(),
        "{}",
        worker.last_words()
    );
}

#[test]
fn a13_with_gpus_the_worker_waits_for_their_driver() {
    let home = tempfile::tempdir().unwrap();
    let driver = home.path().join("version");
    let variables = [("MUSTER_DRIVER_FILE", driver.to_str().unwrap())];
    let words = ["2", "--timeout-secs", "60"];
    let worker = Worker::start(&Setup {
        endpoint: None,
        secret: SECRET,
        words: &words,
        variables: &variables,
    });
    worker.await_file(&worker.data().join(".signals"));
    // Two looks would have been enough to be wrong.
    std::thread::sleep(Duration::from_millis(500));
    assert!(!worker.signal("SIGCONT").exists());
    fs::write(&driver, "NVRM version").unwrap();
    worker.may_start();
    worker.job_is_over();
    assert_eq!(worker.ended().0, Some(0));
}

#[test]
fn a13_a_driver_that_never_comes_is_124() {
    let words = ["1", "--timeout-secs", "1"];
    let variables = [("MUSTER_DRIVER_FILE", "/nonexistent/version")];
    let setup = Setup {
        endpoint: None,
        secret: SECRET,
        words: &words,
        variables: &variables,
    };
    let (code, _, worker) = Worker::start(&setup).ended();
    assert_eq!(code, Some(124));
    assert!(
        worker
            .last_words()
            .starts_with("initialisation: no NVIDIA driver"),
        "{}",
        worker.last_words()
    );
}

#[test]
fn a_pod_that_is_told_to_end_takes_its_worker_along() {
    let words = ["0", "--timeout-secs", "60"];
    let worker = Worker::start(&Setup {
        endpoint: None,
        secret: SECRET,
        words: &words,
        variables: &[],
    });
    worker.may_start();
    let pid = rustix::process::Pid::from_child(&worker.sidecar);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(worker.ended().0, Some(0));
}
