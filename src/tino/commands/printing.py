"""What commands share: lines, JSON, the shard of a job."""

import json
import re
from typing import Any

from tino.errors import TinoError
from tino.text import visible

OPTION = re.compile(  # as Python has it: inputs = 'none', ic = True, units = 'force=N', drop_channel
    r"(?<![\w'./-])(?:(?P<name>inputs|ic|axes|units|dt|(?:resume|force)(?= = True)) = (?P<value>True|'\w+')?"
    r"|(?P<alone>drop_channel|burn_in|test_share|test_set)(?![\w'.=]))"
)

ADVICE = re.compile(
    r"(?<=repair it with ).*|(?<=: use ).*|(?<=: )cut(?= it at gaps)|\b(?:drop|fill)(?= leaves | repairs )"
)
REPAIR = re.compile(r"(?<![\w'./-])(?:fill|cut|drop|resample|dt)(?![\w'.=/])")  # plain words, elsewhere


def read_shard(text: str) -> tuple[int, int]:
    try:
        i, n = map(int, text.split("/"))
    except ValueError:
        raise TinoError(f"the shard is '{text}', expected i/n such as 1/4") from None
    return i, n


def as_typed(said: str) -> str:
    """A text of the library with its options as they are typed: drop_channel is --drop-channel."""
    return ADVICE.sub(lambda found: REPAIR.sub(r"--\g<0>", found[0]), OPTION.sub(_flag, said))


def _flag(found: re.Match[str]) -> str:
    name, value = found["name"] or found["alone"], found["value"] or ""
    flag = f"--{'input' if name == 'inputs' else name.replace('_', '-')}"
    return f"{flag} {value.strip(chr(39))}" if found["name"] and value != "True" else flag


def say(*lines: str) -> None:
    """Print each as one line, whatever names and paths it holds."""
    for line in lines:
        print(visible(line))


def print_json(value: Any) -> None:
    written = json.dumps(value, indent=2, ensure_ascii=False)
    print("\n".join("".join(map(_in_json, line)) for line in written.split("\n")))


def _in_json(sign: str) -> str:
    return sign if visible(sign) == sign else json.dumps(sign)[1:-1]
