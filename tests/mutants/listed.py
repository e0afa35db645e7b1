"""All mutants, by what they would cost."""

from .guards import GUARDS
from .measured_guard import MEASURED_GUARD
from .monitor import MONITOR
from .prediction import PREDICTION
from .selection import SELECTION
from .strangers import STRANGERS

COST_TIME = [*MONITOR, *MEASURED_GUARD, *SELECTION, *PREDICTION]
LET_OTHERS_DISTURB = [*GUARDS, *STRANGERS]
MUTANTS = [*COST_TIME, *LET_OTHERS_DISTURB]
