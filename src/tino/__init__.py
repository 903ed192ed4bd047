"""tino: learn how physical systems respond over time.

train, test = tino.dataset(tino.problem("burgers-0.1"))
model = tino.build("spod-trtino", train)
tino.fit(model, train)
tino.evaluate(model, test), tino.certify(model, test)
"""

from tino.certificates import Certificate, certify
from tino.channels import Channel
from tino.data import Dataset, load_dataset, save_dataset
from tino.diagnosis import Diagnosis, diagnose
from tino.errors import CertificateError, TinoError, TinoWarning
from tino.evaluation import Scores, evaluate, predict
from tino.generation import dataset, generate
from tino.grids import Interval, Periodic, Point, TimeGrid, Triangle
from tino.models.registry import MODELS, Model, build, register_model
from tino.models.separable import Separable
from tino.models.store import load
from tino.operator import Operator, Properties, State
from tino.problems import Problem, problem, problem_names
from tino.sources import read_arrays
from tino.training import History, TrainConfig, fit
from tino.version import VERSION as __version__

__all__ = [
    "MODELS",
    "Certificate",
    "CertificateError",
    "Channel",
    "Dataset",
    "Diagnosis",
    "History",
    "Interval",
    "Model",
    "Operator",
    "Periodic",
    "Point",
    "Problem",
    "Properties",
    "Scores",
    "Separable",
    "State",
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
    "register_model",
    "save_dataset",
]
