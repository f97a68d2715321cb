"""The closed loop once more, slow and obvious: one object per request and per block, lists and dictionaries.

Written from the semantics of the engine, not from the kernels; the tests hold the two against each other. A batch is
a list of (request, new tokens); the features of a step are computed from that list anew.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from evaluators.experiment import Experiment
from evaluators.load import Load
from evaluators.reference_features import Work, features_of_batch
from evaluators.reference_pool import Block, Pool, Tokens, prompt_text

StepTime = Callable[[Mapping[str, float]], float]


class Status(Enum):
    """Where a request is, or how it ended."""

    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"
    TIMED_OUT = "timed out"
    TOO_LARGE = "too large"


@dataclass(frozen=True, slots=True)
class ReferenceCosts:
    """What a program says beside the step time, and the client's cost per request [us]."""

    queueing_us: tuple[int, ...]
    """(prompts,) delay from arrival to queue."""
    output_token_us: float
    scheduling_us: float
    preemption_us: float
    completion_us: int


@dataclass(eq=False, slots=True)
class Request:
    """One request; ``computed`` tokens of its context are in ``blocks``."""

    arrival_us: int
    enqueue_us: int
    prompt: Tokens
    output_tokens: int
    generated: int = 0
    computed: int = 0
    decoding: bool = False
    blocks: list[Block] = field(default_factory=list)
    private: bool = False
    """Whether a block of its prompt could not be published; no later one is then."""
    status: Status = Status.WAITING
    finished_in_step: int | None = None
    first_us: int = -1
    last_us: int = -1

    @property
    def context(self) -> int:
        """Return the tokens known so far, the last of which may not be computed yet."""
        return len(self.prompt) + self.generated


@dataclass(frozen=True, slots=True)
class Step:
    """What one step did."""

    start_us: int
    duration_us: int
    prefill_tokens: int
    decode_reqs: int
    preemptions: int
    features: Mapping[str, float]
    chunked: bool
    """Whether a prefill was cut because the token budget was spent."""
    full: bool
    """Whether a request waited for a seat."""


@dataclass(frozen=True, slots=True)
class ReferenceStage:
    """One stage: its steps, and its requests in order of arrival."""

    steps: tuple[Step, ...]
    requests: tuple[Request, ...]
    admissions: int
    preemptions: int
    evictions: int
    free_blocks: int


