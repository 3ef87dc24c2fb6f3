//! Values of any type, made out of any bytes: every input of bytes is a value, and small changes make other values.
//!
//! [`Bytes`] is a source of choices. As a `serde` deserializer it makes values of any type that can be received. A
//! number is mostly one of [`Bytes::numbers`], among which the user of the source puts those that mean something at
//! the time, such as the round that is under way. When the bytes have run out, all choices are the first one.

use serde::Deserialize;
use serde::de::value::U32Deserializer;
use serde::de::{self, DeserializeSeed, IntoDeserializer, Visitor};

/// How many numbers are remembered.
const NUMBERS_MAX: usize = 24;

/// Numbers at the edges of types.
const EDGES: [u64; 8] = [
    u64::MAX,
    u64::MAX - 1,
    1 << 63,
    1 << 62,
    1 << 32,
    u32::MAX as u64,
    u16::MAX as u64,
    1000,
];

/// A source of choices.
#[derive(Clone, Debug)]
pub struct Bytes<'a> {
    rest: &'a [u8],
    numbers: Vec<u64>,
}

/// The type has a rule that the value breaks.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NoValue(String);

impl de::Error for NoValue {
    fn custom<T: std::fmt::Display>(why: T) -> Self {
        Self(why.to_string())
    }
}

impl<'a> Bytes<'a> {
    /// All choices of these bytes.
    #[must_use]
    pub fn new(rest: &'a [u8]) -> Self {
        let numbers = (0..8).collect();
        Self { rest, numbers }
    }

    /// Whether no choice is left.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next byte. 0 after the end.
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.rest.split_first() else {
            return 0;
        };
        self.rest = rest;
        *first
    }

    /// A number below `end`, which is not 0 and at most 256.
    pub fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte()) % end
    }

    /// One of these. `None` if there are none.
    pub fn one_of<T: Clone>(&mut self, all: &[T]) -> Option<T> {
        let at = self.below(all.len().clamp(1, 256));
        all.get(at).cloned()
    }

    /// All that is left, at most `most` bytes.
    pub fn take(&mut self, most: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(most.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// Makes it likely that one of the next numbers is this one.
    pub fn remember(&mut self, number: u64) {
        if self.numbers.contains(&number) {
            return;
        }
        if self.numbers.len() >= NUMBERS_MAX {
            self.numbers.remove(8);
        }
        self.numbers.push(number);
    }

    /// Remembers the numbers in what somebody was told: rounds, operations, epochs.
    pub fn remember_all(&mut self, told: &impl std::fmt::Debug) {
        let text = format!("{told:?}");
        let numbers = text.split(|letter: char| !letter.is_ascii_digit());
        for number in numbers.filter_map(|digits| digits.parse().ok()) {
            self.remember(number);
        }
    }

    /// A value of any type. `None` if the type has a rule that the value breaks.
    pub fn value<T: Deserialize<'a>>(&mut self) -> Option<T> {
        T::deserialize(self).ok()
    }

    /// Numbers that are likely to be chosen.
    #[must_use]
    pub fn numbers(&self) -> &[u64] {
        &self.numbers
    }

    fn number(&mut self) -> u64 {
        let choice = self.byte();
        match choice {
            0..192 => {
                let at = usize::from(choice) % self.numbers.len();
                self.numbers[at]
            }
            192..224 => u64::from(choice - 192),
            224..240 => EDGES[usize::from(choice) % EDGES.len()],
            240.. => {
                let mut bytes = [0; 8];
                let taken = self.take(8);
                bytes[..taken.len()].copy_from_slice(taken);
                u64::from_le_bytes(bytes)
            }
        }
    }

    fn length(&mut self) -> usize {
        match self.byte() {
            choice @ 0..250 => usize::from(choice) % 5,
            choice => usize::from(choice - 249) * 7,
        }
    }

    fn text(&mut self) -> String {
        let length = self.length();
        let taken = self.take(length);
        match std::str::from_utf8(taken) {
            Ok(text) => text.to_owned(),
            Err(_) => taken.iter().map(|byte| char::from(byte % 128)).collect(),
        }
    }
}

macro_rules! numbers {
    ($($name:ident $visit:ident $type:ty),*) => {
        $(fn $name<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NoValue> {
            visitor.$visit(self.number() as $type)
        })*
    };
}

