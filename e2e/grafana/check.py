"""Holds a dashboard against the types that Grafana publishes: each name must be one of Grafana's, each value must be of
its type and, where Grafana lists words, one of them. Prints what is wrong, and then exits with 1. Must not know what the
dashboard shows."""

import enum
import json
import sys
import typing

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.cog import runtime
from grafana_foundation_sdk.models.dashboard import Dashboard, Panel


def lost(ours, theirs, path):
    """What Grafana's types do not know: reading drops it."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name, value in ours.items():
            if name in theirs:
                yield from lost(value, theirs[name], f"{path}.{name}")
            else:
                yield f"{path}.{name} is not Grafana's"
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for index, pair in enumerate(zip(ours, theirs)):
            yield from lost(*pair, f"{path}[{index}]")
    elif ours != theirs:
        yield f"{path}: {ours!r} became {theirs!r}"


def fits(value, kind):
    """Whether a value that is no object of Grafana's may stand where this type is expected."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if kind in (object, typing.Any) or isinstance(kind, str):
        return True
    if origin is typing.Union:
        return any(fits(value, one) for one in inner)
    if origin is typing.Literal:
        return value in inner
    if origin in (list, dict):
        return isinstance(value, origin)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return value in [word.value for word in kind]
    if kind is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, kind) and not (kind is int and isinstance(value, bool))


def mistyped(value, path):
    """Values that are not of the type that their field has."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from mistyped(item, f"{path}[{index}]")
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from mistyped(item, f"{path}.{name}")
    elif type(value).__module__.startswith("grafana_foundation_sdk."):
        kinds = typing.get_type_hints(type(value))
        for name, item in vars(value).items():
            if name in kinds and item is not None and not fits(item, kinds[name]):
                yield f"{path}.{name}: {item!r} is not a {kinds[name]}"
            yield from mistyped(item, f"{path}.{name}")


def main(file):
    register_default_plugins()
    with open(file, encoding="utf-8") as opened:
        text = opened.read()
    read = Dashboard.from_json(json.loads(text))
    theirs = json.loads(JSONEncoder().encode(read))
    found = list(lost(json.loads(text), theirs, "dashboard"))
    found += mistyped(read, "dashboard")
    for panel in read.panels or []:
        if isinstance(panel, Panel) and runtime.panelcfg_config(panel.type_val) is None:
            found.append(f"no panel of Grafana is called {panel.type_val!r}")
    for line in found:
        print(line)
    return 1 if found else 0


sys.exit(main(sys.argv[1]))
