"""tino: learn how physical systems respond over time.

train, test = tino.dataset(tino.problem("burgers-0.1"))
model = tino.build("spod-trtino", train)
tino.fit(model, train)
tino.evaluate(model, test), tino.certify(model, test)
"""

from tino.data import Dataset, load_dataset, read_arrays
from tino.diagnosis import Diagnosis, diagnose
from tino.errors import CertificateError, TinoError, TinoWarning
from tino.evaluation import Scores, evaluate, predict
from tino.generation import dataset, generate
from tino.grids import Interval, Periodic, Point, TimeGrid, Triangle
from tino.models.operator import Operator
from tino.models.separable import Separable
from tino.models.store import load
from tino.models.zoo import MODELS, build
from tino.problems import Problem, problem, problem_names
from tino.properties import Certificate, certify
from tino.training import History, TrainConfig, fit
from tino.version import VERSION as __version__

__all__ = [
    "MODELS",
    "Certificate",
    "CertificateError",
    "Dataset",
    "Diagnosis",
    "History",
    "Interval",
    "Operator",
    "Periodic",
    "Point",
    "Problem",
    "Scores",
    "Separable",
    "TimeGrid",
    "TinoError",
    "TinoWarning",
    "TrainConfig",
    "Triangle",
    "__version__",
    "build",
    "certify",
    "dataset",
    "diagnose",
    "evaluate",
    "fit",
    "generate",
    "load",
    "load_dataset",
    "predict",
    "problem",
    "problem_names",
    "read_arrays",
]
