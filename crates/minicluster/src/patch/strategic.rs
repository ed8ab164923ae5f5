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
            field(fields, name, value, schema)?;
        }
    }
    for (name, order) in patch {
        if let Some(list) = name.strip_prefix("$setElementOrder/")
            && let Some(Value::Array(items)) = fields.get_mut(list)
        {
            let key = schema
                .fields
                .get(list)
                .and_then(|of| of.strategy.key.clone());
            let order = order.as_array().map(Vec::as_slice).unwrap_or_default();
            sort(items, order, key.as_deref());
        }
    }
    Ok(())
}

fn field(
    fields: &mut Map<String, Value>,
    name: &str,
    value: &Value,
    schema: &Schema,
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
            merge_items(items, patch, of)
        }
        (None, Value::Array(patch)) if of.strategy.merge => {
            let mut items = Vec::new();
            merge_items(&mut items, patch, of)?;
            fields.insert(name.to_owned(), Value::Array(items));
            Ok(())
        }
        (None, Value::Object(_)) => {
            let mut target = Value::Object(Map::new());
            apply(&mut target, value, of)?;
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
                "map: {item} does not contain declared merge key: {key}"
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

/// The patch's order for what it names; the rest keeps its place relative to its neighbours.
fn sort(items: &mut Vec<Value>, order: &[Value], key: Option<&str>) {
    let rank = |item: &Value| {
        order.iter().position(|one| match key {
            Some(key) => one.get(key) == item.get(key),
            None => one == item,
        })
    };
    let mut named: Vec<Value> = Vec::new();
    let mut others: Vec<(usize, Value)> = Vec::new();
    for item in items.drain(..) {
        if rank(&item).is_some() {
            named.push(item);
        } else {
            others.push((named.len(), item));
        }
    }
    named.sort_by_key(|item| rank(item));
    for (shift, (place, item)) in others.into_iter().enumerate() {
        named.insert((place + shift).min(named.len()), item);
    }
    *items = named;
}

fn without_directives(patch: &Map<String, Value>) -> Map<String, Value> {
    let kept = patch.iter().filter(|(name, _)| !name.starts_with('$'));
    kept.map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}
