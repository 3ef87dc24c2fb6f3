//! What the machines of a test heard and said: recorded while it runs, replayed and judged when it is over.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process;
use std::thread;

use pccl_model::recorded::{Judgement, judge};
use pccl_recording::{Summary, conform, logs};

use crate::processes::Trouble;

/// A directory that the processes of one test record into. It is gone when the test is over, unless
/// that has failed.
#[derive(Debug)]
pub struct Recordings(PathBuf);

impl Recordings {
    /// An empty directory of this test's own.
    ///
    /// # Errors
    /// What the system says.
    pub fn new() -> io::Result<Self> {
        let mut number = 0;
        loop {
            let name = format!("pccl-test-{}-{number}", process::id());
            let path = std::env::temp_dir().join(name);
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// Where it is.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.0
    }

    /// Replays all logs, of which there have to be at least so many of peers and one of a master, and
    /// holds them against each other and against the claims of the model. That a log has no end is not
    /// held against it: whoever still ran was killed just now.
    ///
    /// # Errors
    /// [`Trouble::Unlike`]: a machine does not say again what it said, a log is missing, or the logs do
    /// not go together.
    pub fn replay(&self, peers: usize) -> Result<Summary, Trouble> {
        let unlike = |what: String| Trouble::Unlike { what };
        let summary = conform(&self.0).map_err(|nothing| unlike(nothing.to_string()))?;
        if !summary.is_equal() {
            return Err(unlike(summary.to_string()));
        }
        if summary.equal_logs_of("master") == 0 || summary.equal_logs_of("peer") < peers {
            return Err(unlike(format!(
                "logs of {peers} peers and of a master are expected:\n{summary}"
            )));
        }
        let judgement = self.judge()?;
        if !judgement.is_sound() {
            return Err(unlike(judgement.to_string()));
        }
        Ok(summary)
    }

    /// What the logs say together.
    ///
    /// # Errors
    /// [`Trouble::Unlike`]: there are none.
    pub fn judge(&self) -> Result<Judgement, Trouble> {
        let files = logs(&self.0).map_err(|nothing| Trouble::Unlike {
            what: nothing.to_string(),
        })?;
        Ok(judge(&files))
    }
}

impl Drop for Recordings {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!(
                "what the machines heard and said is in {}",
                self.0.display()
            );
        } else {
            // What cannot be removed is left to whoever cleans the directory for temporary files.
            fs::remove_dir_all(&self.0).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use pccl_core::id::{CallId, GroupId};
    use pccl_core::master::{Master, MasterConfig, MasterInput};
    use pccl_core::peer::{Call, Peer, PeerConfig, PeerInput};
    use pccl_core::site::SiteName;
    use pccl_recording::Recorded;

    use super::*;

    fn record_a_peer(recordings: &Recordings) {
        let config = PeerConfig {
            group: GroupId(0),
            port: 48149,
            advertise: None,
            lanes: 1,
            site: SiteName::NONE,
            name: Default::default(),
            collectives_max: 16,
        };
        let mut peer = Recorded::<Peer>::begin(config, Some(recordings.directory()));
        peer.handle(
            PeerInput::Call {
                call: CallId(1),
                what: Call::Connect,
            },
            &mut Vec::new(),
        );
    }

    #[test]
    fn a_run_without_the_log_of_its_master_or_of_a_peer_is_trouble() {
        let recordings = Recordings::new().unwrap();
        record_a_peer(&recordings);
        assert!(matches!(recordings.replay(1), Err(Trouble::Unlike { .. })));

        let here = Some(recordings.directory());
        let mut master = Recorded::<Master>::begin(MasterConfig::default(), here);
        master.handle(MasterInput::Stop, &mut Vec::new());

        assert_eq!(recordings.replay(1).unwrap().logs.len(), 2);
        assert!(matches!(recordings.replay(2), Err(Trouble::Unlike { .. })));
    }

    #[test]
    fn a_changed_log_is_trouble() {
        let recordings = Recordings::new().unwrap();
        record_a_peer(&recordings);
        let mut logs = fs::read_dir(recordings.directory()).unwrap();
        let log = logs.next().unwrap().unwrap().path();
        let mut bytes = fs::read(&log).unwrap();
        bytes[20] ^= 1;
        fs::write(log, bytes).unwrap();

        assert!(matches!(recordings.replay(0), Err(Trouble::Unlike { .. })));
    }
}
