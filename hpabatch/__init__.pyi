from hpabatch.api.recording import Advice as Advice
from hpabatch.api.recording import Recording as Recording
from hpabatch.api.recording import Replay as Replay
from hpabatch.api.recording import Sweep as Sweep
from hpabatch.api.recording import open as open
from hpabatch.api.recording import open_sweep as open_sweep

__version__: str
