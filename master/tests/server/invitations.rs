//! Invitations as an operator handles them: the program that serves, and the same program beside it.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use pccl_core::wire::{Preamble, offer};
use pccl_master::{JoinString, KeyPair, Via};
use pccl_trust::InvitationId;
use tokio::process::Command;

use super::program::Program;
use crate::support::client::{Client, soon};
use crate::support::proven::Peer;

/// A directory for a master's key, removed afterwards.
struct Home(PathBuf);

impl Home {
    fn new(name: &str) -> Self {
        let name = format!("master-home-{name}-{}", std::process::id());
        Self(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name))
    }

    fn start(&self, more: &[&str]) -> Program {
        self.start_logging(more, "info")
    }

    fn start_logging(&self, more: &[&str], level: &str) -> Program {
        let identity = [OsStr::new("--identity"), self.0.as_os_str()];
        let more = more.iter().map(OsStr::new);
        let arguments: Vec<&OsStr> = identity.into_iter().chain(more).collect();
        Program::start_logging("127.0.0.1:0", &arguments, level)
    }

    /// What a command prints, and whether it went well.
    async fn tell(&self, command: &str, more: &[&str]) -> (String, bool) {
        let told = Command::new(env!("CARGO_BIN_EXE_pccl-master"))
            .arg(command)
            .arg("--identity")
            .arg(&self.0)
            .args(more)
            .output();
        let output = soon(command, told).await.unwrap();
        let mut text = String::from_utf8(output.stdout).unwrap();
        if !output.status.success() {
            text = String::from_utf8(output.stderr).unwrap();
        }
        (text, output.status.success())
    }

    async fn invite(&self, more: &[&str]) -> JoinString {
        let (word, well) = self.tell("invite", more).await;
        assert!(well, "{word}");
        word.parse().unwrap()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

#[tokio::test]
async fn an_operator_invites_lists_and_revokes_while_the_master_runs() {
    let home = Home::new("runs");
    let mut program = home.start(&[]);
    let everybody = program.join_string().await;
    let founder = Peer::new().join(&everybody).await;
    assert_eq!(founder.peer.0, 1);

    let one = home.invite(&["--ttl", "24h", "--uses", "1"]).await;
    let guest = Peer::new();
    let mut inside = guest.join(&one).await;
    let used_up = Peer::new().refusal(&one).await;
    assert!(used_up.contains("used up"), "{used_up}");
    let id = InvitationId::of(one.secret()).to_string();
    let (list, _) = home.tell("list", &[]).await;
    let (told, revoked) = home.tell("revoke", &[&id]).await;

    assert_eq!(one.addresses(), everybody.addresses());
    let line = list
        .lines()
        .find(|line| line.starts_with(&id))
        .expect(&list);
    assert!(line.contains("used up"), "{line}");
    assert!(revoked && told.contains("1 members"), "{told}");
    assert!(inside.listen().await.is_err(), "its connection ends");
    let line = program.line("has to go").await;
    assert!(line.contains("revoked"), "{line}");
    assert!(guest.refusal(&one).await.contains("revoked"));
}

#[tokio::test]
async fn a_master_that_keeps_its_key_is_the_same_after_a_restart() {
    let home = Home::new("again");
    let mut first = home.start(&["--advertise", "127.0.0.1:7", "--advertise", "[::1]"]);
    let before = first.join_string().await;
    let port = first.address().await.port();
    drop(first);

    let mut second = home.start(&["--advertise", "127.0.0.1"]);
    let after = second.join_string().await;

    let addresses: Vec<String> = before.addresses().iter().map(ToString::to_string).collect();
    assert_eq!(addresses, ["127.0.0.1:7".into(), format!("[::1]:{port}")]);
    assert_eq!(after.master(), before.master());
    assert_eq!(after.secret(), before.secret());
    assert_ne!(after.addresses(), before.addresses());
}

#[tokio::test]
async fn a_master_over_quic_says_so_in_its_join_strings_or_names_the_feature_that_is_missing() {
    let home = Home::new("quic");
    let mut program = home.start(&["--transport", "quic"]);
    if !cfg!(feature = "quic") {
        let line = program.line("built without quic").await;
        assert!(line.contains("--features quic"), "{line}");
        return;
    }

    let everybody = program.join_string().await;
    let one = home.invite(&["--uses", "1"]).await;
    let said = home.invite(&["--transport", "tcp"]).await;

    assert_eq!(everybody.via(), Via::Quic);
    assert_eq!(one.via(), Via::Quic, "as the master was started");
    assert_eq!(said.via(), Via::Tls, "as it was said");
}

#[tokio::test]
async fn without_an_identity_a_master_is_another_one_at_each_start() {
    let encrypt = ["--advertise", "127.0.0.1"].map(OsStr::new);
    let mut one = Program::start_with("127.0.0.1:0", &encrypt);
    let mut other = Program::start_with("127.0.0.1:0", &encrypt);

    let (one, other) = (one.join_string().await, other.join_string().await);

    assert_ne!(one.master(), other.master());
    assert_ne!(one.secret(), other.secret());
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_with_what_to_do() {
    let home = Home::new("nowhere");

    for (command, more) in [
        ("invite", &[][..]),
        ("list", &[]),
        ("revoke", &["aaaaaaaaaaaaa"]),
    ] {
        let (told, well) = home.tell(command, more).await;

        assert!(!well);
        assert!(told.contains("no master was started with"), "{told}");
        assert!(!home.0.exists(), "{command} has made something");
    }
    let at = ["--advertise", "127.0.0.1:7"];
    home.invite(&at).await;
    let (told, well) = home.tell("revoke", &["aaaaaaaaaaaaa"]).await;
    assert!(
        !well && told.contains("no invitation aaaaaaaaaaaaa"),
        "{told}"
    );
}

#[tokio::test]
async fn the_log_has_one_line_where_two_disagree_about_encryption() {
    let home = Home::new("disagree");
    let mut encrypts = home.start(&[]);
    let mut plain = Program::start_with("127.0.0.1:0", &[]);
    let (at, plain_at) = (encrypts.address().await, plain.address().await);

    let mut lane = Client::dial(at).await;
    let refused = soon("the reply", offer(&mut lane, &Preamble::CONTROL)).await;
    refused.unwrap_err();
    let nobody = KeyPair::generate().unwrap().public_key();
    Peer::new().try_dial(plain_at, nobody).await.unwrap_err();

    let line = encrypts.line("is refused").await;
    assert!(
        line.contains("WARN") && line.contains("this connection is plain"),
        "{line}"
    );
    let line = plain.line("is refused").await;
    assert!(
        line.contains("WARN") && line.contains("speaks TLS"),
        "{line}"
    );
    assert!(line.contains("--plain"), "{line}");
}

#[tokio::test]
async fn a_plain_master_beyond_loopback_warns() {
    let plain = ["--plain".as_ref()];
    let mut program = Program::start_with("0.0.0.0:0", &plain);
    let mut silenced = Program::start_logging("0.0.0.0:0", &plain, "error");

    let line = program.line("is plain").await;
    silenced.line("warning: without encryption").await;

    assert!(line.contains("WARN"), "{line}");
}

#[tokio::test]
async fn nothing_secret_is_logged_or_recorded() {
    let home = Home::new("secret");
    let records = home.0.with_extension("records");
    let mut program = home.start_logging(&["--record", records.to_str().unwrap()], "trace");
    let join = program.join_string().await;
    let peer = Peer::new();
    let lane = peer.dial(&join).await;
    let proof = peer.proof(&lane, join.secret());
    let mut client = crate::support::proven::show(lane, &proof)
        .await
        .unwrap()
        .welcomed()
        .await;
    client.wire_ring().await;
    Peer::new().refusal(&wrong(&join)).await;

    let mut left = program.rest_of_the_log().await.into_bytes();
    assert!(!left.is_empty());
    for file in fs::read_dir(&records).unwrap() {
        left.extend(fs::read(file.unwrap().path()).unwrap());
    }
    fs::remove_dir_all(&records).unwrap();

    let key = fs::read(home.0.join("key")).unwrap();
    for secret in [join.secret().expose().as_slice(), &proof, &key] {
        for form in forms(secret) {
            let shown = left.windows(form.len()).any(|part| part == form);
            assert!(!shown, "{}", String::from_utf8_lossy(&form));
        }
    }
    let word = join.to_word();
    let part = &word.as_bytes()[word.len() - 40..];
    assert!(!left.windows(part.len()).any(|shown| shown == part));
}

/// How bytes are written, as far as eight of them.
fn forms(bytes: &[u8]) -> [Vec<u8>; 3] {
    let bytes = &bytes[..8];
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let list: Vec<String> = bytes.iter().map(u8::to_string).collect();
    [
        bytes.to_vec(),
        hex.into_bytes(),
        list.join(", ").into_bytes(),
    ]
}

/// With a secret that the master does not know.
fn wrong(join: &JoinString) -> JoinString {
    let secret = pccl_trust::Secret::generate().unwrap();
    let at = join.addresses().to_vec();
    JoinString::new(join.via(), at, join.master(), secret).unwrap()
}
