"""A git repository as a witness: a file and a commit for each head, `main/000000/000000123.json`, and a push where a
remote is named. What is read is what was committed, not what lies in the folder. Needs the command `git`.
"""

import asyncio
import os
from collections.abc import AsyncGenerator
from pathlib import Path

from projections.witness import WitnessUnavailable

AUTHOR = ("-c", "user.name=notary", "-c", "user.email=notary@localhost")
SETTINGS = (*AUTHOR, "-c", "core.fsync=all", "-c", "commit.gpgsign=false", "-c", "core.hooksPath=/dev/null")
ELSEWHERE = {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"}
"""Variables of the environment that would lead git to another repository, as in a hook."""
UNASKED = {"GIT_TERMINAL_PROMPT": "0"}
PER_FOLDER = 1_000
PUSH_S = 60.0


class GitWitness:
    """`remote`: the name or the URL of a repository to which each commit is pushed; empty for none."""

    def __init__(self, folder: Path, board: str, remote: str = "") -> None:
        self.name = f"git:{folder}{f'#{remote}' if remote else ''}"
        self._folder, self._board, self._remote = folder, board, remote
        self._pushed = not remote

    async def claim(self) -> None:
        """Pushes what was committed and may not have reached the remote."""
        if not await asyncio.to_thread((self._folder / ".git").exists):
            if await asyncio.to_thread((self._folder / "HEAD").is_file):
                raise WitnessUnavailable(f"{self._folder} is a bare repository: write git:FOLDER#{self._folder}")
            await asyncio.to_thread(self._folder.mkdir, parents=True, exist_ok=True)
            await self._git("init", "--quiet", "--initial-branch=main")
        if not self._pushed and await self._has_commits():
            await self._push()

    async def read(self) -> AsyncGenerator[bytes, None]:
        if not await asyncio.to_thread((self._folder / ".git").exists):
            raise WitnessUnavailable(f"{self._folder} is no git repository")
        if not await self._has_commits():
            return
        listed = await self._git("ls-tree", "-r", "--name-only", "HEAD", f"{self._board}/")
        reading = await self._start("cat-file", "--batch", stdin=asyncio.subprocess.PIPE)
        assert reading.stdin is not None
        assert reading.stdout is not None
        try:
            for name in sorted(listed.decode().split()):
                reading.stdin.write(f"HEAD:{name}\n".encode())
                size = int((await reading.stdout.readline()).split()[-1])
                yield (await reading.stdout.readexactly(size + 1))[:-1].removesuffix(b"\n")
        except (ValueError, IndexError, asyncio.IncompleteReadError):
            raise WitnessUnavailable(f"git in {self._folder} does not give back {name}") from None
        finally:
            reading.stdin.close()
            await reading.wait()

    async def append(self, number: int, line: bytes) -> None:
        await self.claim()
        name = f"{self._board}/{number // PER_FOLDER:06d}/{number:09d}.json"
        path = self._folder / name
        try:
            await asyncio.to_thread(path.parent.mkdir, parents=True, exist_ok=True)
            await asyncio.to_thread(path.write_bytes, line + b"\n")
        except OSError as error:
            raise WitnessUnavailable(f"{path} cannot be written: {error.strerror}") from error
        await self._git("add", "--", name)
        if await self._git("status", "--porcelain", "--", name):
            self._pushed = not self._remote
            await self._git("commit", "--quiet", "--message", f"head {number} of board {self._board}", "--", name)
        if not self._pushed:
            await self._push()

    async def close(self) -> None:
        """Nothing is open."""

    async def _has_commits(self) -> bool:
        return bool(await self._git("rev-parse", "--quiet", "--verify", "HEAD", fine=(0, 1)))

    async def _push(self) -> None:
        await self._git("push", "--quiet", self._remote, "HEAD")
        self._pushed = True

    async def _git(self, *words: str, fine: tuple[int, ...] = (0,)) -> bytes:
        """What git says. Raises WitnessUnavailable."""
        process = await self._start(*words)
        try:
            out, err = await asyncio.wait_for(process.communicate(), PUSH_S)
        except TimeoutError:
            process.kill()
            await process.wait()
            raise WitnessUnavailable(f"git {words[0]} in {self._folder} did not end within {PUSH_S:g} s") from None
        if process.returncode not in fine:
            lines = err.decode(errors="replace").strip().splitlines() or [str(process.returncode)]
            said = next((line for line in lines if line.startswith(("fatal: ", " ! ", "error: "))), lines[-1]).strip()
            raise WitnessUnavailable(f"git {words[0]} in {self._folder} failed: {said}")
        return out

    async def _start(self, *words: str, stdin: int = asyncio.subprocess.DEVNULL) -> asyncio.subprocess.Process:
        try:
            return await asyncio.create_subprocess_exec(
                *("git", "-C", str(self._folder), *SETTINGS, *words),
                env={name: value for name, value in os.environ.items() if name not in ELSEWHERE} | UNASKED,
                stdin=stdin,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except FileNotFoundError:
            raise WitnessUnavailable("a git witness needs the command `git`, which is not installed here") from None
