"""A step as C source without dependencies: its numbers as arrays, ``start(state, ic)`` and ``step(state, f, u)``."""

import json
import re
from typing import Any

import numpy as np

from tino.errors import TinoError
from tino.exporting.program import Array, Program

MOST = 4_000_000  # numbers in a source file

HEADER = """\
/* A model learned by tino, one time step after another. No memory is allocated, nothing is kept outside the state.

{about}
*/
#ifndef {guard}_H
#define {guard}_H

#define {guard}_INPUTS {inputs}
#define {guard}_OUTPUTS {outputs}
#define {guard}_INITIAL {initial} /* numbers in an initial state */

typedef {real} {name}_real;
typedef struct {{
    {name}_real states[{states}], inputs[{window}], held[{held}];
    int first;
}} {name}_state;

/* The state before the first input; ic may be NULL if {guard}_INITIAL is 0. */
void {name}_start({name}_state *state, const {name}_real *ic);
/* The next input f[{guard}_INPUTS] -> the next output u[{guard}_OUTPUTS]. Inputs are not checked: one that is NaN can
   make all later outputs NaN. */
void {name}_step({name}_state *state, const {name}_real *f, {name}_real *u);

#endif
"""

SOURCE = """\
#include "{name}.h"

#include <math.h>
#include <string.h>

typedef {name}_real real;

enum {{ INPUTS = {inputs}, OUTPUTS = {outputs}, INITIAL = {initial}, LAGS = {lags}, WINDOW = {window_}, STATES = {J},
       SOURCES = {r}, FACTORS = {factors}, TERMS = {terms}, DEGREE = {degree}, WIDTH = {width}, NET = {net} }};

{arrays}

/* y[n] += x[k] a[k][n] */
static void add_product(int k, int n, const real *x, const real *a, real *y) {{
    for (int i = 0; i < k; i++)
        for (int j = 0; j < n; j++) y[j] += x[i] * a[i * n + j];
}}

/* y = [1, states, inputs] a */
static void read_past(const {name}_state *s, int n, const real *a, real *y) {{
    memcpy(y, a, (size_t)n * sizeof(real));
    add_product(LAGS * STATES, n, s->states, a + n, y);
    add_product(WINDOW * SOURCES, n, s->inputs, a + (size_t)n * (1 + LAGS * STATES), y);
}}

/* The offset comes last: beside 300 K, sums of small terms would lose digits. */
static void output(const real *c, real *u) {{
    memset(u, 0, OUTPUTS * sizeof(real));
    add_product(STATES, OUTPUTS, c, w_to_output, u);
    for (int i = 0; i < OUTPUTS; i++) u[i] += w_bias[i];
}}

void {name}_start({name}_state *s, const real *ic) {{
    real begin[STATES + NET], centred[INITIAL + 1];
    memset(s, 0, sizeof *s);
    s->first = {starts};
    memcpy(begin, w_rest, sizeof begin);
    for (int i = 0; i < INITIAL; i++) centred[i] = ic[i] - w_ic_offset[i];
    if (INITIAL) add_product(INITIAL, STATES + NET, centred, w_ic_start, begin);
    for (int i = 0; i < LAGS; i++) memcpy(s->states + i * STATES, begin, STATES * sizeof(real));
    if (NET) memcpy(s->held, begin + STATES, NET * sizeof(real));
}}

void {name}_step({name}_state *s, const real *f, real *u) {{
    real c[STATES] = {{0}};
    real *now = s->inputs + (WINDOW - 1) * SOURCES;
    memmove(s->inputs, s->inputs + SOURCES, (size_t)(WINDOW - 1) * SOURCES * sizeof(real));
    memset(now, 0, SOURCES * sizeof(real));
    add_product(INPUTS, SOURCES, f, w_to_input, now);
    if (s->first) {{
        s->first = 0;
        output(s->states + (LAGS - 1) * STATES, u);
        return;
    }}
{body}
    if (LAGS) {{
        memmove(s->states, s->states + STATES, (size_t)(LAGS - 1) * STATES * sizeof(real));
        memcpy(s->states + (LAGS - 1) * STATES, c, sizeof c);
    }}
    output(c, u);
}}
"""

LINEAR = """\
    read_past(s, STATES, w_linear, c);
"""

PRODUCTS = """\
    real v[FACTORS];
    read_past(s, FACTORS, w_read, v);
    for (int q = 0; q < TERMS; q++) {
        real product = v[w_index[q * DEGREE]];
        for (int k = 1; k < DEGREE; k++) product *= v[w_index[q * DEGREE + k]];
        for (int j = 0; j < STATES; j++) c[j] += product * w_weights[q * STATES + j];
    }
"""

