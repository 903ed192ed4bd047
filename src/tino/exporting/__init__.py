"""Trained models for other programs: ONNX, torch's own format, numpy and C, each checked against the model itself."""

from tino.exporting.files import FORMATS as FORMATS
from tino.exporting.files import Exported as Exported
from tino.exporting.files import export as export
from tino.exporting.usage import usage as usage
