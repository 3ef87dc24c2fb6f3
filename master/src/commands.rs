//! The subcommands of the program: invite, revoke, list.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, Subcommand};
use pccl_core::wire::DEFAULT_MASTER_PORT;
use pccl_master::{
    Address, AddressError, Invitation, InvitationId, InvitationState, Terms, Trust, TrustError, Via,
};

use crate::addresses::{self, Advertised};
use crate::arguments::Over;

/// Manage who may join a master that was started with --identity; it may be running
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Add an invitation and print its join string
    Invite(Invite),
    /// Revoke an invitation and end the membership of all peers that it admitted; a running master disconnects them
    /// within a second
    Revoke(Revoke),
    /// List all invitations, without their secrets
    List(IdentityDir),
}

/// The directory with a master's key and invitations.
#[derive(Debug, Args)]
pub(crate) struct IdentityDir {
    /// Directory given to the master as --identity
    #[arg(long, value_name = "DIR")]
    identity: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Invite {
    #[command(flatten)]
    dir: IdentityDir,

    /// How long the invitation can be used, such as 24h or "7days". Default: until it is revoked
    #[arg(long, value_name = "TIME", value_parser = ttl)]
    ttl: Option<Duration>,

    /// How many peers it admits. A peer that keeps its key counts once; any other counts at each start. Default: any
    /// number
    #[arg(long, value_name = "PEERS", value_parser = clap::value_parser!(u32).range(1..))]
    uses: Option<u32>,

    /// Address at which peers reach the master; repeat for up to four. Default: the addresses of the master's last
    /// start
    #[arg(long, value_name = "HOST[:PORT]")]
    advertise: Vec<Advertised>,

    /// Transport of the master. Default: that of the master's last start, or tcp
    #[arg(long, value_enum)]
    transport: Option<Over>,
}

#[derive(Debug, Args)]
pub(crate) struct Revoke {
    #[command(flatten)]
    dir: IdentityDir,

    /// Invitation to revoke, as `list` shows it
    id: InvitationId,
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    #[error(
        "no master was started with --identity {}: name its directory, or say with --advertise where \
         peers will reach it", .0.display()
    )]
    NeverStarted(PathBuf),
    #[error("no master was started with --identity {}: name its directory", .0.display())]
    NoSuchDirectory(PathBuf),
    #[error("{0}")]
    Address(#[from] AddressError),
    #[error("{0}")]
    Trust(#[from] TrustError),
    #[error("cannot write: {0}")]
    Output(#[from] io::Error),
}

impl Command {
    pub(crate) fn run(&self) -> Result<(), CommandError> {
        let mut out = io::stdout().lock();
        match self {
            Self::Invite(invite) => invite.run(&mut out),
            Self::Revoke(revoke) => revoke.run(&mut out),
            Self::List(dir) => dir.list(&mut out),
        }
    }
}

impl IdentityDir {
    fn open(&self) -> Result<Trust, CommandError> {
        if !self.identity.is_dir() {
            return Err(CommandError::NoSuchDirectory(self.identity.clone()));
        }
        Ok(Trust::of_directory(&self.identity)?)
    }

    fn list(&self, out: &mut dyn Write) -> Result<(), CommandError> {
        let invitations = self.open()?.list()?;
        writeln!(
            out,
            "{:<13}  {:<8}  {:<20}  {:<20}  {:>9}  {:>7}",
            "ID", "STATE", "MADE", "EXPIRES", "USES LEFT", "MEMBERS"
        )?;
        for invitation in invitations {
            writeln!(out, "{}", line(&invitation))?;
        }
        Ok(())
    }
}

impl Invite {
    fn run(&self, out: &mut dyn Write) -> Result<(), CommandError> {
        let (kept_via, kept_at) = addresses::recall(&self.dir.identity);
        let at = self.addresses(kept_at)?;
        let via = match self.transport {
            None => kept_via.unwrap_or(Via::Tls),
            said => Over::via(said),
        };
        let terms = Terms {
            ttl: self.ttl,
            uses: self.uses,
        };
        let (id, join) = Trust::of_directory(&self.dir.identity)?
            .over(via)
            .invite(terms, &at)?;
        writeln!(out, "{}", *join.to_word())?;
        eprintln!("invitation {id}: keep its join string like a password");
        Ok(())
    }

    fn addresses(&self, kept: Vec<Address>) -> Result<Vec<Address>, CommandError> {
        let said = Advertised::all_or_port(&self.advertise, DEFAULT_MASTER_PORT)?;
        let at = match said.is_empty() {
            false => said,
            true => kept,
        };
        match at.is_empty() {
            false => Ok(at),
            true => Err(CommandError::NeverStarted(self.dir.identity.clone())),
        }
    }
}

impl Revoke {
    fn run(&self, out: &mut dyn Write) -> Result<(), CommandError> {
        let revoked = self.dir.open()?.revoke(self.id)?;
        let members = revoked.members.len();
        writeln!(out, "revoked {}, with {members} members", self.id)?;
        Ok(())
    }
}

/// One line of the output of `list`.
fn line(invitation: &Invitation) -> String {
    let state = match invitation.state {
        InvitationState::Live => "live",
        InvitationState::Expired => "expired",
        InvitationState::UsedUp => "used up",
        InvitationState::Revoked => "revoked",
        _ => "ended",
    };
    let expires = invitation.expires_at.map_or_else(|| "never".into(), date);
    let uses = invitation.uses_left;
    format!(
        "{}  {state:<8}  {:<20}  {expires:<20}  {:>9}  {:>7}",
        invitation.id,
        date(invitation.made_at),
        uses.map_or_else(|| "any".into(), |uses| uses.to_string()),
        invitation.members,
    )
}

/// A date in UTC, to the second. A time after the year 9999 has no such form.
fn date(unix_seconds: u64) -> String {
    const YEAR_10000: u64 = 253_402_300_800;
    let seconds = Duration::from_secs(unix_seconds.min(YEAR_10000 - 1));
    let time: SystemTime = UNIX_EPOCH + seconds;
    humantime::format_rfc3339_seconds(time).to_string()
}

/// A duration of whole seconds, at least one.
fn ttl(text: &str) -> Result<Duration, String> {
    let ttl = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if ttl < Duration::from_secs(1) {
        return Err("must be at least one second".into());
    }
    Ok(ttl)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_with_its_unit() {
        assert_eq!(ttl("24h"), Ok(Duration::from_secs(86_400)));
        assert_eq!(ttl("7days 1h"), Ok(Duration::from_secs(608_400)));
        for nonsense in ["", "24", "0s", "10ms", "-1h", "soon"] {
            assert!(ttl(nonsense).is_err(), "{nonsense:?} was taken");
        }
    }

    #[test]
    fn dates_are_those_of_utc() {
        assert_eq!(date(1_800_000_000), "2027-01-15T08:00:00Z");
        assert_eq!(date(u64::MAX), "9999-12-31T23:59:59Z");
    }
}
