"""Work as it arrives: one random stream per kind of work, denser by day or by night, thinner at weekends.

Input: teams and their streams; output: jobs handed to `submit`. Each stream has a random source of its own, so that
a change to one does not shift another.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from simcluster.scenario import Stream, Team
from simcluster.telemetry import Profile, day_curve

from .model import Job
from .world import World

PRIORITIES = {"production": 1000, "high": 500, "normal": 100, "scavenger": -10}
_GI = 1 << 30
_PEAK = 2.2


def intensity(stream: Stream, at: float) -> float:
    """How dense the stream is at a time, 1 on average over a weekday, 0 … _PEAK."""
    day = day_curve(at)
    weekend = (int(at) // 86400 + 4) % 7 in (0, 6)  # 1970-01-01 was a Thursday
    if stream.rhythm == "steady":
        return 1.0
    level = 0.2 + 1.6 * (day if stream.rhythm == "day" else 1 - day)
    return level * (0.45 if weekend else 1.0)


class Arrivals:
    """All streams of all teams."""

    def __init__(self, world: World, teams: tuple[Team, ...], submit: Callable[[Job], None]) -> None:
        self.world, self._submit = world, submit
        self._numbers = 0
        for team in teams:
            for stream in team.streams:
                chance = world.random("stream", team.slug, stream.name)
                for index in range(stream.standing):
                    world.at(world.epoch + 30 + 20 * index, self._arrive, team, stream, chance)
                if stream.per_day:
                    self._plan(team, stream, chance)

    def _plan(self, team: Team, stream: Stream, chance: Random) -> None:
        """The next arrival, by thinning: candidates at the peak rate, kept as often as the time of day says."""
        at = float(self.world.now)
        rate = stream.per_day * _PEAK / 86400
        while True:
            at += chance.expovariate(rate)
            if chance.random() * _PEAK <= intensity(stream, at):
                break
        self.world.at(at, self._next, team, stream, chance)

    def _next(self, team: Team, stream: Stream, chance: Random) -> None:
        self._arrive(team, stream, chance)
        self._plan(team, stream, chance)

    def _arrive(self, team: Team, stream: Stream, chance: Random) -> None:
        self._numbers += 1
        number = self._numbers
        low, high = stream.minutes
        minutes = low * (high / low) ** chance.random() if high > low else low
        pods, gpus = chance.choice(stream.pods), chance.choice(stream.gpus)
        fails = chance.random() < stream.failing
        idle = chance.random() < stream.idle
        name = f"{stream.name}-{self.world.suffix(4, 'job', number)}"
        patience = int(3600 * chance.uniform(*stream.patience_hours))
        profile = stream.profile
        if idle:
            profile = Profile("idle", 0.0, 0.0, profile.memory)
        job = Job(
            number=number,
            team=team,
            stream=stream,
            name=name,
            uid=self.world.uid("job", number),
            workload=f"{stream.owner.lower()}-{name}-{self.world.suffix(5, 'workload', number)}",
            created=self.world.now,
            pods=pods,
            gpus=gpus,
            duration=int(minutes * 60 * (chance.uniform(0.1, 0.6) if fails else 1)),
            fails=fails,
            profile=profile,
            patience=patience,
            priority=PRIORITIES[stream.priority],
            totals={
                "cpu": stream.cpu_per_gpu * gpus * pods,
                "memory": stream.memory_gib_per_gpu * gpus * pods * _GI,
                stream.resource: gpus * pods,
            },
            obj={},
            queued=self.world.now,
        )
        self._submit(job)
