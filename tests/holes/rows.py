"""The table: each history, the rule that it has taught, the scenarios that play it, and how the rule is taken out.

A rule is named by its number in the design: 1 one order of inputs; 2 pure decisions, time and rules in the log; 3 what
a fact message holds; 4 compare and append; 5 positions; 6 timers; 7 effects by level; 8 tasks and their ends; 9 limits;
10 readers trust nothing.
"""

from tests.holes import authors, order, positions, queues, relatives, stored
from tests.holes.removal import Edit
from tests.holes.row import Hole, Removal, Row, Scenario


def hole(scenario: Scenario, *removals: Removal) -> Hole:
    return Hole(scenario, removals)


def without(what: str, seen: str, *edits: Edit) -> Removal:
    return Removal(what, seen, edits)


TIMER_AS_INPUT = Edit(
    "supervisor.service",
    """            await self._board.log.append(*appends)
""",
    """            for run, name, armed in due:
                address, due_now = subjects.parse(subjects.wake(run)), TimerDue(timer=name, armed=armed)
                cause = Input(self.position, "0" * 64, 0, subjects.wake(run), address, due_now)
                await self.committer.commit([cause], self.floor)
""",
)
BY_LEVEL = (
    Edit("supervisor.service", "            await self._relatives(folded)\n", ""),
    Edit(
        "supervisor.service",
        "before = {cause.address.run: self.runs.get(cause.address.run) for cause in inputs}",
        "before = {run: await self._known(run) for run in [cause.address.run for cause in inputs]}",
    ),
)
"""Effects of what this supervisor has just stored, and no others."""
DEADLINES = Edit(
    "supervisor.timers",
    "0 if taken_over_at_ms is None else max(0, taken_over_at_ms - timer.at)",
    'max(0, __import__("time").time_ns() // 1_000_000 - timer.at)',
)
LOG_TIME = Edit("supervisor.draft", "self._at = max(state.now, cause.time_ms)", "self._at = cause.time_ms")
IN_THE_PAYLOAD = "stored = [event for decided in chunk for event in decided.stored]"
NO_SINGLES = (
    Edit(
        "blackboard.jetstream_append",
        "stored = await self.waves.batch(appends) if together else None\n"
        "        return stored if stored is not None else await self.waves.singles(appends, since)",
        "if len(appends) < self._batch_from:\n"
        "            return await self.waves.singles(appends, since)\n"
        "        stored = await self.waves.batch(appends)\n"
        "        return stored or [Conflict(one.subject, one.expected or 0) for one in appends]",
    ),
    Edit(
        "blackboard.memory",
        "outcomes = [self._store.add(item) for item in appends]",
        "last = [(self._store.sequences(item.subject) or [0])[-1] for item in appends]\n"
        "        missed = any(item.expected not in (None, seq) for item, seq in zip(appends, last))\n"
        "        refused = missed or len(appends) > 1000\n"
        "        outcomes = [Conflict(item.subject, item.expected or 0) if refused else self._store.add(item)\n"
        "                    for item in appends]",
    ),
)
"""On the memory log: what an atomic batch would do."""

