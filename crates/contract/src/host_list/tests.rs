//! Lists of every kind, written and read back.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::*;

/// What Kubernetes allows for all annotations of an object.
const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;

/// Numbers that look random, the same in every run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        // The constants of Knuth's MMIX.
        let (factor, step) = (6_364_136_223_846_793_005, 1_442_695_040_888_963_407);
        self.0 = self.0.wrapping_mul(factor).wrapping_add(step);
        self.0 >> 16
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn wide(&mut self) -> u128 {
        u128::from(self.next()) << 80 | u128::from(self.next()) << 40 | u128::from(self.next())
    }
}

type Worker = (u32, String, Option<u16>);

fn written(workers: &[Worker]) -> String {
    let listed = workers.iter().map(|(index, address, port)| ListedWorker {
        index: *index,
        address,
        port: *port,
    });
    let listed: Vec<_> = listed.collect();
    let count = u32::try_from(workers.len()).expect("a test has few");
    write(count, "pi-worker-", &listed)
}

fn expected(workers: &[Worker]) -> Vec<ListedHost> {
    let host = |(index, address, port): &Worker| ListedHost {
        name: format!("pi-worker-{index}"),
        address: spelled(address, *port),
    };
    workers.iter().map(host).collect()
}

fn any_address(numbers: &mut Numbers) -> String {
    let near = u32::try_from(numbers.below(1 << 16)).unwrap_or_default();
    match numbers.below(5) {
        0 => Ipv4Addr::from(0x0af4_0000 | near).to_string(),
        1 => Ipv4Addr::from(u32::try_from(numbers.below(1 << 32)).unwrap_or_default()).to_string(),
        2 => Ipv6Addr::from(0xfd00_u128 << 112 | u128::from(near)).to_string(),
        3 => Ipv6Addr::from(numbers.wide()).to_string(),
        _ => Ipv6Addr::from(u128::from(near)).to_string(),
    }
}

#[test]
fn c07_every_list_is_read_back_as_it_was_written() {
    let mut numbers = Numbers(1);
    for round in 0..8 {
        let gaps = numbers.below(3) * numbers.below(300);
        let mut index = 0;
        let workers: Vec<Worker> = (0..4_000)
            .map(|_| {
                index += 1 + u32::try_from(numbers.below(gaps + 1)).unwrap_or_default();
                let port = match numbers.below(4) {
                    0 => Some(u16::try_from(1 + numbers.below(65_535)).unwrap_or_default()),
                    1 => Some(u16::try_from(20_000 + index % 12_000).unwrap_or_default()),
                    _ => None,
                };
                (
                    index,
                    any_address(&mut numbers),
                    port.filter(|_| round % 2 == 0),
                )
            })
            .collect();
        let text = written(&workers);
        assert!(text.contains('@'), "a long list is packed");
        assert_eq!(read(&text), expected(&workers));
        assert_eq!(read_workers(&text), Some(4_000));
    }
}

#[test]
fn a_short_list_is_plain() {
    let workers = [
        (0, "10.1.0.5".to_owned(), None),
        (2, "10.1.0.6".to_owned(), Some(20_001)),
        (3, "fd00::3".to_owned(), None),
        (4, "fd00::4".to_owned(), Some(80)),
    ];
    let text = "# workers 4\n\
                pi-worker-0 10.1.0.5\n\
                pi-worker-2 10.1.0.6:20001\n\
                pi-worker-3 fd00::3\n\
                pi-worker-4 [fd00::4]:80\n";
    assert_eq!(written(&workers), text);
    assert_eq!(read(text), expected(&workers));
}

#[test]
fn c07_a_list_of_few_workers_is_known_to_be_short() {
    for count in [0, 1, 2, 100, 1_000, 3_000] {
        let workers =
            (0..count).map(|index| (index, Ipv6Addr::from(u128::MAX).to_string(), Some(65_535)));
        let text = written(&workers.collect::<Vec<_>>());
        let (bytes, workers) = (bytes_max(count, "pi-worker"), count as usize);
        assert!(text.len() <= bytes, "{count} workers: {} bytes", text.len());
        assert!(
            bytes <= 128 + 80 * workers,
            "{count} workers: {bytes} bytes"
        );
    }
}

