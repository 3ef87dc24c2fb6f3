//! An internet in a box: `cargo run --release -p pccl-tests --bin wan -- --topology tests/topologies/ocean.toml --
//! COMMAND`.

use std::process::ExitCode;

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    linux::main()
}

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    println!("wan: skipped: network namespaces are Linux's");
    ExitCode::SUCCESS
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io;
    use std::path::{Path, PathBuf};
    use std::process::ExitCode;
    use std::time::Duration;

    use clap::Parser;
    use pccl_tests::wan::check::{Finding, HEADING, NoCheck, Patience, check};
    use pccl_tests::wan::commands::{Job, Signals, run};
    use pccl_tests::wan::driver::Driver;
    use pccl_tests::wan::namespaces::{Namespaces, NoBox, end_all, is_possible};
    use pccl_tests::wan::plan::Plan;
    use pccl_tests::wan::report::{realised, unread};
    use pccl_tests::wan::topology::{BadTopology, Topology};

    /// Runs a command on each host of a topology: a network namespace per host, and between them the delays,
    /// losses, rates and queues that the file asks for. Prints at the end what they came to. The exit code is
    /// the greatest of the commands'. Needs root and Linux; without, it says so and ends with 0.
    ///
    /// A command finds in its environment: WAN_HOST, WAN_SITE, WAN_NUMBER (from 0), WAN_COUNT, WAN_ADDRESS,
    /// WAN_FIRST (the address of host 0), WAN_HOSTS (name=address of all), WAN_ADDRESSES, and WAN_LAUNCH: what
    /// starts a program on another host, with {host} where its address belongs.
    #[derive(Clone, Debug, Parser)]
    struct Arguments {
        /// The file of sites and links
        #[arg(long, required_unless_present = "check")]
        topology: Option<PathBuf>,
        /// Runs nothing, but measures whether boxes do what these files say. Exit code 0 only if so
        #[arg(long, num_args = 1.., value_name = "FILE", conflicts_with = "topology")]
        check: Vec<PathBuf>,
        /// For a check: seconds of each TCP measurement
        #[arg(long, default_value_t = 20)]
        seconds: u64,
        /// For a check: most datagrams that a loss is looked for in
        #[arg(long, default_value_t = 4_000_000)]
        datagrams: u64,
        /// Where losses and jitter come from
        #[arg(long, default_value_t = 0)]
        seed: u64,
        /// All rates and queues times this, for machines that carry less or more
        #[arg(long, default_value_t = 1.0)]
        scale: f64,
        /// For this host: a command of its own, which a shell reads. NAME=COMMAND
        #[arg(long, value_parser = assignment)]
        host: Vec<(String, String)>,
        /// One more command for this host, which is ended when all the others have ended. NAME=COMMAND
        #[arg(long, value_parser = assignment)]
        service: Vec<(String, String)>,
        /// For each host that has no command of its own
        #[arg(last = true)]
        command: Vec<String>,
    }

    fn assignment(text: &str) -> Result<(String, String), String> {
        let parts = text.split_once('=').ok_or("it is no NAME=COMMAND")?;
        Ok((parts.0.into(), parts.1.into()))
    }

    #[derive(Debug, thiserror::Error)]
    enum Trouble {
        #[error(transparent)]
        Topology(#[from] BadTopology),
        #[error(transparent)]
        Box(#[from] NoBox),
        #[error(transparent)]
        Check(#[from] NoCheck),
        #[error("there is no host {0:?}")]
        NoHost(String),
        #[error(transparent)]
        System(#[from] io::Error),
    }

    pub(super) fn main() -> ExitCode {
        let arguments = Arguments::parse();
        if let Err(reason) = is_possible() {
            println!("wan: skipped: {reason}");
            return ExitCode::SUCCESS;
        }
        let result = match &arguments.topology {
            Some(topology) => carry_out(&arguments, topology),
            None => look(&arguments),
        };
        match result {
            Ok(code) => ExitCode::from(code),
            Err(error) => {
                eprintln!("wan: {error}");
                ExitCode::FAILURE
            }
        }
    }

    /// Checks all files, or as many as there is time for until a signal comes.
    fn look(arguments: &Arguments) -> Result<u8, Trouble> {
        let runtime = runtime()?;
        let arguments = arguments.clone();
        runtime.block_on(async {
            let mut signals = Signals::new()?;
            let findings = tokio::task::spawn_blocking(move || check_all(&arguments));
            tokio::select! {
                result = findings => result.map_err(io::Error::other)?,
                code = signals.recv() => {
                    // The thread that measures would go on to the end of its file.
                    end_all();
                    std::process::exit(code.into())
                }
            }
        })
    }

    fn check_all(arguments: &Arguments) -> Result<u8, Trouble> {
        let patience = Patience {
            bulk: Duration::from_secs(arguments.seconds),
            packets: arguments.datagrams,
        };
        let mut is_good = true;
        for file in &arguments.check {
            let plan = plan(file, arguments)?;
            println!("\n{}, seed {}\n\n{HEADING}", file.display(), arguments.seed);
            let findings = check(&plan, arguments.seed, patience, |finding| {
                println!("{finding}");
            })?;
            is_good &= findings.iter().all(Finding::is_good);
        }
        Ok(u8::from(!is_good))
    }

    fn plan(file: &Path, arguments: &Arguments) -> Result<Plan, BadTopology> {
        let mut plan = Topology::read(file)?.plan()?;
        plan.scale(arguments.scale);
        Ok(plan)
    }

    fn runtime() -> io::Result<tokio::runtime::Runtime> {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
    }

    fn carry_out(arguments: &Arguments, topology: &Path) -> Result<u8, Trouble> {
        let plan = plan(topology, arguments)?;
        let jobs = jobs(arguments, &plan)?;
        let runtime = runtime()?;
        runtime.block_on(async {
            let mut signals = Signals::new()?;
            let (namespaces, devices) = Namespaces::new(&plan)?;
            let driver = Driver::start(&plan, arguments.seed, devices);
            let code = tokio::select! {
                code = run(&plan, &namespaces, &jobs) => code?,
                code = signals.recv() => code,
                () = ended(&driver) => 1,
            };
            let hosts = 0..plan.hosts.len();
            let lost: Vec<u64> = hosts.map(|host| namespaces.unread(host)).collect();
            let counts = driver.end()?;
            println!("seed {}\n{}", arguments.seed, realised(&plan, &counts));
            print!("{}", unread(&plan, &lost));
            Ok(code)
        })
    }

    /// Waits until the wire has ended, which it does by itself only if something failed.
    async fn ended(driver: &Driver) {
        while driver.is_running() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    fn jobs(arguments: &Arguments, plan: &Plan) -> Result<Vec<Job>, Trouble> {
        let number = |name: &String| {
            let found = plan.hosts.iter().position(|host| host.name == *name);
            found.ok_or_else(|| Trouble::NoHost(name.clone()))
        };
        let shell = |command: &String| vec!["sh".into(), "-c".into(), command.clone()];
        let mut jobs = Vec::new();
        for (name, command) in &arguments.service {
            jobs.push(Job {
                host: number(name)?,
                command: shell(command),
                is_service: true,
            });
        }
        let mut commands = vec![arguments.command.clone(); plan.hosts.len()];
        for (name, command) in &arguments.host {
            commands[number(name)?] = shell(command);
        }
        let commands = commands.into_iter().enumerate();
        let commands = commands.filter(|(_, command)| !command.is_empty());
        jobs.extend(commands.map(|(host, command)| Job {
            host,
            command,
            is_service: false,
        }));
        Ok(jobs)
    }
}