class Server:
    """The engine: running list, waiting queue, block pool, and the clock of one stage."""

    def __init__(self, experiment: Experiment, pool: Pool, costs: ReferenceCosts, step_time: StepTime) -> None:
        self.experiment, self.engine, self.pool = experiment, experiment.engine, pool
        self.costs, self.step_time = costs, step_time
        self.timeout_us = round(experiment.workload.timeout_s * 1e6)
        self.running: list[Request] = []
        self.waiting: deque[Request] = deque()
        self.steps: list[Step] = []
        self.admissions = self.preemptions = 0
        self.preempted_now = self.admitted_now = 0
        self.chunked_now = self.full_now = False

    def run(self, requests: list[Request]) -> None:
        """Serve requests, given in order of enqueueing, to the end of the last."""
        future = deque(requests)
        now_us = free_us = 0
        while True:
            while future and future[0].enqueue_us <= now_us:
                self.waiting.append(future.popleft())
            in_flight = self.engine.asynchronous and now_us < free_us
            self._clear(now_us, len(self.steps) - 1 if in_flight else len(self.steps))
            batch = self._form(now_us)
            if batch:
                start_us = max(now_us, free_us)
                free_us = start_us + self._execute(batch, start_us)
                now_us = start_us if self.engine.asynchronous else free_us
            elif now_us < free_us:
                now_us = free_us
            elif self.preempted_now:
                continue
            elif future:
                now_us = future[0].enqueue_us
            else:
                return

    def _clear(self, now_us: int, seen_step: int) -> None:
        """Let go of requests whose end the engine has seen, and of those whose client has given up."""
        for request in list(self.running):
            if request.finished_in_step is not None:
                gone = request.finished_in_step <= seen_step
            else:
                gone = self._late(request, now_us)
                if gone:
                    request.status = Status.TIMED_OUT
            if gone:
                self.running.remove(request)
                self._free(request)

    def _late(self, request: Request, now_us: int) -> bool:
        return request.arrival_us + self.timeout_us <= now_us

    def _free(self, request: Request) -> None:
        for block in reversed(request.blocks):
            self.pool.release(block)
        request.blocks = []

    def _form(self, now_us: int) -> list[tuple[Request, int]]:
        """Return what the coming step computes."""
        self.preempted_now = self.admitted_now = 0
        self.chunked_now = self.full_now = False
        batch = self._decodes()
        batch += self._prefill_under_way(self.engine.max_num_batched_tokens - len(batch))
        if not self.preempted_now:
            budget = self.engine.max_num_batched_tokens - sum(tokens for _, tokens in batch)
            batch += self._newcomers(now_us, budget)
        return batch

    def _decodes(self) -> list[tuple[Request, int]]:
        batch: list[tuple[Request, int]] = []
        for request in list(self.running):
            if not request.decoding or request.finished_in_step is not None or request not in self.running:
                continue
            while self._new_blocks(request, 1) > len(self.pool.free):
                victim = [r for r in self.running if r.finished_in_step is None][-1]
                self._preempt(victim)
                if victim is request:
                    return batch
            self._grow(request, 1)
            batch.append((request, 1))
        return batch

    def _prefill_under_way(self, budget: int) -> list[tuple[Request, int]]:
        for request in self.running:
            if request.decoding or request.finished_in_step is not None:
                continue
            chunk = self._chunk(request, budget)
            if self._new_blocks(request, chunk) > len(self.pool.free):
                self._preempt(request)
                return []
            self._grow(request, chunk)
            return [(request, chunk)]
        return []

    def _chunk(self, request: Request, budget: int) -> int:
        left = request.context - request.computed
        if left > budget:
            self.chunked_now = True
        return min(left, budget)

    def _newcomers(self, now_us: int, budget: int) -> list[tuple[Request, int]]:
        batch: list[tuple[Request, int]] = []
        while self.waiting and budget > 0:
            request = self.waiting[0]
            if len(self.running) >= self.engine.max_num_seqs:
                self.full_now = True
                break
            if self._late(request, now_us):
                request.status = Status.TIMED_OUT
            elif request.context > self.pool.size * self.engine.block_size:
                request.status = Status.TOO_LARGE
            else:
                chunk = self._admit(request, budget)
                if chunk is None:
                    break
                batch.append((request, chunk))
                budget -= chunk
            self.waiting.popleft()
        return batch

    def _admit(self, request: Request, budget: int) -> int | None:
        """Start a request with the cached blocks of its prompt and a chunk of the rest, if there are blocks for it."""
        hit = self._hit(request)
        request.computed = len(hit) * self.engine.block_size
        chunk = min(request.context - request.computed, budget)
        request.blocks = hit
        needed = self._new_blocks(request, chunk) + sum(block in self.pool.free for block in hit)
        if needed > len(self.pool.free):
            request.blocks, request.computed = [], 0
            return None
        self._chunk(request, budget)
        for block in hit:
            self.pool.hold(block)
        request.private = not self.engine.prefix_caching
        request.status = Status.RUNNING
        self._grow(request, chunk)
        self.running.append(request)
        self.admissions += 1
        self.admitted_now += 1
        return chunk

    def _hit(self, request: Request) -> list[Block]:
        """Return the leading cached blocks of the prompt; at least one token is always computed."""
        size = self.engine.block_size
        hit: list[Block] = []
        while self.engine.prefix_caching and len(hit) < (request.context - 1) // size:
            end = (len(hit) + 1) * size
            block = self.pool.cached.get(request.prompt[:end]) if end <= len(request.prompt) else None
            if block is None:
                break
            hit.append(block)
        return hit

    def _new_blocks(self, request: Request, tokens: int) -> int:
        return -(-(request.computed + tokens) // self.engine.block_size) - len(request.blocks)

    def _grow(self, request: Request, tokens: int) -> None:
        """Take the blocks that the next tokens need and publish the prompt's full ones."""
        for _ in range(self._new_blocks(request, tokens)):
            request.blocks.append(self.pool.take())
        for place, block in enumerate(request.blocks):
            end = (place + 1) * self.engine.block_size
            if request.private or end > min(request.computed + tokens, len(request.prompt)):
                return
            if block.key is None and request.prompt[:end] in self.pool.cached:
                request.private = True
            elif block.key is None:
                block.key = request.prompt[:end]
                self.pool.cached[block.key] = block

    def _preempt(self, request: Request) -> None:
        self.running.remove(request)
        self._free(request)
        request.computed, request.decoding, request.status = 0, False, Status.WAITING
        self.waiting.appendleft(request)
        self.preemptions += 1
        self.preempted_now += 1

    def _execute(self, batch: list[tuple[Request, int]], start_us: int) -> int:
        """Run a batch: return its duration, hand out its tokens."""
        works = [Work(tokens, request.computed, not request.decoding) for request, tokens in batch]
        features = features_of_batch(self.experiment, works)
        overhead = self.admitted_now * self.costs.scheduling_us + self.preempted_now * self.costs.preemption_us
        duration_us = max(1, int(self.step_time(features))) + int(overhead)
        prefill_tokens = sum(work.tokens for work in works if work.prefill)
        decodes = sum(not work.prefill for work in works)
        self.steps.append(
            Step(
                start_us, duration_us, prefill_tokens, decodes, self.preempted_now, features,
                self.chunked_now, self.full_now,
            )
        )  # fmt: skip
        self._hand_out(batch, start_us + duration_us)
        return duration_us

    def _hand_out(self, batch: list[tuple[Request, int]], end_us: int) -> None:
        outputs = 0
        for request, tokens in batch:
            request.computed += tokens
            if request.computed < request.context:
                continue
            outputs += 1
            request.decoding = True
            request.generated += 1
            at_us = end_us + int(outputs * self.costs.output_token_us)
            if request.first_us < 0:
                request.first_us = at_us
            if request.generated == request.output_tokens:
                request.last_us = at_us + self.costs.completion_us
                late = request.last_us - request.arrival_us > self.timeout_us
                request.status = Status.TIMED_OUT if late else Status.FINISHED
                request.finished_in_step = len(self.steps)


def run_reference(
    experiment: Experiment, load: Load, costs: ReferenceCosts, step_time: StepTime
) -> Iterator[ReferenceStage]:
    """Simulate one stage after the other; the prefix cache outlives a stage."""
    pool = Pool(experiment.engine.kv_blocks)
    workload, room = experiment.workload, experiment.engine.max_model_len
    texts = [prompt_text(load, prompt, workload.shared_prefix_tokens) for prompt in range(workload.prompts)]
    for stage in load.stages:
        requests = [
            Request(
                arrival_us=int(arrival_us),
                enqueue_us=int(arrival_us) + costs.queueing_us[prompt],
                prompt=texts[prompt],
                output_tokens=max(1, min(workload.output_tokens, room - len(texts[prompt]))),
            )
            for arrival_us, prompt in zip(stage.arrival_us, stage.prompt, strict=True)
        ]
        server, evicted = Server(experiment, pool, costs, step_time), pool.evictions
        server.run(sorted(requests, key=lambda request: request.enqueue_us))
        yield ReferenceStage(
            tuple(server.steps), tuple(requests), server.admissions, server.preemptions,
            pool.evictions - evicted, len(pool.free),
        )  # fmt: skip
