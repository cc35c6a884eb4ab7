"""Points as a chart: a Vega-Lite specification, or a PNG drawn by matplotlib. Pure.

With times the chart has lines, a color for each group; with groups, metrics differ by their dashes.
Without times it has bars, side by side for several metrics.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from strandline.errors import NotInstalled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

VEGA_LITE = "https://vega.github.io/schema/vega-lite/v5.json"
JOINT = " · "
"""The separator in names of several parts."""

_WIDTH, _HEIGHT, _DPI = 8.0, 4.5, 120
_BARS_WIDTH = 0.8
"""The width of all bars of a group; groups are 1 apart."""


class ChartPoint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One value of a chart."""

    metric: str
    value: int | float | None
    """None: there were no values to aggregate."""
    time: str | None = None
    """The start of its period, in UTC."""
    group: str | None = None
    """The values of the breakdown."""


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """The result of PLOT."""

    points: tuple[ChartPoint, ...]
    vega: dict[str, Any]
    """A Vega-Lite specification that includes the data."""

    def png(self) -> bytes:
        """A PNG image; requires matplotlib."""
        return render_png(self.points)


def vega(points: Sequence[ChartPoint], over: str | None, group_title: str = "") -> dict[str, Any]:
    """A specification with its data. ``over`` is the period when there are times."""
    metrics = list(dict.fromkeys(point.metric for point in points))
    several = len(metrics) > 1
    grouped = any(point.group is not None for point in points)
    metric = {"field": "metric", "type": "nominal", "title": None}
    group = {"field": "group", "type": "nominal", "title": group_title}
    title = None if several or not metrics else metrics[0]
    encoding: dict[str, Any] = {"y": {"field": "value", "type": "quantitative", "title": title}}
    if over is not None:
        encoding["x"] = {"field": "time", "type": "temporal", "title": over.lower()}
        if grouped:
            encoding["color"] = group
        if several:
            encoding["strokeDash" if grouped else "color"] = metric
    else:
        encoding["x"] = {**group, "sort": "-y"} if grouped else metric
        if several:
            encoding["color"] = metric
        if several and grouped:
            encoding["xOffset"] = metric
    return {
        "$schema": VEGA_LITE,
        "data": {"values": msgspec.to_builtins(points)},
        "mark": "bar" if over is None else {"type": "line", "point": True},
        "encoding": encoding,
    }


def render_png(points: Sequence[ChartPoint]) -> bytes:
    """The chart as a PNG."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 -- optional, and slow to import
    except ImportError as error:
        raise NotInstalled(
            "matplotlib is not installed: pip install matplotlib, or use the chart's vega"
        ) from error
    figure = Figure(figsize=(_WIDTH, _HEIGHT), layout="constrained")
    axes = figure.subplots()
    if any(point.time is not None for point in points):
        _draw_lines(axes, points)
    else:
        _draw_bars(axes, points)
    if points:
        axes.legend()
    target = io.BytesIO()
    figure.savefig(target, format="png", dpi=_DPI)
    return target.getvalue()


def _draw_lines(axes: Axes, points: Sequence[ChartPoint]) -> None:
    series: dict[str, list[ChartPoint]] = {}
    for point in points:
        label = point.metric if point.group is None else f"{point.metric}{JOINT}{point.group}"
        series.setdefault(label, []).append(point)
    for label, line in series.items():
        moments = np.array([(point.time or "").rstrip("Z") for point in line], "datetime64[us]")
        axes.plot(moments, _values(line), marker="o", label=label)


def _draw_bars(axes: Axes, points: Sequence[ChartPoint]) -> None:
    groups = list(dict.fromkeys(point.group or "" for point in points))
    metrics = list(dict.fromkeys(point.metric for point in points))
    width = _BARS_WIDTH / max(1, len(metrics))
    for number, metric in enumerate(metrics):
        bars = [point for point in points if point.metric == metric]
        places = [groups.index(point.group or "") + number * width for point in bars]
        axes.bar(places, _values(bars), width=width, label=metric)
    axes.set_xticks(range(len(groups)), groups, rotation=30)


def _values(points: Sequence[ChartPoint]) -> list[float]:
    return [float("nan") if point.value is None else float(point.value) for point in points]
