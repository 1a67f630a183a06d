from hpabatch.api import Recording as Recording
from hpabatch.api import Replay as Replay
from hpabatch.api import open as open

__version__: str