NETWORK = """\
    real z[WIDTH], gate[WIDTH]{factor};
    read_past(s, NET, w_net_read, z);
    for (int j = 0; j < NET; j++) z[j] += s->held[j];
"""

LAYER = """\
    memcpy(gate, w_gate_bias_{n}, sizeof w_gate_bias_{n});
    add_product({fan_in}, {fan_out}, z, w_gate_{n}, gate);
{factor}    for (int j = 0; j < {fan_out}; j++)
        z[j] = (real)0.5 * gate[j] * (1 + {erf}(gate[j] * (real)0.70710678118654752440)){times};
"""

FACTOR = """\
    memcpy(factor, w_factor_bias_{n}, sizeof w_factor_bias_{n});
    add_product({fan_in}, {fan_out}, z, w_factor_{n}, factor);
"""

LAST = """\
    for (int j = 0; j < STATES; j++) c[j] += w_last_bias[j];
    add_product({fan_in}, STATES, z, w_last, c);
"""

BOUNDED = """\
    real last[STATES];
    memcpy(last, w_last_bias, sizeof last);
    add_product({fan_in}, STATES, z, w_last, last);
    for (int j = 0; j < STATES; j++) c[j] += w_bound[j] * {tanh}(last[j]);
"""


def sources(name: str, made: Program, about: dict[str, Any]) -> tuple[str, str]:
    """The header and the source file."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        raise TinoError(f"the name of a C file is '{name}', expected letters, digits and _, beginning with a letter")
    a = made.arrays
    if (count := sum(one.size for one in a.values())) > MOST:
        raise TinoError(f"the model has {count:,} numbers, C source takes at most {MOST:,}: export it as onnx")
    double = a["bias"].dtype == np.float64
    net = a["net_read"].shape[1] if made.layers else 0
    widths = [net, *(a[f"gate_{n}"].shape[1] for n in range(made.layers))]
    factors, (terms, degree) = (a["read"].shape[1], a["index"].shape) if "read" in a else (0, (0, 0))
    sizes = {
        **{"inputs": len(a["to_input"]), "outputs": len(a["bias"]), "initial": len(a["ic_start"]), "lags": made.lags},
        **{"window_": made.window, "J": len(a["to_output"]), "r": a["to_input"].shape[1], "factors": factors},
        **{"terms": terms, "degree": degree, "width": max(widths), "net": net},
    }
    shared = {"name": name, "guard": name.upper(), "real": "double" if double else "float"}
    state = {"states": max(1, made.lags * sizes["J"]), "window": made.window * sizes["r"], "held": max(1, net)}
    told = json.dumps(about, indent=2).replace("*/", "* /").replace("/*", "/ *")
    header = HEADER.format(**shared, **sizes, **state, about=told)
    body = (LINEAR if "linear" in a else "") + (PRODUCTS if terms else "") + _network(made, double)
    arrays = "\n".join(_array(key, one, double) for key, one in a.items())
    starts = int(made.starts)
    return header, SOURCE.format(**shared, **sizes, arrays=arrays, body=body.rstrip(), starts=starts)


def _network(made: Program, double: bool) -> str:
    if not made.layers:
        return ""
    factors = "factor_0" in made.arrays
    text = NETWORK.replace("{factor}", ", factor[WIDTH]" if factors else "")
    fan_out = 0
    for n in range(made.layers):
        fan_in, fan_out = made.arrays[f"gate_{n}"].shape
        sizes = {"n": n, "fan_in": fan_in, "fan_out": fan_out}
        factor, times = (FACTOR.format(**sizes), " * factor[j]") if factors else ("", "")
        text += LAYER.format(**sizes, factor=factor, times=times, erf="erf" if double else "erff")
    last = BOUNDED if "bound" in made.arrays else LAST
    return text + last.format(fan_in=fan_out, tanh="tanh" if double else "tanhf")


def _array(name: str, values: Array, double: bool) -> str:
    """One array, a row of numbers to a line; one that is empty holds a zero, which nothing reads."""
    kind, form = ("int", "{:d}") if name == "index" else ("real", "{:.17g}" if double else "{:.9g}f")
    flat = values.ravel() if values.size else np.zeros(1, values.dtype)
    written = [_literal(form.format(one)) for one in flat.tolist()]
    lines = [", ".join(written[n : n + 8]) for n in range(0, len(written), 8)]
    return f"static const {kind} w_{name}[{len(written)}] = {{\n    " + ",\n    ".join(lines) + "};"


def _literal(text: str) -> str:
    """1f is no number in C, 1.0f is."""
    return text if not text.endswith("f") or "." in text or "e" in text else f"{text[:-1]}.0f"
