"""`python -m nodegauge` starts the program, even if the folder of scripts is not on PATH."""

import os
import sys

from ._program import program

os.execv(program(), ["nodegauge", *sys.argv[1:]])
