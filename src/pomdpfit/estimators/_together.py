"""Many climbs side by side: what they ask is answered in batches.

A pool holds four times as many climbs as a batch has members. Of the two kinds of questions the
one that most of them ask is answered first, so that batches are full until the last climbs are
left; whoever has arrived makes room for the next. While one batch is computed the climbs of
another think. Nothing of this depends on the time that anything takes: the same climbs make the
same batches.
"""

import collections
import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np

from pomdpfit._batch import Answers, Batch, Members, stacked_panels
from pomdpfit._entries import Entries, free_entries, project
from pomdpfit._errors import ModelError
from pomdpfit._log_likelihood import Part
from pomdpfit._panel_arrays import PanelArrays
from pomdpfit._restrictions import Restrictions
from pomdpfit._types import Array, Float
from pomdpfit.estimators._base import AbstractEstimator, Stage
from pomdpfit.estimators._kept_climb import KeptClimb
from pomdpfit.estimators._paths import Path
from pomdpfit.estimators._walk import Climb, Complete, Outer, Question, Slope, Walk, lost

_POOL = 4  # batches


@dataclasses.dataclass(eq=False)
class _Climber:
    """A climb under way: its place in the pool, and what it asks."""

    number: int
    place: int
    path: Path
    entries: Entries
    phi: np.ndarray
    walk: Walk
    weights: np.ndarray
    panel: PanelArrays | None
    question: Question = dataclasses.field(init=False)


def run_stage_together(
    batch: Batch,
    stage: Stage,
    paths: Sequence[Path],
    restrictions: Restrictions | None = None,
    weights: Sequence[Float[np.ndarray, "N"]] | None = None,
    panels: Sequence[PanelArrays] | None = None,
    tell: Callable[[int], None] = lambda done: None,
    kept: Sequence[KeptClimb] = (),
) -> list[Path]:
    """The paths after one more climb each; `tell(done)` hears how many have arrived.

    kept  the places of climbs in a checkpoint: those that are there go on, or are done already
    """
    if not paths:
        return []
    agents, scored = batch.likelihood.panel.agent_count, batch.likelihood.panel.scored_agents
    ended: dict[int, Path] = {}
    space = batch.likelihood.space
    # Without restrictions, which hold other leaves at their values, all move the same entries.
    common = None if restrictions else free_entries(space, stage.leaves, paths[0].theta)
    tell(0)

    def climbers() -> Iterator[_Climber]:
        for k, path in enumerate(paths):
            w = np.ones(agents) if weights is None else np.asarray(weights[k], dtype=float)
            entries = common or free_entries(space, stage.leaves, path.theta, restrictions)
            try:
                phi = project(entries, entries.flatten(path.theta))
            except ModelError:  # nothing obeys the restrictions there
                ended[k] = path.after(lost(entries.flatten(path.theta)), entries)
                continue
            place = kept[k] if kept else None
            found = None if place is None else place.found(path.theta, len(entries.names))
            if found is not None:
                ended[k] = path.after(found, entries)
                continue
            counted = min(int(np.count_nonzero(w)), scored)
            walk = stage.optimiser.walk(entries, phi, counted)
            if place is not None:
                walk = place.recorded(walk)
            panel = None if panels is None else panels[k]
            yield _Climber(k, -1, path, entries, phi, walk, w, panel)

    pool = _Pool(batch, stage.part, climbers())
    try:
        for climber, done in pool.run():
            if kept:
                kept[climber.number].finish(done)
            ended[climber.number] = climber.path.after(done, climber.entries)
            tell(len(ended))
    except BaseException:
        for place in kept:
            place.keep()
        raise
    return [ended[k] for k in range(len(paths))]


