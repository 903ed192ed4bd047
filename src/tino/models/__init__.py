"""Models: one file for each kind; importing ``zoo`` registers them."""

from tino.models import zoo as zoo
