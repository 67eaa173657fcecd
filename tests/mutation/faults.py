"""The faults that are planted: plausible mistakes of a colleague, each one change of the source of a package.

Whoever rewrites one of these lines moves the fault along: it has to stay the same mistake.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """In the file `path`, `new` stands instead of `old`, which is there once. `what` says what goes wrong then."""

    name: str
    path: str
    old: str
    new: str
    what: str
    family: str = ""


FAULTS = (
    # --- what is accepted, and when ---
    Fault(
        "late-result-committed",
        "supervisor/decide.py",
        """    if state.status != "dispatched" or attempt != state.attempt:""",
        """    if attempt != state.attempt:""",
        "the end of an attempt that has timed out is taken while the next one is prepared",
    ),
    Fault(
        "execution-counted-twice",
        "supervisor/decide.py",
        """    if known and booking(author, execution) in known.executions:
        return
""",
        "",
        "an end that is stored twice is booked twice",
    ),
    Fault(
        "keys-of-others",
        "supervisor/breaches.py",
        """    problem = _misnamed(keys_of(draft, task), end) or _unfit(""",
        """    problem = _unfit(""",
        "claims are taken under keys that the task does not name",
    ),
    Fault(
        "wake-of-an-earlier-timer",
        "supervisor/decide.py",
        """    if timer is None or timer.armed != armed:
        return
""",
        """    if timer is None:
        return
""",
        "a wake that was written twice ends the attempt after the one that it is about",
    ),
    Fault(
        "deadline-off-by-one",
        "supervisor/policy.py",
        """state.items - task.group * state.per_task)""",
        """state.items - (task.group + 1) * state.per_task)""",
        "the last task of a step that is shared out has the time of too few items",
    ),
    # --- budgets ---
    Fault(
        "no-reservation",
        "supervisor/attempts.py",
        """        reserve=reserve,
""",
        """        reserve=Limits(),
""",
        "what an attempt may use is not set aside when it is given out",
    ),
    Fault(
        "reservation-back-at-time-out",
        "projections/evolve_tasks.py",
        """    if not execution:
        opened =""",
        """    if False:
        opened =""",
        "what an attempt may be using is given back when it times out",
    ),
    Fault(
        "overrun-does-not-stop",
        "supervisor/budget.py",
        """    if state.overrun:
        return Verdict("never", reason=_overrun(state))
