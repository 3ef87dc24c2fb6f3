//! The admission rules as a value: no files, no clocks, no locks.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::proof::{ChannelBinding, Proof};
use crate::public_key::PublicKey;
use crate::secret::{Secret, exposed};

use super::{Admitted, Denial, Invitation, InvitationId, Membership, Revoked, State, Terms};

/// Maximum number of stored invitations, ended ones included.
pub(crate) const INVITATIONS_MAX: usize = 1024;

/// Maximum number of remembered members.
pub(crate) const MEMBERS_MAX: usize = 16_384;

/// Maximum number of banned keys.
pub(crate) const BANNED_MAX: usize = 16_384;

/// There is no room for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// Who may be admitted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Book {
    invitations: BTreeMap<InvitationId, Entry>,
    members: BTreeMap<PublicKey, Member>,
    banned: BTreeSet<PublicKey>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    #[serde(with = "exposed")]
    secret: Secret,
    /// In Unix seconds.
    made_at: u64,
    /// The end, in Unix seconds.
    expires_at: Option<u64>,
    uses_left: Option<u32>,
    revoked: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Member {
    by: InvitationId,
    /// In Unix seconds.
    since: u64,
}

impl Entry {
    fn state(&self, now: u64) -> State {
        if self.revoked {
            State::Revoked
        } else if self.expires_at.is_some_and(|end| end <= now) {
            State::Expired
        } else if self.uses_left == Some(0) {
            State::UsedUp
        } else {
            State::Live
        }
    }
}

/// Whether a peer may be admitted, before anything is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Eligibility {
    /// It was admitted before.
    Known(InvitationId),
    /// This invitation admits it.
    Invited(InvitationId),
}

impl Book {
    pub(crate) fn invite(
        &mut self,
        secret: Secret,
        terms: Terms,
        now: u64,
    ) -> Result<InvitationId, Full> {
        if self.invitations.len() >= INVITATIONS_MAX {
            self.forget_an_ended_one(now)?;
        }
        let id = InvitationId::of(&secret);
        let entry = Entry {
            secret,
            made_at: now,
            expires_at: terms.ttl.map(|ttl| now.saturating_add(ttl.as_secs())),
            uses_left: terms.uses,
            revoked: false,
        };
        self.invitations.insert(id, entry);
        Ok(id)
    }

    /// Forgets the oldest of the invitations that have ended.
    fn forget_an_ended_one(&mut self, now: u64) -> Result<(), Full> {
        let ended = |entry: &Entry| entry.state(now) != State::Live;
        let oldest = self
            .invitations
            .iter()
            .filter(|(_, entry)| ended(entry))
            .min_by_key(|(_, entry)| entry.made_at)
            .map(|(id, _)| *id)
            .ok_or(Full)?;
        self.invitations.remove(&oldest);
        Ok(())
    }

    /// An invitation that lasts until it is revoked.
    pub(crate) fn lasting(&self, now: u64) -> Option<(InvitationId, Secret)> {
        let lasts = |entry: &Entry| entry.expires_at.is_none() && entry.uses_left.is_none();
        self.invitations
            .iter()
            .find(|(_, entry)| lasts(entry) && entry.state(now) == State::Live)
            .map(|(id, entry)| (*id, entry.secret.clone()))
    }

    /// Ends an invitation, and the membership of all peers that it admitted. `None` if there is no such invitation.
    pub(crate) fn revoke(&mut self, id: InvitationId) -> Option<Revoked> {
        self.invitations.get_mut(&id)?.revoked = true;
        let gone: Vec<_> = self.members_by(id).collect();
        for key in &gone {
            self.members.remove(key);
        }
        Some(Revoked { members: gone })
    }

    fn members_by(&self, id: InvitationId) -> impl Iterator<Item = PublicKey> {
        self.members
            .iter()
            .filter(move |(_, member)| member.by == id)
            .map(|(key, _)| *key)
    }

