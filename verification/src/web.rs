//! Walking through a scenario in a browser, with stateright's explorer.

use std::net::TcpListener;

use pccl_model::RunModel;
use pccl_model::scenario::Scenario;
use stateright::Model;

use crate::{AllWell, CannotLook};

/// Serves until the program is ended.
pub(crate) fn explore(scenario: Scenario, address: &str) -> AllWell {
    // The explorer panics where it cannot listen.
    let free = TcpListener::bind(address);
    drop(free.map_err(|why| CannotLook::Address(address.to_owned(), why))?);
    println!("{}: {}.", scenario.name, scenario.about);
    println!("Open http://{address} in a browser; end with Ctrl-C.");
    RunModel::new(scenario).checker().serve(address);
    Ok(true)
}