""",
        "",
        "after more was used than was reserved the run goes on",
    ),
    # --- breakers and loops ---
    Fault(
        "breaker-never-opens",
        "projections/evolve_tasks.py",
        """Breaker((known.failures if known else 0) + 1)""",
        """Breaker(1)""",
        "failures in a row are not added up",
    ),
    Fault(
        "breaker-never-resets",
        "projections/evolve_tasks.py",
        """    if known and not code:
        return {""",
        """    if known and known.open and not code:
        return {""",
        "a success between failures changes nothing",
    ),
    Fault(
        "loop-never-found",
        "supervisor/loops.py",
        """            "step": step.origin or step.id,""",
        """            "step": step.id,""",
        "each round counts as something else, so that none is a repetition",
    ),
    # --- people ---
    Fault(
        "approval-digest-not-compared",
        "supervisor/gates.py",
        """    if said.digest != gate.digest:
        return f"the digest is not that of what gate {said.gate!r} asks for"
""",
        "",
        "an approval of something else counts",
    ),
    Fault(
        "who-is-asked-not-looked-at",
        "supervisor/gates.py",
        """    if gate.who and person not in gate.who:""",
        """    if gate.who and not person:""",
        "anybody answers what one person is asked",
    ),
    Fault(
        "expiry-ignored",
        "supervisor/decide.py",
        """            questions.expired(draft, subject, timer.delay_ms)
""",
        """            pass
""",
        "a gate that nobody answers stays open for ever",
    ),
    # --- merging ---
    Fault(
        "quorum-counts-every-voice",
        "supervisor/merge.py",
        """    if most < policy.n:""",
        """    if len(claims) < policy.n:""",
        "voices for other values count towards the quorum",
    ),
    Fault(
        "set-order-in-merge",
        "supervisor/merge.py",
        """items[key] for key in sorted(items)]""",
        """items[key] for key in set(items)]""",
        "the order of a union depends on the process that decides",
    ),
    Fault(
        "loser-dropped",
        "supervisor/merge.py",
        """        for claim in sorted(claims, key=_name)
    )""",
        """        for claim in sorted(claims, key=_name)
        if claim.canonical != value
    )""",
        "claims that agree with the fact are forgotten",
    ),
    # --- deciding and committing ---
    Fault(
        "wall-clock-in-decide",
        "supervisor/draft.py",
        """        self._at = max(state.now, cause.time_ms)""",
        """        self._at = max(state.now, __import__("time").time_ns() // 1_000_000)""",
        "events have the time of the machine that decides",
    ),
    Fault(
        "catalogue-as-of-now",
        "supervisor/commit.py",
        """self._catalogue.below(cause.seq)""",
        """self._catalogue.below(2**63)""",
        "an input is decided with contracts that came after it",
    ),
    Fault(
        "no-expected-sequence",
        "supervisor/commit.py",
        """expected=before.seq, headers=headers)""",
        """headers=headers)""",
        "two supervisors append to one run, and none of them notices",
    ),
    Fault(
        "cursor-not-checked",
        "supervisor/answer.py",
        """    if cause.seq <= named.cursor:
        if cause.seq > named.opened:
            return []
""",
        """    if cause.seq <= named.cursor:
        if cause.seq > named.opened:
            return decide(named.state, cause, view, rules)
""",
        "what another supervisor has decided is decided again",
    ),
    Fault(
        "floor-is-the-position",
        "supervisor/service.py",
        """await self.committer.commit(inputs, self.floor)""",
        """await self.committer.commit(inputs, messages[-1].seq)""",
        "the floor says what was read, not what is stored: a takeover skips the rest",
    ),
    Fault(
        "effects-before-facts",
        "supervisor/commit.py",
        """            outcomes = await self._board.log.append(*appends)
""",
        """            from supervisor import effects

            view = self._catalogue.below(0)
            for decided in round_.values():
                after = decided[-1].after.state
                await self._board.queue.put(effects.entries(after, effects.in_flight(after), view.contract_at))
            outcomes = await self._board.log.append(*appends)
""",
        "tasks are in the queue before the log says that they are given out",
    ),
    Fault(
        "timers-lost-at-takeover",
        "supervisor/service.py",
        """            self._timers.see(folded.state, head_ms if folded.seq <= head else 0, self._grace_s)
""",
        "",
        "a supervisor that takes over does not know which timers run",
    ),
    Fault(
        "mending-without-the-head",
        "supervisor/service.py",
        """        if self._mending is None or self.position < self._mending.head:
            return
""",
        """        if self._mending is None:
            return
""",
        "a task whose end was not read yet is put into the queue again",
    ),
    Fault(
        "queue-not-refilled",
        "supervisor/service.py",
        """            absent = effects.in_flight(folded.state) & self._mending.absent
""",
        """            absent = effects.in_flight(folded.state) & self._mending.there
""",
        "what a queue has lost does not come again",
    ),
    # --- workers ---
    Fault(
        "ack-before-the-end-is-stored",
        "specialists/worker.py",
        """                stored = await self._store(job, ended) if ended else None
                if ended is None and (vain := job.execution.used_in_vain()):
                    await self._store(job, vain)  # tried once: nothing waits for it
                elif ended is None:
                    await self._store_unrecorded(job)
                await self._let_go(job, stored, said)
""",
        """                await self._let_go(job, ended, said)
                if ended := ended or job.execution.used_in_vain():
                    await self._store(job, ended)
                else:
                    await self._store_unrecorded(job)
""",
        "a worker that dies in between takes the task along",
    ),
    Fault(
        "other-bytes-when-repeated",
        "specialists/worker.py",
        """                self._outages.away("the log", error)
            except TooLarge as error:
""",
        """                self._outages.away("the log", error)
                ended = __import__("msgspec").structs.replace(ended, execution=self._draw_execution())
                appends = [*appends[:-1], self._append_of(job.key.specialist, job.key.run, ended)]
            except TooLarge as error:
""",
        "an end that is told again counts as that of another execution",
    ),
    Fault(
        "no-heartbeat",
        "specialists/worker.py",
        """                await delivery.extend()
""",
        """                pass
""",
        "a task that takes long is delivered to the next worker as well",
    ),
    # --- the log ---
    Fault(
        "subscription-skips",
        "blackboard/memory.py",
        """                if found:
                    await self._handler(found)
""",
        """                if found:
                    await self._handler(found)
                    self._position = len(self._store.slots)
""",
        "what is stored while messages are handled is not delivered",
    ),
)
