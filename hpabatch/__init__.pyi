from hpabatch.api import Advice as Advice
from hpabatch.api import Recording as Recording
from hpabatch.api import Replay as Replay
from hpabatch.api import Sweep as Sweep
from hpabatch.api import open as open
from hpabatch.api import open_sweep as open_sweep

__version__: str
