"""Records of your own, from files of many kinds or from arrays, as datasets.

A file becomes a ``Content``: variables by name, with units and named axes (``content``; text in ``table``, arrays in
``plain``, what foreign libraries read through ``outside``, in a process of its own). Variables become ``Records``
(``records``), which are checked and repaired (``repairs``, ``advice``) and put together (``whole``).
"""
