//! Takes the documented programs out of the tests that run them: what follows the marker is word for word in the
//! documentation.

use std::path::Path;
use std::{env, fs};

const PROGRAMS: [&str; 4] = ["loop_run", "loop_manual", "loop_async", "loop_feedback"];
const MARKER: &str = "// From here on: word for word.\n";

fn main() {
    let out = env::var_os("OUT_DIR").expect("cargo says where");
    for program in PROGRAMS {
        let path = format!("../tests/documented/{program}.rs");
        println!("cargo::rerun-if-changed={path}");
        let text = fs::read_to_string(path).expect("the program is there");
        let (_, shown) = text.split_once(MARKER).expect("it has the marker");
        let shown = format!("use super::compute;\n{shown}");
        fs::write(Path::new(&out).join(program).with_extension("rs"), shown)
            .expect("it is written");
    }
}
