"""``at`` is due at the times of Debian's cron, checked against a search of every minute.

The model expands each field by itself and knows nothing of the library that evaluates ``at``. Day
and weekday are both required when either field begins with ``*``, else one of them is enough. With
changes of the clocks, an expression whose minute or hour begins with ``*`` follows the clock on the
wall; any other is due once per named time: at the end of the gap for a time that is left out, the
first of the two for a time that comes twice.
"""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from strandline.pipelines.schedule.cron import CalendarTimes

EXPRESSIONS = 400
MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
WEEKDAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
BOUNDS = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 7)]
MINUTE = timedelta(minutes=1)
ZONES = {  # with the day of a change of the clocks
    "Europe/Zurich": ("2026-03-29", "2026-10-25"),
    "America/New_York": ("2026-03-08", "2026-11-01"),
    "Africa/Cairo": ("2026-04-24", "2026-10-29"),  # at midnight
}


def a_field(rng: random.Random, place: int) -> str:
    low, high = BOUNDS[place]
    names = {3: ["", *MONTHS], 4: WEEKDAYS}.get(place)

    def value(number: int) -> str:
        named = names is not None and number < len(names) and rng.random() < 0.5
        return names[number] if named else str(number)

    def part() -> str:
        first, last = sorted(rng.sample(range(low, high + 1), k=2))
        step = rng.randint(1, high)
        return rng.choice(
            [
                *("*", f"*/{step}", value(first), value(first)),
                *(f"{value(first)}-{value(last)}", f"{first}-{last}/{step}", f"{first}/{step}"),
            ]
        )

    return ",".join(part() for _ in range(rng.choice([1, 1, 1, 2])))


def expanded(field: str, place: int) -> set[int]:
    """The numbers of a field, by another way than that of any library."""
    low, high = BOUNDS[place]
    for offset, names in ((1, MONTHS), (0, WEEKDAYS)):
        for number, name in enumerate(names):
            field = field.replace(name, str(number + offset))
    found: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        if span == "*":
            first, last = low, high
        elif "-" in span:
            first, last = map(int, span.split("-"))
        else:
            first, last = int(span), high if step else int(span)
        found |= {n for n in range(first, last + 1) if (n - first) % int(step or 1) == 0}
    return found


class Model:
    def __init__(self, expression: str) -> None:
        self.fields = expression.split()
        self.sets = [expanded(field, place) for place, field in enumerate(self.fields)]
        self.both = self.fields[2].startswith("*") or self.fields[4].startswith("*")
        self.follows_the_wall = any(field.startswith("*") for field in self.fields[:2])

    def is_on(self, local: datetime) -> bool:
        minutes, hours, days, months, weekdays = self.sets
        if local.minute not in minutes or local.hour not in hours or local.month not in months:
            return False
        weekday = local.isoweekday()
        by_day, by_weekday = local.day in days, weekday in weekdays or weekday % 7 in weekdays
        return (by_day and by_weekday) if self.both else (by_day or by_weekday)

    def between(self, first: datetime, last: datetime, zone: ZoneInfo) -> list[datetime]:
        """Points after the first moment up to the last, in UTC."""
        count = (last - first) // MINUTE
        if self.follows_the_wall:
            every = (first + n * MINUTE for n in range(1, count + 1))
            return [moment for moment in every if self.is_on(moment.astimezone(zone))]
        local, found = first.astimezone(zone).replace(tzinfo=None), set()
        for n in range(-120, count + 120):
            if self.is_on(local + n * MINUTE):
                found.add(on_the_wall(local + n * MINUTE, zone))
        return sorted(moment for moment in found if first < moment <= last)


def on_the_wall(local: datetime, zone: ZoneInfo) -> datetime:
    """The first moment at which the clocks of a place show a time, or go past it."""
    while True:
        moment = local.replace(tzinfo=zone).astimezone(UTC)
        if moment.astimezone(zone).replace(tzinfo=None) == local:
            return moment
        local += MINUTE


def us(moment: datetime) -> int:
    return int(moment.timestamp()) * 1_000_000


def points_between(at: CalendarTimes, first: datetime, last: datetime) -> list[datetime]:
    found, point = [], at.next(us(first))
    while point <= us(last):
        found.append(datetime.fromtimestamp(point // 1_000_000, UTC))
        point = at.next(point)
    return found


def expressions(seed: int, count: int, hours: str = "") -> list[str]:
    rng = random.Random(seed)
    made = []
    while len(made) < count:
        fields = [a_field(rng, place) for place in range(5)]
        if hours:  # those of the change
            fields[1:] = [rng.choice(hours.split()), *rng.choice([["*", "*", "*"], fields[2:]])]
        model = Model(" ".join(fields))
        first = datetime(2027, 1, 1)
        if any(model.is_on(day) for day in days_with_a_time(model, first)):
            made.append(" ".join(fields))
    return made


def days_with_a_time(model: Model, first: datetime) -> list[datetime]:
    hour, minute = min(model.sets[1]), min(model.sets[0])
    return [first + timedelta(days=n, hours=hour, minutes=minute) for n in range(4 * 365 + 1)]


def test_random_expressions_are_due_on_the_days_and_times_of_cron():
    wrong = []
    for expression in expressions(16, EXPRESSIONS):
        model, at = Model(expression), CalendarTimes(expression)
        found, moment = [], datetime(2026, 11, 17, 12, 34, tzinfo=UTC)
        for _ in range(3):
            point = at.next(us(moment))
            moment = datetime.fromtimestamp(point // 1_000_000, UTC)
            found.append(moment)
        first = datetime(2026, 11, 17, 12, 34, tzinfo=UTC)
        if found != first_points(model, first, 3):
            wrong.append(expression)
    assert wrong == []


def first_points(model: Model, after: datetime, count: int) -> list[datetime]:
    """By days, since four years have two million minutes."""
    found, day = [], after.replace(hour=0, minute=0)
    minutes, hours = sorted(model.sets[0]), sorted(model.sets[1])
    while len(found) < count:
        if model.is_on(day.replace(hour=hours[0], minute=minutes[0])):
            times = [day.replace(hour=hour, minute=minute) for hour in hours for minute in minutes]
            found += [time for time in times if time > after]
        day += timedelta(days=1)
    return found[:count]


@pytest.mark.parametrize("name", ZONES)
def test_around_a_change_of_the_clocks_next_and_last_are_those_of_the_model(name):
    zone = ZoneInfo(name)
    for seed, day in enumerate(ZONES[name]):
        first = datetime.fromisoformat(day).replace(tzinfo=zone).astimezone(UTC)
        first, last = first - timedelta(hours=6), first + timedelta(hours=18)
        for expression in expressions(seed, 40, hours="* */2 0 1 2 3 23 1-3 2,3 0-23/2"):
            model, at = Model(expression), CalendarTimes(expression, name)
            expected = model.between(first, last, zone)
            assert points_between(at, first, last) == expected, expression
            for n in range(0, 24 * 60, 17):
                now = first + n * MINUTE
                due = [point for point in expected if point <= now]
                if due:
                    assert at.last(us(now)) == us(due[-1]), (expression, now)
