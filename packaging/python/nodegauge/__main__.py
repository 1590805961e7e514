"""`python -m nodegauge` is the program, also where the folder of scripts is not on PATH."""

import os
import sys

from ._program import program

os.execv(program(), ["nodegauge", *sys.argv[1:]])