    pub(crate) fn ban(&mut self, key: PublicKey) -> Result<(), Full> {
        if self.banned.len() >= BANNED_MAX && !self.banned.contains(&key) {
            return Err(Full);
        }
        self.members.remove(&key);
        self.banned.insert(key);
        Ok(())
    }

    pub(crate) fn unban(&mut self, key: &PublicKey) -> bool {
        self.banned.remove(key)
    }

    pub(crate) fn banned(&self) -> impl Iterator<Item = PublicKey> {
        self.banned.iter().copied()
    }

    pub(crate) fn membership(&self, key: &PublicKey) -> Membership {
        match self.members.get(key) {
            _ if self.banned.contains(key) => Membership::Banned,
            Some(member) => Membership::Member { by: member.by },
            None => Membership::Stranger,
        }
    }

    pub(crate) fn state(&self, id: InvitationId, now: u64) -> Option<State> {
        self.invitations.get(&id).map(|entry| entry.state(now))
    }

    /// Decides whether the holder of `key` may be admitted, and by which invitation.
    pub(crate) fn judge(
        &self,
        proof: &Proof,
        binding: &ChannelBinding,
        key: &PublicKey,
        now: u64,
    ) -> Result<Eligibility, Denial> {
        match self.membership(key) {
            Membership::Banned => return Err(Denial::Banned),
            Membership::Member { by } => return Ok(Eligibility::Known(by)),
            Membership::Stranger => {}
        }
        let mut shown = None;
        // All of them, whichever fits: how long this takes says nothing about any.
        for (id, entry) in &self.invitations {
            if Proof::new(&entry.secret, binding, key) == *proof {
                shown = Some((*id, entry));
            }
        }
        let (id, entry) = shown.ok_or(Denial::Unknown)?;
        match entry.state(now) {
            State::Live => Ok(Eligibility::Invited(id)),
            State::Expired => Err(Denial::Expired(id)),
            State::UsedUp => Err(Denial::UsedUp(id)),
            State::Revoked => Err(Denial::Revoked(id)),
        }
    }

    /// As [`judge`](Self::judge), and stores a newcomer, which takes one use of the invitation.
    pub(crate) fn admit(
        &mut self,
        proof: &Proof,
        binding: &ChannelBinding,
        key: PublicKey,
        now: u64,
    ) -> Result<Admitted, Denial> {
        let by = match self.judge(proof, binding, &key, now)? {
            Eligibility::Known(by) => return Ok(Admitted::Again { by }),
            Eligibility::Invited(by) => by,
        };
        if let Some(uses) = self
            .invitations
            .get_mut(&by)
            .and_then(|entry| entry.uses_left.as_mut())
        {
            *uses = uses.saturating_sub(1);
        }
        if self.members.len() >= MEMBERS_MAX {
            self.forget_the_first_member();
        }
        self.members.insert(key, Member { by, since: now });
        Ok(Admitted::First { by })
    }

    fn forget_the_first_member(&mut self) {
        let first = self.members.iter().min_by_key(|(_, member)| member.since);
        if let Some(key) = first.map(|(key, _)| *key) {
            self.members.remove(&key);
        }
    }

    /// The number of stored records.
    pub(crate) fn records(&self) -> usize {
        self.invitations.len() + self.members.len() + self.banned.len()
    }

    /// A book of maximum size, made without the time that as many admissions take.
    #[cfg(test)]
    pub(crate) fn fill_for_test(&mut self, key: PublicKey, since: u64) {
        if let Some(by) = self.invitations.keys().next().copied() {
            self.members.insert(key, Member { by, since });
            self.banned.insert(key);
        }
    }

    pub(crate) fn list(&self, now: u64) -> Vec<Invitation> {
        let mut all: Vec<_> = self
            .invitations
            .iter()
            .map(|(id, entry)| Invitation {
                id: *id,
                state: entry.state(now),
                made_at: entry.made_at,
                expires_at: entry.expires_at,
                uses_left: entry.uses_left,
                members: self.members_by(*id).count(),
            })
            .collect();
        all.sort_by_key(|invitation| (invitation.made_at, invitation.id));
        all
    }
}

#[cfg(test)]
mod tests;
