//! The memory of a weighted average: the contribution is multiplied by its weight in a copy.

use std::ops::Range;
use std::sync::Arc;

use pccl_plane::{Backup, OperationPort, UserBuffers};

use crate::calls::{Backups, Calls};
use crate::error::Error;

/// A contribution to a weighted average. The user's buffer is only read until the result is to be kept.
pub(crate) struct Weighted<'a> {
    data: &'a mut [u8],
    /// Holds the product, then the result.
    product: Backup,
    /// Of the product. Nothing is put back.
    backup: Backup,
    backups: Arc<Backups>,
    /// Where the result is, in bytes. `None`: it has not run.
    result: Option<Range<usize>>,
}

impl<'a> Weighted<'a> {
    pub(crate) fn new(calls: &Calls, data: &'a mut [u8]) -> Self {
        Self {
            product: calls.backups.take(data.len()),
            backup: calls.backups.take(data.len()),
            backups: Arc::clone(&calls.backups),
            data,
            result: None,
        }
    }

    /// Multiplies the contribution, for which the sum of all weights is known.
    pub(crate) fn lend(&mut self, port: &OperationPort) -> Result<UserBuffers<'_>, Error> {
        let product = self.product.scratch(self.data.len());
        product.copy_from_slice(self.data);
        port.weigh(product).map_err(Error::Defect)?;
        self.result = Some(port.result_bytes().ok_or(Error::MasterMisbehaved)?);
        Ok(UserBuffers::InPlace {
            data: product,
            backup: &mut self.backup,
        })
    }

    /// The user gets the result.
    pub(crate) fn keep(&mut self) {
        let Some(range) = self.result.take() else {
            return;
        };
        let product = self.product.scratch(self.data.len());
        if let (Some(target), Some(result)) = (self.data.get_mut(range.clone()), product.get(range))
        {
            target.copy_from_slice(result);
        }
    }
}

impl Drop for Weighted<'_> {
    fn drop(&mut self) {
        for backup in [&mut self.product, &mut self.backup] {
            self.backups.give_back(std::mem::take(backup));
        }
    }
}
