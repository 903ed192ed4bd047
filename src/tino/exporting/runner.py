"""Run a model that tino exported with ``format="numpy"``. This file needs only numpy: copy it into your own project.

model = Runner("model.npz")
u = model.step(f)  # f (m,) -> u (x,), one time step after another; model.start(ic) begins again
"""

import json
import math

import numpy as np

erf = np.frompyfunc(math.erf, 1, 1)


class Runner:
    def __init__(self, path):
        with np.load(path, allow_pickle=False) as file:
            self.arrays = {name: file[name] for name in file.files}
        self.about = json.loads(str(self.arrays.pop("about")))  # channels, units, dt, ranges, the check
        self.states = None
        if not len(self.arrays["ic_state"]):
            self.start()

    def start(self, ic=()):
        """The state before the first input: past states (lags, J), past inputs (window, r), what ic adds."""
        a, ic = self.arrays, self.checked("ic", ic, len(self.arrays["ic_state"]))
        self.first = bool(self.about["starts"])
        self.states = np.tile(ic @ a["ic_state"] + a["rest"], (self.about["lags"], 1))
        self.inputs = np.zeros((self.about["window"], a["to_input"].shape[1]), a["bias"].dtype)
        self.held = ic @ a["ic_net"]

    def step(self, f):
        a = self.arrays
        if self.states is None:
            raise ValueError(f"this model takes an initial state of {len(a['ic_state'])} numbers: call start(ic) first")
        f = self.checked("f", f, len(a["to_input"]))
        self.inputs = np.concatenate([self.inputs[1:], [f @ a["to_input"]]])
        if self.first:
            self.first = False
            return self.states[-1] @ a["to_output"] + a["bias"]
        seen = np.concatenate([[1], self.states.ravel(), self.inputs.ravel()]).astype(a["bias"].dtype)
        c = seen @ a["linear"] if "linear" in a else 0
        if "index" in a:  # products of states and inputs
            c = c + np.prod((seen @ a["read"])[a["index"]], 1) @ a["weights"]
        if self.about["layers"]:
            z = seen @ a["net_read"] + self.held
            for n in range(self.about["layers"]):
                gate = z @ a[f"gate_{n}"] + a[f"gate_bias_{n}"]
                factor = 1 + z @ a[f"factor_{n}"] + a[f"factor_bias_{n}"] if f"factor_{n}" in a else 1
                z = 0.5 * gate * (1 + np.asarray(erf(gate / math.sqrt(2)), gate.dtype)) * factor
            last = z @ a["last"] + a["last_bias"]
            c = c + (a["bound"] * np.tanh(last) if "bound" in a else last)
        self.states = np.concatenate([self.states, [c]])[1:]
        return c @ a["to_output"] + a["bias"]

    def checked(self, name, given, count):
        values = np.asarray(given, self.arrays["bias"].dtype)
        if values.shape != (count,) or not np.isfinite(values).all():
            raise ValueError(f"{name} has shape {values.shape}, expected ({count},) without NaN and infinity")
        return values
