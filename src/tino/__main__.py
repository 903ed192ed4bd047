"""The command ``tino``: sets what must be set before torch is imported, then hands over to ``tino.cli``."""

import os
import sys


def main() -> None:
    # Two waiting OpenMP threads that spin make rows of small operations many times slower on small machines.
    # Only effective before torch is imported, hence here.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        from tino.cli import run
    except ModuleNotFoundError as error:
        from tino.errors import lacks_module

        print(f"tino: {lacks_module(error)}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    status = run(sys.argv[1:])
    if "TORCHELASTIC_RUN_ID" in os.environ:  # under torchrun, gloo's threads sometimes abort Python's own shutdown
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


if __name__ == "__main__":
    main()
