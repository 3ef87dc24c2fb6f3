//! Reading and writing the fields of a fixed little-endian header.

/// Processes a header from its front, field by field.
pub(super) struct Fields<B> {
    bytes: B,
    at: usize,
}

impl<B> Fields<B> {
    pub(super) const fn new(bytes: B) -> Self {
        Self { bytes, at: 0 }
    }
}

impl<const N: usize> Fields<&mut [u8; N]> {
    /// Writes the next field. A field that does not fit is left out; tests pin every header's layout.
    pub(super) fn put<const M: usize>(&mut self, field: [u8; M]) {
        if let Some(to) = self.bytes.get_mut(self.at..self.at + M) {
            to.copy_from_slice(&field);
        }
        self.at += M;
    }
}

impl<const N: usize> Fields<&[u8; N]> {
    /// Reads the next field. Beyond the end it reads zeros; tests pin every header's layout.
    pub(super) fn take<const M: usize>(&mut self) -> [u8; M] {
        let field = self.bytes.get(self.at..self.at + M);
        self.at += M;
        field
            .and_then(|field| field.try_into().ok())
            .unwrap_or([0; M])
    }
}
