//! Walking through a scenario in a browser, with stateright's explorer.

use pccl_model::RunModel;
use pccl_model::scenario::Scenario;
use stateright::Model;

use crate::Verdict;

/// Serves until the program is ended.
pub(crate) fn explore(scenario: Scenario, address: &str) -> Verdict {
    println!("{}: {}.", scenario.name, scenario.about);
    println!("Open http://{address} in a browser; end with Ctrl-C.");
    RunModel::new(scenario).checker().serve(address);
    Ok(true)
}
