"""The public names and where they live; ``tino`` fetches them from here when one is first used."""

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
from tino.training.config import TrainConfig
from tino.training.history import History
from tino.training.loop import fit

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
