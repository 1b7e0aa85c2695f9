"""Events that a program records, and listeners that are told of them.

A library records that something happened, how long it took, when it began and ended, or a number;
whoever wants to know registers a listener, a function of the event's name, its value and keywords
that say more. weft records what JAX records of compiling, under JAX's names, where anybody listens:
`/jax/core/compile/jaxpr_trace_duration`, `/jax/core/compile/jaxpr_to_mlir_module_duration` and
`/jax/core/compile/backend_compile_duration`, in seconds.

>>> from weft import monitoring
>>> heard = []
>>> monitoring.register_event_listener(lambda event, **more: heard.append((event, more)))
>>> monitoring.record_event("/mine/step", number=3)
>>> heard
[('/mine/step', {'number': 3})]
>>> monitoring.clear_event_listeners()
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.base.facades import public_names

__all__ = [
    "clear_event_listeners", "record_event", "record_event_duration_secs",
    "record_event_time_span", "record_scalar", "register_event_duration_secs_listener",
    "register_event_listener", "register_event_time_span_listener", "register_scalar_listener",
    "unregister_event_duration_listener", "unregister_event_listener",
    "unregister_event_time_span_listener", "unregister_scalar_listener",
]  # fmt: skip

__dir__ = public_names(globals())

Listener = Callable[..., None]

_of_events: list[Listener] = []
_of_durations: list[Listener] = []
_of_time_spans: list[Listener] = []
_of_scalars: list[Listener] = []


def _tell(listeners: list[Listener], event: str, *values: Any, **keywords: str | int) -> None:
    # A listener may take itself out of the list.
    for listener in tuple(listeners):
        listener(event, *values, **keywords)


def record_event(event: str, **kwargs: str | int) -> None:
    """Records that something happened: listeners get the name of the event and the keywords.

    event: the name of what happened, such as "/my_program/restarted"; kwargs: what else listeners
    get, by keyword.
    """
    _tell(_of_events, event, **kwargs)


def record_event_duration_secs(event: str, duration: float, **kwargs: str | int) -> None:
    """Records that something took so many seconds: `listener(event, duration, **kwargs)`.

    Args:
        event: The name of what took time.
        duration: The seconds that it took.
        kwargs: What else listeners get, by keyword.
    """
    _tell(_of_durations, event, duration, **kwargs)


def record_event_time_span(
    event: str, start_time: float, end_time: float, **kwargs: str | int
) -> None:
    """Records when something began and ended: `listener(event, start_time, end_time, **kwargs)`.

    Args:
        event: The name of what took time.
        start_time: When it began, in seconds.
        end_time: When it ended, in seconds.
        kwargs: What else listeners get, by keyword.
    """
    _tell(_of_time_spans, event, start_time, end_time, **kwargs)


def record_scalar(event: str, value: float | int, **kwargs: str | int) -> None:
    """Records a number: `listener(event, value, **kwargs)`.

    Args:
        event: The name of the number.
        value: The number that is recorded.
        kwargs: What else listeners get, by keyword.
    """
    _tell(_of_scalars, event, value, **kwargs)


def register_event_listener(callback: Listener) -> None:
    """Adds a listener to events.

    callback: the listener, which is called as `callback(event, **kwargs)`.
    """
    _of_events.append(callback)


def register_event_duration_secs_listener(callback: Listener) -> None:
    """Adds a listener to durations.

    callback: the listener, which is called as `callback(event, duration, **kwargs)`.
    """
    _of_durations.append(callback)


def register_event_time_span_listener(callback: Listener) -> None:
    """Adds a listener to spans of time.

    callback: the listener, which is called as `callback(event, start_time, end_time, **kwargs)`.
    """
    _of_time_spans.append(callback)


def register_scalar_listener(callback: Listener) -> None:
    """Adds a listener to numbers.

    callback: the listener, which is called as `callback(event, value, **kwargs)`.
    """
    _of_scalars.append(callback)


def unregister_event_listener(callback: Listener) -> None:
    """Takes a listener to events away. Raises ValueError if it was not registered.

    callback: the listener that was registered.
    """
    _of_events.remove(callback)


def unregister_event_duration_listener(callback: Listener) -> None:
    """Takes a listener to durations away. Raises ValueError if it was not registered.

    callback: the listener that was registered.
    """
    _of_durations.remove(callback)


def unregister_event_time_span_listener(callback: Listener) -> None:
    """Takes a listener to spans of time away. Raises ValueError if it was not registered.

    callback: the listener that was registered.
    """
    _of_time_spans.remove(callback)


def unregister_scalar_listener(callback: Listener) -> None:
    """Takes a listener to numbers away. Raises ValueError if it was not registered.

    callback: the listener that was registered.
    """
    _of_scalars.remove(callback)


def clear_event_listeners() -> None:
    """Takes all listeners away."""
    for listeners in (_of_events, _of_durations, _of_time_spans, _of_scalars):
        listeners.clear()
