"""The public names and where they live; ``tino`` fetches them from here when one is first used."""

from tino.bands import Band, calibrate, load_band
from tino.certificates import Certificate, certify
from tino.channels import Channel
from tino.data import Dataset
from tino.diagnosis import Diagnosis, diagnose
from tino.errors import CertificateError, TinoError, TinoWarning
from tino.evaluation import Scores, evaluate, predict
from tino.exporting import export
from tino.generation import dataset, generate
from tino.grids import Interval, Periodic, Point, Points, TimeGrid, Triangle
from tino.importing.arrays import from_arrays
from tino.importing.options import ImportOptions
from tino.importing.reading import import_records
from tino.linear import Linearised, linearise
from tino.models.registry import MODELS, Model, build, register_model
from tino.models.separable import Separable
from tino.models.store import load
from tino.operator import Operator, Properties, State
from tino.problems import Problem, problem, problem_names
from tino.race import Race, auto
from tino.readouts.derivatives import impulse_response
from tino.readouts.excited import Excited
from tino.readouts.frequency import frequency_response
from tino.readouts.readout import Readout, read_out
from tino.readouts.second_order import second_order_kernel, second_order_response
from tino.sources import read_arrays
from tino.storage import load_dataset, save_dataset
from tino.streaming import Stream
from tino.surrogate import Surrogate
from tino.training.config import TrainConfig
from tino.training.history import History
from tino.training.loop import fit

__all__ = [
    "MODELS",
    "Band",
    "Certificate",
    "CertificateError",
    "Channel",
    "Dataset",
    "Diagnosis",
    "Excited",
    "History",
    "ImportOptions",
    "Interval",
    "Linearised",
    "Model",
    "Operator",
    "Periodic",
    "Point",
    "Points",
    "Problem",
    "Properties",
    "Race",
    "Readout",
    "Scores",
    "Separable",
    "State",
    "Stream",
    "Surrogate",
    "TimeGrid",
    "TinoError",
    "TinoWarning",
    "TrainConfig",
    "Triangle",
    "auto",
    "build",
    "calibrate",
    "certify",
    "dataset",
    "diagnose",
    "evaluate",
    "export",
    "fit",
    "frequency_response",
    "from_arrays",
    "generate",
    "import_records",
    "impulse_response",
    "linearise",
    "load",
    "load_band",
    "load_dataset",
    "predict",
    "problem",
    "problem_names",
    "read_arrays",
    "read_out",
    "register_model",
    "save_dataset",
    "second_order_kernel",
    "second_order_response",
]
