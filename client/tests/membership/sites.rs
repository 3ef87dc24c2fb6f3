//! Where the peers of a run are, as its members see it.

use pccl::{BadSiteName, Communicator, Error, PeerId};

use crate::support::{Run, admit, begin, builder_for, join_as, together};

/// The sites that each of these peers sees these at. All see the same.
fn seen(by: &mut [Communicator], of: &[PeerId]) -> Vec<Option<String>> {
    let mut seen = together(by, |peer| {
        let sites = of.iter().map(|member| peer.site_of(*member));
        sites.collect::<Vec<_>>()
    });
    let first = seen.pop().unwrap();
    assert!(
        seen.iter().all(|other| *other == first),
        "{seen:?} {first:?}"
    );
    first
}

fn at(sites: &[&str]) -> Vec<Option<String>> {
    let named = |site: &&str| (!site.is_empty()).then(|| (*site).to_owned());
    sites.iter().map(named).collect()
}

#[test]
fn all_members_see_the_site_of_each_one_also_after_a_join_and_a_farewell() {
    let run = Run::new();
    let mut peers = vec![begin(run.builder().site("eu-west"))];
    join_as(run.builder().site("us"), &mut peers);
    join_as(run.builder().site("eu-west"), &mut peers);
    let mut ids: Vec<PeerId> = peers.iter().map(Communicator::peer_id).collect();
    assert_eq!(seen(&mut peers, &ids), at(&["eu-west", "us", "eu-west"]));

    join_as(run.builder(), &mut peers);
    ids.push(peers[3].peer_id());
    let four = ["eu-west", "us", "eu-west", ""];
    assert_eq!(seen(&mut peers, &ids), at(&four));

    peers.remove(0).shutdown();
    join_as(run.builder().site("Zürich"), &mut peers);
    ids.push(peers[3].peer_id());
    let without_the_first = ["", "us", "eu-west", "", "Zürich"];
    assert_eq!(seen(&mut peers, &ids), at(&without_the_first));
}

#[test]
fn a_site_is_no_group_and_who_is_in_another_group_is_at_none() {
    let run = Run::new();
    let mut one = vec![begin(run.builder().site("eu"))];
    let other = run.builder().site("eu").group(1);
    let joining = std::thread::spawn(move || begin(other));
    admit(&mut one);
    let mut other = vec![joining.join().unwrap()];

    let ids = [one[0].peer_id(), other[0].peer_id()];
    assert_eq!(seen(&mut one, &ids), at(&["eu", ""]));
    assert_eq!(seen(&mut other, &ids), at(&["", "eu"]));
    assert_eq!(one[0].world_size(), 1);
}

#[test]
fn a_name_that_no_site_can_have_is_an_error_before_anything_is_sent() {
    let connected = |site: String| {
        let nobody = "127.0.0.1:1";
        builder_for(nobody).site(site).connect().unwrap_err()
    };

    let too_long = connected("n".repeat(65));
    assert_eq!(too_long, Error::BadSite(BadSiteName::TooLong { bytes: 65 }));
    let text = "the name of a site has 65 bytes, and may have 64; choose another name";
    assert_eq!(too_long.to_string(), text);
    assert!(!too_long.is_retryable() && !too_long.is_final());
    let broken = connected("eu\nwest".to_owned());
    assert_eq!(broken, Error::BadSite(BadSiteName::ControlCharacter));
    let found = connected("~3".to_owned());
    assert_eq!(found, Error::BadSite(BadSiteName::Tilde));
    let longest = connected("n".repeat(64));
    assert!(
        matches!(longest, Error::MasterUnreachable { .. }),
        "{longest}"
    );
}
