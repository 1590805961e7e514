"""The checks of a site for ReFrame 4. Their classes are in the wheel of nodegauge (`pip install nodegauge`):

    reframe -c reframe_nodegauge.py -r
    reframe -c reframe_nodegauge.py -r -S NodegaugeStream.options=--threads,64,--bind,spread
"""

import reframe as rfm
from nodegauge.reframe import nodegauge_hpl, nodegauge_mpi, nodegauge_stream


@rfm.simple_test
class NodegaugeStream(nodegauge_stream):
    valid_systems = ['*']
    valid_prog_environs = ['*']
    # Expected value of each figure on this system, and the permitted deviations below and above it. Fill in your own.
    # reference = {'mysystem:compute': {'triad': (380.0, -0.05, None, 'GB/s')}}


@rfm.simple_test
class NodegaugeHpl(nodegauge_hpl):
    valid_systems = ['*']
    valid_prog_environs = ['*']


@rfm.simple_test
class NodegaugeMpi(nodegauge_mpi):
    valid_systems = ['*']
    valid_prog_environs = ['*']
