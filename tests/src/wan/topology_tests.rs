//! Files, and what they mean.

use super::*;
use crate::wan::units::SECOND;

fn plan(text: &str) -> Plan {
    Topology::parse(text).unwrap().plan().unwrap()
}

fn refused(text: &str) -> String {
    let error = match Topology::parse(text) {
        Ok(topology) => topology.plan().unwrap_err(),
        Err(error) => error,
    };
    error.to_string()
}

const TWO: &str = r#"
    [default]
    delay = "20 ms"
    loss = "1 %"
    rate = "1 Gbit/s"
    [inside]
    delay = "100 us"
    [[site]]
    name = "paris"
    hosts = ["p1", "p2"]
    up = { rate = "2 Gbit/s" }
    host_up = { rate = "1 Gbit/s", queue = "1 MiB" }
    [[site]]
    name = "oslo"
    hosts = ["oslo"]
    down = { rate = "500 Mbit/s" }
"#;

#[test]
fn links_outdo_what_is_inside_and_that_outdoes_the_default() {
    let plan = plan(&format!(
        "{TWO}
        [[link]]
        between = [\"paris\", \"oslo\"]
        delay = \"30 ms\"
        [[link]]
        from = \"p2\"
        to = \"oslo\"
        delay = \"31 ms\"
        loss = \"0 %\""
    ));
    let way = |from, to| &plan.ways[plan.way(from, to).unwrap()];

    let delays = [(0, 1), (0, 2), (2, 0), (1, 2), (2, 1)].map(|(from, to)| way(from, to).delay);
    assert_eq!(
        delays,
        [100_000, 30_000_000, 30_000_000, 31_000_000, 30_000_000]
    );
    assert!(way(1, 2).loss.total() == 0.0);
    assert!((way(2, 1).loss.total() - 0.01).abs() < 1e-12);
    // A round trip of the rate, and the least.
    assert_eq!(way(0, 2).own.unwrap().queue, 7_500_000);
    assert_eq!(way(0, 1).own.unwrap().queue, QUEUE);
}

fn names<'a>(plan: &'a Plan, limits: &[usize]) -> Vec<&'a str> {
    let limits = limits.iter();
    limits
        .map(|limit| plan.shared[*limit].name.as_str())
        .collect()
}

#[test]
fn limits_are_passed_from_the_host_to_its_site_to_the_other_site_to_its_host() {
    let plan = plan(&format!(
        "{TWO}
        [[host]]
        name = \"oslo\"
        down = {{ rate = \"100 Mbit/s\" }}"
    ));
    let way = |from, to| &plan.ways[plan.way(from, to).unwrap()];

    assert_eq!(names(&plan, &way(1, 2).out), ["out of p2", "out of paris"]);
    assert_eq!(names(&plan, &way(1, 2).into), ["into oslo", "into oslo"]);
    let rates: Vec<_> = way(1, 2)
        .into
        .iter()
        .map(|limit| plan.shared[*limit].limit.rate)
        .collect();
    assert_eq!(rates, [Rate::mbit(500), Rate::mbit(100)]);
    // Inside of a site its uplink is not in the way.
    assert_eq!(names(&plan, &way(0, 1).out), ["out of p1"]);
    assert_eq!(names(&plan, &way(0, 1).into), [""; 0]);
}

#[test]
fn each_host_can_have_its_own_way_to_other_sites() {
    let plan = plan(&TWO.replace(
        "up = { rate = \"2 Gbit/s\" }",
        "away_up = { rate = \"20 Mbit/s\" }\naway_down = { rate = \"10 Mbit/s\" }",
    ));
    let way = |from, to| &plan.ways[plan.way(from, to).unwrap()];

    assert_eq!(
        names(&plan, &way(0, 2).out),
        ["out of p1", "out of paris from p1"]
    );
    assert_eq!(
        names(&plan, &way(1, 2).out),
        ["out of p2", "out of paris from p2"]
    );
    assert_eq!(names(&plan, &way(2, 1).into), ["into paris to p2"]);
    assert_eq!(names(&plan, &way(0, 1).out), ["out of p1"]);
}

#[test]
fn a_group_stands_for_the_hosts_of_its_sites() {
    let plan = plan(&format!(
        "{TWO}
        [[group]]
        name = \"all\"
        members = [\"paris\", \"oslo\"]
        [[link]]
        from = \"oslo\"
        to = \"all\"
        delay = \"7 ms\""
    ));

    let delays = [(2, 0), (2, 1), (0, 2)].map(|(from, to)| plan.ways[from * 3 + to].delay);
    assert_eq!(delays, [7_000_000, 7_000_000, 20_000_000]);
}

#[test]
fn cuts_and_resets_are_of_ordered_pairs() {
    let plan = plan(&format!(
        "{TWO}
        [[cut]]
        from = \"p1\"
        to = \"oslo\"
        at = \"10 s\"
        lasting = \"5 s\"
        [[reset]]
        between = [\"p1\", \"p2\"]
        at = \"1 s\""
    ));

    assert_eq!(plan.ways[2].cuts, [(10 * SECOND, 15 * SECOND)]);
    assert_eq!(plan.ways[6].cuts, []);
    let between: Vec<_> = plan.resets.iter().map(|reset| reset.between).collect();
    assert_eq!(between, [(0, 1), (1, 0)]);
}

#[test]
fn what_cannot_be_is_refused_with_a_reason() {
    let with = |more: &str| refused(&format!("{TWO}{more}"));

    assert!(with("[[link]]\nbetween = [\"paris\", \"rome\"]").contains("\"rome\""));
    assert!(with("[[link]]\nfrom = \"paris\"").contains("[[link]]"));
    assert!(with("[[host]]\nname = \"rome\"").contains("\"rome\""));
    assert!(with("[[site]]\nname = \"p1\"\nhosts = []").contains("\"p1\""));
    assert!(with("[[link]]\nbetween = [\"p1\", \"p2\"]\nspeed = 1").contains("speed"));
    assert!(refused("[default]\ndelay = \"20\"").contains("no duration"));
    assert!(refused("").contains("2 to"));
    let bursts = "[[link]]\nbetween = [\"p1\", \"p2\"]\nbursts = { share = \"1 %\", length = 0.5 }";
    assert!(with(bursts).contains("burst"));
}

#[test]
fn every_topology_that_is_shipped_has_a_plan() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("topologies");
    let mut found = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let plan = Topology::read(&path).and_then(|topology| topology.plan());
        assert!(plan.is_ok(), "{}: {plan:?}", path.display());
        found += 1;
    }
    assert!(found >= 5);
}
