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
        if not len(self.arrays["ic_state"]):
            self.start()

    def start(self, ic=()):
        """The state before the first input: past states (lags, J), past inputs (window, r), what ic adds."""
        a, ic = self.arrays, np.asarray(ic, self.arrays["bias"].dtype)
        self.first = bool(self.about["starts"])
        self.states = np.tile(ic @ a["ic_state"] + a["rest"], (self.about["lags"], 1))
        self.inputs = np.zeros((self.about["window"], a["to_input"].shape[1]), a["bias"].dtype)
        self.held = ic @ a["ic_net"]

    def step(self, f):
        a = self.arrays
        self.inputs = np.concatenate([self.inputs[1:], [f @ a["to_input"]]])
        if self.first:
            self.first = False
            return self.states[-1] @ a["to_output"] + a["bias"]
        seen = np.concatenate([[1], self.states.ravel(), self.inputs.ravel()]).astype(a["bias"].dtype)
        c = np.prod((seen @ a["read"])[a["index"]], 1) @ a["weights"]  # products of states and inputs
        if self.about["layers"]:
            z = seen @ a["net_read"] + self.held
            for n in range(self.about["layers"]):
                gate = z @ a[f"gate_{n}"] + a[f"gate_bias_{n}"]
                factor = 1 + z @ a[f"factor_{n}"] + a[f"factor_bias_{n}"] if f"factor_{n}" in a else 1
                z = 0.5 * gate * (1 + np.asarray(erf(gate / math.sqrt(2)), gate.dtype)) * factor
            c = c + z @ a["last"] + a["last_bias"]
        if len(self.states):
            self.states = np.concatenate([self.states[1:], [c]])
        return c @ a["to_output"] + a["bias"]
