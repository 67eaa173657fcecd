"""What the examples are asked, and how each of it ends."""

from typing import Any, NamedTuple


class Case(NamedTuple):
    """A goal for the team of `file`. `teams` are the files whose teams it needs too, `guests` specialists of the file
    that are attached beside its team. `reason` is a part of the run's."""

    file: str
    input: dict[str, Any]
    end: str
    result: dict[str, Any] | None = None
    reason: str = ""
    code: str = ""
    teams: tuple[str, ...] = ()
    guests: tuple[str, ...] = ()


BRIDGE = "The council wants to put off the opening of the bridge."
LONG = "Rindfleischetikettierungsueberwachungsaufgabenuebertragungsgesetz"
LEDGER = {"0": {"account": "travel", "amount": 31}, "1": {"account": "guests", "amount": 480}}

CASES: dict[str, Case] = {
    "dependent steps": Case(
        "dependent_steps",
        {"order": "3 lamps, 2 chairs"},
        "DONE",
        {"offer": "3 x lamp, 2 x chair for 387.00, delivered within 14 days"},
    ),
    "dependent steps, the second fails": Case(
        "dependent_steps", {"order": "1 piano"}, "FAILED", None, "there is no price for piano", "LOW_CONFIDENCE"
    ),
    "fan-out": Case(
        "fan_out",
        {"answers": ["I love it, great", "slow and bad", "fine"]},
        "DONE",
        {"summary": {"read": 3, "mean": 1 / 3, "worst": "slow and bad"}, "unread": []},
    ),
    "fan-out, one is missing": Case(
        "fan_out",
        {"answers": ["great", "   ", "bad"]},
        "DEGRADED",
        {"summary": {"read": 2, "mean": 0, "worst": "bad"}, "unread": ["mood.1"]},
        "without mood.1 (LOW_CONFIDENCE)",
    ),
    "critique, round 1": Case(
        "propose_and_critique", {"text": "The bridge opens. Come all."}, "DONE", {"headline": "The bridge opens"}
    ),
    "critique, round 3": Case(
        "propose_and_critique",
        {"text": BRIDGE, "words": ["May"]},
        "DONE",
        {"headline": "to put off the opening of the bridge May"},
    ),
    "critique, never": Case(
        "propose_and_critique",
        {"text": BRIDGE, "words": ["parliamentary", "investigation", "commission"]},
        "FAILED",
        None,
        "none of 3 proposals was accepted",
        "LOW_CONFIDENCE",
    ),
    "router": Case(
        "hand_offs",
        {"letter": "I lost my invoice"},
        "DONE",
        {"answer": "You will find the invoice attached once more.", "desk": "billing-desk"},
    ),
    "router, handed on": Case(
        "hand_offs",
        {"letter": "The invoice is right, but where is my parcel?"},
        "DONE",
        {"answer": "Your parcel is on its way.", "desk": "delivery-desk"},
    ),
    "router, not allowed": Case(
        "hand_offs",
        {"letter": "My parcel! You will hear of my lawyer."},
        "POLICY_BLOCKED",
        None,
        "step 'answer' does not let a task be handed to 'legal'",
        "POLICY_BLOCKED",
    ),
    "router, to and fro": Case(
        "hand_offs",
        {"letter": "wrong invoice, wrong parcel"},
        "FAILED",
        None,
        "answer: billing-desk handed it to delivery, 2 times with the same input",
        "LOOP",
    ),
    "router, nowhere": Case(
        "hand_offs", {"letter": "Hello"}, "FAILED", None, "about nothing that there is a desk for", "LOW_CONFIDENCE"
    ),
    "open call, nobody can": Case(
        "open_call",
        {"title": "dog", "text": "dog", "to": "it"},
        "FAILED",
        None,
        "no value for title: nobody bids for it: french cannot do it; pocket-german cannot do it",
        "LOW_CONFIDENCE",
    ),
    "open call": Case(
        "open_call",
        {"title": "the cat", "text": "the cat drinks milk", "to": "de"},
        "DONE",
        {"title": "die Katze", "text": "die Katze trinkt Milch", "by": ["pocket-german", "scholar-german"]},
        guests=("scholar-german",),
    ),
    "waking": Case("waking", {"receipts": ["taxi 31", "dinner 480"]}, "DONE", {"bookings": LEDGER, "remarks": []}),
    "waking, the auditor is there": Case(
        "waking",
        {"receipts": ["dinner 480"]},
        "DONE",
        {"bookings": {"0": {"account": "guests", "amount": 480}}, "remarks": ["booking.0: guests 480, why?"]},
        guests=("auditor",),
    ),
    "sub-goals": Case(
        "sub_goals",
        {"stories": ["The bridge opens. Come all.", "Rain is near."]},
        "DONE",
        {"page": "Rain is near | The bridge opens", "without": []},
        teams=("propose_and_critique",),
    ),
    "sub-goals, one has no headline": Case(
        "sub_goals",
        {"stories": ["Rain is near.", f"{LONG}."]},
        "DEGRADED",
        {"page": "Rain is near", "without": ["story.1"]},
        "without story.1 (LOW_CONFIDENCE)",
        teams=("propose_and_critique",),
    ),
}