def run_together(
    batch: Batch,
    estimator: AbstractEstimator,
    paths: Sequence[Path],
    restrictions: Restrictions | None = None,
    weights: Sequence[Float[np.ndarray, "N"]] | None = None,
    panels: Sequence[PanelArrays] | None = None,
    tell: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> list[Path]:
    """All stages from every start, side by side."""
    stages, ended = estimator.stages(batch.likelihood), list(paths)
    for k, stage in enumerate(stages):
        alive = [j for j, path in enumerate(ended) if path.alive]
        pick = lambda given, alive=alive: None if given is None else [given[j] for j in alive]
        what, total = f"stage {k + 1} of {len(stages)}: {len(alive)} climbs", len(alive)
        say = lambda done, what=what, total=total: tell(what, done, total)
        moved = run_stage_together(
            batch,
            stage,
            [ended[j] for j in alive],
            restrictions,
            pick(weights),
            pick(panels),
            say,
        )
        for j, path in zip(alive, moved, strict=True):
            ended[j] = path
    return ended


class _Pool:
    """Climbs under way, the values that their solves start from, and the batches in flight."""

    def __init__(self, batch: Batch, part: Part, queue: Iterator[_Climber]) -> None:
        self.batch, self.part, self.queue = batch, part, queue
        self.size = _POOL * batch.width
        self.cold = batch.cold[None]  # of the one context
        self.starts = jnp.broadcast_to(batch.cold, (self.size, *batch.cold.shape))
        self.asking: list[_Climber] = []
        self.flying: collections.deque[tuple[list[_Climber], Future[Answers]]] = collections.deque()
        self.ended: list[tuple[_Climber, Climb]] = []

    def run(self) -> Iterator[tuple[_Climber, Climb]]:
        """Every climb as it ends."""
        for place in range(self.size):
            self._enter(place)
        # In a thread of its own: a call that has loops returns when they are at an end.
        with ThreadPoolExecutor(max_workers=1) as beside:
            while self.asking or self.flying:
                while (ready := self._ready()) is not None:
                    self.flying.append((ready, beside.submit(self._question(ready))))
                self._receive()
                yield from self.ended
                self.ended.clear()

    def _enter(self, place: int) -> None:
        """The next climb in line takes this place; one that ends at once leaves it to another."""
        for climber in self.queue:
            climber.place = place
            if Part.CHOICE in self.part:
                warm = self.cold if climber.path.warm is None else climber.path.warm
                self.starts = _put_one(self.starts, place, warm)
            if self._go_on(climber, None):
                return

    def _go_on(self, climber: _Climber, answer: object) -> bool:
        """The climb hears the answer; whether it goes on."""
        try:
            climber.question = climber.walk.send(answer)
            while isinstance(climber.question, Complete):  # nothing that a batch would know
                climber.question = climber.walk.send(None)
        except StopIteration as end:
            self._end(climber, end.value)
            return False
        self.asking.append(climber)
        return True

    def _end(self, climber: _Climber, climb: Climb) -> None:
        if Part.CHOICE in self.part and np.isfinite(climb.value):
            climb = dataclasses.replace(climb, start=_take_one(self.starts, climber.place))
        self.ended.append((climber, climb))

    def _ready(self) -> list[_Climber] | None:
        """Those to be answered next: a full batch, or what there is when nothing is in flight."""
        kinds = [
            [c for c in self.asking if isinstance(c.question, kind)] for kind in (Slope, Outer)
        ]
        most = max(kinds, key=len)[: self.batch.width]
        full = len(most) == self.batch.width and len(self.flying) < 2
        return most if full or (most and not self.flying) else None

    def _question(self, climbers: list[_Climber]) -> Callable[[], Answers]:
        """What they ask, to be answered as one batch."""
        chosen = set(map(id, climbers))
        self.asking = [c for c in self.asking if id(c) not in chosen]
        padded = self._padded(climbers)
        entries = climbers[0].entries  # restrictions may tell others apart: not leaves, not bounds
        phi = np.stack([c.question.phi for c in padded])
        places = np.array([c.place for c in padded])
        members = Members(
            {
                name: np.stack([c.path.theta[name] for c in padded])
                for name in padded[0].path.theta
                if name not in entries.leaves
            }
            | entries.split(np.clip(phi, entries.low, entries.high)),
            np.stack([c.weights for c in padded]),
            _take(self.starts, places),
            stacked_panels([c.panel for c in padded if c.panel is not None]),
        )
        charts = [c.question.jacobian.T for c in padded if isinstance(c.question, Outer)]
        if charts:
            directions = entries.split(np.stack(charts))
            return functools.partial(self.batch.outers, self.part, directions, members)
        return functools.partial(self.batch.slopes, self.part, entries.leaves, members)

    def _padded(self, climbers: list[_Climber]) -> list[_Climber]:
        """As many as a batch has members: the first stands for those that are missing."""
        return climbers + climbers[:1] * (self.batch.width - len(climbers))

    def _receive(self) -> None:
        """Wait for the oldest batch, and tell its climbs."""
        climbers, asked = self.flying.popleft()
        answers = asked.result()
        if Part.CHOICE in self.part:
            places = np.array([c.place for c in self._padded(climbers)])
            self.starts = _put(self.starts, places, answers.start, answers.sound)
        found, sound = jax.device_get((answers.answer, answers.sound))
        slopes = isinstance(climbers[0].question, Slope)
        if slopes:
            value, tree = found
            rows = [tree[name].reshape(len(value), -1) for name in climbers[0].entries.leaves]
            found = list(zip(value.tolist(), np.concatenate(rows, axis=1), strict=True))
        for k, climber in enumerate(climbers):
            answer = found[k] if sound[k] else None
            if answer is None and not slopes:  # no scores: this start leads nowhere
                self._end(climber, lost(climber.phi))
                self._enter(climber.place)
                continue
            if not self._go_on(climber, answer):
                self._enter(climber.place)


@jax.jit
def _take(starts: Array, places: Array) -> Array:
    return starts[places]


@jax.jit
def _take_one(starts: Array, place: int) -> Array:
    return starts[place][None]


@functools.partial(jax.jit, donate_argnums=0)
def _put_one(starts: Array, place: int, start: Array) -> Array:
    return starts.at[place].set(start[0])


@functools.partial(jax.jit, donate_argnums=0)
def _put(starts: Array, places: Array, new: Array, sound: Array) -> Array:
    """Values that were solved for become what the next solve starts from."""
    where = jnp.where(sound, places, len(starts))  # beyond the end: dropped
    return starts.at[where].set(new, mode="drop")