#[test]
fn c07_ten_thousand_workers_fit_wherever_they_are() {
    let mut numbers = Numbers(7);
    let mut fits =
        |kind: &str, room: usize, address: &mut dyn FnMut(&mut Numbers, u32) -> String| {
            let workers: Vec<Worker> = (0..10_000)
                .map(|index| {
                    let port = u16::try_from(20_000 + index % 12_000).ok();
                    (index, address(&mut numbers, index), port)
                })
                .collect();
            let text = written(&workers);
            println!("{kind}: {} bytes", text.len());
            assert_eq!(read(&text), expected(&workers));
            assert!(text.len() <= bytes_max(10_000, "pi-worker-"), "{kind}");
            assert!(
                text.len() + room < ANNOTATIONS_BYTES_MAX,
                "{kind}: {}",
                text.len()
            );
        };
    fits("pods of nodes", 200_000, &mut |_, index| {
        Ipv4Addr::from(0x0af4_0000 + index * 7 % 65_000).to_string()
    });
    fits("any IPv4", 150_000, &mut |numbers, _| {
        Ipv4Addr::from(u32::try_from(numbers.below(1 << 32)).unwrap_or_default()).to_string()
    });
    fits("IPv6 of one cluster", 100_000, &mut |numbers, _| {
        let (node, pod) = (numbers.below(1 << 16), numbers.next());
        let address = 0xfd12_3456_789a_u128 << 80 | u128::from(node) << 64;
        Ipv6Addr::from(address | u128::from(pod)).to_string()
    });
    fits("any IPv6", 30_000, &mut |numbers, _| {
        Ipv6Addr::from(numbers.wide()).to_string()
    });
}

#[test]
fn c07_what_is_no_list_is_survived() {
    let mut numbers = Numbers(3);
    let workers: Vec<Worker> = (0..4_000)
        .map(|index| (index, any_address(&mut numbers), None))
        .collect();
    let (text, all) = (written(&workers), expected(&workers));
    for _ in 0..100 {
        let cut = usize::try_from(numbers.below(text.len() as u64)).unwrap_or_default();
        let hosts = read(&text[..cut]);
        assert!(hosts.len() <= 4_000);
        // The last record may lack the end of its address; no record before it does.
        let whole = hosts.len().saturating_sub(1);
        assert_eq!(hosts[..whole], all[..whole]);
    }
    for _ in 0..2_000 {
        let bytes: Vec<u8> = (0..numbers.below(64))
            .map(|_| u8::try_from(numbers.below(256)).unwrap_or_default())
            .collect();
        read(&format!("@ w- {}\n", base64::encode(&bytes)));
        read(&String::from_utf8_lossy(&bytes));
    }
    assert_eq!(
        read("@\n@ w-\nhalf\n\n# w 10.0.0.1\n"),
        [ListedHost {
            name: "@".to_owned(),
            address: "w-".to_owned(),
        }]
    );
}

#[test]
fn an_address_that_is_none_stands_as_it_is() {
    let mut workers: Vec<Worker> = (0..5_000)
        .map(|index| (index, "10.0.0.1".to_owned(), None))
        .collect();
    workers[4_999].1 = "node-7".to_owned();
    assert_eq!(read(&written(&workers)), expected(&workers));
}

#[test]
fn a_worker_is_called_as_it_is_spelled_and_in_no_other_way() {
    let packed = |index| ListEntry::Packed {
        prefix: "pi-worker-",
        index,
        address: Ipv4Addr::LOCALHOST.into(),
        port: 0,
    };
    for index in [0, 7, 10, u32::MAX] {
        let entry = packed(index);
        assert!(entry.is_called(&entry.spelled().name));
        for other in [
            "pi-worker-",
            "pi-worker-+7",
            "pi-worker-07",
            "pi-worker-00",
            "pi-worker-70",
        ] {
            assert!(!entry.is_called(other), "{entry:?} is not {other}");
        }
        assert!(!entry.is_called(&format!("{}.pi", entry.spelled().name)));
    }
}
