"""Files that are damaged or forged: one line, no crash of ours, no other file read, no memory taken."""

import io
import os
import struct
import subprocess
import sys
import tracemalloc
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest
import scipy.io

import tino
from tino import ImportOptions, storage
from tino.importing import outside
from tino.importing.outside import OUTSIDE

F = np.random.default_rng(0).normal(size=(8, 30))
DT = ImportOptions(dt=0.1)


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def refused(path: str, said: str, options: ImportOptions = DT) -> None:
    with pytest.raises(tino.TinoError) as caught:
        tino.import_records(path, "f", "u", options=options)
    text = str(caught.value)
    assert path in text
    assert said in text
    assert "\n" not in text
    assert len(text) < 400


def test_links_to_other_files_are_refused():
    with h5py.File("secret.h5", "w") as file:
        file["f"] = F
    with h5py.File("link.h5", "w") as file:
        file["u"], file["f"] = F, h5py.ExternalLink("secret.h5", "/f")
    refused("link.h5", "'f' is a link to another file")
    layout = h5py.VirtualLayout(F.shape, F.dtype)
    layout[:] = h5py.VirtualSource("secret.h5", "f", F.shape)
    with h5py.File("virtual.h5", "w") as file:
        file["u"] = F
        file.create_virtual_dataset("f", layout)
    refused("virtual.h5", "'f' lies in another file")
    Path("raw.bin").write_bytes(F.tobytes())
    with h5py.File("external.h5", "w") as file:
        file["u"] = F
        file.create_dataset("f", F.shape, F.dtype, external=[("raw.bin", 0, F.nbytes)])
    refused("external.h5", "'f' lies in another file")


def test_a_group_inside_itself_and_links_by_name():
    with h5py.File("round.h5", "w") as file:
        file["f"], file["u"] = F, F
        file["loop"] = file["/"]
        file["soft"], file["nowhere"] = h5py.SoftLink("/f"), h5py.SoftLink("/../../etc/passwd")
    tino.import_records("round.h5", "f", "u", options=DT)


def test_names_are_never_paths():
    with h5py.File("names.h5", "w") as file:
        file["f"], file["u"] = F, F
        file.create_group("..")["..\n"] = F
    tino.import_records("names.h5", "f", "u", options=DT)
    with zipfile.ZipFile("names.npz", "w") as file:
        for name in ("../../f", "/etc/u"):
            array = io.BytesIO()
            np.save(array, F)
            file.writestr(f"{name}.npy", array.getvalue())
    refused("names.npz", "has no column 'f'")
    train, _, _ = tino.import_records("names.npz", "../../f", "/etc/u", options=DT)
    assert [c.name for c in train.input_channels + train.output_channels] == ["f", "u"]
    assert sorted(os.listdir()) == ["names.h5", "names.npz"]


def test_claims_beyond_what_a_file_holds():
    with h5py.File("huge.h5", "w") as file:
        file["u"] = F
        file.create_dataset("f", (2**20, 2**20), "f8", chunks=(2**10, 2**10))  # 8 TiB of nothing
    refused("huge.h5", "'f' claims shape (1048576, 1048576), far more than it holds")
    np.save("huge.npy", F)
    raw = Path("huge.npy").read_bytes()
    Path("huge.npy").write_bytes(raw.replace(b"(8, 30)", b"(9**9,)"))
    with pytest.raises(tino.TinoError, match=r"not a readable \.npy file"):
        tino.import_records("huge.npy", "1", "2", options=DT)
    Path("huge.npy").write_bytes(raw.replace(b"(8, 30), }   ", b"(8, 30000), }"))
    with pytest.raises(tino.TinoError, match="more than it holds"):
        tino.import_records("huge.npy", "1", "2", options=DT)
    Path("huge.npy").write_bytes(raw[:6] + b"\x02\x00" + (2**30).to_bytes(4, "little") + raw[10:])
    tracemalloc.start()
    with pytest.raises(tino.TinoError, match=r"not a readable \.npy file"):
        tino.import_records("huge.npy", "1", "2", options=DT)
    assert tracemalloc.get_traced_memory()[1] < 2**24  # the header's length, a GiB, was not taken
    tracemalloc.stop()


