from hpabatch.api.imports import import_prometheus as import_prometheus
from hpabatch.api.imports import import_table as import_table
from hpabatch.api.recording import Recording as Recording
from hpabatch.api.recording import open as open
from hpabatch.api.sweeps import open_sweep as open_sweep
from hpabatch.api.validation import validate as validate

__version__: str
