use pccl_model::{RunModel, step::Step, trace::named};
use stateright::Model;
fn main() {
    let name = std::env::args().nth(1).unwrap();
    let kinds = std::env::args().nth(2).unwrap_or_default();
    let model = RunModel::new(named(&name).unwrap());
    for seed in 1..3000u64 {
        let mut s = model.first_state().clone();
        let mut way: Vec<Step> = vec![];
        let mut x = seed.wrapping_mul(0x9E3779B97F4A7C15);
        loop {
            let mut steps = vec![];
            model.actions(&s, &mut steps);
            steps.retain(|st| {
                !matches!(
                    st,
                    Step::Silence(_)
                        | Step::MasterSilence(_)
                        | Step::UpEnds(_)
                        | Step::DownEnds(_)
                        | Step::Thaw(_)
                )
            });
            if kinds.is_empty() {}
            if steps.is_empty() {
                break;
            }
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            let st = steps[(x % steps.len() as u64) as usize];
            way.push(st);
            s = model.next_state(&s, st).unwrap();
            if way.len() > 600 {
                println!("seed {seed}");
                let f: Vec<_> = way
                    .iter()
                    .enumerate()
                    .filter(|(_, s)| s.is_fault())
                    .collect();
                println!("{f:?}");
                let t: Vec<String> = way[..120].iter().map(|s| s.to_string()).collect();
                println!("{name}: {}", t.join("; "));
                println!("{s:?}");
                return;
            }
        }
    }
}
