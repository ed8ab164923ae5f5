//! Strategic merge patches of built-in kinds, as `kubectl apply` and `kubectl edit` send them.
//! Decides by the merge keys of the type; directives in the patch (`$patch`, `$setElementOrder`,
//! `$deleteFromPrimitiveList`, `$retainKeys`) are obeyed and never stored.

use serde_json::{Map, Value};

use crate::schema::Schema;

/// Lays `patch` over `target`. The error is a sentence.
pub(crate) fn apply(target: &mut Value, patch: &Value, schema: &Schema) -> Result<(), String> {
    let (Value::Object(fields), Value::Object(patch)) = (&mut *target, patch) else {
        *target = patch.clone();
        return Ok(());
    };
    match patch.get("$patch").and_then(Value::as_str) {
        Some("replace") => {
            *fields = without_directives(patch);
            return Ok(());
        }
        Some("delete") => {
            fields.clear();
            return Ok(());
        }
        Some("merge") | None => {}
        Some(other) => return Err(format!("Unknown patch type found: {other}")),
    }
    if let Some(kept) = patch.get("$retainKeys").and_then(Value::as_array) {
        fields.retain(|name, _| kept.iter().any(|one| one == name.as_str()));
    }
    for (name, value) in patch {
        if let Some(list) = name.strip_prefix("$deleteFromPrimitiveList/") {
            if let Some(Value::Array(items)) = fields.get_mut(list) {
                let gone = value.as_array().map(Vec::as_slice).unwrap_or_default();
                items.retain(|item| !gone.contains(item));
            }
        } else if !name.starts_with('$') {
            let order = patch.get(&format!("$setElementOrder/{name}"));
            field(fields, name, value, schema, order)?;
        }
    }
    Ok(())
}

fn field(
    fields: &mut Map<String, Value>,
    name: &str,
    value: &Value,
    schema: &Schema,
    order: Option<&Value>,
) -> Result<(), String> {
    if value.is_null() {
        fields.remove(name);
        return Ok(());
    }
    let any = Schema::default();
    let of = schema.field(name).map_or(&any, |field| field);
    match (fields.get_mut(name), value) {
        (Some(target @ Value::Object(_)), Value::Object(_)) => apply(target, value, of),
        (Some(Value::Array(items)), Value::Array(patch)) if of.strategy.merge => {
            let before = items.clone();
            merge_items(items, patch, of)?;
            let order = order
                .and_then(Value::as_array)
                .map_or(patch.as_slice(), Vec::as_slice);
            sort(items, &before, order, of.strategy.key.as_deref());
            Ok(())
        }
        (None, Value::Array(patch)) if of.strategy.merge => {
            let mut items = Vec::new();
            merge_items(&mut items, patch, of)?;
            fields.insert(name.to_owned(), Value::Array(items));
            Ok(())
        }
        (None, Value::Object(_)) => {
            let mut target = Value::Object(Map::new());
            // A directive about what is not there leaves nothing.
            if value.get("$patch").is_none() {
                apply(&mut target, value, of)?;
            }
            fields.insert(name.to_owned(), target);
            Ok(())
        }
        _ => {
            fields.insert(name.to_owned(), value.clone());
            Ok(())
        }
    }
}

fn merge_items(items: &mut Vec<Value>, patch: &[Value], of: &Schema) -> Result<(), String> {
    let any = Schema::default();
    let item_type = of.items.as_deref().unwrap_or(&any);
    let Some(key) = &of.strategy.key else {
        for item in patch {
            if !items.contains(item) {
                items.push(item.clone());
            }
        }
        return Ok(());
    };
    let replaces = patch
        .iter()
        .any(|item| item["$patch"] == "replace" && item.get(key).is_none());
    if replaces {
        *items = patch
            .iter()
            .filter(|item| item.get("$patch").is_none())
            .cloned()
            .collect();
        return Ok(());
    }
    for item in patch {
        let Some(wanted) = item.get(key) else {
            return Err(format!(
                "map: {} does not contain declared merge key: {key}",
                as_go(item)
            ));
        };
        let place = items.iter().position(|one| one.get(key) == Some(wanted));
        match (item["$patch"].as_str(), place) {
            (Some("delete"), _) => items.retain(|one| one.get(key) != Some(wanted)),
            (_, Some(index)) => apply(&mut items[index], item, item_type)?,
            (_, None) => {
                let mut target = Value::Object(Map::new());
                apply(&mut target, item, item_type)?;
                items.push(target);
            }
        }
    }
    Ok(())
}

/// Puts a merged list in order. Items of the patch follow its order, the others the stored one; of
/// two that were both stored, the first goes first, and otherwise the patch's.
fn sort(items: &mut Vec<Value>, before: &[Value], order: &[Value], key: Option<&str>) {
    let place = |list: &[Value], item: &Value| {
        list.iter().position(|one| match key {
            Some(key) => one.get(key) == item.get(key),
            None => one == item,
        })
    };
    let (mut named, others): (Vec<Value>, Vec<Value>) = items
        .drain(..)
        .partition(|item| place(order, item).is_some());
    named.sort_by_key(|item| place(order, item));
    let (mut named, mut others) = (named.into_iter().peekable(), others.into_iter().peekable());
    while let (Some(mine), Some(theirs)) = (others.peek(), named.peek()) {
        let earlier = match (place(before, mine), place(before, theirs)) {
            (Some(mine), Some(theirs)) => mine < theirs,
            _ => false,
        };
        items.extend(if earlier { others.next() } else { named.next() });
    }
    items.extend(others);
    items.extend(named);
}

fn without_directives(patch: &Map<String, Value>) -> Map<String, Value> {
    let kept = patch.iter().filter(|(name, _)| !name.starts_with('$'));
    kept.map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// A map as Go prints it.
fn as_go(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let pairs: Vec<String> = fields
                .iter()
                .map(|(name, value)| format!("{name}:{}", as_go(value)))
                .collect();
            format!("map[{}]", pairs.join(" "))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(as_go).collect();
            format!("[{}]", items.join(" "))
        }
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
