//! Reads protobuf as the API server sends its own kinds. Decides how fields become what serde asks for, so
//! that one type is read from JSON and from this. Knows no kind: whoever reads says which fields there are.
//!
//! Why not only JSON: for each event of a pod of 1 MB, the API server would write 1 MB of JSON for us
//! alone. Its own controllers ask for protobuf, and all who do share one copy
//! (docs/decisions/0058-pods-as-protobuf.md).
//!
//! What a tenant can store must never be an error here, or one pod would hide all others. The API server
//! checks no text for UTF-8 if it comes in protobuf, and no time for its range.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::value::CowStrDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IntoDeserializer as _, MapAccess, SeqAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::Error;

/// In front of every object.
const MAGIC: &[u8] = b"k8s\0";
/// Of `runtime.Unknown`: the object itself.
const RAW: u32 = 2;

/// A field that is read. All others are skipped.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) number: u32,
    /// As in JSON.
    pub(crate) name: &'static str,
    pub(crate) kind: FieldKind,
}

/// What a field holds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FieldKind {
    Text,
    Number,
    Flag,
    Time,
    /// Texts by name.
    Map,
    Message(&'static [Field]),
    Messages(&'static [Field]),
}

/// A row of a table of fields.
pub(crate) const fn field(number: u32, name: &'static str, kind: FieldKind) -> Field {
    Field { number, name, kind }
}

const TIME: &[Field] = &[
    field(1, "seconds", FieldKind::Number),
    field(2, "nanos", FieldKind::Number),
];

/// Reads a message.
pub(crate) fn read<'de, T: Deserialize<'de>>(
    fields: &'static [Field],
    bytes: &'de [u8],
) -> Result<T, Error> {
    T::deserialize(Value::Message(fields, bytes))
}

/// The object in an answer, or in an event.
pub(crate) fn object(bytes: &[u8]) -> Result<&[u8], Error> {
    let unknown = bytes.strip_prefix(MAGIC);
    let unknown = unknown.ok_or_else(|| Error::custom("no object of Kubernetes"))?;
    single(unknown, RAW)
}

/// One field of a message that has bytes; empty if the message does not have it.
pub(crate) fn single(message: &[u8], number: u32) -> Result<&[u8], Error> {
    let mut cursor = Cursor(message);
    while let Some((found, wire)) = cursor.next()? {
        if found == number {
            return wire.bytes();
        }
    }
    Ok(&[])
}

/// All of one field of a message.
pub(crate) fn repeated(message: &[u8], number: u32) -> Result<Vec<&[u8]>, Error> {
    let mut cursor = Cursor(message);
    let mut all = Vec::new();
    while let Some((found, wire)) = cursor.next()? {
        if found == number {
            all.push(wire.bytes()?);
        }
    }
    Ok(all)
}

/// The rest of a message.
#[derive(Clone, Copy)]
struct Cursor<'de>(&'de [u8]);

#[derive(Clone, Copy)]
enum Wire<'de> {
    Number(u64),
    Bytes(&'de [u8]),
}

impl<'de> Cursor<'de> {
    fn next(&mut self) -> Result<Option<(u32, Wire<'de>)>, Error> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).map_err(Error::custom)?;
        let wire = match tag & 7 {
            0 => Wire::Number(self.varint()?),
            1 => Wire::Bytes(self.take(8)?),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(Error::custom)?;
                Wire::Bytes(self.take(length)?)
            }
            5 => Wire::Bytes(self.take(4)?),
            kind => return Err(Error::custom(format!("a field of the unknown kind {kind}"))),
        };
        Ok(Some((number, wire)))
    }

    fn varint(&mut self) -> Result<u64, Error> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let [byte] = self.take(1)? else {
                unreachable!("one byte was taken")
            };
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Error::custom("a number that is too long"))
    }

    fn take(&mut self, length: usize) -> Result<&'de [u8], Error> {
        let split = self.0.split_at_checked(length);
        let (taken, rest) = split.ok_or_else(|| Error::custom("the message is cut short"))?;
        self.0 = rest;
        Ok(taken)
    }

    /// The fields that follow with the same number.
    fn siblings(&mut self, number: u32, first: &'de [u8]) -> Result<Vec<&'de [u8]>, Error> {
        let mut all = vec![first];
        let mut ahead = *self;
        while let Some((found, wire)) = ahead.next()? {
            if found != number {
                break;
            }
            all.push(wire.bytes()?);
            *self = ahead;
        }
        Ok(all)
    }
}