impl<'de> de::Deserializer<'de> for &mut Bytes<'de> {
    type Error = NoValue;

    numbers!(
        deserialize_i8 visit_i8 i8, deserialize_i16 visit_i16 i16, deserialize_i32 visit_i32 i32,
        deserialize_i64 visit_i64 i64, deserialize_i128 visit_i128 i128, deserialize_u16 visit_u16 u16,
        deserialize_u32 visit_u32 u32, deserialize_u64 visit_u64 u64, deserialize_u128 visit_u128 u128,
        deserialize_f32 visit_f32 f32, deserialize_f64 visit_f64 f64
    );

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, NoValue> {
        Err(NoValue("nothing says which type it is".into()))
    }

    fn deserialize_u8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NoValue> {
        visitor.visit_u8(self.byte())
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NoValue> {
        visitor.visit_bool(self.byte() & 1 == 1)
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NoValue> {
        visitor.visit_char(char::from(self.byte()))
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NoValue> {
        visitor.visit_string(self.text())
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NoValue> {
        visitor.visit_string(self.text())
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NoValue> {
        let length = self.length();
        visitor.visit_borrowed_bytes(self.take(length))
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NoValue> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NoValue> {
        match self.byte() & 1 {
            0 => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NoValue> {
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, NoValue> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, NoValue> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NoValue> {
        let left = self.length();
        visitor.visit_seq(Items { bytes: self, left })
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        left: usize,
        visitor: V,
    ) -> Result<V::Value, NoValue> {
        visitor.visit_seq(Items { bytes: self, left })
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        left: usize,
        visitor: V,
    ) -> Result<V::Value, NoValue> {
        self.deserialize_tuple(left, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NoValue> {
        let left = self.length();
        visitor.visit_map(Items { bytes: self, left })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, NoValue> {
        self.deserialize_tuple(fields.len(), visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, NoValue> {
        let chosen = self.below(variants.len().clamp(1, 256));
        visitor.visit_enum(Variant {
            bytes: self,
            chosen,
        })
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, _: V) -> Result<V::Value, NoValue> {
        Err(NoValue("fields come in their order".into()))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NoValue> {
        visitor.visit_unit()
    }

    /// As on the wire.
    fn is_human_readable(&self) -> bool {
        false
    }
}

struct Items<'b, 'de> {
    bytes: &'b mut Bytes<'de>,
    left: usize,
}

impl Items<'_, '_> {
    fn take_one(&mut self) -> Option<()> {
        self.left = self.left.checked_sub(1)?;
        Some(())
    }
}

impl<'de> de::SeqAccess<'de> for Items<'_, 'de> {
    type Error = NoValue;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, NoValue> {
        match self.take_one() {
            Some(()) => seed.deserialize(&mut *self.bytes).map(Some),
            None => Ok(None),
        }
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left)
    }
}

impl<'de> de::MapAccess<'de> for Items<'_, 'de> {
    type Error = NoValue;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, NoValue> {
        match self.take_one() {
            Some(()) => seed.deserialize(&mut *self.bytes).map(Some),
            None => Ok(None),
        }
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, NoValue> {
        seed.deserialize(&mut *self.bytes)
    }
}

struct Variant<'b, 'de> {
    bytes: &'b mut Bytes<'de>,
    chosen: usize,
}

impl<'b, 'de> de::EnumAccess<'de> for Variant<'b, 'de> {
    type Error = NoValue;
    type Variant = &'b mut Bytes<'de>;

    fn variant_seed<T: DeserializeSeed<'de>>(
        self,
        seed: T,
    ) -> Result<(T::Value, Self::Variant), NoValue> {
        let chosen = u32::try_from(self.chosen).unwrap_or_default();
        let number: U32Deserializer<NoValue> = chosen.into_deserializer();
        Ok((seed.deserialize(number)?, self.bytes))
    }
}

impl<'de> de::VariantAccess<'de> for &mut Bytes<'de> {
    type Error = NoValue;

    fn unit_variant(self) -> Result<(), NoValue> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, NoValue> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(
        self,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, NoValue> {
        de::Deserializer::deserialize_tuple(self, length, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, NoValue> {
        de::Deserializer::deserialize_tuple(self, fields.len(), visitor)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::mem::{Discriminant, discriminant};

    use pccl_core::messages::{ToMaster, ToPeer};
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    /// How many kinds of messages come out of random bytes.
    fn kinds<T: for<'a> Deserialize<'a>>(kind: impl Fn(&T) -> String) -> usize {
        let mut random = StdRng::seed_from_u64(1);
        let made = (0..20_000).filter_map(|_| {
            let mut bytes = [0; 200];
            random.fill_bytes(&mut bytes);
            Bytes::new(&bytes).value::<T>()
        });
        made.map(|value| kind(&value))
            .collect::<BTreeSet<_>>()
            .len()
    }

    fn name<T: std::fmt::Debug>(value: &T) -> String {
        let text = format!("{value:?}");
        let end = text.find(|letter: char| !letter.is_alphanumeric());
        text[..end.unwrap_or(text.len())].to_owned()
    }

    #[test]
    fn random_bytes_make_messages_of_every_kind() {
        assert_eq!(kinds::<ToMaster>(name), 16);
        assert_eq!(kinds::<ToPeer>(name), 17);
    }

    #[test]
    fn a_number_that_was_remembered_is_chosen_often() {
        let mut bytes = Bytes::new(&[8, 24, 8]);
        bytes.remember(4711);
        assert_eq!(bytes.value::<u64>(), Some(4711));
    }

    #[test]
    fn when_the_bytes_have_run_out_there_is_a_first_value_still() {
        let first: Option<ToMaster> = Bytes::new(&[]).value();
        let kind: Option<Discriminant<ToMaster>> = first.as_ref().map(discriminant);
        assert!(kind.is_some());
    }
}
