use std::time::Instant;
use pccl_model::RunModel;
use pccl_model::catalogue::standard;
use stateright::{Checker, Model, HasDiscoveries};
mod conform;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    if args.get(1).is_some_and(|a| a == "--conform") { std::process::exit(i32::from(conform::main(std::path::Path::new(&args[2])) != std::process::ExitCode::SUCCESS)); }
    let only: Vec<String> = std::env::args().skip(1).collect();
    for scenario in standard() {
        if !only.is_empty() && !only.contains(&scenario.name.to_string()) { continue; }
        let name = scenario.name;
        let model = RunModel::new(scenario);
        let cov = model.coverage();
        let t = Instant::now(); eprintln!("{name}");
        let checker = model.clone().checker().threads(2).symmetry_fn(|s| s.canonical()).finish_when(HasDiscoveries::AnyFailures).timeout(std::time::Duration::from_secs(12)).spawn_dfs().join();
        println!("{name}: unique {} generated {} depth {} in {:?}, {:?}", checker.unique_state_count(), checker.state_count(), checker.max_depth(), t.elapsed(), cov);
        for (n, path) in checker.discoveries() {
            let bad = pccl_model::claim::CLAIMS.iter().any(|c| c.sentence() == n);
            println!("  {} {n} ({} steps)", if bad { "BROKEN" } else { "reached" }, path.clone().into_actions().len());
            if bad { 
                let last = path.last_state().clone();
                for a in path.into_actions() { print!("{a}; "); }
                println!("\n{last:?}");
            }
        }
    }
}
