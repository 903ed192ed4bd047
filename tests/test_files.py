"""Files: JSON that is read strictly, and checksums that see every change."""

import io
import json
import random

import pytest
import safetensors.torch
import torch

import tino
from tino.files import STAMP, check_stamp, read_json, read_sealed, stamp, write_json, write_sealed

BAD = {
    "not UTF-8": b'{"a": "\xff"}',
    "cut short": b'{"a": 1',
    "a key twice": b'{"a": 1, "a": 2}',
    "deep nesting": b"[" * 100_000 + b"]" * 100_000,
    "deep objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "5000 digits": b'{"a": ' + b"7" * 5000 + b"}",
    "4000 digits": b'{"a": -' + b"7" * 4000 + b"}",
    "more than 64 bits": b'{"a": 9223372036854775808}',
    "nothing": b"",
}


@pytest.mark.parametrize("how", BAD)
def test_unreadable_json_is_one_line(how, tmp_path):
    (tmp_path / "a.json").write_bytes(BAD[how])
    with pytest.raises(tino.TinoError, match=r"a\.json is not readable JSON: ") as caught:
        read_json(tmp_path / "a.json")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_the_largest_whole_numbers_are_read(tmp_path):
    write_json(tmp_path / "a.json", [2**63 - 1, -(2**63)])
    assert read_json(tmp_path / "a.json") == [2**63 - 1, -(2**63)]


RECORD = {"name": "Größe\ud800", "values": [1, 2.5e-17, None, True, float("inf")], "nested": {"b": (1, 2), "a": {}}}


def test_a_sealed_record_comes_back_and_may_be_written_differently(tmp_path):
    path = tmp_path / "a.json"
    write_sealed(path, {key: value for key, value in RECORD.items() if key != "name"})
    found = read_sealed(path, "make it again")
    assert found == {"values": [1, 2.5e-17, None, True, float("inf")], "nested": {"b": [1, 2], "a": {}}}
    turned = dict(reversed(json.loads(path.read_text()).items()))
    path.write_text(json.dumps(turned, indent=7).replace("\n", "\r\n"))
    assert read_sealed(path, "make it again") == found


@pytest.mark.parametrize("change", [("1.0", "1.5"), ("true", "null"), ('"sha256"', '"sha255"'), ('"b"', '"c"')])
def test_a_changed_record_is_refused_with_what_to_do(change, tmp_path):
    path = tmp_path / "a.json"
    write_sealed(path, {"a": 1.0, "b": True})
    path.write_text(path.read_text().replace(*change))
    with pytest.raises(tino.TinoError, match=r"a\.json was changed or damaged .*: make it again$"):
        read_sealed(path, "make it again")


def test_every_changed_byte_of_a_stamped_file_is_seen(tmp_path):
    path, file = tmp_path / "a.safetensors", io.BytesIO()
    file.write(safetensors.torch.save({"a": torch.arange(5.0)}, {"about": '{"sha256": 1}', **STAMP}))
    stamp(file)
    whole = file.getvalue()
    path.write_bytes(whole)
    check_stamp(path, "make it again")
    assert torch.equal(safetensors.torch.load_file(path)["a"], torch.arange(5.0))
    chance = random.Random(0)
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 1 << chance.randrange(8)
        path.write_bytes(changed)
        with pytest.raises(tino.TinoError, match=r"make it again$"):
            check_stamp(path, "make it again")