impl<'de> Wire<'de> {
    fn bytes(self) -> Result<&'de [u8], Error> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Number(_) => Err(Error::custom("a number in place of bytes")),
        }
    }

    fn number(self) -> Result<u64, Error> {
        match self {
            Self::Number(number) => Ok(number),
            Self::Bytes(_) => Err(Error::custom("bytes in place of a number")),
        }
    }
}

/// A value that serde can ask for.
enum Value<'de> {
    Text(Cow<'de, str>),
    Number(i64),
    Flag(bool),
    Time(Timestamp),
    Map(Vec<&'de [u8]>),
    Message(&'static [Field], &'de [u8]),
    Messages(&'static [Field], Vec<&'de [u8]>),
}

impl<'de> Value<'de> {
    /// The value of a field, and of those after it that belong to it. JSON leaves out what is empty, so
    /// this does too.
    fn of(
        number: u32,
        kind: FieldKind,
        wire: Wire<'de>,
        rest: &mut Cursor<'de>,
    ) -> Result<Option<Self>, Error> {
        Ok(match kind {
            FieldKind::Text => Some(text(wire.bytes()?))
                .filter(|text| !text.is_empty())
                .map(Self::Text),
            FieldKind::Number => Some(Self::Number(wire.number()?.cast_signed())),
            FieldKind::Flag => Some(Self::Flag(wire.number()? != 0)),
            FieldKind::Time => time(wire.bytes()?)?.map(Self::Time),
            FieldKind::Map => Some(Self::Map(rest.siblings(number, wire.bytes()?)?)),
            FieldKind::Message(fields) => Some(Self::Message(fields, wire.bytes()?)),
            FieldKind::Messages(fields) => {
                let all = rest.siblings(number, wire.bytes()?)?;
                Some(Self::Messages(fields, all))
            }
        })
    }
}

/// As the API server writes it in JSON: what is not UTF-8 is replaced.
fn text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// A time that was never set has no fields. One that no calendar has is not set either.
fn time(bytes: &[u8]) -> Result<Option<Timestamp>, Error> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Parts {
        seconds: i64,
        nanos: i32,
    }
    if bytes.is_empty() {
        return Ok(None);
    }
    let Parts { seconds, nanos } = read(TIME, bytes)?;
    Ok(Timestamp::new(seconds, nanos).ok())
}

impl<'de> Deserializer<'de> for Value<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self {
            Self::Text(Cow::Borrowed(text)) => visitor.visit_borrowed_str(text),
            Self::Text(Cow::Owned(text)) => visitor.visit_string(text),
            Self::Number(number) => visitor.visit_i64(number),
            Self::Flag(flag) => visitor.visit_bool(flag),
            Self::Time(time) => visitor.visit_string(time.to_string()),
            Self::Map(entries) => visitor.visit_map(Entries {
                entries: entries.into_iter(),
                value: Cow::default(),
            }),
            Self::Message(fields, bytes) => visitor.visit_map(Fields {
                fields,
                rest: Cursor(bytes),
                value: None,
            }),
            Self::Messages(fields, all) => visitor.visit_seq(Items {
                fields,
                items: all.into_iter(),
            }),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct enum identifier
    }
}

/// The fields of a message, in the order in which they were written.
struct Fields<'de> {
    fields: &'static [Field],
    rest: Cursor<'de>,
    value: Option<Value<'de>>,
}

impl<'de> MapAccess<'de> for Fields<'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        while let Some((number, wire)) = self.rest.next()? {
            let Some(field) = self.fields.iter().find(|field| field.number == number) else {
                continue;
            };
            self.value = Value::of(number, field.kind, wire, &mut self.rest)?;
            if self.value.is_some() {
                return seed.deserialize(field.name.into_deserializer()).map(Some);
            }
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let value = self.value.take();
        seed.deserialize(value.ok_or_else(|| Error::custom("a value without its name"))?)
    }
}

/// The entries of a map of texts.
struct Entries<'de> {
    entries: std::vec::IntoIter<&'de [u8]>,
    value: Cow<'de, str>,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        let Some(entry) = self.entries.next() else {
            return Ok(None);
        };
        self.value = text(single(entry, 2)?);
        let key = text(single(entry, 1)?);
        seed.deserialize(CowStrDeserializer::new(key)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        seed.deserialize(CowStrDeserializer::new(std::mem::take(&mut self.value)))
    }
}

/// The items of a list.
struct Items<'de> {
    fields: &'static [Field],
    items: std::vec::IntoIter<&'de [u8]>,
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        let item = self.items.next();
        item.map(|bytes| seed.deserialize(Value::Message(self.fields, bytes)))
            .transpose()
    }
}

#[cfg(test)]
mod tests;
