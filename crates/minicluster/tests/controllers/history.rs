//! What the store promises: history that ends, and names that a seed decides.

use minicluster::{Answer, Next};
use serde_json::{Value, json};

use crate::world::{JOBS, PODS, World, job, pod};

#[test]
fn history_that_is_forgotten_ends_a_watch() {
    let mut world = World::new();
    world.create(PODS, &pod("p", |_| {}));
    let request = http::Request::get(format!("{PODS}?watch=true&resourceVersion=1"));
    let request = request.body(Vec::new()).expect("the parts are valid");
    world.cluster.compact();
    let Answer::Watch(mut watch) = world.cluster.handle(world.now, request) else {
        panic!("a watch is answered by a watch");
    };
    let Next::Lines(lines) = world.cluster.follow(world.now, &mut watch) else {
        panic!("the watch says why it ends");
    };
    let event: Value = serde_json::from_slice(&lines).expect("a line is JSON");
    assert_eq!(
        (&event["type"], &event["object"]["code"]),
        (&json!("ERROR"), &json!(410))
    );
    assert_eq!(world.cluster.follow(world.now, &mut watch), Next::Over);
}

#[test]
fn the_same_seed_gives_the_same_cluster() {
    let run = || {
        let mut world = World::new();
        world.create(JOBS, &job(&json!({})));
        world.tick();
        let pod = world.pods()[0].clone();
        world.start(&pod, "main");
        world.exit(&pod, "main", 0);
        (world.pods(), world.get(JOBS), world.get("/api/v1/events"))
    };
    assert_eq!(run(), run());
}
