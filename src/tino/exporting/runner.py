"""Run a model that tino exported with ``format="numpy"``. This file needs only numpy: copy it into your own project.

model = Runner("model.npz")  # Runner("model.npz", ic) if it takes an initial state
u = model.step(f)  # f (m,) -> u (x,), one time step after another; model.start(ic) begins again
"""

import json
import math

import numpy as np

erf = np.frompyfunc(math.erf, 1, 1)


class Runner:
    def __init__(self, path, ic=()):
        with np.load(path) as file:
            self.arrays = dict(file)
        self.about = json.loads(str(self.arrays.pop("about")))  # channels, units, dt, ranges, the check
        self.start(ic)

    def start(self, ic=()):
        a, sizes = self.arrays, self.about
        centred = self.checked("ic", ic, a["ic_offset"]) - a["ic_offset"]
        state, self.held = np.split(a["rest"] + centred @ a["ic_start"], [len(a["to_output"])])
        self.states = np.tile(state, (sizes["lags"], 1))  # oldest first
        self.inputs = np.zeros((sizes["window"], a["to_input"].shape[1]), state.dtype)
        self.first = sizes["starts"]

    def step(self, f):
        a = self.arrays
        z = self.checked("f", f, a["to_input"]) @ a["to_input"]
        self.inputs = np.concatenate([self.inputs[1:], [z]])
        c = self.states[-1] if self.first else self.next_state()
        self.states, self.first = np.concatenate([self.states, [c]])[1:], False
        return c @ a["to_output"] + a["bias"]

    def next_state(self):
        a, seen = self.arrays, np.concatenate([[1], self.states, self.inputs], axis=None, dtype=self.inputs.dtype)
        c = seen @ a["linear"] if "linear" in a else 0
        if "index" in a:  # products of states and inputs
            c = c + np.prod((seen @ a["read"])[a["index"]], 1) @ a["weights"]
        if "last" in a:  # a network
            z = seen @ a["net_read"] + self.held
            for n in range(self.about["layers"]):
                gate = z @ a[f"gate_{n}"] + a[f"gate_bias_{n}"]
                factor = z @ a[f"factor_{n}"] + a[f"factor_bias_{n}"] if f"factor_{n}" in a else 1
                z = 0.5 * gate * (1 + np.asarray(erf(gate / math.sqrt(2)), gate.dtype)) * factor
            last = z @ a["last"] + a["last_bias"]
            c = c + (a["bound"] * np.tanh(last) if "bound" in a else last)
        return c

    def checked(self, name, given, like):
        values = np.asarray(given, like.dtype)
        if values.shape != like.shape[:1] or not np.isfinite(values).all():
            raise ValueError(f"{name} has shape {values.shape}, expected ({len(like)},) without NaN and infinity")
        return values