ROWS = (
    Row(
        "a timer fires as an event while an answer with a smaller sequence is not read; an approval counts before it "
        "was asked for",
        "1, 6: a due timer is an input",
        (
            hole(
                order.answer_that_nobody_has_read_when_the_timer_is_due,
                without("timers as inputs", "the answer came first and is called late", TIMER_AS_INPUT),
            ),
            hole(
                order.approval_before_anybody_was_asked,
                without("timers as inputs", "an approval counts that came before the question", TIMER_AS_INPUT),
            ),
        ),
    ),
    Row(
        "two goals in one batch, the first one's fact is stored, crash: who takes over starts above the second",
        "5: the floor, what is decided and stored, and not what was read",
        (
            hole(
                positions.goals_of_one_batch_and_a_crash_after_the_first,
                without(
                    "the floor",
                    r"of three goals \['r1'\] are answered",
                    Edit(
                        "supervisor.service",
                        "await self.committer.commit(inputs, self.floor)",
                        "await self.committer.commit(inputs, messages[-1].seq)",
                    ),
                ),
            ),
        ),
    ),
    Row(
        "a child is asked for, crash before its goal; a child is done, crash before its parent is told: both hang",
        "7: effects follow from state, by level, again and again",
        (
            hole(
                relatives.child_that_was_asked_for_and_a_crash_before_its_goal,
                without("deriving effects again", "the child's goal is never published", *BY_LEVEL),
            ),
            hole(
                relatives.child_that_is_done_and_a_crash_before_its_parent_is_told,
                without("deriving effects again", "nobody tells the parent", *BY_LEVEL),
            ),
        ),
    ),
    Row(
        "a run brought over from another log has the cursor 1,002 in a log of four messages: what follows is skipped",
        "10: facts name their log, are chained to it, and are caused by what lies before them; bringing one over is a "
        "new run",
        (
            hole(
                positions.history_of_another_log,
                without(
                    "the log id",
                    "the answer at 4 is passed over",
                    Edit(
                        "projections.history",
                        "if (message.log, message.run) != (state.log, state.run):",
                        "if message.run != state.run:",
                    ),
                    Edit("schemas.codec", "if (message.log, message.run) != (log, run):", "if message.run != run:"),
                    Edit("projections.history", " or event.cause.seq >= seq:", ":"),
                    Edit("schemas.codec", 'return sha256(f"{log}\\n{run}".encode())', "return sha256(run.encode())"),
                ),
            ),
        ),
    ),
    Row(
        "a restore or a loss of power uses sequences again: the old position skips a goal",
        "5: the log id and the message at the position are compared",
        (
            hole(
                positions.log_restored_and_written_over,
                without(
                    "comparing the message at the position",
                    "sequences were used again",
                    Edit(
                        "supervisor.service",
                        "if self._read_seq and (message is None or sha256(message.data) != self._read_sha256):",
                        "if self._read_seq and message is None:",
                    ),
                ),
            ),
            hole(
                positions.log_restored_and_shorter_than_what_was_read,
                without(
                    "looking for a message at the position",
                    "the new goal lies below the old position",
                    Edit(
                        "supervisor.service",
                        "if self._read_seq and (message is None or sha256(message.data) != self._read_sha256):",
                        "if message and sha256(message.data) != self._read_sha256:",
                    ),
                ),
            ),
            hole(
                positions.log_made_anew_with_the_same_beginning,
                without(
                    "comparing the log id",
                    "what is decided names a log that is gone",
                    Edit("supervisor.service", "if await self._board.log.current_id() != self._log_id:", "if False:"),
                ),
            ),
        ),
    ),
    Row(
        "the events of one input are split over two messages, crash between: tasks that never exist, facts lost",
        "3, 9: never split; too many are a typed outcome of the decision",
        (
            hole(
                stored.events_of_one_input_and_a_crash_after_the_first_message,
                without(
                    "one message for one input",
                    "of three tasks 0 are there",
                    Edit(
                        "supervisor.commit",
                        "yield _decided(folded, cause, events)",
                        "for event in events:\n"
                        "                yield (one := _decided(folded, cause, [event]))\n"
                        "                folded = one.after",
                    ),
                    Edit("supervisor.commit", "if chunk and size + more > MESSAGE_LIMIT:", "if chunk:"),
                ),
            ),
            hole(
                stored.end_that_brings_about_more_than_a_message_holds,
                without(
                    "the limit of one input",
                    "the supervisor ended: .* bytes|more was stored for one input than is allowed",
                    Edit("supervisor.decide", "if size > INPUT_EVENTS_LIMIT:", "if False:"),
                ),
            ),
        ),
    ),
    Row(
        "versions count messages: batches of 1, 2 and 7 give other versions",
        "3: versions and chain count events",
        (
            hole(
                stored.same_inputs_in_batches_of_one_and_two_and_seven,
                without(
                    "versions by event",
                    r"versions depend on the size of batches: \{1: 5, 2: 3, 7: 1\}",
                    Edit(
                        "supervisor.commit",
                        "self._runs.put(replace(chunk[-1].after, seq=outcome.seq))",
                        "after, was = chunk[-1].after, self._runs.get(run)\n"
                        "                    version = was.state.version + 1 if was else 1\n"
                        "                    state = replace(after.state, version=version)\n"
                        "                    self._runs.put(replace(after, seq=outcome.seq, state=state))",
                    ),
                    Edit(
                        "projections.history",
                        "return Folded(released(state) if shared else state, ",
                        "return Folded(replace(released(state) if shared else state, version=message.first), ",
                    ),
                ),
            ),
        ),
    ),
    Row(
        "a batch is read, the race is lost, and an input is decided again with the catalogue of the batch's end",
        "2: the catalogue is that below the input, by sequence",
        (
            hole(
                order.contract_that_came_after_the_input_when_the_race_is_lost,
                without(
                    "the catalogue by sequence",
                    "u gets a task that was given out before its contract came",
                    Edit("supervisor.commit", "self._catalogue.below(cause.seq)", "self._catalogue.below(2**63)"),
                ),
            ),
        ),
    ),
    Row(
        "a worker stores its end and acknowledges; who has not read it enqueues the finished task again",
        "7: look at the queue, note the head, handle all up to it, and only then enqueue",
        (
            hole(
                queues.end_that_is_acknowledged_and_not_yet_read,
                without(
                    "handling all up to the head",
                    "a task that is done is enqueued again",
                    Edit(
                        "supervisor.service",
                        "if self._mending is None or self.position < self._mending.head:",
                        "if self._mending is None:",
                    ),
                ),
            ),
            hole(
                queues.end_that_comes_while_the_queue_is_looked_at,
                without(
                    "looking at the queue first",
                    "a task that is done is enqueued again",
                    Edit(
                        "supervisor.service",
                        "there = await self._board.queue.keys()\n"
                        "        return effects.Look(wanted - there, there, await self._board.log.head())",
                        "head = await self._board.log.head()\n"
                        "        there = await self._board.queue.keys()\n"
                        "        return effects.Look(wanted - there, there, head)",
                    ),
                ),
            ),
        ),
    ),
    Row(
        "half of the queue is lost: it holds a task, so it is not empty",
        "7: the queue is filled by state, not when it is empty",
        (
            hole(
                queues.half_of_the_queue_is_lost,
                without(
                    "filling it by state",
                    "the queue is not empty, so it is not filled",
                    Edit(
                        "supervisor.service",
                        "return effects.Look(wanted - there, there,",
                        "return effects.Look(set() if there else wanted, there,",
                    ),
                ),
            ),
        ),
    ),
    Row(
        "down for an hour: tasks are past their deadline when they are given out; a thousand tasks for eight slots "
        "time out waiting and are retried beside their old copies",
        "6: delays; wait apart from work; 7: ended attempts leave the queue",
        (
            hole(
                order.goal_that_is_an_hour_old_when_the_supervisor_comes,
                without("delays", "the task was past its time when it was given out", DEADLINES),
            ),
            hole(
                order.more_tasks_than_hands,
                without(
                    "wait apart from work",
                    "tasks that waited in vain have used up their attempts: FAILED",
                    Edit(
                        "supervisor.decide",
                        "if task.started or task.child:\n        failed",
                        "if True:\n        failed",
                    ),
                ),
            ),
            hole(
                order.task_that_is_begun_at_the_end_of_its_wait,
                without(
                    "arming the timer again",
                    "the time that the task has waited was taken from its work",
                    Edit(
                        "projections.evolve_tasks",
                        "timer = Timer(task.work_ms, event.at, state.version + 1)",
                        'timer = state.timers[f"task.{event.task}"]',
                    ),
                ),
            ),
            hole(
                queues.attempt_that_waited_too_long,
                without(
                    "taking ended attempts out",
                    r"the old attempt is done beside the new one: \[1, 2\]",
                    Edit("supervisor.service", "        await self._take_out(given_up)\n", ""),
                    Edit(
                        "supervisor.service",
                        "        await self._take_out([key for key in sorted(self._mending.there) "
                        "if await self._is_over(key)])\n",
                        "",
                    ),
                ),
            ),
        ),
    ),
    Row(
        "the acknowledgement of an observation is lost, a task is delivered again: tokens count twice, a quorum of two "
        "is one voice",
        "8: an execution counts once; a quorum counts tasks",
        (
            hole(
                authors.end_that_is_stored_twice,
                without(
                    "execution ids",
                    "seven tokens were used, and 14 are counted",
                    Edit(
                        "supervisor.decide",
                        "if known and booking(author, execution) in known.executions:",
                        "if False:",
                    ),
                ),
            ),
            hole(
                authors.voice_that_is_heard_twice,
                without(
                    "counting tasks",
                    "one voice that is heard twice is a quorum of two",
                    Edit(
                        "supervisor.decide",
                        'if state.status != "dispatched" or attempt != state.attempt:',
                        "if attempt != state.attempt:",
                    ),
                    Edit("projections.evolve_tasks", "claims=event.claims,", "claims=before.claims + event.claims,"),
                    Edit(
                        "supervisor.merge",
                        "tasks.setdefault(claim.canonical, set()).add(claim.task)",
                        "tasks.setdefault(claim.canonical, []).append(claim.task)",
                    ),
                ),
            ),
        ),
    ),
    Row(
        "what was reserved for an attempt is given away when it times out, and then its end says what it has used",
        "9: it is reserved in full until that end comes, however late",
        (
            hole(
                authors.attempts_that_time_out_and_then_say_what_they_used,
                without(
                    "what is reserved until the end",
                    "15 tokens are used of a budget of 10",
                    Edit(
                        "projections.evolve_tasks",
                        "return (released(task, opened) if opened and opened.limits == Limits() else task), {}",
                        "after, changes = settled(state, task, attempt, task.specialist, usage)\n"
                        "        return after or task, changes",
                    ),
                ),
            ),
        ),
    ),
    Row(
        "any client approves as anybody; run ids are used up by a stranger",
        "1: the author stands in the subject; the first valid goal is the run's",
        (
            hole(
                authors.stranger_who_approves,
                without(
                    "looking at the author of an answer",
                    "eve has approved what ann was asked",
                    Edit("supervisor.gates", "if gate.who and person not in gate.who:", "if False:"),
                ),
            ),
            hole(
                authors.stranger_whose_goal_is_not_valid,
                without(
                    "asking for a valid goal",
                    "a stranger has used the run up",
                    Edit(
                        "supervisor.decide",
                        "if not goal.parent:\n            return Rejected(problem)",
                        "if False:\n            pass",
                    ),
                ),
            ),
            hole(
                relatives.stranger_who_was_first_with_the_name_of_a_child,
                without(
                    "knowing whose child it is",
                    "the parent waits for a run that is not its own",
                    Edit(
                        "supervisor.effects",
                        "if child.parent and (child.parent.run, child.parent.task) == (parent.run, goal.task):",
                        "if True:",
                    ),
                ),
            ),
            hole(
                relatives.stranger_who_asks_in_the_name_of_a_parent,
                without(
                    "looking at the author of a child's goal",
                    "a stranger's goal counts as that of the parent",
                    Edit("supervisor.decide", "if goal.parent and cause.address.author != SUPERVISOR:", "if False:"),
                ),
            ),
        ),
    ),
    Row(
        "an observation before its goal, or of a run that is none, writes version 1 of that run",
        "1: what belongs to no run is recorded in `_board`",
        (
            hole(
                authors.observation_before_its_goal_and_one_of_a_run_that_is_none,
                without(
                    "`_board`",
                    "a run is written that nobody has asked for",
                    Edit(
                        "supervisor.decide",
                        'return Rejected("no goal came before it")',
                        "draft = Draft(state, cause, view)\n"
                        '        draft.late(cause.address.author, "no goal came before it")\n'
                        "        return draft.events",
                    ),
                ),
            ),
        ),
    ),
    Row(
        "counting floods makes `no event, no change` untrue",
        "9: of an author the first hundred are recorded, then that it is muted, then nothing",
        (
            hole(
                authors.flood_of_ends_that_nobody_awaits,
                without(
                    "muting",
                    "a stranger makes the run grow: 250 of 250 are recorded",
                    Edit("supervisor.draft", "return count < LATE_LIMIT", "return True"),
                ),
            ),
        ),
    ),
    Row(
        "claims on the keys of others, ends of the tasks of others",
        "8: an end counts from the dispatched specialist, about the keys that the task names",
        (
            hole(
                authors.claim_on_the_key_of_another_task,
                without(
                    "comparing the keys",
                    "an end counts that speaks of what its task is not about",
                    Edit("supervisor.breaches", "if sorted(named) == sorted(keys):", "if True:"),
                ),
            ),
            hole(
                authors.end_of_a_task_that_another_has,
                without(
                    "comparing the specialist",
                    "who never had the task has ended it",
                    Edit("supervisor.decide", "if author != state.specialist:", "if False:"),
                ),
            ),
        ),
    ),
    Row(
        "the clock is set back: negative durations, waits that grow",
        "2: time is the larger of the run's and the input's; 6: delays on a monotonic clock",
        (
            hole(
                order.clock_of_the_log_set_back_in_mid_run,
                without("the time of the run", "the time of the run went back", LOG_TIME),
            ),
            hole(
                order.clock_of_the_log_set_back_before_a_takeover,
                without(
                    "a rest of at most the delay",
                    "the wait has grown by as much as the clock went back",
                    Edit("supervisor.timers", "max(0, taken_over_at_ms - timer.at)", "taken_over_at_ms - timer.at"),
                ),
            ),
        ),
    ),
    Row(
        "two versions of the code decide one run: deciding it again gives neither",
        "2: the change of rules is an event, and the older one steps back",
        (
            hole(
                stored.older_supervisor_beside_a_newer_one,
                without(
                    "stepping back",
                    "the older rules go on with a run that newer ones have begun",
                    Edit("supervisor.decide", "if state.rules > rules:", "if False:"),
                ),
            ),
            hole(
                stored.newer_supervisor_that_goes_on_with_a_run_of_an_older_one,
                without(
                    "the change as an event",
                    "two versions of the rules decide one run",
                    Edit(
                        "supervisor.decide",
                        "if state.rules < rules:\n        draft.emit",
                        "if False:\n        draft.emit",
                    ),
                ),
            ),
        ),
    ),
    Row(
        "trace context, writer or moment in the payload: equal decisions, other bytes",
        "3: they are headers",
        (
            hole(
                stored.two_supervisors_that_decide_one_input,
                without(
                    "the writer among the headers",
                    "would store other bytes",
                    Edit(
                        "supervisor.commit",
                        IN_THE_PAYLOAD,
                        IN_THE_PAYLOAD.replace("[event", '[event[:-1] + f\',"writer":"{self._writer}"}}\'.encode()'),
                    ),
                ),
                without(
                    "the trace among the headers",
                    "would store other bytes",
                    Edit(
                        "supervisor.commit",
                        IN_THE_PAYLOAD,
                        IN_THE_PAYLOAD.replace(
                            "[event", '[event[:-1] + f\',"trace":"{__import__("secrets").token_hex(8)}"}}\'.encode()'
                        ),
                    ),
                ),
                without(
                    "the time of the input",
                    "would store other bytes",
                    LOG_TIME._replace(new='self._at = __import__("time").time_ns() // 1_000'),
                ),
            ),
        ),
    ),
    Row(
        "in an atomic batch a second message for one subject with an expectation is refused, one miss refuses all, and "
        "so do over a thousand",
        "4: a refused batch goes again as singles; several batches",
        (
            hole(
                stored.one_miss_among_many,
                without(
                    "going again as singles", "one message misses its expectation, and 48 are refused", *NO_SINGLES
                ),
            ),
            hole(
                stored.two_messages_for_one_subject_at_the_same_time,
                without(
                    "a batch of its own for the second",
                    "one of two must be refused, and others are",
                    *NO_SINGLES,
                    Edit(
                        "blackboard.jetstream_append",
                        "if item.expected is not None and item.subject in subjects:",
                        "if False:",
                    ),
                ),
            ),
            hole(
                stored.more_runs_than_a_batch_holds,
                without(
                    "several batches",
                    "1050 of 1050 runs are refused for being too many",
                    *NO_SINGLES,
                    Edit("blackboard.jetstream_append", "len(wave) < WAVE_LIMIT and ", ""),
                ),
            ),
        ),
    ),
    Row(
        "a snapshot is taken at the position that was read; a snapshot is newer than a log that was cut",
        "5: no snapshot is needed, and there is none to take out: who takes over has the floor and the log alone. "
        "Taken out is the floor, for the position",
        (
            hole(
                positions.run_that_was_left_to_newer_rules_while_others_went_on,
                without(
                    "the floor below runs that are left alone",
                    "an answer that nobody has decided is passed over",
                    Edit(
                        "supervisor.service",
                        "return max(0, min([self.position, *(seq - 1 for seq in self.committer.left.values())]))",
                        "return self.position",
                    ),
                ),
            ),
            hole(
                positions.log_cut_below_what_was_read,
                without(
                    "the floor of the log that is there",
                    r"of two goals \[\] are answered",
                    Edit(
                        "supervisor.service",
                        "await self._set_position(floor)",
                        "await self._set_position(head)",
                    ),
                ),
            ),
        ),
    ),
    Row(
        "a parent is cancelled, and a paused supervisor publishes the goal of its child afterwards",
        "7: cancel is by level: who handles a child of an ended parent writes the wake",
        (
            hole(
                relatives.parent_that_is_cancelled_before_a_paused_supervisor_asks_for_its_child,
                without(
                    "looking at the parent",
                    "the child of a cancelled parent goes on",
                    Edit(
                        "supervisor.service",
                        "if parent and (wake := effects.wake_for_child(parent.state, state)):",
                        "if parent and (wake := None):",
                    ),
                ),
            ),
        ),
    ),
    Row(
        "deliveries are limited by the queue: the subject stays blocked",
        "7: the queue has no such limit, executions have one",
        (
            hole(
                queues.task_that_kills_its_worker,
                without(
                    "delivering for ever",
                    "after 3 deliveries the task lies in the queue, and nobody gets it",
                    Edit("blackboard.jetstream_queue", '"max_deliver": -1', '"max_deliver": 3'),
                    Edit(
                        "blackboard.memory_queue",
                        "if one.ready_at <= now]",
                        "if one.ready_at <= now and one.count < 3]",
                    ),
                ),
                without(
                    "the limit of executions",
                    "it is executed once more: DONE",
                    Edit("specialists.worker", "if job.count > EXECUTIONS_LIMIT:", "if False:"),
                ),
            ),
        ),
    ),
)
