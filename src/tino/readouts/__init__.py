"""Read-outs: what a causal, autonomous operator says about the system, in the words of engineers.

``derivatives`` linearises it about an operating point (impulse response, static gain, memory), ``poles`` its step,
``second_order`` takes second derivatives there, ``frequency`` excites it with multisines at a chosen level (best linear
approximation, coherence), ``excited`` finds the frequencies that its training inputs held, and ``readout`` puts all of
it together.
"""
