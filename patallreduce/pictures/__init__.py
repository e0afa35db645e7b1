"""Pictures of iterations: who was late when, how good the predictions were, what everybody did.

matplotlib is needed, and imported only when one is drawn: `pip install patallreduce[viz]`. The
format of a picture follows from its suffix: png, svg, pdf.
"""

from patallreduce.pictures.heat_map import arrival_heat_map
from patallreduce.pictures.prediction import predicted_against_real
from patallreduce.pictures.timeline import timeline

__all__ = ["arrival_heat_map", "predicted_against_real", "timeline"]