def test_a_bomb_of_zeros_in_a_zip_file(monkeypatch):
    monkeypatch.setattr(storage, "UNPACKED", 2**22)  # a GiB takes seconds to write
    with (
        zipfile.ZipFile("bomb.npz", "w", zipfile.ZIP_DEFLATED) as file,
        file.open("f.npy", "w", force_zip64=True) as array,
    ):
        np.lib.format.write_array_header_1_0(array, {"descr": "<f8", "fortran_order": False, "shape": (2**20,)})
        array.write(bytes(2**23))
    refused("bomb.npz", "more than 200 times its own size")


def test_objects_are_not_unpickled():
    np.savez("objects.npz", f=np.array([{"a": 1}], dtype=object), u=F)
    refused("objects.npz", "it holds Python objects")
    np.save("objects.npy", np.array([{"a": 1}], dtype=object))
    with pytest.raises(tino.TinoError, match="expected numbers"):
        tino.import_records("objects.npy", "1", "2", options=DT)


def test_truncated_files_of_every_kind():
    with h5py.File("a.h5", "w") as file:
        file["f"], file["u"] = F, F
    scipy.io.savemat("a.mat", {"f": F, "u": F})
    scipy.io.savemat("b.mat", {"f": F, "u": F}, do_compression=True)
    np.savez("a.npz", f=F, u=F)
    for name in ("a.h5", "a.mat", "b.mat", "a.npz"):
        raw = Path(name).read_bytes()
        for share in (0.02, 0.3, 0.6, 0.9):
            Path(name).write_bytes(raw[: int(share * len(raw))])
            refused(name, "")


def test_a_matlab_file_that_claims_too_much():
    scipy.io.savemat("a.mat", {"f": F, "u": F})
    raw = bytearray(Path("a.mat").read_bytes())
    sizes = raw.index(struct.pack("<ii", *F.shape))
    raw[sizes : sizes + 8] = struct.pack("<ii", 2**30, 2**30)
    Path("a.mat").write_bytes(raw)
    refused("a.mat", "cannot be read")


def test_other_things_than_files():
    os.mkdir("folder")
    refused("folder", "is a folder")
    refused("nothing.csv", "no file nothing.csv")
    Path("empty.csv").touch()
    refused("empty.csv", "is empty")
    Path("noise.bin").write_bytes(bytes(range(256)) * 4)
    refused("noise.bin", "is not text, nor a file of a kind that is known")
    refused("/dev/zero", "is not a plain file")
    Path("wide.csv").write_text(",".join("1" * 20_000))
    refused("wide.csv", "has 20000 columns, at most 10000")


def test_names_that_hide_something():
    head = "t,f\u202e,u"
    Path("hidden.csv").write_text(head + "\n" + "\n".join(f"{i},{i % 7},{i % 5}" for i in range(90)))
    with pytest.raises(tino.TinoError, match="cannot be seen"):
        tino.import_records("hidden.csv", "f*", "u")


def test_what_ends_a_fork_is_one_line(monkeypatch):
    """A reading that takes too long, too much memory, or kills its process; the next file is read as if nothing was."""
    with h5py.File("a.h5", "w") as file:
        file["f"], file["u"] = F, F
    tino.import_records("a.h5", "f", "u", options=DT)
    with monkeypatch.context() as patch:
        patch.setattr(outside, "SECONDS", 0.0)
        patch.setattr(outside, "BYTES_PER_SECOND", 1e12)
        refused("a.h5", "reading took more than 0 seconds")
        patch.setattr(outside, "SECONDS", 10.0)
        patch.setattr(outside, "MEMORY", 0)
        patch.setattr(outside, "PER_BYTE", 0)
        refused("a.h5", "cannot be read")
    assert OUTSIDE.process is not None
    OUTSIDE.process.kill()
    OUTSIDE.process.wait()
    tino.import_records("a.h5", "f", "u", options=DT)


def test_the_child_imports_no_torch():
    script = "import sys, tino.importing.child; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)
