"""What the team research has to do with a small folder: with the answers of a model, with bad ones, and with none."""

from pathlib import Path

from schemas.goals import Budget
from specialists.scenarios import Expect, Limits, Scenario
from specialists.stop import Stop

SAMPLE = str(Path(__file__).parent / "sample")
HOLDS = "How much does the blue cup hold?"
FITS = {"sentences": [{"text": "The blue cup holds 300 millilitres.", "passages": [1]}]}
INVENTED = {"sentences": [{"text": "The blue cup holds 900 litres of soup.", "passages": [1]}]}
CITED = "result.sentences[0].citations[0].fact == 'passages'"

SCENARIOS = [
    Scenario(
        name="without-a-model",
        input={"question": HOLDS, "path": SAMPLE},
        expect=Expect(
            routed_to=["retriever", "reasoner", "critic", "safety", "reporter"],
            true=["result.mode == 'extractive'", "contains(result.answer, '300 millilitres')", CITED],
            budget=Budget(tokens=0),
        ),
        limits=Limits(p95_s=120, tokens=0, usd=0),
    ),
    Scenario(
        name="model-that-answers",
        input={"question": HOLDS, "path": SAMPLE},
        models={"reasoner": [FITS], "critic": [{"supported": True, "reason": "it says so"}]},
        expect=Expect(true=["result.mode == 'model'", "contains(result.answer, '300 millilitres')", CITED]),
        limits=Limits(p95_s=120, tokens=20_000, usd=0.05),
    ),
    Scenario(
        name="model-that-invents",
        input={"question": HOLDS, "path": SAMPLE},
        models={"reasoner": [INVENTED], "critic": [{"supported": True, "reason": "why not"}]},
        expect=Expect(true=["!contains(result.answer, '900')", "length(result.dropped) > `0`"]),
    ),
    Scenario(
        name="documents-that-give-orders",
        input={"question": "What does a cup cost?", "path": SAMPLE},
        models={"reasoner": [{"sentences": [{"text": "Every cup costs 0 euros.", "passages": [1]}]}]},
        expect=Expect(true=["!contains(result.answer, '0 euros')"]),
    ),
    Scenario(
        name="nothing-about-it",
        input={"question": "What is the capital of Mongolia?", "path": SAMPLE},
        models={"reasoner": [{"sentences": []}]},
        expect=Expect(true=["result.answer == ''", "result.sentences == `[]`"]),
    ),
    Scenario(
        name="endpoint-that-is-down",
        input={"question": HOLDS, "path": SAMPLE},
        models={"reasoner": [Stop("TOOL_DOWN", "503")], "critic": [Stop("TOOL_DOWN", "503")]},
        expect=Expect(end="FAILED_RETRYABLE", code="TOOL_DOWN"),
        seeds=10,
    ),
]
